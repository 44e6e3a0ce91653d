# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What would change the answer: values against the bound on the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skope_ope._inside import fitted_evaluator
from skope_ope.displays import _looks as looks
from skope_ope.displays._given_values import checked_curve
from skope_ope.logs._shown_numbers import figure, level_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from skope_ope._types import AnyEvaluator, Array, ArrayLike, Axes, PolicyLike
    from skope_ope.evaluators.core._policy_value import PolicyValue
    from skope_ope.logs._bandit_logs import BanditLogs


class ClippingCurveDisplay(looks.Display):
    """Value of a policy against the bound on the importance weights.

    A low bound limits the effect of single rounds, but adds bias. A high bound does the
    opposite. The right end of the curve is the evaluator without a bound. If the curve
    moves by more than the intervals allow, the answer depends on the largest weights.
    The points share rounds, so a smooth curve does not mean a small error. Read more in
    the :ref:`User Guide <displays>`.

    Parameters
    ----------
    param_name : str
        Name of the evaluator's parameter.
    param_range : ndarray of shape (n_points,)
        Bounds, increasing.
    values : list of PolicyValue
        One per bound.
    own : float, default=None
        The bound of the evaluator. `None`: it has none.
    level : float, default=0.95
        Coverage of the intervals.
    name : str, default=None
        Name of the evaluator.

    Attributes
    ----------
    value, low, high : ndarray of shape (n_points,)
        Estimates and the ends of their intervals.
    leaves_bias_out : list of str or False
        What each interval leaves out, see `PolicyValue`.
    ax_ : matplotlib axes
        Where it was drawn, after `plot`.
    figure_ : matplotlib figure
        The figure of `ax_`, after `plot`.
    line_ : Line2D
        The values, after `plot`.
    fill_between_ : PolyCollection
        The intervals, after `plot`.
    own_line_ : Line2D or None
        The bound of the evaluator, after `plot`.

    See Also
    --------
    WeightsDisplay : How the weights are spread.

    Examples
    --------
    >>> from skope_ope import IPS
    >>> from skope_ope.displays import ClippingCurveDisplay
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> evaluator = IPS().fit(logs)
    >>> display = ClippingCurveDisplay.from_evaluator(evaluator, policy)
    >>> bool(display.value[-1] == evaluator.score(policy))  # nothing is clipped
    True
    >>> display = display.plot()  # doctest: +SKIP
    """

    def __init__(
        self,
        param_name: str,
        param_range: Array,
        values: Sequence[PolicyValue],
        *,
        own: float | None = None,
        level: float = 0.95,
        name: str | None = None,
    ) -> None:
        self.param_name = param_name
        self.param_range = param_range
        self.values = values
        self.own = own
        self.level = level
        self.name = name
        intervals = [value._interval(level) for value in values]
        self.value = np.array([value.value for value in values])
        self.low, self.high = np.array(intervals).T
        self.leaves_bias_out = [value.leaves_bias_out for value in values]

    def _held(self):
        return looks.counted(len(self.value), "value")

    @classmethod
    def from_values(
        cls,
        values: Mapping[Any, PolicyValue],
        *,
        param_name: str = "cmax",
        own: float | None = None,
        level: float = 0.95,
        name: str | None = None,
    ) -> ClippingCurveDisplay:
        """Show values with several bounds that were computed before.

        Parameters
        ----------
        values : dict of PolicyValue
            By the bound on the weights, a positive number.
        param_name : str, default="cmax"
            Name of the evaluator's parameter.
        own : float, default=None
            The bound of the evaluator. `None`: it has none.
        level : float, default=0.95
            Coverage of the intervals.
        name : str, default=None
            Name of the evaluator.

        Returns
        -------
        display : ClippingCurveDisplay
        """
        bounds, values = checked_curve(values, "bound on the weights", low=0)
        return cls(param_name, bounds, values, own=own, level=level, name=name)

    @classmethod
    def from_evaluator(
        cls,
        evaluator: AnyEvaluator,
        policy: PolicyLike,
        *,
        logs: BanditLogs | None = None,
        param_range: ArrayLike | None = None,
        level: float = 0.95,
    ) -> ClippingCurveDisplay:
        """Evaluate a policy with many bounds, in one pass over the rounds.

        Parameters
        ----------
        evaluator : evaluator
            A fitted one with a parameter `cmax` or `tau`: IPS, SNIPS, DoublyRobust,
            SwitchDR.
        policy : policy, array or str
            See the evaluator's `evaluate`.
        logs : BanditLogs, default=None
            Rounds to evaluate on; `None`: those of `fit`.
        param_range : array-like of shape (n_points,), default=None
            Bounds. `None`: 30, evenly on a logarithmic scale, up to the largest weight.
            They start at the weight below which rounds have a twentieth of all weight.
        level : float, default=0.95
            Coverage of the intervals.

        Returns
        -------
        display : ClippingCurveDisplay
        """
        evaluator, logs = fitted_evaluator(evaluator, logs)
        name = type(evaluator).__name__
        if not hasattr(evaluator, "_clipping_curve"):
            raise TypeError(f"a static evaluator is needed, got {name}.")
        curve = evaluator._clipping_curve(policy, logs, param_range)
        return cls(**curve, level=level, name=name)

    def plot(
        self,
        ax: Axes = None,
        *,
        fill_between_kw: Mapping[Any, Any] | None = None,
        **kwargs: Any,
    ) -> ClippingCurveDisplay:
        """Draw the curve and its pointwise intervals.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; `None` makes a new figure.
        fill_between_kw : dict, default=None
            Passed to `ax.fill_between`.
        **kwargs : dict
            Passed to `ax.plot`.

        Returns
        -------
        display : ClippingCurveDisplay
            Itself.
        """
        with looks.drawing(self, ax) as ax:
            name = looks.name_lines(self.name or "value")
            style = {"label": name, "color": looks.POLICY, **kwargs}
            (self.line_,) = ax.plot(self.param_range, self.value, **style)
            style = {
                "alpha": looks.FAINT,
                "color": self.line_.get_color(),
                "linewidth": 0,
                "label": f"{level_text(self.level)} interval",
                **(fill_between_kw or {}),
            }
            self.fill_between_ = ax.fill_between(
                self.param_range, self.low, self.high, **style
            )
            self.own_line_ = None
            if self.own is not None and np.isfinite(self.own):
                style = {"color": looks.BASELINE, "linestyle": ":"}
                style["label"] = f"{self.param_name} = {figure(self.own)} in use"
                self.own_line_ = ax.axvline(self.own, **style)
            ax.set_xscale("log")
            looks.log_numbers_on(ax.xaxis)
            looks.numbers_on(ax.yaxis)
            notes = [
                looks.in_lines(f"intervals leave out {reason}")
                for reason in dict.fromkeys(self.leaves_bias_out)
                if reason
            ]
            label = f"bound on the weights ({self.param_name})"
            ax.set_xlabel("\n".join([label, *notes]))
            ax.set_ylabel("value (reward per round)")
            looks.legend_beside(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
