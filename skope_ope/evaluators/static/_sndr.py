# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The self-normalised doubly robust estimator."""

from __future__ import annotations

from skope_ope.evaluators.core import _functions
from skope_ope.evaluators.static._doubly_robust import DoublyRobustBase


class SNDR(DoublyRobustBase):
    r"""Doubly robust with a self-normalised correction.

    .. math:: \hat V = \frac1n \sum_i \sum_a \pi(a|x_i)\, \hat q(x_i, a)
        + \frac{\sum_i w_i (r_i - \hat q(x_i, a_i))}{\sum_i w_i}

    Parameters
    ----------
    reward_model : model, number, array or str, default=None
        See `DoublyRobust`.
    cv : int, splitter, iterable or "prefit", default=5
        How rounds are split for cross-fitting, see `DoublyRobust`.

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    DoublyRobust : Divides the correction by the number of rounds.
    SNIPS : The same without a model.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import SNDR, BanditLogs
    >>> logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0], [0.5] * 4)
    >>> evaluator = SNDR(reward_model=0.5).fit(logs)
    >>> evaluator.score(np.tile([0.25, 0.75], (4, 1)))
    0.5
    """

    combine = staticmethod(_functions.mean_plus_ratio)

    def terms(self, rounds):
        return rounds.v, rounds.correction, rounds.w

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.on_policy_mean = tags.consistent = True
        return tags
