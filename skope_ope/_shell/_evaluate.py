# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The command `evaluate`: what another policy would have earned."""

import numpy as np
from sklearn.utils import check_random_state

from skope_ope._shell._answer import LEVEL, Answer, start_record
from skope_ope._shell._source import log_text, read_source
from skope_ope._shell._target import (
    LEARNED,
    check_policy_options,
    rounds_and_target,
    saved_policy,
    target,
)
from skope_ope.displays._value_report import report_record, to_text, warning_records
from skope_ope.evaluators import evaluate
from skope_ope.evaluators._logged_value import logged_value
from skope_ope.evaluators._named_evaluators import named_evaluators
from skope_ope.evaluators.core._seeds import with_seed
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._policy_on_columns import logs_on_columns
from skope_ope.reward_models._named_models import named_reward_model
from skope_ope.reward_models._sources import reward_source
from skope_ope.selection._agreement import agreement_caveat, drift

MANY_LOGGERS = 20


def run_evaluate(args, progress, caught):
    """Return the answer of `evaluate`.

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
    answer : Answer
        What `to_text` and `to_json` show.
    """
    check_policy_options(args)
    named = args.evaluators and named_evaluators(args.evaluators, args.folds)
    saved = saved_policy(args)
    source = read_source(args, args.logs, progress, saved, beside=args.compare_logs)
    logs, policy, told = rounds_and_target(args, source, saved, progress)
    model = shared = named_reward_model(args.reward_model, logs)
    if isinstance(policy, AdaptivePolicy):
        logs, shared = for_learning(args, source, policy, model)
    with progress.step(f"evaluating on {len(logs):,} rounds"):
        values = evaluate(
            policy,
            logs,
            evaluators=named or _evaluators_for(policy),
            reward_model=shared,
            cv=args.folds,
            random_state=args.random_state,
        )
        report = start_report(args, _records(args, values, logs))
        _add_references(args, report, logs)
    report["about"] = {
        "log": log_text(args.logs, source),
        "policy": told,
        "model": model_text(args, model, values),
    }
    report["n_rounds"], report["n_actions"] = len(logs), logs.n_actions
    report["recommendation"] = recommendation(values)
    if args.compare_logs:
        other = read_source(
            args, args.compare_logs, progress, saved, like=source, beside=args.logs
        )
        acts = _policy_there(args, policy, other, saved)
        compare(report, values, logs, other.logs, acts)
    report["warnings"] = warning_records(values, caught, args.level)
    return Answer(report, to_text(report))


def _add_references(args, report, logs):
    """Add the logger's own value, and what a missing propensity means."""
    if logs.propensity is None and not args.evaluators:
        report["notes"].append(
            "The propensities are unknown: only evaluators that need none are shown. "
            "Name a column or a number with --propensity, or let them be estimated."
        )
    if args.baseline:
        report["baseline"] = report_record("logger", logged_value(logs), args.level)
        report["reference_values"] += [report["baseline"], *by_logger(logs, args.level)]


def _evaluators_for(policy):
    """Return the evaluators of a policy of which only the logged action's is known."""
    if isinstance(policy, np.ndarray) and policy.ndim == 1:
        return ["IPS", "SNIPS"]  # the others need all actions' probabilities
    return None


def _records(args, values, logs):
    """Return the rows of the table."""
    baseline = logged_value(logs) if args.gain else None
    return [
        report_record(
            name,
            value,
            args.level,
            baseline=baseline,
            recommended=values.recommended,
        )
        for name, value in values.items()
    ]


def _policy_there(args, policy, other, saved):
    """Return the policy on another log; None where it cannot be asked there."""
    if args.policy_columns or isinstance(policy, AdaptivePolicy):
        return None
    return policy if args.policy in LEARNED else target(args, other, saved)[0]


def recommendation(table):
    """Return which row of a table is recommended, and why it or none."""
    return {"evaluator": table.recommended, "reason": table.reason}


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
    """Return a report of values, to be filled."""
    return {
        **start_record(args),
        "level": getattr(args, "level", LEVEL),
        "about": {},
        "values": values,
        "reference_values": [],
        "notes": [],
    }
