# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values with intervals: of all rounds, and with more and more of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from skope_ope._types import (
    Array,
    ArrayLike,
    Axes,
    IntervalMethod,
    PolicyLike,
    ValueLike,
)
from skope_ope.displays import _looks as looks
from skope_ope.logs import BanditLogs
from skope_ope.logs._shown_numbers import level_text, stars_of

BAND = 0.7  # height of a row that several estimates share
PER_ESTIMATE, AROUND_VALUES = 0.17, 1.3  # inches of a new figure


class PolicyValueDisplay(looks.Display):
    """Values and confidence intervals of policies, one row per estimate.

    Make it with `from_values` or `from_evaluator`; both compute everything, `plot`
    only draws. Read more in the :ref:`User Guide <displays>`.

    Parameters
    ----------
    values : dict
        `PolicyValue` by name of the evaluator, or by (policy, evaluator).
    level : float, default=0.95
        Coverage of the intervals.
    method : str, default="auto"
        Method of the intervals, see `PolicyValue.confidence_interval`.
    recommended : str, default=None
        Name of the evaluator whose values are marked as recommended.

    Attributes
    ----------
    keys : list
        Keys of `values`, one per row.
    value, low, high : ndarray of shape (n_values,)
        Estimates and the ends of their intervals.
    methods : list of str
        The methods that answered.
    leaves_bias_out : list of str or False
        What each interval leaves out, see `PolicyValue`.
    ax_ : matplotlib axes
        Where it was drawn, after `plot`.
    figure_ : matplotlib figure
        The figure of `ax_`, after `plot`.
    errorbar_ : ErrorbarContainer or list of them
        The intervals as drawn, after `plot`. A list, one per policy, if there are
        several policies and several evaluators.
    truth_ : Line2D or None
        The line, or the marks, of the true values, after `plot`.

    See Also
    --------
    WeightsDisplay : How evenly the weights behind a value are spread.
    ClippingCurveDisplay : How a value changes with the bound on the weights.

    Examples
    --------
    >>> from skope_ope import evaluate
    >>> from skope_ope.displays import PolicyValueDisplay
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> table = evaluate(policy, logs, evaluators=["IPS", "DoublyRobust"])
    >>> display = PolicyValueDisplay.from_values(table, level=0.9)
    >>> display.keys
    ['IPS', 'DoublyRobust']
    >>> bool((display.low < truth.value).all() and (truth.value < display.high).all())
    True
    >>> display = display.plot(truth=truth.value)  # doctest: +SKIP
    """

    def __init__(
        self,
        values: Mapping[Any, Any],
        *,
        level: float = 0.95,
        method: IntervalMethod = "auto",
        recommended: str | None = None,
    ) -> None:
        self.level = level
        self.method = method
        self.recommended = recommended
        self.keys = list(values)
        results = list(values.values())
        intervals = [r._interval(level, method) for r in results]
        self.value = np.array([r.value for r in results])
        self.low, self.high = np.array(intervals).T
        self.methods = [found.method for found in intervals]
        self.leaves_bias_out = [r.leaves_bias_out for r in results]

    @classmethod
    def from_values(
        cls,
        values: Mapping[Any, ValueLike] | ValueLike,
        *,
        level: float = 0.95,
        method: IntervalMethod = "auto",
    ) -> PolicyValueDisplay:
        """Show values that were computed before.

        Parameters
        ----------
        values : ValueTable, dict of PolicyValue, or PolicyValue
            What `evaluate` returns, or values by name, or by (policy, evaluator).
        level : float, default=0.95
            Coverage of the intervals.
        method : str, default="auto"
            Method of the intervals, see `PolicyValue.confidence_interval`.

        Returns
        -------
        display : PolicyValueDisplay
        """
        recommended = getattr(values, "recommended", None)
        values = looks.checked_values(values)
        return cls(values, level=level, method=method, recommended=recommended)

    @classmethod
    def from_evaluator(
        cls,
        evaluator: Any,
        policy: PolicyLike | Mapping[Any, PolicyLike],
        *,
        logs: BanditLogs | None = None,
        level: float = 0.95,
        method: IntervalMethod = "auto",
    ) -> PolicyValueDisplay:
        """Evaluate one policy, or several, and show the values.

        Parameters
        ----------
        evaluator : evaluator, or dict of them
            Fitted evaluators. A dict names several.
        policy : policy, array, str, or dict of them
            The policy to evaluate. A dict names several.
        logs : BanditLogs, default=None
            Rounds to evaluate on; `None`: those of `fit`.
        level : float, default=0.95
            Coverage of the intervals.
        method : str, default="auto"
            Method of the intervals, see `PolicyValue.confidence_interval`.

        Returns
        -------
        display : PolicyValueDisplay
        """
        values = looks.keyed_values(evaluator, policy, logs)
        return cls.from_values(values, level=level, method=method)

    def plot(
        self,
        ax: Axes = None,
        *,
        truth: float | Mapping[Any, float] | None = None,
        truth_kw: Mapping[Any, Any] | None = None,
        **kwargs: Any,
    ) -> PolicyValueDisplay:
        """Draw one row per value, the first on top.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; `None` makes a new figure.
        truth : float, or dict of float, default=None
            The true value, drawn as a line. A dict of the true values of the
            policies is drawn as marks in their rows.
        truth_kw : dict, default=None
            Passed to the line or the marks of the truth.
        **kwargs : dict
            Passed to `ax.errorbar`.

        Returns
        -------
        display : PolicyValueDisplay
            Itself.
        """
        policies, evaluators = set(self._policies), set(self._evaluators)
        # The more numerous are the rows: few colours are told apart.
        by_policy = len(policies) > len(evaluators)
        texts = self._evaluator_texts(), self._policy_texts()
        row_texts, series_texts = texts[::-1] if by_policy else texts
        height = looks.PER_LINE * (looks.n_lines(row_texts.values()) + 1)
        height = len(row_texts) * max(height, PER_ESTIMATE * len(series_texts))
        size = looks.FIGURE_SIZE[0], max(looks.LEAST_HEIGHT, AROUND_VALUES + height)
        with looks.drawing(self, ax, size=size, grid="x") as ax:
            self._draw(ax, by_policy, row_texts, series_texts, kwargs)
            self.truth_ = self._plot_truth(ax, truth, truth_kw)
            looks.legend_beside(ax)
        return self._drawn(ax)

    def _draw(self, ax, by_policy, row_texts, series_texts, kwargs):
        rows, series = self._evaluators, self._policies
        if by_policy:
            rows, series = series, rows
        labels, names = list(row_texts), list(series_texts)
        step = BAND / len(names)
        shift = {
            name: step * (i - (len(names) - 1) / 2) for i, name in enumerate(names)
        }
        self._y = y = np.array(
            [labels.index(r) + shift[s] for r, s in zip(rows, series, strict=True)]
        )
        drawn = []
        for i, name in enumerate(names):
            own = np.array([s == name for s in series])
            value = self.value[own]
            lengths = looks.lengths(value, self.low[own], self.high[own])
            style = {**looks.series_style(i), "linestyle": "none", "capsize": 3}
            style |= kwargs
            if len(names) > 1:
                style.setdefault("label", series_texts[name])
            drawn.append(ax.errorbar(value, y[own], xerr=lengths, **style))
            _set_ends(drawn[-1], self.low[own], self.high[own], y[own])
            biased = own & np.array([bool(reason) for reason in self.leaves_bias_out])
            style = {"color": "white", "zorder": 3, "linestyle": "none"}
            style |= {"marker": drawn[-1][0].get_marker(), "markersize": 3}
            ax.plot(self.value[biased], y[biased], **style)  # hollow: to be doubted
        self._tell_what_is_missing(ax)
        ax.set_yticks(range(len(labels)), list(row_texts.values()))
        ax.set_ylim(len(labels) - 0.5, -0.5)
        looks.numbers_on(ax.xaxis)
        ax.set_xlabel(self._what_is_drawn(by_policy and len(names) == 1))
        self.errorbar_ = drawn[0] if len(drawn) == 1 else drawn

    @property
    def _policies(self):
        return [key[0] if isinstance(key, tuple) else None for key in self.keys]

    @property
    def _evaluators(self):
        return [key[1] if isinstance(key, tuple) else key for key in self.keys]

    def _tell_what_is_missing(self, ax):
        """Write what cannot be drawn; nothing drawn would look sure."""
        lost = np.isnan(self.value)
        for y in self._y[lost]:
            looks.say_no_value(ax, y)
        for row in np.flatnonzero(~lost & np.isnan(self.low)):
            at = self.value[row], self._y[row]
            looks.annotate(
                ax, "no interval", at, xytext=(8, 0), textcoords="offset points"
            )

    def _plot_truth(self, ax, truth, truth_kw):
        if truth is None:
            return None
        style = {**looks.TRUTH_STYLE, "zorder": 1, **(truth_kw or {})}
        if not isinstance(truth, Mapping):
            return ax.axvline(float(truth), **style)
        missing = sorted({str(p) for p in self._policies if p not in truth})
        if missing:
            raise ValueError(f"truth lacks the policies {missing}.")
        marks = {"marker": "|", "markersize": 14, "markeredgewidth": 2, "zorder": 4}
        style = {**style, **marks, **(truth_kw or {}), "linestyle": "none"}
        return ax.plot([truth[p] for p in self._policies], self._y, **style)[0]

    def _evaluator_texts(self):
        """Return how evaluators are called, with their marks."""
        texts = self._marked(self._evaluators, self.leaves_bias_out)
        if self.recommended in texts:
            texts[self.recommended] += "\n(recommended)"
        return texts

    def _policy_texts(self):
        """Return how policies are called, with the marks of a single evaluator."""
        alone = len(set(self._evaluators)) == 1
        reasons = self.leaves_bias_out if alone else [False] * len(self.keys)
        return self._marked(self._policies, reasons)

    def _marked(self, names, reasons):
        star, texts = stars_of(self.leaves_bias_out), {}
        for name in dict.fromkeys(names):
            own = (r for n, r in zip(names, reasons, strict=True) if r and n == name)
            marks = [star[reason] for reason in dict.fromkeys(own)]
            texts[name] = " ".join([looks.name_lines(name), *marks])
        return texts

    def _what_is_drawn(self, evaluator_hidden):
        """Return the label of the axis: level, methods and what the marks mean."""
        methods = ", ".join(dict.fromkeys(self.methods))
        interval = f"{level_text(self.level)} interval ({methods})"
        lines = [looks.in_lines(f"value (reward per round), {interval}")]
        if evaluator_hidden and self.recommended in self._evaluators:
            lines.append(f"by {self.recommended} (recommended)")
        for reason, star in stars_of(self.leaves_bias_out).items():
            lines.append(looks.in_lines(f"{star} leaves out {reason}"))
        return "\n".join(lines)


