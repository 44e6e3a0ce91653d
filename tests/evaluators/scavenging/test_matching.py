# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from skope_ope import (
    BanditLogs,
    EpsilonGreedy,
    ExplorationScavenging,
    RankingPolicy,
    SlateLogs,
)
from skope_ope.evaluators.scavenging._matching import (
    by_logger,
    check_offers,
    counts_by_stratum,
    match_arms,
    match_slates,
    strata_of,
)
from skope_ope.exceptions import LowOverlapWarning
from tests.evaluators.scavenging._toys import S6_X, SL4_SLATES, s6, sl4


def test_counts():
    code, stratum = np.array([0, 1, 1, 0]), np.array([0, 0, 1, 1])
    assert_array_equal(counts_by_stratum(code, 3), [[2, 2, 0]])
    assert_array_equal(counts_by_stratum(code, 2, stratum), [[1, 1], [1, 1]])
    # a round of weight zero is none, one of weight three is one
    assert_array_equal(counts_by_stratum(code, 2, None, np.arange(4.0)), [[1, 2]])


def test_missing_mass_is_that_of_the_stratum():
    logs = s6(actions=[0, 1, 2]).with_columns(day=[0, 0, 0, 0, 1, 1])
    pi = np.tile([0.5, 0.3, 0.2], (6, 1))
    evaluator = ExplorationScavenging()
    assert_allclose(match_arms(evaluator, pi, logs, None).missing_mass, 0.2)
    logs = logs[[0, 1, 2, 3, 4]]  # on the second day action 1 only
    found = match_arms(evaluator, pi[:5], logs, strata_of(logs, "day"))
    assert_allclose(found.missing_mass, (4 * 0.2 + 0.7) / 5)
    assert_array_equal(found.wanted, [0.5, 0.3, 0.3, 0.5, 0.3])


def test_what_is_sought_elsewhere():
    logs = s6(actions=[0, 1, 2]).with_columns(day=[0, 0, 0, 1, 1, 1])
    pi = np.zeros((6, 3))
    pi[:, 0] = 1
    pi[2] = [0, 0, 1]
    pi[4] = [0, 1, 0]  # action 1: on the second day, where it was logged once
    found = match_arms(ExplorationScavenging(), pi, logs, strata_of(logs, "day"))
    assert_array_equal(found.sought, [1, 0, 0, 1, 1, 1])
    assert_array_equal(found.plays, [1, 1, 1])
    assert found.fewest_rounds == 1
    assert (
        match_arms(ExplorationScavenging(), 0.3 + pi * 0.1, logs, None).sought is None
    )
    omega = np.array([1.0, 1, 0, 1, 0, 1])  # what wanted 1 and 2 does not count
    found = match_arms(ExplorationScavenging(), pi, logs, None, omega)
    assert_array_equal(found.plays, [1, 0, 0])
    assert found.fewest_rounds == 3


def test_slates_that_are_sought_elsewhere():
    target = SL4_SLATES[[1, 1, 1, 2]]
    found = match_slates(target, sl4())
    assert_array_equal(found.sought, [False, True, True, False])
    assert found.fewest_rounds == 1
    found = match_slates(target, sl4(), np.array([0, 0, 1, 1]))
    assert_array_equal(found.sought, [False, True, True, False])
    assert_allclose(found.missing_mass, 0.25)  # slate 1 in stratum 1
    found = match_slates(target, sl4(), None, np.array([1.0, 1, 1, 0]))
    assert_array_equal(found.sought, [False, True, False, False])


def test_distinct_slates_in_distinct_strata_take_no_square_of_them():
    n = 4000
    slate = np.stack([np.arange(n), np.roll(np.arange(n), 1)], axis=1)
    logs = SlateLogs(np.zeros((n, 1)), slate, np.ones(n)).with_columns(day=np.arange(n))
    scavenger = ExplorationScavenging(strata="day").fit(logs)
    tracemalloc.start()
    with pytest.warns(LowOverlapWarning):
        value = scavenger.evaluate(slate)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert_allclose(value.value, 1)
    assert peak < 2000 * n  # 64,000 bytes a round, where it was a table


