# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The command `evaluate`: what other policies would have earned."""

import os
import shlex
from functools import cached_property

import numpy as np
from sklearn.utils import check_random_state

from skope_ope._shell._answer import (
    DEFAULT_LEVEL,
    Answer,
    report_record,
    row_name,
    start_record,
    to_text,
    warning_records,
)
from skope_ope._shell._audit import audits_of
from skope_ope._shell._policies import (
    FILE,
    TABLE,
    log_text,
    read_source,
    rounds_and_targets,
    target,
    wanted_policies,
)
from skope_ope._shell._require import GAIN, VALUE, VERDICT
from skope_ope._sklearn import StrOptions
from skope_ope.audit import VerdictThresholds, verdict
from skope_ope.evaluators._evaluate import quiet_table
from skope_ope.evaluators._names import (
    STATIC,
    evaluator_named,
    names_for,
    unknown_evaluator,
)
from skope_ope.evaluators.core._evidence import (
    ESTIMATED,
    NOTHING_OUTSIDE,
    rests_on_propensities,
    weight_findings,
)
from skope_ope.evaluators.core._logged_value import logged_value
from skope_ope.evaluators.core._wrapped import with_seed
from skope_ope.logs import BanditLogs
from skope_ope.logs._text_files import number, whole_number
from skope_ope.policies import action_probabilities
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._policy_files import logs_on_columns
from skope_ope.reports._report import checked_path, report_of, write_whole
from skope_ope.reward_models._sources import named_reward_model, reward_source
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
    named = args.evaluators and _named_evaluators(args.evaluators, args.folds)
    source = read_source(args, args.logs, progress, wanted, beside=args.compare_logs)
    logs, policies, told = rounds_and_targets(args, source, wanted, progress)
    model = shared = named_reward_model(args.reward_model, logs)
    about, audited = {"log": log_text(args.logs, source)}, None
    if (args.require or args.report) if args.audit is None else args.audit:
        audited = _audits(args, source, wanted, logs, policies, about, progress)
    if any(map(is_learner, policies.values())):
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


def is_learner(policy):
    """Tell whether a policy learns while it acts."""
    return isinstance(policy, AdaptivePolicy)


def _audits(args, source, wanted, logs, policies, about, progress):
    """Return the audit of the log alone, and those of policies that do not learn."""
    fixed = {name: one for name, one in policies.items() if not is_learner(one)}
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
        report["reference_values"] += [
            report["baseline"],
            *logger_records(logs, args.level),
        ]


def _decision_record(found):
    return {name: getattr(found, name) for name in ("decision", "choice", "sentence")}


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
    report["decision"] = _decision_record(found)
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


def logger_records(logs, level):
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
        "level": getattr(args, "level", DEFAULT_LEVEL),
        "about": {},
        "values": values,
        "reference_values": [],
        "notes": [],
    }


# -- whether the requirements hold, by which numbers, and the verdicts behind them -----

LIMIT_BY_FIELD = {"lower": "low", "upper": "high"}
BIAS = "bias_left_out"


