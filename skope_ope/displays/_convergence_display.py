# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the answer would have been with fewer rounds: estimates as the log grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skope_ope.displays import _looks as looks
from skope_ope.displays._given_values import checked_values, key_texts, keyed_values
from skope_ope.logs._shown_numbers import level_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from skope_ope._types import Array, ArrayLike, Axes, PolicyLike
    from skope_ope.evaluators._value_table import ValueTable
    from skope_ope.evaluators.core._policy_value import PolicyValue
    from skope_ope.logs._bandit_logs import BanditLogs

N_SIZES = 30


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

    def __init__(
        self,
        sizes: Array,
        values: Mapping[Any, Sequence[PolicyValue]],
        *,
        level: float = 0.95,
    ) -> None:
        self.sizes, self.values, self.level = sizes, values, level
        self.keys = list(values)
        curves = list(values.values())
        self.value = np.array([[one.value for one in curve] for curve in curves])
        intervals = [[one._interval(level) for one in curve] for curve in curves]
        self.low, self.high = np.moveaxis(np.array(intervals, dtype=float), 2, 0)
        self.leaves_bias_out = [curve[-1].leaves_bias_out for curve in curves]

    def _held(self):
        curves = looks.counted(len(self.keys), "curve")
        return f"{curves}, {looks.counted(len(self.sizes), 'size')}"

    @classmethod
    def from_values(
        cls,
        values: ValueTable | Mapping[Any, PolicyValue] | PolicyValue,
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
        values = checked_values(values)
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
        values = keyed_values(evaluator, policy, logs)
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
            for i, text in enumerate(key_texts(self.keys)):
                style = {**looks.series_style(i), "label": looks.name_lines(text)}
                style |= {"markersize": 4, "markevery": 5, **kwargs}
                self.lines_ += ax.plot(self.sizes, self.value[i], **style)
                style = {"color": self.lines_[-1].get_color(), "linewidth": 0}
                style["alpha"] = looks.FAINT / len(self.keys) ** 0.5
                ax.fill_between(self.sizes, self.low[i], self.high[i], **style)
                style |= {"alpha": 0.6, "linewidth": 0.8}
                for end in (self.low[i], self.high[i]):
                    ax.plot(self.sizes, end, **style)
            if truth is not None:
                style = {"color": looks.TRUE_VALUE, "linestyle": "--", "label": "truth"}
                ax.axhline(float(truth), **style)
            late = self.sizes > looks.EARLY * self.sizes[-1]
            looks.show_values(
                ax, *(p[:, late] for p in (self.value, self.low, self.high))
            )
            ax.set_xlim(0, self.sizes[-1])
            looks.numbers_on(ax.xaxis)
            looks.numbers_on(ax.yaxis)
            ax.set_xlabel(self._what_is_drawn())
            ax.set_ylabel("value (reward per round)")
            looks.legend_beside(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _what_is_drawn(self):
        level = level_text(self.level)
        notes = [f"{level} intervals, each for one size chosen beforehand"]
        for reason in dict.fromkeys(self.leaves_bias_out):
            if reason:
                named = [
                    text
                    for text, own in zip(
                        key_texts(self.keys), self.leaves_bias_out, strict=True
                    )
                    if own == reason
                ]
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
