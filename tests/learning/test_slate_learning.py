# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rankings learned from the rewards of whole slates, inside of what logs can tell."""

from itertools import permutations, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin, clone
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
from skope_ope.exceptions import LearnedRoundsWarning, LowOverlapWarning, SupportWarning
from skope_ope.policies import EmpiricalSlatePolicy, ProductSlatePolicy
from tests.policies._slate_worlds import rounds


def make_world(n_queries=40, n_slots=3, seed=0, metric="ndcg", n_documents=8):
    """Queries whose grades follow from two features, with a useless third one."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n_queries * n_documents, 3))
    score = X[:, 0] + X[:, 1] ** 2 - 1
    grades = np.digitize(score, [0.0, 1.0, 2.0])
    qid = np.repeat(np.arange(n_queries), n_documents)
    return RankingWorld(X, grades, qid, n_slots=n_slots, metric=metric)


def log_of(slates, phi, logger, **fields):
    """Every slate once, with the sum of phi as its reward."""
    slates = np.asarray(slates)
    n_slots, m = phi.shape
    reward = phi[np.arange(n_slots), slates].sum(axis=1)
    fields |= {"item_features": np.arange(m)[:, None], "n_candidates": m}
    given = np.zeros((len(slates), 1)), slates, reward
    return SlateLogs(*given, logging_policy=logger, **fields)


def given_values(values):
    """Logs and a ranker that predicts the values of (slot, candidate) exactly."""
    slates = [*permutations(range(values.shape[1]), len(values))]
    return log_of(slates, values, UniformSlatePolicy(len(values))), by_heart()


def test_finds_the_best_slate_of_an_enumerated_world(global_random_seed):
    """All slates once are the expectation: the predictions tell their values."""
    rng = np.random.RandomState(global_random_seed)
    for shape in ((2, 3), (3, 4), (3, 3), (1, 4)):
        logs, ranker = given_values(rng.normal(size=shape))
        ranker.fit(logs)
        values = ranker.slot_values(logs)
        slots = np.arange(shape[0])
        found = values[0, slots, logs.slate].sum(axis=1)
        assert_allclose(found, logs.reward, rtol=0, atol=1e-12)
        best = logs.slate[logs.reward.argmax()]
        assert_array_equal(ranker.deterministic_slates(logs)[0], best)
    assert ranker.n_queries_ == 1
    assert ranker.n_rounds_ == 4


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
    assert_array_equal(
        batch.slot_values(world.queries), streamed.slot_values(world.queries)
    )
    # one batch of all rows: sums in another order
    context, slate, reward, item_id = (
        np.concatenate([getattr(part, field) for part in stream])
        for field in ("context", "slate", "reward", "item_id")
    )
    fields = {"item_features": world.queries.item_features, "item_id": item_id}
    fields |= {"n_candidates": 8, "logging_policy": UniformSlatePolicy(3)}
    one, many = (
        PseudoInverseRanker(Ridge()).fit(logs).slot_values(world.queries)
        for logs in (SlateLogs(context, slate, reward, **fields), stream)
    )
    assert_allclose(one, many, rtol=0, atol=1e-12)


def test_rankers_of_given_values():
    """What a weighted logger tells has the same mean."""
    logs, ranker = given_values(np.array([[0.3, 0.1, 0.6], [0.2, 0.9, 0.1]]))
    logger = PlackettLuceSlatePolicy([3.0, 2.0, 1.0], 2)
    mass = logger.slate_proba(logs)
    weighted = logs[np.repeat(np.arange(6), np.round(mass * 60).astype(int))]
    assert_allclose(mass * 60, np.round(mass * 60), rtol=0, atol=1e-12)
    ranker.fit(weighted.replace(logging_policy=logger))
    found = ranker.slot_values(logs)[0, [0, 1], logs.slate].sum(axis=1)
    assert_allclose(found, logs.reward, rtol=0, atol=1e-12)
    # linear regressors need products
    values = np.outer([1.0, 0.2, 0.6], [1.0, 2.0, 3.0, 4.0])
    logs, _ = given_values(values)
    plain = PseudoInverseRanker(Ridge(1e-9)).fit(logs).slot_values(logs)[0]
    assert_allclose(plain[0] - plain[1], 0.0, rtol=0, atol=1e-12)
    products = PolynomialFeatures((1, 3))
    model = make_pipeline(products, StandardScaler(), Ridge(1e-9))
    best = PseudoInverseRanker(model).fit(logs).deterministic_slates(logs)
    assert_array_equal(best[0], [3, 1, 2])
    # greedy ranker
    # slots with equal sums: a constant of a slot, which the logs cannot tell, would
    # move the greedy choice
    values = np.array([[1.0, 0.9, -1.15], [0.75, 0.0, 0.0]])
    logs, ranker = given_values(values)
    for assignment, total in (("optimal", 1.65), ("greedy", 1.0)):
        ranker.set_params(assignment=assignment).fit(logs)
        shown = ranker.deterministic_slates(logs)[0]
        assert values[[0, 1], shown].sum() == pytest.approx(total, abs=1e-12)


def test_is_a_slate_policy(global_random_seed):
    world = make_world(seed=global_random_seed)
    logs = world.draw(3000, random_state=0)
    ranker = PseudoInverseRanker(DecisionTreeRegressor(max_depth=5)).fit(logs)
    slates = ranker.deterministic_slates(logs)
    assert_array_equal(ranker.sample(logs, 0), slates)
    marginals = ranker.slot_marginals(logs)
    assert_array_equal(marginals.sum(axis=2), 1.0)
    assert_array_equal(np.take_along_axis(marginals, slates[:, :, None], axis=2), 1.0)
    same = (slates == logs.slate).all(axis=1)
    assert_array_equal(ranker.slate_proba(logs), same)
    assert_array_equal(ranker.slate_proba(logs, slates), 1.0)
    # the slate of a query does not depend on the other rounds
    assert_array_equal(ranker.deterministic_slates(logs[:7]), slates[:7])


def test_fewer_candidates_than_slots(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    n_candidates = np.repeat([1, 2, 3, 4], 50)
    slates = UniformSlatePolicy(3).sample(rounds(200, 3, n_candidates), rng)
    fields = {"n_candidates": n_candidates, "logging_policy": UniformSlatePolicy(3)}
    given = np.zeros((200, 1)), slates, rng.normal(size=200)
    logs = SlateLogs(*given, item_features=np.arange(4)[:, None], **fields)
    models = DecisionTreeRegressor(), KNeighborsRegressor(1)
    for assignment, model in product(("optimal", "greedy"), models):
        ranker = PseudoInverseRanker(model, assignment=assignment).fit(logs)
        shown = ranker.deterministic_slates(logs)
        filled = np.arange(3) < n_candidates[:, None]
        assert_array_equal((shown >= 0), filled)
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
    slates = [[0, 1], [1, 0], [0, 1], [2, 1]]
    fields = {"n_candidates": [2, 2, 3, 3], "item_features": [[5.0], [6.0], [7.0]]}
    given = np.zeros((4, 1)), slates, [1.0, 0.0, 2.0, 1.0]
    logs = SlateLogs(*given, logging_policy=UniformSlatePolicy(2), **fields)
    X, y, weight = PseudoInverseRanker(Recorder()).fit(logs).reward_model_.seen_
    rows = {(f, s, round(w, 12)) for f, s, w in zip(*X.T, weight, strict=True)}
    assert len(X) == len(y) == 10
    small, large = 10 / 2 / 4, 10 / 2 / 6
    assert rows == {
        (f, s, round(w, 12))
        for w, items in ((small, (5, 6)), (large, (5, 6, 7)))
        for f, s in product(items, (0, 1))
    }
    even = PseudoInverseRanker(Recorder()).fit(logs[:2]).reward_model_.seen_[2]
    assert even is None


@pytest.mark.filterwarnings("ignore:scores of .* rest on few effective rounds")
def test_nested_parameters_and_search():
    """A search over depths, scored on queries that the ranker has not seen."""
    world = make_world(n_queries=30, n_documents=6)
    logs = world.draw(3000, random_state=0)
    ranker = PseudoInverseRanker(DecisionTreeRegressor(random_state=0))
    grid = {"reward_model__max_depth": [1, 6], "assignment": ["optimal"]}
    scoring = PolicyScorer(PseudoInverse(self_normalized=True))
    how = {"scoring": scoring, "cv": GroupKFold(3), "error_score": "raise"}
    search = GridSearchCV(ranker, grid, **how)
    search.fit(logs, groups=logs.columns["query"])
    known = [
        world.value(clone(ranker).set_params(**params).fit(logs))
        for params in search.cv_results_["params"]
    ]
    assert known[1] > known[0]
    best = search.best_estimator_
    assert search.best_params_ == {name: grid[name][-1] for name in grid}
    assert best.n_rounds_ == 3000
    # a search that has found a policy is one
    evaluator = PseudoInverse().fit(world.draw(500, random_state=1))
    with pytest.warns(LowOverlapWarning, match="effective rounds"):
        values = [evaluator.score(one) for one in (search, best)]
    assert values[0] == values[1]
    assert world.value(search) == world.value(best)
    assert not hasattr(clone(best), "reward_model_")


def test_bad_input():
    world = make_world(n_queries=3)
    logs = world.draw(20, random_state=0)
    ranker, best = (
        PseudoInverseRanker(Ridge(), assignment=how) for how in ("optimal", "best")
    )
    with pytest.raises(NotFittedError):
        ranker.deterministic_slates(logs)
    fitted = clone(ranker).fit(logs)
    other = make_world(n_queries=3, n_slots=2).draw(5, random_state=0)
    for call, given, error, message in (
        (ranker.fit, np.ones((3, 2)), TypeError, "act on SlateLogs"),
        (ranker.fit, [[0, 1]], TypeError, "act on SlateLogs"),
        (ranker.fit, 7, TypeError, "act on SlateLogs"),
        (ranker.fit, [], ValueError, "logs are empty"),
        (ranker.fit, logs[:0], ValueError, "logs are empty"),
        (best.fit, logs, ValueError, "'assignment' parameter"),
        (lambda logs: fitted.score(logs), logs, AttributeError, "PolicyScorer"),
        (fitted.deterministic_slates, world.grades, TypeError, "act on SlateLogs"),
        (fitted.slate_proba, other, ValueError, "fills 3"),
    ):
        with pytest.raises(error, match=message):
            call(given)


# Slates whose value the logs can tell


def by_heart(**parameters):
    return PseudoInverseRanker(DecisionTreeRegressor(), **parameters)


class Believes(RegressorMixin, BaseEstimator):
    """Predicts a table of (slot, candidate), whatever was logged."""

    def __init__(self, table=None):
        self.table = table

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        candidate, slot = X.astype(int).T
        return np.asarray(self.table)[slot, candidate]


def test_a_logger_that_repeats_lets_the_ranker_repeat(global_random_seed):
    """The best slate of a product logger is found: nothing is lost."""
    rng = np.random.RandomState(global_random_seed)
    phi = rng.normal(size=(3, 4))
    phi[:, 2] += 5  # the best candidate of every slot
    logger = ProductSlatePolicy(np.full((3, 4), 0.25))
    logs = log_of([*product(range(4), repeat=3)], phi, logger)
    ranker = by_heart().fit(logs)
    assert ranker.repeats_
    assert ranker.outside_range_share_ == 0
    assert_array_equal(ranker.deterministic_slates(logs[:1]), [[2, 2, 2]])
    # in deployment, too
    bare = logs[:1].replace(logging_policy=None)
    assert_array_equal(ranker.deterministic_slates(bare), [[2, 2, 2]])
    rankings = log_of([[0, 1, 2], [3, 2, 1], [1, 0, 3]], phi, UniformSlatePolicy(3))
    assert not by_heart().fit(rankings).repeats_


def test_what_was_never_shown_does_not_compete():
    """A line through the candidates' numbers believes in the one never shown."""
    phi = np.array([[-2.0, -1.0, -9.0]])
    slates = [[0], [1]]
    logs = log_of(slates, phi, EmpiricalSlatePolicy(slates))
    ranker = PseudoInverseRanker(Ridge(alpha=1e-6)).fit(logs)
    assert ranker.outside_range_share_ == 1
    assert_array_equal(ranker.deterministic_slates(logs), [[1], [1]])
    with pytest.warns(LearnedRoundsWarning):
        value = PseudoInverse().fit(logs).evaluate(ranker)
    assert value.diagnostics["outside_range_share"] == 0
    with pytest.warns(SupportWarning, match=r"100\.0% of the queries of fit") as caught:
        ranker.deterministic_slates(logs.replace(logging_policy=None))
    assert caught[0].message.value == 1
    assert caught[0].filename == __file__
    with pytest.warns(SupportWarning, match="outside_range='avoid'") as caught:
        trusting = PseudoInverseRanker(Ridge(alpha=1e-6), outside_range="allow")
        trusting.fit(logs)
    assert caught[0].filename == __file__
    assert_array_equal(trusting.deterministic_slates(logs), [[2], [2]])
    # candidates that were never together are not put together
    phi = np.array([[3.0, 0, 1, 0], [0, 1.0, 0, 2]])
    slates = [[0, 1], [2, 3]]
    logs = log_of(slates, phi, EmpiricalSlatePolicy(slates))
    ranker = PseudoInverseRanker(Believes(phi)).fit(logs)
    # 0 before 3 is the best of what is believed, but no reward tells its value
    assert ranker.outside_range_share_ == 1
    assert_array_equal(ranker.deterministic_slates(logs), [[0, 1]] * 2)


