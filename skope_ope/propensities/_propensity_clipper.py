# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Raise small propensities to a lower bound."""

from __future__ import annotations

from numbers import Real

import numpy as np

from skope_ope._sklearn import Interval
from skope_ope.logs._propensity_audit import estimating_step
from skope_ope.logs._transformer import BaseLogTransformer


class PropensityClipper(BaseLogTransformer):
    r"""Bound the logged propensities from below: :math:`\max(p_i, low)`.

    Weights are then at most 1 / low. This lowers the variance and biases values
    towards 0.

    Parameters
    ----------
    low : float, default=0.0
        Lower bound, in [0, 1]; 0 changes nothing.

    Attributes
    ----------
    n_clipped_ : int
        Number of rounds of `fit` whose propensity was below the bound.

    See Also
    --------
    PropensityEstimator : Estimates propensities.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skope_ope import IPS, BanditLogs, PropensityClipper
    >>> logs = BanditLogs(np.zeros((2, 1)), [0, 1], [1.0, 1.0], [0.01, 0.99])
    >>> pipeline = make_pipeline(PropensityClipper(low=0.25), IPS()).fit(logs)
    >>> float(pipeline[:-1].transform(logs).propensity[0])
    0.25
    """

    _parameter_constraints: dict = {"low": [Interval(Real, 0, 1, closed="both")]}

    def __init__(self, low: float = 0.0) -> None:
        self.low = low

    def _fit(self, logs):
        self.n_clipped_ = int((self._propensity(logs) < self.low).sum())

    def _transform(self, logs):
        clipped = np.maximum(self._propensity(logs), self.low)
        change = logs._with_estimates if logs.propensity_estimated else logs.replace
        return change(propensity=clipped)

    def _propensity(self, logs):
        if logs.propensity is None:
            raise ValueError(
                "PropensityClipper needs logs with propensities, these have none. Put "
                f"{estimating_step(logs)} in front of it."
            )
        return logs.propensity
