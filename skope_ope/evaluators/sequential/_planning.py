# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How long a log must be for a history of a wanted length."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np

from skope_ope._sklearn import Interval, validate_params


@validate_params(
    {
        "n_accepted": [Interval(Integral, 1, None, closed="left")],
        "n_actions": [Interval(Integral, 1, None, closed="left")],
        "delta": [Interval(Real, 0, 1, closed="neither"), None],
        "exact": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def replay_log_length(
    n_accepted: int, n_actions: int, *, delta: float | None = None, exact: bool = True
) -> float:
    r"""Return how many uniformly logged rounds a replayed history of length T takes.

    A round is accepted with probability 1 / K, for any policy. So the length L of the
    log is negative binomial, K T on average [1]_.

    Parameters
    ----------
    n_accepted : int
        Wanted length T of the history.
    n_actions : int
        Number K of actions; where offers vary, the most that are ever offered.
    delta : float, default=None
        Probability that the log is too short after all, in (0, 1). `None`: the
        expected length.
    exact : bool, default=True
        The quantile, or the paper's bound :math:`2 K (T + \ln(1/\delta))`.

    Returns
    -------
    length : float
        Rounds. The quantile and the expected length are whole numbers.

    See Also
    --------
    Replay : Evaluates a policy on such a log.

    References
    ----------
    .. [1] Li, L., Chu, W., Langford, J., & Wang, X. (2011). Unbiased offline
       evaluation of contextual-bandit-based news article recommendation algorithms.
       WSDM.

    Examples
    --------
    >>> from skope_ope.evaluators import replay_log_length
    >>> replay_log_length(100, 20), replay_log_length(100, 20, delta=0.05)
    (2000.0, 2331.0)
    >>> round(replay_log_length(100, 20, delta=0.05, exact=False), 1)
    4119.8
    """
    if delta is None:
        return float(n_actions * n_accepted)
    if not exact:
        return float(2 * n_actions * (n_accepted + np.log(1 / delta)))
    from scipy.stats import nbinom

    refused = nbinom.ppf(1 - delta, n_accepted, 1 / n_actions)
    return float(refused + n_accepted)
