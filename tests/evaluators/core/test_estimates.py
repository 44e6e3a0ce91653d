# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values and errors against loops over the rounds, in memory and from merged parts."""

from dataclasses import dataclass
from fractions import Fraction
from math import fsum, nan, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    MRDR,
    SNDR,
    SNIPS,
    BanditLogs,
    DoublyRobust,
    DRns,
    DRos,
    LogSmoothing,
    MultiLoggerIPS,
    RejectionSampling,
    SubGaussianIPS,
    SwitchDR,
    evaluate,
    summarize,
)
from skope_ope.exceptions import LowOverlapWarning, PropensityWarning
from tests._quiet import quiet
from tests.evaluators.core._asked import bare_logs, world

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


# -- loops ----------------------------------------------------------------------------
def mean(m):
    return m[0], (1.0,)


def ratio(m):
    return m[0] / m[1], (1 / m[1], -m[0] / m[1] ** 2)


def mean_plus_ratio(m):
    return m[0] + m[1] / m[2], (1.0, 1 / m[2], -m[1] / m[2] ** 2)


@dataclass
class Formula:
    """An evaluator, its terms, and what becomes of their means."""

    evaluator: object
    terms: object  # of w, r, q and v
    combine: object
    weights: object = None  # what a round of every logger counts, with a mean each


def weighted(w, r, q, v):
    return (w * r,)


def weighted_and_weights(w, r, q, v):
    return w * r, w


def corrected(w, r, q, v):
    return (v + w * (r - q),)


def model_and_ratio(w, r, q, v):
    return v, w * (r - q), w


KNOWN = {"pooling": "weighted", "divergences": [1.0, 0.4, 2.0]}
SHARES = 1.0, 2.5, 0.5
RATIO = MultiLoggerIPS(**KNOWN, self_normalized=True)
FORMULAS = {
    "IPS": Formula(IPS(), weighted, mean),
    "SNIPS": Formula(SNIPS(), weighted_and_weights, ratio),
    "DR": Formula(DoublyRobust(reward_model="q"), corrected, mean),
    "SNDR": Formula(SNDR(reward_model="q"), model_and_ratio, mean_plus_ratio),
    "naive": Formula(MultiLoggerIPS(), weighted, mean, (1, 1, 1)),
    "weighted": Formula(MultiLoggerIPS(**KNOWN), weighted, mean, SHARES),
    "weighted ratio": Formula(RATIO, weighted_and_weights, ratio, SHARES),
}


