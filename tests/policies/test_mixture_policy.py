# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope import (
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    EpsilonGreedy,
    FunctionPolicy,
    MixturePolicy,
    UniformPolicy,
)
from skope_ope.policies import action_probabilities

RNG = np.random.RandomState(0)
X = RNG.normal(size=(40, 2))
ACTION = np.array(list("abc"))[RNG.randint(3, size=40)]
LOGS = BanditLogs(X, ACTION, np.ones(40), actions=[*"zcba"])
LEARNED = ClassifierPolicy(epsilon=0.1).fit(X, ACTION)
SCALED = make_pipeline(StandardScaler(), ClassifierPolicy()).fit(X, ACTION)
SEARCH = GridSearchCV(ClassifierPolicy(), {"epsilon": [0.3]}, cv=2, scoring="accuracy")
SEARCH.fit(X, ACTION)


class Handmade:
    classes_ = ("b", "z")

    def predict_proba(self, X):
        return np.tile([0.25, 0.75], (X.shape[0], 1))


MEMBERS = [
    LEARNED,
    SCALED,
    SEARCH,
    FrozenEstimator(LEARNED),
    FrozenEstimator(SCALED),
    Handmade(),
    UniformPolicy(),
    UniformPolicy().fit(LOGS),
    ConstantPolicy("c"),
    FunctionPolicy(lambda X: np.full((len(X), 4), 0.25)),
    MixturePolicy([LEARNED, ConstantPolicy("z")], [0.5, 0.5]),
]


every_member = pytest.mark.parametrize(
    "member", MEMBERS, ids=lambda p: type(p).__name__
)


@every_member
def test_probabilities_are_mixed(member):
    policy = MixturePolicy([member, LEARNED], [0.3, 0.7])
    on_logs = action_probabilities(policy, LOGS)
    expected = 0.3 * action_probabilities(member, LOGS)
    expected = expected + 0.7 * action_probabilities(LEARNED, LOGS)
    assert_allclose(on_logs, expected)
    if member not in MEMBERS[:6]:
        return
    # those of contexts are those on logs
    assert policy.classes_.tolist() == sorted({*"abc", *member.classes_})
    columns = [LOGS.actions.tolist().index(label) for label in policy.classes_]
    assert_allclose(policy.predict_proba(X), on_logs[:, columns])
    offered = np.ones(on_logs.shape, dtype=bool)
    offered[::3, 1] = LOGS.action_index[::3] == 1
    offered[::2, 0] = False
    found = policy.predict_proba(X, offered[:, columns])
    on_logs = action_probabilities(policy, LOGS.replace(available=offered))
    assert_allclose(found, on_logs[:, columns])


def test_fit_fits_clones():
    policies = [ClassifierPolicy(), UniformPolicy()]
    for data in ((LOGS,), (X, ACTION)):
        policy = MixturePolicy(policies, [0.8, 0.2]).fit(*data)
        assert not hasattr(policies[0], "classes_")
        greedy = ClassifierPolicy().fit(*data).predict_proba(X)
        codes = [
            policy.classes_.tolist().index(c) for c in policy.policies_[0].classes_
        ]
        uniform = 0.2 / len(policy.classes_)
        assert_allclose(policy.predict_proba(X)[:, codes], 0.8 * greedy + uniform)
        assert not hasattr(clone(policy), "policies_")


def test_frozen_members_survive_fit_and_clone_and_sparse_contexts():
    frozen = MixturePolicy([FrozenEstimator(LEARNED), UniformPolicy()], [0.5, 0.5])
    before = action_probabilities(frozen, LOGS)
    assert_array_equal(action_probabilities(clone(frozen).fit(LOGS), LOGS), before)
    rows = sparse.csr_matrix(X)
    sparse_logs = BanditLogs(rows, ACTION, np.ones(40), actions=[*"zcba"])
    assert_allclose(action_probabilities(frozen, sparse_logs), before)


def test_bad_mixtures_are_refused():
    two = [LEARNED] * 2
    for policies, weights, error, message in (
        ([], [], ValueError, "policies is empty"),
        (LEARNED, [1.0], TypeError, "must be a list of policies, got ClassifierPolicy"),
        ([LEARNED], [0.5, 0.5], ValueError, r"per policy \(1\), got shape \(2,\)"),
        ([LEARNED], 1.0, ValueError, r"got shape \(\)"),
        (two, [0.5, 0.6], ValueError, r"sum to 1, got \[0.5, 0.6\]"),
        (two, [1.5, -0.5], ValueError, "must be non-negative"),
        (two, [np.nan, 1], ValueError, "must be non-negative and sum to 1"),
        ([LogisticRegression()], [1.0], TypeError, "Wrap it: ClassifierPolicy"),
        (["pi"], [1.0], TypeError, "made of policies, got str"),
        ([np.ones((40, 4))], [1.0], TypeError, "made of policies, got ndarray"),
        ([EpsilonGreedy()], [1.0], TypeError, "learns while it acts, and a mixture"),
    ):
        policy = MixturePolicy(policies, weights)
        for call, given in (
            (partial(action_probabilities, policy), LOGS),
            (policy.predict_proba, X),
            (policy.fit, LOGS),
        ):
            with pytest.raises(error, match=message):
                call(given)
