# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Replay by rejection sampling, for any logger with known propensities."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Literal

from skope_ope._sklearn import Interval, StrOptions
from skope_ope._types import RandomSeed
from skope_ope.evaluators.core._mean_weight import mean_weight_findings
from skope_ope.evaluators.core._overlap_findings import support_findings
from skope_ope.evaluators.core._warnings import (
    history_overlap_warnings,
    propensity_warnings,
    warnings_of,
)
from skope_ope.evaluators.sequential._acceptance import ConstantRule
from skope_ope.evaluators.sequential._replay import AcceptedMean
from skope_ope.evaluators.sequential._warnings import NEGLIGIBLE, bias_mass_warnings


class RejectionSampling(AcceptedMean):
    r"""Replay for any logger whose propensities are known [1]_ [2]_.

    A round is accepted when :math:`u \le c\, \pi(a|x, h) / p`; only accepted rounds
    reach the policy. The value is the mean reward of the accepted rounds. It is
    unbiased like `Replay` if :math:`c\, \pi \le p` in all rounds. About n c rounds are
    accepted. Read more in the :ref:`User Guide <rejection_sampling>`.

    Parameters
    ----------
    cmax : float or "target", default=None
        The constant c. A number is a bound known beforehand. `None` is the smallest
        logged propensity. `"target"` is the smallest p / pi of the logs, for stationary
        policies only.
    horizon : int, default=None
        Length of a history: after that many accepted rounds the policy starts anew,
        and the value is the mean over complete histories.
    random_state : int, RandomState instance or None, default=None
        Seeds the uniform numbers, which are drawn in `fit`, one per row.

    Attributes
    ----------
    uniforms_ : ndarray of shape (n_rounds,)
        The uniform numbers. They are not stored after a fit on lazy logs, which draw
        the same numbers part by part.
    seed_ : int
        Seeds those for other logs.

    See Also
    --------
    DRns : Accepts more rounds and uses all, at a small bias.

    References
    ----------
    .. [1] Li, L., Chu, W., Langford, J., & Wang, X. (2011). Unbiased offline
       evaluation of contextual-bandit-based news article recommendation algorithms.
       WSDM.
    .. [2] Dudik, M., Erhan, D., Langford, J., & Li, L. (2012). Sample-efficient
       nonstationary policy evaluation for contextual bandits. UAI.

    Examples
    --------
    >>> from skope_ope import RejectionSampling
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(5000, random_state=0, return_truth=True)
    >>> result = RejectionSampling(random_state=0).fit(logs).evaluate(policy)
    >>> low, high = result.confidence_interval(0.999)
    >>> bool(low < truth.value < high)
    True
    """

    _parameter_constraints: dict = {
        "cmax": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions({"target"}),
            None,
        ],
        "horizon": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        cmax: float | Literal["target"] | None = None,
        horizon: int | None = None,
        random_state: RandomSeed = None,
    ) -> None:
        self.cmax = cmax
        self.horizon = horizon
        self.random_state = random_state

    def _check_settings(self, adaptive, target, n_rounds):
        super()._check_settings(adaptive, target, n_rounds)
        if adaptive and self.cmax == "target":
            raise ValueError(
                "cmax='target' needs the policy's probabilities in advance, and a "
                "policy that learns changes them. Pass a number or None."
            )

    def _rule(self, facts, n_rounds, ratio):
        if self.cmax is None:
            return ConstantRule(facts.smallest_propensity)
        if self.cmax == "target":
            return ConstantRule(ratio())
        return ConstantRule(float(self.cmax))

    def _weight_warnings(self, history):
        logs, overlap = history.log, history.overlap
        if history.adaptive:
            return history_overlap_warnings(logs, overlap)
        # Accepted rounds have no weights: those of the policy tell of propensities.
        found = support_findings(overlap, logs) + mean_weight_findings(overlap, logs)
        return warnings_of(found) + propensity_warnings(logs)

    def _diagnostics(self, history):
        return super()._diagnostics(history) | history.found.violations.diagnostics

    def _acceptance_warnings(self, history, diagnostics):
        warned = super()._acceptance_warnings(history, diagnostics)
        # a single round that violates it proves that cmax is no bound
        advice = "It is no bound on p / pi: lower cmax"
        return warned + bias_mass_warnings(diagnostics, advice, NEGLIGIBLE, z=0)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.constant_reward = tags.shift_equivariant = True
        return tags
