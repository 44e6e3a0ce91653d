# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Loggers that cannot be used, or not as they are, and rounds of weight zero."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import IPS, BanditLogs, EpsilonGreedy, MultiLoggerDR, MultiLoggerIPS
from skope_ope.evaluators import logger_overlap
from skope_ope.exceptions import LoggerWarning, OPEWarning, SupportWarning
from tests.evaluators.core._asked import bare_logs
from tests.evaluators.multi_logger._logs import POOLINGS, several, without_support
from tests.evaluators.multi_logger._toy import toy_logs

pytestmark = [  # of four rounds
    pytest.mark.filterwarnings(f"ignore::skope_ope.exceptions.{name}Warning")
    for name in ("LowOverlap", "Propensity")
]


def told(kind, evaluator, logs, pi, **given):
    """Return the value, and the warnings of a kind, without all others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = evaluator.fit(logs).evaluate(pi, **given)
    return result, [w.message for w in caught if w.category is kind]


def weighted(divergences="pooled", **given):
    return MultiLoggerIPS(pooling="weighted", divergences=divergences, **given)


BALANCED = MultiLoggerIPS(pooling="balanced")


def test_a_logger_without_rounds():
    logs, pi = several()
    rows = np.flatnonzero(logs.logger != 1)
    part, own = logs[rows], pi[rows]
    assert len(part.loggers) == 3
    known = {"logger": part.logger, "logger_proba": part.logger_proba[:, [0, 2]]}
    rounds = part.context, part.action, part.reward
    two = BanditLogs(*rounds, actions=range(4), **known)
    counts = {k: int((part.logger == k).sum()) for k in (0, 2)}
    for pooling in POOLINGS:
        evaluator = MultiLoggerIPS(pooling=pooling)
        found, expected = (evaluator.fit(x).evaluate(own) for x in (part, two))
        assert found.value == expected.value
        assert found.diagnostics["logger_rounds"] == counts
    oracle, expected = weighted([1.0, 7.0, 3.0]), weighted({0: 1.0, 2: 3.0})
    assert oracle.fit(part).score(own) == expected.fit(two).score(own)
    rows = np.flatnonzero(logs.logger == 1)
    alone, own = logs[rows].replace(logger_proba=None), pi[rows]
    for pooling in POOLINGS:  # one is left: nothing to pool
        value = MultiLoggerIPS(pooling=pooling).fit(alone).score(own)
        assert_allclose(value, IPS().fit(alone).score(own))


def test_unknown_probabilities_of_the_others():
    logs, pi = several()
    blind = logs.replace(logger_proba=None)
    for evaluator in (BALANCED, weighted()):
        with pytest.raises(ValueError, match="with_logger_policies"):
            evaluator.fit(blind)
        with pytest.raises(ValueError, match=r"under all loggers.*LoggerPropensity"):
            evaluator.fit(logs).evaluate(pi, blind)
    for evaluator in (MultiLoggerIPS(), weighted("per_logger")):
        assert np.isfinite(evaluator.fit(blind).score(pi))


def test_no_logger_could_have_acted():
    logs, pi = several()
    proba = np.array(logs.logger_proba)
    proba[7] = 0
    tiny = np.where(np.arange(300) == 7, 1e-9, logs.propensity)  # 0 but for rounding
    broken = logs.replace(propensity=tiny).replace(logger_proba=proba)
    with pytest.raises(ValueError, match="logger_proba is 0 for every logger at row 7"):
        MultiLoggerIPS(pooling="balanced").fit(broken).score(pi)


def test_zero_divergence_is_raised_with_a_warning():
    logs, pi = toy_logs([(0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 0)])
    result, [one] = told(LoggerWarning, weighted("per_logger"), logs, pi)
    assert "logger 0 are all equal" in str(one) and one.value == 0
    divergences = result.diagnostics["logger_divergences"]
    assert_allclose(divergences[0], 1e-12 * divergences[1])
    _, [one] = told(LoggerWarning, weighted([0.0, 1.0]), logs, pi)
    assert "divergence given for logger 0 is 0 and" in str(one)


def test_equal_terms_of_all_loggers_need_no_choice():
    """Nor is a logger named that is somewhat worse than others."""
    logs, pi = several()
    zero = logs.replace(reward=np.zeros(300))
    for divergences in ("pooled", "per_logger"):
        result, warned = told(LoggerWarning, weighted(divergences), zero, pi)
        assert result.value == result.standard_error == 0 and not warned
        assert not told(LoggerWarning, weighted(divergences), logs, pi)[1]


@pytest.mark.parametrize(
    ("divergences", "match"),
    [
        ([1.0, 2.0], "one number per logger"),
        ([1.0, -2.0, 3.0], "must be 0 or more, got -2 for logger 1"),
        ([1.0, np.nan, 3.0], "must be 0 or more, got nan for logger 1"),
        (["a", "b", "c"], "one number per logger"),
        ({0: 1.0, 1: 2.0}, "must name every logger"),
        ({0: 1.0, 1: 2.0, 2: 1.0, 9: 1.0}, "must name every logger"),
    ],
)
def test_given_divergences_are_checked(divergences, match):
    logs, pi = several()
    evaluator = MultiLoggerIPS(pooling="weighted", divergences=divergences).fit(logs)
    with pytest.raises(ValueError, match=match):
        evaluator.score(pi)


def test_an_array_of_divergences_belongs_to_the_loggers_of_fit():
    logs, pi = several(logger=np.array(["a", "b", "c"] * 100))
    evaluator = MultiLoggerIPS(pooling="weighted", divergences=[1.0, 2.0, 5.0])
    evaluator.fit(logs)

    def built(rows, **names):
        part = logs[rows]
        order = [list("abc").index(k) for k in sorted(names, key=names.get)]
        known = {"logger": [names[label] for label in part.logger]}
        known["logger_proba"] = part.logger_proba[:, order]
        rounds = part.context, part.action, part.reward
        return BanditLogs(*rounds, actions=range(4), **known)

    rows = np.flatnonzero(logs.logger != "b")
    some = built(rows, a="a", c="c")
    expected = MultiLoggerIPS(pooling="weighted", divergences={"a": 1.0, "c": 5.0})
    expected = expected.fit(some).score(pi[rows])
    assert_allclose(evaluator.score(pi[rows], some), expected, rtol=1e-12)
    with pytest.raises(ValueError, match=r"of fit \(\['a', 'b', 'c'\]\).*logger 'z'"):
        evaluator.score(pi, built(np.arange(300), a="z", b="b", c="c"))


def test_all_loggers_dropped_is_nan_with_a_warning():
    logs, pi = several()
    result, [one] = told(SupportWarning, weighted([np.inf] * 3), logs, pi)
    assert "has no estimate" in str(one) and np.isnan(result.value)
    with pytest.raises(TypeError, match=r"MultiLoggerIPS evaluates stationary"):
        BALANCED.fit(logs).evaluate(EpsilonGreedy())


@pytest.mark.parametrize(
    "fields",
    [{}, {"logging_proba": None}, {"logging_proba": None, "logger_proba": None}],
    ids=["whole distribution", "logger_proba", "propensity alone"],
)
def test_support_is_asked_of_every_logger(fields):
    logs, pi = without_support(**fields)
    result, [one] = told(SupportWarning, MultiLoggerIPS(), logs, pi)
    assert "logger 1 never took" in str(one)
    # from the rounds of the other logger, where only these tell it
    by_others = fields == {"logging_proba": None}
    assert_allclose(one.value, 0.3, atol=0.1 if by_others else 1e-7)
    assert result.diagnostics["logger_unsupported_mass"] == {0: 0, 1: one.value}
    assert_allclose(result.diagnostics["unsupported_mass"], one.value / 2)


def test_what_a_logger_misses_is_at_most_all():
    """Few rounds of logger 0 carry large weights: their sum says 150%."""
    action = np.r_[1, 1, 1, np.zeros(997, int)]
    mu = np.array([[0.8, 0.2], [1.0, 0.0]])
    known = {"logger": np.r_[[0] * 10, [1] * 990], "logger_proba": mu[:, action].T}
    logs, pi = bare_logs(action, np.ones(1000), **known), np.tile([0.0, 1.0], (1000, 1))
    result, [one] = told(SupportWarning, MultiLoggerIPS(), logs, pi)
    assert "gives 100.00% of its prob" in str(one)
    assert_allclose(result.value, 3 / 0.2 / 1000)
    assert result.diagnostics["logger_unsupported_mass"] == {0: 0.0, 1: 1.0}
    # half of the wishes that the weights tell of are for what logger 1 cannot do
    half = np.full((1000, 2), 0.5)
    result, [one] = told(SupportWarning, MultiLoggerIPS(), logs, half)
    assert "logger 1 never took" in str(one)
    b = 0.5 / np.where(action == 1, 0.01 * 0.2, 0.01 * 0.8 + 0.99)
    lost = result.diagnostics["logger_unsupported_mass"][1]
    assert_allclose(lost, b[:3].sum() / b.sum())


def test_support_of_the_mixture_is_enough_for_balanced():
    logs, pi = without_support()
    # a weighted estimate leaves out whom it does not trust
    dropped = weighted([1.0, np.inf])
    for evaluator in (BALANCED, dropped):
        assert not told(SupportWarning, evaluator, logs, pi)[1]
    pooled, [one] = told(LoggerWarning, weighted(), logs, pi)
    assert "leave out logger 1, 200 rounds (50%" in str(one)
    assert pooled.diagnostics["logger_divergences"][1] == np.inf
    assert pooled.diagnostics["logger_shares"] == {0: 1.0, 1: 0.0}
    first = logs[np.flatnonzero(logs.logger == 0)]
    assert_allclose(pooled.value, IPS().fit(first).score(pi[:200]), rtol=1e-12)
    assert_allclose(pooled.value, dropped.fit(logs).score(pi), rtol=1e-12)


def test_an_action_of_nobody_warns_for_the_mixture():
    logs, _ = without_support(actions=range(4), logging_proba=None)
    pi = np.tile([0.3, 0.4, 0.2, 0.1], (400, 1))
    _, [one] = told(SupportWarning, BALANCED, logs, pi)
    assert one.value == pytest.approx(0.1)
    never = np.tile([0.0, 0.0, 0.0, 1.0], (400, 1))
    result, warned = told(SupportWarning, BALANCED, logs, never)
    assert warned and np.isnan(result.value)


def certain_logs(known, certain):
    """Two loggers by coins; where x = 1 those in `certain` always take action 0.

    Those rounds are a third of each logger's.
    """
    rows = np.arange(600)
    logger, x = rows % 2, (rows // 2 % 3 == 0).astype(int)
    sure = (x == 1)[:, None] & np.isin([0, 1], certain)
    action = np.where(sure[rows, logger], 0, rows // 4 % 2)
    proba = np.where(sure, (action == 0)[:, None], 0.5)
    named = {"logger_proba": proba} if known else {"propensity": proba[rows, logger]}
    context = x[:, None].astype(float)
    logs = BanditLogs(context, action, rows % 5 / 4, logger=logger, **named)
    return logs, np.tile([0.4, 0.6], (600, 1))


@pytest.mark.parametrize(
    ("known", "pooling"), [(True, "naive"), (False, "naive"), (True, "balanced")]
)
def test_where_all_loggers_are_certain_the_rest_is_unsupported(known, pooling):
    """A third of the rounds, in which nobody takes what the policy wants with .6."""
    logs, pi = certain_logs(known, [0, 1])
    evaluator, weight = MultiLoggerIPS(pooling=pooling), 1.0 + logs.context[:, 0]
    heavier = evaluator, 0.3, {"sample_weight": weight}
    for one, mass, given in ((IPS(), 0.2, {}), (evaluator, 0.2, {}), heavier):
        result, warned = told(SupportWarning, one, logs, pi, **given)
        assert f"{mass:.2%}" in str(warned[0])
        assert_allclose(result.diagnostics["unsupported_mass"], mass)
        if one is evaluator and not given:
            lost = result.diagnostics["logger_unsupported_mass"]
            assert_allclose([lost[0], lost[1]], mass)


@pytest.mark.parametrize("known", [True, False])
def test_one_logger_is_certain(known):
    logs, pi = certain_logs(known, [1])
    result, [one] = told(SupportWarning, MultiLoggerIPS(), logs, pi)
    assert "logger 1 never took" in str(one)
    lost = result.diagnostics["logger_unsupported_mass"]
    assert lost[0] == 0
    assert_allclose(lost[1], 0.2, atol=0.05 * known)  # the others' rounds tell it, too
    assert lost[1] >= 0.2 - 1e-12
    for evaluator in (BALANCED, weighted([1.0, np.inf])) if known else ():
        assert mass_of(evaluator, logs, pi) == 0


def far_apart(tail=0.0):
    """`old`, with three rounds in four, takes action 1 if x > 2.2 with p = `tail`."""
    rng = np.random.RandomState(0)
    x, logger = rng.normal(size=4000), np.repeat(["old", "new"], [3000, 1000])
    old = np.where(x > 2.2, tail, 0.45)
    ones = rng.random_sample(4000) < np.where(logger == "new", 0.5, old)
    proba = np.column_stack([np.full(4000, 0.5), np.where(ones, old, 1 - old)])
    reward = (rng.random_sample(4000) < 0.3 + 0.2 * ones).astype(float)
    rows, known = (x[:, None], ones.astype(int), reward), {"logger_proba": proba}
    logs = BanditLogs(*rows, logger=logger, **known)
    return logs, np.tile([0.4, 0.6], (4000, 1))


def test_a_logger_that_divergences_drop_is_named():
    """It lacks an action in 1.4% of the contexts: all its rounds get no weight."""
    logs, pi = far_apart()
    result, [one] = told(LoggerWarning, weighted(), logs, pi)
    assert "leave out logger 'old', 3,000 rou" in str(one) and one.value == 0.75
    why = "0.84% of the policy's probability, and its divergence is infinite"
    assert why in str(one) and "{'new': 1.0, 'old': 0.0}" in str(one)
    assert result.diagnostics["logger_shares"] == {"new": 1.0, "old": 0.0}
    balanced, warned = told(LoggerWarning, BALANCED, logs, pi)
    assert not warned and result.standard_error > 1.8 * balanced.standard_error
    # the rounds that tell what it cannot do are all in the second half
    _, [one] = told(LoggerWarning, weighted(cross_fit=2), logs, pi)
    assert "leave out logger 'old'" in str(one)
    assert "infinite in 1 of 2 folds" in str(one)


def test_a_logger_with_a_huge_divergence_is_named():
    logs, pi = far_apart(1e-9)
    result, [one] = told(LoggerWarning, weighted(), logs, pi)
    assert "its divergence of" in str(one) and "is far above the others" in str(one)
    assert result.diagnostics["logger_shares"]["old"] < 1e-4
    given = weighted({"old": np.inf, "new": 1})
    assert not given.fit(logs).evaluate(pi).warnings  # it was told to


def each_certain_of_another(seed=0, n=3000, together=False):
    """Where x = 0 logger 0 always takes action 0, logger 1 action 1; nobody 2 there."""
    rng = np.random.RandomState(seed)
    x, logger, rows = rng.randint(4, size=n), rng.randint(2, size=n), np.arange(n)
    mu = np.full((2, n, 3), 1 / 3)
    mu[0, x == 0], mu[1, x == 0] = np.eye(3)[0], np.eye(3)[0 if together else 1]
    draw = rng.random_sample((n, 1))
    action = (mu[logger, rows].cumsum(axis=1) > draw).argmax(axis=1)
    context, reward = x[:, None].astype(float), rng.random_sample(n)
    known = {"logger": logger, "logger_proba": mu[:, rows, action].T}
    logs = BanditLogs(context, action, reward, **known)
    return logs, np.tile([0.1, 0.3, 0.6], (n, 1)), float((x == 0).mean())


def mass_of(evaluator, logs, pi):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        found = evaluator.fit(logs).evaluate(pi).diagnostics
    return found["unsupported_mass"]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("pooling", ["naive", "weighted"])
def test_certain_rounds_count_as_in_ips(together, pooling):
    """The same log, with loggers named or not."""
    for seed in range(3):
        logs, pi, share = each_certain_of_another(seed, together=together)
        alone = mass_of(IPS(), logs, pi)
        assert alone > 0.1
        settings = {"divergences": [1.0, 1.0]} if pooling == "weighted" else {}
        several = MultiLoggerIPS(pooling=pooling, **settings)
        assert_allclose(mass_of(several, logs, pi), alone, rtol=1e-12)
        blind = logs.replace(logger_proba=None)
        assert_allclose(mass_of(several, blind, pi), alone, rtol=1e-12)
        if together:  # nobody leaves action 0
            assert_allclose(alone, 0.9 * share)


@pytest.mark.parametrize("model", [False, True])
def test_what_no_logger_could_do_counts_for_the_mixture(model):
    """No single round shows it: the mean weight does."""
    evaluator = MultiLoggerDR if model else MultiLoggerIPS
    balanced = evaluator(pooling="balanced")
    for seed in range(3):
        logs, pi, share = each_certain_of_another(seed)
        mass = mass_of(balanced, logs, pi)
        assert abs(mass - 0.6 * share) < 0.06  # 4 standard errors of a mean weight
        with pytest.warns(SupportWarning, match=f"{mass:.2%}"):
            balanced.fit(logs).evaluate(pi)
        table = logger_overlap(pi, logs)
        assert_allclose(table.unsupported_by_all, mass, rtol=1e-12)
        assert f"No logger can take {mass:.1%}" in repr(table)
        assert f"No logger can take {mass:.1%}" in table._repr_html_()
        logs, pi, share = each_certain_of_another(seed, together=True)
        assert_allclose(mass_of(balanced, logs, pi), 0.9 * share)
        assert_allclose(logger_overlap(pi, logs).unsupported_by_all, 0.9 * share)


def test_loggers_that_complete_each_other_lack_nothing():
    """Each is certain of an action, or lacks one; the policy wants what they do."""
    for seed in range(20):
        logs, _, _ = each_certain_of_another(seed, n=1000)
        pi = np.tile([0.4, 0.4, 0.2], (1000, 1))
        pi[logs.context[:, 0] == 0] = [0.7, 0.3, 0.0]
        assert mass_of(MultiLoggerIPS(pooling="balanced"), logs, pi) == 0
        table = logger_overlap(pi, logs)
        assert table.unsupported_by_all == 0 and "No logger" not in repr(table)
    assert logger_overlap(logs).unsupported_by_all is None
    blind = logs.replace(logger_proba=None)
    assert logger_overlap(pi, blind).unsupported_by_all is None


# -- rounds of sample weight 0 act as if they were not there ------------------------
BLIND = [  # evaluators that ask for no `logger_proba`
    MultiLoggerIPS(),
    MultiLoggerIPS(self_normalized=True),
    MultiLoggerIPS(pooling="weighted", divergences="per_logger"),
    MultiLoggerIPS(pooling="weighted", divergences="per_logger", cross_fit=3),
    MultiLoggerDR(reward_model=0.3),
]
ALL = [
    *BLIND,
    MultiLoggerIPS(pooling="balanced"),
    MultiLoggerIPS(pooling="weighted"),
    MultiLoggerIPS(pooling="weighted", cross_fit=3),
    MultiLoggerDR(reward_model=0.3, pooling="balanced", self_normalized=True),
    MultiLoggerDR(reward_model=0.3, pooling="weighted"),
]
WORLDS = {
    "several": (several(n=120), ALL),
    "groups": (several(n=120, group=np.arange(120) // 10), ALL),
    "support": (without_support(), ALL),
    "by logger_proba": (without_support(logging_proba=None), ALL),
    "by actions": (without_support(logging_proba=None, logger_proba=None), BLIND),
}


def first_of(logs, logger):
    return np.arange(len(logs)) == np.flatnonzero(logs.logger == logger)[0]


KEPT = {
    "some": lambda logs: np.random.RandomState(1).random_sample(len(logs)) < 0.6,
    "not logger 0": lambda logs: logs.logger != 0,
    "not logger 1": lambda logs: logs.logger != 1,
    "one of logger 1": lambda logs: (logs.logger != 1) | first_of(logs, 1),
    "not action 1": lambda logs: logs.action != 1,
}


def evaluated(evaluator, logs, pi, weight=None):
    """Return the result, its diagnostics and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = evaluator.fit(logs).evaluate(pi, sample_weight=weight)
        found = dict(result.diagnostics)
    return result, found, [(w.category, str(w.message)) for w in caught]


