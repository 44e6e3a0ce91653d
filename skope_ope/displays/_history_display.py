# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How a simulated history grew, and the running value along it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skope_ope._inside import fitted_evaluator
from skope_ope.displays import _looks as looks
from skope_ope.logs._shown_numbers import share

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Literal

    from skope_ope._types import AnyEvaluator, Array, PolicyLike
    from skope_ope.evaluators.core._policy_value import PolicyValue
    from skope_ope.logs._bandit_logs import BanditLogs

HISTORY_PANELS = ("length", "ratio", "value")
FEW_POINTS = 20  # points that are drawn one by one


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

    def __init__(
        self,
        accepted: Array,
        acceptance_ratios: Array,
        value_rows: Array,
        cumulative_value: Array,
        *,
        name: str | None = None,
    ) -> None:
        self.accepted = accepted
        self.acceptance_ratios = acceptance_ratios
        self.value_rows = value_rows
        self.cumulative_value = cumulative_value
        self.name = name
        self.n_rounds = len(acceptance_ratios)
        counts = np.bincount(accepted, minlength=self.n_rounds)
        self.history_length = np.cumsum(counts)
        self.acceptance_rate = len(accepted) / self.n_rounds

    def _held(self):
        return looks.counted(self.n_rounds, "round")

    @classmethod
    def from_values(cls, value: PolicyValue) -> HistoryDisplay:
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
        self.axes_, self.ax_, self.figure_ = axes, axes[0], axes[0].figure
        return self

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
