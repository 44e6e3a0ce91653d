# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The pseudoinverse estimator around an additive reward model."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from skope_ope._types import SplitterLike
from skope_ope.evaluators.core._functions import sum_of_two
from skope_ope.evaluators.core._requires import REWARD_MODEL_CONSTRAINTS, Requires
from skope_ope.evaluators.slate._pseudo_inverse import PseudoInverseEvaluator
from skope_ope.evaluators.slate._slate_direct_method import (
    model_diagnostics,
    policy_values,
)
from skope_ope.logs import SlateLogs
from skope_ope.reward_models import AdditiveSlateModel
from skope_ope.reward_models._slate_reward_models import MeanSlateModel


def additive_only(model):
    """Return the model if it is a sum over slots, raise otherwise."""
    # None is `AdditiveSlateModel()`.
    if model is None:
        return AdditiveSlateModel()
    if isinstance(model, (AdditiveSlateModel, MeanSlateModel)):
        return model
    raise TypeError(
        "reward_model of SlateDoublyRobust must be an AdditiveSlateModel, a number "
        f"or None, got {type(model).__name__}. Any other model would add a bias, "
        "because the weights are exact only for sums of slot rewards. Pass "
        f"AdditiveSlateModel({type(model).__name__}(...)), or use "
        "SlateDirectMethod."
    )


class SlateDoublyRobust(PseudoInverseEvaluator):
    r"""Additive reward model, corrected by pseudoinverse weights.

    .. math:: \hat V = \frac1n \sum_i \Big[ \sum_s \pi(s|x_i)\, \hat r(x_i, s)
        + W_i (r_i - \hat r(x_i, s_i)) \Big]

    with the weights of `PseudoInverse`. If `PseudoInverse` is unbiased, this is too,
    whatever the model predicts. The model must be a sum over slots, because the weights
    are exact for such sums only: any other model could add a bias. So `reward_model`
    must be an `AdditiveSlateModel`, around any regressor. Read more in the
    :ref:`User Guide <slates>`.

    The model's constant b is such a sum only if at least one slot is always filled.
    Otherwise the weights count it :math:`e_x` times, their known mean (see
    `PseudoInverse`). The mean of the model then counts it :math:`e_x` times too: it is
    :math:`\sum_s \pi(s|x) \hat r(x, s) - (1 - e_x) b`.

    Parameters
    ----------
    reward_model : AdditiveSlateModel or number, default=None
        The model, cross-fitted; a fitted one as `FrozenEstimator(model)`. `None`:
        `AdditiveSlateModel()`.
    cmax : float, default=None
        Upper bound on the weights. `None` keeps them as they are.
    cv : int, splitter, iterable or "prefit", default=5
        How rounds are split for cross-fitting: each round is predicted by a model that
        was fitted on other rounds. An int is the number of folds of `KFold` without
        shuffling, or of `GroupKFold` if the logs have groups.
    outside_range : {"exclude", "raise"}, default="exclude"
        What happens to rounds in which the policy is outside of the range of the
        logger's second moments, see `PseudoInverse`.

    Attributes
    ----------
    n_slots_ : int
        Number of slots in the logs of `fit`.

    See Also
    --------
    PseudoInverse : Without a reward model.
    SlateDirectMethod : Without the correction.

    Examples
    --------
    >>> from skope_ope import SlateDoublyRobust
    >>> from skope_ope.datasets import make_slate_logs
    >>> logs, policy, truth = make_slate_logs(
    ...     2000, logging="uniform", random_state=0, return_truth=True
    ... )
    >>> result = SlateDoublyRobust().fit(logs).evaluate(policy)
    >>> low, high = result.confidence_interval()
    >>> bool(low < truth.value < high)
    True
    """

    _parameter_constraints: dict = {
        **REWARD_MODEL_CONSTRAINTS,
        **PseudoInverseEvaluator._parameter_constraints,
    }
    requires = Requires(
        weights=False, model=True, logs=(SlateLogs,), slates=("logger",)
    )
    _fittable = staticmethod(additive_only)

    def __init__(
        self,
        *,
        reward_model: Any = None,
        cmax: float | None = None,
        cv: SplitterLike | Literal["prefit"] = 5,
        outside_range: Literal["exclude", "raise"] = "exclude",
    ) -> None:
        self.reward_model = reward_model
        self.cmax = cmax
        self.cv = cv
        self.outside_range = outside_range

    def _terms(self, w, weights, target, logs):
        source = self.reward_model_

        def logged(model, rounds, rows):
            return model.predict(rounds, rounds.slate)

        # a clipped prediction would be no sum over slots any more
        correction = w * (logs.reward - source.predict(logs, logged))
        if weights.expected is not None:
            correction -= (1 - weights.expected) * source.predict(logs, constant)
        known = {"correction": float(np.mean(correction))}
        return {
            "terms": (correction, policy_values(source, target, logs)),
            "combine": sum_of_two,
            "smooth": (1,),
            "diagnostics": known | model_diagnostics(source, logs),
        }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.constant_reward = True
        tags.consistent = self.cmax is None
        tags.parameters_after_model = ("cmax", "outside_range")
        return tags


def constant(model, rounds, rows):
    """Return what the model predicts for empty slates."""
    known = model.mean_ if isinstance(model, MeanSlateModel) else model.intercept_
    return np.full(len(rounds), float(known))
