# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What `ClassifierPolicy` and learned policies share; the rest is in their tests."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from skope_ope import BanditLogs, ClassifierPolicy
from skope_ope.logs._validation import class_targets
from skope_ope.policies import _base
from skope_ope.policies._base import soften
from skope_ope.policies._classifier_actor import (
    ClassifierActor,
    probabilities_of,
    refuse_to_score,
)

RNG = np.random.RandomState(0)
X = RNG.normal(size=(30, 2))
LOGS = BanditLogs(X, [*"abc"] * 10, np.zeros(30), actions=[*"cbaz"])
ROWS, CODES = RNG.randint(30, size=50), RNG.randint(3, size=50)
WEIGHT = RNG.random_sample(50)


class Told(ClassifierActor):
    """Learns the examples that it is told."""

    def __init__(self, classifier=None, *, epsilon=0.0, temperature=None):
        self.classifier = classifier
        self.epsilon = epsilon
        self.temperature = temperature

    def fit(self, logs, y=None):
        self._learn(logs, ROWS, CODES, WEIGHT)
        return self


def test_it_learns_examples_of_any_action_for_any_row():
    policy = Told(GaussianNB(), temperature=1.0).fit(LOGS)
    labels = LOGS.actions[CODES]
    by_hand = GaussianNB().fit(X[ROWS], labels, sample_weight=WEIGHT).predict_proba(X)
    proba = policy.predict_proba(X)
    assert_allclose(proba[:, [2, 1, 0]], by_hand)  # a, b, c
    assert_array_equal(proba[:, 3], 0)
    assert policy.n_features_in_ == 2


def test_a_cold_softmax_takes_the_best_of_what_is_offered():
    """Also where the probability of all that is offered would round to 0."""
    policy = Told(LogisticRegression(), temperature=1e-9).fit(LOGS)
    warm = Told(LogisticRegression(), temperature=1.0).fit(LOGS).predict_proba(X)
    offered = np.ones((30, 4), dtype=bool)
    offered[np.arange(30), warm.argmax(axis=1)] = False
    best = np.where(offered, warm, -1).argmax(axis=1)
    assert_allclose(policy.predict_proba(X, offered), np.eye(4)[best], atol=1e-9)
    greedy = Told(LogisticRegression()).fit(LOGS).predict_proba(X, offered)
    assert_array_equal(greedy, np.eye(4)[best])


def test_what_was_never_learned_is_the_last_resort():
    labels = [*"cbazy"]
    logs = BanditLogs(X, LOGS.action, LOGS.reward, actions=labels)
    offered = np.array([[0, 0, 0, 1, 1], [1, 0, 0, 1, 1]], dtype=bool)
    soft = Told(GaussianNB(), temperature=1.0).fit(logs)
    expected = [[0, 0, 0, 0.5, 0.5], [1, 0, 0, 0, 0]]
    assert_allclose(soft.predict_proba(X[:2], offered), expected)
    greedy = Told(GaussianNB()).fit(logs).predict_proba(X[:2], offered)
    assert_array_equal(greedy, [[0, 0, 0, 1, 0], [1, 0, 0, 0, 0]])


def test_targets_are_labels_or_codes():
    y, are_codes = class_targets(LOGS, np.array([3, 0, 0]))
    assert (y.tolist(), are_codes) == ([*"zcc"], False)
    fractions = BanditLogs(X[:2], [0.5, 1.5], [0, 0])
    y, are_codes = class_targets(fractions, np.array([1, 0, 0]))
    assert (y.tolist(), are_codes) == ([1, 0, 0], True)
    assert class_targets(fractions)[0].tolist() == [0, 1]


