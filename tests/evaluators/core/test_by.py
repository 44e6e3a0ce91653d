# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of groups of rounds: by fields, columns and labels of any kind."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import IPS, SNIPS, MultiLoggerDR, MultiLoggerIPS, UniformPolicy
from skope_ope.exceptions import LoggerWarning, SupportWarning
from tests._quiet import quiet
from tests._worlds import d8_logs
from tests.evaluators.core._asked import D8, D8_LOGS, EVALUATORS, bare_logs, world
from tests.evaluators.multi_logger._toy import TOY, VALUE

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


# -- groups ---------------------------------------------------------------------------
@pytest.mark.few_cases
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("offset", [0.0, 1e4], ids=["", "far from zero"])
@pytest.mark.parametrize("evaluator", EVALUATORS, ids=repr)
def test_groups_are_evaluated_alone(evaluator, offset, weighted):
    logs = world(offset=offset, weighted=weighted)
    key, logs = logs.group, logs.replace(group=None)
    fitted = evaluator.fit(logs)
    result = fitted.evaluate("pi")
    groups = result.by(key)
    assert list(groups) == [0, 1, 2, 3]
    assert sum(group.n_rounds for group in groups.values()) == 300
    for label, group in groups.items():
        alone = fitted.evaluate("pi", logs[key == label])
        assert_allclose(group.value, alone.value, rtol=1e-10)
        assert_allclose(group.standard_error, alone.standard_error, rtol=1e-7)
        assert_allclose(group.round_values, alone.round_values, rtol=1e-9)
        limits = (one.confidence_interval() for one in (group, alone))
        assert_allclose(*limits, rtol=1e-7)
        assert group.estimator == f"{result.estimator} of {label!r}"


def test_halves_single_rounds_and_differences():
    fitted = IPS().fit(D8_LOGS)
    result = fitted.evaluate(D8.pi)
    halves = result.by("half")
    assert list(halves) == ["early", "late"]
    total = sum(group.n_rounds * group.value for group in halves.values())
    assert_allclose(total / 8, result.value, rtol=1e-12)
    nested = halves["late"].by([0, 0, 1, 1])
    assert_allclose(nested[1].value, 1.5)
    alone = result.by(np.arange(8))
    assert all(np.isnan(group.standard_error) for group in alone.values())
    difference = result - fitted.evaluate(UniformPolicy())
    found, d = difference.by("half"), difference.round_values
    assert_allclose([g.value for g in found.values()], [d[:4].mean(), d[4:].mean()])
    # groups may be numbers and texts at once, and values are taken by them
    label = np.array([0, "a", 1, "a", 0, 1, "b", "b"], dtype=object)
    result = SNIPS().fit(d8_logs(group=label)).evaluate(D8.pi)
    found, again = result.by("group"), result.by([str(g) for g in label])
    assert list(found) == [0, "a", 1, "b"]
    for label, part in found.items():
        assert_allclose(part.value, again[str(label)].value)
    with pytest.raises(ValueError, match="does not hold its logs"):
        pickle.loads(pickle.dumps(result)).by("action")


@pytest.mark.parametrize(
    ("key", "match"),
    [
        (np.zeros(7), r"one label per round \(8\), got 7"),
        ("color", "no field or column 'color'. Pass the labels"),
        ("group", "no field or column 'group'"),  # the logs have none
        (np.zeros((8, 1)), "key must be 1-d"),
        ([0, 1, 0, 1, 0, None, 1, 1], r"key has a missing label \(None\) at row 5"),
    ],
)
def test_keys_that_cannot_be(key, match):
    with pytest.raises(ValueError, match=match):
        IPS().fit(D8_LOGS).evaluate(D8.pi).by(key)


