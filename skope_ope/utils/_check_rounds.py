# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The small log on which evaluators are checked, and how checks call them."""

import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from skope_ope.evaluators import PolicyValue
from skope_ope.exceptions import OPEWarning
from skope_ope.logs import BanditLogs
from skope_ope.policies._base import BasePolicy


@dataclass(frozen=True)
class CheckRounds:
    """Arrays of a log, the policy under evaluation and a model, row by row."""

    context: np.ndarray  # the number of the round, and one feature
    code: np.ndarray
    reward: np.ndarray
    logging_proba: np.ndarray
    pi: np.ndarray
    q_hat: np.ndarray
    fold: np.ndarray
    sample_weight: np.ndarray | None = None

    def __len__(self):
        return len(self.code)

    @property
    def propensity(self):
        """Probability of the logged action."""
        return self.logging_proba[np.arange(len(self)), self.code]

    @property
    def folds(self):
        """Pairs (train, test) of rows, which follow the rows where they are moved."""
        return [
            (np.flatnonzero(self.fold != k), np.flatnonzero(self.fold == k))
            for k in np.unique(self.fold)
        ]

    def take(self, rows):
        """Take the rounds `rows`, with their folds, their policy and their model."""
        fields = {k: v[rows] for k, v in vars(self).items() if v is not None}
        return replace(self, **fields)

    def logs(self, **fields):
        """Build BanditLogs of the rounds; `fields` replace or add arguments."""
        arguments = {
            "context": self.context,
            "action": self.code,
            "reward": self.reward,
            "propensity": self.propensity,
            "logging_proba": self.logging_proba,
            "sample_weight": self.sample_weight,
            "actions": np.arange(self.pi.shape[1]),
            **fields,
        }
        return BanditLogs(**arguments)


def random_rounds(evaluator=None, n_rounds=120, n_actions=3, seed=0):
    """Make rounds with non-negative rewards and weights up to 4 * n_actions."""
    # The logger is uniform where the evaluator assumes that.
    rng = np.random.RandomState(seed)
    # a quarter of exploration keeps every weight moderate
    mu, pi = (
        0.75 * rng.dirichlet(np.ones(n_actions), n_rounds) + 0.25 / n_actions
        for _ in range(2)
    )
    mu, pi = (p / p.sum(axis=1, keepdims=True) for p in (mu, pi))
    if evaluator is not None and get_tags(evaluator).uniform_logger:
        mu = np.full((n_rounds, n_actions), 1 / n_actions)
    drawn = mu.cumsum(axis=1) > rng.random_sample((n_rounds, 1))
    code = np.where(drawn.any(axis=1), drawn.argmax(axis=1), n_actions - 1)
    q_hat = rng.random_sample((n_rounds, n_actions))
    noise = rng.random_sample(n_rounds)
    return CheckRounds(
        context=np.column_stack([np.arange(n_rounds), rng.normal(size=n_rounds)]),
        code=code,
        reward=np.sqrt(q_hat[np.arange(n_rounds), code]) + noise,
        logging_proba=mu,
        pi=pi,
        q_hat=q_hat,
        fold=np.arange(n_rounds) % 4,
    )


class TablePolicy(BasePolicy):
    """Rows of a table, found by the first feature: a policy for any order of rows."""

    def __init__(self, table, labels):
        self.table = table
        self.labels = labels

    def __sklearn_is_fitted__(self):
        return True

    @property
    def classes_(self):
        """Labels of the columns of the table."""
        return np.asarray(self.labels)

    def _proba(self, X, available):
        return self.table[np.asarray(X)[:, 0].astype(int)]


def policy_of(rounds, labels=None):
    """Return `rounds.pi` as a policy object."""
    labels = range(rounds.pi.shape[1]) if labels is None else labels
    return TablePolicy(rounds.pi, list(labels))


def model_kinds(evaluator):
    """How a reward model is given so that laws hold to rounding."""
    # "array" is `rounds.q_hat`; "folds" is the mean reward per action, fitted on the
    # folds of the rounds, which move with them; "none" where none is used.
    tags = get_tags(evaluator)
    if not tags.needs_reward_model:
        return ("none",)
    kinds = () if tags.refits_reward_model else ("array",)
    return (*kinds, "folds") if "cv" in evaluator.get_params() else kinds


def fold_means(evaluator):
    """Return what stands for the mean reward per action: None, but for DR-ns."""
    if not get_tags(evaluator).order_dependent:
        return None
    from sklearn.dummy import DummyRegressor

    return DummyRegressor()