def test_softmax_of_the_rows():
    scores = np.log([[0.1, 0.3, 0.6], [0.2, 0.2, 0.6]])
    assert_allclose(soften(scores, 1.0), np.exp(scores))
    assert_allclose(soften(scores + 1000, 1.0), np.exp(scores))
    scores[0, 2] = -np.inf
    assert_allclose(soften(scores, 0.5)[0], [0.1, 0.9, 0])
    assert_allclose(soften(scores, 1e-310)[0], [0, 1, 0])
    assert_allclose(soften(scores, 1e300), [[0.5, 0.5, 0], [1 / 3] * 3])


@pytest.mark.parametrize("temperature", [1e-310, 0.5, 1.0, 1e300])
def test_soften_what_is_offered(temperature):
    # the last row's only offers have no score; what is best may not be offered
    scores = np.array([[0.0, 900.0, 1.0], [3.0, 2.0, -np.inf], [5.0, -np.inf, -np.inf]])
    available = np.array([[1, 0, 1], [1, 1, 1], [0, 1, 1]], dtype=bool)
    found = soften(scores, temperature, available)
    masked = np.where(available, scores, -np.inf)
    masked[2] = [-np.inf, 0.0, 0.0]
    assert_allclose(found, soften(masked, temperature), rtol=1e-15)
    assert (found[~available] == 0).all()


def test_probabilities_of_a_classifier():
    classifier = LogisticRegression().fit(X, [*"abc"] * 10)
    expected = classifier.predict_proba(X)
    assert_array_equal(probabilities_of(classifier, X, 0.5), expected)
    with pytest.raises(ValueError, match=r"temperature=0.5 needs predict_proba, which"):
        probabilities_of(LinearSVC().fit(X, [*"abc"] * 10), X, 0.5)


class Counting(GaussianNB):
    """Counts the rows that it was asked for."""

    rows = ()

    def predict(self, X):
        self.rows = (*self.rows, len(X))
        return super().predict(X)

    def predict_proba(self, X):
        self.rows = (*self.rows, len(X))
        return super().predict_proba(X)


@pytest.mark.parametrize("temperature", [None, 0.5])
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
@pytest.mark.parametrize("offers", [False, True])
def test_blocks_change_nothing(monkeypatch, temperature, epsilon, offers):
    available = np.ones((30, 4), dtype=bool)
    available[::3, 0] = available[1::3, 2] = available[5, :3] = False
    available = available if offers else None
    policy = Told(Counting(), epsilon=epsilon, temperature=temperature).fit(LOGS)
    expected = policy.predict_proba(X, available)
    monkeypatch.setattr(_base, "BLOCK_ENTRIES", 28)  # seven rounds
    policy.classifier_.rows = ()
    found = policy.predict_proba(X, available)
    assert_allclose(found, expected, rtol=1e-14, atol=0)
    # all at once: a call of a classifier is not free
    assert policy.classifier_.rows[0] == 30
    assert len(policy.classifier_.rows) == 1 + (offers and temperature is None)


def test_the_row_without_offers_is_one_of_the_logs(monkeypatch):
    monkeypatch.setattr(_base, "BLOCK_ENTRIES", 28)
    available = np.ones((30, 4), dtype=bool)
    available[17] = available[23] = False
    for temperature in (None, 0.5):
        policy = Told(GaussianNB(), temperature=temperature).fit(LOGS)
        with pytest.raises(ValueError, match=r"at row 17 \(2 such rows\)"):
            policy.predict_proba(X, available)


def test_classifiers_may_give_frames():
    pd = pytest.importorskip("pandas")

    class Framed(GaussianNB):
        def predict_proba(self, X):
            return pd.DataFrame(super().predict_proba(X))

    labels, offered = LOGS.actions[CODES], np.ones((len(X), 3), dtype=bool)
    for available in (None, offered):
        found, expected = (
            ClassifierPolicy(one, temperature=2.0)
            .fit(X[ROWS], labels)
            .predict_proba(X, available=available)
            for one in (Framed(), GaussianNB())
        )
        assert_array_equal(found, expected)


def test_the_refusal_names_the_scorer():
    with pytest.raises(TypeError, match=r"scoring=PolicyScorer\(evaluator\)"):
        refuse_to_score()