class Results:
    """What requirements may ask for."""

    def __init__(self, table, logs, level_of_each, level, audits=None, accepted=()):
        self.table, self.logs = table, logs
        self.level_of_each, self.level = level_of_each, level
        self.audits = audits or {}
        # at their own level: a lower --level makes no value more trustworthy
        self.thresholds = VerdictThresholds(accepted=accepted)

    @cached_property
    def logger(self):
        """The mean reward of the rounds."""
        return logged_value(self.logs)

    @cached_property
    def verdicts(self):
        """Verdicts by (policy, evaluator)."""
        return {
            key: verdict(
                value, audit=self.audits.get(key[0]), thresholds=self.thresholds
            )
            for key, value in self.table.items()
        }

    def evaluator_of(self, side):
        """Return the evaluator that a side is about."""
        known = [name for policy, name in self.table if policy == side.name]
        if side.evaluator is not None:
            if side.evaluator not in known:
                raise ValueError(
                    f"--require: {side.text!r} names the evaluator "
                    f"{side.evaluator!r}, and the table has {', '.join(known)}."
                )
            return side.evaluator
        if self.table.recommended in known:
            return self.table.recommended
        if len(known) == 1:
            return known[0]
        raise ValueError(
            f"--require: no evaluator is recommended for {side.text!r}, because "
            f"{self.table.reason}. Name one of {', '.join(known)}, as "
            f"{side.name}/{known[0]}."
        )

    def key_of(self, side):
        """Return the policy and the evaluator that a side is about."""
        return side.name, self.evaluator_of(side)

    def value_of(self, side):
        """Return the value that a side is about."""
        return self.logger if side.name == LOGGER else self.table[self.key_of(side)]

    def of(self, side):
        """Return the number or the `Verdict` of a side."""
        if side.number is not None:
            return side.number
        if side.answer is not None:
            return side.answer
        value, fields = self.value_of(side), side.fields or (VALUE,)
        if side.name == LOGGER:
            return _asked_number(value, fields[0], self.level)
        if fields[0] == VERDICT:
            return self.verdicts[self.key_of(side)]
        if fields[0] == GAIN:
            value, fields = value - self.logger, fields[1:] or (VALUE,)
        return _asked_number(value, fields[0], self.level_of_each)


def _asked_number(value, field, level):
    """Return a field of a value."""
    if field == "effective_rounds":
        return float(value.effective_sample_size)
    if field in LIMIT_BY_FIELD:
        return float(getattr(value._interval(level), LIMIT_BY_FIELD[field]))
    return float(getattr(value, field))


def add_verdicts(args, report, table, logs, audits):
    """Add to a report the verdicts, and whether the requirements hold."""
    results = Results(
        table, logs, report["level_of_each"], args.level, audits, args.accept
    )
    for record, found in zip(report["values"], results.verdicts.values(), strict=True):
        record["verdict"] = found.to_dict()
    report["requirements"] = [_gated(one, results) for one in args.require]
    return all(one["holds"] for one in report["requirements"])


def add_verdict_on_gain(args, report, gain, audits):
    """Add to the decision of a report the verdict on the gain that it rests on."""
    decision = report["decision"]
    decision["verdict"] = verdict(
        gain,
        audit=(audits or {}).get(decision["choice"]),
        thresholds=VerdictThresholds(accepted=args.accept),
    ).to_dict()


def _gated(requirement, results):
    """Return whether a requirement holds, and by which numbers."""
    # A requirement about a value that the logs do not support does not hold, whatever
    # its numbers, unless it is about the verdict itself. Neither does one about the
    # limit of an interval that leaves a bias out, or about a gain whose sign missing
    # weight could turn, unless that is accepted.
    left, right = (results.of(side) for side in requirement.sides)
    about = [side for side in requirement.sides if side.name not in (None, LOGGER)]
    holds, because = requirement.holds(left, right), ""
    if left != left or right != right:
        because = "a number that is not known (NaN) meets no requirement"
    if holds:
        asked = [side for side in about if not side.is_verdict]
        doubts = [_side_doubt(side, results) for side in asked]
        doubts += [
            _missing_part(gain, results) for gain in _gains_in(requirement, results)
        ]
        because = "; ".join(filter(None, dict.fromkeys(doubts)))
    names = [results.evaluator_of(side) for side in about]
    values = map(results.value_of, about)
    estimated = any(rests_on_propensities(one, ESTIMATED) for one in values)
    return {
        "text": requirement.text,
        "holds": holds and not because,
        "left": getattr(left, "answer", left),
        "right": getattr(right, "answer", right),
        "evaluators": list(dict.fromkeys(names)),
        "because": because,
        "note": NOTHING_OUTSIDE if estimated and holds and not because else "",
    }


def _side_doubt(side, results):
    """Return why the number of a side satisfies nothing, or nothing."""
    key = results.key_of(side)
    found, left_out = results.verdicts[key], results.table[key].leaves_bias_out
    errors = [one.name for one in found.alarms if one.severity == "error"]
    if errors:
        return f"the logs do not support {side.name} ({', '.join(errors)})"
    is_limit = side.fields[-1:] in (("lower",), ("upper",))
    if is_limit and left_out and BIAS not in results.thresholds.accepted:
        return f"the interval of {key[1]} leaves out {left_out} (--accept {BIAS})"
    return ""