def all_kinds(evaluator):
    """Return `model_kinds`, and "own" where the evaluator comes with a model."""
    own = evaluator.get_params(deep=False).get("reward_model")
    return (*model_kinds(evaluator), *(("own",) if hasattr(own, "fit") else ()))


def seeded_clone(evaluator):
    """Return a clone with fixed seeds."""
    evaluator = clone(evaluator)
    seeds = {
        name: 0
        for name, value in evaluator.get_params().items()
        if name.split("__")[-1] == "random_state" and value is None
    }
    return evaluator.set_params(**seeds)


def fit(evaluator, rounds, kind, logs=None):
    """Return a fitted clone; `kind` is one of `all_kinds`, a number or an array."""
    evaluator = seeded_clone(evaluator)
    logs = rounds.logs() if logs is None else logs
    name = kind if isinstance(kind, str) else None
    with quiet():
        if name in ("none", "own"):
            return evaluator.fit(logs)
        evaluator.set_params(reward_model=None)
        if name == "folds":
            evaluator.set_params(reward_model=fold_means(evaluator), cv=rounds.folds)
            return evaluator.fit(logs)
        return evaluator.fit(logs, rounds.q_hat if name == "array" else kind)


def all_fitted(evaluator, rounds):
    """Yield fitted clones, one with every kind of reward model."""
    return (fit(evaluator, rounds, kind) for kind in all_kinds(evaluator))


def evaluated(evaluator, policy, logs=None, sample_weight=None):
    """Return the PolicyValue, without the warnings of an evaluation."""
    with quiet():
        return evaluator.evaluate(policy, logs, sample_weight)


def value_of(evaluator, rounds, kind, **fields):
    """Return the PolicyValue of a fitted clone on the rounds of its fit."""
    return evaluated(
        fit(evaluator, rounds, kind, logs=rounds.logs(**fields)), rounds.pi
    )


@contextmanager
def quiet():
    """Silence the warnings about small logs, which are no failure of a check."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        yield


@contextmanager
def raises(error, match, what):
    """Expect an exception whose message matches a pattern."""
    try:
        with quiet():
            yield
    except error as found:
        if not re.search(match, str(found)):
            raise AssertionError(
                f"{what} raises {type(found).__name__} as it should, but the message "
                f"does not match {match!r}: {found}"
            ) from found
    except Exception as found:
        raise AssertionError(
            f"{what} must raise {error.__name__}, got {type(found).__name__}: {found}"
        ) from found
    else:
        raise AssertionError(f"{what} must raise {error.__name__}; nothing was raised.")


def assert_close(found, expected, what, rtol=1e-9, atol=1e-12):
    """Compare numbers or arrays, NaN equal to NaN."""
    np.testing.assert_allclose(
        found, expected, rtol=rtol, atol=atol, err_msg=f"\n{what}"
    )


def assert_same(found, expected, what, rtol=1e-9):
    """Compare value and standard error of two PolicyValues."""
    assert_close(found.value, expected.value, f"{what}: value", rtol)
    assert_close(
        found.standard_error, expected.standard_error, f"{what}: standard error", rtol
    )


def assert_fit_keeps_parameters(evaluator, *given):
    """Assert that fit returns the evaluator, and leaves its parameters alone."""
    before = evaluator.get_params(deep=False)
    with quiet():
        assert evaluator.fit(*given) is evaluator, "fit must return self"
    after = evaluator.get_params(deep=False)
    assert all(after[name] is value for name, value in before.items()), (
        "fit changes the parameters"
    )


def assert_score_is_the_value(fitted, policy, n_rounds):
    """Assert that score is a float, the value of evaluate, inside of its interval."""
    result = evaluated(fitted, policy)
    assert isinstance(result, PolicyValue), "evaluate must return a PolicyValue"
    with quiet():
        score = fitted.score(policy)
    assert type(score) is float, f"score must be a float, got {type(score)}"
    assert score == result.value == float(result), "score is not the value"
    assert np.isfinite(score), f"the value is {score}"
    assert result.n_rounds == n_rounds
    low, high = result._interval()
    assert low <= score <= high, "the interval does not hold the value"
    assert all(name in result.diagnostics for name in result.diagnostics)
    return result


def assert_paired(first, second, elsewhere):
    """Assert that values of the same rounds, and no others, have a difference."""
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
