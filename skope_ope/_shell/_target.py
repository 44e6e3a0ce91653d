# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The rounds to look at, and what the policies that the options name do there."""

import numpy as np

from skope_ope._meant import meant
from skope_ope._shell._source import extra_column
from skope_ope.logs._columns_of_labels import check_order
from skope_ope.policies import ConstantPolicy, UniformPolicy
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._learned_policy import divide, learn_policy
from skope_ope.policies._policy_files import read_policy_table
from skope_ope.policies._policy_on_columns import policy_on_columns


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
            policy, text = learned(one, args, train, progress)
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


def learned(wanted, args, train, progress):
    """Learn a policy on some of the rounds; return it and what it is."""
    epsilon = args.epsilon if wanted.kind == "epsilon-greedy" else 0.0
    with progress.step(f"learning a policy on {len(train):,} rounds"):
        policy = learn_policy(train, args.learner, epsilon, args.random_state)
    exploring = f" with epsilon {epsilon:g}" if epsilon else ""
    return policy, (
        f"{wanted.kind}{exploring} on {type(policy.classifier_).__name__}, learned on "
        f"{len(train):,} rounds"
    )
