# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The rounds to look at, and what the policies that the options name do there."""

from dataclasses import replace

import numpy as np

from skope_ope._meant import meant
from skope_ope.logs._columns_of_labels import check_order
from skope_ope.logs._model_features import check_features
from skope_ope.policies import ConstantPolicy, UniformPolicy
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._policy_files import (
    divide,
    learn_policy,
    policy_on_columns,
    read_policy_table,
)
from skope_ope.propensities import PropensityEstimator
from skope_ope.readers._read_logs import read_logs
from skope_ope.readers._table_logs import Roles


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
        check_features(source.logs, "'--propensity estimate'", takes_missing=False)
        estimator = PropensityEstimator(cv=args.folds)
        return replace(source, logs=estimator.fit_transform(source.logs))


def _roles(args, wanted, policy_columns):
    """Return which column means what; None where no option names one."""
    if args.propensity == "estimate" and args.logging_proba is not None:
        raise ValueError(
            "--propensity estimate and --logging-proba are both given: leave out the "
            "estimate where the log has the probabilities."
        )
    needed = {"action": args.action, "reward": args.reward}
    given = needed | {
        "propensity": None if args.propensity == "estimate" else args.propensity,
        "logging_proba": args.logging_proba,
        "context": args.context,
        "exclude": args.exclude,
        "actions": args.actions,
        "logger": args.logger,
        "timestamp": args.timestamp,
        "group": args.group,
        "sample_weight": args.weight,
    }
    given = {field: value for field, value in given.items() if value is not None}
    extra = []
    for one in wanted:
        known = getattr(one.saved, "feature_names_in_", ())
        extra += [(name, "feature") for name in known]
        if one.kind == "columns" and policy_columns:
            extra += [(name, "number") for name in one.value]
    if args.policy_table_by:
        extra.append((args.policy_table_by, "label"))
    extra = tuple(dict.fromkeys(extra))
    return Roles(extra=extra, **(needed | given)) if given else None


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
