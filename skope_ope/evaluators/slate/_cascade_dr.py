# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Doubly robust slot by slot, for readers who go from the first slot to the last.

Under the cascade assumption, :math:`Q_j(x, s_1, \ldots, s_j)` is the expected reward of
the slots j, j+1, ... where the later ones are filled by the policy. It obeys

.. math:: Q_j(s_{1..j}) = E[r_j|x, s_{1..j}] + \sum_a \pi(a|x, s_{1..j})\,
    Q_{j+1}(s_{1..j}, a)

so that one regression per slot, from the last to the first, fits it.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from skope_ope._sklearn import HasMethods
from skope_ope._types import SplitterLike
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._slate_target import SlateTarget
from skope_ope.evaluators.core._slates import SlateTerms
from skope_ope.evaluators.slate._base import SlateEvaluator, known_support, never_shown
from skope_ope.evaluators.slate._slate_ips import prefix_weights
from skope_ope.logs import SlateLogs
from skope_ope.logs._folds import FULL, UNCOVERED, HeldOut
from skope_ope.logs._validation import EMPTY, column_weights
from skope_ope.reward_models._slate_reward_models import (
    ItemColumns,
    expected_reward,
    fit_design,
    slate_design,
)
from skope_ope.reward_models._sources import refuse_non_models