def assert_same_result(found, expected):
    for name in ("value", "standard_error", "effective_sample_size"):
        a, b = getattr(found[0], name), getattr(expected[0], name)
        assert_allclose(a, b, rtol=1e-9, err_msg=name)
    freedom = expected[0].degrees_of_freedom
    assert_allclose(found[0].degrees_of_freedom, freedom, rtol=1e-12)
    assert found[1].keys() == expected[1].keys()
    for name, b in expected[1].items():
        a = found[1][name]
        if isinstance(b, dict):
            assert a.keys() == b.keys(), name
            a, b = list(a.values()), list(b.values())
        assert_allclose(a, b, rtol=1e-8, atol=1e-12, err_msg=name)
    assert found[2] == expected[2]


def met(world, kept):
    """Every fifth evaluator, so that it meets each world and each choice of rounds."""
    start = -(list(WORLDS).index(world) + list(KEPT).index(kept)) % 5
    return WORLDS[world][1][start::5]


@pytest.mark.few_cases
@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("world", WORLDS)
def test_weights_zero_and_one_are_a_choice_of_rounds(world, kept):
    logs, pi = WORLDS[world][0]
    mask = KEPT[kept](logs)
    rows = np.flatnonzero(mask)
    graded = mask * (0.5 + np.random.RandomState(0).random_sample(len(logs)))
    for evaluator in met(world, kept):
        alone = evaluated(evaluator, logs[rows], pi[rows])
        found = evaluated(evaluator, logs, pi, mask.astype(float))
        assert_same_result(found, alone)
        found = evaluated(evaluator, logs.replace(sample_weight=mask * 1.0), pi)
        assert_same_result(found, alone)
        alone = evaluated(evaluator, logs[rows], pi[rows], graded[rows])
        found = evaluated(evaluator, logs, pi, graded)
        assert_same_result(found, alone)


