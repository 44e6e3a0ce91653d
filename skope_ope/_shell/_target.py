# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The policy that the options name."""

import os

import numpy as np

from skope_ope._shell._source import extra_column
from skope_ope.policies import ConstantPolicy, UniformPolicy
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._learned_policy import divide, learn_policy
from skope_ope.policies._policy_files import load_policy, read_policy_table
from skope_ope.policies._policy_on_columns import policy_on_columns

LEARNED = ("greedy", "epsilon-greedy")
WORDS = ("uniform", *LEARNED, "evaluated")


def check_policy_options(args, needed=True):
    """Raise if options of the policy contradict each other, or it is missing."""
    ways = [args.policy, args.policy_columns, args.policy_table]
    n_named = sum(way is not None for way in ways)
    if n_named > 1 or (needed and not n_named):
        raise ValueError(
            f"name one policy to {args.command}: --policy, --policy-columns or "
            "--policy-table."
        )
    if args.policy_table_by and not args.policy_table:
        raise ValueError("--policy-table-by chooses a column of --policy-table FILE.")
    if args.folds < 2:
        raise ValueError(f"--folds must be at least 2, got {args.folds}.")
    return n_named == 1


def saved_policy(args):
    """Load the policy of a file; None where --policy is a word."""
    name = args.policy
    if name is None or name in WORDS or name.startswith("always:"):
        return None
    if not os.path.exists(name):
        raise ValueError(
            f"--policy {name!r} is neither a file nor one of {', '.join(WORDS)} and "
            "always:ACTION."
        )
    return load_policy(name, trust=args.trust)


def rounds_and_target(args, source, saved, progress):
    """Return the rounds to look at, the policy, and what it is."""
    if args.policy in LEARNED:
        return learned(args, source.logs, progress)
    return source.logs, *target(args, source, saved)


def target(args, source, saved=None):
    """Return the policy, or its probabilities on these logs, and what it is."""
    logs = source.logs
    if args.policy_columns:
        return columns_policy(args, source)
    if args.policy_table:
        by = args.policy_table_by
        column = None if by is None else extra_column(source, by, "label")
        proba = read_policy_table(args.policy_table, logs.actions, column)
        told = f"probabilities of {args.policy_table}{f' by {by}' if by else ''}"
        return np.broadcast_to(proba, (len(logs), logs.n_actions)), told
    if saved is not None:
        told = f"{type(saved).__name__} of {args.policy}"
        if isinstance(saved, AdaptivePolicy):
            return saved, f"{told}, which learns from an empty history"
        return policy_on_columns(saved, source), told
    if args.policy == "uniform":
        return UniformPolicy(), "uniform over the actions"
    if args.policy == "evaluated":
        return extra_column(source, "evaluated", "number"), "the evaluated actions"
    wanted = args.policy.removeprefix("always:")
    labels = {str(label): label for label in logs.actions.tolist()}
    if wanted not in labels:
        shown = ", ".join(map(repr, list(labels)[:12]))
        raise ValueError(f"--policy: action {wanted!r} is not among {shown}.")
    return ConstantPolicy(labels[wanted]), f"always {wanted}"


def columns_policy(args, source):
    """Return the probabilities in columns of the file, and what they are."""
    logs, names = source.logs, args.policy_columns
    columns = [extra_column(source, name, "number") for name in names]
    if len(names) == logs.n_actions:
        pairs = zip(names, logs.actions.tolist(), strict=True)
        told = ", ".join(f"{label}: {name}" for name, label in pairs)
        return np.column_stack(columns), f"probabilities in columns ({told})"
    if len(names) == 1:
        return columns[0], f"probability of the logged action in column {names[0]}"
    raise ValueError(
        f"--policy-columns names {len(names)} columns, but there are {logs.n_actions} "
        f"actions: {', '.join(map(str, logs.actions[:12].tolist()))}. Name one column "
        "for each in this order, or all actions with --actions."
    )


def learned(args, logs, progress):
    """Learn on a part of the rounds; return the others, the policy and what it is."""
    train, test = divide(logs, args.train_share, args.random_state)
    epsilon = args.epsilon if args.policy == "epsilon-greedy" else 0.0
    with progress.step(f"learning a policy on {len(train):,} rounds"):
        policy = learn_policy(train, args.learner, epsilon, args.random_state)
    exploring = f" with epsilon {epsilon:g}" if epsilon else ""
    told = (
        f"{args.policy}{exploring} on {type(policy.classifier_).__name__}, learned on "
        f"{len(train):,} rounds; everything here is told of the {len(test):,} others"
    )
    return test, policy, told
