# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The exact interval for a probability."""

from __future__ import annotations

from numbers import Integral

from scipy.special import betaincinv

from skope_ope.intervals._weighted_rewards import check_level


def clopper_pearson_interval(successes: int, n: int, level: float = 0.95) -> float:
    r"""Return the Clopper-Pearson interval for a probability [1]_.

    .. math:: \left[ B_{\alpha/2}(k, n - k + 1),\;
        B_{1 - \alpha/2}(k + 1, n - k) \right], \qquad \alpha = 1 - level,

    with quantiles :math:`B` of the beta distribution; 0 and 1 at the ends. It covers
    the probability with at least `level`, for every n.

    Parameters
    ----------
    successes : int
        Number k of successes.
    n : int
        Number of independent trials.
    level : float, default=0.95
        Coverage, two-sided.

    Returns
    -------
    low, high : float

    References
    ----------
    .. [1] Clopper, C. J., & Pearson, E. S. (1934). The use of confidence or fiducial
       limits illustrated in the case of the binomial. Biometrika, 26(4).

    Examples
    --------
    >>> from skope_ope.intervals import clopper_pearson_interval
    >>> low, high = clopper_pearson_interval(7, 20)
    >>> round(low, 6), round(high, 6)
    (0.153909, 0.592189)
    """
    for name, count in (("successes", successes), ("n", n)):
        if not isinstance(count, Integral):
            raise TypeError(f"{name} must be a count, got {count!r}.")
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(
            f"successes must lie in 0..n with n at least 1, got {successes} of {n}."
        )
    check_level(level)
    tail = (1 - level) / 2
    low = betaincinv(successes, n - successes + 1, tail) if successes else 0.0
    high = betaincinv(successes + 1, n - successes, 1 - tail) if successes < n else 1.0
    return float(low), float(high)
