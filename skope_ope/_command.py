# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the commands of the shell do: options in, a report out."""

import os
from dataclasses import replace

import numpy as np
from sklearn.utils import check_random_state

from skope_ope import __version__
from skope_ope.datasets._digits_demo import digits_demo
from skope_ope.displays._value_report import report_record, warning_records
from skope_ope.evaluators import evaluate
from skope_ope.evaluators._defaults import DEFAULTS
from skope_ope.evaluators._logged_value import logged_value
from skope_ope.evaluators._named_evaluators import named_evaluators
from skope_ope.evaluators._names import STATIC
from skope_ope.evaluators.core._seeds import with_seed
from skope_ope.logs._model_features import check_features
from skope_ope.policies import ConstantPolicy, UniformPolicy
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._learned_policy import divide, learn_policy
from skope_ope.policies._policy_files import load_policy, read_policy_table
from skope_ope.policies._policy_on_columns import logs_on_columns, policy_on_columns
from skope_ope.propensities import PropensityEstimator
from skope_ope.readers._read_logs import read_logs
from skope_ope.readers._table_logs import Roles
from skope_ope.reward_models._named_models import named_reward_model
from skope_ope.reward_models._sources import reward_source
from skope_ope.selection._agreement import agreement_caveat, drift

LEVEL = 0.95
MANY_LOGGERS = 20
LEARNED = ("greedy", "epsilon-greedy")
WORDS = ("uniform", *LEARNED, "evaluated")


def run_evaluate(args, progress, caught):
    """Return the report of `evaluate`.

    Parameters
    ----------
    args : namespace
        The options of the command line.
    progress : Progress
        Where to tell what is being done.
    caught : list of warnings.WarningMessage
        Where warnings are recorded meanwhile.

    Returns
    -------
    report : dict
        What `to_text` and `to_json` show.
    """
    check_arguments(args)
    evaluators = args.evaluators and named_evaluators(args.evaluators, args.folds)
    saved = saved_policy(args)
    source = read_source(args, args.logs, progress, saved)
    logs = source.logs
    if args.policy in LEARNED:
        logs, policy, told = learned(args, logs, progress)
    else:
        policy, told = target(args, source, saved)
    if evaluators is None and isinstance(policy, np.ndarray) and policy.ndim == 1:
        evaluators = ["IPS", "SNIPS"]  # the others need all actions' probabilities
    model = shared = named_reward_model(args.reward_model, logs)
    if isinstance(policy, AdaptivePolicy):
        logs, shared = for_learning(args, source, policy, model)
    with progress.step(f"evaluating on {len(logs):,} rounds"):
        values = evaluate(
            policy,
            logs,
            evaluators=evaluators,
            reward_model=shared,
            cv=args.folds,
            random_state=args.random_state,
        )
        baseline = logged_value(logs)
        against = baseline if args.gain else None
        records = [
            report_record(
                name,
                value,
                args.level,
                baseline=against,
                recommended=values.recommended,
            )
            for name, value in values.items()
        ]
    report = start_report(args, records)
    report["recommendation"] = recommendation(values)
    report["about"] = {
        "log": log_text(args, source),
        "policy": told,
        "model": model_text(args, model, values),
    }
    report["n_rounds"], report["n_actions"] = len(logs), logs.n_actions
    if logs.propensity is None and not evaluators:
        report["notes"].append(
            "The propensities are unknown: only evaluators that need none are shown. "
            "Name a column or a number with --propensity, or let them be estimated."
        )
    if args.baseline:
        report["baseline"] = report_record("logger", baseline, args.level)
        report["reference_values"] += [report["baseline"], *by_logger(logs, args.level)]
    if args.compare_logs:
        other = read_source(args, args.compare_logs, progress, saved, like=source)
        if args.policy_columns or isinstance(policy, AdaptivePolicy):
            policy = None
        elif args.policy not in LEARNED:
            policy, _ = target(args, other, saved)
        compare(report, values, logs, other.logs, policy)
    report["warnings"] = warning_records(values, caught, args.level)
    return report


def recommendation(table):
    """Return which row of a table is recommended, and why it or none."""
    return {"evaluator": table.recommended, "reason": table.reason}


def check_arguments(args):
    """Raise if options contradict each other, or the policy is missing."""
    ways = [args.policy, args.policy_columns, args.policy_table]
    if sum(way is not None for way in ways) != 1:
        raise ValueError(
            "name one policy to evaluate: --policy, --policy-columns or --policy-table."
        )
    if args.policy_table_by and not args.policy_table:
        raise ValueError("--policy-table-by chooses a column of --policy-table FILE.")
    if args.folds < 2:
        raise ValueError(f"--folds must be at least 2, got {args.folds}.")


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


def read_source(args, path, progress, saved, like=None):
    """Read a log file as the options say."""
    given = {
        "action": args.action,
        "reward": args.reward,
        "propensity": None if args.propensity == "estimate" else args.propensity,
        "context": args.context or None,
        "actions": args.actions,
        "logger": args.logger,
        "timestamp": args.timestamp,
        "group": args.group,
        "sample_weight": args.weight,
    }
    given = {field: value for field, value in given.items() if value is not None}
    extra = [(name, "feature") for name in getattr(saved, "feature_names_in_", ())]
    if args.policy_columns and like is None:
        extra += [(name, "number") for name in args.policy_columns]
    if args.policy_table_by:
        extra.append((args.policy_table_by, "label"))
    roles = Roles(extra=tuple(extra), **given) if given else None
    with progress.step(f"reading {path}") as tell:
        source = read_logs(
            path,
            roles,
            format=args.format,
            like=like,
            align_with=args.compare_logs if like is None else args.logs,
            on_error="skip" if args.skip_bad_lines else "raise",
            report=lambda n_rows: tell(f"{n_rows:,} rows"),
        )
    if args.propensity == "estimate":
        with progress.step("estimating the propensities"):
            check_features(source.logs, "'--propensity estimate'", takes_missing=False)
            estimator = PropensityEstimator(cv=args.folds)
            source = replace(source, logs=estimator.fit_transform(source.logs))
    return source


