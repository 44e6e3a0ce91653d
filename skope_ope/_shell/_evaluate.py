# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The command `evaluate`: what other policies would have earned."""

import numpy as np
from sklearn.utils import check_random_state

from skope_ope._shell._answer import LEVEL, Answer, start_record
from skope_ope._shell._audit import audits_of
from skope_ope._shell._gate import add_verdict_on_gain, add_verdicts
from skope_ope._shell._on_policy import compare_with_log, refuse_several
from skope_ope._shell._policies import wanted_policies
from skope_ope._shell._report import refuse_report, write_report
from skope_ope._shell._source import log_text, read_source
from skope_ope._shell._target import rounds_and_targets
from skope_ope._shell._value_report import (
    report_record,
    row_name,
    to_text,
    warning_records,
)
from skope_ope.evaluators._evaluate import quiet_table
from skope_ope.evaluators._logged_value import logged_value
from skope_ope.evaluators._named_evaluators import named_evaluators
from skope_ope.evaluators.core._seeds import with_seed
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._policy_on_columns import logs_on_columns
from skope_ope.reports._write import checked_path
from skope_ope.reward_models._named_models import named_reward_model
from skope_ope.reward_models._sources import reward_source
from skope_ope.selection._compare_policies import comparison_of
from skope_ope.selection._policy_comparison import LOGGER

MANY_LOGGERS = 20
NOT_MET = 1  # the exit code where a requirement does not hold


def run_evaluate(args, progress, caught):
    """Return the answer of `evaluate`."""
    checked_path(args.report)  # before anything is read
    wanted = wanted_policies(args)
    refuse_several(args, wanted)
    refuse_report(args, wanted)
    for one in args.require:
        one.check_names([policy.name for policy in wanted])
    named = args.evaluators and named_evaluators(args.evaluators, args.folds)
    source = read_source(args, args.logs, progress, wanted, beside=args.compare_logs)
    logs, policies, told = rounds_and_targets(args, source, wanted, progress)
    model = shared = named_reward_model(args.reward_model, logs)
    about, audited = {"log": log_text(args.logs, source)}, None
    if (args.require or args.report) if args.audit is None else args.audit:
        audited = _audits(args, source, wanted, logs, policies, about, progress)
    if any(map(learns, policies.values())):
        logs, shared = for_learning(args, source, policies, model)
    with progress.step(f"evaluating on {len(logs):,} rounds"):
        values = quiet_table(
            policies,
            logs,
            named or _evaluators_for(policies),
            shared,
            args.folds,
            random_state=args.random_state,
        )
        report = start_report(args, _records(args, values, logs, len(policies)))
        _add_references(args, report, logs)
    model_told = {"model": model_text(args, model, values)}
    report["about"] = about | _policy_texts(told) | model_told
    report["n_rounds"], report["n_actions"] = len(logs), logs.n_actions
    report["policies"] = list(policies)
    report["level_of_each"] = level_of_each(args, len(policies))
    report["recommendation"] = recommendation(values)
    chosen = None
    if len(policies) > 1:
        chosen = _add_decision(args, report, policies, values, logs)
    if args.compare_logs:
        compare_with_log(
            args, report, values, logs, source, wanted[0], policies, progress
        )
    audits = None
    if audited is not None:  # of a policy that learns, that of the log alone
        audits = dict.fromkeys(policies, audited[0]) | audited[1]
    holds = add_verdicts(args, report, values, logs, audits)
    if chosen is not None:
        add_verdict_on_gain(args, report, chosen, audits)
    if args.report is not None:
        with progress.step(f"writing {args.report}"):
            write_report(args, report, values, policies, logs, audited)
    several = len(policies) > 1
    by_name = {row_name(*key, several): value for key, value in values.items()}
    report["warnings"] = warning_records(by_name, caught, report["level_of_each"])
    return Answer(report, to_text(report), 0 if holds else NOT_MET)


def learns(policy):
    """Tell whether a policy learns while it acts."""
    return isinstance(policy, AdaptivePolicy)


def _audits(args, source, wanted, logs, policies, about, progress):
    """Return the audit of the log alone, and those of policies that do not learn."""
    fixed = {name: one for name, one in policies.items() if not learns(one)}
    asked = [one for one in wanted if one.name in fixed]
    return audits_of(args, source, asked, logs, fixed, about, progress)


def level_of_each(args, n_policies):
    """Return the level of one interval: those of all policies hold together."""
    return 1 - (1 - args.level) / n_policies


def _policy_texts(told):
    """Return what the policies are, as lines of the report."""
    if len(told) == 1:
        return {"policy": next(iter(told.values()))}
    return {f"policy {name}": text for name, text in told.items()}


def _add_references(args, report, logs):
    """Add the logger's own value, and what a missing propensity means."""
    if logs.propensity is None and not args.evaluators:
        report["notes"].append(
            "The propensities are unknown: only evaluators that need none are shown. "
            "Name a column or a number with --propensity, or let them be estimated."
        )
    if args.baseline:
        report["baseline"] = report_record(LOGGER, logged_value(logs), args.level)
        report["reference_values"] += [report["baseline"], *by_logger(logs, args.level)]


def _add_decision(args, report, policies, values, logs):
    """Add the decision among several policies; return the gain it rests on, or None."""
    n_policies = len(policies)
    report["notes"].append(
        f"The intervals of the {n_policies} policies hold together at "
        f"{100 * args.level:g}%, for values and for gains over the logger. Each alone "
        f"has the level {100 * level_of_each(args, n_policies):.5g}%."
    )
    if values.recommended is None:
        return None
    found, _ = comparison_of(
        {name: values[name, values.recommended] for name in policies},
        policies,
        logs,
        LOGGER,
        args.level,
        values.recommended,
        args.accept,
    )
    report["decision"] = {
        "decision": found.decision,
        "choice": found.choice,
        "sentence": found.sentence,
    }
    return found.differences.get(found.choice)


def _evaluators_for(policies):
    """Return the evaluators of policies; None where there is nothing special."""
    # Of some only the probability of the logged action is known.
    if any(isinstance(one, np.ndarray) and one.ndim == 1 for one in policies.values()):
        return ["IPS", "SNIPS"]  # the others need all actions' probabilities
    return None


def _records(args, values, logs, n_policies):
    """Return the rows of the table."""
    baseline = logged_value(logs) if args.gain or n_policies > 1 else None
    level = level_of_each(args, n_policies)
    return [
        report_record(
            evaluator,
            value,
            level,
            policy=policy,
            baseline=baseline,
            recommended=values.recommended,
        )
        for (policy, evaluator), value in values.items()
    ]


def recommendation(table):
    """Return which row of a table is recommended, and why it or none."""
    return {"evaluator": table.recommended, "reason": table.reason}


def for_learning(args, source, policies, model):
    """Return the logs on which a policy learns, and what predicts rewards there."""
    # The policy sees the columns as they are, a model fitted here sees them encoded: it
    # predicts, out of fold, beforehand.
    policy, *others = policies.values()
    if others:
        raise ValueError(
            "a policy that learns while it acts must be evaluated alone: its value "
            "is that of a history, and has no paired gain. Name one --policy, or "
            "save policy.frozen() to evaluate what it has learned so far."
        )
    if not args.evaluators:
        raise ValueError(
            f"{type(policy).__name__} learns while it acts, so its value depends on "
            "the length of its history. Name evaluators that simulate it, such as "
            "--evaluators DRns:horizon=100,RejectionSampling:horizon=100, or "
            "Replay:horizon=100 if the logger chose uniformly. To evaluate what it "
            "has learned so far, save policy.frozen()."
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
