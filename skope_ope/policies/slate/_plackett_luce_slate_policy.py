# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rankings drawn slot by slot by weights of the candidates, equal ones too."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from skope_ope.logs._validation import as_numbers
from skope_ope.policies.slate._ranking_distribution import RankingDistribution
from skope_ope.policies.slate._slate_tables import offered_slots, row_values

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, Self

    from skope_ope._types import ArrayLike
    from skope_ope.logs._slate_logs import SlateLogs


class PlackettLuceSlatePolicy(RankingDistribution):
    r"""Draw candidates slot by slot, without repetition, in proportion to weights.

    .. math:: \pi(s|x) = \prod_j \frac{w_{s_j}}{\sum_{a \notin s_{1..j-1}} w_a}

    A round that offers fewer candidates than slots leaves the last slots empty.

    Parameters
    ----------
    weights : array-like of shape (n_candidates,), callable or str
        Positive weights of the candidates. An array is used in every round. It can also
        be a function of the logs, or the name of a column. The last two have the shape
        (n_rounds, n_candidates) or (n_candidates,). Weights of candidates that are not
        offered are ignored.
    n_slots : int
        Number of slots.

    See Also
    --------
    PlackettLuceSlatePolicy.from_ranks : Weights from ranks.
    RankingPolicy : Weights from a regressor.

    Notes
    -----
    Moments are exact. They are computed by dynamic programming over the sets of
    candidates that earlier slots may have taken. If weights repeat, it runs over the
    number of candidates taken of every weight. Rounds with the same weights in another
    order share one distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import PlackettLuceSlatePolicy, SlateLogs
    >>> logs = SlateLogs(np.zeros((1, 1)), [[2, 0]], [1.0])
    >>> policy = PlackettLuceSlatePolicy([1, 1, 2], n_slots=2)
    >>> policy.slate_proba(logs)  # 2/4 times 1/2
    array([0.25])
    >>> policy.slot_marginals(logs).round(3)
    array([[[0.25 , 0.25 , 0.5  ],
            [0.333, 0.333, 0.333]]])
    """

    def __init__(
        self, weights: ArrayLike | Callable[..., Any] | str, n_slots: int
    ) -> None:
        self.weights = weights
        self.n_slots = n_slots

    @classmethod
    def from_ranks(
        cls,
        ranks: ArrayLike | Callable[..., Any] | str,
        n_slots: int,
        *,
        alpha: float = 1.0,
    ) -> Self:
        r"""Return the policy that draws slates close to a ranking, as in [1]_.

        .. math:: w = 2^{-\alpha \lfloor \log_2 rank \rfloor}

        With `alpha` 0 all weights are one, the uniform distribution. A greater `alpha`
        draws slates closer to the ranking. Few weights are distinct, so that moments of
        long slates of many candidates are exact and fast.

        Parameters
        ----------
        ranks : array-like of shape (n_candidates,), callable or str
            Ranks of the candidates; the best is 1. A function of the logs or the name
            of a column gives each round its own, as with `weights`.
        n_slots : int
            Number of slots.
        alpha : float, default=1.0
            How close to the ranking, at least 0.

        Returns
        -------
        policy : PlackettLuceSlatePolicy
            Its `weights` are those of the ranks.

        Raises
        ------
        ValueError
            If `alpha` is negative, or a rank is less than 1.

        References
        ----------
        .. [1] Swaminathan, A., et al. (2017). Off-policy evaluation for slate
           recommendation. NeurIPS 30.

        Examples
        --------
        >>> from skope_ope import PlackettLuceSlatePolicy
        >>> policy = PlackettLuceSlatePolicy.from_ranks([1, 2, 3, 4], 2, alpha=1)
        >>> policy.weights
        array([1.  , 0.5 , 0.5 , 0.25])
        """
        if not alpha >= 0:
            raise ValueError(f"alpha must be at least 0, got {alpha}.")
        if callable(ranks) or isinstance(ranks, str):
            return cls(partial(_weights_on, ranks, alpha), n_slots)
        return cls(rank_weights(as_numbers("ranks", ranks, 1), alpha), n_slots)

    def _items(self, logs):
        weights = check_weights(row_values(self.weights, logs, "weights"), logs)
        offered = offered_slots(logs, self.n_slots)
        weights = np.where(offered, weights[:, None], 0.0).transpose(0, 2, 1)
        wrong = (offered.transpose(0, 2, 1) & ~(weights > 0)).any(axis=2)
        if wrong.any():
            row, candidate = np.argwhere(wrong)[0]
            raise ValueError(
                "weights must be positive, got "
                f"{weights[row, candidate].max():.6g} for candidate {candidate} at row "
                f"{row}. A candidate that cannot be shown is left out by the field "
                "`candidates` of the logs."
            )
        return weights


def check_weights(weights, logs):
    """Return weights as (n_rounds or 1, n_candidates) floats."""
    weights = as_numbers("weights", weights, min(np.ndim(weights), 2), finite=False)
    n_candidates = logs.max_candidates
    shapes = [(n_candidates,), (len(logs), n_candidates)]
    if weights.shape not in shapes:
        raise ValueError(
            f"weights must have shape (n_candidates,) = ({n_candidates},) or "
            f"(n_rounds, n_candidates) = {shapes[1]}, got {weights.shape}."
        )
    weights = np.atleast_2d(weights)
    if not np.isfinite(weights).all():
        # what is not offered may be unknown, but not infinite
        weights = np.where(np.isinf(weights), np.nan, weights)
    return weights


def rank_weights(ranks, alpha):
    """Return weights of ranks, of any shape."""
    if (ranks < 1).any():
        raise ValueError(f"ranks must be at least 1, the best, got {ranks.min():g}.")
    # frexp is exact where a logarithm of a power of two might be rounded down
    return 2.0 ** (-alpha * (np.frexp(ranks)[1] - 1))


def _weights_on(ranks, alpha, logs):
    """Return the weights of ranks that are a column or a function of the logs."""
    ranks = row_values(ranks, logs, "ranks")
    return rank_weights(as_numbers("ranks", ranks, np.ndim(ranks)), alpha)


# -- the slate policy to which all rankings are alike ----------------------------------


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
