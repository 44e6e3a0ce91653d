# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The small logs on which evaluators are checked, and how checks call them.

`random_rounds` gives rounds of the kind that an evaluator takes, and the checks ask
both kinds the same things.
"""

import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from skope_ope.exceptions import OPEWarning
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.policies import PlackettLuceSlatePolicy
from skope_ope.policies._base import BasePolicy


class _CheckWorld:
    """Arrays of a log, row by row, that are taken together."""

    def __len__(self):
        return len(self.context)

    @property
    def folds(self):
        """Pairs (train, test) of rows, which follow the rows where they are moved."""
        return [
            (np.flatnonzero(self.fold != k), np.flatnonzero(self.fold == k))
            for k in np.unique(self.fold)
        ]

    @property
    def arrays(self):
        """The arrays, by name."""
        return {k: v for k, v in vars(self).items() if isinstance(v, np.ndarray)}

    def take(self, rows):
        """Take the rounds `rows`, with their folds, their policy and their model."""
        return replace(self, **{k: v[rows] for k, v in self.arrays.items()})


@dataclass(frozen=True)
class CheckRounds(_CheckWorld):
    """Arrays of a log, the policy under evaluation and a model, row by row."""

    context: np.ndarray  # the number of the round, and one feature
    code: np.ndarray
    reward: np.ndarray
    logging_proba: np.ndarray
    pi: np.ndarray
    q_hat: np.ndarray
    fold: np.ndarray
    sample_weight: np.ndarray | None = None

    @property
    def logger(self):
        """The policy that logged the rounds."""
        return self.logging_proba

    @property
    def propensity(self):
        """Probability of the logged action."""
        return self.logging_proba[np.arange(len(self)), self.code]

    def transformed(self, factor, shift):
        """Return the rounds with other rewards, and the model of these."""
        reward, q_hat = (factor * x + shift for x in (self.reward, self.q_hat))
        return replace(self, reward=reward, q_hat=q_hat)

    def of_other_choices(self):
        """Return logs whose actions have other labels, and a policy for these."""
        names = ["a", "b", "c"]
        logs = self.logs(action=np.array(names)[self.code], actions=names)
        return policy_of(self, names), logs

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


@dataclass(frozen=True)
class CheckSlates(_CheckWorld):
    """Arrays of a log of slates, and the policy under evaluation, row by row."""

    context: np.ndarray  # the number of the round, and one feature
    slate: np.ndarray
    slot_reward: np.ndarray
    pi: np.ndarray  # slates
    logger: PlackettLuceSlatePolicy
    fold: np.ndarray
    sample_weight: np.ndarray | None = None

    def transformed(self, factor, shift):
        """Return the rounds with other rewards."""
        shift = shift / self.slate.shape[1]
        return replace(self, slot_reward=factor * self.slot_reward + shift)

    def of_other_choices(self):
        """Return logs whose slates have another slot, and their policy."""
        return "target", _random_slates(len(self), 0, n_slots=3).logs()

    def logs(self, **fields):
        """Build SlateLogs of the rounds; `fields` replace or add arguments."""
        arguments = {
            "reward": None,
            "slot_reward": self.slot_reward,
            "n_candidates": len(self.logger.weights),
            "logging_policy": self.logger,
            **fields,
        }
        logs = SlateLogs(self.context, self.slate, **arguments)
        return logs.with_columns(target=self.pi)


def takes_slates(evaluator):
    """Whether an evaluator takes logs of slates only."""
    return getattr(get_tags(evaluator), "handles", ()) == ("slate",)


def _random_slates(n_rounds, seed, n_slots=2):
    """Make pages with clicks, the target turning every other slate round."""
    rng = np.random.RandomState(seed)
    logger = PlackettLuceSlatePolicy([1.5, 1.0, 1.2, 0.8], n_slots)
    context = np.column_stack([np.arange(n_rounds), rng.normal(size=n_rounds)])
    empty = np.full((n_rounds, n_slots), -1)
    slate = logger.sample(
        SlateLogs(context, empty, np.zeros(n_rounds), n_candidates=4), rng
    )
    target = slate.copy()
    target[1::2] = target[1::2, ::-1]
    return CheckSlates(
        context=context,
        slate=slate,
        slot_reward=(rng.random_sample(slate.shape) < 0.4).astype(float),
        pi=target,
        logger=logger,
        fold=np.arange(n_rounds) % 4,
    )


def random_rounds(evaluator=None, n_rounds=120, n_actions=3, seed=0):
    """Make rounds with non-negative rewards and weights up to 4 * n_actions."""
    # The logger is uniform where the evaluator assumes that.
    if evaluator is not None and takes_slates(evaluator):
        return _random_slates(n_rounds, seed)
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
        self.classes_ = np.asarray(labels)  # of the columns of the table

    def _proba(self, X, available):
        return self.table[np.asarray(X)[:, 0].astype(int)]


def policy_of(rounds, labels=None):
    """Return `rounds.pi` as a policy for any order of rows, a column if of slates."""
    if isinstance(rounds, CheckSlates):
        return "target"
    labels = range(rounds.pi.shape[1]) if labels is None else labels
    return TablePolicy(rounds.pi, list(labels))


def model_kinds(evaluator):
    """How a reward model is given so that laws hold to rounding."""
    # "array" is `rounds.q_hat`; "folds" is the mean reward per action, fitted on the
    # folds of the rounds, which move with them; "none" where none is used.
    tags = get_tags(evaluator)
    if not tags.needs_reward_model:
        return ("none",)
    no_array = tags.refits_reward_model or takes_slates(evaluator)
    kinds = () if no_array else ("array",)
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


def ready(evaluator, rounds, kind):
    """Return a clone and the model to fit it with; see `fit`."""
    evaluator, model = seeded_clone(evaluator), None
    name = kind if isinstance(kind, str) else None
    if name not in ("none", "own"):
        evaluator.set_params(reward_model=None)
        if "cv" in evaluator.get_params(deep=False):
            evaluator.set_params(cv=rounds.folds)
        if name == "folds":
            evaluator.set_params(reward_model=fold_means(evaluator))
        else:
            model = rounds.q_hat if name == "array" else kind
    return evaluator, model


def fit(evaluator, rounds, kind, logs=None):
    """Return a fitted clone; `kind` is one of `all_kinds`, a number or an array."""
    evaluator, model = ready(evaluator, rounds, kind)
    with quiet():
        return evaluator.fit(rounds.logs() if logs is None else logs, model)


def all_fitted(evaluator, rounds):
    """Yield fitted clones, one with every kind of reward model."""
    return (fit(evaluator, rounds, kind) for kind in all_kinds(evaluator))


def evaluated(evaluator, policy, logs=None, sample_weight=None):
    """Return the PolicyValue, without the warnings of an evaluation."""
    with quiet():
        return evaluator.evaluate(policy, logs, sample_weight)


def value_of(evaluator, rounds, kind, policy=None, **fields):
    """Return the PolicyValue of a fitted clone on the rounds of its fit."""
    fitted = fit(evaluator, rounds, kind, logs=rounds.logs(**fields))
    policy = rounds.pi if policy is None else policy
    # logs of slates have no weights
    weight = rounds.sample_weight if isinstance(rounds, CheckSlates) else None
    return evaluated(fitted, policy, sample_weight=weight)


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
