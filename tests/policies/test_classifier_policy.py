# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
import re
import warnings

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skope_ope import IPS, BanditLogs, ClassifierPolicy, evaluate
from skope_ope.policies import action_probabilities
from tests._frames import frame_of

RNG = np.random.RandomState(0)
X = RNG.normal(size=(120, 3))
CODE = (X @ RNG.normal(size=(3, 3)) + RNG.normal(size=(120, 3))).argmax(axis=1)
ACTION = np.array(list("abc"))[CODE]
REWARD = np.where(RNG.random_sample(120) < 0.5, 0, RNG.random_sample(120))
PROPENSITY = RNG.uniform(0.1, 1, size=120)
GOOD = REWARD > 0


def logs_of(reward=REWARD, propensity=PROPENSITY, context=X, action=ACTION, **fields):
    return BanditLogs(context, action, reward, propensity, **fields)


class OnlyPredicts(ClassifierMixin, BaseEstimator):
    """Always says the last label; knows no probabilities."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[-1])


class Rigged(OnlyPredicts):
    """Probabilities as they stand in the contexts."""

    def predict_proba(self, X):
        return np.asarray(X)

    def predict(self, X):
        return self.classes_[np.asarray(X).argmax(axis=1)]


# -- acting ----------------------------------------------------------------------


def test_greedy_epsilon_and_temperature():
    for classifier in (LogisticRegression(), KNeighborsClassifier(), LinearSVC()):
        policy = ClassifierPolicy(classifier).fit(X, ACTION)
        predicted = clone(classifier).fit(X, ACTION).predict(X)
        proba = policy.predict_proba(X)
        assert_array_equal(proba, predicted[:, None] == policy.classes_)
        assert_array_equal(policy.predict(X), predicted)
        assert policy.score(X, ACTION) == np.mean(predicted == ACTION)
    # epsilon is spread over all actions
    policy = ClassifierPolicy(epsilon=0.3).fit(X, ACTION)
    greedy = ClassifierPolicy().fit(X, ACTION).predict_proba(X)
    assert_allclose(policy.predict_proba(X), 0.7 * greedy + 0.1)
    always = ClassifierPolicy(epsilon=1).fit(X, ACTION)
    assert_allclose(always.predict_proba(X), 1 / 3)
    # a temperature is a softmax of log-probabilities
    inner = LogisticRegression().fit(X, ACTION).predict_proba(X)
    for temperature in (0.25, 1, 3.0):
        policy = ClassifierPolicy(LogisticRegression(), epsilon=0.3)
        policy.set_params(temperature=temperature).fit(X, ACTION)
        power = inner ** (1 / temperature)
        expected = power / power.sum(axis=1, keepdims=True)
        assert_allclose(policy.predict_proba(X), 0.7 * expected + 0.1)


def test_temperatures_ties_and_offers():
    proba = np.array([[0.5, 0.3, 0.2], [0.0, 1.0, 0.0], [0.4, 0.2, 0.4]])
    for temperature, expected in (
        (1e-310, [[1, 0, 0], [0, 1, 0], [0.5, 0, 0.5]]),
        (1e-3, [[1, 0, 0], [0, 1, 0], [0.5, 0, 0.5]]),
        (1.0, proba),
        (1e300, [[1 / 3] * 3, [0, 1, 0], [1 / 3] * 3]),
    ):
        policy = ClassifierPolicy(Rigged(), temperature=temperature)
        policy.fit(np.eye(3), [0, 1, 2])
        assert_allclose(policy.predict_proba(proba), expected, atol=1e-12)
    # ties go to the lowest index
    policy = ClassifierPolicy(Rigged(), epsilon=0.3).fit(np.eye(3), ["a", "b", "c"])
    ties = np.array([[0.2, 0.4, 0.4], [1 / 3] * 3, [0.4, 0.4 - 1e-14, 0.2]])
    assert policy.predict(ties).tolist() == ["b", "a", "a"]
    offered = np.array([[True, False, True], [False, True, True], [False, True, True]])
    proba = policy.predict_proba(ties, offered)
    assert proba.argmax(axis=1).tolist() == [2, 1, 1]
    # argmax and exploration run over what is offered
    proba = np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
    offered = np.array([[False, True, True], [True, False, True]])
    policy = ClassifierPolicy(Rigged(), epsilon=0.2).fit(np.eye(3), [0, 1, 2])
    found = policy.predict_proba(proba, offered)
    assert_allclose(found, [[0, 0.9, 0.1], [0.9, 0, 0.1]])
    policy.set_params(temperature=1).fit(np.eye(3), [0, 1, 2])
    expected = [[0, 0.48, 0.32], [0.8 * 5 / 7, 0, 0.8 * 2 / 7]]
    assert_allclose(policy.predict_proba(proba, offered), expected + 0.1 * offered)


def test_offering_everything_changes_nothing():
    for classifier in (LogisticRegression(), LinearSVC(), NearestCentroid()):
        for labels in (ACTION, CODE % 2):
            policy = ClassifierPolicy(classifier, epsilon=0.1).fit(X, labels)
            offered = np.ones((120, len(policy.classes_)), dtype=bool)
            found = policy.predict_proba(X, offered)
            assert_array_equal(found, policy.predict_proba(X))
    # the best of two classes by a decision function
    policy = ClassifierPolicy(LinearSVC()).fit(X, CODE % 2)
    for column in (0, 1):
        offered = np.tile(np.arange(2) == column, (120, 1))
        assert_array_equal(policy.predict_proba(X, offered), offered)


def test_predict_is_enough_where_the_prediction_is_offered():
    policy = ClassifierPolicy(OnlyPredicts(), epsilon=0.2).fit(X, ACTION)
    offered = np.array([[False, True, True]])
    assert_allclose(policy.predict_proba(X[:1], offered), [[0, 0.1, 0.9]])
    with pytest.raises(ValueError, match="neither predict_proba nor decision_function"):
        policy.predict_proba(X[:1], ~offered)
    with pytest.raises(ValueError, match=r"needs predict_proba.* Use temperature=None"):
        policy.set_params(temperature=1.0).predict_proba(X[:1])


class Decides(OnlyPredicts):
    """Decisions as they stand in the contexts."""

    def decision_function(self, X):
        return np.asarray(X)


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([0.1, 0.3, 0.2], 1),
        ([0.3, 0.1, 0.3], 0),  # the lowest index wins
        ([1.0, 1.0 + 1e-13, 0.0], 0),  # tied within 1e-12 of the maximum
        ([1.0, 1.0 + 1e-11, 0.0], 1),
        ([1e9, 1e9 * (1 + 1e-13), 0], 0),  # relative to it
        ([-1.0, -1.0 + 1e-13, -2.0], 0),
        ([-3.0, -1.0, -2.0], 1),
        ([-np.inf, -5.0, -np.inf], 1),
        ([-np.inf, -np.inf, 0.0], 2),
        ([0.0, 0.0, 0.0], 0),
    ],
)
def test_the_best_of_what_is_offered(scores, best):
    policy = ClassifierPolicy(Decides()).fit(np.eye(4), range(4))
    offered = np.array([[True, True, True, False]] * 2)
    proba = policy.predict_proba([[*scores, 1e12]] * 2, offered)
    assert_array_equal(proba, np.eye(4)[[best, best]])


def test_the_best_of_many():
    scores = RNG.normal(size=(200, 40))
    policy = ClassifierPolicy(Decides()).fit(np.eye(40), range(40))
    offered = RNG.random_sample((200, 40)) < 0.5
    offered[:, -1] = False  # what the classifier predicts
    found = policy.predict_proba(scores, offered).argmax(axis=1)
    assert_array_equal(found, np.where(offered, scores, -np.inf).argmax(axis=1))


@pytest.mark.parametrize("temperature", [1e-310, 1e-9, 0.5, 1.0, 1e300])
def test_a_softmax_of_what_is_offered(temperature):
    """Also where all that is offered would round to 0, or was never likely."""
    proba = np.array([[1e-300, 0.9, 0.1], [0.6, 0.4, 0.0], [1.0, 0.0, 0.0]])
    available = np.array([[1, 0, 1], [1, 1, 1], [0, 1, 1]], dtype=bool)
    policy = ClassifierPolicy(Rigged(), temperature=temperature)
    policy.fit(np.eye(3), [0, 1, 2])
    found = policy.predict_proba(proba, available)
    masked = np.where(available, proba, 0)
    masked[2] = [0, 0.5, 0.5]
    assert_allclose(found, policy.predict_proba(masked), rtol=1e-12)
    assert (found[~available] == 0).all()


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
@pytest.mark.parametrize("offers", [False, True])
def test_many_rounds_are_answered_in_blocks(temperature, offers):
    """Blocks of 2 ** 16 probabilities; the classifier is asked for all at once."""
    n, few = 50_000, slice(49_000, 50_000)
    rows = np.tile(X, (417, 1))[:n] + np.arange(n)[:, None] * 1e-5
    available = np.ones((n, 3), dtype=bool)
    available[::3, 0] = available[1::3, 2] = False
    policy = ClassifierPolicy(Counting(), epsilon=0.2, temperature=temperature)
    policy.fit(X, ACTION)
    found = policy.predict_proba(rows, available if offers else None)
    assert policy.classifier_.rows[0] == n
    assert len(policy.classifier_.rows) == 1 + (offers and temperature is None)
    alone = policy.predict_proba(rows[few], available[few] if offers else None)
    assert_allclose(found[few], alone, rtol=1e-14, atol=0)
    available[[43_017, 47_023]] = False
    with pytest.raises(ValueError, match=r"at row 43017 \(2 such rows\)"):
        policy.predict_proba(rows, available)


def test_classifiers_may_give_frames():
    pd = pytest.importorskip("pandas")

    class Framed(GaussianNB):
        def predict_proba(self, X):
            return pd.DataFrame(super().predict_proba(X))

    framed, plain = (
        ClassifierPolicy(one, temperature=2.0).fit(X, ACTION)
        for one in (Framed(), GaussianNB())
    )
    for offered in (None, np.ones((120, 3), dtype=bool)):
        expected = plain.predict_proba(X, available=offered)
        assert_array_equal(framed.predict_proba(X, available=offered), expected)


# -- learning from logs ----------------------------------------------------------


SCALED = make_pipeline(StandardScaler(), LogisticRegression())
TWICE = make_pipeline(StandardScaler(), SCALED)
WEIGHTED = {  # name of the fit parameter: classifier
    "sample_weight": LogisticRegression(),
    "logisticregression__sample_weight": SCALED,
    "pipeline__logisticregression__sample_weight": TWICE,
}
SAMPLE_WEIGHT = [
    GaussianNB(),
    RandomForestClassifier(5, random_state=0),
    GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
]


@pytest.mark.few_cases
@pytest.mark.parametrize(
    ("name", "classifier"),
    [*WEIGHTED.items(), *(("sample_weight", c) for c in SAMPLE_WEIGHT)],
    ids=str,
)
@pytest.mark.parametrize("routing", [False, True], ids=["", "routing"])
def test_fit_on_logs_is_a_weighted_fit(name, classifier, routing):
    weight = (REWARD / PROPENSITY)[GOOD]
    by_hand = clone(classifier).fit(X[GOOD], ACTION[GOOD], **{name: weight})
    with sklearn.config_context(enable_metadata_routing=routing):
        policy = ClassifierPolicy(classifier, temperature=1.0).fit(logs_of())
        assert_allclose(policy.predict_proba(X), by_hand.predict_proba(X), rtol=1e-9)
    assert policy.classifier_.classes_.tolist() == ["a", "b", "c"]


def test_weights_are_rewards_over_propensities_times_the_weights_of_the_logs():
    keep = 1.0 + np.arange(120) % 3
    for fields, weight in (
        ({"propensity": None}, REWARD),
        ({}, REWARD / PROPENSITY),
        ({"sample_weight": keep}, REWARD * keep / PROPENSITY),
        ({"sample_weight": keep - 1}, REWARD * (keep - 1) / PROPENSITY),
    ):
        policy = ClassifierPolicy(GaussianNB(), temperature=1.0).fit(logs_of(**fields))
        rows = weight > 0
        by_hand = GaussianNB().fit(X[rows], ACTION[rows], sample_weight=weight[rows])
        assert_allclose(policy.predict_proba(X), by_hand.predict_proba(X))


KNN = KNeighborsClassifier(3)
LDA = LinearDiscriminantAnalysis()


def test_classifiers_without_weights_are_resampled():
    logs = logs_of()
    weight = np.where(GOOD, REWARD / PROPENSITY, 0)
    rows = np.flatnonzero(weight > 0)
    p = weight[rows] / weight.sum()
    drawn = np.sort(np.random.RandomState(0).choice(rows, len(rows), p=p))
    for classifier in (KNN, make_pipeline(StandardScaler(), KNN), LDA):
        by_hand = clone(classifier).fit(X[drawn], ACTION[drawn]).predict_proba(X)
        for _ in range(2):
            policy = ClassifierPolicy(classifier, temperature=1.0).fit(logs)
            assert_allclose(policy.predict_proba(X), by_hand)
    # which may leave one action
    propensity = PROPENSITY.copy()
    propensity[np.flatnonzero(GOOD)[0]] = 1e-12
    policy = ClassifierPolicy(LDA).fit(logs_of(propensity=propensity))
    assert {*policy.predict(X)} == {ACTION[GOOD][0]}


def test_classes_are_the_actions_of_the_logs():
    logs = logs_of(actions=["z", "c", "b", "a"])
    policy = ClassifierPolicy(epsilon=0.4).fit(logs)
    assert policy.classes_.tolist() == ["z", "c", "b", "a"]
    proba = policy.predict_proba(X)
    assert_allclose(proba[:, 0], 0.1)
    assert_allclose(proba.max(axis=1), 0.7)
    assert_array_equal(action_probabilities(policy, logs), proba)
    offered = np.zeros((120, 4), dtype=bool)
    offered[:, 0] = True  # an action that was never learned
    assert_array_equal(policy.predict_proba(X, offered), offered)
    soft = ClassifierPolicy(temperature=1.0).fit(logs)
    assert_allclose(soft.predict_proba(X)[:, 0], 0)
    # actions that were learned come before others
    policy = ClassifierPolicy().fit(logs)
    best = policy.predict_proba(X).argmax(axis=1)
    offered = np.ones((120, 4), dtype=bool)
    offered[np.arange(120), best] = False  # all but the best, "z" among them
    second = policy.predict_proba(X, offered).argmax(axis=1)
    ranking = policy.classifier_.predict_proba(X)[:, ::-1].argsort(axis=1)
    assert_array_equal(second, ranking[:, 1] + 1)
    # of several that were never learned the first, or all alike
    logs = logs_of(actions=[*"zycba"])
    offered = np.array([[1, 1, 0, 0, 0]] * 120, dtype=bool)
    for temperature, share in ((None, [1, 0, 0, 0, 0]), (1.0, [0.5, 0.5, 0, 0, 0])):
        policy = ClassifierPolicy(temperature=temperature).fit(logs)
        assert_array_equal(policy.predict_proba(X, offered), [share] * 120)


def test_one_rewarded_action_is_always_taken():
    logs = logs_of(reward=np.where(ACTION == "b", REWARD, 0), actions=[*"cba"])
    for model, temperature in ((None, None), (None, 1.0), (KNN, None)):
        policy = ClassifierPolicy(model, epsilon=0.3, temperature=temperature).fit(logs)
        assert_allclose(policy.predict_proba(X), [[0.1, 0.8, 0.1]] * 120)
        assert {*policy.predict(X)} == {"b"}


NEGATIVE = logs_of(reward=np.where(np.arange(120) == 7, -2, REWARD))
NOTHING = [
    logs_of(reward=np.zeros(120)),
    logs_of(sample_weight=np.where(GOOD, 0.0, 1.0)),
    logs_of()[:0],
]


@pytest.mark.parametrize(
    ("classifier", "given", "error", "message"),
    [
        (None, [X], ValueError, r"ndarray is no BanditLogs.*from_frame"),
        (Ridge(), [X, CODE], TypeError, "Ridge is not a classifier"),
        (None, [logs_of(), ACTION[1:]], ValueError, "takes no y beside logs"),
        (None, [NEGATIVE], ValueError, r"reward -2 at row 7 is negative\. Use IPSPol"),
        *((None, [logs], ValueError, "has a positive reward") for logs in NOTHING),
    ],
)
def test_what_cannot_be_learned_from(classifier, given, error, message):
    with pytest.raises(error, match=message):
        ClassifierPolicy(classifier).fit(*given)


@pytest.mark.parametrize(
    "labels",
    [
        [3, -1, 9],
        [True, False, True],
        [1.0, 2.0, 3.0],
        [0.5, 1.5, 2.5],
        [b"x", b"y", b"z"],
        np.array([3, -1, 9], dtype=object),
        np.array(["x", "y", "z"], dtype=object),
    ],
    ids=str,
)
def test_labels_of_any_kind(labels):
    labels = np.asarray(labels)[CODE]
    logs = logs_of(action=labels)
    policy = ClassifierPolicy(epsilon=0.2).fit(logs)
    assert policy.classes_ is logs.actions
    by_text = logs_of(action=labels.astype(str), actions=logs.actions.astype(str))
    expected = ClassifierPolicy(epsilon=0.2).fit(by_text).predict_proba(X)
    assert_allclose(policy.predict_proba(X), expected)
    assert {*policy.predict(X).tolist()} <= {*labels.tolist()}
    offered = expected < 0.5  # the best one is not offered
    assert_allclose(policy.predict_proba(X, offered)[~offered], 0)


def test_sparse_contexts_and_frames():
    expected = ClassifierPolicy(epsilon=0.1).fit(logs_of()).predict_proba(X)
    logs = logs_of(context=sparse.csc_matrix(X))
    policy = ClassifierPolicy(epsilon=0.1).fit(logs)
    assert_allclose(policy.predict_proba(logs.context), expected)
    for library in ("pandas", "polars"):
        frame = frame_of(library, {name: X[:, j] for j, name in enumerate("uvw")})
        logs = logs_of(context=frame)
        policy = ClassifierPolicy(epsilon=0.1).fit(logs)
        assert policy.feature_names_in_.tolist() == ["u", "v", "w"]
        assert_allclose(action_probabilities(policy, logs), expected)
        assert not hasattr(policy.fit(logs_of()), "feature_names_in_")


# -- the estimator ---------------------------------------------------------------


def test_scores_and_parameters_that_are_refused():
    policy = ClassifierPolicy().fit(X, ACTION)
    with pytest.raises(TypeError, match=r"scoring=PolicyScorer\(evaluator\)"):
        policy.score(logs_of())
    with pytest.raises(NotFittedError):
        ClassifierPolicy().score(X, ACTION)
    for method in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(ClassifierPolicy(), method)(X)
    # bad parameters are refused
    bad = {"epsilon": (1.5, -0.1, "a"), "temperature": (0, np.inf), "classifier": (3,)}
    for name, values in bad.items():
        for value in values:
            policy = ClassifierPolicy(**{name: value})
            with pytest.raises(ValueError, match=f"The '{name}' parameter of Classif"):
                policy.fit(X, ACTION)


def test_clone_unfits_and_nested_parameters_work():
    policy = ClassifierPolicy(LogisticRegression(C=3), epsilon=0.2).fit(X, ACTION)
    other = clone(policy)
    assert not hasattr(other, "classes_")
    assert other.get_params()["classifier__C"] == 3
    other.set_params(classifier__C=7, epsilon=0)
    assert policy.get_params()["classifier__C"] == 3
    assert other.fit(X, ACTION).classifier_.C == 7
    assert other.classifier is not other.classifier_
    frozen = clone(FrozenEstimator(policy))
    assert_array_equal(frozen.predict_proba(X), policy.predict_proba(X))

    def scorer(policy, logs, y=None):
        assert isinstance(logs, BanditLogs)
        return -abs(policy.epsilon - 0.2)

    grid = {"epsilon": [0.1, 0.2], "classifier__C": [0.1, 1.0]}
    search = GridSearchCV(policy, grid, scoring=scorer, cv=3).fit(logs_of())
    assert search.best_params_["epsilon"] == 0.2
    assert search.best_estimator_.classes_.tolist() == ["a", "b", "c"]
    # pickles act the same and logs stay as they are
    logs = logs_of(action=CODE / 2)
    before = pickle.dumps([logs.context, logs.action, logs.reward])
    policy = ClassifierPolicy(epsilon=0.1, temperature=0.5).fit(logs)
    other = pickle.loads(pickle.dumps(policy))
    assert_array_equal(other.predict_proba(X), policy.predict_proba(logs.context))
    assert pickle.dumps([logs.context, logs.action, logs.reward]) == before


# -- the model that is deployed, as it is ----------------------------------------------


@pytest.mark.parametrize(
    "wrap", [lambda c: c, lambda c: make_pipeline(StandardScaler(), c)]
)
def test_the_refusal_of_a_fitted_classifier_names_the_way_to_keep_it(wrap):
    clf = wrap(LogisticRegression()).fit(X, ACTION)
    with pytest.raises(TypeError, match="is a classifier, not a policy") as refusal:
        evaluate(clf, logs_of())
    text = str(refusal.value)
    again, as_it_is = re.findall(r"ClassifierPolicy\(.*?\.fit\(logs\)", text)
    frozen_import = re.search(r"from sklearn\.frozen import FrozenEstimator", text)
    names = {"ClassifierPolicy": ClassifierPolicy, "clf": clf, "logs": logs_of()}
    exec(frozen_import.group(), names)
    policy = eval(as_it_is, names)
    assert again.startswith("ClassifierPolicy(") and "Frozen" not in again
    assert_array_equal(policy.predict(X), clf.predict(X))
    with warnings.catch_warnings():  # it has learned from none of these rounds
        warnings.simplefilter("error")
        found = IPS().fit(logs_of()).score(policy)
    proba = (clf.predict(X) == ACTION).astype(float)
    assert found == pytest.approx(np.mean(proba / PROPENSITY * REWARD))
    with pytest.raises(TypeError, match="is a classifier, not a policy") as refusal:
        evaluate(clone(clf), logs_of())
    assert "Frozen" not in str(refusal.value)


@pytest.mark.parametrize(
    ("reward", "action"),
    [(-REWARD, ACTION), (0 * REWARD, ACTION), (REWARD, np.full(120, "b"))],
    ids=["negative", "zero", "one action"],
)
def test_a_frozen_classifier_needs_no_reward_and_no_second_action(reward, action):
    clf = LogisticRegression().fit(X, ACTION)
    logs = logs_of(reward, action=action, actions=list("cabd"))
    policy = ClassifierPolicy(FrozenEstimator(clf), temperature=1.0).fit(logs)
    assert policy.classes_.tolist() == list("cabd")
    expected = np.column_stack([clf.predict_proba(X)[:, [2, 0, 1]], np.zeros(120)])
    assert_allclose(policy.predict_proba(X), expected)
    with pytest.raises(NotFittedError):
        ClassifierPolicy(FrozenEstimator(clone(clf))).fit(logs)


# -- row weights -----------------------------------------------------------------------


@pytest.mark.parametrize("classifier", [None, GaussianNB(), KNeighborsClassifier(3)])
def test_row_weights_reach_the_classifier(classifier):
    weight = np.where(CODE == 0, 30.0, np.arange(120) % 3)
    policy = ClassifierPolicy(classifier, temperature=1.0)
    plain = policy.fit(X, ACTION).predict_proba(X)[:, 0].mean()
    found = policy.fit(X, ACTION, sample_weight=weight.tolist()).predict_proba(X)
    assert found[:, 0].mean() > plain + 0.1
    if classifier is None:  # a weight counts rows
        repeated = np.repeat(np.arange(120), weight.astype(int))
        expected = policy.fit(X[repeated], ACTION[repeated]).predict_proba(X)
        assert_allclose(found, expected, atol=0.02)  # its scaler is not weighted
    logs = logs_of(sample_weight=weight)
    expected = policy.fit(logs).predict_proba(X)
    for given in (logs_of(), logs_of(sample_weight=weight[::-1])):
        found = policy.fit(given, sample_weight=weight).predict_proba(X)
        assert_allclose(found, expected)


@pytest.mark.parametrize("wrong", [np.ones(119), -np.ones(120), np.full(120, np.nan)])
def test_row_weights_are_checked(wrong):
    for given in ((X, ACTION), (logs_of(),)):
        with pytest.raises(ValueError, match=r"(?i)sample.?weight"):
            ClassifierPolicy().fit(*given, sample_weight=wrong)


def test_row_weights_are_routed_where_the_policy_asks_for_them():
    weight, policy = np.where(CODE == 0, 30.0, 1.0), ClassifierPolicy(temperature=1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        steps = make_pipeline(scaler, policy)
        with pytest.raises(ValueError, match="sample_weight"):
            clone(steps).fit(X, ACTION, sample_weight=weight)
        plain = clone(steps).fit(X, ACTION).predict_proba(X)
        policy.set_fit_request(sample_weight=True)
        found = steps.fit(X, ACTION, sample_weight=weight).predict_proba(X)
    assert found[:, 0].mean() > plain[:, 0].mean() + 0.1
