# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The log and the policies that the options name, and what the policies do there."""

import argparse
import csv
import json
import os
import re
from argparse import ArgumentTypeError
from dataclasses import dataclass, replace
from io import BytesIO
from zipfile import ZipFile

import numpy as np

from skope_ope._sklearn import inside
from skope_ope._texts import meant
from skope_ope.evaluators.scavenging._reordering_scavenging import ReorderingPolicy
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._context_encoder import (
    Categories,
    ContextEncoder,
    Missing,
    Number,
    check_features,
)
from skope_ope.logs._fields import BANDIT, WEIGHT_COLUMN, column_fields
from skope_ope.logs._frames import check_order
from skope_ope.logs._known_rows import Bits, Content, FileRows, KnownRows
from skope_ope.logs._row_container import RowId
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs._text_files import number, read_members, whole_number
from skope_ope.policies import (
    AdaptiveFunctionPolicy,
    ConstantPolicy,
    FunctionPolicy,
    UniformPolicy,
)
from skope_ope.policies._adaptive import AdaptivePolicy, FrozenPolicy
from skope_ope.policies._policy_files import (
    divide,
    learn_policy,
    policy_on_columns,
    read_policy_table,
)
from skope_ope.policies.adaptive._online_classifier_policy import ArmModels
from skope_ope.policies.slate._empirical_slate_policy import LabelsOfRows
from skope_ope.propensities import PropensityEstimator
from skope_ope.readers._read_logs import read_logs
from skope_ope.readers._table_logs import Roles
from skope_ope.reward_models._action_reward_model import ActionRewardModel
from skope_ope.reward_models._slate_reward_models import AdditiveSlateModel
from skope_ope.selection._outcome import LOGGER
from skope_ope.utils.discovery import all_policies, all_slate_policies

LEARNED = ("greedy", "epsilon-greedy")
FILE, TABLE = "file", "table"
POLICY_WORDS = ("uniform", *LEARNED, "evaluated")
PREFIXES = ("always", "columns", TABLE)  # of what stands behind a colon
UNNAMED = "policy"  # what requirements call one that has no name
RESERVED = (LOGGER, "trustworthy", "caution", "not")  # what requirements call others
POLICY_WORD = r"[^\W\d][\w-]*"  # it must be told from a number, and end before a dot


