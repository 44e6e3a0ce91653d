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
    DirectMethod,
    DoublyRobust,
    LogSmoothing,
    MultiLoggerIPS,
    UniformPolicy,
)
from skope_ope.exceptions import FewGroupsWarning, SupportWarning
from tests._values import stated_value
from tests._worlds import W1, d8, d8_logs
from tests.evaluators.core._asked import world

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

D8 = d8()
EVALUATORS = [
    IPS(),
    IPS(cmax=2.0),
    SNIPS(),
    SNDR(reward_model="q_hat"),
    DoublyRobust(reward_model="q_hat"),
    DirectMethod(reward_model="q_hat"),
]


def logs_of_d8(**fields):
    return d8_logs(**fields).with_columns(half=np.repeat(["early", "late"], 4))


LOGS = logs_of_d8()


# -- numbers --------------------------------------------------------------------------
def test_what_it_holds():
    result = IPS().fit(LOGS).evaluate(D8.pi)
    assert type(result.value) is float
    assert type(result.standard_error) is float
    assert float(result) == result.value == pytest.approx(0.9625)
    assert result.n_rounds == 8
    assert result.estimator == "IPS"
    assert result.degrees_of_freedom == 7
    assert result.effective_sample_size == pytest.approx(3.328, abs=5e-4)
    assert result.row_id == LOGS.row_id
    assert [type(w).__name__ for w in result.warnings] == ["LowOverlapWarning"]
    assert_allclose(result.round_values, [0, 1 / 3, 4, 0.2, 0, 1 / 6, 3, 0], rtol=1e-12)


def test_round_values_of_ratios():
    """w (r - V) / mean(w) + V for SNIPS, as in the delta method."""
    w = np.array([0.2, 1 / 3, 4, 0.2, 1 / 6, 1 / 6, 3, 1.5])
    result = SNIPS().fit(LOGS).evaluate(D8.pi)
    expected = w * (D8.reward - result.value) / w.mean() + result.value
    assert_allclose(result.round_values, expected, rtol=1e-12)
    result = SNDR(reward_model="q_hat").fit(LOGS).evaluate(D8.pi)
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

    result = IPS().fit(LOGS).evaluate(Counted())
    assert Counted.calls == 1
    assert "round_values" not in vars(result)
    first = result.round_values
    assert result.round_values is first
    assert Counted.calls == 1  # what it said of the logged actions is kept


# -- intervals ------------------------------------------------------------------------
def test_intervals_of_the_fixed_log():
    result = IPS().fit(LOGS).evaluate(D8.pi)
    normal = result.confidence_interval(method="normal")
    assert_allclose(normal, (-0.1415, 2.0665), rtol=0, atol=6e-7)
    student = result.confidence_interval(method="student")
    assert_allclose(student, (-0.369435, 2.294435), rtol=0, atol=6e-7)
    narrow = result.confidence_interval(0.5, "student")
    wide = result.confidence_interval(0.99, "student")
    assert wide[0] < student[0] < narrow[0] < result.value < narrow[1] < wide[1]


def test_one_round_has_no_interval():
    result = IPS().fit(LOGS[:1]).evaluate(D8.pi[:1])  # its reward tells no range
    assert np.isnan(result.standard_error)
    assert np.isnan(result.confidence_interval()).all()
    assert np.isnan(result.confidence_interval(method="normal")).all()


def test_degrees_of_freedom_may_be_of_parts():
    result = stated_value(1.0, 0.5, 1000, estimator="three parts", degrees_of_freedom=2)
    low, high = result.confidence_interval()
    assert_allclose(high - 1, 4.302652730 * 0.5, rtol=1e-9)
    assert_allclose(1 - low, high - 1, rtol=1e-12)


