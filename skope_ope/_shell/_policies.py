# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which policies the options name, and what they are called."""

import argparse
import csv
import json
import os
import re
from argparse import ArgumentTypeError
from dataclasses import dataclass
from io import BytesIO
from zipfile import ZipFile

import numpy as np

from skope_ope.logs._text_files import number, read_members, whole_number
from skope_ope.policies import AdaptiveFunctionPolicy, FunctionPolicy
from skope_ope.selection._policy_comparison import LOGGER
from skope_ope.utils.discovery import all_policies, all_slate_policies

LEARNED = ("greedy", "epsilon-greedy")
FILE, TABLE = "file", "table"
WORDS = ("uniform", *LEARNED, "evaluated")
PREFIXES = ("always", "columns", TABLE)  # of what stands behind a colon
UNNAMED = "policy"  # what requirements call one that has no name
RESERVED = (LOGGER, "trustworthy", "caution", "not")  # what requirements call others
POLICY_WORD = r"[^\W\d][\w-]*"  # it must be told from a number, and end before a dot


@dataclass(frozen=True)
class PolicyAsked:
    """A policy that the options name."""

    name: str  # what it is called
    kind: str  # one of `WORDS`, `PREFIXES` or "file"
    value: str | tuple = ""  # what the kind needs: an action, columns, a file
    saved: object = None  # that of the file

    @property
    def is_learned(self):
        """Whether it is learned here, on a part of the rounds."""
        return self.kind in LEARNED


