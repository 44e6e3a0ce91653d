# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The commands: `evaluate` other policies, `audit` a log, and a demonstration."""

import os
import shlex

import numpy as np
from sklearn.utils import Bunch, check_random_state

from skope_ope._shell._answer import (
    DEFAULT_LEVEL,
    Answer,
    about_lines,
    report_record,
    row_name,
    start_record,
    to_text,
    warning_lines,
    warning_records,
)
from skope_ope._shell._policies import (
    FILE,
    TABLE,
    log_text,
    read_source,
    rounds_and_targets,
    target,
    wanted_policies,
)
from skope_ope._shell._require import add_verdict_on_gain, add_verdicts
from skope_ope._sklearn import StrOptions, inside
from skope_ope.audit import VerdictThresholds
from skope_ope.audit._audit import audits
from skope_ope.datasets._load import load_classification
from skope_ope.datasets._synthetic import make_logs_from_classification
from skope_ope.evaluators._evaluate import quiet_table
from skope_ope.evaluators._names import (
    STATIC,
    evaluator_named,
    names_for,
    unknown_evaluator,
)
from skope_ope.evaluators._rules import DEFAULTS
from skope_ope.evaluators.core._logged_value import logged_value
from skope_ope.evaluators.core._wrapped import with_seed
from skope_ope.logs import BanditLogs
from skope_ope.logs._shown_numbers import level_text
from skope_ope.logs._text_files import number, whole_number
from skope_ope.logs._validation import in_context
from skope_ope.policies import ClassifierPolicy, action_probabilities
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._policy_files import (
    can_name_columns,
    frame_of_context,
    logs_on_columns,
)
from skope_ope.reports._report import checked_path, report_of, write_whole
from skope_ope.reward_models._sources import named_reward_model, reward_source
from skope_ope.selection._compare_policies import comparison_of
from skope_ope.selection._outcome import LOGGER

MANY_LOGGERS = 20
NOT_MET = 1  # the exit code where a requirement does not hold

# -- `evaluate`: what other policies would have earned ---------------------------------


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
    report["reward_name"] = logs.reward_name
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
        record = report_record(LOGGER, logged_value(logs), args.level)
        report["baseline"] = record
        report["reference_values"] += [record, *logger_records(logs, args.level)]


def _decision_record(found):
    return {name: getattr(found, name) for name in ("decision", "choice", "sentence")}


