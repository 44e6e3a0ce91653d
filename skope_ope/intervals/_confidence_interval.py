# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Two limits, and how they were found."""


class ConfidenceInterval(tuple):
    """Lower and upper limit of a value, and what they rest on.

    It is the tuple (low, high): `low, high = value.confidence_interval()`. pickle keeps
    all of it; skops makes a plain tuple of the two limits, as of every tuple.

    Parameters
    ----------
    low, high : float
        The limits.
    level : float
        Coverage, two-sided.
    method : str
        The method that answered.
    max_weight : float, default=None
        The bound on the importance weights that was used; `None`: none was.
    max_weight_from : str, default=None
        Where the bound comes from.
    reward_range : tuple (float, float), default=None
        The range of the rewards that was used; `None`: none was.
    warnings : tuple of OPEWarning, default=()
        What was found on the way.

    Attributes
    ----------
    low, high : float
        The limits.

    Examples
    --------
    >>> from skope_ope import IPS, UniformPolicy
    >>> from skope_ope.datasets import make_bandit_logs
    >>> value = IPS().fit(make_bandit_logs(random_state=0)).evaluate(UniformPolicy())
    >>> interval = value.confidence_interval(0.9)
    >>> low, high = interval
    >>> low == interval.low, interval.level
    (True, 0.9)
    """

    def __new__(
        cls,
        low,
        high,
        level,
        method,
        max_weight=None,
        max_weight_from=None,
        reward_range=None,
        warnings=(),
    ):
        """Make the tuple of the limits."""
        self = super().__new__(cls, (float(low), float(high)))
        self.level, self.method, self.warnings = level, method, tuple(warnings)
        self.max_weight, self.max_weight_from = max_weight, max_weight_from
        self.reward_range = reward_range
        return self

    def __getnewargs__(self):
        return (*self, self.level, self.method)

    @property
    def low(self):
        """The lower limit."""
        return self[0]

    @property
    def high(self):
        """The upper limit."""
        return self[1]

    @property
    def width(self):
        """The upper less the lower limit."""
        return self[1] - self[0]
