# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
from math import sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    BanditLogs,
    LogSmoothing,
    MultiLoggerIPS,
    UniformPolicy,
)
from skope_ope.exceptions import FewGroupsWarning, SupportWarning
from tests._values import stated_value
from tests._worlds import W1, d8_logs
from tests.evaluators.core._asked import (
    D8,
    D8_LOGS,
    EVALUATORS,
    by_pickle,
    quietly,
    world,
)

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


IPS_VALUE = quietly(IPS().fit(D8_LOGS).evaluate, D8.pi)


# -- numbers --------------------------------------------------------------------------
def test_what_it_holds():
    assert type(IPS_VALUE.value) is type(IPS_VALUE.standard_error) is float
    assert float(IPS_VALUE) == IPS_VALUE.value == pytest.approx(0.9625)
    assert (IPS_VALUE.n_rounds, IPS_VALUE.degrees_of_freedom) == (8, 7)
    assert IPS_VALUE.estimator == "IPS"
    assert IPS_VALUE.effective_sample_size == pytest.approx(3.328, abs=5e-4)
    assert IPS_VALUE.row_id == D8_LOGS.row_id
    assert [type(w).__name__ for w in IPS_VALUE.warnings] == ["LowOverlapWarning"]
    terms = [0, 1 / 3, 4, 0.2, 0, 1 / 6, 3, 0]
    assert_allclose(IPS_VALUE.round_values, terms, rtol=1e-12)


def test_nothing_is_set_on_a_result():
    for name in ("value", "standard_error", "degrees_of_freedom", "n_rounds", "row_id"):
        with pytest.raises(AttributeError):
            setattr(IPS_VALUE, name, 0.0)


def test_round_values_of_ratios():
    """w (r - V) / mean(w) + V for SNIPS, as in the delta method."""
    w = np.array([0.2, 1 / 3, 4, 0.2, 1 / 6, 1 / 6, 3, 1.5])
    result = SNIPS().fit(D8_LOGS).evaluate(D8.pi)
    expected = w * (D8.reward - result.value) / w.mean() + result.value
    assert_allclose(result.round_values, expected, rtol=1e-12)
    result = SNDR(reward_model="q_hat").fit(D8_LOGS).evaluate(D8.pi)
    dm = (D8.pi * D8.q_hat).sum(axis=1)
    residual = D8.reward - D8.q_hat[np.arange(8), D8.action]
    ratio = (w * residual).sum() / w.sum()
    expected = dm - dm.mean() + w * (residual - ratio) / w.mean() + result.value
    assert_allclose(result.round_values, expected, rtol=1e-12)


def test_round_values_are_computed_on_access():
    class Counted:
        calls = 0

        def logs_proba(self, logs):
            Counted.calls += 1
            return W1.pi[logs.context[:, 0].astype(int)]

    result = IPS().fit(D8_LOGS).evaluate(Counted())
    assert Counted.calls == 1
    assert "round_values" not in vars(result)
    first = result.round_values
    assert result.round_values is first
    assert Counted.calls == 1  # what it said of the logged actions is kept
    # nor does a pickle need a policy that has none
    assert by_pickle(result).value == result.value


# -- intervals ------------------------------------------------------------------------
def test_intervals_of_the_fixed_log():
    interval = IPS_VALUE.confidence_interval
    assert_allclose(interval(method="normal"), (-0.1415, 2.0665), rtol=0, atol=6e-7)
    student = interval(method="student")
    assert_allclose(student, (-0.369435, 2.294435), rtol=0, atol=6e-7)
    narrow, wide = interval(0.5, "student"), interval(0.99, "student")
    assert wide[0] < student[0] < narrow[0] < IPS_VALUE.value
    assert IPS_VALUE.value < narrow[1] < student[1] < wide[1]
    one = IPS().fit(D8_LOGS[:1]).evaluate(D8.pi[:1])  # its reward tells no range
    assert np.isnan(one.standard_error)
    for method in ("auto", "normal"):
        assert np.isnan(one.confidence_interval(method=method)).all()
    # degrees of freedom may be of parts
    given = {"estimator": "three parts", "degrees_of_freedom": 2}
    low, high = stated_value(1.0, 0.5, 1000, **given).confidence_interval()
    assert_allclose([1 - low, high - 1], 4.302652730 * 0.5, rtol=1e-9)


def test_deviation_bounds():
    given = {"max_weight": 6.0, "reward_bound": 2.0}
    log, radius = np.log(20), IPS_VALUE.deviation_bound(0.1, **given)
    expected = 2 * (np.sqrt(12 * log / 8) + 14 * log / 24)
    assert_allclose(radius, expected, rtol=1e-12)
    assert IPS_VALUE.deviation_bound(0.01, **given) > radius
    for wrong, match in (
        ({"delta": 0.1}, r"needs max_weight and reward_bound"),
        ({"delta": 0.1, "max_weight": 6.0}, "needs reward_bound:"),
        ({"delta": 5} | given, r"\(0, 1\), got 5"),
    ):
        with pytest.raises(ValueError, match=match):
            IPS_VALUE.deviation_bound(**wrong)


