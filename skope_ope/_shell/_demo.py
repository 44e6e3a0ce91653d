# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The demonstration: digits whose true answer is known."""

import numpy as np
from sklearn.utils import Bunch

from skope_ope._shell._answer import (
    DEFAULT_LEVEL,
    Answer,
    report_record,
    to_text,
    warning_records,
)
from skope_ope._shell._evaluate import recommendation, start_report
from skope_ope.datasets._load import load_classification
from skope_ope.datasets._synthetic import make_logs_from_classification
from skope_ope.evaluators._evaluate import quiet_table
from skope_ope.evaluators._rules import DEFAULTS
from skope_ope.policies import ClassifierPolicy, action_probabilities

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


# -- real digits, a confounded logger, a trained policy: all evaluators and the truth

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
