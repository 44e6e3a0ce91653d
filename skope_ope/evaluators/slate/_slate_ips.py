# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Inverse propensity scoring of slates: whole, by slots, and by first slots."""

from __future__ import annotations

from functools import partial

import numpy as np

from skope_ope.evaluators.core import _functions
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._slate_target import SlateTarget, method
from skope_ope.evaluators.core._slates import SlateTerms
from skope_ope.evaluators.slate._base import (
    SlateEvaluator,
    chunks,
    known_support,
    never_shown,
)
from skope_ope.logs import SlateLogs


class SlateIPS(SlateEvaluator):
    r"""Inverse propensity scoring of whole slates.

    .. math:: \hat V = \frac1n \sum_i \frac{\pi(s_i|x_i)}{\mu(s_i|x_i)} r_i

    Unbiased for any value of slates, if the logger may compose every slate that the
    policy may compose. A logged slate counts only if the policy could have composed
    exactly this slate. So the variance grows with the number of slates. Read more in
    the :ref:`User Guide <slates>`.

    Parameters
    ----------
    self_normalized : bool, default=False
        Divide by the sum of the weights, not by the number of rounds.

    Attributes
    ----------
    n_slots_ : int
        Number of slots in the logs of `fit`.

    See Also
    --------
    PseudoInverse : Far less variance where the value is a sum over slots.

    Notes
    -----
    The logger's probabilities are the logs' `propensity` or, where that is None,
    those of their `logging_policy`. Where no logged slate has a positive probability
    under the policy, the sum is 0. It is the value, with a warning, where in some
    rounds all that the policy shows was logged in the same slots, in other slates.
    Otherwise, and with `self_normalized`, the value is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import SlateIPS, SlateLogs
    >>> logs = SlateLogs(
    ...     np.zeros((4, 1)), [[0, 1], [1, 0], [0, 1], [1, 0]], [1, 0, 0.5, 0.25],
    ...     propensity=[0.5] * 4,
    ... )
    >>> SlateIPS().fit(logs).score(np.tile([0, 1], (4, 1)))
    0.75
    """

    _parameter_constraints: dict = {"self_normalized": ["boolean"]}

    requires = Requires(weights=False, logs=(SlateLogs,), slates=("propensity",))

    def __init__(self, *, self_normalized: bool = False) -> None:
        self.self_normalized = self_normalized

    def slate_terms(self, target, logs):
        p = logged_proba(logs)
        w = target.slate_proba(logs) / p
        never = never_shown(target, logs, self.shows)
        found = SlateTerms(
            terms=(w * logs.reward,),
            weight=w,
            follows_reward=True,
            plain=True,
            possible=float(1 / p.min(initial=1.0)),
            **known_support(never, self.shows),
        )
        if self.self_normalized:
            found.terms, found.combine = (*found.terms, w), _functions.ratio
            # what is never shown has no weight: the value is that of the other rounds
            found.known = None if never is None else ~never
        else:
            found.informs = partial(are_logged_by_slot, target)
        return found

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.on_policy_mean = tags.consistent = True
        tags.constant_reward = tags.shift_equivariant = self.self_normalized
        return tags


def logged_proba(logs):
    """Probability of the logged slates under the logger."""
    if logs.propensity is not None:
        return logs.propensity
    return method(logs.logging_policy, "slate_proba")(logs, logs.slate)


def are_logged_by_slot(target, omega, rows=None):
    """Return in which rounds all that a policy shows was logged in the same slots."""
    # Zeros and ones: other slates of the log, or of some of its rows, have what the
    # policy shows, though none of them is what it would have shown. Rounds of sample
    # weight zero say nothing.
    if rows is not None:
        target = SlateTarget(target.policy, target.logs[rows])
    logs = target.logs
    logged = np.zeros((logs.n_slots, logs.max_candidates + 1), dtype=bool)
    slots = np.arange(logs.n_slots)
    seen = logs.slate if omega is None else logs.slate[omega > 0]
    logged[slots, seen] = True  # an empty slot is the last candidate
    if target.slates is not None:
        return logged[slots, target.slates].all(axis=1).astype(float)
    found = np.empty(len(logs))
    for rows, _, q in chunks(target, logs):
        found[rows] = ~((q > 0) & ~logged[:, :-1]).any(axis=(1, 2))
    return found


