# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The contract of evaluators: what they keep, what they refuse, what they leave."""

import inspect
import pickle
from dataclasses import replace
from unittest import SkipTest

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from skope_ope.evaluators import PolicyValue
from skope_ope.evaluators.base._evaluator import EvaluatorTags
from skope_ope.utils._check_rounds import (
    all_fitted,
    all_kinds,
    assert_close,
    assert_same,
    evaluated,
    fit,
    fold_means,
    model_kinds,
    policy_of,
    quiet,
    raises,
    random_rounds,
    ready,
    seeded_clone,
)


def check_tags(evaluator):
    """Look for EvaluatorTags, which switch the laws on."""
    tags = get_tags(evaluator)
    assert isinstance(tags, EvaluatorTags), (
        f"tags must be EvaluatorTags, got {type(tags).__name__}; extend "
        "super().__sklearn_tags__()"
    )
    assert tags.estimator_type == "policy_evaluator"


def check_parameters_are_keywords(evaluator):
    """Expect keyword-only parameters; get_params and set_params are inverse."""
    # A parameter without a default may also be given by position.
    for name, parameter in inspect.signature(type(evaluator)).parameters.items():
        if parameter.default is parameter.empty:
            continue
        assert parameter.kind is parameter.KEYWORD_ONLY, f"{name} is not keyword-only"
    copy = clone(evaluator)
    assert copy.set_params(**evaluator.get_params(deep=False)) is copy
    found, expected = copy.get_params(deep=False), evaluator.get_params(deep=False)
    assert all(found[name] is value for name, value in expected.items()), (
        "get_params does not return what set_params was given"
    )
    with raises(ValueError, "no_such_parameter", "set_params(no_such_parameter=0)"):
        copy.set_params(no_such_parameter=0)


def check_unfitted_raises(evaluator):
    """Evaluate and score without fit: both raise NotFittedError."""
    rounds = random_rounds(evaluator)
    for method in ("evaluate", "score"):
        with raises(NotFittedError, "fit", f"{method} before fit"):
            getattr(clone(evaluator), method)(rounds.pi)


def check_fit(evaluator):
    """Fit: it returns self, takes logs only and leaves the parameters alone."""
    rounds = random_rounds(evaluator)
    for wrong in (rounds.context, None):
        with raises(TypeError, type(rounds.logs()).__name__, "fit(array)"):
            clone(evaluator).fit(wrong)
    for kind in all_kinds(evaluator):
        one, model = ready(evaluator, rounds, kind)
        before = one.get_params(deep=False)
        with quiet():
            assert one.fit(rounds.logs(), model) is one, "fit must return self"
        check_is_fitted(one)
        after = one.get_params(deep=False)
        assert all(after[name] is value for name, value in before.items()), (
            "fit changes the parameters"
        )


def check_score_is_the_value(evaluator):
    """Score: a float, the value of evaluate, inside of a finite interval."""
    rounds = random_rounds(evaluator)
    for fitted in all_fitted(evaluator, rounds):
        result = evaluated(fitted, rounds.pi)
        assert isinstance(result, PolicyValue), "evaluate must return a PolicyValue"
        with quiet():
            score = fitted.score(rounds.pi)
        assert type(score) is float, f"score must be a float, got {type(score)}"
        assert score == result.value == float(result), "score is not the value"
        assert np.isfinite(score), f"the value is {score}"
        assert result.n_rounds == len(rounds)
        low, high = result._interval()
        assert low <= score <= high, "the interval does not hold the value"
        assert all(name in result.diagnostics for name in result.diagnostics)


def check_score_refuses_logs(evaluator):
    """Score logs, as a search without scoring does: the error names the scorer."""
    rounds = random_rounds(evaluator)
    for fitted in all_fitted(evaluator, rounds):
        with raises(TypeError, "EvaluatorScorer", "score(logs)"):
            fitted.score(rounds.logs())


def check_classifier_is_refused(evaluator):
    """Evaluate a bare classifier, which is no policy: the error says to wrap it."""
    from sklearn.dummy import DummyClassifier

    rounds = random_rounds(evaluator)
    classifier = DummyClassifier().fit(rounds.context, rounds.code)
    for fitted in all_fitted(evaluator, rounds):
        with raises(TypeError, "ClassifierPolicy", "evaluate(classifier)"):
            fitted.evaluate(classifier)


def check_propensity_is_needed(evaluator):
    """Leave propensities out: an error says so, or they are not needed."""
    rounds = random_rounds(evaluator)
    unknown = {"propensity": None, "logging_proba": None}
    if get_tags(evaluator).needs_propensity:
        with raises(ValueError, "propensit", "fit on logs without propensity"):
            clone(evaluator).fit(rounds.logs(**unknown))
        return
    for kind in all_kinds(evaluator):
        fitted = fit(evaluator, rounds, kind, rounds.logs(**unknown))
        assert np.isfinite(evaluated(fitted, rounds.pi).value)


