# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a log add up to the whole, in every family whose sums merge."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    MRDR,
    SNDR,
    SNIPS,
    BanditLogs,
    CascadeDR,
    CascadeIPS,
    DirectMethod,
    DoublyRobust,
    DRns,
    ExplorationScavenging,
    LogSmoothing,
    MultiLoggerDR,
    MultiLoggerIPS,
    PositionScavenging,
    PseudoInverse,
    Replay,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateIPS,
    SubGaussianIPS,
    SwitchDR,
)
from skope_ope.evaluators.core._estimate import difference
from skope_ope.evaluators.parts._part_sums import PartSums, sums_of_part
from tests.evaluators._reference_worlds import WORLDS, logged

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

STATIC = [
    IPS(cmax=5),
    SNIPS(),
    DoublyRobust(reward_model="q_hat", cmax=2),
    SNDR(reward_model="q_hat"),
    SwitchDR(reward_model="q_hat", tau=3),
    SubGaussianIPS(lam=0.1),
    DirectMethod(reward_model="q_hat"),
]
POOLINGS = [
    {"pooling": "naive"},
    {"pooling": "balanced"},
    {"pooling": "weighted", "divergences": {2: 0.5, 0: 1.0, 1: 2.0}},
]
LOGGERS = [
    evaluator
    for pooling in POOLINGS
    for evaluator in (
        MultiLoggerIPS(**pooling),
        MultiLoggerIPS(self_normalized=True, **pooling),
        MultiLoggerDR(reward_model="q_hat", self_normalized=True, **pooling),
    )
]
SCAVENGING = [
    ExplorationScavenging(),
    ExplorationScavenging(self_normalized=True),
    ExplorationScavenging(on_missing="nan"),
]
LOTTERY = [*SCAVENGING[:2], ExplorationScavenging(match="logger")]
SLATES = [
    PseudoInverse(),
    PseudoInverse(self_normalized=True),
    PseudoInverse(control_variates="single"),
    SlateIPS(self_normalized=True),
    CascadeIPS(),
    CascadeDR(reward_model=0.3),
    SlateDoublyRobust(reward_model=0.5),
]
FAMILIES = {
    "real_weighted": STATIC,
    "zero_weights": STATIC,
    "unseen": STATIC,
    "far": [SNIPS(), DoublyRobust(reward_model="q_hat"), SNDR(reward_model="q_hat")],
    "loggers_weighted": LOGGERS,
    "logger_left_out": LOGGERS,
    "loggers_far": LOGGERS,
    "context_free_weighted": SCAVENGING,
    "context_free_unseen": SCAVENGING,
    "lottery": LOTTERY,
    "slates_uniform": SLATES,
    "slates_left_out": SLATES,
    "slates_weighted": SLATES,
}
N_PARTITIONS = 200


def world_of(name, grouped):
    """The logs of a world, with users that cross loggers, arms and parts, or none."""
    world = WORLDS[name][1]()
    logs = world.logs
    if world.sample_weight is not None:
        logs = logs.with_columns(sample_weight=world.sample_weight)
    if grouped:
        n = len(logs)
        users = np.random.RandomState(n).randint(45, size=n) ** 2 // 45
        logs = logs.replace(group=np.char.add("user ", users.astype(str)))
    return logs, world.atol


def parts_of(logs, rng):
    """Cut logs into parts of unequal sizes, in any order; some are one round, or none.

    Rounds of weight zero are parts of their own, too.
    """
    n = len(logs)
    share = rng.dirichlet(np.full(rng.randint(2, 8), 0.5))
    code = rng.choice(len(share), size=n, p=share)
    code[rng.randint(n)] = len(share)
    weight = getattr(logs, "sample_weight", None)
    if weight is None:
        weight = logs.columns.get("sample_weight", np.ones(n))
    nothing = np.flatnonzero(weight == 0)
    code[nothing[rng.randint(2) :: 2]] = len(share) + 1
    for k in rng.permutation(len(share) + 3):
        yield logs[rng.permutation(np.flatnonzero(code == k))]


def sums_of(evaluator, policy, logs, **given):
    """Sums of one evaluator on one policy over a part."""
    return sums_of_part({"a": policy}, {"one": evaluator}, logs, **given)


