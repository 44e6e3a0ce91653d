# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Inverse propensity scoring of whole slates."""

from __future__ import annotations

from functools import partial

from skope_ope.evaluators.core import _functions
from skope_ope.evaluators.core._overlap_findings import slate_support_findings
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._slates import SlateTerms
from skope_ope.evaluators.core._warnings import warnings_of
from skope_ope.evaluators.slate._base import SlateEvaluator, logged_proba
from skope_ope.evaluators.slate._support import are_logged_by_slot, which_never_shown
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
        never = which_never_shown(target, logs, "slate_proba")
        lost = float("nan") if never is None else float(never.mean())
        found = SlateTerms(
            terms=(w * logs.reward,),
            weight=w,
            supported=not lost > 0,
            diagnostics={"unsupported_share": lost},
            warnings=warnings_of(slate_support_findings(lost, "slates")),
            follows_reward=True,
            plain=True,
            possible=float(1 / p.min(initial=1.0)),
        )
        if not self.self_normalized:
            found.informs = partial(are_logged_by_slot, target)
        if self.self_normalized:
            found.terms, found.combine = (*found.terms, w), _functions.ratio
            # what is never shown has no weight: the value is that of the other rounds
            found.known = None if never is None else ~never
        return found

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.on_policy_mean = tags.consistent = True
        tags.constant_reward = tags.shift_equivariant = self.self_normalized
        return tags
