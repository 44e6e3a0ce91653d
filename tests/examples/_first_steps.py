# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What breaks the examples of first steps."""

from collections import defaultdict
from itertools import cycle
from types import SimpleNamespace
from unittest.mock import MagicMock

from skope_ope import ConstantPolicy
from tests.examples._assertions import row
from tests.examples._stand_ins import Interval, Stuck, evaluates_to

ALIKE = SimpleNamespace(
    value=1.0,
    standard_error=0.1,
    warnings=[SimpleNamespace(value=0.0)],
    diagnostics=defaultdict(lambda: 3.0),
    confidence_interval=lambda method="auto": (1.0, 1.0),
)
LOGS_ALIKE = {
    "IPS.evaluate": lambda self, policy: ALIKE,
    "DoublyRobust.evaluate": lambda self, policy: ALIKE,
    "displays.PolicyValueDisplay": MagicMock(),
    "displays.ClippingCurveDisplay": MagicMock(),
    "displays.WeightsDisplay.share_of_largest": lambda self, share: share,
}
ALWAYS_ALARMED = SimpleNamespace(alarms=[SimpleNamespace(name="propensity_misfit")])
SILENT_EVALUATE = {
    "evaluate": lambda policy, logs: None,
    "audit": lambda *_: ALWAYS_ALARMED,
}


def worse_with_groups(policies, logs, evaluators):
    """Intervals cover all but where users are known."""
    limits = (-9, 9) if logs.group is None else (8, 9)
    return defaultdict(lambda: Stuck(student=limits))


def intervals(**limits):
    def confidence_interval(self, level=0.95, method="auto", **_):
        return Interval(limits.get(method, limits["other"]))

    return {"evaluators.PolicyValue.confidence_interval": confidence_interval}


class One:
    """A value of 1 without a mark, whose difference from others is -1, with doubt."""

    leaves_bias_out = False

    def __init__(self, value=1.0, standard_error=0.1):
        self.value, self.standard_error = value, standard_error

    def __sub__(self, other):
        return One(-1.0, 1.0)

    def confidence_interval(self):
        return self.value, self.value


class AllTheSame(defaultdict):
    recommended = "IPS"

    def plot(self, truth):
        pass


class Decided(dict):
    """A comparison or a report that decides the same, whatever the log holds."""

    level_of_each = 0.95

    def __init__(self, decision, policies):
        super().__init__(dict.fromkeys(policies, Stuck(other=(1.0, 2.0))))
        self.decision, self.differences = decision, self
        self.choice = next(iter(policies)) if decision == "deploy" else None


def always(decision):
    return lambda policies, logs: Decided(decision, policies)


# estimated propensities that no decision looks at
QUICK = {"PropensityEstimator.fit_transform": lambda step, logs: logs}


NO_VALUE = SimpleNamespace(value=0.0, standard_error=1e-3, n_rounds=1)


class NoValues(defaultdict):
    """A table in which every value is 0 and the wrong evaluator is recommended."""

    recommended = "DirectMethod"


def compared(ok, decision, choice):
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
        "audit": lambda logs: SimpleNamespace(ok=next(ok), alarms=[""]),
        "evaluate": lambda *_, **__: NoValues(lambda: NO_VALUE),
        "compare_policies": lambda *_, **__: comparison,
        "DRPolicy": lambda *_, **__: ConstantPolicy("sport"),  # quick
    }


class FixedRule(ConstantPolicy):
    def __init__(self, *args):
        super().__init__("No E-Mail")


def reported(decision, page):
    gains = dict.fromkeys([None, "learned"], SimpleNamespace(value=0.0))

    def report(policies, logs, path=None, **kwargs):
        if path is not None:
            path.write_text(page)
        return SimpleNamespace(
            decision=decision,
            choice="learned" if decision == "deploy" else None,
            headline=decision,
            sentence=decision,
            alarms=[SimpleNamespace(severity="error", text="")],
            values="",
            path=path,
            to_html=lambda: page,
            comparison=SimpleNamespace(differences=gains, plot=lambda: None),
        )

    return {"report": report, "RewardModelPolicy": FixedRule}


COMPARISON = "selection.PolicyComparison"
ROWS = {
    "plot_do_intervals_cover_the_truth": row(
        evaluates_to(11, student=(8, 9), normal=(-9, 9)),
        evaluates_to(11, student=(-9, 9), normal=(-9, 9)),
        args="--repetitions 20 --n-jobs 1",
    ),
    "plot_do_intervals_know_about_users": row(
        {"evaluate": worse_with_groups}, args="--repetitions 15 --n-jobs 1"
    ),
    "plot_do_the_default_intervals_hold": row(
        evaluates_to(auto=(5, 6), student=(-99, 99)),
        evaluates_to(auto=(0, 1), student=(0, 1e-9)),
        args="--repetitions 4 --n-jobs 1",
    ),
    "plot_first_estimate_in_ten_lines": row(
        # every value is 1
        {"evaluate": lambda *_, **__: AllTheSame(One)}
    ),
    "plot_from_a_csv_to_a_decision": row(
        compared([False, True], "deploy", "always video"),
        compared([True, False], "keep", "weighted clicks"),
        args="--n-rounds 10000",
        needs="pandas",
    ),
    "plot_from_csv_to_a_report": row(
        reported("deploy", "<script>"), reported("keep", "http"), needs="pandas"
    ),
    "plot_reading_a_diagnostics_report": row(LOGS_ALIKE),
    "plot_shop_analysis": row(
        # faults are seen, intervals hold nothing, the worst is kept
        {
            "audit.Audit.ok": False,
            f"{COMPARISON}.level_of_each": 0.001,
            f"{COMPARISON}.decision": "keep",
            f"{COMPARISON}.choice": "coupon for all",
        },
        needs="pandas",
    ),
    "plot_shop_in_ten_lines": row(
        {"reports.Report.decision": "keep"}, {"example:new": 9.0}
    ),
    "plot_what_does_a_log_not_know": row(
        {"compare_policies": always("undecided"), "report": always("deploy")} | QUICK,
        {"compare_policies": always("deploy"), "report": always("deploy")} | QUICK,
    ),
    "plot_which_faults_does_an_audit_see": row(
        SILENT_EVALUATE, args="--repetitions 1 --n-jobs 1"
    ),
    "plot_which_interval_to_use": row(
        intervals(other=(98, 99)),
        # sequences never cover
        {
            "example:betting_sequence": lambda w, r, after, **_: (99 + after, after),
            "example:students": lambda z, t: (t - 1e9, t + 1e9),
        },
        intervals(other=(-98, 98), auto=(-99999, 99999)),
        args="--repetitions 8 --n-jobs 1",
    ),
}