# -- paired differences ---------------------------------------------------------------


def test_differences_of_evaluators_and_of_differences():
    ips, snips = IPS_VALUE, SNIPS().fit(D8_LOGS).evaluate(D8.pi)
    difference, opposite = ips - snips, snips - ips
    assert difference.value == ips.value - snips.value == -opposite.value
    assert opposite.standard_error == difference.standard_error > 0
    assert_array_equal(difference.round_values, ips.round_values - snips.round_values)
    assert difference.estimator == "IPS - SNIPS"
    assert difference.row_id == D8_LOGS.row_id
    twice = difference - difference
    assert (twice.value, twice.standard_error) == (0, 0)
    assert (ips - ips).confidence_interval(method="student") == (0, 0)


def test_differences_of_parts_of_the_logs():
    whole = IPS().fit(D8_LOGS)
    first = whole.evaluate("pi", D8_LOGS[:4])
    same = SNIPS().fit(D8_LOGS[np.arange(4)])
    assert (first - same.evaluate("pi")).n_rounds == 4
    for rows in (slice(None), slice(4, None), [1, 0, 2, 3]):
        with pytest.raises(ValueError, match=r"different rounds.*\(equal row_id\)"):
            first - whole.evaluate("pi", D8_LOGS[rows])
    with pytest.raises(ValueError, match=r"different rounds.*\(equal row_id\)"):
        first - whole.evaluate("pi", d8_logs()[:4])


def test_only_values_are_subtracted():
    for other in (1.0, None, np.float64(1)):
        with pytest.raises(TypeError, match="unsupported operand"):
            IPS_VALUE - other
    with pytest.raises(ValueError, match="different rounds"):
        IPS_VALUE - stated_value(1.0, 0.1, 8, estimator="made by hand")


# -- clusters -------------------------------------------------------------------------
USERS = np.random.RandomState(3).randint(60, size=300) ** 2 // 60  # unequal ones
CLUSTERED = [*EVALUATORS, MultiLoggerIPS(pooling="weighted"), MultiLoggerIPS()]


def users(weighted=False):
    """The random log, with users and with loggers that they cross."""
    logger = np.random.RandomState(4).randint(2, size=300)
    p = world().propensity[:, None]
    both = np.where(logger[:, None] == [0, 1], p, 0.5 * p + 0.1)
    fields = {"group": USERS, "logger": logger, "logger_proba": both}
    return world(weighted=weighted, **fields)


def test_a_group_with_nearly_all_weight_counts_as_one():
    weight = np.where(USERS[0] == USERS, 1e4, 1.0)
    result = IPS().fit(users().replace(sample_weight=weight)).evaluate("pi")
    assert 1 < result.diagnostics["effective_groups"] < 1.01
    assert any(isinstance(w, FewGroupsWarning) for w in result.warnings)
    assert result.degrees_of_freedom < 1.01


