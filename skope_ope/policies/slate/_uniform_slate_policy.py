# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The slate policy to which all rankings are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skope_ope.policies.slate._ranking_distribution import RankingDistribution
from skope_ope.policies.slate._slate_tables import offered_slots

if TYPE_CHECKING:
    from typing import Literal

    from skope_ope.logs._slate_logs import SlateLogs


class UniformSlatePolicy(RankingDistribution):
    """Compose slates without repetition, with every order equally likely.

    A round that offers fewer candidates than slots leaves the last slots empty. If
    `logs.candidates` differ by slot, each slot in turn takes any of its candidates
    that no earlier slot shows.

    Parameters
    ----------
    n_slots : int
        Number of slots.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import SlateLogs, UniformSlatePolicy
    >>> logs = SlateLogs(np.zeros((2, 1)), [[2, 0], [1, 2]], [1.0, 0.0])
    >>> UniformSlatePolicy(2).slate_proba(logs).round(4)
    array([0.1667, 0.1667])
    """

    _takes_all_alike = True  # in every slot, of what is offered there and is left

    def __init__(self, n_slots: int) -> None:
        self.n_slots = n_slots

    def _items(self, logs):
        return offered_slots(logs, self.n_slots).transpose(0, 2, 1).astype(float)

    def closed_form(self, logs: SlateLogs) -> Literal["uniform", "product"] | None:
        """Return the form of the distribution, if its pseudoinverse is known.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.

        Returns
        -------
        form : {"uniform", "product"} or None
            "product" if no candidate is offered to two slots.
        """
        offered = offered_slots(logs, self.n_slots)
        if offered.shape[1] == 1:
            return "uniform"
        return "product" if (offered.sum(axis=1) <= 1).all() else None
