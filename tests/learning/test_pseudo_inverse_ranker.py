# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rankings learned from the rewards of whole slates."""

from itertools import permutations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from skope_ope import (
    PlackettLuceSlatePolicy,
    PolicyScorer,
    PseudoInverse,
    PseudoInverseRanker,
    RankingPolicy,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.datasets import RankingWorld
from skope_ope.exceptions import LowOverlapWarning
from tests.policies._slate_worlds import rounds


def make_world(n_queries=40, n_slots=3, seed=0, metric="ndcg", n_documents=8):
    """Queries whose grades follow from two features, with a useless third one."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n_queries * n_documents, 3))
    score = X[:, 0] + X[:, 1] ** 2 - 1
    grades = np.digitize(score, [0.0, 1.0, 2.0])
    qid = np.repeat(np.arange(n_queries), n_documents)
    return RankingWorld(X, grades, qid, n_slots=n_slots, metric=metric)


def given_values(values):
    """Logs and a ranker that predicts the values of (slot, candidate) exactly."""
    n_slots, m = values.shape
    slates = np.array(list(permutations(range(m), n_slots)))
    reward = values[np.arange(n_slots), slates].sum(axis=1)
    logs = SlateLogs(
        np.zeros((len(slates), 1)),
        slates,
        reward,
        item_features=np.arange(m)[:, None],
        logging_policy=UniformSlatePolicy(n_slots),
    )
    return logs, PseudoInverseRanker(DecisionTreeRegressor())


def test_finds_the_best_slate_of_an_enumerated_world(global_random_seed):
    """All slates once are the expectation: the predictions tell their values."""
    rng = np.random.RandomState(global_random_seed)
    for shape in ((2, 3), (3, 4), (3, 3), (1, 4)):
        logs, ranker = given_values(rng.normal(size=shape))
        ranker.fit(logs)
        values = ranker.slot_values(logs)
        slots = np.arange(shape[0])
        found = values[0, slots, logs.slate].sum(axis=1)
        np.testing.assert_allclose(found, logs.reward, rtol=0, atol=1e-12)
        best = logs.slate[logs.reward.argmax()]
        np.testing.assert_array_equal(ranker.deterministic_slates(logs)[0], best)
    assert ranker.n_queries_ == 1
    assert ranker.n_rounds_ == 4


def test_greedy_ranker():
    # slots with equal sums: a constant of a slot, which the logs cannot tell, would
    # move the greedy choice
    values = np.array([[1.0, 0.9, -1.15], [0.75, 0.0, 0.0]])
    logs, ranker = given_values(values)
    for assignment, total in (("optimal", 1.65), ("greedy", 1.0)):
        ranker.set_params(assignment=assignment).fit(logs)
        shown = ranker.deterministic_slates(logs)[0]
        assert values[[0, 1], shown].sum() == pytest.approx(total, abs=1e-12)


def test_learns_to_rank(global_random_seed):
    """From page rewards nearly as well as from the grades, far above random."""
    world = make_world(n_queries=60, seed=global_random_seed)
    model = HistGradientBoostingRegressor(max_iter=50, random_state=0)
    logs = world.draw(60_000, random_state=global_random_seed)
    ranker = PseudoInverseRanker(model).fit(logs)
    held_out = make_world(n_queries=200, seed=global_random_seed + 1000)
    random = held_out.value(UniformSlatePolicy(3))
    grades = world.grades.ravel()
    X = world.queries.item_features
    supervised = held_out.value(RankingPolicy(model, 3).fit(X, 2**grades - 1))
    assert held_out.value(ranker) > random + 0.6 * (supervised - random)


def test_streaming_and_batch_learn_the_same():
    world = make_world()
    ranker = PseudoInverseRanker(DecisionTreeRegressor(max_depth=4, random_state=0))
    stream = list(world.stream(9000, batch_size=2000, random_state=3))
    streamed = clone(ranker).fit(iter(stream))
    assert (streamed.n_rounds_, streamed.n_queries_) == (9000, 40)
    batch = clone(ranker).fit(world.stream(9000, batch_size=2000, random_state=3))
    np.testing.assert_array_equal(
        batch.slot_values(world.queries), streamed.slot_values(world.queries)
    )
    # one batch of all rows: sums in another order
    rows = [np.concatenate([getattr(b, f) for b in stream]) for f in FIELDS]
    whole = SlateLogs(
        *rows[:3],
        item_id=rows[3],
        n_candidates=8,
        item_features=world.queries.item_features,
        logging_policy=UniformSlatePolicy(3),
    )
    one = PseudoInverseRanker(Ridge()).fit(whole).slot_values(world.queries)
    many = PseudoInverseRanker(Ridge()).fit(stream).slot_values(world.queries)
    np.testing.assert_allclose(one, many, rtol=0, atol=1e-12)


FIELDS = ("context", "slate", "reward", "item_id")


def test_loggers_of_other_distributions():
    """What a weighted logger tells has the same mean."""
    logs, ranker = given_values(np.array([[0.3, 0.1, 0.6], [0.2, 0.9, 0.1]]))
    logger = PlackettLuceSlatePolicy([3.0, 2.0, 1.0], 2)
    mass = logger.slate_proba(logs)
    weighted = logs[np.repeat(np.arange(6), np.round(mass * 60).astype(int))]
    np.testing.assert_allclose(mass * 60, np.round(mass * 60), rtol=0, atol=1e-12)
    ranker.fit(weighted.replace(logging_policy=logger))
    found = ranker.slot_values(logs)[0, [0, 1], logs.slate].sum(axis=1)
    np.testing.assert_allclose(found, logs.reward, rtol=0, atol=1e-12)


def test_is_a_slate_policy(global_random_seed):
    world = make_world(seed=global_random_seed)
    logs = world.draw(3000, random_state=0)
    ranker = PseudoInverseRanker(DecisionTreeRegressor(max_depth=5)).fit(logs)
    slates = ranker.deterministic_slates(logs)
    np.testing.assert_array_equal(ranker.sample(logs, 0), slates)
    marginals = ranker.slot_marginals(logs)
    np.testing.assert_array_equal(marginals.sum(axis=2), 1.0)
    np.testing.assert_array_equal(
        np.take_along_axis(marginals, slates[:, :, None], axis=2), 1.0
    )
    same = (slates == logs.slate).all(axis=1)
    np.testing.assert_array_equal(ranker.slate_proba(logs), same)
    np.testing.assert_array_equal(ranker.slate_proba(logs, slates), 1.0)
    # the slate of a query does not depend on the other rounds
    np.testing.assert_array_equal(ranker.deterministic_slates(logs[:7]), slates[:7])


def test_fewer_candidates_than_slots(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    n_candidates = np.repeat([1, 2, 3, 4], 50)
    slates = UniformSlatePolicy(3).sample(rounds(200, 3, n_candidates), rng)
    logs = SlateLogs(
        np.zeros((200, 1)),
        slates,
        rng.normal(size=200),
        n_candidates=n_candidates,
        item_features=np.arange(4)[:, None],
        logging_policy=UniformSlatePolicy(3),
    )
    for assignment in ("optimal", "greedy"):
        for model in (DecisionTreeRegressor(), KNeighborsRegressor(1)):
            ranker = PseudoInverseRanker(model, assignment=assignment).fit(logs)
            shown = ranker.deterministic_slates(logs)
            np.testing.assert_array_equal(
                (shown >= 0), np.arange(3) < n_candidates[:, None]
            )
            assert (shown < n_candidates[:, None]).all()
            repeated = (shown[:, :, None] == shown[:, None]) & (shown >= 0)[:, None]
            assert (repeated.sum(axis=(1, 2)) == (shown >= 0).sum(axis=1)).all()


class Recorder(Ridge):
    """Keeps what it was fitted on."""

    def fit(self, X, y, sample_weight=None):
        self.seen_ = X, y, sample_weight
        return super().fit(X, y, sample_weight)


def test_rows_of_the_regression():
    """(features, slot) of all who can be shown, each query weighing the same."""
    logs = SlateLogs(
        np.zeros((4, 1)),
        [[0, 1], [1, 0], [0, 1], [2, 1]],
        [1.0, 0.0, 2.0, 1.0],
        n_candidates=[2, 2, 3, 3],
        item_features=[[5.0], [6.0], [7.0]],
        logging_policy=UniformSlatePolicy(2),
    )
    X, y, weight = PseudoInverseRanker(Recorder()).fit(logs).reward_model_.seen_
    rows = {(f, s, round(w, 12)) for f, s, w in zip(*X.T, weight, strict=True)}
    assert len(X) == len(y) == 10
    small, large = 10 / 2 / 4, 10 / 2 / 6
    assert rows == {
        (f, s, round(w, 12))
        for w, items in ((small, (5, 6)), (large, (5, 6, 7)))
        for f in items
        for s in (0, 1)
    }
    even = PseudoInverseRanker(Recorder()).fit(logs[:2]).reward_model_.seen_[2]
    assert even is None


def test_linear_regressors_need_products():
    values = np.outer([1.0, 0.2, 0.6], [1.0, 2.0, 3.0, 4.0])
    logs, _ = given_values(values)
    plain = PseudoInverseRanker(Ridge(1e-9)).fit(logs).slot_values(logs)[0]
    np.testing.assert_allclose(plain[0] - plain[1], 0.0, rtol=0, atol=1e-12)
    products = PolynomialFeatures((1, 3))
    model = make_pipeline(products, StandardScaler(), Ridge(1e-9))
    best = PseudoInverseRanker(model).fit(logs).deterministic_slates(logs)
    np.testing.assert_array_equal(best[0], [3, 1, 2])


@pytest.mark.filterwarnings("ignore:scores of .* rest on few effective rounds")
def test_nested_parameters_and_search():
    """A search over depths, scored on queries that the ranker has not seen."""
    world = make_world(n_queries=30, n_documents=6)
    logs = world.draw(3000, random_state=0)
    ranker = PseudoInverseRanker(DecisionTreeRegressor(random_state=0))
    grid = {"reward_model__max_depth": [1, 6], "assignment": ["optimal"]}
    search = GridSearchCV(
        ranker,
        grid,
        scoring=PolicyScorer(PseudoInverse(self_normalized=True)),
        cv=GroupKFold(3),
        error_score="raise",
    )
    search.fit(logs, groups=logs.columns["query"])
    known = [
        world.value(clone(ranker).set_params(**params).fit(logs))
        for params in search.cv_results_["params"]
    ]
    assert known[1] > known[0]
    assert search.best_params_ == {
        "reward_model__max_depth": 6,
        "assignment": "optimal",
    }
    assert search.best_estimator_.n_rounds_ == 3000
    # a search that has found a policy is one
    others = world.draw(500, random_state=1)
    evaluator = PseudoInverse().fit(others)
    with pytest.warns(LowOverlapWarning, match="effective rounds"):
        values = [evaluator.score(one) for one in (search, search.best_estimator_)]
    assert values[0] == values[1]
    assert world.value(search) == world.value(search.best_estimator_)
    assert not hasattr(clone(search.best_estimator_), "reward_model_")


def test_bad_input():
    world = make_world(n_queries=3)
    logs = world.draw(20, random_state=0)
    ranker = PseudoInverseRanker(Ridge())
    with pytest.raises(NotFittedError):
        ranker.deterministic_slates(logs)
    for wrong in (np.zeros((3, 2)), [[0, 1]], 7):
        with pytest.raises(TypeError, match="act on SlateLogs"):
            ranker.fit(wrong)
    with pytest.raises(ValueError, match="logs are empty"):
        ranker.fit([])
    with pytest.raises(ValueError, match="logs are empty"):
        ranker.fit(logs[:0])
    with pytest.raises(ValueError, match="'assignment' parameter"):
        PseudoInverseRanker(Ridge(), assignment="best").fit(logs)
    with pytest.raises(TypeError, match="PolicyScorer"):
        ranker.fit(logs).score(logs)
    with pytest.raises(TypeError, match="act on SlateLogs"):
        ranker.deterministic_slates(world.grades)
    other = make_world(n_queries=3, n_slots=2).draw(5, random_state=0)
    with pytest.raises(ValueError, match="fills 3"):
        ranker.slate_proba(other)