def target(args, source, saved):
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


def for_learning(args, source, policy, model):
    """Return the logs on which a policy learns, and what predicts rewards there.

    The policy sees the columns as they are, a model fitted here sees them encoded: it
    predicts, out of fold, beforehand.
    """
    if not args.evaluators:
        raise ValueError(
            f"{type(policy).__name__} learns while it acts, so its value depends on "
            "the length of its history: name evaluators that walk through the log, as "
            "--evaluators DRns:horizon=100,RejectionSampling:horizon=100, or "
            "Replay:horizon=100 where the logger chose uniformly. To evaluate what it "
            "has learned already, save policy.frozen()."
        )
    if hasattr(model, "fit"):
        model = with_seed(model, check_random_state(args.random_state))
        predict = reward_source(model, source.logs, args.folds).bind(source.logs)
        model = predict(source.logs, 0)
    return logs_on_columns(policy, source), model


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


def learned(args, logs, progress):
    """Learn on a part of the rounds; return the others, the policy and what it is."""
    train, test = divide(logs, args.train_share, args.random_state)
    epsilon = args.epsilon if args.policy == "epsilon-greedy" else 0.0
    with progress.step(f"learning a policy on {len(train):,} rounds"):
        policy = learn_policy(train, args.learner, epsilon, args.random_state)
    exploring = f" with epsilon {epsilon:g}" if epsilon else ""
    told = (
        f"{args.policy}{exploring} on {type(policy.classifier_).__name__}, learned on "
        f"{len(train):,} rounds and evaluated on the {len(test):,} others"
    )
    return test, policy, told


def by_logger(logs, level):
    """Return the mean reward of each logger, where there are several."""
    if logs.loggers is None or not 1 < len(logs.loggers) <= MANY_LOGGERS:
        return []
    return [
        report_record(
            f"logger {label}", logged_value(logs[logs.logger == label]), level
        )
        for label in logs.loggers.tolist()
        if (logs.logger == label).any()
    ]


def log_text(args, source):
    """Say what was read."""
    logs, about = source.logs, source.logs.summary()
    return (
        f"{args.logs} ({source.format}): {about['rounds']} rounds, {logs.n_actions:,} "
        f"actions, {logs.n_features:,} features, reward {about['reward']}, propensity "
        f"{about['propensity']}"
    )


def model_text(args, model, values):
    """Say what predicts rewards."""
    if model is None:
        own = any(value.estimator == "DRns" for value in values.values())
        return "mean reward of the action, out of fold" + (
            " (DRns: of all actions together)" * own
        )
    if isinstance(model, float):
        return f"{model:g} everywhere"
    return f"{type(model).__name__} for each action, out of fold ({args.folds} folds)"


def compare(report, values, logs, other, policy):
    """Put the mean reward of the policy's own log beside the estimates."""
    level, path = report["level"], report["arguments"]["compare_logs"]
    on_policy = logged_value(other)
    record = report_record("on-policy", on_policy, level)
    report["reference_values"].append(record)
    for entry, value in zip(report["values"], values.values(), strict=True):
        error = np.hypot(value.standard_error, on_policy.standard_error)
        gap = value.value - on_policy.value
        entry["z_on_policy"] = float(gap / error) if error > 0 else float("nan")
    rewarded = tuple(int((rounds.reward != 0).sum()) for rounds in (logs, other))
    drifted = None if policy is None else drift(policy, other)
    caveat = agreement_caveat(list(values.values()), on_policy, rewarded, drifted)
    report["on_policy"] = {
        **record,
        "rewarded_rounds": rewarded,
        "drift": drifted,
        "caveat": caveat,
    }
    note = (
        f"On-policy: the mean reward of the {len(other):,} rounds of {path}; z is the "
        "difference of an estimate to it in their combined standard errors."
    )
    report["notes"].append(f"{note} Caveat: {caveat}" if caveat else note)


def start_report(args, values):
    """Return a report with what every command tells."""
    arguments = {name: value for name, value in vars(args).items() if name != "run"}
    return {
        "version": __version__,
        "command": args.command,
        "arguments": arguments,
        "level": getattr(args, "level", LEVEL),
        "about": {},
        "values": values,
        "reference_values": [],
        "notes": [],
    }


def run_demo(args, progress, caught):
    """Return the report of `demo`, see `run_evaluate`."""
    with progress.step("evaluating a policy on handwritten digits"):
        others = [name for name in STATIC if name not in DEFAULTS]
        demo = digits_demo([*DEFAULTS, *others], args.random_state)
    table = demo.table
    records = [
        report_record(name, value, LEVEL, recommended=table.recommended)
        for name, value in table.items()
    ]
    report = start_report(args, records)
    report["recommendation"] = recommendation(table)
    report.update(about=demo.about, notes=demo.notes, truth=demo.truth)
    for record in report["values"]:
        record["error"] = record["value"] - demo.truth
        record["covers"] = bool(record["low"] <= demo.truth <= record["high"])
    report["reference_values"].append({"evaluator": "true value", "value": demo.truth})
    report["warnings"] = warning_records(table, caught, LEVEL)
    return report