class CascadeDR(SlateEvaluator):
    r"""Doubly robust under the cascade assumption [1]_.

    .. math:: \hat V = \frac1n \sum_i \sum_j \Big[ w_{i,1..j}\,
        \big(r_{ij} - \hat Q_j(x_i, s_{i,1..j})\big) + w_{i,1..j-1} \sum_a
        \pi(a|x_i, s_{i,1..j-1})\, \hat Q_j(x_i, s_{i,1..j-1}, a) \Big]

    with the weights of `CascadeIPS`. The model :math:`\hat Q_j` predicts the reward of
    slot j and of all later slots under the policy. Unbiased if `CascadeIPS` is
    unbiased, for any model. A good model lowers the variance. Read more in the
    :ref:`User Guide <slates>`.

    Parameters
    ----------
    reward_model : regressor or number, default=None
        A scikit-learn regressor of the context and the features of the slots so far,
        cloned for every slot and refitted for every policy. A classifier can only be
        used for slates of one slot with rewards of 0 and 1, because it cannot predict
        sums of rewards. A number is used for all predictions. `None`: the mean of the
        summed rewards of slot j and later slots.
    cv : int, splitter or iterable, default=5
        How rounds are split for cross-fitting: each round is predicted by a model that
        was fitted on other rounds. An int is the number of folds of `KFold` without
        shuffling, or of `GroupKFold` if the logs have groups.

    Attributes
    ----------
    n_slots_ : int
        Number of slots in the logs of `fit`.

    See Also
    --------
    CascadeIPS : Without a model.

    References
    ----------
    .. [1] Kiyohara, H., et al. (2022). Doubly robust off-policy evaluation for ranking
       policies under the cascade behavior model. WSDM.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from skope_ope import CascadeDR
    >>> from skope_ope.datasets import make_slate_logs
    >>> logs, policy, truth = make_slate_logs(
    ...     2000, reward="cascade", logging="uniform", target_temperature=1.0,
    ...     random_state=0, return_truth=True,
    ... )
    >>> result = CascadeDR(reward_model=Ridge()).fit(logs).evaluate(policy)
    >>> low, high = result.confidence_interval()
    >>> bool(low < truth.value < high)
    True
    """

    _parameter_constraints: dict = {
        "reward_model": [HasMethods(["fit", "predict"]), Real, None],
        "cv": ["cv_object"],
    }
    requires = Requires(
        weights=False, model=True, logs=(SlateLogs,), slates=("logger", "slot_reward")
    )

    def __init__(self, *, reward_model: Any = None, cv: SplitterLike = 5) -> None:
        self.reward_model = reward_model
        self.cv = cv

    def _fitted_model(self, logs, reward_model, progress):
        model = self._one_model(reward_model)
        known = model is None or isinstance(model, Real) or hasattr(model, "fit")
        if isinstance(model, (type, bool)) or not known:
            raise TypeError(
                "reward_model of CascadeDR must be a scikit-learn regressor, which "
                f"is refitted for every policy, a number or None; got {model!r}."
            )
        refuse_non_models(model, "reward_model")
        if hasattr(model, "fit") and is_classifier(model):
            _check_classes(model, logs)
        return {"model_": model, "reward_model_": HeldOut(logs, self.cv)}

    def _fittable(self, model):
        raise ValueError(
            "CascadeDR fits its reward model to all rounds for every policy, which "
            "is not possible when a log is read in parts. Pass a number, use "
            "CascadeIPS, or load rounds into memory: lazy.sample(1_000_000)."
        )

    def _given_source(self, model, logs):
        number = isinstance(model, Real) and not isinstance(model, bool)
        return model if number else None

    def _take_source(self, source):
        model = getattr(source, "model", None)  # of a source for other evaluators
        self.model_ = getattr(model, "number", source)
        self.reward_model_ = _InNoFit()

    def _unstated_model(self):
        if isinstance(self.model_, Real):
            return None
        return (
            "its reward model is fitted to all rounds for every policy. Pass a "
            "number, or use CascadeIPS."
        )

    def slate_terms(self, target, logs):
        values = np.empty(len(logs))
        fold = self.reward_model_.of(logs)
        for k in np.unique(fold).tolist():
            rows = np.flatnonzero(fold == k)
            model = self._model(target, k)
            values[rows] = _values(model, rounds_of(target, rows))
        w = prefix_weights(target, logs)
        found = SlateTerms(
            terms=(values,),
            weight=w[:, -1],
            instead=w.mean(axis=1),
            **known_support(never_shown(target, logs, self.shows), self.shows),
        )
        found.diagnostics["uncovered_rounds"] = int((fold == UNCOVERED).sum())
        return found

    def _model(self, target, fold):
        """Return the model for the rounds of a fold, fitted for the policy."""
        target.require_policy()  # what is not a policy raises
        origin = self._on_rounds_of_fit(target)
        if fold in (FULL, UNCOVERED):
            return CascadeModel(None if fold == UNCOVERED else self.model_, origin)
        rows = self.reward_model_.train[fold]
        return CascadeModel(self.model_, rounds_of(origin, rows))

    def _on_rounds_of_fit(self, target):
        """Return the policy on the rounds of `fit`, from which the model learns."""
        if target.logs.row_id == self.logs_.row_id:
            return target
        if target.is_array:
            raise ValueError(
                "CascadeDR fits its reward model to the rounds of fit, but the "
                "array has the policy's slates of other rounds only. Add the "
                "slates of all rounds with logs.with_columns(name=...) and pass "
                "the column's name, or pass a slate policy."
            )
        return SlateTarget(target.policy, self.logs_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.refits_reward_model = tags.consistent = True
        return tags


class _InNoFit:
    """Tells the folds of rounds that were in no fit: a number needs none."""

    def __repr__(self):
        return "no folds"

    def of(self, logs):
        """Return the fold of every round."""
        return np.full(len(logs), FULL)


def _check_classes(model, logs):
    """Raise where a classifier cannot model what a slot and those after it bring."""
    found = f"sums of the rewards of up to {logs.n_slots} slots"
    if logs.n_slots == 1:
        if np.isin(logs.slot_reward, (0, 1)).all():
            return
        found = "slot rewards other than 0 and 1"
    raise ValueError(
        f"the classifier {type(model).__name__} models rewards of 0 and 1, but "
        f"CascadeDR models {found} here. Pass a regressor."
    )


def _values(model, target):
    """Doubly robust values of rounds."""
    logs = target.logs
    weight = prefix_weights(target, logs)
    before = np.ones(len(logs))
    values = np.zeros(len(logs))
    for slot in range(logs.n_slots):
        q = model.shown(slot, logs, logs.slate)
        values += weight[:, slot] * (logs.slot_reward[:, slot] - q)
        values += before * model.expected(slot, target)
        before = weight[:, slot]
    return values


class CascadeModel:
    """One regression per slot."""

    def __init__(self, model, target):
        logs = target.logs
        n_slots = logs.n_slots
        if not hasattr(model, "fit"):
            weight = column_weights(logs)
            later = np.average(logs.slot_reward, axis=0, weights=weight)
            later = later[::-1].cumsum()[::-1]
            self.models = list(later if model is None else np.full(n_slots, model))
            return
        self.models = [None] * n_slots
        self.items = ItemColumns(logs)
        following = 0.0
        for slot in range(n_slots - 1, -1, -1):
            y = logs.slot_reward[:, slot] + following
            X = slate_design(logs, first_slots(logs.slate, slot))
            self.models[slot] = fit_design(model, X, y)
            following = self.expected(slot, target) if slot else 0.0

    def shown(self, slot, logs, slates):
        """Q of slot `slot` for slates, of which later slots are not looked at."""
        model = self.models[slot]
        if not hasattr(model, "predict"):
            return np.full(len(logs), float(model))
        self.items.check(logs)
        X = slate_design(logs, first_slots(slates, slot))
        return expected_reward(model, X)

    def expected(self, slot, target):
        """Mean of Q of slot `slot` where the policy fills it after the logged ones."""
        logs = target.logs
        if target.slates is not None:
            slates = logs.slate.copy()
            slates[:, slot] = target.slates[:, slot]
            return self.shown(slot, logs, slates)
        before = np.ones(len(logs))
        if slot:
            before = target.prefix_proba(logs, logs.slate)[:, slot - 1]
        total = np.zeros(len(logs))
        for candidate in range(EMPTY, logs.max_candidates):
            slates = first_slots(logs.slate, slot)
            slates[:, slot] = candidate
            proba = target.prefix_proba(logs, slates)[:, slot]
            rows = np.flatnonzero(proba)
            if rows.size:
                q = self.shown(slot, logs[rows], slates[rows])
                total[rows] += proba[rows] / before[rows] * q
        return total


def first_slots(slates, slot):
    """Return slates that are empty after slot `slot`."""
    slates = slates.copy()
    slates[:, slot + 1 :] = EMPTY
    return slates


def rounds_of(target, rows):
    """Return the policy on some of its rounds."""
    return SlateTarget(target.policy, target.logs[rows])
