# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a value would be if something hidden had moved the logged actions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from skope_ope._sklearn import fitted_evaluator
from skope_ope._types import (
    AnyEvaluator,
    Array,
    ArrayLike,
    Axes,
    PolicyLike,
    ValueLike,
)
from skope_ope.displays import _looks as looks
from skope_ope.logs import BanditLogs
from skope_ope.logs._shown_numbers import figure, level_text

N_GAMMAS = 15
REACH, FARTHEST = 3.0, 20.0  # largest gamma that is drawn: usually, and at most


@dataclass(repr=False, eq=False)
class SensitivityDisplay(looks.Display):
    r"""Bounds of a value against the strength of hidden confounding.

    The logger may have used information that is not in the log. At :math:`\Gamma` the
    true odds of the logged actions may be up to :math:`\Gamma` times larger or smaller
    than the odds of their propensities. If the bounds reach the baseline, such a hidden
    cause could explain the whole gain. You have to judge whether one of this strength
    is likely. The inner area bounds the estimate. The outer area includes its sampling
    error. Read more in the :ref:`User Guide <displays>`.

    Parameters
    ----------
    gamma : ndarray of shape (n_points,)
        Odds ratios, increasing, from 1 on.
    low, high : ndarray of shape (n_points,)
        Bounds of the estimate.
    interval_low, interval_high : ndarray of shape (n_points,)
        The same with the sampling error.
    value : float
        The estimate if nothing is hidden.
    baseline : float, default=None
        What the value is compared with.
    breakdown, breakdown_of_interval : float, default=None
        Gamma at which the bounds, and the bounds with the sampling error, reach the
        baseline. Infinite if they never do.
    level : float, default=0.95
        Coverage of the intervals.
    name : str, default="value"
        What the value is called.

    Attributes
    ----------
    ax_ : matplotlib axes
        Where it was drawn, after `plot`.
    figure_ : matplotlib figure
        The figure of `ax_`, after `plot`.
    bounds_, intervals_ : PolyCollection
        The areas, after `plot`.

    See Also
    --------
    ClippingCurveDisplay : How a value changes with the bound on the weights.

    Examples
    --------
    >>> from skope_ope import SNIPS
    >>> from skope_ope.displays import SensitivityDisplay
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> display = SensitivityDisplay.from_evaluator(
    ...     SNIPS().fit(logs), policy, baseline=logs.reward.mean())
    >>> bool(display.low[0] == display.high[0] == display.value)  # nothing is hidden
    True
    >>> round(display.breakdown, 2)
    1.94
    >>> display = display.plot()  # doctest: +SKIP
    """

    gamma: Array
    low: Array
    high: Array
    interval_low: Array
    interval_high: Array
    _: KW_ONLY
    value: float
    baseline: float | None = None
    breakdown: float | None = None
    breakdown_of_interval: float | None = None
    level: float = 0.95
    name: str = "value"

    def _held(self):
        return looks.counted(len(self.gamma), "odds ratio")

    @classmethod
    def from_values(
        cls,
        value: ValueLike,
        *,
        gamma: ArrayLike | None = None,
        baseline: float | ValueLike | None = None,
        level: float = 0.95,
    ) -> SensitivityDisplay:
        """Show the bounds of a value that was computed before.

        Parameters
        ----------
        value : PolicyValue
            Of :class:`SNIPS`; others have no bounds, see `PolicyValue.sensitivity`.
        gamma : array-like of shape (n_points,), default=None
            Odds ratios, at least 1. `None`: 15 from 1 to 3. If the bounds reach the
            baseline later, to a fifth beyond that point, at most to 20.
        baseline : float or PolicyValue, default=None
            What the value is compared with, such as the mean reward of the logs; see
            `PolicyValue.breakdown_gamma`.
        level : float, default=0.95
            Coverage of the intervals.

        Returns
        -------
        display : SensitivityDisplay
        """
        if not looks.is_value(value):
            raise TypeError(
                f"value must be a PolicyValue, got {type(value).__name__}. Use "
                "SNIPS().fit(logs).evaluate(policy)."
            )
        found = {"value": value.value, "level": level, "name": value.estimator}
        if baseline is not None:
            found["breakdown"] = value.breakdown_gamma(baseline)
            found["baseline"] = float(baseline)
            of_interval = value.breakdown_gamma(baseline, level=level)
            found["breakdown_of_interval"] = of_interval
        if gamma is None:
            far = 1.2 * found.get("breakdown", 1.0)
            gamma = np.geomspace(1, min(max(REACH, far), FARTHEST), N_GAMMAS)
        bounds = value.sensitivity(np.unique(gamma), level=level)
        names = "gamma", "low", "high", "interval_low", "interval_high"
        return cls(*(getattr(bounds, name) for name in names), **found)

    @classmethod
    def from_evaluator(
        cls,
        evaluator: AnyEvaluator,
        policy: PolicyLike,
        *,
        logs: BanditLogs | None = None,
        gamma: ArrayLike | None = None,
        baseline: float | ValueLike | None = None,
        level: float = 0.95,
    ) -> SensitivityDisplay:
        """Evaluate a policy and show the bounds of its value.

        Parameters
        ----------
        evaluator : SNIPS
            A fitted one.
        policy : policy, array or str
            See the evaluator's `evaluate`.
        logs : BanditLogs, default=None
            Rounds to evaluate on; `None`: those of `fit`.
        gamma : array-like of shape (n_points,), default=None
            Odds ratios, see `from_values`.
        baseline : float or PolicyValue, default=None
            What the value is compared with, see `from_values`.
        level : float, default=0.95
            Coverage of the intervals.

        Returns
        -------
        display : SensitivityDisplay
        """
        evaluator, logs = fitted_evaluator(evaluator, logs)
        value = evaluator.evaluate(policy, logs)
        given = {"gamma": gamma, "baseline": baseline, "level": level}
        return cls.from_values(value, **given)

    def plot(self, ax: Axes = None, **kwargs: Any) -> SensitivityDisplay:
        """Draw both areas, the baseline, and where it is reached.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; `None` makes a new figure.
        **kwargs : dict
            Passed to the `ax.fill_between` of the bounds.

        Returns
        -------
        display : SensitivityDisplay
            Itself.
        """
        with looks.drawing(self, ax) as ax:
            style = {"color": looks.POLICY, "alpha": looks.FAINT, "linewidth": 0}
            label = f"with their\n{level_text(self.level)} intervals"
            self.intervals_ = ax.fill_between(
                self.gamma, self.interval_low, self.interval_high, label=label, **style
            )
            style |= {"alpha": 0.5, "label": "bounds of the estimate", **kwargs}
            self.bounds_ = ax.fill_between(self.gamma, self.low, self.high, **style)
            text = looks.name_lines(self.name)
            style = {"label": f"{text}, nothing hidden", "linestyle": "none"}
            style |= {"color": looks.POLICY, "marker": "o", "clip_on": False}
            ax.plot([1], [self.value], **style)
            if self.baseline is not None:
                self._draw_baseline(ax)
            ax.set_xlim(1, self.gamma[-1])
            looks.value_axes(ax)
            ax.set_xlabel(self._what_is_drawn())
            looks.legend_beside(ax)
        return self._drawn(ax)

    def _draw_baseline(self, ax):
        style = {"color": looks.BASELINE, "linestyle": "--", "label": "baseline"}
        ax.axhline(self.baseline, **style)
        for at, line, told in (
            (self.breakdown, "-", "bounds reach it"),
            (self.breakdown_of_interval, ":", "intervals reach it"),
        ):
            if at is not None and at <= self.gamma[-1]:
                style = {"color": looks.DOUBTED, "linestyle": line}
                ax.axvline(at, label=f"{told}\nat {figure(at, 3)}", **style)

    def _what_is_drawn(self):
        lines = ["gamma: factor by which odds of logged actions may be off"]
        if self.baseline is not None and self.breakdown > self.gamma[-1]:
            at = self.breakdown
            never = "the bounds never reach the baseline"
            told = f"the bounds reach the baseline at {figure(at, 3)}"
            lines.append(never if np.isinf(at) else told)
        return "\n".join(map(looks.in_lines, lines))