def drawn_logs(rng, n=60, *, weighted=False, loggers=False, groups=None):
    """Logs with the columns pi and q; some rounds count for nothing."""
    p, action = rng.uniform(0.15, 0.9, n), rng.randint(3, size=n)
    fields = {"actions": range(3)}
    reward = rng.gamma(2.0, size=n) + 0.1
    if weighted:
        fields["sample_weight"] = rng.choice([0.0, 0.5, 1.0, 3.0], n)
        fields["sample_weight"][:2] = 1.0, 0.0
    if loggers:
        logger = rng.randint(3, size=n)
        logger[:3] = 0, 1, 2
        reward = reward + logger
        fields |= {"logger": logger, "logger_proba": np.tile(p[:, None], 3)}
    if groups:
        group = rng.randint(max(n // 5, 2), size=n) ** 2 // 7  # unequal ones
        reward = reward + rng.normal(size=int(group.max()) + 1)[group] ** 2
        nested = groups == "nested" and loggers
        fields["group"] = 3 * group + logger if nested else group
    logs = bare_logs(action, reward, p, **fields)
    pi = rng.dirichlet(np.ones(3), n)
    return logs.with_columns(pi=pi, q=rng.random_sample((n, 3)))


def terms_of(formula, logs):
    """Its terms of all rounds, by what the rounds hold."""
    rows = np.arange(len(logs)), logs.action
    pi, q = logs.columns["pi"], logs.columns["q"]
    w, v = pi[rows] / logs.propensity, (pi * q).sum(axis=1)
    return np.array(formula.terms(w, logs.reward, q[rows], v))


def by_loops(terms, combine, logs, weights=None, group=True):
    """Value, standard error and degrees of freedom, one round at a time."""
    k, n = terms.shape
    omega = [1.0] * n if logs.sample_weight is None else logs.sample_weight.tolist()
    stratum = [0] * n if weights is None else logs.logger.tolist()
    grouped = group and logs.group is not None
    unit = logs.group.tolist() if grouped else range(n)
    count = [1.0 if weights is None else weights[s] for s in stratum]
    rounds = [i for i in range(n) if omega[i] > 0 and count[i] > 0]
    total = fsum(count[i] * omega[i] for i in rounds)
    share = [count[i] * omega[i] / total for i in range(n)]
    means = [fsum(share[i] * terms[j][i] for i in rounds) for j in range(k)]
    value, slope = combine(means)
    line = [fsum(slope[j] * terms[j][i] for j in range(k)) for i in range(n)]
    influence = {}
    for i in rounds:
        own = [j for j in rounds if stratum[j] == stratum[i]]
        centre = fsum(share[j] * line[j] for j in own) / fsum(share[j] for j in own)
        influence[i] = share[i] * (line[i] - centre)
    square = freedom = 0.0
    for sample in linked(rounds, stratum, unit):
        units = {unit[i] for i in sample}
        if len(units) < 2:
            return value, nan, freedom
        sums = (fsum(influence[i] for i in sample if unit[i] == u) for u in units)
        square += len(units) / (len(units) - 1) * fsum(one**2 for one in sums)
        freedom += len(units) - 1
    if grouped:  # fewer than 40 effective ones
        mass = np.bincount(logs.group_index, omega)
        freedom = min(freedom, mass.sum() ** 2 / (mass @ mass))
    return value, sqrt(square), freedom


def linked(rounds, stratum, unit):
    """Split rounds into samples: those that share a mean or a group belong to one."""
    samples = []

    def near_to(i, j):
        return stratum[j] == stratum[i] or unit[j] == unit[i]

    for i in rounds:
        near = [one for one in samples if any(near_to(i, j) for j in one)]
        samples = [one for one in samples if one not in near]
        samples.append([i, *(j for one in near for j in one)])
    return samples


def summed_value(evaluator, parts):
    """The value from the sums of parts."""
    given = {"evaluators": {"it": evaluator}}
    return sum(summarize({"a": "pi"}, p, **given) for p in parts).values()["a", "it"]


def both_ways(evaluator, logs, rng, n_parts=4):
    """The value from all rounds, and that of parts of any sizes, in any order."""
    places = np.sort(rng.randint(1, len(logs), n_parts - 1))
    parts = np.split(rng.permutation(len(logs)), places)
    summed = summed_value(evaluator, [logs[rows] for rows in parts if len(rows)])
    return evaluator.fit(logs).evaluate("pi"), summed


CASES = [
    pytest.param(name, weighted, groups, id=f"{name}-{weighted}-{groups}")
    for name, one in FORMULAS.items()
    for weighted in (False, True)
    for groups in ([None, "nested", "crossing"] if one.weights else [None, "users"])
]


@pytest.mark.few_cases(14)
@pytest.mark.parametrize(("name", "weighted", "groups"), CASES)
def test_against_loops(name, weighted, groups, global_random_seed):
    """Groups of unequal size, of one logger or several; rounds of weight zero."""
    formula, rng = FORMULAS[name], np.random.RandomState(global_random_seed)
    loggers = formula.weights is not None
    logs = drawn_logs(rng, weighted=weighted, loggers=loggers, groups=groups)
    terms, about = terms_of(formula, logs), (logs, formula.weights)
    value, error, freedom = by_loops(terms, formula.combine, *about)
    memory, summed = both_ways(formula.evaluator, logs, rng)
    for found in (memory, summed):
        assert_allclose(found.value, value, rtol=1e-12)
        assert_allclose(found.standard_error, error, rtol=1e-11)
        assert_allclose(found.degrees_of_freedom, freedom)
        if loggers:
            counted = logs.sample_weight > 0 if weighted else None
            rounds = dict(enumerate(np.bincount(logs.logger, counted)))
            assert found.diagnostics["logger_rounds"] == rounds
        if groups:
            alone = by_loops(terms, formula.combine, *about, group=False)[1]
            effect = found.diagnostics["design_effect"]
            assert_allclose(effect, (error / alone) ** 2, rtol=1e-10)
    z = memory.round_values - memory.value
    if groups:
        z = np.bincount(logs.group_index, z)
    assert_allclose(sqrt((z @ z) / 60 / 59), error, rtol=1e-11)
    assert_allclose(memory.round_values.mean(), value, rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_rounds_of_several_blocks(weighted):
    """Values of one pass; the last rounds have the first weights above sqrt(n)."""
    n, rng = 45_001, np.random.RandomState(0)
    logs = drawn_logs(rng, n, weighted=weighted)
    p, pi = logs.propensity.copy(), logs.columns["pi"].copy()
    p[-9:], pi[-9:] = 0.002, np.eye(3)[logs.action[-9:]]
    logs = logs.replace(propensity=p).with_columns(pi=pi)
    some = {name: one for name, one in FORMULAS.items() if one.weights is None}
    evaluators = {name: one.evaluator for name, one in some.items()}
    memory = evaluate("pi", logs, evaluators=evaluators)
    sums = summarize("pi", logs, evaluators=evaluators).values()
    omega = np.ones(n) if logs.sample_weight is None else logs.sample_weight
    share, counted = omega / omega.sum(), np.count_nonzero(omega)
    for name, formula in some.items():
        terms = terms_of(formula, logs)
        value, gradient = formula.combine(terms @ share)
        changes = share * (np.array(gradient) @ (terms - (terms @ share)[:, None]))
        error = sqrt((changes**2).sum() * counted / (counted - 1))
        for found in (memory[name], sums[name]):
            assert_allclose((found.value, found.standard_error), (value, error), 1e-11)
        assert_allclose(memory[name].round_values.mean(), value, rtol=1e-12)
        for entry in ("mean_weight_z", "max_weight", "effective_sample_size"):
            both = (one[name].diagnostics[entry] for one in (memory, sums))
            assert_allclose(*both, rtol=1e-9)


def test_rounds_that_are_copied_within_groups():
    """Every round m times over, in a group: the error of the rounds alone."""
    logs, copies = drawn_logs(np.random.RandomState(0)), np.repeat(np.arange(60), 5)
    own = logs.replace(group=np.random.RandomState(1).permutation(60))
    sources = logs, own, logs[copies].replace(group=copies)
    plain, alone, found = (SNIPS().fit(one).evaluate("pi") for one in sources)
    for one in (alone, found):
        assert_allclose(one.value, plain.value, rtol=1e-12)
        assert_allclose(one.standard_error, plain.standard_error, rtol=1e-12)
    effect = found.diagnostics["design_effect"]
    assert effect == pytest.approx(5 * 60 / 59 * 299 / 300)


@pytest.mark.parametrize("groups", [None, [0, 1, 2, 3], [0, 1, 2, 0]])
def test_a_logger_of_one_round_joins_another(groups):
    """It has no spread of its own: the deviations are from the mean of both."""
    reward = np.array([1.0, 2.0, 3.0, 7.0])
    logs, change = on_policy(reward, logger=[0, 0, 0, 1], group=groups), reward - 3.25
    if groups == [0, 1, 2, 0]:
        change = np.bincount(groups, change)
    n = len(change)
    for part in (logs, logs[::-1]):
        found = MultiLoggerIPS().fit(part).evaluate("pi").standard_error
        assert_allclose(found, sqrt((change @ change) * n / (n - 1)) / 4)


@pytest.mark.parametrize("n_groups", [39, 40])
def test_few_groups_give_the_degrees_of_freedom(n_groups):
    def freedom(group):
        logs = drawn_logs(np.random.RandomState(0), len(group)).replace(group=group)
        return IPS().fit(logs).evaluate("pi").degrees_of_freedom

    group = np.repeat(np.arange(n_groups), 3)
    assert freedom(group) == n_groups - 1
    # one group of many rounds leaves few effective ones
    group = np.concatenate([group, np.zeros(200, dtype=int)])
    sizes = np.bincount(group)
    expected = sizes.sum() ** 2 / (sizes @ sizes)
    assert expected < 5
    assert_allclose(freedom(group), expected)


# -- one unit has all that a ratio is divided by --------------------------------------
@pytest.mark.few_cases(4)
@pytest.mark.parametrize("groups", [None, "users"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["SNIPS", "SNDR"])
def test_one_unit_of_all_the_weight_has_no_error(name, weighted, groups):
    logs = drawn_logs(np.random.RandomState(3), weighted=weighted, groups=groups)
    omega = np.ones(60) if logs.sample_weight is None else logs.sample_weight
    row, seen, evaluator = int(np.argmax(omega)), set(), FORMULAS[name].evaluator
    for heavy in np.geomspace(1, 1e6, 13):
        p, pi = logs.propensity.copy(), np.full((60, 3), 1 / 3)
        p[row] /= heavy
        some = logs.replace(propensity=p).with_columns(pi=pi)
        parts = omega / 3 / p
        if groups:
            parts = np.bincount(logs.group_index, parts)
        alone = bool(parts.sum() ** 2 < 1.02 * (parts @ parts))
        value = evaluator.fit(some).evaluate("pi")
        told = any("has all the weight" in str(one) for one in value.warnings)
        assert told == np.isnan(value.standard_error) == alone
        summed = summed_value(evaluator, [some[::2], some[1::2]])
        assert np.isnan(summed.standard_error) == alone
        seen.add(alone)
    assert seen == {False, True}


# -- digits ---------------------------------------------------------------------------
def in_fractions(w, r):
    """Value and standard error of SNIPS, rounded once."""
    w, r = ([Fraction(x) for x in some.tolist()] for some in (w, r))
    n, total = len(w), sum(w)
    value = sum(a * b for a, b in zip(w, r, strict=True)) / total
    square = sum((a * (b - value)) ** 2 for a, b in zip(w, r, strict=True))
    return float(value), sqrt(square / total**2 * n / (n - 1))


def on_policy(reward, **fields):
    """Logs whose policy is the logger: all weights are one."""
    logs = bare_logs(np.arange(len(reward)) % 2, reward, 0.5, **fields)
    return logs.with_columns(pi=np.full((len(reward), 2), 0.5))


@pytest.mark.parametrize("centre", [1e3, -1e6, 1e9, "drifts"])
def test_rewards_far_from_zero(centre, global_random_seed):
    """Their squares have no digits left for the spread."""
    rng = np.random.RandomState(global_random_seed)
    centre = np.repeat([0, 1e6], [100, 900]) if centre == "drifts" else centre
    logs = on_policy(centre + rng.randn(1000))
    spread = (logs.reward - np.min(centre)).std(ddof=1)  # of the digits that are left
    for evaluator in (IPS(), SNIPS()):
        for found in both_ways(evaluator, logs, rng):
            assert_allclose(found.value, logs.reward.mean(), rtol=1e-14)
            assert_allclose(found.standard_error, spread / sqrt(1000), rtol=1e-9)


@pytest.mark.parametrize("spread", [1.0, 1e-3])
def test_errors_of_far_rewards_in_fractions(spread, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    logs = drawn_logs(rng, 90)
    logs = logs.replace(reward=1e6 + spread * rng.choice([-1.0, 1.0], 90))
    value, error = in_fractions(terms_of(FORMULAS["SNIPS"], logs)[1], logs.reward)
    for evaluator in (SNIPS(), SNDR(reward_model=0.3)):  # whose model changes nothing
        for found in both_ways(evaluator, logs, rng):
            assert_allclose(found.value, value, rtol=1e-14)
            assert_allclose(found.standard_error, error, rtol=1e-9 / spread)


# -- what floating point does not hold ------------------------------------------------
N_FAIR = 400
RNG = np.random.RandomState(0)
ACTION = RNG.randint(2, size=N_FAIR)
REWARD = (RNG.random_sample(N_FAIR) < 0.4).astype(float)
PI = np.tile([0.5, 0.5], (N_FAIR, 1))


def a_log(smallest, reward_there=1.0, rows=(3,)):
    """Return logs of a fair coin, and one propensity, or more, that is none."""
    p, reward = np.full(N_FAIR, 0.5), REWARD.copy()
    p[list(rows)], reward[list(rows)] = smallest, reward_there
    return bare_logs(ACTION, reward, p)


def told(value):
    return [str(w) for w in value.warnings if "Row 3 (action " in str(w)]


@pytest.mark.parametrize("reward_there", [0.0, 1.0])
@pytest.mark.parametrize("smallest", [1e-6, 1e-9, 1e-12, 1e-15])
def test_the_error_of_snips_is_right_as_long_as_floats_hold_it(smallest, reward_there):
    logs = a_log(smallest, reward_there, rows=(3, 5))
    value, error = in_fractions(0.5 / logs.propensity, logs.reward)
    found = quiet(SNIPS().fit(logs), PI)
    assert found.value == pytest.approx(value, rel=1e-9)
    assert error > 0
    assert found.standard_error == pytest.approx(error, rel=1e-3)
    # one round of nearly all the weight tells not how far another such may lie
    logs = a_log(smallest)
    assert in_fractions(0.5 / logs.propensity, logs.reward)[1] < 1e-3
    assert np.isnan(quiet(SNIPS().fit(logs), PI).standard_error)


@pytest.mark.parametrize("smallest", [1e-20, 1e-30, 1e-70])
def test_an_error_that_drowned_is_nan(smallest):
    found = quiet(SNIPS().fit(a_log(smallest)), PI)
    assert found.value == 1.0
    assert np.isnan(found.standard_error)
    [text] = told(found)
    assert f"has propensity {smallest:.3g}" in text
    # where all rewards are the same there is nothing to drown
    same = a_log(smallest, rows=(3, 5)).replace(reward=np.ones(N_FAIR))
    found = quiet(SNIPS().fit(same), PI)
    assert (found.value, found.standard_error) == (1.0, 0.0)
    assert told(found) == []


@pytest.mark.parametrize("smallest", [1e-100, 1e-200, 1e-307])
@pytest.mark.parametrize(
    "evaluator", [IPS(), SNIPS(), DoublyRobust(), SNDR(), MultiLoggerIPS(), DRns()]
)
def test_weights_whose_squares_no_float_holds(evaluator, smallest):
    found = quiet(evaluator.fit(a_log(smallest, reward_there=100.0)), PI)
    assert np.isnan(found.standard_error)
    [text] = told(found)
    assert "too large for a float" in text
    texts = " ".join(str(w) for w in found.warnings)
    assert "no logged round" not in texts and "All importance weights" not in texts
    low, high = found.confidence_interval()
    assert np.isnan([low, high]).all() or (low, high) == (-np.inf, np.inf)


def test_evaluators_that_drop_such_weights_are_as_sure_as_ever():
    plain, tiny = a_log(0.5), a_log(1e-200)
    for evaluator in (SwitchDR(), DRos(), SNIPS(cmax=10.0)):
        near, found = (quiet(evaluator.fit(logs), PI) for logs in (plain, tiny))
        assert found.value == pytest.approx(near.value, abs=0.05)
        assert found.standard_error == pytest.approx(near.standard_error, rel=0.5)
        assert told(found) == []
    with pytest.raises(ValueError, match=r"row 3 by .* its propensity is 1e-200"):
        quiet(MRDR().fit(tiny), PI)  # a model that cannot be weighted


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.PropensityWarning")
def test_rounds_are_not_accepted_because_of_the_ratio():
    fitted = RejectionSampling(random_state=0).fit(a_log(1e-9))
    with (
        pytest.warns(PropensityWarning, match="Row 3 has propensity 1e-09"),
        pytest.warns(LowOverlapWarning, match="acceptance ratio is 1e-09"),
    ):
        found = fitted.evaluate(PI)
    assert np.isnan(found.value)


def test_model_values_that_cancel_are_no_weight_that_drowns_others():
    """Rewards alike and the policy that is the logger: propensities were doubted."""
    action = np.arange(20) % 2
    q = np.random.default_rng(0).normal(size=(20, 2))
    for reward in (0.0, 1.0):
        logs = bare_logs(action, reward, 1.0).with_columns(pi=np.eye(2)[action], q=q)
        value = SNDR(reward_model="q").fit(logs).evaluate("pi")
        assert value.value == pytest.approx(reward, abs=1e-14)
        assert value.standard_error < 1e-15


# -- rewards far from zero, or all alike ----------------------------------------------
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_two_tiny_propensities(offset):
    """Two such rounds have all of the weight; what the others tell is not lost."""
    logs = world(group=None)
    p = logs.propensity.copy()
    p[[4, 5]] = 1e-12
    reward = offset + np.round(64 * logs.reward) / 64
    reward[5] = reward[4]
    logs = logs.replace(propensity=p, reward=reward)
    w = logs.columns["pi"][np.arange(300), logs.action] / p
    value, error = in_fractions(w, reward)
    result = SNIPS().fit(logs).evaluate("pi")
    assert result.value == pytest.approx(value, rel=1e-15)
    assert 0 < error < 1e-8
    # rewards of 1e5 are told apart from the value by 1e-11 of its own rounding
    assert_allclose(result.standard_error, error, rtol=1e-9 if not offset else 0.1)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6])
@pytest.mark.parametrize(
    "evaluator", [SNIPS(), SNIPS(cmax=2.0), SNDR(reward_model="constant")], ids=repr
)
def test_constant_rewards_have_no_error(evaluator, constant, weighted):
    logs = world(weighted=weighted, group=None).replace(reward=np.full(300, constant))
    logs = logs.with_columns(constant=np.full((300, 3), constant))
    result = evaluator.fit(logs).evaluate("pi")
    assert_allclose(result.value, constant, rtol=1e-14)
    if isinstance(evaluator, SNIPS):
        assert result.standard_error == 0
    else:  # the model's value of the policy is rounded, sum_a pi(a) times the constant
        assert result.standard_error <= 1e-16 * constant


# -- weights as evaluators change them ------------------------------------------------
P = [0.5, 0.5, 0.75, 0.25, 2.0**-20]
W = [0.25, 1.0, 1 / 3, 4.0, 2.0**20]


@pytest.mark.parametrize(
    ("evaluator", "expected"),
    [
        (IPS(cmax=2.0), [0.25, 1, 1 / 3, 2, 2]),
        (SwitchDR(reward_model=0.0, tau=np.inf), W),
        (DRos(reward_model=0.0, lam=4.0), [1 / 4.0625, 0.8, 12 / 37, 0.8, 2.0**-18]),
        (DRos(reward_model=0.0, lam=np.inf), W),
        (DRos(reward_model=0.0, lam=1e30), W),  # the limits are limits
        (DRos(reward_model=0.0, lam=1e-30), [0.0] * 5),
        (SubGaussianIPS(lam=0.5), [0.4, 1, 0.5, 1.6, 2**21 / (1 + 2**20)]),
        (LogSmoothing(lam=0.5), (2 * np.log1p(0.5 * np.array(W))).tolist()),
    ],
    ids=repr,
)
def test_large_weights_by_their_formulas(evaluator, expected):
    """The value of one round with a reward of one, and a model of zero."""
    for p, w, weight in zip(P, W, expected, strict=True):
        logs = BanditLogs([[0.0]], [0], [1.0], [p], actions=[0, 1])
        found = evaluator.fit(logs).evaluate(np.array([[w * p, 1 - w * p]])).value
        assert_allclose(found, weight, rtol=1e-15, atol=0 if weight else 1e-22)
        assert w < 1 or found <= w  # no weight above one is raised