@pytest.mark.thorough
def test_the_slate_shown_is_inside_and_not_worse_than_any_logged(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    n_outside, m, n_slots = 0, 5, 3
    for _ in range(30):
        phi = rng.normal(size=(n_slots, m))
        slates = rng.randint(m, size=(rng.randint(2, 9), n_slots))
        if rng.random_sample() < 0.7:  # without repetition
            slates = np.array([rng.permutation(m)[:n_slots] for _ in slates])
        slates = np.unique(slates, axis=0)
        logs = log_of(slates, phi, EmpiricalSlatePolicy(slates))
        ranker = by_heart().fit(logs)
        shown = ranker.deterministic_slates(logs)[0]
        indicators = np.eye(m)[slates].reshape(len(slates), -1)
        gamma = indicators.T @ indicators / len(slates)
        wanted = np.eye(m)[shown].ravel()
        rest = wanted - gamma @ np.linalg.pinv(gamma) @ wanted
        assert np.abs(rest).max() < 1e-8
        value = phi[np.arange(n_slots), shown].sum()
        assert value >= (indicators @ phi.ravel()).max() - 1e-9
        n_outside += ranker.outside_range_share_ > 0
    assert n_outside > 5  # else nothing was tried


def test_the_share_is_that_of_queries(global_random_seed):
    """Two queries, one of them with a logger that never shows candidate 2."""
    phi = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
    slates = np.array([[0, 1], [1, 0], [0, 2], [2, 0], [1, 2], [2, 1]])
    logger = EmpiricalSlatePolicy(
        {0: slates[:2], 1: slates}, by=lambda logs: logs.context[:, 0].astype(int)
    )
    context = np.repeat([[0.0], [1.0]], 6, axis=0)
    shown = np.concatenate([slates[[0, 1, 0, 1, 0, 1]], slates])
    features = np.broadcast_to(np.arange(3.0)[:, None], (12, 3, 1)).copy()
    features[6:] += 10
    given = context, shown, phi[[0, 1], shown].sum(axis=1)
    logs = SlateLogs(*given, item_features=features, logging_policy=logger)
    ranker = PseudoInverseRanker(Ridge(alpha=1e-6)).fit(logs)
    assert ranker.outside_range_share_ == 0.5
    found = ranker.deterministic_slates(logs)
    assert (found[:6] < 2).all()
    assert (found[6:] == 2).any(axis=1).all()