def _set_ends(drawn, low, high, y):
    """Draw intervals where they are: a value outside of the range is not in its own."""
    _, caps, (bars,) = drawn
    ends = np.stack([low, high])
    bars.set_segments(np.stack([ends, np.stack([y, y])], axis=-1).transpose(1, 0, 2))
    for cap, end in zip(caps, ends, strict=False):  # none where capsize is 0
        cap.set_xdata(end)


# -- what the answer would have been with fewer rounds: estimates as the log grows -----

N_SIZES = 30


@dataclass(repr=False, eq=False)
class ConvergenceDisplay(looks.Display):
    """Values and intervals from the first rounds of a log, as it grows.

    Every point is the estimate from the first rounds only. Rounds are in the order of
    their timestamps, if the logs have timestamps. If estimates of different evaluators
    approach each other, they agree in the end. If an estimate drifts, the value changes
    over time, and one day does not predict another. A jump means that a single round
    decides. Reward models are fitted on the whole log.

    Each interval holds for a single look at a day that was fixed in advance. If you
    look every day and stop at the first good interval, you are misled more often than
    the level says. The intervals of a confidence sequence hold at all times together.
    Read more in the :ref:`User Guide <displays>`.

    Parameters
    ----------
    sizes : ndarray of int of shape (n_points,)
        Numbers of rounds, increasing.
    values : dict of list of PolicyValue
        One for every size, by name, or by (policy, evaluator).
    level : float, default=0.95
        Coverage of each interval.

    Attributes
    ----------
    keys : list
        Keys of `values`, one per curve.
    value, low, high : ndarray of shape (n_curves, n_points)
        Estimates and the ends of their intervals; NaN where there are none.
    leaves_bias_out : list of str or False
        What the intervals of each curve leave out, see `PolicyValue`.
    ax_ : matplotlib axes
        Where it was drawn, after `plot`.
    figure_ : matplotlib figure
        The figure of `ax_`, after `plot`.
    lines_ : list of Line2D
        The values, after `plot`.

    See Also
    --------
    HistoryDisplay : The same for histories that sequential evaluators simulate.

    Examples
    --------
    >>> from skope_ope import evaluate
    >>> from skope_ope.displays import ConvergenceDisplay
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> table = evaluate(policy, logs, evaluators=["IPS", "SNIPS"])
    >>> display = ConvergenceDisplay.from_values(table, sizes=[250, 500, 1000])
    >>> bool(display.value[1, -1] == table["SNIPS"].value)
    True
    >>> width = display.high - display.low
    >>> bool((width[:, -1] < width[:, 0]).all())
    True
    >>> display = display.plot(truth=truth.value)  # doctest: +SKIP
    """

    sizes: Array
    values: Mapping[Any, Sequence[ValueLike]]
    _: KW_ONLY
    level: float = 0.95

    def __post_init__(self):
        self.keys = list(self.values)
        curves = list(self.values.values())
        numbers = np.array(
            [looks.value_and_limits(curve, self.level) for curve in curves]
        )
        self.value, self.low, self.high = numbers.swapaxes(0, 1)
        self.leaves_bias_out = [curve[-1].leaves_bias_out for curve in curves]

    def _held(self):
        curves = looks.counted(len(self.keys), "curve")
        return f"{curves}, {looks.counted(len(self.sizes), 'size')}"

    @classmethod
    def from_values(
        cls,
        values: Mapping[Any, ValueLike] | ValueLike,
        *,
        sizes: ArrayLike | None = None,
        level: float = 0.95,
    ) -> ConvergenceDisplay:
        """Show the earlier estimates of values that were computed before.

        Parameters
        ----------
        values : ValueTable, dict of PolicyValue, or PolicyValue
            What `evaluate` returns, or values by name, or by (policy, evaluator), all
            of the same number of rounds.
        sizes : array-like of int, default=None
            Numbers of rounds. `None`: 30, evenly up to all rounds.
        level : float, default=0.95
            Coverage of each interval.

        Returns
        -------
        display : ConvergenceDisplay

        Raises
        ------
        ValueError
            If a value is not a function of sums over rounds: a difference, or the value
            of a simulated history.
        """
        values = looks.checked_values(values)
        counts = {value.n_rounds for value in values.values()}
        if len(counts) > 1:
            raise ValueError(
                f"values must be of the same rounds, got {sorted(counts)} rounds."
            )
        sizes = _checked_sizes(sizes, counts.pop())
        found = {key: value._of_first(sizes) for key, value in values.items()}
        return cls(sizes, found, level=level)

    @classmethod
    def from_evaluator(
        cls,
        evaluator: Any,
        policy: PolicyLike | Mapping[Any, PolicyLike],
        *,
        logs: BanditLogs | None = None,
        sizes: ArrayLike | None = None,
        level: float = 0.95,
    ) -> ConvergenceDisplay:
        """Evaluate one policy, or several, and show the values as the log grows.

        Parameters
        ----------
        evaluator : evaluator, or dict of them
            Fitted evaluators. A dict names several.
        policy : policy, array, str, or dict of them
            The policy to evaluate. A dict names several.
        logs : BanditLogs, default=None
            Rounds to evaluate on; `None`: those of `fit`.
        sizes : array-like of int, default=None
            Numbers of rounds. `None`: 30, evenly up to all rounds.
        level : float, default=0.95
            Coverage of each interval.

        Returns
        -------
        display : ConvergenceDisplay
        """
        values = looks.keyed_values(evaluator, policy, logs)
        return cls.from_values(values, sizes=sizes, level=level)

    def plot(
        self, ax: Axes = None, *, truth: float | None = None, **kwargs: Any
    ) -> ConvergenceDisplay:
        """Draw a curve for every value, with its pointwise intervals.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; `None` makes a new figure.
        truth : float, default=None
            The true value, drawn as a line.
        **kwargs : dict
            Passed to `ax.plot`.

        Returns
        -------
        display : ConvergenceDisplay
            Itself.
        """
        with looks.drawing(self, ax) as ax:
            self.lines_ = []
            for i, text in enumerate(looks.key_texts(self.keys)):
                style = {**looks.series_style(i), "label": looks.name_lines(text)}
                style |= {"markersize": 4, "markevery": 5, **kwargs}
                self.lines_ += ax.plot(self.sizes, self.value[i], **style)
                color, n_curves = self.lines_[-1].get_color(), len(self.keys)
                interval = self.low[i], self.high[i]
                looks.draw_intervals(ax, self.sizes, *interval, color, n_curves)
            if truth is not None:
                ax.axhline(float(truth), **looks.TRUTH_STYLE)
            late = self.sizes > looks.EARLY * self.sizes[-1]
            looks.show_values(
                ax, *(p[:, late] for p in (self.value, self.low, self.high))
            )
            ax.set_xlim(0, self.sizes[-1])
            looks.value_axes(ax)
            ax.set_xlabel(self._what_is_drawn())
            looks.legend_beside(ax)
        return self._drawn(ax)

    def _what_is_drawn(self):
        level = level_text(self.level)
        notes = [f"{level} intervals, each for one size chosen beforehand"]
        for reason in dict.fromkeys(self.leaves_bias_out):
            if reason:
                rows = zip(
                    looks.key_texts(self.keys), self.leaves_bias_out, strict=True
                )
                named = [text for text, own in rows if own == reason]
                notes.append(f"those of {', '.join(named)} leave out {reason}")
        return "\n".join(
            ["rounds of the log, from the first", *map(looks.in_lines, notes)]
        )


def _checked_sizes(sizes, n_rounds):
    if sizes is None:
        sizes = np.ceil(np.linspace(0, n_rounds, N_SIZES + 1)[1:])
    sizes = np.unique(np.asarray(sizes))
    if not sizes.size or sizes[0] < 1 or sizes[-1] > n_rounds or (sizes % 1).any():
        raise ValueError(
            f"sizes must be whole numbers of rounds from 1 to {n_rounds:,}, got "
            f"{sizes.tolist()}."
        )
    return sizes.astype(int)


# -- how much hidden confounding it takes to change the answer -------------------------


# -- gains of policies over a baseline, and their values -------------------------------
