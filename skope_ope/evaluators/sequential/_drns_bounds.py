# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The theorems about DR-ns as numbers."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np

from skope_ope._sklearn import Interval, validate_params
from skope_ope.evaluators.sequential._sequential_value import check_unit_interval


def drns_bound(result, delta, *, max_weight=None, form="sharp"):
    """Return the radius of Theorem 2 of the paper, for a single trace."""
    terms = result.bound_terms
    if max_weight is None:
        raise ValueError(
            "Theorem 2 needs max_weight: a bound on pi(a|x, h) / p in all rounds, "
            "known in advance."
        )
    if form not in ("sharp", "paper"):
        raise ValueError(f"form must be 'sharp' or 'paper', got {form!r}.")
    if not terms["single"]:
        raise ValueError(
            "Theorem 2 is about a single normalised trace and its "
            "progressive-validation policy. Use horizon=None, n_splits=1 and "
            "normalize=True."
        )
    if terms["seen_ahead"] is None:
        raise ValueError(
            "Theorem 2 needs a reward model fitted to other rounds, and this one "
            "was cross-fitted on the evaluated rounds. Pass a number, or "
            "FrozenEstimator(model) fitted on other rounds, or evaluate on logs "
            "other than those of fit. Or use the mean of earlier rounds: "
            "reward_model=None, cv=TimeSeriesSplit()."
        )
    check_unit_interval("rewards", result.reward_bounds)
    check_unit_interval("model values", terms["model_range"])
    if not terms["largest_weight"] <= max_weight * (1 + 1e-9) < np.inf:
        raise ValueError(
            f"max_weight={max_weight:.6g} is not a bound on pi(a|x, h) / p: the "
            f"largest in these rounds is {terms['largest_weight']:.6g}. Pass a "
            "larger one that is known in advance."
        )
    n, log = result.n_rounds, np.log(2 / delta)
    # what is predicted by later rounds is no martingale: charged with all it can do
    ahead = terms["seen_ahead"] * terms["cmax"] * (1 + max_weight) / terms["C"]
    width = terms["cmax"] * (1 + max_weight)
    variance = n * terms["cmax"] ** 2 * (3 + max_weight)
    if form == "sharp":
        # Freedman's inequality solved exactly, instead of by its two cases
        half = width * log / 3
        radius = (half + np.sqrt(half**2 + 2 * variance * log)) / terms["C"]
        return float(radius + ahead)
    rate = max((1 + max_weight) * log / n, np.sqrt((3 + max_weight) * log / n))
    return float(n * terms["cmax"] / terms["C"] * 2 * rate + ahead)


@validate_params(
    {
        "bias_mass": [Interval(Real, 0, 1, closed="left")],
        "horizon": [Interval(Integral, 1, None, closed="left")],
        "reward_range": ["array-like"],
    },
    prefer_skip_nested_validation=True,
)
def drns_sum_bias_bound(
    bias_mass: float, horizon: int, *, reward_range: tuple[float, float] = (0.0, 1.0)
) -> float:
    r"""Return how far the unnormalised *sum* of DR-ns may be off, in expectation.

    With :math:`R_B(t)` the sum of the doubly robust terms of the block that ends with
    the t-th accepted round, Theorem 1 of [1]_ is

    .. math:: \left| E \sum_{t=1}^T c_t R_B(t) - E_\pi \sum_{t=1}^T r_t \right|
        \le \frac{T (T + 1)}{2} \cdot \frac{\epsilon}{1 - \epsilon}

    for rewards in [0, 1]. It is a bound on the bias of a sum of T rewards, that is of
    T times the value that `DRns(horizon=T, normalize=False)` estimates, and
    :math:`(T + 1) / 2 \cdot \epsilon / (1 - \epsilon)` a round. It says nothing about
    R / C (`normalize="pooled"` or `True`), nothing about `excess="weight"`, and nothing
    about how much an estimate varies.

    Parameters
    ----------
    bias_mass : float
        The largest bias mass :math:`\epsilon` of any step and history, in [0, 1):
        :math:`P_\pi[c \pi > p] - P_\mu[c \pi > p] / c`. A result's `bias_mass` is an
        estimate of the mean over the steps of one log: with it the number orders
        settings and guarantees nothing.
    horizon : int
        Length T of a history.
    reward_range : tuple of (float, float), default=(0.0, 1.0)
        Least and largest reward. For another range than [0, 1] the bound is
        :math:`[T (T - 1) / 2 \cdot (high - low) + T \max(|low|, |high|)]\,
        \epsilon / (1 - \epsilon)`: the histories of t - 1 rounds differ by at most
        :math:`(t - 1)\, \epsilon / (1 - \epsilon)` in total variation, and each block
        is too long by :math:`1 / (1 - \epsilon)`, which scales the whole reward.

    Returns
    -------
    bound : float
        In the units of the sum of the rewards. It soon says nothing: from
        :math:`\epsilon = .1` and 17 rounds on it exceeds the largest possible sum.

    Raises
    ------
    ValueError
        If `bias_mass` is no number in [0, 1), `horizon` no positive integer, or
        `reward_range` not two increasing finite numbers.

    See Also
    --------
    DRns : The evaluator; `deviation_bound` of a single trace is Theorem 2.

    References
    ----------
    .. [1] Dudik, M., Erhan, D., Langford, J., & Li, L. (2012). Sample-efficient
       nonstationary policy evaluation for contextual bandits. UAI.

    Examples
    --------
    >>> from skope_ope.evaluators import drns_sum_bias_bound
    >>> round(drns_sum_bias_bound(0.01, 20), 3)  # of a sum of 20 rewards
    2.121
    >>> round(drns_sum_bias_bound(0.01, 20) / 20, 3)  # a round
    0.106
    """
    low, high = _checked_range(reward_range)
    blocks = horizon * max(abs(low), abs(high))
    histories = horizon * (horizon - 1) / 2 * (high - low)
    return float((blocks + histories) * bias_mass / (1 - bias_mass))


def _checked_range(reward_range):
    bounds = np.asarray(reward_range, dtype=float)
    if bounds.shape != (2,) or not np.isfinite(bounds).all() or bounds[0] >= bounds[1]:
        raise ValueError(
            "reward_range must be (low, high), two finite numbers with low < high, got "
            f"{reward_range!r}."
        )
    return bounds.tolist()