def test_a_logger_with_one_round_of_positive_weight():
    reward = np.r_[np.random.default_rng(0).normal(1, 1, 38), 50, 0]
    half, weight = np.full((40, 2), 0.5), np.r_[np.ones(39), 0]
    known = {"logger": np.r_[[0] * 38, 1, 1], "logger_proba": half}
    logs = bare_logs(np.arange(40) % 2, reward, **known)
    result = MultiLoggerIPS().fit(logs).evaluate(half, sample_weight=weight)
    terms = reward[:39]  # the single round joins the stratum of the others
    assert_allclose(result.value, terms.mean(), rtol=1e-12)
    assert_allclose(result.standard_error, terms.std(ddof=1) / np.sqrt(39), rtol=1e-9)
    weighted = MultiLoggerIPS(pooling="weighted", divergences="per_logger")
    result, _, warned = evaluated(weighted, logs, half, weight)
    assert_allclose(result.value, terms[:38].mean(), rtol=1e-12)
    assert [text for _, text in warned] == [
        "logger 1 has a single round, too few to estimate its divergence. "
        "The logger is left out. Compare with divergences='pooled'."
    ]


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_logger_without_weight_need_not_be_known(pooling):
    """Nobody else could have done what it did: its rows are asked of nobody."""
    mu = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0], [0.3, 0.3, 0.4]])
    logger = np.arange(60) % 3
    action = np.where(logger == 2, 2, np.arange(60) // 3 % 2)
    known = {"logger": logger, "logger_proba": mu[:, action].T}
    logs = bare_logs(action, np.arange(60.0), actions=range(3), **known)
    pi, rows = np.tile([0.4, 0.6, 0.0], (60, 1)), np.flatnonzero(logger < 2)
    evaluator = MultiLoggerIPS(pooling=pooling)
    found = evaluated(evaluator, logs, pi, (logger < 2).astype(float))
    assert_same_result(found, evaluated(evaluator, logs[rows], pi[rows]))
    assert set(found[1]["logger_shares"]) == {0, 1}