@dataclass(frozen=True)
class PolicyAsked:
    """A policy that the options name."""

    name: str  # what it is called
    kind: str  # one of `POLICY_WORDS`, `PREFIXES` or "file"
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
    if policy in POLICY_WORDS:
        return PolicyAsked(called, policy)
    kind, colon, value = policy.partition(":")
    if colon and kind in PREFIXES:
        return PolicyAsked(
            called, kind, _names_in(value) if kind == "columns" else value
        )
    if not os.path.exists(policy):
        raise ValueError(
            f"--policy {policy!r} is neither a file nor one of "
            f"{', '.join(POLICY_WORDS)}, "
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

HELD = (  # what policies are made of, and the rows that they know
    *(ActionRewardModel, AdditiveSlateModel, ArmModels, FrozenPolicy, LabelsOfRows),
    *(BanditLogs, RowId, SlateLogs, Bits, Content, FileRows, KnownRows),
    *(Categories, ContextEncoder, Missing, Number, ReorderingPolicy),
)
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
    known = policies.difference(CALLS).union(HELD)
    return {f"{one.__module__}.{one.__name__}" for one in known}


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


# -- the rounds to look at, and what the policies do there -----------------------------


def rounds_and_targets(args, source, wanted, progress):
    """Return the rounds to look at, and the policies on them."""
    # Where a policy is learned here, all are looked at on the rounds that it has not
    # learned from.
    logs, train = source.logs, None
    if any(one.is_learned for one in wanted):
        train, logs = divide(logs, args.train_share, args.random_state)
    policies, told = {}, {}
    for one in wanted:
        if one.is_learned:
            policy, text = learned(one, args, train, source.logs.context, progress)
            text += f"; all numbers below are about the {len(logs):,} others"
        else:
            policy, text = target(one, args, source)
            if train is not None and isinstance(policy, np.ndarray):
                policy = policy[logs.row_id.position]
        policies[one.name], told[one.name] = policy, text
    return logs, policies, told


def target(wanted, args, source):
    """Return the policy, or its probabilities on these logs, and what it is."""
    logs = source.logs
    if wanted.kind == "columns":
        return columns_policy(wanted.value, source)
    if wanted.kind == "table":
        by = args.policy_table_by
        column = None if by is None else extra_column(source, by, "label")
        proba = read_policy_table(wanted.value, logs.actions, column)
        told = f"probabilities of {wanted.value}{f' by {by}' if by else ''}"
        return np.broadcast_to(proba, (len(logs), logs.n_actions)), told
    if wanted.saved is not None:
        told = f"{type(wanted.saved).__name__} of {wanted.value}"
        if isinstance(wanted.saved, AdaptivePolicy):
            told = f"{told}, which learns from an empty history"
            return wanted.saved, told
        return policy_on_columns(wanted.saved, source), told
    if wanted.kind == "uniform":
        return UniformPolicy(), "uniform over the actions"
    if wanted.kind == "evaluated":
        return extra_column(source, "evaluated", "number"), "the evaluated actions"
    labels = {str(label): label for label in logs.actions.tolist()}
    if wanted.value not in labels:
        shown = ", ".join(map(repr, list(labels)[:12]))
        raise ValueError(
            f"--policy: action {wanted.value!r} is not among {shown}."
            f"{meant(wanted.value, labels)}"
        )
    return ConstantPolicy(labels[wanted.value]), f"always {wanted.value}"


def columns_policy(names, source):
    """Return the probabilities in columns of the file, and what they are."""
    logs = source.logs
    columns = [extra_column(source, name, "number") for name in names]
    if len(names) == logs.n_actions:
        remedy = ", or list the actions in that of the columns with --actions"
        check_order("--policy-columns", names, logs.actions, remedy)
        pairs = zip(names, logs.actions.tolist(), strict=True)
        told = ", ".join(f"{label}: {name}" for name, label in pairs)
        return np.column_stack(columns), f"probabilities in columns ({told})"
    if len(names) == 1:
        return columns[0], f"probability of the logged action in column {names[0]}"
    raise ValueError(
        f"--policy-columns names {len(names)} columns, but there are {logs.n_actions} "
        f"actions: {', '.join(map(str, logs.actions[:12].tolist()))}. Name one column "
        "for each action in this order, or give all actions with --actions."
    )


def learned(wanted, args, train, context, progress):
    """Learn a policy on some of the rounds; return it and what it is."""
    epsilon = args.epsilon if wanted.kind == "epsilon-greedy" else 0.0
    with progress.step(f"learning a policy on {len(train):,} rounds"):
        how = args.learner, epsilon, args.random_state
        policy = learn_policy(train, context, *how)
    exploring = f" with epsilon {epsilon:g}" if epsilon else ""
    return policy, (
        f"{wanted.kind}{exploring} on {type(inside(policy.classifier_)).__name__}, "
        f"learned on {len(train):,} rounds"
    )


# -- the log file that the options name, and what is to be said of it ------------------


def read_source(
    args, path, progress, wanted=(), *, like=None, beside=None, as_frame=False
):
    """Read a log file as the options say."""
    roles = _roles(args, wanted, policy_columns=like is None)
    with progress.step(f"reading {path}") as tell:
        source = read_logs(
            path,
            roles,
            format=args.format,
            like=like,
            align_with=beside,
            as_frame=as_frame,
            on_error="skip" if args.skip_bad_lines else "raise",
            report=lambda n_rows: tell(f"{n_rows:,} rows"),
        )
    if args.propensity != "estimate":
        return source
    with progress.step("estimating the propensities"):
        check_features(source.logs, "'--propensity estimate'")
        estimator = PropensityEstimator(cv=args.folds)
        return replace(source, logs=estimator.fit_transform(source.logs))


def _roles(args, wanted, policy_columns):
    """Return which column means what; None where no option names one."""
    if args.propensity == "estimate" and args.logging_proba is not None:
        raise ValueError(
            "--propensity estimate and --logging-proba are both given: leave out the "
            "estimate where the log has the probabilities."
        )
    names = [*column_fields(BANDIT), "logging_proba", "actions"]
    named = {name: getattr(args, option_of(name)) for name in names}
    named = {name: value for name, value in named.items() if value is not None}
    if args.propensity == "estimate":
        del named["propensity"]
    extra = []
    for one in wanted:
        known = getattr(one.saved, "feature_names_in_", ())
        extra += [(name, "feature") for name in known]
        if one.kind == "columns" and policy_columns:
            extra += [(name, "number") for name in one.value]
    if args.policy_table_by:
        extra.append((args.policy_table_by, "label"))
    extra = tuple(dict.fromkeys(extra))
    if not named and args.context is None and args.exclude is None:
        return None
    return Roles(named, args.context, args.exclude, extra)


def option_of(name):
    """Return what the option for a field of the logs is called."""
    return "weight" if name == WEIGHT_COLUMN else name


def extra_column(source, name, kind):
    """Return a further column of the file."""
    if source.extra and (name, kind) in source.extra:
        return source.extra[name, kind]
    if name not in source.logs.columns:
        found = ", ".join(source.logs.columns) or "none"
        raise ValueError(
            f"a log read as {source.format} has no column {name!r}; it has {found}."
        )
    return source.logs.columns[name]


def log_text(path, source):
    """Say what was read."""
    logs, about = source.logs, source.logs.summary()
    features = f"{logs.n_features:,} features"
    if source.features and len(source.features) != logs.n_features:
        features = (
            f"{len(source.features):,} features (as {logs.n_features:,} columns where "
            "texts are encoded)"
        )
    return (
        f"{path} ({source.format}): {about['rounds']} rounds, {logs.n_actions:,} "
        f"actions, {features}, reward {about['reward']}, propensity "
        f"{about['propensity']}"
    )
