# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which rounds a reward model sees, and which it predicts for."""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import get_tags

from skope_ope.utils._check_rounds import (
    all_kinds,
    assert_same,
    check_rounds,
    evaluate,
    fit,
    fold_means,
    fresh,
    model_kinds,
    policy_of,
    quiet,
    raises,
)


class Witness(RegressorMixin, BaseEstimator):
    """A regressor that refuses to predict for rounds that it was fitted on."""

    def fit(self, X, y, sample_weight=None):
        """Remember the numbers of the rounds, the first feature."""
        self.seen_ = X[:, 0].copy()
        return self

    def predict(self, X):
        """Return zeros, or raise."""
        again = np.intersect1d(self.seen_, X[:, 0])
        if again.size:
            raise AssertionError(
                f"round {again[0]:g} is predicted by a model that was fitted on it "
                f"({again.size} such rounds)"
            )
        return np.zeros(len(X))


def check_no_round_is_predicted_by_a_model_that_saw_it(evaluator):
    """Cross-fit; rounds drawn twice, as in a bootstrap, stay on one side."""
    if "folds" not in model_kinds(evaluator):
        return
    rounds = check_rounds(evaluator)
    logs = rounds.logs()
    drawn = np.random.RandomState(1).randint(len(rounds), size=len(rounds))
    policy = policy_of(rounds)
    for these in (logs, logs[drawn]):
        for cv in (3, rounds.folds if these is logs else 4):
            fitted = fresh(evaluator).set_params(reward_model=Witness(), cv=cv)
            with quiet():
                fitted.fit(these)
            evaluate(fitted, policy)
            evaluate(fitted, policy, these[::-2])


def check_reward_model_is_given_once(evaluator):
    """Give it twice: it raises; evaluators that use none ignore it."""
    rounds = check_rounds(evaluator)
    if not get_tags(evaluator).needs_reward_model:
        with quiet():
            ignored = fresh(evaluator).fit(rounds.logs(), 0.5)
        expected = fit(evaluator, rounds, "none")
        assert evaluate(ignored, rounds.pi).value == evaluate(expected, rounds.pi).value
        return
    twice = clone(evaluator).set_params(reward_model=0.5)
    with raises(ValueError, "reward_model|reward model", "a second reward_model"):
        twice.fit(rounds.logs(), 0.5)


def check_one_round(evaluator):
    """Keep a single round: a value, no standard error, and nothing to split."""
    rounds = check_rounds(evaluator)
    one = rounds.take(np.array([0]))
    for kind in all_kinds(evaluator):
        if kind == "array":
            found = evaluate(fit(evaluator, one, kind), one.pi)
        else:
            fitted = fit(evaluator, rounds, kind)
            found = evaluate(fitted, policy_of(rounds), one.logs())
        assert found.n_rounds == 1
        # a sequential evaluator may have refused the only round
        formed = np.isfinite(found.value) or get_tags(evaluator).order_dependent
        assert formed, f"one round has the value {found.value}"
        assert np.isnan(found.standard_error), "one round has a standard error"
        assert np.isnan(found._interval()).all()
        assert found.round_values.shape == (1,)
    if "folds" in model_kinds(evaluator):
        unsplit = clone(evaluator).set_params(reward_model=fold_means(evaluator))
        with raises(ValueError, "two rounds|training", "cross-fitting one round"):
            unsplit.fit(one.logs()).evaluate(one.pi)


def check_other_logs(evaluator):
    """Evaluate rounds that fit has not seen, with the same model: the same value."""
    rounds = check_rounds(evaluator, 200)
    here, there = rounds.take(np.arange(120)), rounds.take(np.arange(120, 200))
    policy = policy_of(rounds)
    for kind in all_kinds(evaluator):
        fitted = fit(evaluator, here, kind)
        if kind == "array":
            with raises(ValueError, "other logs", "an array model on other logs"):
                fitted.evaluate(policy, there.logs())
            if get_tags(evaluator).order_dependent:
                continue
            here_logs, there_logs = (
                part.logs().with_columns(q_hat=part.q_hat) for part in (here, there)
            )
            with quiet():
                fitted, expected = (
                    fresh(evaluator).set_params(reward_model="q_hat").fit(logs)
                    for logs in (here_logs, there_logs)
                )
        elif kind in ("folds", "own") or get_tags(evaluator).order_dependent:
            # a fitted model is that of fit; other logs have other uniform numbers
            assert evaluate(fitted, policy, there.logs()).n_rounds == len(there)
            continue
        else:
            there_logs, expected = there.logs(), fit(evaluator, there, kind)
        assert_same(
            evaluate(fitted, policy, there_logs),
            evaluate(expected, there.pi),
            "other logs are evaluated differently",
        )


def check_rounds_of_fit_are_recognised(evaluator):
    """Bring rounds of fit back, in other logs too: they are predicted out of fold."""
    rounds = check_rounds(evaluator)
    order = np.random.RandomState(1).permutation(len(rounds))
    policy = policy_of(rounds)
    for kind in all_kinds(evaluator):
        if kind == "array":
            continue
        fitted = fit(evaluator, rounds, kind)
        assert_same(
            evaluate(fitted, policy, fitted.logs_[order]),
            evaluate(fitted, policy),
            "rounds of fit in another order are not recognised",
        )
        anew = rounds.logs().with_columns(**fitted.logs_.columns)
        assert_same(
            evaluate(fitted, policy, anew),
            evaluate(fitted, policy),
            "rounds of fit in logs that were built anew are not recognised",
        )