def test_missing_mass_is_weighted():
    omega = np.array([1.5, 0.5, 2.0, 1.0, 0.0, 1.0])
    logs = s6(actions=[0, 1, 2])
    lost = np.array([0.0, 0.1, 0.2, 0.3, 1.0, 0.1])
    pi = np.column_stack([(1 - lost) / 2, (1 - lost) / 2, lost])
    found = match_arms(ExplorationScavenging(), pi, logs, None, omega)
    assert_allclose(found.missing_mass, omega @ lost / omega.sum())
    # rows of weight zero alone want what was never logged: nothing is missing
    pi = np.array([[0.5, 0.5, 0]] * 4 + [[0, 0, 1.0]] + [[0.5, 0.5, 0]])
    evaluator = ExplorationScavenging(on_missing="nan").fit(logs)
    assert np.isfinite(evaluator.score(pi, sample_weight=omega))
    assert match_arms(evaluator, pi, logs, None, omega).missing_mass == 0
    slates = sl4()
    rows = np.arange(len(slates))
    wanted = SL4_SLATES.copy()
    wanted[0] = [0, 1, 3, 2]  # never shown
    assert match_slates(wanted, slates).missing_mass == 0.25
    assert match_slates(wanted, slates, None, 1.0 * (rows > 0)).missing_mass == 0


def test_loggers_as_actions():
    logs = s6(logger=["b", "a", "b", "a", "c", "c"], propensity=np.full(6, 0.5))
    seen = by_logger(logs)
    assert seen.actions.tolist() == ["a", "b", "c"]
    assert seen.row_id == logs.row_id
    assert seen.propensity is None
    with pytest.raises(ValueError, match="Pass logger="):
        by_logger(s6())


def test_names_of_strata():
    logs = s6(group=[3, 3, 4, 4, 5, 5], available=np.ones((6, 2), bool))
    assert strata_of(logs, None) is None
    assert strata_of(logs, "group").tolist() == [0, 0, 1, 1, 2, 2]
    assert strata_of(logs, "available").tolist() == [0] * 6
    assert strata_of(logs.with_columns(x=S6_X), "x").tolist() == S6_X.tolist()
    with pytest.raises(ValueError, match=r"strata='day' is neither .*with_columns"):
        strata_of(logs, "day")
    with pytest.raises(ValueError, match="neither"):
        strata_of(logs, "timestamp")  # a field that these logs do not have


def test_strata_of_many_kinds():
    x = np.array([0, 1, 0, 1, 1, 0])
    for values in (
        np.array(["a", None])[x],
        np.array([1.0, np.nan])[x],
        np.array([np.nan, None, "b"], dtype=object)[[2, 0, 2, 1, 0, 2]],
        np.array([[0, "u"], [1, None]], dtype=object)[x],
        np.array(["2026-01-01", "NaT"], dtype="datetime64[D]")[x],
        np.stack([x, 1 - x, x, x], axis=1).reshape(6, 2, 2),
    ):
        found = strata_of(s6().with_columns(x=values), "x")
        assert_array_equal(found == found[0], x == 0)
        assert len(np.unique(found)) == 2
    both = np.stack([x, [0, 0, 1, 1, 1, 1]], axis=1).astype(float)
    for context in (both, sparse.csr_matrix(both)):
        found = strata_of(s6(context=context), "context")
        assert found.tolist() == [0, 2, 1, 3, 3, 1]


@pytest.mark.frames
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_strata_of_a_frame(library):
    lib = pytest.importorskip(library)
    data = {"word": ["a", "b", "a", None, "b", "a"], "number": [0, 0, 1, 1, 0, 0]}
    frame = (lib.table if library == "pyarrow" else lib.DataFrame)(data)
    logs = s6(context=frame)
    found = strata_of(logs, "context")
    assert len(np.unique(found)) == 4
    assert found[0] == found[5] and found[1] == found[4]
    value = ExplorationScavenging(strata="context").fit(logs)
    assert value.logs_ is logs


