# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The direct method for slates: trust the reward model."""

from __future__ import annotations

from itertools import product
from numbers import Integral
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from skope_ope._progress import untold
from skope_ope._sklearn import Interval
from skope_ope._types import RandomSeed, SplitterLike
from skope_ope.evaluators.core._requires import REWARD_MODEL_CONSTRAINTS, Requires
from skope_ope.evaluators.core._slates import SlateTerms
from skope_ope.evaluators.slate._base import SlateEvaluator, chunks
from skope_ope.exceptions import ModelErrorWarning
from skope_ope.logs import SlateLogs
from skope_ope.logs._validation import EMPTY
from skope_ope.reward_models import AdditiveSlateModel
from skope_ope.reward_models._slate_reward_models import MeanSlateModel

MODEL_ERROR = (
    "the standard error of SlateDirectMethod leaves out the error of the reward model, "
    "which may be far larger. To include it, use SlateDoublyRobust."
)
MAX_SLATES = 20_000  # over which a policy's value is summed


class SlateDirectMethod(SlateEvaluator):
    r"""Mean model value of the policy's slates.

    .. math:: \hat V = \frac1n \sum_i \sum_s \pi(s|x_i)\, \hat r(x_i, s)

    The model is any regressor of the context and the features of all slots, side by
    side. Nothing about the logger is needed. The bias is that of the model, and no
    diagnostic shows it. Read more in the :ref:`User Guide <slates>`.

    Parameters
    ----------
    reward_model : regressor, AdditiveSlateModel or number, default=None
        A scikit-learn regressor (a classifier for 0/1 rewards); a fitted one as
        `FrozenEstimator(model)`. Its features are the context and, slot after slot,
        those of the candidate shown. Without `item_features` these are indicators of
        its index. In an empty slot they are zeros. `None`: the out-of-fold mean reward.
    cv : int, splitter, iterable or "prefit", default=5
        How rounds are split for cross-fitting: each round is predicted by a model that
        was fitted on other rounds. An int is the number of folds of `KFold` without
        shuffling, or of `GroupKFold` if the logs have groups.
    n_samples : int, default=20
        Slates that are drawn per round from a policy that is not deterministic. `None`:
        the sum over all slates, if there are at most 20,000.
    random_state : int, RandomState instance or None, default=None
        Seed of these draws.

    Attributes
    ----------
    seed_ : int
        The seed that is used: `random_state` if it is an int, otherwise drawn in `fit`.
        A fitted evaluator always gives the same value.
    n_slots_ : int
        Number of slots in the logs of `fit`.

    See Also
    --------
    SlateDoublyRobust : Corrects an additive model by the logged rewards.

    Notes
    -----
    Predictions are clipped to `logs.reward_range`, if that is known. An
    `AdditiveSlateModel` needs no draws: slot marginals give its mean over the slates of
    a random policy. This mean is clipped, not the prediction for each slate.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from skope_ope import SlateDirectMethod
    >>> from skope_ope.datasets import make_slate_logs
    >>> logs = make_slate_logs(random_state=0)
    >>> evaluator = SlateDirectMethod(reward_model=DecisionTreeRegressor(max_depth=3))
    >>> import warnings
    >>> warnings.simplefilter("ignore")  # of the error of the model
    >>> value = evaluator.fit(logs).score(np.tile([0, 1, 2], (1000, 1)))
    >>> 0 < value < 3
    True
    """

    _parameter_constraints: dict = {
        **REWARD_MODEL_CONSTRAINTS,
        "n_samples": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }
    leaves_bias_out = "the error of the reward model"
    requires = Requires(weights=False, model=True, logs=(SlateLogs,))

    def __init__(
        self,
        *,
        reward_model: Any = None,
        cv: SplitterLike | Literal["prefit"] = 5,
        n_samples: int = 20,
        random_state: RandomSeed = None,
    ) -> None:
        self.reward_model = reward_model
        self.cv = cv
        self.n_samples = n_samples
        self.random_state = random_state

    def _fitted(self, logs, reward_model, progress=untold):
        found = super()._fitted(logs, reward_model, progress)
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(2**31 - 1)
        return found | {"seed_": int(seed)}

    def _unstated_model(self):
        drawn = not needs_no_draws(getattr(self.reward_model_, "model", None))
        if drawn and self.n_samples is not None:
            return (
                f"its n_samples={self.n_samples} slates are drawn for all rounds "
                "in turn. Pass n_samples=None, which sums over all slates, or use "
                "an AdditiveSlateModel."
            )
        return super()._unstated_model()

    def slate_terms(self, target, logs):
        source = self.reward_model_
        if needs_no_draws(getattr(source, "model", None)):
            values = _in_reward_range(policy_values(source, target, logs), logs)
        elif target.slates is not None:
            values = slate_values(source, logs, target.slates)
        elif self.n_samples is None:
            values = _summed(source, target, logs)
        else:
            rng = check_random_state(self.seed_)
            draws = (
                slate_values(source, logs, target.sample(logs, rng))
                for _ in range(self.n_samples)
            )
            values = sum(draws) / self.n_samples
        return SlateTerms(
            terms=(values,),
            diagnostics=model_diagnostics(source, logs),
            warnings=[ModelErrorWarning(MODEL_ERROR)],
        )

    def diagnostics_of(self, summary, estimate):
        """Return nothing, and a warning of the error that is left out."""
        return {}, [ModelErrorWarning(MODEL_ERROR)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.constant_reward = True
        tags.parameters_after_model = ("n_samples", "random_state")
        return tags


def needs_no_draws(model):
    """Tell whether a policy's slot marginals give its mean under the model."""
    return isinstance(model, (AdditiveSlateModel, MeanSlateModel))


def slate_values(source, logs, slates):
    """Model values of slates, within the range of the rewards."""

    def call(model, rounds, rows):
        return model.predict(rounds, slates[rows])

    return _in_reward_range(source.predict(logs, call), logs)


def policy_values(source, target, logs):
    """Model values of a policy, from its slot marginals; they are not clipped."""

    def call(model, rounds, rows):
        if isinstance(model, MeanSlateModel):
            return model.predict(rounds, None)
        if target.slates is not None:
            return model.predict(rounds, target.slates[rows])
        values = np.empty(len(rounds))
        for part, some, q in chunks(target, rounds):
            values[part] = model.expect(some, q)
        return values

    return source.predict(logs, call)


def _summed(source, target, logs):
    """Sum the model over all slates that the policy may compose."""
    n_candidates, n_slots = logs.max_candidates, logs.n_slots
    if (n_candidates + 1) ** n_slots > MAX_SLATES:
        raise ValueError(
            f"n_samples=None sums over all slates, but {n_slots} slots of "
            f"{n_candidates} candidates have more than {MAX_SLATES:,} slates. Pass "
            "a number of draws, n_samples=20."
        )
    values = np.zeros(len(logs))
    for slate in product(range(EMPTY, n_candidates), repeat=n_slots):
        slates = np.tile(slate, (len(logs), 1))
        proba = target.slate_proba(logs, slates)
        rows = np.flatnonzero(proba)
        if rows.size:
            found = slate_values(source, logs[rows], slates[rows])
            values[rows] += proba[rows] * found
    return values


def _in_reward_range(values, logs):
    return values if logs.reward_range is None else np.clip(values, *logs.reward_range)


def model_diagnostics(source, logs):
    """Return what is known of the model's fit, by name."""

    def r2():
        gap = logs.reward - slate_values(source, logs, logs.slate)
        spread = ((logs.reward - logs.reward.mean()) ** 2).sum()
        return float(1 - (gap**2).sum() / spread) if spread else float("nan")

    return {"uncovered_rounds": source.n_uncovered_, "model_r2": r2}
