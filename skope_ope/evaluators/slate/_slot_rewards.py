# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Inverse propensity scoring of slots whose rewards were logged one by one."""

from __future__ import annotations

import numpy as np

from skope_ope.evaluators.core._overlap_findings import slate_support_findings
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._slate_target import method
from skope_ope.evaluators.core._slates import SlateTerms
from skope_ope.evaluators.core._warnings import warnings_of
from skope_ope.evaluators.slate._base import SlateEvaluator
from skope_ope.evaluators.slate._support import never_shown
from skope_ope.logs import SlateLogs


class IndependentSlotIPS(SlateEvaluator):
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

    requires = Requires(
        weights=False, logs=(SlateLogs,), slates=("logger", "slot_reward")
    )

    def __init__(self) -> None:
        pass

    shows = "slots"

    def slate_terms(self, target, logs):
        logger = method(logs.logging_policy, "marginal_proba")(logs, logs.slate)
        w = target.marginal_proba(logs) / logger
        terms = (np.einsum("nj,nj->n", w, logs.slot_reward),)
        lost = never_shown(target, logs, "marginal_proba")
        return SlateTerms(
            terms=terms,
            weight=w.mean(axis=1),
            supported=not lost > 0,
            diagnostics={"unsupported_share": lost},
            warnings=warnings_of(slate_support_findings(lost, self.shows)),
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.on_policy_mean = tags.consistent = True
        return tags


class CascadeIPS(SlateEvaluator):
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

    requires = Requires(
        weights=False, logs=(SlateLogs,), slates=("logger", "slot_reward")
    )

    def __init__(self) -> None:
        pass

    def slate_terms(self, target, logs):
        w = prefix_weights(target, logs)
        lost = never_shown(target, logs, "slate_proba")
        return SlateTerms(
            terms=(np.einsum("nj,nj->n", w, logs.slot_reward),),
            weight=w[:, -1],
            instead=w.mean(axis=1),
            supported=not lost > 0,
            diagnostics={"unsupported_share": lost},
            warnings=warnings_of(slate_support_findings(lost, "slates")),
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.on_policy_mean = tags.consistent = True
        return tags


def prefix_weights(target, logs):
    """Weights of the first slots of the logged slates, (n_rounds, n_slots)."""
    logger = method(logs.logging_policy, "prefix_proba")(logs, logs.slate)
    return target.prefix_proba(logs, logs.slate) / logger