def test_deviation_bounds():
    result = IPS().fit(LOGS).evaluate(D8.pi)
    radius = result.deviation_bound(0.1, max_weight=6.0, reward_bound=2.0)
    log = np.log(20)
    expected = 2 * (np.sqrt(12 * log / 8) + 14 * log / 24)
    assert_allclose(radius, expected, rtol=1e-12)
    more = result.deviation_bound(0.01, max_weight=6.0, reward_bound=2.0)
    assert more > radius
    for given, match in (
        ({"delta": 0.1}, r"needs max_weight and reward_bound"),
        ({"delta": 0.1, "max_weight": 6.0}, "needs reward_bound:"),
        ({"delta": 5} | {"max_weight": 6.0, "reward_bound": 2.0}, r"\(0, 1\), got 5"),
    ):
        with pytest.raises(ValueError, match=match):
            result.deviation_bound(**given)
    with pytest.raises(ValueError, match="no theorem bounds the deviation of SNIPS"):
        SNIPS().fit(LOGS).evaluate(D8.pi).deviation_bound()


# -- paired differences ---------------------------------------------------------------
@pytest.mark.parametrize("evaluator", EVALUATORS, ids=repr)
def test_paired_differences(evaluator):
    fitted = evaluator.fit(LOGS)
    first, second = fitted.evaluate(D8.pi), fitted.evaluate(UniformPolicy())
    difference = first - second
    d = first.round_values - second.round_values
    assert_allclose(difference.value, first.value - second.value, rtol=1e-12)
    assert_allclose(difference.value, d.mean(), rtol=1e-10)
    assert_allclose(difference.standard_error, d.std(ddof=1) / 8**0.5, rtol=1e-12)
    assert_array_equal(difference.round_values, d)
    assert difference.row_id == LOGS.row_id
    assert difference.estimator == f"{first.estimator} - {second.estimator}"
    assert difference.confidence_interval()[0] < difference.value
    opposite = second - first
    assert opposite.value == -difference.value
    assert opposite.standard_error == difference.standard_error


def test_a_paired_difference_is_surer_than_two_values():
    """The two policies of the specification: .17125, error .133642 against .317682."""
    fitted = DoublyRobust(reward_model="q_hat").fit(LOGS)
    first = fitted.evaluate(D8.pi)
    second = fitted.evaluate(D8.pi + 0.5 * (1 / 3 - D8.pi))
    paired = (first - second).standard_error
    apart = np.hypot(first.standard_error, second.standard_error)
    assert paired < 0.6 * apart


def test_differences_of_evaluators_and_of_differences():
    ips, snips = (e.fit(LOGS).evaluate(D8.pi) for e in (IPS(), SNIPS()))
    difference = ips - snips
    assert difference.value == ips.value - snips.value
    assert (difference - difference).value == 0
    assert (difference - difference).standard_error == 0
    assert (ips - ips).confidence_interval(method="student") == (0, 0)


def test_differences_of_parts_of_the_logs():
    whole = IPS().fit(LOGS)
    part, same = LOGS[:4], LOGS[np.arange(4)]
    first = whole.evaluate("pi", part)
    assert (first - SNIPS().fit(same).evaluate("pi")).n_rounds == 4
    for other in (LOGS, LOGS[4:], LOGS[[1, 0, 2, 3]], logs_of_d8()[:4]):
        with pytest.raises(ValueError, match=r"different rounds.*\(equal row_id\)"):
            first - whole.evaluate("pi", other)


def test_only_values_are_subtracted():
    result = IPS().fit(LOGS).evaluate(D8.pi)
    for other in (1.0, None, np.float64(1)):
        with pytest.raises(TypeError, match="unsupported operand"):
            result - other
    alone = stated_value(1.0, 0.1, 8, estimator="made by hand")
    with pytest.raises(ValueError, match="different rounds"):
        result - alone


# -- clusters -------------------------------------------------------------------------
USERS = np.random.RandomState(3).randint(60, size=300) ** 2 // 60  # unequal ones
CLUSTERED = [*EVALUATORS, MultiLoggerIPS(pooling="weighted"), MultiLoggerIPS()]


def users(weighted=False):
    """The random log, with users and with loggers that they cross."""
    logs = world(weighted=weighted)
    logger = np.random.RandomState(4).randint(2, size=300)
    p = logs.propensity[:, None]
    fields = {
        name: getattr(logs, name)
        for name in ("context", "action", "reward", "propensity", "sample_weight")
    }
    both = np.where(logger[:, None] == [0, 1], p, 0.5 * p + 0.1)
    given = BanditLogs(**fields, group=USERS, logger=logger, logger_proba=both)
    return given.with_columns(**logs.columns)


