# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What happens round by round: accepted rounds, and confidence sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np

from skope_ope._sklearn import fitted_evaluator
from skope_ope._types import (
    AnyEvaluator,
    Array,
    ArrayLike,
    Axes,
    PolicyLike,
    SequenceLike,
    ValueLike,
)
from skope_ope.displays import _looks as looks
from skope_ope.logs import BanditLogs
from skope_ope.logs._shown_numbers import level_text, share

HISTORY_PANELS = ("length", "ratio", "value")
FEW_POINTS = 20  # points that are drawn one by one


@dataclass(repr=False, eq=False)
class HistoryDisplay(looks.Display):
    """Length of the simulated history, acceptance ratio and value along a log.

    Make it with `from_values` or `from_evaluator`, for :class:`Replay`,
    :class:`RejectionSampling` and :class:`DRns`. A history that grows more and more
    slowly shows that the policy moves away from the logger. If the ratio falls early,
    few rounds decide the value. If the value still moves at the end, the policy is
    still learning, or the log is too short. Read more in the
    :ref:`User Guide <displays>`.

    Parameters
    ----------
    accepted : ndarray of int
        Rows that entered the history, in order.
    acceptance_ratios : ndarray of shape (n_rounds,)
        Acceptance ratio c at every row.
    value_rows : ndarray of int of shape (n_points,)
        Rows after which the value is shown.
    cumulative_value : ndarray of shape (n_points,)
        The value after these rows. For a single history it uses the accepted rounds.
        Otherwise it is the mean over the trajectories that are complete, weighted by
        their shares.
    name : str, default=None
        Name of the evaluator.

    Attributes
    ----------
    n_rounds : int
        Rows of the log.
    history_length : ndarray of shape (n_rounds,)
        Accepted rounds up to every row.
    acceptance_rate : float
        Share of the rows that were accepted.
    axes_ : ndarray of matplotlib axes
        Where it was drawn, one for every panel, after `plot`.
    ax_ : matplotlib axes
        The first of them, after `plot`.
    figure_ : matplotlib figure
        Their figure, after `plot`.

    See Also
    --------
    PolicyValueDisplay : Values and their intervals.

    Examples
    --------
    >>> from skope_ope import DRns, EpsilonGreedy
    >>> from skope_ope.displays import HistoryDisplay
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(5000, random_state=0)
    >>> evaluator = DRns(q=0.01, horizon=100, random_state=0).fit(logs)
    >>> result = evaluator.evaluate(EpsilonGreedy())
    >>> display = HistoryDisplay.from_values(result)
    >>> bool(display.history_length[-1] == len(result.accepted))
    True
    >>> bool(abs(display.cumulative_value[-1] - result.value) < 0.01)
    True
    >>> display = display.plot()  # doctest: +SKIP
    """

    accepted: Array
    acceptance_ratios: Array
    value_rows: Array
    cumulative_value: Array
    _: KW_ONLY
    name: str | None = None

    def __post_init__(self):
        self.n_rounds = len(self.acceptance_ratios)
        counts = np.bincount(self.accepted, minlength=self.n_rounds)
        self.history_length = np.cumsum(counts)
        self.acceptance_rate = len(self.accepted) / self.n_rounds

    def _held(self):
        return looks.counted(self.n_rounds, "round")

    @classmethod
    def from_values(cls, value: ValueLike) -> HistoryDisplay:
        """Show the history behind a value that was computed before.

        Parameters
        ----------
        value : PolicyValue
            A value of a sequential evaluator. One history is shown at a time.

        Returns
        -------
        display : HistoryDisplay
        """
        if not hasattr(value, "acceptance_ratios"):
            raise TypeError(
                f"the value of {getattr(value, 'estimator', type(value).__name__)} "
                "has no history. Use Replay, RejectionSampling or DRns."
            )
        rows, running = value.running_values()
        return cls(
            value.accepted, value.acceptance_ratios, rows, running, name=value.estimator
        )

    @classmethod
    def from_evaluator(
        cls, evaluator: AnyEvaluator, policy: PolicyLike, logs: BanditLogs | None = None
    ) -> HistoryDisplay:
        """Evaluate a policy and show its history.

        Parameters
        ----------
        evaluator : evaluator
            A fitted sequential one.
        policy : policy, array or str
            See the evaluator's `evaluate`.
        logs : BanditLogs, default=None
            Rounds to evaluate on; `None`: those of `fit`.

        Returns
        -------
        display : HistoryDisplay
        """
        evaluator, logs = fitted_evaluator(evaluator, logs)
        return cls.from_values(evaluator.evaluate(policy, logs))

    def plot(
        self,
        ax: Any = None,
        *,
        panels: Sequence[Literal["length", "ratio", "value"]] = HISTORY_PANELS,
        **kwargs: Any,
    ) -> HistoryDisplay:
        """Draw one panel below the other, over the rows of the log.

        Parameters
        ----------
        ax : matplotlib axes or array of them, default=None
            Where to draw, one for every panel; `None` makes a new figure.
        panels : sequence of {"length", "ratio", "value"}, default=all
            What to draw: length of the history, acceptance ratio, value so far.
        **kwargs : dict
            Passed to `ax.plot`.

        Returns
        -------
        display : HistoryDisplay
            Itself.
        """
        panels = looks.checked_panels(panels, HISTORY_PANELS)
        size = 6.4, 1.2 + 1.4 * len(panels)
        with looks.drawing_panels(self, ax, [1] * len(panels), size=size) as axes:
            for one, panel in zip(axes, panels, strict=True):
                self._draw(one, panel, kwargs)
            axes[-1].set_xlabel("row of the log")
            axes[0].set_title(self._title())
        return self._drawn_panels(axes)

    def _draw(self, ax, panel, kwargs):
        x, y, label = self._curve(panel)
        style = {"color": looks.POLICY}
        style["drawstyle"] = "default" if panel == "value" else "steps-post"
        if len(x) <= FEW_POINTS:
            style["marker"] = "o"
        ax.plot(x, y, **{**style, **kwargs})
        ax.set_ylabel(label)
        ax.set_xlim(0, self.n_rounds)
        if panel == "value" and len(y):  # the first rounds may lie far off
            looks.show_values(ax, y[len(y) // 20 :])
        looks.numbers_on(ax.xaxis)
        looks.numbers_on(ax.yaxis)

    def _curve(self, panel):
        rows = np.arange(self.n_rounds)
        if panel == "length":
            return rows, self.history_length, "accepted rounds"
        if panel == "ratio":
            return rows, self.acceptance_ratios, "acceptance ratio c"
        return self.value_rows, self.cumulative_value, "value so far"

    def _title(self):
        name = f"{looks.as_drawn(self.name)}: " if self.name else ""
        return (
            f"{name}{len(self.accepted):,} of {self.n_rounds:,} rounds accepted "
            f"({share(self.acceptance_rate)})"
        )


# -- A value over time, with intervals that hold at all times together -----------------

KEPT_FIELDS = "n_rounds", "low", "high", "estimate"


@dataclass(repr=False, eq=False)
class ConfidenceSequenceDisplay(looks.Display):
    """Values over time with their confidence sequences.

    The intervals hold at all times together. The first interval on one side of the
    baseline decides, however often you look. Make it with `from_sequence`, or with
    `from_values` from intervals that were kept elsewhere. Read more in the
    :ref:`User Guide <confidence_sequences>`.

    Parameters
    ----------
    intervals : dict of ndarray
        Arrays by name, as `ConfidenceSequence.intervals_`, with the fields n_rounds,
        low, high and estimate. To draw the time they need the field time.
    level : float, default=0.95
        Probability with which all intervals of one sequence cover.
    baseline : float, default=None
        What the values are compared with; `None`: nothing.
    gain : bool, default=False
        Whether the values are gains over a baseline.

    Attributes
    ----------
    decided_after : dict of int or None
        By name, the number of rounds at the first interval above or below the baseline.
        `None`: there is no such interval.
    ax_ : matplotlib axes
        Where it was drawn, after `plot`.
    figure_ : matplotlib figure
        The figure of `ax_`, after `plot`.
    lines_ : list of Line2D
        The estimates, after `plot`.

    See Also
    --------
    ConvergenceDisplay : Estimates as a log grows, with intervals for one look each.

    Examples
    --------
    >>> from skope_ope import ConfidenceSequence
    >>> from skope_ope.displays import ConfidenceSequenceDisplay
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(5000, random_state=0, return_truth=True)
    >>> sequence = ConfidenceSequence(baseline="logger", every=10)
    >>> sequence = sequence.update(logs, policy)
    >>> display = ConfidenceSequenceDisplay.from_sequence(sequence)
    >>> display.decided_after
    {'gain': 40}
    >>> display = display.plot()  # doctest: +SKIP
    """

    intervals: Mapping[Any, Any]
    _: KW_ONLY
    level: float = 0.95
    baseline: float | None = None
    gain: bool = False

    def __post_init__(self):
        self.decided_after = {
            name: _first_apart(one, self.baseline)
            for name, one in self.intervals.items()
        }

    def _held(self):
        return looks.counted(len(self.intervals), "sequence")

    @classmethod
    def from_sequence(
        cls,
        sequence: SequenceLike | Mapping[Any, SequenceLike],
        *,
        baseline: float | None = None,
    ) -> ConfidenceSequenceDisplay:
        """Show confidence sequences.

        Parameters
        ----------
        sequence : ConfidenceSequence, or dict of them
            A sequence with rounds. A dict names several: all of values or all of gains,
            with one level.
        baseline : float, default=None
            What the values are compared with, such as a value that was promised.
            `None`: zero for gains, nothing for values.

        Returns
        -------
        display : ConfidenceSequenceDisplay
        """
        named = sequence if isinstance(sequence, Mapping) else None
        if named is not None and not named:
            raise ValueError("sequence is empty: there is nothing to show.")
        every = [sequence] if named is None else list(named.values())
        for one in every:
            if not hasattr(type(one), "intervals_"):
                raise TypeError(
                    "sequence must be a ConfidenceSequence, or a dict of them, got "
                    f"{type(one).__name__}."
                )
        gain = every[0].baseline is not None
        if len({one.baseline is not None for one in every}) > 1:
            raise ValueError(
                "some sequences are of values and some are of gains: draw them in "
                "two figures."
            )
        if len({one.level for one in every}) > 1:
            raise ValueError("sequences of one figure need the same level.")
        if named is None:
            named = {"gain" if gain else "value": sequence}
        baseline = 0.0 if gain and baseline is None else baseline
        intervals = {name: one.intervals_ for name, one in named.items()}
        return cls.from_values(
            intervals, level=every[0].level, baseline=baseline, gain=gain
        )

    @classmethod
    def from_values(
        cls,
        intervals: Mapping[Any, Any],
        *,
        level: float = 0.95,
        baseline: float | None = None,
        gain: bool = False,
    ) -> ConfidenceSequenceDisplay:
        """Show intervals that were kept elsewhere.

        Parameters
        ----------
        intervals : dict of structured arrays, dicts or frames
            By name; each has the fields n_rounds, low, high and estimate, with one
            entry for every time.
        level : float, default=0.95
            Probability with which all intervals of one sequence cover.
        baseline : float, default=None
            What the values are compared with.
        gain : bool, default=False
            Whether the values are gains over a baseline.

        Returns
        -------
        display : ConfidenceSequenceDisplay
        """
        if not isinstance(intervals, Mapping) or not intervals:
            found = type(intervals).__name__
            raise TypeError(
                "intervals must be a dict of intervals by name, {'new': "
                f"sequence.intervals_}}, and not empty; got {found}."
            )
        for name, one in intervals.items():
            have = getattr(getattr(one, "dtype", None), "names", None)
            have = list(one) if have is None else have
            missing = [field for field in KEPT_FIELDS if field not in have]
            if missing:
                raise ValueError(
                    f"intervals[{name!r}] has no {', '.join(missing)}: it needs what "
                    "ConfidenceSequence.intervals_ holds."
                )
            if not len(one["n_rounds"]):
                raise ValueError(
                    f"intervals[{name!r}] has no interval yet: fewer rounds came than "
                    "every=... asks for."
                )
        return cls(dict(intervals), level=level, baseline=baseline, gain=gain)

    def plot(
        self,
        ax: Axes = None,
        *,
        over: Literal["n_rounds", "time"] = "n_rounds",
        truth: float | ArrayLike | None = None,
        log: bool = False,
        **kwargs: Any,
    ) -> ConfidenceSequenceDisplay:
        """Draw a curve for every sequence, with its intervals.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; `None` makes a new figure.
        over : {"n_rounds", "time"}, default="n_rounds"
            What the horizontal axis shows.
        truth : float or array-like of shape (n_times,), default=None
            The true value, at every time or at each; drawn as a line.
        log : bool, default=False
            Whether numbers of rounds are on a logarithmic axis. Otherwise the
            intervals of the first tenth may leave the picture.
        **kwargs : dict
            Passed to `ax.plot`.

        Returns
        -------
        display : ConfidenceSequenceDisplay
            Itself.
        """
        if over not in ("n_rounds", "time"):
            raise ValueError(f"over must be 'n_rounds' or 'time', got {over!r}.")
        if log and over == "time":
            raise ValueError("log=True is for numbers of rounds: over='n_rounds'.")
        times = [self._times(name, over) for name in self.intervals]
        with looks.drawing(self, ax) as ax:
            self.lines_ = []
            names = looks.key_texts(list(self.intervals))
            for i, (name, x) in enumerate(zip(self.intervals, times, strict=True)):
                self._draw(ax, i, looks.name_lines(names[i]), x, name, kwargs)
            if self.baseline is not None:
                label = "no gain" if self.gain and not self.baseline else "baseline"
                style = {"color": looks.BASELINE, "linestyle": "-", "linewidth": 1.2}
                ax.axhline(self.baseline, label=label, zorder=1.5, **style)
            if truth is not None:
                truths = np.broadcast_to(truth, len(times[0]))
                ax.plot(times[0], truths, **looks.TRUTH_STYLE)
            if log:
                ax.set_xscale("log")
            else:
                self._show_late(ax, truth)
            self._label(ax, over, log)
            looks.legend_beside(ax)
        return self._drawn(ax)

    def _times(self, name, over):
        one = self.intervals[name]
        try:
            x = np.asarray(one[over])
        except (KeyError, ValueError):
            x = np.array([np.nan])
        if over == "time" and x.dtype.kind == "f" and np.isnan(x).all():
            raise ValueError(
                f"the intervals of {name!r} have no times: build the logs with "
                "timestamp=..., or draw them over='n_rounds'."
            )
        return x

    def _draw(self, ax, i, label, x, name, kwargs):
        one = self.intervals[name]
        low, high = np.asarray(one["low"]), np.asarray(one["high"])
        style = {**looks.series_style(i), "markersize": 4, "label": label}
        style["markevery"] = max(len(x) // 15, 1)
        (line,) = ax.plot(x, np.asarray(one["estimate"]), **{**style, **kwargs})
        self.lines_.append(line)
        color = line.get_color()
        if len(x) == 1:  # an area of one point is none
            ax.vlines(x, low, high, color=color, linewidth=1.2)
            return
        looks.draw_intervals(ax, x, low, high, color, len(self.intervals))
        after = self.decided_after[name]
        if after is not None:
            row = int(np.flatnonzero(np.asarray(one["n_rounds"]) == after)[0])
            style = {"color": color, "linestyle": ":", "linewidth": 1.2}
            ax.axvline(x[row], label=f"decided after\n{after:,} rounds", **style)

    def _show_late(self, ax, truth):
        """Let what the first tenth of the rounds says leave the picture."""
        drawn = [] if self.baseline is None else [np.array([self.baseline])]
        drawn += [] if truth is None else [np.ravel(truth)]
        for one in self.intervals.values():
            n = np.asarray(one["n_rounds"])
            late = n > looks.EARLY * n[-1]
            drawn += [np.asarray(one[name])[late] for name in ("low", "high")]
        looks.show_values(ax, *drawn)

    def _label(self, ax, over, log):
        looks.numbers_on(ax.yaxis, signed=self.gain)
        what = "gain" if self.gain else "value"
        ax.set_ylabel(f"{what} (reward per round)")
        about = f"{level_text(self.level)} at all times together"
        if over == "time":
            for text in ax.get_xticklabels():
                text.set_rotation(30)
            ax.set_xlabel(f"time ({about})")
            return
        if log:
            looks.log_numbers_on(ax.xaxis)
        else:
            looks.numbers_on(ax.xaxis)
            ax.set_xlim(left=0)
        ax.set_xlabel(f"rounds so far ({about})")


def _first_apart(intervals, baseline):
    """Return the rounds after which an interval first lay off the baseline, or None."""
    if baseline is None:
        return None
    low, high = np.asarray(intervals["low"]), np.asarray(intervals["high"])
    apart = np.flatnonzero((low > baseline) | (high < baseline))
    return int(np.asarray(intervals["n_rounds"])[apart[0]]) if apart.size else None
