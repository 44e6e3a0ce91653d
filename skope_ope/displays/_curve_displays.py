# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values over a parameter: bounds on the weights, and the quantile of DRns."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np

from skope_ope._sklearn import fitted_evaluator
from skope_ope._types import AnyEvaluator, Array, ArrayLike, Axes, PolicyLike, ValueLike
from skope_ope.displays import _looks as looks
from skope_ope.exceptions import BiasWarning, OPEWarning
from skope_ope.logs import BanditLogs
from skope_ope.logs._shown_numbers import figure, level_text


@dataclass(repr=False, eq=False)
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

    param_name: str
    param_range: Array
    values: Sequence[ValueLike]
    _: KW_ONLY
    own: float | None = None
    level: float = 0.95
    name: str | None = None

    def __post_init__(self):
        self.value, self.low, self.high = looks.value_and_limits(
            self.values, self.level
        )
        self.leaves_bias_out = [value.leaves_bias_out for value in self.values]

    @classmethod
    def from_values(
        cls,
        values: Mapping[Any, ValueLike],
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
        bounds, values = looks.checked_curve(values, "bound on the weights", low=0)
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
        evaluator, logs = looks.static_evaluator(evaluator, logs, "_clipping_curve")
        curve = evaluator._clipping_curve(policy, logs, param_range)
        return cls(**curve, level=level, name=type(evaluator).__name__)

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
            style = {"alpha": looks.FAINT, "color": self.line_.get_color()}
            style |= {"linewidth": 0, "label": f"{level_text(self.level)} interval"}
            style |= fill_between_kw or {}
            limits = self.low, self.high
            self.fill_between_ = ax.fill_between(self.param_range, *limits, **style)
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
        return self._drawn(ax)


# -- what a larger quantile costs: the value by DR-ns against q, with its bias mass ----

QUANTILE_PANELS = ("value", "bias_mass")
ALARM_MASS = 0.1  # above which DRns warns
Q_RANGE = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


@dataclass(repr=False, eq=False)
class QuantileCurveDisplay(looks.Display):
    """Value of a policy by :class:`DRns` against the quantile level q.

    A larger q accepts more rounds into the simulated history, so intervals are
    narrower. But the history also misses more of the policy's rounds: the bias mass
    grows. Trust values that agree while the bias mass is small, and take the largest q
    before the bias alarm. All points share the reward model and the uniform numbers, so
    all differences are due to q. Read more in the :ref:`User Guide <displays>`.

    Parameters
    ----------
    q : ndarray of shape (n_points,)
        Quantile levels, increasing.
    values : list of PolicyValue
        One for every level.
    own : float, default=None
        The level of the evaluator. `None`: not known.
    level : float, default=0.95
        Coverage of the intervals.
    name : str, default=None
        Name of the policy.

    Attributes
    ----------
    value, low, high : ndarray of shape (n_points,)
        Estimates and the ends of their intervals; NaN where there are none.
    bias_mass : ndarray of shape (n_points,)
        Estimated share of the policy's rounds that are kept out of the history.
    bias_mass_error : ndarray of shape (n_points,)
        Standard errors of these estimates.
    n_accepted : ndarray of int of shape (n_points,)
        Accepted rounds.
    alarm : ndarray of bool of shape (n_points,)
        Whether a :class:`~skope_ope.exceptions.BiasWarning` came with the value.
    axes_ : ndarray of matplotlib axes
        Where it was drawn, one for every panel, after `plot`.
    ax_ : matplotlib axes
        The first of them, after `plot`.
    figure_ : matplotlib figure
        Their figure, after `plot`.

    See Also
    --------
    HistoryDisplay : How one history grew.
    ClippingCurveDisplay : The same for the bound on the weights.

    Examples
    --------
    >>> from skope_ope import DRns, EpsilonGreedy
    >>> from skope_ope.displays import QuantileCurveDisplay
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(5000, random_state=0)
    >>> evaluator = DRns(horizon=50, random_state=0).fit(logs)
    >>> display = QuantileCurveDisplay.from_evaluator(evaluator, EpsilonGreedy(0.2))
    >>> bool(display.bias_mass[0] < display.bias_mass[-1])
    True
    >>> display = display.plot()  # doctest: +SKIP
    """

    q: Array
    values: Sequence[ValueLike]
    _: KW_ONLY
    own: float | None = None
    level: float = 0.95
    name: str | None = None

    def __post_init__(self):
        self.value, self.low, self.high = looks.value_and_limits(
            self.values, self.level
        )
        self.bias_mass, self.bias_mass_error, self.n_accepted = (
            np.array([value.diagnostics[name] for value in self.values])
            for name in ("bias_mass", "bias_mass_error", "n_accepted")
        )
        self.alarm = np.array(
            [any(isinstance(w, BiasWarning) for w in v.warnings) for v in self.values]
        )

    @classmethod
    def from_values(
        cls,
        values: Mapping[Any, ValueLike],
        *,
        own: float | None = None,
        level: float = 0.95,
        name: str | None = None,
    ) -> QuantileCurveDisplay:
        """Show values with several levels that were computed before.

        Parameters
        ----------
        values : dict of PolicyValue
            Values of :class:`DRns` by the quantile level, a number in [0, 1].
        own : float, default=None
            The level of the evaluator. `None`: not known.
        level : float, default=0.95
            Coverage of the intervals.
        name : str, default=None
            Name of the policy.

        Returns
        -------
        display : QuantileCurveDisplay
        """
        levels, values = looks.checked_curve(values, "quantile level", low=0, high=1)
        for value in values:
            if "bias_mass" not in value.diagnostics:
                raise TypeError(
                    f"values must come from DRns, got one of {value.estimator}. Only "
                    "DRns has a quantile level and a bias mass."
                )
        return cls(levels, values, own=own, level=level, name=name)

    @classmethod
    def from_evaluator(
        cls,
        evaluator: AnyEvaluator,
        policy: PolicyLike,
        *,
        logs: BanditLogs | None = None,
        q_range: ArrayLike | None = None,
        level: float = 0.95,
    ) -> QuantileCurveDisplay:
        """Evaluate a policy with several levels of the quantile.

        Warnings of the single values are not emitted: they are those of
        `display.values`.

        Parameters
        ----------
        evaluator : DRns
            A fitted one, with `acceptance="quantile"`.
        policy : policy, array or str
            See the evaluator's `evaluate`.
        logs : BanditLogs, default=None
            Rounds to evaluate on; `None`: those of `fit`.
        q_range : array-like of shape (n_points,), default=None
            Levels in [0, 1]. `None`: 0, .01, .02, .05, .1, .2, .5 and that of the
            evaluator.
        level : float, default=0.95
            Coverage of the intervals.

        Returns
        -------
        display : QuantileCurveDisplay
        """
        evaluator, logs = fitted_evaluator(evaluator, logs)
        if getattr(evaluator, "acceptance", None) != "quantile":
            raise TypeError(
                "QuantileCurveDisplay needs a DRns with acceptance='quantile', got "
                f"{evaluator!r}. Only this has a quantile level."
            )
        if q_range is None:
            q_range = {*Q_RANGE, float(evaluator.q)}
        levels = np.unique(np.asarray(sorted(q_range), dtype=float))
        if not levels.size or not ((levels >= 0) & (levels <= 1)).all():
            raise ValueError(
                f"q_range must hold numbers in [0, 1], got {levels.tolist()}."
            )
        values = []
        for q in levels.tolist():
            # q matters after the fit: model and uniform numbers stay
            one = copy(evaluator).set_params(q=q)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OPEWarning)
                values.append(one.evaluate(policy, logs))
        name = policy if isinstance(policy, str) else type(policy).__name__
        return cls(levels, values, own=float(evaluator.q), level=level, name=name)

    def plot(
        self,
        ax: Any = None,
        *,
        panels: Sequence[Literal["value", "bias_mass"]] = QUANTILE_PANELS,
        **kwargs: Any,
    ) -> QuantileCurveDisplay:
        """Draw values with intervals, and the bias mass below.

        Levels are drawn at equal distances. Values with a bias alarm are open circles.
        The level of the evaluator is a dotted line.

        Parameters
        ----------
        ax : matplotlib axes or array of them, default=None
            Where to draw, one for every panel; `None` makes a new figure.
        panels : sequence of {"value", "bias_mass"}, default=both
            What to draw.
        **kwargs : dict
            Passed to `ax.errorbar`.

        Returns
        -------
        display : QuantileCurveDisplay
            Itself.
        """
        panels = looks.checked_panels(panels, QUANTILE_PANELS)
        heights = [2 if panel == "value" else 1 for panel in panels]
        place = np.arange(len(self.q))
        size = 6.4, 1.2 + 1.2 * sum(heights)
        with looks.drawing_panels(self, ax, heights, size=size) as axes:
            for one, panel in zip(axes, panels, strict=True):
                draw = self._draw_values if panel == "value" else self._draw_mass
                draw(one, place, kwargs)
                for at in place[self.q == self.own]:
                    style = {"color": looks.BASELINE, "linestyle": ":", "zorder": 0}
                    one.axvline(at, label=f"q = {figure(self.own)} in use", **style)
                one.set_xticks(place, [figure(q) for q in self.q])
                looks.legend_beside(one)
            axes[-1].set_xlabel("quantile level q")
            if self.name:
                axes[0].set_title(f"DRns: {looks.as_drawn(self.name)}")
        return self._drawn_panels(axes)

    def _draw_values(self, ax, place, kwargs):
        text = f"{level_text(self.level)} interval"
        biased = f"{text},\nbiased history"
        sides = np.nan_to_num([self.value - self.low, self.high - self.value])
        sure = np.isfinite(self.low)
        for rows, color, face, mark, label in (
            (sure & ~self.alarm, looks.POLICY, None, "o", text),
            (sure & self.alarm, looks.DOUBTED, "white", "o", biased),
            (~sure, looks.DOUBTED, None, "x", "no interval"),
        ):
            style = {"fmt": mark, "color": color, "capsize": 3, "markerfacecolor": face}
            if rows.any():
                x, y = place[rows], self.value[rows]
                yerr = None if mark == "x" else sides[:, rows]
                ax.errorbar(x, y, yerr=yerr, **{**style, "label": label, **kwargs})
        for at in place[np.isnan(self.value)]:
            looks.say_no_value(ax, at, upright=True)
        looks.numbers_on(ax.yaxis)
        ax.set_ylabel("value\n(reward per round)")

    def _draw_mass(self, ax, place, kwargs):
        edge = np.where(self.alarm, looks.DOUBTED, looks.POLICY).tolist()
        face = np.where(self.alarm, "white", looks.POLICY).tolist()
        style = {"color": face, "edgecolor": edge, "linewidth": 1.6, "width": 0.5}
        ax.bar(place, self.bias_mass, yerr=self.bias_mass_error, **style)
        ax.axhline(ALARM_MASS, color=looks.DOUBTED, linewidth=0.8, label="alarm above")
        ax.set_ylim(0, max(1.25 * float(self.bias_mass.max()), 2 * ALARM_MASS))
        looks.numbers_on(ax.yaxis, share=True)
        ax.set_ylabel("bias mass")