def wanted_policies(args, needed=True):
    """Return the policies that the options name, those of files loaded."""
    texts = list(args.policy or ())
    ways = [bool(texts), args.policy_columns is not None, args.policy_table is not None]
    if sum(ways) > 1 or (needed and not any(ways)):
        raise ValueError(
            f"name one policy to {args.command}: --policy, --policy-columns or "
            "--policy-table. Several are --policy NAME=POLICY, repeated, where POLICY "
            "may be columns:A,B or table:FILE."
        )
    if args.policy_columns is not None:
        found = [PolicyAsked(UNNAMED, "columns", args.policy_columns)]
    elif args.policy_table is not None:
        found = [PolicyAsked(UNNAMED, TABLE, args.policy_table)]
    else:
        found = [_wanted(text, args, several=len(texts) > 1) for text in texts]
    if args.policy_table_by and all(one.kind != TABLE for one in found):
        raise ValueError("--policy-table-by chooses a column of --policy-table FILE.")
    if args.folds < 2:
        raise ValueError(f"--folds must be at least 2, got {args.folds}.")
    called = [one.name for one in found]
    twice = next((name for name in called if called.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"two policies are called {twice!r}: give each its own name.")
    return found


def _wanted(text, args, several):
    """Return the policy of one --policy."""
    name, policy = _name_and_policy(text)
    if several and name is None:
        raise ValueError(
            f"several policies need names, --policy NAME=POLICY, got {text!r}."
        )
    called = UNNAMED if name is None else name
    if policy in WORDS:
        return PolicyAsked(called, policy)
    kind, colon, value = policy.partition(":")
    if colon and kind in PREFIXES:
        return PolicyAsked(
            called, kind, _names_in(value) if kind == "columns" else value
        )
    if not os.path.exists(policy):
        raise ValueError(
            f"--policy {policy!r} is neither a file nor one of {', '.join(WORDS)}, "
            "always:ACTION, columns:A,B and table:FILE."
        )
    saved = load_policy(policy, trust=args.trust)
    return PolicyAsked(called, FILE, policy, saved)


def _names_in(text):
    try:
        return names(text)
    except ArgumentTypeError as error:
        raise ValueError(f"--policy columns:... {error}") from error


def _name_and_policy(text):
    """Part NAME=POLICY; the name of what is a policy as it stands is None."""
    name, equals, policy = text.partition("=")
    kind = text.partition(":")
    if not equals or (kind[1] and kind[0] in PREFIXES) or os.path.exists(text):
        return None, text
    if not re.fullmatch(POLICY_WORD, name):
        raise ValueError(
            f"--policy {text!r}: {name!r} is no name of a policy. Names begin with a "
            "letter and consist of letters, digits, - and _."
        )
    if name in RESERVED:
        meant = "the logger itself" if name == LOGGER else "the answer of a verdict"
        raise ValueError(
            f"--policy {text!r}: {name!r} means {meant}. Choose another name."
        )
    return name, policy


# -- policies that skops, pickle or joblib saved; code in files runs on trust only -----

HELD = {  # by module: what policies are made of, and the rows that they know
    "evaluators.scavenging._reordering_policy": "ReorderingPolicy",
    "logs._bandit_logs": "BanditLogs",
    "logs._context_encoder": "Categories ContextEncoder Missing Number",
    "logs._known_rows": "Bits Content FileRows KnownRows",
    "logs._row_container": "RowId",
    "logs._slate_logs": "SlateLogs",
    "policies._adaptive": "FrozenPolicy",
    "policies.adaptive._online_classifier_policy": "ArmModels",
    "policies.slate._empirical_slate_policy": "LabelsOfRows",
    "reward_models._action_reward_model": "ActionRewardModel",
    "reward_models._additive_slate_model": "AdditiveSlateModel",
}
CALLS = (AdaptiveFunctionPolicy, FunctionPolicy)  # they call what they hold


def load_policy(path, *, trust=False):
    """Load a policy that was saved by skops or pickle."""
    path = os.fspath(path)
    if not os.path.isfile(path):
        kind = "is a folder" if os.path.isdir(path) else "no such file"
        raise FileNotFoundError(f"{path}: {kind}. Name the file of a saved policy.")
    load = _load_skops if path.lower().endswith(".skops") else _load_pickle
    return load(path, trust)


def _load_pickle(path, trust):
    if not trust:
        raise PermissionError(
            f"{path} is taken for a pickle, and loading a pickle runs the code in it. "
            "Pass --trust if you know who wrote it, or save the policy with skops "
            "(.skops)."
        )
    import joblib

    try:
        return joblib.load(path)
    except Exception as error:  # a pickle may raise anything
        raise ValueError(
            f"{path} cannot be unpickled ({type(error).__name__}: {error}). Save the "
            "policy again, with the same versions of its libraries."
        ) from error


def _load_skops(path, trust):
    try:
        from skops import io
    except ImportError as error:
        raise ImportError(f"{path} needs skops: pip install skops.") from error
    try:
        if trust:
            return io.load(path, trusted=io.get_untrusted_types(file=path))
        copy, members = BytesIO(), read_members(path)
        with ZipFile(copy, "w") as file:  # what lies about its size stays behind
            for name, content in members.items():
                file.writestr(name, content)
        known, content = _known_classes(), copy.getvalue()
        foreign = set(io.get_untrusted_types(data=content)) - known
        foreign.update(_calls(json.loads(members["schema.json"]), known))
        if not foreign:
            found = io.loads(content, trusted=list(known))
            if all(getattr(one, "memory", None) is None for one in _parts_held(found)):
                return found
            foreign = {"a cache, a folder of pickles (memory=)"}
    except Exception as error:
        raise ValueError(
            f"{path} cannot be read by skops ({type(error).__name__}: {error})."
        ) from error
    raise PermissionError(
        f"{path} holds what is not known to be safe: {', '.join(sorted(foreign))}. "
        "Pass --trust if you know who wrote it."
    )


def _known_classes():
    """Return the names of the classes that may be made, as skops writes them."""
    policies = {cls for _, cls in [*all_policies(), *all_slate_policies()]}
    names = {f"{one.__module__}.{one.__name__}" for one in policies.difference(CALLS)}
    return names | {f"skope_ope.{k}.{name}" for k in HELD for name in HELD[k].split()}


def _calls(schema, known):
    """Yield known classes that are called or named, not filled with attributes."""
    for part in _parts_held(schema):
        if isinstance(part, dict):
            node = part.get("__loader__")
            name = f"{part.get('__module__')}.{part.get('__class__')}"
            old = node == "FunctionNode" and "content" in part  # named in there
            if old or (name in known and node != "ObjectNode"):
                yield f"{name} as {node}"


def _parts_held(whole):
    """Yield an object and all that it holds, each once."""
    seen, parts = {}, [whole]
    while parts:
        part = parts.pop()
        if id(part) not in seen and not isinstance(part, type):
            seen[id(part)] = part
            yield part
            parts += getattr(part, "__dict__", {}).values()
            if isinstance(part, dict):
                parts += part.values()
            elif isinstance(part, (list, tuple, set)):
                parts += part
            elif isinstance(part, np.ndarray) and part.dtype.hasobject:
                parts += part.ravel().tolist()


# -- what stands behind an option: numbers, lists of names, propensities ---------------


def number_in(low, high, closed=False):
    """Return a parser of numbers between two bounds."""

    def parse(text):
        value = number(text)
        if not (low <= value <= high if closed else low < value < high):
            raise argparse.ArgumentTypeError(
                f"must lie in {'[' if closed else '('}{low:g}, {high:g}"
                f"{']' if closed else ')'}, got {text}"
            )
        return value

    parse.__name__ = "number"  # as argparse calls it
    return parse


def integer(text):
    """Parse a whole number."""
    return whole_number(text)


def names(text):
    """Parse a list with commas; quotes protect commas in names."""
    try:
        return tuple(next(csv.reader([text], skipinitialspace=True), ()))
    except csv.Error as error:
        raise argparse.ArgumentTypeError(
            f"is no list of names ({error}), got {text!r}. Put names with commas or "
            "line ends between double quotes, as in '\"one, two\",three'"
        ) from error


def propensity(text):
    """Parse a column, a number or a fraction."""
    above, _, below = text.partition("/")
    if text.removesuffix("%").strip().replace(".", "", 1).isdigit() and "%" in text:
        raise argparse.ArgumentTypeError(
            f"must be a number such as 0.25 or 1/3, or a column, got {text}"
        )
    try:
        value = number(above) / number(below or "1")
    except (ValueError, ZeroDivisionError):
        return text
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"must lie in (0, 1], got {text}")
    return value
