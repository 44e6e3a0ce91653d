# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The way from a csv to a decision is seen to go wrong where the package is broken."""

from collections import defaultdict
from itertools import cycle
from types import SimpleNamespace

import pytest

from skope_ope import ConstantPolicy
from tests.examples._assertions import every_assertion_can_fail

pytest.importorskip("pandas")

NO_VALUE = SimpleNamespace(value=0.0, standard_error=1e-3, n_rounds=1)


class NoValues(defaultdict):
    """A table in which every value is 0 and the wrong evaluator is recommended."""

    recommended = "DirectMethod"


def broken(ok, decision, choice):
    """Return audits that are `ok` in turn, and comparisons with one answer."""
    ok = cycle(ok)
    comparison = SimpleNamespace(
        decision=decision,
        choice=choice,
        sentence="",
        differences=defaultdict(lambda: NO_VALUE),
        plot=lambda truth: None,
    )
    return {
        "skope_ope.audit": lambda logs: SimpleNamespace(ok=next(ok), alarms=[""]),
        "skope_ope.evaluate": lambda *_, **__: NoValues(lambda: NO_VALUE),
        "skope_ope.compare_policies": lambda *_, **__: comparison,
        "skope_ope.DRPolicy": lambda *_, **__: ConstantPolicy("sport"),  # quick
    }


test_every_assertion_can_fail = every_assertion_can_fail(
    "1_first_steps/plot_from_a_csv_to_a_decision.py",
    {
        "faults are unseen, the worst is deployed": broken(
            [False, True], "deploy", "always video"
        ),
        "nothing is ever deployed": broken([True, False], "keep", "weighted clicks"),
    },
    args=["--n-rounds", "10000"],
)
