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
from skope_ope.evaluators.core._summary import Summary
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
    """Cut logs into parts of unequal sizes, in any order; some are one round."""
    n = len(logs)
    share = rng.dirichlet(np.full(rng.randint(2, 8), 0.5))
    code = rng.choice(len(share), size=n, p=share)
    code[rng.randint(n)] = len(share)
    weight = getattr(logs, "sample_weight", None)
    if weight is None:
        weight = logs.columns.get("sample_weight", np.ones(n))
    for k in rng.permutation(len(share) + 1):
        rows = rng.permutation(np.flatnonzero(code == k))
        if weight[rows].any():
            yield logs[rows]


def shares_of(evaluator, logs):
    if not evaluator._mixes_loggers(logs):
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
            shares = shares_of(evaluators[k], logs)
            found = sum(evaluators[k]._summary(policy, p, None, shares) for p in parts)
            assert_same(found.estimate(), wholes[k], **far)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_evaluator_of_every_world_merges(name):
    logs, atol = world_of(name, grouped=True)
    policy = WORLDS[name][1]().policies[0]
    parts = list(parts_of(logs, np.random.RandomState(1)))
    for evaluator in FAMILIES[name]:
        evaluator.fit(logs)
        shares = shares_of(evaluator, logs)
        found = sum(evaluator._summary(policy, p, None, shares) for p in parts)
        whole = evaluator.evaluate(policy)._estimate
        far = {"atol": atol} if atol > 1e-12 else {}
        assert_same(found.estimate(), whole, **far)


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
        shares = shares_of(evaluator, logs)
        found = sum(evaluator._summary("pi", p, None, shares) for p in parts)
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
        found = sum(evaluator._summary(policy, logs[k::4]) for k in range(4))
        assert np.isfinite(whole.standard_error) == certain
        assert_same(found.estimate(), whole)