def summary_of(parts, policy="a"):
    """The summary of sums of one evaluator."""
    return parts.by_evaluator["one"].summary(policy)


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
    assert_allclose(
        found.cluster_sums, whole.cluster_sums[met], atol=rtol * size + atol
    )


@pytest.mark.few_cases(5)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_parts_add_up_to_the_whole(name, grouped):
    logs, atol = world_of(name, grouped)
    evaluators = [e.fit(logs) for e in FAMILIES[name]]
    policy = WORLDS[name][1]().policies[0]
    rng = np.random.RandomState(sum(map(ord, name)) + grouped)
    wholes = [e.evaluate(policy)._estimate for e in evaluators]
    far = {"rtol": 1e-12, "atol": atol} if atol > 1e-12 else {}
    for trial in range(-(-N_PARTITIONS // (2 * len(FAMILIES)))):
        parts = list(parts_of(logs, rng))
        for k in (trial % len(evaluators), (trial + 3) % len(evaluators)):
            found = sum(
                sums_of(evaluators[k], policy, p, shares=shares_of(logs)) for p in parts
            )
            assert_same(summary_of(found).estimate(), wholes[k], **far)


@pytest.mark.few_cases(4)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_evaluator_of_every_world_merges(name):
    logs, atol = world_of(name, grouped=True)
    policy = WORLDS[name][1]().policies[0]
    parts = list(parts_of(logs, np.random.RandomState(1)))
    for evaluator in FAMILIES[name]:
        evaluator.fit(logs)
        shares = shares_of(logs)
        found = sum(sums_of(evaluator, policy, p, shares=shares) for p in parts)
        whole = evaluator.evaluate(policy)._estimate
        far = {"atol": atol} if atol > 1e-12 else {}
        assert_same(summary_of(found).estimate(), whole, **far)


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
        shares = shares_of(logs)
        found = sum(sums_of(evaluator, "pi", p, shares=shares) for p in parts)
        found = summary_of(found)
        assert found.sums.frame.strata == [0, 1, 2]  # ties between them are settled so
        assert_same(found.estimate(), evaluator.evaluate("pi")._estimate)


@pytest.mark.parametrize("grouped", [False, True])
def test_an_arm_of_one_round_matters_where_the_policy_seeks_it(grouped):
    n = 40
    action = np.arange(n) % 2
    action[7] = 2
    pi = np.tile([0.5, 0.5, 0.0], (n, 1))
    sought = pi.copy()
    sought[30] = [0, 0, 1]  # in another round than the one that logged it
    logs = BanditLogs(
        np.zeros((n, 1)),
        action,
        np.arange(n) % 5 + 0.0,
        group=np.arange(n) % 9 if grouped else None,
    ).with_columns(pi=pi, sought=sought)
    evaluator = ExplorationScavenging().fit(logs)
    for policy, certain in (("pi", True), ("sought", False)):
        whole = evaluator.evaluate(policy)._estimate
        found = sum(sums_of(evaluator, policy, logs[k::4]) for k in range(4))
        assert np.isfinite(whole.standard_error) == certain
        assert_same(summary_of(found).estimate(), whole)


def test_a_part_of_equal_weights_keeps_them():
    logs, _ = world_of("zero_weights", grouped=False)
    omega = np.repeat([1.0, 3.0], [20, 40])
    logs = logs.replace(sample_weight=None)
    evaluator = SNIPS().fit(logs)
    found = sum(
        sums_of(evaluator, "pi", logs[rows], sample_weight=omega[rows])
        for rows in (slice(20), slice(20, None))
    )
    assert_same(
        summary_of(found).estimate(),
        evaluator.evaluate("pi", sample_weight=omega)._estimate,
    )


def test_a_far_reward_that_comes_first_costs_no_digits():
    logs = logged(40, 3, 2, offset=0.0, group=np.arange(40) % 9).logs
    reward, pi = logs.reward.copy(), logs.columns["pi"].copy()
    reward[0] = 1e9  # by itself it is far from zero; and the policy never goes there
    pi[0] = np.eye(3)[(logs.action_index[0] + 1) % 3]
    logs = logs.replace(reward=reward).with_columns(pi=pi)
    for evaluator in (IPS(), SNIPS()):
        evaluator.fit(logs)
        parts = [logs[:1], *(logs[k : k + 3] for k in range(1, 40, 3))]
        found = sum(sums_of(evaluator, "pi", part) for part in parts)
        assert_same(summary_of(found).estimate(), evaluator.evaluate("pi")._estimate)


def test_an_error_that_was_lost_is_not_zero():
    logs, _ = world_of("far", grouped=False)
    proba = logs.propensity.copy()
    proba[4] = 1e-14  # its weight drowns the terms of all others
    logs = logs.replace(propensity=proba, logging_proba=None)
    evaluator = SNIPS().fit(logs)
    found = sum(sums_of(evaluator, "pi", part) for part in (logs[:200], logs[200:]))
    assert np.isnan(summary_of(found).estimate().standard_error)
    proba[5] = 1e-14  # two rounds tell a spread
    constant = logs.replace(propensity=proba, reward=np.ones(len(logs)))
    evaluator.fit(constant)
    found = sums_of(evaluator, "pi", constant[:200])
    found = summary_of(found + sums_of(evaluator, "pi", constant[200:])).estimate()
    assert found.standard_error == 0
    assert_allclose(found.value, 1)


def test_nothing_is_known_of_a_policy_of_unseen_actions():
    logs, _ = world_of("unseen", grouped=False)
    pi = np.eye(4)[np.full(len(logs), 3)]
    logs = logs.with_columns(never=pi).replace(logging_proba=None)
    evaluator = IPS().fit(logs)
    found = sum(sums_of(evaluator, "never", logs[k : k + 9]) for k in range(0, 60, 9))
    assert np.isnan(evaluator.evaluate("never").value)
    assert np.isnan(summary_of(found).estimate().value)
    seen = int(np.argmax(logs._action_counts))
    logs = logs.with_columns(seen=np.eye(4)[np.full(len(logs), seen)])
    evaluator.fit(logs)
    parts = [logs[logs.action_index == k] for k in range(3)]  # two have no such action
    found = sum(sums_of(evaluator, "seen", part) for part in parts)
    assert_same(summary_of(found).estimate(), evaluator.evaluate("seen")._estimate)


def test_tables_are_small_and_add_up(tmp_path):
    logs, _ = world_of("loggers_weighted", grouped=True)
    evaluator = MultiLoggerIPS(self_normalized=True).fit(logs)
    parts = [sums_of(evaluator, "pi", logs[k::3]) for k in range(3)]
    for k, part in enumerate(parts):
        np.savez(tmp_path / f"{k}.npz", **part.to_table())
    read = [
        PartSums.from_table(np.load(tmp_path / f"{k}.npz"), {"one": evaluator})
        for k in range(3)
    ]
    found = summary_of(sum(read))
    assert_same(found.estimate(), evaluator.evaluate("pi")._estimate)
    assert_allclose(found.counts.counts, sum(parts).counts.counts)
    assert found.counts.loggers == [0, 1, 2]


@pytest.fixture(scope="module")
def many_users():
    """Rounds of 4,000 users, each with a level of its own."""
    world = WORLDS["clicks"][1]()
    rng = np.random.RandomState(0)
    rows = rng.randint(len(world.logs), size=12_000)
    logs = world.logs[rows]
    users = rng.randint(4000, size=len(rows))
    level = rng.normal(size=4000)[users]
    reward = np.round(64 * (logs.reward + level)) / 64
    return logs.replace(reward=reward, group=users)


def test_buckets_stand_for_many_groups(many_users):
    logs, evaluators = many_users, {"a": IPS(), "b": SNIPS()}
    parts = [sums_of_part({"pi": "pi"}, evaluators, logs[k::4]) for k in range(4)]
    exact, few = sum(parts), sum(part.bucketed(1000) for part in parts)
    few.log = None  # it keeps a sample of rounds
    size = sum(np.asarray(v).nbytes for v in few.to_table().values())
    assert size < 250_000
    exact, few = (
        [sums.by_evaluator[name].summary("pi") for name in "ab"]
        for sums in (exact, few)
    )
    assert len(few[0].sums.frame.clusters) <= 1000
    # an error from G clusters varies by 1 / sqrt(2 G) of itself: of 1,000 buckets 2.2%,
    # of 4,000 users 1.1%; the two agree within four times their common spread
    near = 4 * np.sqrt(1 / 2000 + 1 / 8000)
    for one, other in zip(exact, few, strict=True):
        one, other = one.estimate(), other.estimate()
        assert_allclose(other.value, one.value, rtol=1e-12)
        assert_allclose(other.standard_error, one.standard_error, rtol=near)
        assert other.standard_error > 1.1 * one.independent_error
    a, b = IPS().fit(logs), SNIPS().fit(logs)
    paired = a.evaluate("pi") - b.evaluate("pi")
    with_groups = difference(*(e.estimate() for e in exact))
    with_buckets = difference(*(t.estimate() for t in few))
    for found, rtol in ((with_groups, 1e-12), (with_buckets, near)):
        assert_allclose(found.value, paired.value, rtol=1e-12, atol=1e-15)
        assert_allclose(found.standard_error, paired.standard_error, rtol=rtol)


def test_groups_join_the_buckets_of_others(many_users):
    today, before = (sums_of(IPS(), "pi", many_users[k::2]) for k in range(2))
    value = IPS().fit(many_users).evaluate("pi").value
    stored = before.bucketed(1000)
    for found in (today + stored, stored + today):
        found = summary_of(found)
        assert found.sums.frame.n_buckets == 1000
        assert_allclose(found.estimate().value, value, rtol=1e-12)
    with pytest.raises(ValueError, match="by 500 and by 1000 buckets"):
        stored + before.bucketed(500)


@pytest.mark.parametrize(
    ("name", "evaluator", "message"),
    [
        ("clicks", IPS(cmax="auto"), "cmax='auto' is chosen from all rounds"),
        ("clicks", LogSmoothing(), "lam=None is 1 / sqrt"),
        ("clicks", DoublyRobust(), "fitted to the rounds of fit"),
        ("clicks", MRDR(), "fitted to all rounds for every policy"),
        ("uniform_log", Replay(), "cannot be computed from sums over rounds"),
        ("clicks", DRns(), "cannot be computed from sums over rounds"),
        ("loggers", MultiLoggerIPS(pooling="weighted"), "divergences='pooled'"),
        (
            "loggers",
            MultiLoggerIPS(pooling="weighted", divergences="per_logger"),
            "divergences='per_logger'",
        ),
        (
            "loggers",
            MultiLoggerIPS(pooling="weighted", divergences=[1, 2, 3], cross_fit=2),
            "cross_fit",
        ),
        ("loggers", MultiLoggerIPS(pooling="balanced"), "Pass shares="),
        ("lottery", ExplorationScavenging(), "Pass shares="),
        ("lottery", ExplorationScavenging(on_missing="nan"), "on_missing='warn'"),
        ("context_free", ExplorationScavenging(strata="half"), "strata='half'"),
        ("slates_uniform", ExplorationScavenging(), "arms are the slates"),
        ("slates_uniform", CascadeDR(), "for every policy"),
        ("slates_uniform", SlateDoublyRobust(), "fitted to the rounds of fit"),
        ("slates_uniform", PositionScavenging(attention=[1, 0.5, 0.2]), "its pages"),
        (
            "slates_uniform",
            PseudoInverse(control_variates="multiple"),
            "products of 14 terms",
        ),
    ],
)
def test_what_depends_on_the_whole_log_is_refused(name, evaluator, message):
    logs, _ = world_of(name, grouped=False)
    policy = WORLDS[name][1]().policies[0]
    with pytest.raises(ValueError, match=message):
        sums_of(evaluator, policy, logs)


def test_models_of_draws_are_refused():
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import Ridge

    from skope_ope.reward_models._additive_slate_model import slate_design

    logs, _ = world_of("slates_uniform", grouped=False)
    X = slate_design(logs, logs.slate)
    model = FrozenEstimator(Ridge().fit(X, logs.reward))
    with pytest.raises(ValueError, match="n_samples=20 slates are drawn"):
        sums_of(SlateDirectMethod(reward_model=model), "best", logs)
    summed = SlateDirectMethod(reward_model=model, n_samples=None).fit(logs)
    found = sum(sums_of(summed, "best", logs[k::3]) for k in range(3))
    assert_same(summary_of(found).estimate(), summed.evaluate("best")._estimate)


def test_a_model_that_is_an_array_is_refused():
    logs, _ = world_of("clicks", grouped=False)
    evaluator = DoublyRobust(reward_model=logs.columns["q_hat"]).fit(logs)
    with pytest.raises(ValueError, match="Carry it as a column"):
        sums_of(evaluator, "pi", logs)


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
