# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The way from a csv to a decision is seen to go wrong where the package is broken."""

from collections import defaultdict
from itertools import cycle
from types import SimpleNamespace

import pytest

from tests.examples._assertions import every_assertion_can_fail

pytest.importorskip("pandas")

NO_VALUE = SimpleNamespace(value=0.0, standard_error=1e-3, n_rounds=10**9)


class NoValues(defaultdict):
    """A table in which every value is 0 and the wrong evaluator is recommended."""

    recommended = "DirectMethod"


def told(*answers):
    """Return an audit that says in turn whether a log is without fault."""
    answers = cycle(answers)
    return lambda logs: SimpleNamespace(ok=next(answers), alarms=[""])


def decided(decision, choice):
    """Return a comparison that always gives one answer."""
    comparison = SimpleNamespace(
        decision=decision,
        choice=choice,
        sentence="",
        differences=defaultdict(lambda: NO_VALUE),
        plot=lambda truth: None,
    )
    return lambda policies, logs, evaluator: comparison


test_every_assertion_can_fail = every_assertion_can_fail(
    "1_first_steps/plot_from_a_csv_to_a_decision.py",
    {
        "faults are unseen, the worst is deployed": {
            "skope_ope.audit": told(False, True),
            "skope_ope.evaluate": lambda *_, **__: NoValues(lambda: NO_VALUE),
            "skope_ope.compare_policies": decided("deploy", "always video"),
        },
        "nothing is ever deployed": {
            "skope_ope.audit": told(True, False),
            "skope_ope.evaluate": lambda *_, **__: NoValues(lambda: NO_VALUE),
            "skope_ope.compare_policies": decided("keep", "weighted clicks"),
        },
    },
)