class SlotIPS(SlateEvaluator):
    """Base class of evaluators that weigh the rewards of slots one by one."""

    requires = Requires(
        weights=False, logs=(SlateLogs,), slates=("logger", "slot_reward")
    )

    def __init__(self) -> None:
        pass

    def slate_terms(self, target, logs):
        w = self._slot_weights(target, logs)
        weight, instead = w.mean(axis=1), None
        if self.shows == "slates":
            weight, instead = w[:, -1], weight
        return SlateTerms(
            terms=(np.einsum("nj,nj->n", w, logs.slot_reward),),
            weight=weight,
            instead=instead,
            **known_support(never_shown(target, logs, self.shows), self.shows),
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.on_policy_mean = tags.consistent = True
        return tags


class IndependentSlotIPS(SlotIPS):
    r"""Slot by slot, where a slot's reward depends on its own candidate only [1]_.

    .. math:: \hat V = \frac1n \sum_i \sum_j
        \frac{\pi_j(s_{ij}|x_i)}{\mu_j(s_{ij}|x_i)}\, r_{ij}

    with the slot marginals :math:`\pi_j` and :math:`\mu_j` (IIPS). Unbiased if
    :math:`E[r_j|x, s]` depends on :math:`s_j` only. Biased if readers compare slots or
    stop early. Read more in the :ref:`User Guide <slates>`.

    Attributes
    ----------
    n_slots_ : int
        Number of slots in the logs of `fit`.

    See Also
    --------
    CascadeIPS : Where earlier slots matter, too.
    PseudoInverse : Where only the reward of the whole slate was logged.

    References
    ----------
    .. [1] Li, S., et al. (2018). Offline evaluation of ranking policies with click
       models. KDD.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import IndependentSlotIPS, SlateLogs, UniformSlatePolicy
    >>> logs = SlateLogs(
    ...     np.zeros((4, 1)), [[0, 1], [1, 0], [0, 1], [1, 0]], None,
    ...     slot_reward=[[1, 0], [0, 1], [0, 1], [1, 0]],
    ...     logging_policy=UniformSlatePolicy(2),
    ... )
    >>> IndependentSlotIPS().fit(logs).score(np.tile([0, 1], (4, 1)))
    1.0
    """

    shows = "slots"

    def _slot_weights(self, target, logs):
        logger = method(logs.logging_policy, "marginal_proba")(logs, logs.slate)
        return target.marginal_proba(logs) / logger


class CascadeIPS(SlotIPS):
    r"""Slot by slot, where a slot's reward depends on it and those before [1]_.

    .. math:: \hat V = \frac1n \sum_i \sum_j
        \frac{\pi(s_{i1}, \ldots, s_{ij}|x_i)}{\mu(s_{i1}, \ldots, s_{ij}|x_i)}\, r_{ij}

    This is the reward-interaction estimator (RIPS). Unbiased if readers go from the
    first slot to the last, so that :math:`E[r_j|x, s]` depends on
    :math:`s_1, \ldots, s_j` only. Read more in the :ref:`User Guide <slates>`.

    Attributes
    ----------
    n_slots_ : int
        Number of slots in the logs of `fit`.

    See Also
    --------
    IndependentSlotIPS : Less variance, where slots do not touch each other.
    CascadeDR : With a reward model.
    SlateIPS : Without an assumption.

    References
    ----------
    .. [1] McInerney, J., et al. (2020). Counterfactual evaluation of slate
       recommendations with sequential reward interactions. KDD.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import CascadeIPS, SlateLogs, UniformSlatePolicy
    >>> logs = SlateLogs(
    ...     np.zeros((4, 1)), [[0, 1], [1, 0], [0, 1], [1, 0]], None,
    ...     slot_reward=[[1, 0], [0, 1], [0, 1], [1, 0]],
    ...     logging_policy=UniformSlatePolicy(2),
    ... )
    >>> CascadeIPS().fit(logs).score(np.tile([0, 1], (4, 1)))
    1.0
    """

    def _slot_weights(self, target, logs):
        return prefix_weights(target, logs)


def prefix_weights(target, logs):
    """Weights of the first slots of the logged slates, (n_rounds, n_slots)."""
    logger = method(logs.logging_policy, "prefix_proba")(logs, logs.slate)
    return target.prefix_proba(logs, logs.slate) / logger
