# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Deviation bounds of exploration scavenging, for rewards in [0, 1]."""

import numpy as np

METHODS = ("azuma", "hoeffding")


def history_bound(counts, n_rounds, n_arms, delta, method="azuma"):
    r"""Bound where the logger may look at the past, but not at the context.

    .. math:: \sum_a \sqrt{2 \ln(2 k T / \delta) / T_a}

    is Theorem 3 of the paper; its terms have a conditional range of one, not two, so
    that half of it holds as well (`method="hoeffding"`).

    Parameters
    ----------
    counts : array-like
        :math:`T_a` of the arms that the policy can play.
    n_rounds, n_arms : int
        T and k.
    delta : float
        Probability with which the bound may fail.
    method : {"azuma", "hoeffding"}, default="azuma"
        The paper's constant, or the sharp one.
    """
    counts = np.asarray(counts, dtype=float)
    if (counts == 0).any():
        return float("inf")
    bound = np.sqrt(2 * np.log(2 * n_arms * n_rounds / delta) / counts).sum()
    return float(bound if method == "azuma" else bound / 2)


def uniform_bound(n_rounds, n_arms, delta, method="azuma"):
    r"""Bound of :math:`(k/T) \sum_t r_t h(a_t|x_t)` under uniform logging.

    :math:`k \sqrt{2 \ln(2 k / \delta) / T}` is Theorem 5 of the paper; there is one
    sum only, so that :math:`2 / \delta` serves (`method="hoeffding"`).

    Parameters
    ----------
    n_rounds, n_arms : int
        T and k.
    delta : float
        Probability with which the bound may fail.
    method : {"azuma", "hoeffding"}, default="azuma"
        The paper's constant, or the smaller one.
    """
    union = n_arms if method == "azuma" else 1
    return float(n_arms * np.sqrt(2 * np.log(2 * union / delta) / n_rounds))


def check_method(method):
    """Raise unless the method is known."""
    if method not in METHODS:
        raise ValueError(f"method must be 'azuma' or 'hoeffding', got {method!r}.")


def reward_span(reward, reward_range):
    """Return the range in which a reward that may be left out lies.

    The rewards that the policy does not want count as 0, so the range includes it.
    """
    if reward_range is None:
        low, high = float(reward.min()), float(reward.max())
        if low < 0 or high > 1:
            raise ValueError(
                "the bound is for rewards in [0, 1]; these reach from "
                f"{low:.6g} to {high:.6g}. Pass reward_range=(low, high), known "
                "beforehand, to the logs or to deviation_bound."
            )
        return 1.0
    low, high = reward_range
    return max(float(high), 0.0) - min(float(low), 0.0)