def test_groups_without_an_estimate_are_nan_and_said_to_be():
    logs, key = bare_logs([0, 0, 1, 1], [1, 0, 1, 0], 0.5), list("aabb")
    result = SNIPS().fit(logs).evaluate(np.tile([1.0, 0.0], (4, 1)))
    with pytest.warns(SupportWarning, match="1 of 2 groups have no estimate, 'b'"):
        groups = result.by(key)
    assert np.isnan(groups["b"].value)
    assert [type(warning) for warning in groups["b"].warnings] == [SupportWarning]
    assert groups["a"].value == 0.5 and not groups["a"].warnings
    # what all rounds say nothing about, no group knows
    logs = bare_logs([0, 0, 1, 1], [1, 0, 1, 0], 0.5, actions=[0, 1, 2])
    result = IPS().fit(logs).evaluate(np.tile([0.0, 0.0, 1.0], (4, 1)))
    for one in (result, *result.by(key).values()):
        assert np.isnan(one.value) and one.warnings


# -- labels of any kind ---------------------------------------------------------------
N = 240
RNG = np.random.default_rng(0)
NAMES = np.array(["d", "a", "", "c"])
CODE = RNG.integers(0, 4, N)
PI = RNG.dirichlet(np.ones(4), N)


def logs_with(action=NAMES[CODE], **fields):
    reward, propensity = RNG.random(N), 0.1 + 0.9 * RNG.random(N)
    return bare_logs(action, reward, propensity, **fields)


def keys():
    """The same labels in every container."""
    texts = NAMES[CODE]
    yield from (texts, texts.astype(object), texts.tolist())
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    yield pd.Series(texts.tolist())
    yield pd.Series(pd.Categorical(texts, ["never", *NAMES], ordered=True))
    yield pl.Series(texts.tolist(), dtype=pl.Categorical)
    yield pa.array(texts.tolist()).dictionary_encode()


@pytest.mark.parametrize("evaluator", [IPS(), SNIPS()])
def test_groups_are_the_rows_of_each_label_whatever_holds_the_labels(evaluator):
    logs = logs_with().with_columns(name=NAMES[CODE])
    value = evaluator.fit(logs).evaluate(PI)
    for key in ("action", "name", *keys()):
        found = value.by(key)
        assert list(found) == sorted(NAMES.tolist())
        for label, group in found.items():
            rows = np.flatnonzero(NAMES[CODE] == label)
            alone = evaluator.fit(logs[rows]).evaluate(PI[rows])
            assert group.n_rounds == len(rows)
            assert_allclose(group.value, alone.value, rtol=1e-12)
            assert_allclose(group.standard_error, alone.standard_error, rtol=1e-11)


def test_given_actions_that_were_never_logged_are_no_group():
    actions = ["never", *NAMES[::-1]]
    logs = logs_with(actions=actions)
    pi = np.column_stack([np.zeros(N), PI[:, ::-1]])
    found = IPS().fit(logs).evaluate(pi).by("action")
    assert list(found) == sorted(NAMES.tolist())
    # a column may bear the name of no field, but of any kind of labels
    mixed = np.array([7 if code else "x" for code in CODE], dtype=object)
    labels = list(IPS().fit(logs).evaluate(pi).by(mixed))
    assert labels == list(dict.fromkeys(mixed))  # as they appear


# -- loggers that are pooled as one: means of groups may be no values ------------------
NO_VALUES = "the means of 2 of 2 groups are not values of the policy"
BALANCED = (
    MultiLoggerIPS(pooling="balanced"),
    MultiLoggerIPS(pooling="balanced", self_normalized=True),
    MultiLoggerDR(pooling="balanced", reward_model=2.0),
    MultiLoggerDR(pooling="balanced", reward_model=2.0, self_normalized=True),
)


def population():
    """The toy's cells, weighted by how often each logger meets them."""
    rows = [(i, *cell) for i in range(2) for cell in TOY.cells]
    weight = [TOY.p[x] * TOY.loggers[i, x, a] for i, x, a in rows]
    return TOY.logs(rows, sample_weight=weight)


