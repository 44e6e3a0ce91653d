# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a log add up to the whole, at the edges of what sums can tell.

The judge adds up parts of every family. Parts of one mixture of loggers, tables and
hash buckets stand for files, machines and frames of very many groups; no public call
takes them for parts in memory.
"""

import gc
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    CascadeDR,
    CascadeIPS,
    DirectMethod,
    DoublyRobust,
    ExplorationScavenging,
    MultiLoggerDR,
    MultiLoggerIPS,
    PseudoInverse,
    SlateDoublyRobust,
    SlateIPS,
    SubGaussianIPS,
    SwitchDR,
    evaluate,
)
from skope_ope.evaluators._value_summary import ValueSummary
from skope_ope.evaluators.core._counted import Counted
from skope_ope.evaluators.parts._part_sums import sums_of_part
from tests.evaluators._reference_worlds import WORLDS, logged
from tests.evaluators.core._asked import bare_logs

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

Q = {"reward_model": "q_hat"}
FAR = [SNIPS(), DoublyRobust(**Q), SNDR(**Q)]
STATIC = [IPS(cmax=5), SNIPS(), SubGaussianIPS(lam=0.1), DirectMethod(**Q), SNDR(**Q)]
STATIC += [DoublyRobust(cmax=2, **Q), SwitchDR(tau=3, **Q)]
POOLINGS = [
    {"pooling": "naive"},
    {"pooling": "balanced"},
    {"pooling": "weighted", "divergences": {2: 0.5, 0: 1.0, 1: 2.0}},
    {"pooling": "weighted"},
    {"pooling": "weighted", "divergences": "per_logger"},
]
LOGGERS = [MultiLoggerIPS(**pooling) for pooling in POOLINGS]
LOGGERS += [MultiLoggerIPS(self_normalized=True, **pooling) for pooling in POOLINGS]
LOGGERS += [MultiLoggerDR(self_normalized=True, **Q, **one) for one in POOLINGS]
SCAVENGING = [
    ExplorationScavenging(**given)
    for given in ({}, {"self_normalized": True}, {"on_missing": "nan"})
]
LOTTERY = [*SCAVENGING[:2], ExplorationScavenging(match="logger")]
SLATES = [PseudoInverse(), PseudoInverse(self_normalized=True), CascadeIPS()]
SLATES += [PseudoInverse(control_variates="single"), SlateIPS(self_normalized=True)]
SLATES += [CascadeDR(reward_model=0.3), SlateDoublyRobust(reward_model=0.5)]
FAMILIES = {
    **dict.fromkeys(("real_weighted", "zero_weights", "unseen"), STATIC),
    "far": FAR,
    **dict.fromkeys(("loggers_weighted", "logger_left_out", "loggers_far"), LOGGERS),
    **dict.fromkeys(("context_free_weighted", "context_free_unseen"), SCAVENGING),
    "lottery": LOTTERY,
    **dict.fromkeys(("slates_uniform", "slates_left_out", "slates_weighted"), SLATES),
}


def world_of(name, grouped):
    """The logs of a world, with users that cross loggers, arms and parts, or none."""
    world = WORLDS[name][1]()
    logs, n = world.logs, len(world.logs)
    if world.sample_weight is not None:
        logs = logs.with_columns(sample_weight=world.sample_weight)
    if grouped:
        users = np.random.RandomState(n).randint(45, size=n) ** 2 // 45
        logs = logs.replace(group=np.char.add("user ", users.astype(str)))
    return logs, world.atol


def sums_of(evaluator, policy, logs, **given):
    """Sums of one evaluator on one policy over a part."""
    return sums_of_part({"a": policy}, {"one": evaluator}, logs, **given)


def summary_of(parts, policy="a"):
    """The summary of sums of one evaluator."""
    return parts.by_evaluator["one"][policy]


def shares_of(logs):
    if getattr(logs, "loggers", None) is None:
        return None
    share = np.bincount(logs.logger_index, logs.sample_weight, len(logs.loggers))
    return dict(zip(logs.loggers.tolist(), (share / share.sum()).tolist(), strict=True))


def assert_same(found, whole, rtol=1e-12, atol=0.0):
    """Value, errors, degrees of freedom and what clusters tell are the same."""
    for name in ("value", "standard_error", "independent_error", "degrees_of_freedom"):
        one, other = getattr(found, name), getattr(whole, name)
        assert_allclose(one, other, rtol=rtol, atol=atol, err_msg=name)
    assert found.frame.clustered == whole.frame.clustered
    if not found.frame.clustered:
        return
    assert_allclose(found.frame.effective_clusters, whole.frame.effective_clusters)
    size = abs(whole.cluster_sums).max()
    met = np.isin(whole.frame.clusters, found.frame.clusters)
    assert whole.cluster_sums[~met] == pytest.approx(0)  # rounds of weight zero
    near = {"atol": rtol * size + atol}
    assert_allclose(found.cluster_sums, whole.cluster_sums[met], **near)


def value_of(evaluator, policy, parts, **given):
    """The estimate of the sums of parts."""
    return summary_of(sum(sums_of(evaluator, policy, p, **given) for p in parts))


def test_parts_may_lack_loggers_and_arms():
    for name, evaluator in (
        ("loggers_weighted", MultiLoggerIPS(pooling="balanced")),
        ("loggers_weighted", MultiLoggerIPS(self_normalized=True)),
        ("context_free_weighted", ExplorationScavenging()),
    ):
        logs, _ = world_of(name, grouped=True)
        evaluator.fit(logs)
        codes = logs.action_index if logs.loggers is None else logs.logger_index
        parts = [logs[np.flatnonzero(codes == k)] for k in (2, 0, 1)]
        found = value_of(evaluator, "pi", parts, shares=shares_of(logs))
        assert found.sums.frame.strata == [0, 1, 2]  # ties between them are settled so
        assert_same(found.estimate(), evaluator.evaluate("pi")._estimate)


@pytest.mark.parametrize("grouped", [False, True])
def test_an_arm_of_one_round_matters_where_the_policy_seeks_it(grouped):
    rows = np.arange(40)
    action = np.where(rows == 7, 2, rows % 2)
    pi = np.tile([0.5, 0.5, 0.0], (40, 1))
    sought = pi.copy()
    sought[30] = [0, 0, 1]  # in another round than the one that logged it
    group = rows % 9 if grouped else None
    logs = bare_logs(action, rows % 5 + 0.0, group=group)
    logs = logs.with_columns(pi=pi, sought=sought)
    evaluator = ExplorationScavenging().fit(logs)
    for policy, certain in (("pi", True), ("sought", False)):
        whole = evaluator.evaluate(policy)._estimate
        found = value_of(evaluator, policy, [logs[k::4] for k in range(4)])
        assert np.isfinite(whole.standard_error) == certain
        assert_same(found.estimate(), whole)


def test_a_part_of_equal_weights_keeps_them():
    logs = world_of("zero_weights", grouped=False)[0].replace(sample_weight=None)
    omega = np.repeat([1.0, 3.0], [20, 40])
    evaluator = SNIPS().fit(logs)
    parts = ((logs[rows], omega[rows]) for rows in (slice(20), slice(20, None)))
    found = sum(sums_of(evaluator, "pi", one, sample_weight=w) for one, w in parts)
    whole = evaluator.evaluate("pi", sample_weight=omega)._estimate
    assert_same(summary_of(found).estimate(), whole)


def test_a_far_reward_that_comes_first_costs_no_digits():
    logs = logged(40, 3, 2, offset=0.0, group=np.arange(40) % 9).logs
    reward, pi = logs.reward.copy(), logs.columns["pi"].copy()
    reward[0] = 1e9  # by itself it is far from zero; and the policy never goes there
    pi[0] = np.eye(3)[(logs.action_index[0] + 1) % 3]
    logs = logs.replace(reward=reward).with_columns(pi=pi)
    for evaluator in (IPS(), SNIPS()):
        evaluator.fit(logs)
        parts = [logs[:1], *(logs[k : k + 3] for k in range(1, 40, 3))]
        found = value_of(evaluator, "pi", parts)
        assert_same(found.estimate(), evaluator.evaluate("pi")._estimate)


def test_an_error_that_was_lost_is_not_zero():
    logs, _ = world_of("far", grouped=False)
    proba = logs.propensity.copy()
    proba[4] = 1e-14  # its weight drowns the terms of all others
    logs = logs.replace(propensity=proba, logging_proba=None)
    evaluator = SNIPS().fit(logs)
    found = value_of(evaluator, "pi", (logs[:200], logs[200:]))
    assert np.isnan(found.estimate().standard_error)
    proba[5] = 1e-14  # two rounds tell a spread
    constant = logs.replace(propensity=proba, reward=np.ones(len(logs)))
    evaluator.fit(constant)
    found = value_of(evaluator, "pi", (constant[:200], constant[200:])).estimate()
    assert found.standard_error == 0
    assert_allclose(found.value, 1)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({0: 0.5, 1: 0.5}, "logger 2 has rounds in this part and no share"),
        ({0: 0.5, 1: 0.2, 2: 0.2}, "sum to 1"),
        ({0: 0.2, 1: 0.2, 2: 0.2, "new": 0.4}, "logger 'new'"),
    ],
)
def test_shares_are_those_of_all_loggers(shares, message):
    logs, _ = world_of("loggers", grouped=False)
    evaluator = MultiLoggerIPS(pooling="balanced").fit(logs)
    with pytest.raises(ValueError, match=message):
        sums_of(evaluator, "pi", logs, shares=shares)
    with pytest.raises(TypeError, match="dict of a share per logger"):
        sums_of(evaluator, "pi", logs, shares=[0.2, 0.3, 0.5])


def test_a_part_without_weight_adds_nothing():
    logs, _ = world_of("zero_weights", grouped=False)
    nothing = sums_of(IPS(), "pi", logs[np.flatnonzero(logs.sample_weight == 0)])
    assert nothing.counts is None and nothing.n > 0
    with pytest.raises(ValueError, match="no round has a positive weight"):
        _ = nothing.by_evaluator
    empty = sums_of(IPS(), "pi", logs[:0])
    some = sums_of(IPS(), "pi", logs[logs.sample_weight > 0])
    whole = IPS().fit(logs).evaluate("pi")._estimate
    for found in (nothing + some + empty, empty + nothing + some):
        assert found.n == len(logs)
        assert_same(summary_of(found).estimate(), whole)


@pytest.mark.few_cases(3)
@pytest.mark.parametrize("name", FAMILIES)
def test_rounds_are_let_go_at_once(name):
    logs, _ = world_of(name, grouped=True)
    policy = WORLDS[name][1]().policies[0]
    evaluators = {str(k): one for k, one in enumerate(FAMILIES[name])}
    shares, part = shares_of(logs), logs[np.arange(len(logs) // 2)]
    here = weakref.ref(part)
    gc.collect()
    gc.disable()  # a cycle would keep them
    try:
        sums = sums_of_part({"new": policy}, evaluators, part, shares=shares)
        del part
        assert here() is None
    finally:
        gc.enable()
    assert sums.n == len(logs) // 2


# -- hash buckets in place of groups ------------------------------------------------
POLICIES = {"new": "pi", "other": "other"}
EVALUATORS = {"SNIPS": SNIPS()}


def users(n_users, seed, rounds=3, spread=0.25):
    """Return logs of users whose rewards and habits are their own.

    A policy takes the second of two actions with some probability; the mean reward is
    .4 and .6 for these, over all users.
    """
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_users), rounds)
    n = len(group)
    level = rng.uniform(-spread, spread, n_users)[group]
    action = (rng.random(n) < 0.5).astype(int)
    reward = (rng.random(n) < 0.4 + 0.2 * action + level).astype(float)
    logs = bare_logs(action, reward, 0.5, group=group)
    shares = {"pi": [0.5, 0.5], "other": [0.75, 0.25]}
    return logs.with_columns(**{k: np.tile(pi, (n, 1)) for k, pi in shares.items()})


def bucketed(logs, n_buckets=None, policies=POLICIES, evaluators=EVALUATORS):
    sums = sums_of_part(policies, evaluators, logs)
    sums = sums if n_buckets is None else sums.bucketed(n_buckets)
    given = {"evaluators": evaluators, "facts": {}, "counted": Counted.of_logs(logs)}
    return ValueSummary(sums, **given)


def test_buckets_stand_for_many_groups():
    logs = users(4000, 0, spread=0.4)
    evaluators = {"IPS": IPS(), "SNIPS": SNIPS()}
    given = {"policies": {"new": "pi"}, "evaluators": evaluators}
    exact, few = (bucketed(logs, n, **given) for n in (None, 1000))
    assert "1,000 hash buckets of groups" in repr(few)
    exact, few = exact.values(), few.values()
    memory = evaluate({"new": "pi"}, logs, evaluators=evaluators)
    apart = evaluate({"new": "pi"}, logs.replace(group=None), evaluators=evaluators)
    # an error from G clusters varies by 1 / sqrt(2 G) of itself: of 1,000 buckets 2.2%,
    # of 4,000 users 1.1%; the two agree within four times their common spread
    near = 4 * np.sqrt(1 / 2000 + 1 / 8000)
    tables = exact, few, memory
    pairs = [[table[key] for table in tables] for key in memory]
    pairs.append([table["new", "IPS"] - table["new", "SNIPS"] for table in tables])
    for one, other, whole in pairs:
        for found, rtol in ((one, 1e-11), (other, near)):
            assert_allclose(found.value, whole.value, rtol=1e-12, atol=1e-15)
            assert_allclose(found.standard_error, whole.standard_error, rtol=rtol)
    for key, value in few.items():
        assert value.standard_error > 1.1 * apart[key].standard_error
        assert value.degrees_of_freedom <= 999
        assert value.diagnostics["clusters"] == "1000 hash buckets"
        assert value.diagnostics["n_buckets"] == 1000
        assert value.diagnostics["n_groups"] == logs.n_groups
        assert exact[key].diagnostics["clusters"] == "exact groups"


def test_groups_join_the_buckets_of_others():
    logs = users(2000, 0)
    today, before = (sums_of(IPS(), "pi", logs[k::2]) for k in range(2))
    value = IPS().fit(logs).evaluate("pi").value
    stored = before.bucketed(1000)
    for found in (today + stored, stored + today):
        found = summary_of(found)
        assert found.sums.frame.n_buckets == 1000
        assert_allclose(found.estimate().value, value, rtol=1e-12)
    with pytest.raises(ValueError, match="by 500 and by 1000 buckets"):
        stored + before.bucketed(500)


def test_differences_of_other_jobs_need_the_same_buckets():
    """Parts have the buckets of the whole."""
    logs = users(500, 2)
    cut = np.random.default_rng(0).permutation(len(logs))
    parts = [bucketed(logs[rows], 50) for rows in np.split(cut, [200, 900])]
    one, two, other = (
        bucketed(logs, n, {name: name}).values()[name, "SNIPS"]
        for name, n in (("pi", 50), ("other", 50), ("other", 40))
    )
    for table in (sum(parts).values(), bucketed(logs, 50).values()):
        expected = table["new", "SNIPS"] - table["other", "SNIPS"]
        assert_allclose((one - two).standard_error, expected.standard_error, rtol=1e-10)
        assert_allclose(two.standard_error, table["other", "SNIPS"].standard_error)
    with pytest.raises(ValueError, match="write both with the same n_buckets"):
        one - other


@pytest.mark.theory
def test_intervals_by_200_buckets_of_4000_users_cover():
    n_logs, methods = 300, {"student": {}, "jackknife": {}}
    methods["bootstrap"] = {"n_resamples": 400}
    hits = np.zeros((3, 2))
    for seed in range(n_logs):
        logs = users(4000, seed, rounds=2)
        table = bucketed(logs, 200, evaluators={"IPS": IPS()}).values()
        value, other = table["new", "IPS"], table["other", "IPS"]
        for m, (method, given) in enumerate(methods.items()):
            for k, (one, truth) in enumerate(((value, 0.5), (value - other, 0.05))):
                low, high = one.confidence_interval(method=method, **given)
                hits[m, k] += low <= truth <= high
    error = 4 * np.sqrt(0.95 * 0.05 / n_logs)
    assert_allclose(hits / n_logs, 0.95, atol=error)
