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
from tests.evaluators.core._asked import bare_logs

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


FORMULAS = {
    "IPS": Formula(IPS(), lambda w, r, q, v: (w * r,), mean),
    "SNIPS": Formula(SNIPS(), lambda w, r, q, v: (w * r, w), ratio),
    "DR": Formula(
        DoublyRobust(reward_model="q"), lambda w, r, q, v: (v + w * (r - q),), mean
    ),
    "SNDR": Formula(
        SNDR(reward_model="q"), lambda w, r, q, v: (v, w * (r - q), w), mean_plus_ratio
    ),
    "naive": Formula(MultiLoggerIPS(), lambda w, r, q, v: (w * r,), mean, (1, 1, 1)),
    "weighted": Formula(
        MultiLoggerIPS(pooling="weighted", divergences=[1.0, 0.4, 2.0]),
        lambda w, r, q, v: (w * r,),
        mean,
        (1.0, 2.5, 0.5),
    ),
    "weighted ratio": Formula(
        MultiLoggerIPS(
            pooling="weighted", divergences=[1.0, 0.4, 2.0], self_normalized=True
        ),
        lambda w, r, q, v: (w * r, w),
        ratio,
        (1.0, 2.5, 0.5),
    ),
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
    for i in rounds:
        near = [
            one
            for one in samples
            if any(stratum[j] == stratum[i] or unit[j] == unit[i] for j in one)
        ]
        samples = [one for one in samples if one not in near]
        samples.append([i, *(j for one in near for j in one)])
    return samples


def summed_value(evaluator, logs, rng, n_parts=4):
    """The value from sums of parts of any sizes, in any order."""
    places = np.sort(rng.randint(1, len(logs), n_parts - 1))
    parts = [p for p in np.split(rng.permutation(len(logs)), places) if len(p)]
    given = {"evaluators": {"it": evaluator}}
    return sum(summarize({"a": "pi"}, logs[p], **given) for p in parts).values()[
        "a", "it"
    ]


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
    memory = formula.evaluator.fit(logs).evaluate("pi")
    for found in (memory, summed_value(formula.evaluator, logs, rng)):
        assert_allclose(found.value, value, rtol=1e-12)
        assert_allclose(found.standard_error, error, rtol=1e-11)
        assert_allclose(found.degrees_of_freedom, freedom)
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
    logs = drawn_logs(np.random.RandomState(0))
    plain = SNIPS().fit(logs).evaluate("pi")
    own = SNIPS().fit(logs.replace(group=np.random.RandomState(1).permutation(60)))
    assert_allclose(own.evaluate("pi").standard_error, plain.standard_error, 1e-12)
    copies = np.repeat(np.arange(60), 5)
    found = SNIPS().fit(logs[copies].replace(group=copies)).evaluate("pi")
    assert_allclose(found.value, plain.value, rtol=1e-12)
    assert_allclose(found.standard_error, plain.standard_error, rtol=1e-12)
    effect = found.diagnostics["design_effect"]
    assert effect == pytest.approx(5 * 60 / 59 * 299 / 300)


@pytest.mark.parametrize("groups", [None, [0, 1, 2, 3], [0, 1, 2, 0]])
def test_a_logger_of_one_round_joins_another(groups):
    """It has no spread of its own: the deviations are from the mean of both."""
    reward = np.array([1.0, 2.0, 3.0, 7.0])
    logs = on_policy(reward, logger=[0, 0, 0, 1], group=groups)
    for part in (logs, logs[::-1]):
        found = MultiLoggerIPS().fit(part).evaluate("pi")
        change = reward - reward.mean()
        n = 4
        if groups == [0, 1, 2, 0]:
            change, n = np.bincount(groups, change), 3
        error = sqrt((change @ change) * n / (n - 1)) / 4
        assert_allclose(found.standard_error, error)


@pytest.mark.parametrize("n_groups", [39, 40])
def test_few_groups_give_the_degrees_of_freedom(n_groups):
    group = np.repeat(np.arange(n_groups), 3)
    logs = drawn_logs(np.random.RandomState(0), len(group)).replace(group=group)
    assert IPS().fit(logs).evaluate("pi").degrees_of_freedom == n_groups - 1
    # one group of many rounds leaves few effective ones
    group = np.concatenate([group, np.zeros(200, dtype=int)])
    logs = drawn_logs(np.random.RandomState(0), len(group)).replace(group=group)
    sizes = np.bincount(group)
    expected = sizes.sum() ** 2 / (sizes @ sizes)
    assert expected < 5
    assert_allclose(IPS().fit(logs).evaluate("pi").degrees_of_freedom, expected)


# -- one unit has all that a ratio is divided by --------------------------------------
@pytest.mark.few_cases(4)
@pytest.mark.parametrize("groups", [None, "users"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["SNIPS", "SNDR"])
def test_one_unit_of_all_the_weight_has_no_error(name, weighted, groups):
    logs = drawn_logs(np.random.RandomState(3), weighted=weighted, groups=groups)
    omega = np.ones(60) if logs.sample_weight is None else logs.sample_weight
    row, seen = int(np.argmax(omega)), set()
    for heavy in np.geomspace(1, 1e6, 13):
        p, pi = logs.propensity.copy(), np.full((60, 3), 1 / 3)
        p[row] /= heavy
        some = logs.replace(propensity=p).with_columns(pi=pi)
        parts = omega / 3 / p
        if groups:
            parts = np.bincount(logs.group_index, parts)
        alone = bool(parts.sum() ** 2 < 1.02 * (parts @ parts))
        evaluator = FORMULAS[name].evaluator
        value = evaluator.fit(some).evaluate("pi")
        told = any("has all the weight" in str(one) for one in value.warnings)
        assert told == np.isnan(value.standard_error) == alone
        halves = [
            summarize({"a": "pi"}, some[k::2], evaluators={"it": evaluator})
            for k in (0, 1)
        ]
        assert np.isnan(sum(halves).values()["a", "it"].standard_error) == alone
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
    n = len(reward)
    logs = bare_logs(np.arange(n) % 2, reward, [0.5] * n, **fields)
    return logs.with_columns(pi=np.full((n, 2), 0.5))


@pytest.mark.parametrize("centre", [1e3, -1e6, 1e9, "drifts"])
def test_rewards_far_from_zero(centre, global_random_seed):
    """Their squares have no digits left for the spread."""
    rng = np.random.RandomState(global_random_seed)
    centre = np.repeat([0, 1e6], [100, 900]) if centre == "drifts" else centre
    logs = on_policy(centre + rng.randn(1000))
    spread = (logs.reward - np.min(centre)).std(ddof=1)  # of the digits that are left
    for evaluator in (IPS(), SNIPS()):
        memory = evaluator.fit(logs).evaluate("pi")
        for found in (memory, summed_value(evaluator, logs, rng)):
            assert_allclose(found.value, logs.reward.mean(), rtol=1e-14)
            assert_allclose(found.standard_error, spread / sqrt(1000), rtol=1e-9)


@pytest.mark.parametrize("spread", [1.0, 1e-3])
def test_errors_of_far_rewards_in_fractions(spread, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    logs = drawn_logs(rng, 90)
    logs = logs.replace(reward=1e6 + spread * rng.choice([-1.0, 1.0], 90))
    value, error = in_fractions(terms_of(FORMULAS["SNIPS"], logs)[1], logs.reward)
    for evaluator in (SNIPS(), SNDR(reward_model=0.3)):  # whose model changes nothing
        memory = evaluator.fit(logs).evaluate("pi")
        for found in (memory, summed_value(evaluator, logs, rng)):
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
    return BanditLogs(np.zeros((N_FAIR, 1)), ACTION, reward, p)


def exact_snips(logs):
    return in_fractions(0.5 / logs.propensity, logs.reward)


@pytest.mark.parametrize("reward_there", [0.0, 1.0])
@pytest.mark.parametrize("smallest", [1e-6, 1e-9, 1e-12, 1e-15])
def test_the_error_of_snips_is_right_as_long_as_floats_hold_it(smallest, reward_there):
    logs = a_log(smallest, reward_there, rows=(3, 5))
    found = quiet(SNIPS().fit(logs), PI)
    value, error = exact_snips(logs)
    assert found.value == pytest.approx(value, rel=1e-9)
    assert error > 0
    assert found.standard_error == pytest.approx(error, rel=1e-3)


def told(value):
    return [str(w) for w in value.warnings if "Row 3 (action " in str(w)]


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


@pytest.mark.parametrize("smallest", [1e-6, 1e-12])
def test_one_round_of_nearly_all_the_weight_has_no_error(smallest):
    """That of the others is tiny, and not how far another such round may lie."""
    logs = a_log(smallest)
    assert exact_snips(logs)[1] < 1e-3
    found = quiet(SNIPS().fit(logs), PI)
    assert np.isnan(found.standard_error)


@pytest.mark.parametrize("smallest", [1e-100, 1e-200, 1e-307])
@pytest.mark.parametrize(
    "evaluator", [IPS(), SNIPS(), DoublyRobust(), SNDR(), MultiLoggerIPS(), DRns()]
)
def test_weights_whose_squares_no_float_holds(evaluator, smallest):
    logs = a_log(smallest, reward_there=100.0)
    found = quiet(evaluator.fit(logs), PI)
    assert np.isnan(found.standard_error)
    [text] = told(found)
    assert "too large for a float" in text
    assert not any("no logged round" in str(w) for w in found.warnings)
    assert not any("All importance weights" in str(w) for w in found.warnings)
    low, high = found.confidence_interval()
    assert np.isnan([low, high]).all() or (low, high) == (-np.inf, np.inf)


def test_evaluators_that_drop_such_weights_are_as_sure_as_ever():
    plain, tiny = a_log(0.5), a_log(1e-200)
    for evaluator in (SwitchDR(), DRos(), SNIPS(cmax=10.0)):
        near, found = (quiet(evaluator.fit(logs), PI) for logs in (plain, tiny))
        assert found.value == pytest.approx(near.value, abs=0.05)
        assert found.standard_error == pytest.approx(near.standard_error, rel=0.5)
        assert told(found) == []


def test_a_model_that_cannot_be_weighted_is_refused():
    with pytest.raises(ValueError, match=r"row 3 by .* its propensity is 1e-200"):
        quiet(MRDR().fit(a_log(1e-200)), PI)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.PropensityWarning")
def test_rounds_are_not_accepted_because_of_the_ratio():
    fitted = RejectionSampling(random_state=0).fit(a_log(1e-9))
    with (
        pytest.warns(PropensityWarning, match="Row 3 has propensity 1e-09"),
        pytest.warns(LowOverlapWarning, match="acceptance ratio is 1e-09"),
    ):
        found = fitted.evaluate(PI)
    assert np.isnan(found.value)


def test_a_propensity_that_has_no_inverse_is_refused():
    with pytest.raises(ValueError, match=r"got 4\.94065646e-324 at row 3"):
        a_log(5e-324)


def test_model_values_that_cancel_are_no_weight_that_drowns_others():
    """Rewards alike and the policy that is the logger: propensities were doubted."""
    n = 20
    action = np.arange(n) % 2
    q = np.random.default_rng(0).normal(size=(n, 2))
    for reward in (np.zeros(n), np.ones(n)):
        logs = BanditLogs(np.empty((n, 0)), action, reward, np.ones(n))
        logs = logs.with_columns(pi=np.eye(2)[action], q=q)
        value = SNDR(reward_model="q").fit(logs).evaluate("pi")
        assert value.value == pytest.approx(reward[0], abs=1e-14)
        assert value.standard_error < 1e-15


# -- rewards far from zero, or all alike ----------------------------------------------
def far_world(n=300, weighted=False):
    rng = np.random.RandomState(0)
    mu = 0.6 * rng.dirichlet(np.ones(3), n) + 0.4 / 3
    pi = 0.6 * rng.dirichlet(np.ones(3), n) + 0.4 / 3
    action = rng.randint(3, size=n)
    return BanditLogs(
        rng.normal(size=(n, 2)),
        action,
        rng.normal(size=n),
        mu[np.arange(n), action],
        sample_weight=rng.random_sample(n) + 0.5 if weighted else None,
    ).with_columns(pi=pi, q_hat=rng.normal(size=(n, 3)))


@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_two_tiny_propensities(offset):
    """Two such rounds have all of the weight; what the others tell is not lost."""
    logs = far_world()
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
    table = np.full((300, 3), constant)
    logs = far_world(weighted=weighted).with_columns(constant=table)
    logs = logs.replace(reward=np.full(300, constant))
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
        (SwitchDR(reward_model=0.0, tau=1.0), [0.25, 1, 1 / 3, 0, 0]),
        (SwitchDR(reward_model=0.0, tau=0), [0.0] * 5),
        (SwitchDR(reward_model=0.0, tau=np.inf), W),
        (DRos(reward_model=0.0, lam=4.0), [1 / 4.0625, 0.8, 12 / 37, 0.8, 2.0**-18]),
        (DRos(reward_model=0.0, lam=0), [0.0] * 5),
        (DRos(reward_model=0.0, lam=np.inf), W),
        (DRos(reward_model=0.0, lam=1e30), W),  # the limits are limits
        (DRos(reward_model=0.0, lam=1e-30), [0.0] * 5),
        (SubGaussianIPS(lam=0.5), [0.4, 1, 0.5, 1.6, 2**21 / (1 + 2**20)]),
        (SubGaussianIPS(lam=0), W),
        (SubGaussianIPS(lam=1), [1, 1, 1, 1, 1]),
        (LogSmoothing(lam=0.5), (2 * np.log1p(0.5 * np.array(W))).tolist()),
    ],
    ids=repr,
)
def test_weights_by_their_formulas(evaluator, expected):
    """The value of one round with a reward of one, and a model of zero."""
    for p, w, weight in zip(P, W, expected, strict=True):
        logs = BanditLogs([[0.0]], [0], [1.0], [p], actions=[0, 1])
        found = evaluator.fit(logs).evaluate(np.array([[w * p, 1 - w * p]])).value
        if weight == 0:
            assert abs(found) < 1e-22
        else:
            assert_allclose(found, weight, rtol=1e-15)
        assert w < 1 or found <= w  # no weight above one is raised