def check_sample_weight_is_checked(evaluator):
    """Give weights of another length or below zero: both raise."""
    rounds = random_rounds(evaluator)
    for fitted in all_fitted(evaluator, rounds):
        for weight in (np.ones(len(rounds) - 1), -np.ones(len(rounds))):
            with raises(ValueError, "sample_weight", "a wrong sample_weight"):
                fitted.evaluate(rounds.pi, sample_weight=weight)


def check_logs_are_left_alone(evaluator):
    """Compare the user's arrays byte by byte; they may also be read-only."""
    for writeable in (True, False):
        rounds = random_rounds(evaluator)
        if not get_tags(evaluator).order_dependent:
            rounds = replace(rounds, sample_weight=np.linspace(1, 2, 120))
        arrays, own = rounds.arrays, {}
        if hasattr(rounds, "propensity"):
            arrays |= (own := {"propensity": rounds.propensity})
        before = {name: array.tobytes() for name, array in arrays.items()}
        for array in arrays.values():
            array.flags.writeable = writeable
        for kind in all_kinds(evaluator):
            fitted = fit(evaluator, rounds, kind, rounds.logs(**own))
            result = evaluated(fitted, rounds.pi, sample_weight=rounds.sample_weight)
            result._interval()
            assert len(result.round_values) == len(rounds)
            dict(result.diagnostics)
        for name, array in arrays.items():
            assert array.tobytes() == before[name], f"{name} of the user was changed"


def check_same_answer_each_time(evaluator):
    """Call three times, and fit twice: all results are identical."""
    rounds = random_rounds(evaluator)
    for kind in all_kinds(evaluator):
        fitted = fit(evaluator, rounds, kind)
        for other in (fitted, fitted, fit(evaluator, rounds, kind)):
            what = "asked twice it answers differently"
            _assert_same_answers(other, fitted, rounds, what)


def check_clone(evaluator):
    """Clone a fitted evaluator: it is unfitted and learns to answer the same."""
    rounds = random_rounds(evaluator)
    for kind in all_kinds(evaluator):
        fitted = fit(evaluator, rounds, kind)
        copy = clone(fitted)
        with raises(NotFittedError, "fit", "evaluate of a clone"):
            copy.evaluate(rounds.pi)
        again = fit(copy, rounds, kind)
        _assert_same_answers(again, fitted, rounds, "a clone answers differently")


def check_pickle(evaluator):
    """Pickle a fitted evaluator and its results."""
    rounds = random_rounds(evaluator)
    for fitted in all_fitted(evaluator, rounds):
        copy, result = pickle.loads(pickle.dumps(fitted)), evaluated(fitted, rounds.pi)
        what = "a pickled evaluator answers differently"
        _assert_same_answers(copy, fitted, rounds, what)
        stored = pickle.loads(pickle.dumps(result))
        _assert_identical(stored, result, "a pickled result differs")
        assert stored._interval() == result._interval()
        assert set(stored.diagnostics) == set(result.diagnostics)
        assert (stored - result).value == 0, "a pickled result has other row_id"


def check_skops(evaluator):
    """Store a fitted evaluator by skops, the safer format of files."""
    try:
        from skops.io import dumps, get_untrusted_types, loads
    except ImportError as error:
        raise SkipTest("skops is not installed") from error
    rounds = random_rounds(evaluator)
    for fitted in all_fitted(evaluator, rounds):
        data = dumps(fitted)
        copy = loads(data, trusted=get_untrusted_types(data=data))
        what = "an evaluator from skops answers differently"
        _assert_same_answers(copy, fitted, rounds, what)


def check_logs_must_match_those_of_fit(evaluator):
    """Bring actions or features that fit has not seen: both raise."""
    rounds = random_rounds(evaluator)
    narrow = replace(rounds, context=rounds.context[:, :1])
    for fitted in all_fitted(evaluator, rounds):
        with raises(ValueError, "feature", "logs with other features"):
            fitted.evaluate(policy_of(rounds), narrow.logs())
        with raises(ValueError, "unknown|slots", "logs with other choices"):
            fitted.evaluate(*rounds.of_other_choices())


def check_paired_difference(evaluator):
    """Subtract values: those of the same rounds only."""
    rounds = random_rounds(evaluator)
    other = np.roll(rounds.pi, 1, axis=1)
    for fitted, anew in zip(
        all_fitted(evaluator, rounds), all_fitted(evaluator, rounds), strict=True
    ):
        elsewhere = evaluated(anew, other)
        first, second = evaluated(fitted, rounds.pi), evaluated(fitted, other)
        difference = first - second
        assert_close(difference.value, first.value - second.value, "difference: value")
        gap = first.round_values - second.round_values
        assert_close(
            difference.standard_error,
            gap.std(ddof=1) / np.sqrt(len(gap)),
            "difference: the standard error is not that of paired rounds",
        )
        with raises(ValueError, "different rounds", "a difference of other rounds"):
            first - elsewhere