def test_a_part_of_equal_weights_keeps_them():
    logs, _ = world_of("zero_weights", grouped=False)
    omega = np.repeat([1.0, 3.0], [20, 40])
    logs = logs.replace(sample_weight=None)
    evaluator = SNIPS().fit(logs)
    found = evaluator._summary("pi", logs[:20], omega[:20]) + evaluator._summary(
        "pi", logs[20:], omega[20:]
    )
    assert_same(
        found.estimate(), evaluator.evaluate("pi", sample_weight=omega)._estimate
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
        found = sum(evaluator._summary("pi", part) for part in parts)
        assert_same(found.estimate(), evaluator.evaluate("pi")._estimate)


def test_an_error_that_was_lost_is_not_zero():
    logs, _ = world_of("far", grouped=False)
    proba = logs.propensity.copy()
    proba[4] = 1e-14  # its weight drowns the terms of all others
    logs = logs.replace(propensity=proba, logging_proba=None)
    evaluator = SNIPS().fit(logs)
    found = evaluator._summary("pi", logs[:200]) + evaluator._summary("pi", logs[200:])
    assert np.isnan(found.estimate().standard_error)
    proba[5] = 1e-14  # two rounds tell a spread
    constant = logs.replace(propensity=proba, reward=np.ones(len(logs)))
    evaluator.fit(constant)
    found = evaluator._summary("pi", constant[:200])
    found += evaluator._summary("pi", constant[200:])
    assert found.estimate().standard_error == 0
    assert_allclose(found.estimate().value, 1)


def test_nothing_is_known_of_a_policy_of_unseen_actions():
    logs, _ = world_of("unseen", grouped=False)
    pi = np.eye(4)[np.full(len(logs), 3)]
    logs = logs.with_columns(never=pi).replace(logging_proba=None)
    evaluator = IPS().fit(logs)
    found = sum(evaluator._summary("never", logs[k : k + 9]) for k in range(0, 60, 9))
    assert np.isnan(evaluator.evaluate("never").value)
    assert np.isnan(found.estimate().value)
    seen = int(np.argmax(logs.action_counts))
    logs = logs.with_columns(seen=np.eye(4)[np.full(len(logs), seen)])
    evaluator.fit(logs)
    parts = [logs[logs.action_index == k] for k in range(3)]  # two have no such action
    found = sum(evaluator._summary("seen", part) for part in parts)
    assert_same(found.estimate(), evaluator.evaluate("seen")._estimate)


def test_tables_are_small_and_add_up(tmp_path):
    logs, _ = world_of("loggers_weighted", grouped=True)
    evaluator = MultiLoggerIPS(self_normalized=True).fit(logs)
    parts = [evaluator._summary("pi", logs[k::3]) for k in range(3)]
    for k, part in enumerate(parts):
        np.savez(tmp_path / f"{k}.npz", **part.to_table())
    read = [
        Summary.from_table(np.load(tmp_path / f"{k}.npz"), parts[0]) for k in range(3)
    ]
    assert_same(sum(read).estimate(), evaluator.evaluate("pi")._estimate)
    assert_allclose(sum(read).tally.counts, sum(parts).tally.counts)
    assert sum(read).tally.loggers == [0, 1, 2]


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
    logs = many_users
    a, b = IPS().fit(logs), SNIPS().fit(logs)
    exact = [e._summary("pi", logs) for e in (a, b)]
    tables = [
        sum(
            Summary.from_table(e._summary("pi", logs[k::4]).to_table(), like)
            for k in range(4)
        )
        for e, like in zip((a, b), exact, strict=True)
    ]
    size = sum(np.asarray(v).nbytes for v in tables[0].to_table().values())
    assert size < 150_000
    assert len(tables[0].sums.frame.clusters) <= 1000
    # an error from G clusters varies by 1 / sqrt(2 G) of itself: of 1,000 buckets 2.2%,
    # of 4,000 users 1.1%; the two agree within four times their common spread
    near = 4 * np.sqrt(1 / 2000 + 1 / 8000)
    for one, other in zip(exact, tables, strict=True):
        one, other = one.estimate(), other.estimate()
        assert_allclose(other.value, one.value, rtol=1e-12)
        assert_allclose(other.standard_error, one.standard_error, rtol=near)
        assert other.standard_error > 1.1 * one.independent_error
    paired = a.evaluate("pi") - b.evaluate("pi")
    with_groups = difference(*(e.estimate() for e in exact))
    with_buckets = difference(*(t.estimate() for t in tables))
    for found, rtol in ((with_groups, 1e-12), (with_buckets, near)):
        assert_allclose(found.value, paired.value, rtol=1e-12, atol=1e-15)
        assert_allclose(found.standard_error, paired.standard_error, rtol=rtol)


def test_groups_join_the_buckets_of_a_table(many_users):
    logs = many_users
    evaluator = IPS().fit(logs)
    today, before = (evaluator._summary("pi", logs[k::2]) for k in range(2))
    stored = Summary.from_table(before.to_table(), today)
    for found in (today + stored, stored + today):
        assert found.sums.frame.n_buckets == 1000
        assert_allclose(
            found.estimate().value, evaluator.evaluate("pi").value, rtol=1e-12
        )
    other = Summary.from_table(before.to_table(n_buckets=500), today)
    with pytest.raises(ValueError, match="by 500 and by 1000 buckets"):
        stored + other


@pytest.mark.parametrize(
    ("name", "evaluator", "message"),
    [
        ("clicks", IPS(cmax="auto"), "cmax='auto' is chosen from all rounds"),
        ("clicks", LogSmoothing(), "lam=None is 1 / sqrt"),
        ("clicks", DoublyRobust(), "fitted to the rounds of fit"),
        ("clicks", MRDR(), "fitted to all rounds for every policy"),
        ("uniform_log", Replay(), "no function of sums over rounds"),
        ("clicks", DRns(), "no function of sums over rounds"),
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
            "products of its 14 terms",
        ),
    ],
)
def test_what_depends_on_the_whole_log_is_refused(name, evaluator, message):
    logs, _ = world_of(name, grouped=False)
    policy = WORLDS[name][1]().policies[0]
    with pytest.raises(ValueError, match=message):
        evaluator.fit(logs)._summary(policy, logs)


def test_models_of_draws_are_refused():
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import Ridge

    from skope_ope.reward_models._slate_design import slate_design

    logs, _ = world_of("slates_uniform", grouped=False)
    X = slate_design(logs, logs.slate)
    model = FrozenEstimator(Ridge().fit(X, logs.reward))
    with pytest.raises(ValueError, match="n_samples=20 slates are drawn"):
        SlateDirectMethod(reward_model=model).fit(logs)._summary("best", logs)
    summed = SlateDirectMethod(reward_model=model, n_samples=None).fit(logs)
    found = sum(summed._summary("best", logs[k::3]) for k in range(3))
    assert_same(found.estimate(), summed.evaluate("best")._estimate)


def test_a_model_that_is_an_array_is_refused():
    logs, _ = world_of("clicks", grouped=False)
    evaluator = DoublyRobust(reward_model=logs.columns["q_hat"]).fit(logs)
    with pytest.raises(ValueError, match="Carry it as a column"):
        evaluator._summary("pi", logs)


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
        evaluator._summary("pi", logs, shares=shares)
    with pytest.raises(TypeError, match="dict of a share per logger"):
        evaluator._summary("pi", logs, shares=[0.2, 0.3, 0.5])
    with pytest.raises(ValueError, match="shares must be None"):
        IPS().fit(logs)._summary("pi", logs, shares={0: 1.0})


def test_a_part_without_weight_is_left_out():
    logs, _ = world_of("zero_weights", grouped=False)
    nothing = logs[np.flatnonzero(logs.sample_weight == 0)]
    with pytest.raises(ValueError, match="leave it out"):
        IPS().fit(logs)._summary("pi", nothing)