def _gains_in(requirement, results):
    """Yield the gains that a requirement is about: over the logger, or the other."""
    sides = [one for one in requirement.sides if one.name and not one.is_verdict]
    values = [results.value_of(one) for one in sides]
    if len(values) == 2:
        yield values[0] - values[1]
    for side, value in zip(sides, values, strict=True):
        if side.fields[:1] == (GAIN,):
            yield value - results.logger


def _missing_part(gain, results):
    """Return why the sign of a gain is not known, or nothing."""
    found = weight_findings(gain._evidence, gain._interval(results.level_of_each))
    names = [one.name for one in found if one.name not in results.thresholds.accepted]
    return f"the logs do not support the gain ({', '.join(names)})" if names else ""


# -- the page that `evaluate --report` writes ------------------------------------------


def refuse_report(args, wanted):
    """Raise if the page would replace a file that is read, or lack its audit."""
    read = [args.logs, args.compare_logs, args.policy_table]
    read += [one.value for one in wanted if one.kind in (FILE, TABLE)]
    target = checked_path(args.report)
    if target is not None and args.audit is False:
        raise ValueError(
            "--report with --no-audit: the page includes an audit, and its "
            "recommendation and requirements must use the same audit. Leave out one "
            "of the two."
        )
    if target is None or not target.exists():
        return
    if any(target.samefile(path) for path in read if path and os.path.exists(path)):
        raise ValueError(
            f"--report {args.report}: the page would replace this input file. Give "
            "another name, such as report.html."
        )


def write_report(args, report, values, policies, logs, audited):
    """Write the page, and say in the report what it recommends."""
    target = checked_path(args.report)
    found, _ = report_of(
        values,
        policies,
        logs,
        title=None,
        baseline=LOGGER,
        level=args.level,
        command=shlex.join(args.words),
        about=report["about"],
        audited=audited,
        thresholds=VerdictThresholds(accepted=args.accept),
    )
    write_whole(target, found.to_html())
    # it knows the audit: it stands in the place of what gains alone would say
    report["decision"] = _decision_record(found)
    if found.choice is not None:
        report["decision"]["verdict"] = found.verdicts[found.choice].to_dict()
    report["page"] = str(target)
    report["notes"].append(f"The page is in {args.report}.")


# -- the log of the policy itself, beside the estimates from another one ---------------


def refuse_several(args, wanted):
    """Raise if there is a log of the policy, and more than one policy."""
    if args.compare_logs and len(wanted) > 1:
        raise ValueError(
            f"--compare-logs is the log of one policy, but {len(wanted)} are "
            "named. Name one."
        )


def compare_with_log(args, report, values, logs, source, wanted, policies, progress):
    """Put the mean reward of the policy's own log beside the estimates."""
    path = args.compare_logs
    there = read_source(args, path, progress, [wanted], like=source, beside=args.logs)
    acts = _policy_there(args, wanted, policies[wanted.name], there)
    compare(report, values, logs, there.logs, acts)


def _policy_there(args, wanted, policy, there):
    """Return the policy on another log; None where it cannot be asked there."""
    if wanted.kind == "columns" or isinstance(policy, AdaptivePolicy):
        return None
    return policy if wanted.is_learned else target(wanted, args, there)[0]


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
        f"On-policy: the mean reward of the {len(other):,} rounds of {path}. z is the "
        "difference between an estimate and this mean, in units of their combined "
        "standard error."
    )
    report["notes"].append(f"{note} Caveat: {caveat}" if caveat else note)


# -- what agreement of estimates with an on-policy value can decide --------------------

FEWEST_REWARDED = 100
COARSE = 0.25  # a difference of this share of the value should be noticed
POWER = 2.8  # standard errors that a 95% test notices four times in five
SAME_PROBABILITY = 0.01  # probabilities that differ by less are those of one policy