def test_offers_that_vary():
    offers = np.array([[1, 1, 0]] * 3 + [[1, 1, 1]] * 3, dtype=bool)
    logs = s6(actions=[0, 1, 2], available=offers)
    with pytest.raises(ValueError, match=r"rows 0 and 3\. .*strata='available'"):
        check_offers(logs, None)
    check_offers(logs, strata_of(logs, "available"))
    with pytest.raises(ValueError, match="rows 2 and 3 of one stratum"):
        check_offers(logs, np.array([0, 0, 1, 1, 1, 1]))
    check_offers(s6(), None)


def test_policies_that_are_no_targets():
    with pytest.raises(TypeError, match=r"EpsilonGreedy learns .*frozen\(\)"):
        match_arms(ExplorationScavenging(), EpsilonGreedy(), s6(), None)
    with pytest.raises(ValueError, match="probabilities of all actions"):
        match_arms(ExplorationScavenging(), np.full(6, 0.5), s6(), None)


def test_slates_are_known_by_their_items():
    found = match_slates(SL4_SLATES, sl4())
    assert_array_equal(found.wanted, 1)
    assert found.missing_mass == 0
    # the same items under other indices
    names = np.array([list("abcd"), list("badc"), list("abcd"), list("abcd")])
    slates = np.array([[0, 1, 2, 3], [1, 0, 3, 2], [0, 1, 2, 3], [3, 2, 1, 0]])
    found = match_slates(slates, sl4(slate=slates, item_id=names))
    assert found.code.tolist()[:3] == [found.code[0]] * 3
    assert found.code[3] != found.code[0]


def test_slates_that_were_never_shown():
    target = np.tile([0, 1, 2, -1], (4, 1))
    found = match_slates(target, sl4())
    assert found.missing_mass == 1 and not found.wanted.any()
    with pytest.raises(ValueError, match="fills 5 slots, but the logs have 4"):
        match_slates(np.tile([0, 1, 2, 3, -1], (4, 1)), sl4())


def test_many_slots_overflow_nothing():
    rng = np.random.RandomState(0)
    slate = np.stack([rng.permutation(100)[:30] for _ in range(20)])
    logs = sl4(
        context=np.zeros((20, 1)),
        slate=np.concatenate([slate[:10]] * 2),
        slot_reward=np.ones((20, 30)),
    )
    found = match_slates(logs.slate, logs)
    assert np.bincount(found.code).tolist() == [2] * 10
    assert found.wanted.all()


def test_a_policy_of_slates_by_its_probabilities():
    class Half:
        def slate_proba(self, logs, slates):
            assert slates is logs.slate
            return np.full(len(logs), 0.5)

    assert_array_equal(match_slates(Half(), sl4()).wanted, 0.5)
    assert isinstance(sl4()[:2], type(sl4())) and not isinstance(sl4(), BanditLogs)


def test_a_deterministic_policy_is_its_slates(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    slate = np.argsort(rng.random_sample((300, 4)), axis=1)[:, :2]
    names = rng.randint(3, size=(300, 4))  # two candidates may be one item
    logs = SlateLogs(
        np.zeros((300, 1)),
        slate,
        slot_reward=rng.randint(2, size=slate.shape),
        n_candidates=4,
        item_id=names,
        item_features=rng.normal(size=(300, 4, 1)),
    )
    regressor = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    policy = RankingPolicy(FrozenEstimator(regressor), 2)
    found = match_slates(policy, logs)
    expected = match_slates(policy.deterministic_slates(logs), logs)
    assert_array_equal(found.wanted, expected.wanted)
    assert_array_equal(found.sought, expected.sought)
    assert found.missing_mass == expected.missing_mass
    evaluator = ExplorationScavenging().fit(logs)
    value = evaluator.evaluate(policy)
    assert value.value == evaluator.score(policy.deterministic_slates(logs))