def _add_decision(args, report, policies, values, logs):
    """Add the decision among several policies; return the gain it rests on, or None."""
    n_policies = len(policies)
    report["notes"].append(
        f"The intervals of the {n_policies} policies hold together at "
        f"{level_text(args.level, 6)}, for values and for gains over the logger. Each "
        f"alone has the level {level_text(level_of_each(args, n_policies), 5)}."
    )
    if values.recommended is None:
        return None
    evaluator = values.recommended
    rows = {name: values[name, evaluator] for name in policies}
    given = policies, logs, LOGGER, args.level, evaluator, args.accept
    found, _ = comparison_of(rows, *given)
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
    about = {"baseline": baseline, "recommended": values.recommended}
    return [
        report_record(evaluator, value, level, policy=policy, **about)
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
    rounds = {label: logs.logger == label for label in logs.loggers.tolist()}
    return [
        report_record(f"logger {label}", logged_value(logs[own]), level)
        for label, own in rounds.items()
        if own.any()
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
    name = type(inside(model)).__name__
    return f"{name} for each action, out of fold ({args.folds} folds)"


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
    other, policy = there.logs, policies[wanted.name]
    if wanted.kind == "columns" or is_learner(policy):
        policy = None  # it cannot be asked there
    elif not wanted.is_learned:
        policy, _ = target(wanted, args, there)
    on_policy = logged_value(other)
    record = report_record("on-policy", on_policy, report["level"])
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


# -- `audit`: whether the log can answer, and for a policy -----------------------------

ALARM = 1


def run_audit(args, progress, caught):
    """Return the answer of `audit`; its code tells whether there are alarms."""
    wanted = wanted_policies(args, needed=False)
    if len(wanted) > 1:
        raise ValueError("an audit is about one policy: name one, or none.")
    # a policy that is saved or learned here knows the encoded columns
    knows_them = any(one.saved is not None or one.is_learned for one in wanted)
    as_frame = not knows_them and can_name_columns()
    source = read_source(args, args.logs, progress, wanted, as_frame=as_frame)
    about = {"log": log_text(args.logs, source)}
    logs, policies, told = rounds_and_targets(args, source, wanted, progress)
    for one in wanted:
        about["policy"] = told[one.name]
    found, of_policies = audits_of(
        args, source, wanted, logs, policies, about, progress
    )
    for one in wanted:
        found = of_policies[one.name]
    told_by_the_way = warning_records({}, caught, None)
    record = {
        **start_record(args),
        "about": about,
        "n_rounds": len(logs),
        "n_actions": logs.n_actions,
        **found.to_dict(),
        "warnings": told_by_the_way,
    }
    lines = [*about_lines(about), "", str(found), *warning_lines(told_by_the_way)]
    return Answer(record, "\n".join(lines), 0 if found.ok else ALARM)


def audits_of(args, source, wanted, logs, policies, about, progress):
    """Audit the rounds, alone and for policies."""
    # those that are learned here know the encoded columns, others those of the file
    policies = policies | {
        one.name: action_probabilities(policies[one.name], logs)
        for one in wanted
        if one.is_learned
    }
    logs = _with_names(logs, source, about)
    with progress.step(f"auditing {len(logs):,} rounds"):
        return audits(policies, logs, random_state=args.random_state)


def _with_names(logs, source, about):
    """Return the rounds with the columns of the file, so that findings name them."""
    # Without pandas the context stays encoded, and the report says what its columns
    # are.
    if not source.features:
        return logs
    frame = frame_of_context(source)
    if frame is None:
        names = source.encoder.names()
        about["context"] = ", ".join(f"{j}: {name}" for j, name in enumerate(names))
        return logs
    return in_context(logs, frame.iloc[logs.row_id.position])


# -- the demonstration: digits whose true answer is known ------------------------------

BIASED_EVALUATORS = ("DirectMethod", "DRos")  # beside the default ones, as a warning


def run_demo(args, progress, caught):
    """Return the answer of `demo`, see `run_evaluate`."""
    with progress.step("evaluating a policy on handwritten digits"):
        demo = digits_demo([*DEFAULTS, *BIASED_EVALUATORS], args.random_state)
    table = demo.table
    records = [
        report_record(name, value, DEFAULT_LEVEL, recommended=table.recommended)
        for name, value in table.items()
    ]
    report = start_report(args, records)
    report["recommendation"] = recommendation(table)
    report.update(about=demo.about, notes=demo.notes, truth=demo.truth)
    for record in report["values"]:
        record["error"] = record["value"] - demo.truth
        record["covers"] = bool(record["low"] <= demo.truth <= record["high"])
    report["reference_values"].append({"evaluator": "true value", "value": demo.truth})
    report["warnings"] = warning_records(table, caught, DEFAULT_LEVEL)
    return Answer(report, to_text(report))


TRAIN_ROWS = 180  # a tenth of the digits: a policy that errs now and then


def digits_demo(evaluators, random_state=1):
    """Evaluate a classifier's policy whose true value is known."""
    # A classifier learns from a tenth of scikit-learn's handwritten digits. The others
    # are logged by the confounded rule of `make_logs_from_classification`, which looks
    # at the label; the reward model sees the pixels only.
    from sklearn.linear_model import LogisticRegression

    X, y = load_classification("digits", return_X_y=True)
    order = np.random.RandomState(random_state).permutation(len(y))
    train, rest = order[:TRAIN_ROWS], order[TRAIN_ROWS:]
    X = X / 16  # pixels in [0, 1]
    policy = ClassifierPolicy(LogisticRegression(max_iter=1000)).fit(X[train], y[train])
    logs, rewards = make_logs_from_classification(
        X[rest], y[rest], random_state=random_state
    )
    table = quiet_table(
        policy,
        logs,
        evaluators=evaluators,
        reward_model=LogisticRegression(max_iter=1000),
        random_state=random_state,
    )
    pi = action_probabilities(policy, logs)
    truth = float((pi * rewards).sum(axis=1).mean())
    about = {
        "log": f"{len(logs):,} handwritten digits, 10 actions, reward 1 for the right "
        "digit; the logger gives 0.7 to the right digit and spreads 0.3 at random",
        "policy": "greedy on logistic regression, learned on "
        f"{len(train)} other digits",
        "model": "logistic regression of the reward for each action, out of fold",
    }
    return Bunch(
        logs=logs,
        policy=policy,
        table=table,
        truth=truth,
        about=about,
        notes=_what_is_seen(table, truth),
    )


def _what_is_seen(table, truth):
    """Say why some of the values are off and others are not."""
    direct, shrunk = (table[name].value - truth for name in ("DirectMethod", "DRos"))
    size = abs(direct) / table["DirectMethod"].standard_error
    return [
        f"DirectMethod is off by {direct:+.3f}, {size:.1f} of its standard errors. The "
        "logger used the label, which the pixels do not determine. So an action was "
        "logged mostly where it was right, and a model of the logged rewards predicts "
        "too much for it.",
        "IPS, SNIPS, DoublyRobust and SNDR weight every round by its logged "
        "propensity. This removes the bias, with larger standard errors. Evaluators "
        f"that cut or shrink large weights, such as DRos ({shrunk:+.3f}), have less "
        "variance and some bias. These and DirectMethod are marked, and are in the "
        "first table only if you name them.",
    ]