def check_array_column_and_object_are_one_policy(evaluator):
    """Give the policy as probabilities, as a column's name and as an object."""
    rounds = random_rounds(evaluator)
    for kind in all_kinds(evaluator):
        logs = rounds.logs().with_columns(target=rounds.pi)
        fitted = fit(evaluator, rounds, kind, logs)
        expected = evaluated(fitted, rounds.pi)
        for policy in ("target", policy_of(rounds), rounds.pi.tolist()):
            _assert_identical(
                evaluated(fitted, policy),
                expected,
                f"{type(policy)} differs from array",
            )


def _assert_same_answers(found, expected, rounds, what):
    answers = (evaluated(one, rounds.pi) for one in (found, expected))
    _assert_identical(*answers, what)


def _assert_identical(found, expected, what):
    for name in ("value", "standard_error", "round_values"):
        np.testing.assert_array_equal(
            getattr(found, name), getattr(expected, name), f"{what}: {name}"
        )


# -- which rounds a reward model sees, and which it predicts for -----------------------


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
    rounds = random_rounds(evaluator)
    logs = rounds.logs()
    drawn = np.random.RandomState(1).randint(len(rounds), size=len(rounds))
    policy = policy_of(rounds)
    for these in (logs, logs[drawn]):
        for cv in (3, rounds.folds if these is logs else 4):
            fitted = seeded_clone(evaluator).set_params(reward_model=Witness(), cv=cv)
            with quiet():
                fitted.fit(these)
            evaluated(fitted, policy)
            evaluated(fitted, policy, these[::-2])


def check_reward_model_is_given_once(evaluator):
    """Give it twice: it raises; evaluators that use none ignore it."""
    rounds = random_rounds(evaluator)
    if not get_tags(evaluator).needs_reward_model:
        with quiet():
            ignored = seeded_clone(evaluator).fit(rounds.logs(), 0.5)
        expected = fit(evaluator, rounds, "none")
        assert (
            evaluated(ignored, rounds.pi).value == evaluated(expected, rounds.pi).value
        )
        return
    twice = clone(evaluator).set_params(reward_model=0.5)
    with raises(ValueError, "reward_model|reward model", "a second reward_model"):
        twice.fit(rounds.logs(), 0.5)


def check_one_round(evaluator):
    """Keep a single round: a value, no standard error, and nothing to split."""
    rounds = random_rounds(evaluator)
    one = rounds.take(np.array([0]))
    for kind in all_kinds(evaluator):
        if kind == "array":
            found = evaluated(fit(evaluator, one, kind), one.pi)
        else:
            fitted = fit(evaluator, rounds, kind)
            found = evaluated(fitted, policy_of(rounds), one.logs())
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
    rounds = random_rounds(evaluator, 200)
    here, there = rounds.take(np.arange(120)), rounds.take(np.arange(120, 200))
    policy = policy_of(rounds)
    for kind in all_kinds(evaluator):
        fitted = fit(evaluator, here, kind)
        with raises(ValueError, "120|80", "a policy of other rows"):
            fitted.evaluate(here.pi, there.logs())
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
                    seeded_clone(evaluator).set_params(reward_model="q_hat").fit(logs)
                    for logs in (here_logs, there_logs)
                )
        elif kind in ("folds", "own") or get_tags(evaluator).order_dependent:
            # a fitted model is that of fit; other logs have other uniform numbers
            assert evaluated(fitted, policy, there.logs()).n_rounds == len(there)
            continue
        else:
            there_logs, expected = there.logs(), fit(evaluator, there, kind)
        assert_same(
            evaluated(fitted, policy, there_logs),
            evaluated(expected, there.pi),
            "other logs are evaluated differently",
        )


def check_rounds_of_fit_are_recognised(evaluator):
    """Bring rounds of fit back, in other logs too: they are predicted out of fold."""
    rounds = random_rounds(evaluator)
    order = np.random.RandomState(1).permutation(len(rounds))
    policy = policy_of(rounds)
    for kind in all_kinds(evaluator):
        if kind == "array":
            continue
        fitted = fit(evaluator, rounds, kind)
        anew = rounds.logs().with_columns(**fitted.logs_.columns)
        for where, logs in (
            ("another order", fitted.logs_[order]),
            ("logs that were built anew", anew),
        ):
            found, expected = evaluated(fitted, policy, logs), evaluated(fitted, policy)
            assert_same(found, expected, f"rounds of fit in {where} are not recognised")
