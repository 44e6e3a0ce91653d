# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which policies the options name, and what they are called."""

import os
import re
from argparse import ArgumentTypeError
from dataclasses import dataclass

from skope_ope._shell._option_values import names
from skope_ope._shell._saved_policies import load_policy

LEARNED = ("greedy", "epsilon-greedy")
FILE, TABLE = "file", "table"
WORDS = ("uniform", *LEARNED, "evaluated")
PREFIXES = ("always", "columns", TABLE)  # of what stands behind a colon
UNNAMED = "policy"  # what requirements call one that has no name
LOGGER = "logger"
RESERVED = (LOGGER, "trustworthy", "caution", "not")  # what requirements call others
NAME = r"[^\W\d][\w-]*"  # it must be told from a number, and end before a dot


@dataclass(frozen=True)
class Wanted:
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
        found = [Wanted(UNNAMED, "columns", args.policy_columns)]
    elif args.policy_table is not None:
        found = [Wanted(UNNAMED, TABLE, args.policy_table)]
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
        return Wanted(called, policy)
    kind, colon, value = policy.partition(":")
    if colon and kind in PREFIXES:
        return Wanted(called, kind, _names(value) if kind == "columns" else value)
    if not os.path.exists(policy):
        raise ValueError(
            f"--policy {policy!r} is neither a file nor one of {', '.join(WORDS)}, "
            "always:ACTION, columns:A,B and table:FILE."
        )
    saved = load_policy(policy, trust=args.trust)
    return Wanted(called, FILE, policy, saved)


def _names(text):
    try:
        return names(text)
    except ArgumentTypeError as error:
        raise ValueError(f"--policy columns:... {error}") from error


def _name_and_policy(text):
    """Part NAME=POLICY; the name of what is a policy as it stands is None."""
    name, equals, policy = text.partition("=")
    if not equals or text.startswith(tuple(f"{one}:" for one in PREFIXES)):
        return None, text
    if os.path.exists(text):
        return None, text
    if not re.fullmatch(NAME, name):
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
