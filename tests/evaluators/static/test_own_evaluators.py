# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluators of the user's own: what they compute with, they have everywhere."""

import re
from itertools import takewhile
from numbers import Real
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import (
    IPS,
    MRDR,
    BanditLogs,
    FunctionPolicy,
    UniformPolicy,
    audit,
    compare_policies,
    evaluate,
    scan_logs,
    summarize,
    verdict,
)
from skope_ope.base import StaticEvaluator
from tests._worlds import d8, d8_logs

TUTORIAL = Path(__file__).parents[3] / "docs" / "tutorials" / "add_an_evaluator.rst"
N, MU = 400, np.full(3, 1 / 3)
RNG = np.random.RandomState(0)
X, CODE, DAY = RNG.rand(N), RNG.choice(3, N, p=MU), np.repeat(["mon", "tue"], N // 2)
CLICK = (RNG.rand(N) < 0.2 + 0.2 * CODE).astype(float)
PI = np.column_stack([0.2 + 0.3 * X, 0.5 - 0.3 * X, np.full(N, 0.3)])
ROLES = {"action": "a", "reward": "r", "propensity": "p", "context": ["x"]}
POLICY = FunctionPolicy(lambda frame: _probabilities(np.asarray(frame)[:, 0]))


def _probabilities(x):
    return np.column_stack([0.2 + 0.3 * x, 0.5 - 0.3 * x, np.full(len(x), 0.3)])


def check_interval(value, **how):
    """The interval holds the value, and lies within the rewards."""
    low, high = value.confidence_interval(**how)
    assert 0 <= low < value.value < high <= 1


def check_same(found, expected):
    assert_allclose(found.value, expected.value)
    assert_allclose(found.standard_error, expected.standard_error, rtol=1e-6)
    check_interval(found)


def of_the_tutorial():
    """The class of the tutorial, as it stands there."""
    lines = re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", TUTORIAL.read_text(), re.MULTILINE)
    rest = lines[lines.index("class PowerIPS(StaticEvaluator):") :]
    body = takewhile(lambda one: one[:1] in ("", " "), rest[1:])
    made = {"__name__": __name__, "StaticEvaluator": StaticEvaluator, "Real": Real}
    exec("\n".join([rest[0], *body]), made)
    return made["PowerIPS"](power=0.5)


class MassIPS(StaticEvaluator):
    """IPS for a logger that takes each of three actions with probability 1 / 3."""

    def terms(self, rounds):
        return (3 * rounds.pi * rounds.r,)


class OftenTaken(StaticEvaluator):
    """Value of the rounds with actions that the policy often takes."""

    def terms(self, rounds):
        return ((rounds.pi > 0.31) * rounds.w * rounds.r * (1 - rounds.pi),)


@pytest.fixture
def frame():
    pandas = pytest.importorskip("pandas")
    columns = {"x": X, "a": np.array(list("abc"))[CODE], "r": CLICK, "p": MU[CODE]}
    return pandas.DataFrame(columns | dict(zip("def", PI.T, strict=True)))


@pytest.fixture
def logs(frame):
    return BanditLogs.from_frame(frame, **ROLES)


METHODS = "auto", "gamma", "student", "normal", "bootstrap", "percentile"
MAKERS = [of_the_tutorial, MassIPS, OftenTaken]


@pytest.mark.frames
@pytest.mark.parametrize("make", MAKERS)
def test_what_a_value_says(make, logs):
    evaluator = make().fit(logs)
    value, other = evaluator.evaluate(POLICY), evaluator.evaluate(UniformPolicy())
    assert value.value == evaluator.score(POLICY)
    for method in METHODS:
        check_interval(value, method=method)
    gain = value - other
    assert_allclose(gain.value, value.value - other.value)
    assert gain.confidence_interval().low < gain.value
    assert_allclose(value.round_values.mean(), value.value)
    days = value.by(DAY)
    assert_allclose(np.mean([days["mon"].value, days["tue"].value]), value.value)
    assert value.lift(other).gain == gain.value
    assert verdict(value).answer and value._repr_html_()
    assert verdict(value, audit=audit(POLICY, logs)).answer


@pytest.mark.frames
def test_probabilities_are_those_of_the_policy(logs):
    [mass, ips] = (one.fit(logs).evaluate(POLICY) for one in (MassIPS(), IPS()))
    assert_allclose(mass.round_values, ips.round_values, atol=1e-12)
    wide, narrow = (one.confidence_interval() for one in (mass, ips))
    # a round of the largest weight might have had a larger propensity than these
    assert narrow.low - 1e-3 < wide.low and narrow.high <= wide.high
    assert wide.high - wide.low < 1.1 * (narrow.high - narrow.low)
    seen = []

    class Looks(StaticEvaluator):
        def terms(self, rounds):
            seen.append(rounds.pi)
            return (rounds.w * rounds.r,)

    pi = PI.round(1)
    pi[:, 2] = 1 - pi[:, :2].sum(axis=1)
    assert len(Looks().fit(logs).evaluate(pi).round_values) == N
    for one in (
        one for one in seen if len(one) == N
    ):  # to the last digit, when they are asked again, too
        assert_array_equal(one, pi[np.arange(N), CODE])


@pytest.mark.frames
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.TailWarning")
@pytest.mark.parametrize("make", MAKERS)
def test_tables_summaries_and_sources(make, logs, frame, tmp_path):
    policies = {"new": POLICY, "old": UniformPolicy()}
    how = {"evaluators": {"own": make()}}
    expected = evaluate(policies, logs, **how)["new", "own"]
    comparison = compare_policies(policies, logs, evaluator=make())
    assert "new" in repr(comparison) and comparison.p_values
    frame.to_csv(path := tmp_path / "log.csv", index=False)
    parts = [summarize(policies, logs[day == DAY], **how) for day in ("mon", "tue")]
    sums = summarize(policies, logs, **how), sum(parts)
    lazy = evaluate(policies, scan_logs(path, **ROLES), **how)
    for values in (*(one.values() for one in sums), lazy):
        value = values["new", "own"]
        check_same(value, expected)
        assert (value - values["old", "own"]).confidence_interval().width > 0
        assert repr(value) and value._repr_html_()


@pytest.mark.frames
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.TailWarning")
def test_lazy_frames(logs, frame):
    query = pytest.importorskip("polars").from_pandas(frame).lazy()
    lazy = scan_logs(query, **ROLES, columns={"pi": ["d", "e", "f"]})
    value = evaluate("pi", lazy, evaluators={"own": MassIPS()})["own"]
    check_same(value, MassIPS().fit(logs).evaluate(PI))
    with pytest.raises(TypeError, match="Write the frame to parquet files, and scan"):
        evaluate("pi", lazy, evaluators={"own": of_the_tutorial()})


# -- one formula, or a function of several means --------------------------------
few_rounds = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
D8 = d8()
W = D8.pi[np.arange(8), D8.action] / D8.propensity


class MeanWeight(StaticEvaluator):
    def terms(self, rounds):
        return (rounds.w,)


class WeightedWeight(StaticEvaluator):
    """sum w^2 / sum w: a ratio of its own, with its gradient."""

    @staticmethod
    def combine(m):
        return m[0] / m[1], (1 / m[1], -m[0] / m[1] ** 2)

    def terms(self, rounds):
        return rounds.w**2, rounds.w


VALUE = (W**2).sum() / W.sum()
LINEARISED = VALUE + (W**2 - VALUE * W) / W.mean()


@few_rounds
@pytest.mark.parametrize(
    ("evaluator", "expected"), [(MeanWeight(), W), (WeightedWeight(), LINEARISED)]
)
def test_a_formula_is_an_evaluator(evaluator, expected):
    result = evaluator.fit(d8_logs()).evaluate(D8.pi)
    assert_allclose(result.value, expected.mean(), rtol=1e-12)
    assert_allclose(result.standard_error, expected.std(ddof=1) / 8**0.5, rtol=1e-12)
    assert_allclose(result.round_values, expected, rtol=1e-12)
    assert result.estimator == type(evaluator).__name__
    assert result.diagnostics["altered_rows"] == 0
    a, b = np.arange(1.0, 9.0), np.linspace(2.0, 1.0, 8)
    evaluator.fit(d8_logs(sample_weight=a)).evaluate(D8.pi, sample_weight=b)
    assert_array_equal(a, np.arange(1.0, 9.0))  # weights given are left alone
    assert_array_equal(b, np.linspace(2.0, 1.0, 8))
    with pytest.raises(TypeError, match=r"StaticEvaluator does not define terms\(rou"):
        StaticEvaluator().fit(d8_logs()).evaluate(UniformPolicy())


class NoChecks(IPS):
    _parameter_constraints = {"power": "no_validation"}

    def __init__(self, *, power="free", cmax=None):
        super().__init__(cmax=cmax)
        self.power = power


class Odds(StaticEvaluator):
    """Its value cannot be formed where all rewards are one."""

    @staticmethod
    def combine(m):
        return m[0] / (1 - m[0]), (1 / (1 - m[0]) ** 2,)

    def terms(self, rounds):
        return (rounds.w * rounds.r / 2,)


class Strict(StaticEvaluator):
    """A formula that looks at the log, and keeps something of it."""

    def check_logs(self, logs):
        super().check_logs(logs)
        self._largest = 1 / logs.propensity.min()

    def terms(self, rounds):
        if (rounds.w > self._largest).any():
            raise ValueError("not this log")
        return (rounds.w * rounds.r,)


def test_a_formula_is_tried_with_care(recwarn):
    logs = BanditLogs(X[:, None], CODE, CLICK, MU[CODE], reward_range=(0, 1))
    plain, odds = (one.fit(logs).evaluate(PI) for one in (IPS(), Odds()))
    half = plain.value / 2
    assert odds.value == pytest.approx(half / (1 - half))
    assert odds.confidence_interval().method == "student"
    assert Strict().fit(logs).score(PI) == plain.value
    auto = NoChecks(cmax=np.str_("auto")).fit(logs).evaluate(PI)
    assert auto.diagnostics["cmax"] > 0

    class Doubles(StaticEvaluator):
        def terms(self, rounds):
            w = rounds.w
            w *= 2
            return (w * rounds.r,)

    with pytest.raises(ValueError, match="read-only"):
        Doubles().fit(logs).evaluate(PI)
    assert plain.confidence_interval(method="hoeffding", max_weight=100).width > 0
    assert not [one for one in recwarn if one.category is RuntimeWarning]


@pytest.mark.parametrize("given", [{"reward_model": 0.3}, {}])
def test_a_model_that_is_fitted_for_every_policy_has_no_sums(given):
    logs = BanditLogs(X[:, None], CODE, CLICK, MU[CODE]).with_columns(pi=PI)
    with pytest.raises(ValueError, match=r"MRDR .*for every policy"):
        summarize("pi", logs, evaluators=[MRDR()], **given)