def result_weights(logs):
    """Sample weights of the rounds, one where the logs have none."""
    return np.ones(len(logs)) if logs.sample_weight is None else logs.sample_weight


def test_a_group_with_nearly_all_weight_counts_as_one():
    weight = np.ones(300)
    weight[USERS[0] == USERS] = 1e4
    result = IPS().fit(users().replace(sample_weight=weight)).evaluate("pi")
    assert 1 < result.diagnostics["effective_groups"] < 1.01
    assert any(isinstance(w, FewGroupsWarning) for w in result.warnings)
    assert result.degrees_of_freedom < 1.01


def test_values_of_logs_with_other_groups_are_not_subtracted():
    logs = users()
    with_users = IPS().fit(logs).evaluate("pi")
    without = IPS().fit(logs.replace(group=None)).evaluate("pi")
    halves = IPS().fit(logs.replace(group=np.arange(300) // 2)).evaluate("pi")
    for a, b in ((with_users, without), (without, with_users), (with_users, halves)):
        with pytest.raises(ValueError, match="different groups"):
            a - b
    assert (with_users - with_users).value == 0


def clustered_error(z, cluster):
    """Error of round values that hold the factor of the units, by a loop."""
    n = len(z)
    change = z - z.mean()
    return sqrt(
        sum(change[cluster == g].sum() ** 2 for g in set(cluster)) / n / (n - 1)
    )


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("evaluator", CLUSTERED, ids=repr)
def test_errors_know_the_groups_of_the_logs(evaluator, weighted):
    fitted = evaluator.fit(users(weighted))
    result = fitted.evaluate("pi")
    error = clustered_error(result.round_values, USERS)
    assert_allclose(result.standard_error, error, rtol=1e-9)
    alone = evaluator.fit(users(weighted).replace(group=None)).evaluate("pi")
    assert result.value == alone.value
    effect = (result.standard_error / alone.standard_error) ** 2
    weight = result_weights(users(weighted))
    sizes = np.bincount(np.unique(USERS, return_inverse=True)[1], weight)
    told = result.diagnostics
    assert told["n_groups"] == len(sizes)
    effective = sizes.sum() ** 2 / (sizes @ sizes)
    assert told["effective_groups"] == pytest.approx(effective)
    assert told["design_effect"] == pytest.approx(effect)
    assert not {"n_groups", "effective_groups", "design_effect"} & set(
        alone.diagnostics
    )
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
    logs = users()
    half = np.arange(300) % 2
    fitted = evaluator.fit(logs)
    for label, found in fitted.evaluate("pi").by(half).items():
        alone = fitted.evaluate("pi", logs[half == label])
        assert_allclose(found.value, alone.value, rtol=1e-10)
        assert_allclose(found.standard_error, alone.standard_error, rtol=1e-7)
        error = clustered_error(found.round_values, USERS[half == label])
        assert_allclose(found.standard_error, error, rtol=1e-9)
    # of one group each: no spread
    for found in fitted.evaluate("pi").by("group").values():
        assert np.isnan(found.standard_error)
        assert [w.value for w in found.warnings] == [1.0]


def test_one_group_has_no_standard_error():
    logs = LOGS.replace(group=np.zeros(8, dtype=int))
    with pytest.warns(FewGroupsWarning, match="all rounds belong to one group") as got:
        result = IPS().fit(logs).evaluate(D8.pi)
    assert [w.message.value for w in got if w.category is FewGroupsWarning] == [1.0]
    assert result.value == pytest.approx(0.9625)
    assert np.isnan(result.standard_error)
    assert np.isnan(result.confidence_interval(method="student")).all()
    assert result.confidence_interval() == (0, 1)  # all that is possible


@pytest.mark.parametrize("kind", ["strings", "tuples", "far numbers"])
def test_labels_of_groups_of_any_kind(kind):
    expected = IPS().fit(users()).evaluate("pi")
    labels = np.empty(300, dtype=object)
    labels[:] = {
        "strings": [f"user {g}" for g in USERS],
        "tuples": [("user", g) for g in USERS.tolist()],
        "far numbers": (10**12 - 7 * USERS).tolist(),
    }[kind]
    for group in (labels, labels.tolist()):
        result = IPS().fit(users().replace(group=group)).evaluate("pi")
        assert_allclose(result.standard_error, expected.standard_error, rtol=1e-12)
        assert result.diagnostics["n_groups"] == expected.diagnostics["n_groups"]


# -- storage and looks ----------------------------------------------------------------
def assert_same_diagnostics(found, expected):
    """Names and numbers."""
    assert list(found.diagnostics) == list(expected.diagnostics)
    for name, number in expected.diagnostics.items():
        assert_array_equal(found.diagnostics[name], number)


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("evaluator", CLUSTERED, ids=repr)
def test_skops_keeps_everything(evaluator):
    io = pytest.importorskip("skops.io")
    fitted = evaluator.fit(users())
    result = fitted.evaluate("pi")
    for value in (result, result - fitted.evaluate(UniformPolicy())):
        data = io.dumps(value)
        other = io.loads(data, trusted=io.get_untrusted_types(data=data))
        assert other.value == value.value
        assert other.standard_error == value.standard_error
        assert other.confidence_interval() == value.confidence_interval()
        assert_array_equal(other.round_values, value.round_values)
        assert_same_diagnostics(other, value)
        assert [str(w) for w in other.warnings] == [str(w) for w in value.warnings]
        assert (other - value).standard_error == 0


@pytest.mark.parametrize("evaluator", [*EVALUATORS, LogSmoothing()], ids=repr)
def test_pickling_keeps_everything(evaluator):
    result = evaluator.fit(LOGS).evaluate(UniformPolicy())
    data = pickle.dumps(result)
    other = pickle.loads(data)
    for name in ("value", "standard_error", "n_rounds", "estimator"):
        assert getattr(other, name) == getattr(result, name)
    assert_array_equal(other.round_values, result.round_values)
    assert other.confidence_interval() == result.confidence_interval()
    assert other.row_id == result.row_id
    assert (other - result).value == 0
    assert_same_diagnostics(other, result)
    assert [str(w) for w in other.warnings] == [str(w) for w in result.warnings]
    groups = other.by(LOGS.columns["half"])
    expected = result.by("half")
    assert [g.value for g in groups.values()] == [g.value for g in expected.values()]
    again = pickle.loads(pickle.dumps(other))
    assert again.value == result.value


def test_a_pickle_does_not_hold_the_logs():
    n = 2000
    wide = BanditLogs(
        np.random.RandomState(0).normal(size=(n, 100)),
        np.arange(n) % 2,
        np.ones(n),
        np.full(n, 0.5),
    )
    size = len(pickle.dumps(IPS().fit(wide).evaluate(UniformPolicy())))
    assert size < 8 * n * 10  # contexts alone would be a hundred columns


def test_policies_that_cannot_be_pickled_do_not_matter():
    class Local:
        def logs_proba(self, logs):
            return np.full((len(logs), 3), 1 / 3)

    result = IPS().fit(LOGS).evaluate(Local())
    assert pickle.loads(pickle.dumps(result)).value == result.value


def test_formats():
    result = IPS().fit(LOGS).evaluate(D8.pi)
    assert f"{result:.3f}" == format(result, ".3f") == "0.962"
    assert f"{result:8.2f}|" == "    0.96|"
    assert f"{result}" == str(result) == repr(result)


def test_nothing_is_set_on_a_result():
    result = IPS().fit(LOGS).evaluate(D8.pi)
    for name in ("value", "standard_error", "degrees_of_freedom", "n_rounds", "row_id"):
        with pytest.raises(AttributeError):
            setattr(result, name, 0.0)


def test_reprs():
    result = IPS().fit(LOGS).evaluate(D8.pi)
    assert repr(result) == (
        "PolicyValue(0.96, standard_error=0.56, n_rounds=8, estimator='IPS')"
    )
    html = result._repr_html_()
    for text in ("IPS", "0.96", "0 to 1", "gamma", "3.3", "effective rounds"):
        assert text in html
    strange = stated_value(
        1.0, 0.1, 8, estimator="<b>", warnings=[SupportWarning("<i>")]
    )
    assert "<b>" not in strange._repr_html_()
    assert "&lt;i&gt;" in strange._repr_html_()
