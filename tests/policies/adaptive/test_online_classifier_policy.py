# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

from skope_ope import BanditLogs
from skope_ope.policies import OnlineClassifierPolicy
from skope_ope.utils.estimator_checks import check_adaptive_policy
from tests._frames import frame_of
from tests.policies._histories import live, make_logs, replayed

X2 = np.zeros((1, 1))
TWO = BanditLogs(X2, ["a"], [0.0], actions=["a", "b"])


class Recorder(ClassifierMixin, BaseEstimator):
    """Keeps what it was fitted on; P(reward = 1) is the share of ones."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.seen_ = [*getattr(self, "seen_", []), (X[:, 0].tolist(), y.tolist())]
        self.share_ = np.mean(y)
        return self

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)

    def predict_proba(self, X):
        return np.tile([1 - self.share_, self.share_], (len(X), 1))


class OnlineRecorder(Recorder):
    """The same with `partial_fit`."""

    def partial_fit(self, X, y, classes=None):
        assert classes.tolist() == [0, 1]
        return self.fit(X, y)


def column(*values):
    return np.array(values, dtype=float)[:, None]


LIVED = [0, 1, 0, 0, 1, 1], [1, 0, 0, 1, 1, 0], column(1, 2, 3, 4, 5, 6)


def test_a_row_enters_the_data_of_its_action_only():
    policy = OnlineClassifierPolicy(Recorder(), update_every=3).fit(TWO)
    assert live(policy, *LIVED) == [False, False, True, False, False, True]
    assert policy.n_trainings_ == 2
    first, second = policy.classifiers_
    # fitted again on all rows of the action; "b" has seen both rewards at the second
    assert first.seen_ == [([1, 3], [1, 0]), ([1, 3, 4], [1, 0, 1])]
    assert second.seen_ == [([2, 5, 6], [0, 1, 0])]
    # partial_fit gets the new rows only
    policy = OnlineClassifierPolicy(OnlineRecorder(), update_every=3).fit(TWO)
    live(policy, *LIVED)
    first, second = policy.classifiers_
    assert first.seen_ == [([1, 3], [1, 0]), ([4], [1])]
    # what waited for the other reward is not lost
    assert second.seen_ == [([2, 5, 6], [0, 1, 0])]


def test_one_reward_seen_counts_successes():
    """(successes + 1) / (pulls + 2) as of the last training."""
    policy = OnlineClassifierPolicy(GaussianNB(), epsilon=0, update_every=2).fit(TWO)
    assert policy.predict([[0.0]]).tolist() == ["a"]  # 1/2 and 1/2: a tie
    live(policy, [0], [0], column(1))
    assert policy.predict([[0.0]]).tolist() == ["a"]  # not trained yet
    live(policy, [0], [0], column(1))
    # 1/4 and 1/2
    assert policy.predict([[0.0]]).tolist() == ["b"]
    live(policy, [1, 1], [1, 1], column(1, 1))
    assert policy.classifiers_ == [None, None]
    # (2 + 1) / (2 + 2) beside a model that says 3/4: tied, whichever comes first
    for one in (0, 1):
        policy = OnlineClassifierPolicy(Recorder(), epsilon=0, update_every=6).fit(TWO)
        actions = [one] * 2 + [1 - one] * 4
        live(policy, actions, [1, 1, 1, 1, 1, 0], column(*[1] * 6))
        assert policy.predict([[0.0]]).tolist() == ["a"]


def test_initial_labels():
    initial = (column(1, 2, 3), np.array(["b", "a", "b"]))
    policy = OnlineClassifierPolicy(Recorder(), initial=initial).fit(TWO)
    first, second = policy.classifiers_
    assert first.seen_ == [([1, 2, 3], [0, 1, 0])]
    assert second.seen_ == [([1, 2, 3], [1, 0, 1])]
    assert policy.n_trainings_ == 1
    policy.reset(TWO[:0])  # starts from the labels again
    assert policy.classifiers_[0].seen_ == [([1, 2, 3], [0, 1, 0])]
    rewards = np.array([[1, 1], [0, 1], [0, 0]])
    policy = OnlineClassifierPolicy(Recorder(), initial=(column(1, 2, 3), rewards))
    first, second = policy.fit(TWO).classifiers_
    assert first.seen_ == [([1, 2, 3], [1, 0, 0])]
    assert second.seen_ == [([1, 2, 3], [1, 1, 0])]
    # exploration and offers
    policy = OnlineClassifierPolicy(Recorder(), epsilon=0.2, initial=initial).fit(TWO)
    assert_allclose(policy.predict_proba(X2), [[0.1, 0.9]])
    offered = np.array([[True, False]])
    assert_allclose(policy.predict_proba(X2, offered), [[1, 0]])
    assert policy.frozen().predict_proba(X2).tolist() == [[0, 1]]
    always = OnlineClassifierPolicy(Recorder(), epsilon=1.0, initial=initial).fit(TWO)
    assert always.predict_proba(X2).tolist() == [[0.5, 0.5]]
    assert always.frozen().predict_proba(X2).tolist() == [[0, 1]]
    # a seed of the classifier is kept
    given = RandomForestClassifier(2, random_state=7)
    policy = OnlineClassifierPolicy(given, initial=initial).fit(TWO)
    assert [model.random_state for model in policy.classifiers_] == [7, 7]
    nested = make_pipeline(StandardScaler(), RandomForestClassifier(2))
    policy = OnlineClassifierPolicy(nested, initial=initial).fit(TWO)
    seeds = [model[-1].random_state for model in policy.classifiers_]
    assert None not in seeds
    assert seeds[0] != seeds[1]


@pytest.mark.parametrize(
    "classifier", [SGDClassifier(loss="log_loss"), RandomForestClassifier(2)]
)
def test_nested_randomness_is_seeded_at_reset(classifier):
    logs = make_logs(100, 2)
    policies = [OnlineClassifierPolicy(classifier).fit(logs) for _ in range(2)]
    policies.append(OnlineClassifierPolicy(classifier, random_state=1).fit(logs))
    rounds = logs.action_index.tolist(), logs.reward.tolist(), logs.context
    answers = []
    for policy in (*policies, policies[0]):  # the last one starts anew
        policy.reset(logs[:0])
        live(policy, *rounds)
        models = [one.predict_proba(logs.context) for one in policy.classifiers_]
        answers.append(np.array(models))
    for again in (answers[1], answers[3]):
        assert_array_equal(again, answers[0])
    assert (answers[0] != answers[2]).any()
    assert classifier.random_state is None


def test_small_fits_use_one_thread():
    seen = []

    class Watched(LogisticRegression):
        def fit(self, X, y):
            seen.append({lib["num_threads"] for lib in threadpool_info()})
            return super().fit(X, y)

    before = [lib["num_threads"] for lib in threadpool_info()]
    initial = (np.eye(4)[:, :1], np.array(["b", "a", "b", "a"]))
    OnlineClassifierPolicy(Watched(), initial=initial).fit(TWO)
    assert seen == [{1}, {1}]
    assert [lib["num_threads"] for lib in threadpool_info()] == before


def test_update_many_trains_once():
    logs = make_logs(100)
    policy = OnlineClassifierPolicy(GaussianNB(), update_every=10).fit(logs)
    rounds = logs.context, logs.action_index, logs.reward, logs.propensity
    assert policy.update_many(*rounds) is True
    assert policy.n_trainings_ == 1
    other = OnlineClassifierPolicy(GaussianNB(), update_every=100).fit(logs)
    live(other, logs.action_index.tolist(), logs.reward.tolist(), logs.context)
    assert_array_equal(
        policy.predict_proba(logs.context), other.predict_proba(logs.context)
    )


# Frames of all libraries take the same way: each meets one of the two.
@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    ("kind", "classifier"),
    [
        ("sparse", LogisticRegression()),
        ("sparse", SGDClassifier(loss="log_loss")),
        ("pandas", LogisticRegression()),
        ("polars", SGDClassifier(loss="log_loss")),
        ("pyarrow", LogisticRegression()),
    ],
)
def test_contexts_of_other_kinds(kind, classifier):
    logs = make_logs(60)
    rows = sparse.csr_matrix(logs.context)
    if kind != "sparse":
        rows = frame_of(kind, {f"x{j}": x for j, x in enumerate(logs.context.T)})
        classifier = make_pipeline(StandardScaler(), classifier)  # asks for arrays
    given = rows, logs.action, logs.reward, logs.propensity
    policy = OnlineClassifierPolicy(classifier, update_every=5)
    told = replayed(policy, logs)
    assert len(told) > 8
    other = BanditLogs(*given, actions=logs.actions)
    assert_array_equal(replayed(policy, other), told)


def test_bad_initial():
    for initial, match in (
        ((column(1), ["c"]), "label 'c' at row 0 is not among the actions"),
        ((column(1, 2), ["a"]), "inconsistent numbers of samples"),
        ((np.ones((1, 2)), ["a"]), "initial has 2 features, the logs have 1"),
        ((column(1), [[1, 0, 0]]), "y has 3 columns, but must have one"),
        ((column(1), [[1, 2]]), "learns 0/1 rewards with a classifier, got 2"),
        ((column(1), ["a"], 3), r"pair \(X, y\), got a tuple of 3"),
    ):
        with pytest.raises(ValueError, match=match):
            OnlineClassifierPolicy(Recorder(), initial=initial).fit(TWO)
    match = r"learns 0/1 rewards with a classifier, got 0\.5"
    with pytest.raises(ValueError, match=match):
        OnlineClassifierPolicy().fit(TWO).update(X2, 0, 0.5, 1.0)
    for given, error, match in (
        ({"classifier": SGDClassifier()}, TypeError, "SGDClassifier has no predict_pr"),
        ({"classifier": Ridge()}, TypeError, "needs a classifier, got Ridge"),
        ({"update_every": 0}, ValueError, "'update_every' parameter"),
        ({"random_state": None}, ValueError, "'random_state' parameter"),
    ):
        with pytest.raises(error, match=match):
            OnlineClassifierPolicy(**given).fit(TWO)


# GaussianNB and SGDClassifier learn in part, the other two anew: each way of learning
# meets both kinds of offers.
@pytest.mark.few_cases(1)
@pytest.mark.parametrize(
    ("policy", "available"),
    [
        (OnlineClassifierPolicy(GaussianNB(), epsilon=0, update_every=1), True),
        (OnlineClassifierPolicy(LogisticRegression(), update_every=4), False),
        (OnlineClassifierPolicy(SGDClassifier(loss="log_loss"), epsilon=0.5), False),
        (OnlineClassifierPolicy(RandomForestClassifier(2), update_every=20), True),
    ],
)
def test_keeps_the_contract(policy, available):
    # fewer rounds than the checks have by themselves: every training is a fit
    check_adaptive_policy(policy, make_logs(60, n_actions=3, available=available))


def test_initial_contexts_come_in_the_form_of_the_logs():
    pandas = pytest.importorskip("pandas")
    logs = make_logs(60)
    first = logs.context[:20]
    sparse_logs, frame_logs = (
        BanditLogs(make(logs.context), logs.action, logs.reward, logs.propensity)
        for make in (sparse.csr_matrix, pandas.DataFrame)
    )
    dense = OnlineClassifierPolicy(initial=(first, logs.action[:20]))
    assert replayed(dense, sparse_logs).tolist() == replayed(dense, logs).tolist()
    frame = OnlineClassifierPolicy(initial=(pandas.DataFrame(first), logs.action[:20]))
    assert replayed(frame, frame_logs).tolist() == replayed(dense, logs).tolist()
    for policy, wrong in ((dense, frame_logs), (frame, logs)):
        with pytest.raises(TypeError, match=r"initial holds contexts as .* as frames"):
            replayed(policy, wrong)
