# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What breaks the examples of first steps."""

from collections import defaultdict
from itertools import cycle
from types import SimpleNamespace
from unittest.mock import MagicMock

from skope_ope import ConstantPolicy
from tests.examples._assertions import Row
from tests.examples._stand_ins import Interval, Stuck, evaluates_to

ALIKE = SimpleNamespace(
    value=1.0,
    standard_error=0.1,
    warnings=[SimpleNamespace(value=0.0)],
    diagnostics=defaultdict(lambda: 3.0),
    confidence_interval=lambda method="auto": (1.0, 1.0),
)
LOGS_ALIKE = {
    "skope_ope.IPS.evaluate": lambda self, policy: ALIKE,
    "skope_ope.DoublyRobust.evaluate": lambda self, policy: ALIKE,
    "skope_ope.displays.PolicyValueDisplay": MagicMock(),
    "skope_ope.displays.ClippingCurveDisplay": MagicMock(),
    "skope_ope.displays.WeightsDisplay.share_of_largest": lambda self, share: share,
}
ALWAYS_ALARMED = SimpleNamespace(alarms=[SimpleNamespace(name="propensity_misfit")])
SILENT_EVALUATE = {
    "skope_ope.evaluate": lambda policy, logs: None,
    "skope_ope.audit": lambda *_: ALWAYS_ALARMED,
}


def worse_with_groups(policies, logs, evaluators):
    """Intervals cover all but where users are known."""
    limits = (-9, 9) if logs.group is None else (8, 9)
    return defaultdict(lambda: Stuck(student=limits))


def intervals(**limits):
    def confidence_interval(self, level=0.95, method="auto", **_):
        return Interval(limits.get(method, limits["other"]))

    return {"skope_ope.evaluators.PolicyValue.confidence_interval": confidence_interval}


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
        "skope_ope.audit": lambda logs: SimpleNamespace(ok=next(ok), alarms=[""]),
        "skope_ope.evaluate": lambda *_, **__: NoValues(lambda: NO_VALUE),
        "skope_ope.compare_policies": lambda *_, **__: comparison,
        "skope_ope.DRPolicy": lambda *_, **__: ConstantPolicy("sport"),  # quick
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

    return {"skope_ope.report": report, "skope_ope.RewardModelPolicy": FixedRule}


COMPARISON = "skope_ope.selection.PolicyComparison"
ROWS = {
    "plot_do_intervals_cover_the_truth": Row(
        {
            "Student's never cover": evaluates_to(11, student=(8, 9), normal=(-9, 9)),
            "all cover": evaluates_to(11, student=(-9, 9), normal=(-9, 9)),
        },
        "--repetitions 20 --n-jobs 1",
    ),
    "plot_do_intervals_know_about_users": Row(
        {"errors are wrong with groups": {"skope_ope.evaluate": worse_with_groups}},
        "--repetitions 15 --n-jobs 1",
    ),
    "plot_do_the_default_intervals_hold": Row(
        {
            "beyond the range": evaluates_to(auto=(5, 6), student=(-99, 99)),
            "far too wide": evaluates_to(auto=(0, 1), student=(0, 1e-9)),
        },
        "--repetitions 4 --n-jobs 1",
    ),
    "plot_first_estimate_in_ten_lines": Row(
        {"every value is 1": {"skope_ope.evaluate": lambda *_, **__: AllTheSame(One)}}
    ),
    "plot_from_a_csv_to_a_decision": Row(
        {
            "faults are unseen, the worst is deployed": compared(
                [False, True], "deploy", "always video"
            ),
            "nothing is ever deployed": compared(
                [True, False], "keep", "weighted clicks"
            ),
        },
        "--n-rounds 10000",
        needs="pandas",
    ),
    "plot_from_csv_to_a_report": Row(
        {
            "everything is deployed": reported("deploy", "<script>"),
            "nothing is deployed": reported("keep", "http"),
        },
        needs="pandas",
    ),
    "plot_reading_a_diagnostics_report": Row({"all logs look alike": LOGS_ALIKE}),
    "plot_shop_analysis": Row(
        {
            "faults are seen, intervals hold nothing, the worst is kept": {
                "skope_ope.audit.Audit.ok": False,
                f"{COMPARISON}.level_of_each": 0.001,
                f"{COMPARISON}.decision": "keep",
                f"{COMPARISON}.choice": "coupon for all",
            }
        },
        needs="pandas",
    ),
    "plot_shop_in_ten_lines": Row(
        {
            "the rule is kept back": {"skope_ope.reports.Report.decision": "keep"},
            "the interval misses": {"example:new": 9.0},
        }
    ),
    "plot_what_does_a_log_not_know": Row(
        {
            "only a report deploys": {
                "skope_ope.compare_policies": always("undecided"),
                "skope_ope.report": always("deploy"),
            },
            "always deployed": {"skope_ope.compare_policies": always("deploy")},
        },
        "--repetitions 4 --n-rounds 3000",
    ),
    "plot_which_faults_does_an_audit_see": Row(
        {"evaluate is silent, an audit is not": SILENT_EVALUATE},
        "--repetitions 1 --n-jobs 1",
    ),
    "plot_which_interval_to_use": Row(
        {
            "none covers": intervals(other=(98, 99)),
            "sequences never cover": {
                "example:betting_sequence": lambda w, r, after, **_: (
                    99 + after,
                    after,
                ),
                "example:students": lambda z, t: (t - 1e9, t + 1e9),
            },
            "all cover, one is too wide": intervals(
                other=(-98, 98), auto=(-99999, 99999)
            ),
        },
        "--repetitions 8 --n-jobs 1",
    ),
}