def drift(policy, logs):
    """Compare a policy with the propensities of logs that it is said to have made."""
    if logs.propensity is None:
        return None
    proba = action_probabilities(policy, logs, unknown="ignore")
    p, pi = logs.propensity, proba[np.arange(len(logs)), logs.action_index]
    ratio = pi / p
    low, high = np.quantile(ratio, [0.05, 0.95])
    positive = pi > 0
    correlation = float("nan")
    if positive.sum() > 1:
        pair = np.log(p[positive]), np.log(pi[positive])
        if min(values.std() for values in pair) > 1e-9:
            correlation = float(np.corrcoef(*pair)[0, 1])
    return {
        "low_ratio": float(low),
        "high_ratio": float(high),
        "differing_share": float((np.abs(ratio - 1) > SAME_PROBABILITY).mean()),
        "correlation": correlation,
    }


def agreement_caveat(values, on_policy, rewarded, drift):
    """Say what agreement of estimates with an on-policy value decides."""
    errors = [v.standard_error for v in values if np.isfinite(v.standard_error)]
    reasons = []
    if errors:
        noticed = POWER * float(np.hypot(np.median(errors), on_policy.standard_error))
        share = noticed / abs(on_policy.value) if on_policy.value else np.inf
        if min(rewarded) < FEWEST_REWARDED or share > COARSE:
            reasons.append(
                f"with {rewarded[0]:,} rewarded rounds here and {rewarded[1]:,} "
                f"there, a true difference of {noticed:.2g} ({share:.0%} of the "
                "on-policy value) would be missed one time in five"
            )
    if drift is not None and drift["differing_share"] > SAME_PROBABILITY:
        correlation = drift["correlation"]
        told = (
            "" if np.isnan(correlation) else f", correlation of logs {correlation:.2f}"
        )
        reasons.append(
            "the policy differs from the one that acted there: its probability of "
            f"the logged action is {drift['low_ratio']:.2g} to "
            f"{drift['high_ratio']:.2g} times the recorded propensity in the middle "
            f"90% of rounds{told}"
        )
    if not reasons:
        return ""
    return f"agreement decides nothing: {'; and '.join(reasons)}."


# -- evaluators that words on the command line name ------------------------------------
def _named_evaluators(texts, cv=5):
    """Return evaluators by name and parameters, such as `IPS` or `IPS:cmax=10`."""
    chosen = {}
    known = {name.lower(): name for name in names_for(BanditLogs)}
    for text in STATIC if tuple(texts) == ("all",) else texts:
        name, *settings = text.split(":")
        if name.lower() not in known:
            raise unknown_evaluator(name)
        evaluator = evaluator_named(known[name.lower()])
        own = [
            key for key in evaluator.get_params() if key not in ("reward_model", "cv")
        ]
        for setting in settings:
            key, _, value = setting.partition("=")
            if key not in own:
                raise ValueError(
                    f"{text!r}: {known[name.lower()]} has "
                    f"{'no parameter' if not own else 'the parameter ' + own[0]}, got "
                    f"{key!r}."
                )
            evaluator.set_params(**{key: _parsed(evaluator, key, value, text)})
        if "cv" in evaluator.get_params():
            evaluator.set_params(cv=cv)
        label = ":".join([known[name.lower()], *settings])
        if label in chosen:
            raise ValueError(f"evaluator {label!r} is named twice.")
        chosen[label] = evaluator
    return chosen


def _parsed(evaluator, key, value, text):
    """Return a parameter from a word: None, a choice, true or false, or a number."""
    if value.lower() == "none":
        return None
    for constraint in evaluator._parameter_constraints[key]:
        if isinstance(constraint, StrOptions) and value in constraint.options:
            return value
        if constraint == "boolean" and value.lower() in ("true", "false"):
            return value.lower() == "true"
    try:
        return _int_or_float(value)
    except ValueError:
        raise ValueError(f"{text!r}: {value!r} is not a number.") from None


def _int_or_float(text):
    """Return an int where the text is one: lengths are counts."""
    try:
        return whole_number(text)
    except ValueError:
        return number(text)