def doubts(result, key):
    """The warnings of loggers that values of groups come with."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result.by(key)
    return [w.message for w in seen if w.category is LoggerWarning]


def drawn(n=2000, seed=0):
    """Rounds of the toy's loggers in turn, with coins as a third kind of labels."""
    rng = np.random.RandomState(seed)
    logger, x = np.arange(n) % 2, rng.randint(2, size=n)
    action = (rng.random_sample(n) > TOY.loggers[logger, x, 0]).astype(int)
    logs, pi = TOY.logs(np.column_stack([logger, x, action]))
    columns = {"x": x, "coin": rng.randint(7, size=n), "day": np.arange(n) // 400}
    return logs.with_columns(**columns), pi


def test_means_of_balanced_terms_by_logger_are_no_values():
    """Exact means: 3.16 and 13.15 where the policy is worth 8.2."""
    logs, pi = population()
    result = quiet(MultiLoggerIPS(pooling="balanced").fit(logs), pi)
    assert_allclose(result.value, VALUE)
    with pytest.warns(LoggerWarning, match=NO_VALUES) as seen:
        found = result.by("logger")
    assert_allclose([v.value for v in found.values()], [3.2646, 13.1354], atol=5e-5)
    [warned] = [w.message for w in seen if w.category is LoggerWarning]
    assert warned.value == 2 and seen[0].filename == __file__
    assert all(warned in v.warnings for v in found.values())
    assert doubts(pickle.loads(pickle.dumps(result)), logs.logger)
    for pooling in ("naive", "weighted"):
        other = quiet(MultiLoggerIPS(pooling=pooling).fit(logs), pi)
        assert not doubts(other, "logger")
        assert_allclose([v.value for v in other.by("logger").values()], VALUE)


@pytest.mark.parametrize("evaluator", BALANCED, ids=str)
def test_every_balanced_form_warns(evaluator):
    logs, pi = drawn()
    result, other = (quiet(evaluator.fit(logs), one) for one in (pi, 1 - pi))
    assert doubts(result, "logger") and doubts(result, logs.logger * 10)
    assert doubts(result - other, "logger") and not doubts(result - other, "coin")
    part = result.by("coin")[0]
    assert doubts(part, logs.logger[logs.columns["coin"] == 0])
    alike = logs.replace(logger_proba=np.tile(logs.propensity[:, None], 2))
    assert not doubts(quiet(evaluator.fit(alike), pi), "logger")


def test_days_on_which_other_loggers_acted(global_random_seed):
    logs, pi = drawn(seed=global_random_seed)
    result = quiet(MultiLoggerIPS(pooling="balanced").fit(logs), pi)
    for key in ("x", "coin", "action", "day"):  # have the mixture of all rounds
        assert not doubts(result, key)
    # a logger that takes over in the middle of day 2
    order = np.argsort(logs.logger, kind="stable")
    result = quiet(MultiLoggerIPS(pooling="balanced").fit(logs[order]), pi[order])
    [doubt] = doubts(result, np.arange(len(logs)) // 400)
    assert doubt.value == 4  # not day 2, which has the mixture of the log


def test_groups_that_one_logger_serves(global_random_seed):
    """Users of one logger each, all in one of two lands."""
    rng = np.random.RandomState(global_random_seed)
    user, visit = np.divmod(np.arange(3000), 20)
    logger, x = user % 2, rng.randint(2, size=3000)
    action = (rng.random_sample(3000) > TOY.loggers[logger, x, 0]).astype(int)
    logs, pi = TOY.logs(np.column_stack([logger, x, action]), group=user)
    result = quiet(MultiLoggerIPS(pooling="balanced").fit(logs), pi)
    land = rng.randint(2, size=150)[user]
    assert not doubts(result, land)  # by chance one logger served more of them
    assert doubts(result, "group")
    assert not doubts(result, visit)