def test_values_of_logs_with_other_groups_are_not_subtracted():
    logs = users()
    with_users, without, halves = (
        IPS().fit(logs.replace(group=group)).evaluate("pi")
        for group in (USERS, None, np.arange(300) // 2)
    )
    for a, b in ((with_users, without), (without, with_users), (with_users, halves)):
        with pytest.raises(ValueError, match="different groups"):
            a - b
    assert (with_users - with_users).value == 0


def clustered_error(z, cluster):
    """Error of round values that hold the factor of the units, by a loop."""
    n, change = len(z), z - z.mean()
    sums = [change[cluster == g].sum() for g in set(cluster)]
    return sqrt(sum(one**2 for one in sums) / n / (n - 1))


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("evaluator", CLUSTERED, ids=repr)
def test_errors_know_the_groups_of_the_logs(evaluator, weighted):
    logs = users(weighted)
    result = evaluator.fit(logs).evaluate("pi")
    error = clustered_error(result.round_values, USERS)
    assert_allclose(result.standard_error, error, rtol=1e-9)
    alone = evaluator.fit(logs.replace(group=None)).evaluate("pi")
    assert result.value == alone.value
    effect = (result.standard_error / alone.standard_error) ** 2
    code = np.unique(USERS, return_inverse=True)[1]
    sizes, told = np.bincount(code, logs.sample_weight), result.diagnostics
    assert told["n_groups"] == len(sizes)
    effective = sizes.sum() ** 2 / (sizes @ sizes)
    assert told["effective_groups"] == pytest.approx(effective)
    assert told["design_effect"] == pytest.approx(effect)
    of_groups = {"n_groups", "effective_groups", "design_effect"}
    assert not of_groups & set(alone.diagnostics)
    [warned] = [w for w in result.warnings if isinstance(w, FewGroupsWarning)]
    assert warned.value == told["effective_groups"] == result.degrees_of_freedom


@pytest.mark.parametrize("evaluator", CLUSTERED, ids=repr)
def test_differences_know_the_groups_of_the_logs(evaluator):
    fitted = evaluator.fit(users())
    first, second = fitted.evaluate("pi"), fitted.evaluate(UniformPolicy())
    difference = first - second
    error = clustered_error(first.round_values - second.round_values, USERS)
    assert_allclose(difference.standard_error, error, rtol=1e-9)
    assert difference.degrees_of_freedom == first.degrees_of_freedom
    assert difference.diagnostics["n_groups"] == first.diagnostics["n_groups"]
    assert any(isinstance(w, FewGroupsWarning) for w in difference.warnings)


@pytest.mark.parametrize("evaluator", EVALUATORS, ids=repr)
def test_groups_of_rounds_know_the_groups_of_the_logs(evaluator):
    logs, half = users(), np.arange(300) % 2
    fitted = evaluator.fit(logs)
    result = fitted.evaluate("pi")
    for label, found in result.by(half).items():
        alone = fitted.evaluate("pi", logs[half == label])
        assert_allclose(found.value, alone.value, rtol=1e-10)
        assert_allclose(found.standard_error, alone.standard_error, rtol=1e-7)
        error = clustered_error(found.round_values, USERS[half == label])
        assert_allclose(found.standard_error, error, rtol=1e-9)
    # of one group each: no spread
    for found in result.by("group").values():
        assert np.isnan(found.standard_error)
        assert [w.value for w in found.warnings] == [1.0]


def test_one_group_has_no_standard_error():
    logs = D8_LOGS.replace(group=np.zeros(8, dtype=int))
    with pytest.warns(FewGroupsWarning, match="all rounds belong to one group"):
        result = IPS().fit(logs).evaluate(D8.pi)
    assert np.isnan(result.confidence_interval(method="student")).all()
    assert result.confidence_interval() == (0, 1)  # all that is possible


# -- storage and looks ----------------------------------------------------------------


def by_skops(value):
    io = pytest.importorskip("skops.io")
    data = io.dumps(value)
    return io.loads(data, trusted=io.get_untrusted_types(data=data))


@pytest.mark.few_cases(4)
@pytest.mark.parametrize("stored", [by_pickle, by_skops])
@pytest.mark.parametrize("evaluator", [*CLUSTERED, LogSmoothing()], ids=repr)
def test_storing_keeps_everything(evaluator, stored):
    logs = users()
    fitted = evaluator.fit(logs.replace(reward=logs.reward**2))
    result = fitted.evaluate("pi")
    for value in (result, result - fitted.evaluate(UniformPolicy())):
        other = stored(value)
        assert (other.value, other.row_id) == (value.value, value.row_id)
        assert other.confidence_interval() == value.confidence_interval()
        assert_array_equal(other.round_values, value.round_values)
        for name, number in value.diagnostics.items():
            assert_array_equal(other.diagnostics[name], number)
        assert ((other - value).value, (other - value).standard_error) == (0, 0)
        groups, expected = (v.by(np.arange(300) % 2) for v in (other, value))
        for label, group in expected.items():
            assert groups[label].value == group.value
        assert stored(other).value == value.value


def test_a_pickle_does_not_hold_the_logs():
    n = 2000
    wide = np.random.RandomState(0).normal(size=(n, 100))
    logs = BanditLogs(wide, np.arange(n) % 2, np.ones(n), np.full(n, 0.5))
    size = len(pickle.dumps(IPS().fit(logs).evaluate(UniformPolicy())))
    assert size < 8 * n * 10  # contexts alone would be a hundred columns


def test_looks():
    assert f"{IPS_VALUE:.3f}" == format(IPS_VALUE, ".3f") == "0.962"
    assert f"{IPS_VALUE:8.2f}|" == "    0.96|"
    assert f"{IPS_VALUE}" == str(IPS_VALUE) == repr(IPS_VALUE)
    assert repr(IPS_VALUE) == (
        "PolicyValue(0.96, standard_error=0.56, n_rounds=8, estimator='IPS')"
    )
    for text in ("IPS", "0.96", "0 to 1", "gamma", "3.3", "effective rounds"):
        assert text in IPS_VALUE._repr_html_()
    about = {"estimator": "<b>", "warnings": [SupportWarning("<i>")]}
    page = stated_value(1.0, 0.1, 8, **about)._repr_html_()
    assert "<b>" not in page and "&lt;i&gt;" in page
