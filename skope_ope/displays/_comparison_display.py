# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Gains of several policies over a baseline, with what they decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from skope_ope._sklearn import fitted_evaluator
from skope_ope._types import (
    AnyEvaluator,
    PolicyLike,
    ValueLike,
)
from skope_ope.displays import _looks as looks
from skope_ope.logs import BanditLogs
from skope_ope.logs._shown_numbers import level_text

COLOUR = {"better": looks.POLICY, "worse": looks.POLICY, "cannot tell": looks.DOUBTED}
WIDTH_OF_TWO, AROUND_GAINS = 8.0, 1.45  # inches of a new figure
THE_LOGGER = "the logger"  # how a comparison calls the baseline "logger"
GAIN_KEYS = "difference", "difference_low", "difference_high"
VALUE_KEYS = "value", "low", "high"


class PolicyComparisonDisplay(looks.Display):
    """Gains of policies over a baseline, and their values, one row per policy.

    It draws the table of the comparison: the same intervals, at the same level, with
    the same correction. Make it with `from_values` or `from_evaluator`; both compute
    everything, `plot` only draws. Read more in the :ref:`User Guide <comparison>`.

    Parameters
    ----------
    records : list of dict
        Rows of the table, see `PolicyComparison.to_records`.
    baseline : dict
        Its name, value and interval: policy, value, low, high.
    decision : {"deploy", "keep", "undecided"}
        What to do.
    level : float
        Coverage of all intervals of gains together.

    Attributes
    ----------
    policies : list of str
        The policies that are compared, in the order of their rows.
    gain, gain_low, gain_high : ndarray of shape (n_policies,)
        Paired gains and the ends of their intervals.
    value, low, high : ndarray of shape (n_policies,)
        Values and the ends of their intervals.
    baseline : dict
        What is known of the baseline.
    answers : list of {"better", "worse", "cannot tell"}
        What is known of every policy.
    choice : str or None
        The policy to deploy.
    axes_ : ndarray of matplotlib axes
        Where gains and, if there are two, values were drawn, after `plot`.
    ax_ : matplotlib axes
        The first of them.
    figure_ : matplotlib figure
        Their figure.

    See Also
    --------
    PolicyValueDisplay : Values of several evaluators.

    Examples
    --------
    >>> from skope_ope import UniformPolicy, compare_policies
    >>> from skope_ope.displays import PolicyComparisonDisplay
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> comparison = compare_policies({"new": policy}, logs)
    >>> display = PolicyComparisonDisplay.from_values(comparison)
    >>> display.policies, display.decision
    (['new'], 'deploy')
    >>> display = display.plot()  # doctest: +SKIP
    """

    def __init__(
        self,
        records: list[dict[str, Any]],
        baseline: Mapping[Any, Any],
        decision: Literal["deploy", "keep", "undecided"],
        level: float,
    ) -> None:
        compared = [record for record in records if record["answer"]]
        self.baseline, self.decision, self.level = baseline, decision, level
        self.policies = [record["policy"] for record in compared]
        self.answers = [record["answer"] for record in compared]
        chosen = [record["policy"] for record in compared if record["chosen"]]
        self.choice = chosen[0] if chosen else None

        def column(name):
            return np.array([record[name] for record in compared])

        self.gain, self.gain_low, self.gain_high = map(column, GAIN_KEYS)
        self.value, self.low, self.high = map(column, VALUE_KEYS)

    def _held(self):
        return f"{self.decision}, {looks.counted(len(self.policies), 'gain')}"

    @classmethod
    def from_values(
        cls,
        values: Mapping[Any, ValueLike],
        *,
        baseline: str | None = None,
        level: float | None = None,
    ) -> PolicyComparisonDisplay:
        """Show values that were computed before.

        Parameters
        ----------
        values : PolicyComparison, or dict of PolicyValue
            What `compare_policies` returns, or values by the name of the policy, from
            the same rounds.
        baseline : str, default=None
            Name of the baseline in a dict. A comparison already has one.
        level : float, default=None
            Coverage of the intervals; `None`: that of the comparison, 0.95 of a dict.

        Returns
        -------
        display : PolicyComparisonDisplay
        """
        if not hasattr(values, "level_of_each"):
            values = _comparison_of(looks.checked_values(values), baseline, level)
        elif baseline not in (None, values.baseline):
            raise ValueError(
                f"the comparison is with {values.baseline!r}, got baseline="
                f"{baseline!r}: compare_policies(..., baseline={baseline!r}) compares "
                "with it."
            )
        records = values.to_records(level)
        answers = {record["answer"] for record in records if record["answer"]}
        chosen = any(record["chosen"] for record in records)
        decision = "deploy" if chosen else "keep" if answers == {"worse"} else None
        return cls(
            records,
            values._baseline_record(level),
            decision or "undecided",
            values.level if level is None else level,
        )

    @classmethod
    def from_evaluator(
        cls,
        evaluator: AnyEvaluator,
        policies: Mapping[Any, PolicyLike],
        *,
        logs: BanditLogs | None = None,
        baseline: str = "logger",
        level: float = 0.95,
    ) -> PolicyComparisonDisplay:
        """Compare policies with a baseline, and show the gains.

        Parameters
        ----------
        evaluator : evaluator
            A fitted one.
        policies : dict of policies
            By name, see `compare_policies`.
        logs : BanditLogs, default=None
            Rounds to evaluate on; `None`: those of `fit`.
        baseline : str, default="logger"
            Name of the policy with which the others are compared; "logger": the mean
            reward of the logs.
        level : float, default=0.95
            Coverage of the intervals of all gains together.

        Returns
        -------
        display : PolicyComparisonDisplay
        """
        from skope_ope.selection import compare_policies

        evaluator, logs = fitted_evaluator(evaluator, logs)
        logs = evaluator.logs_ if logs is None else logs
        given = {"evaluator": evaluator, "baseline": baseline, "level": level}
        return cls.from_values(compare_policies(policies, logs, **given))

    def plot(
        self, ax: Any = None, *, truth: Mapping[Any, float] | None = None, **kwargs: Any
    ) -> PolicyComparisonDisplay:
        """Draw one row per policy, the first on top.

        Parameters
        ----------
        ax : matplotlib axes or pair of them, default=None
            Where to draw the gains, and the values if there are two. `None` makes a new
            figure with both.
        truth : dict of float, default=None
            The true values of policies by name, drawn as marks. If the baseline is
            among them (by its name, which may be "logger"), the true gains are drawn,
            too.
        **kwargs : dict
            Passed to `ax.errorbar`.

        Returns
        -------
        display : PolicyComparisonDisplay
            Itself.
        """
        name = looks.name_lines(self.baseline["policy"])
        labels = [
            f"{looks.name_lines(one)}\n{'deploy' if one == self.choice else answer}"
            for one, answer in zip(self.policies, self.answers, strict=True)
        ]
        labels.append(f"{name}\nbaseline")
        height = len(labels) * looks.PER_LINE * (looks.n_lines(labels) + 0.5)
        size = WIDTH_OF_TWO, max(looks.LEAST_HEIGHT, AROUND_GAINS + height)
        with looks.drawing(self, ax, size=size, grid="x", ncols=2) as axes:
            axes = np.atleast_1d(axes).ravel()
            self._draw(axes, name, labels, truth or {}, kwargs)
        return self._drawn_panels(axes)

    def _draw(self, axes, name, labels, truth, kwargs):
        known = np.array([truth.get(one, np.nan) for one in self.policies], dtype=float)
        told = f"{level_text(self.level)} intervals, all together"
        gains = self.gain, self.gain_low, self.gain_high
        called = self.baseline["policy"]
        base = truth.get("logger" if called == THE_LOGGER else called, np.nan)
        self._rows(axes[0], gains, known - base, kwargs)
        self._baseline_row(axes[0], 0.0, 0.0, 0.0)
        looks.numbers_on(axes[0].xaxis, signed=True)
        axes[0].set_xlabel(f"gain over {name}\n(reward per round)\n{told}")
        axes[0].set_yticks(range(len(labels)), labels)
        axes[0].set_title(self._title())
        for ax in axes[1:2]:
            self._rows(ax, (self.value, self.low, self.high), known, kwargs)
            self._baseline_row(ax, *(self.baseline[key] for key in VALUE_KEYS))
            looks.numbers_on(ax.xaxis)
            ax.set_yticks(range(len(labels)), [])
            ax.set_xlabel(f"value\n(reward per round)\n{told}")
        looks.legend_beside(axes[-1])

    def _baseline_row(self, ax, value, low, high):
        """Draw the baseline as a line, and its own interval in the last row."""
        ax.axvline(value, color=looks.BASELINE, linestyle="--", linewidth=1, zorder=1)
        lengths, y = looks.lengths([value], [low], [high]), len(self.policies)
        style = {"fmt": "s", "color": looks.BASELINE, "capsize": 3}
        ax.errorbar([value], [y], xerr=lengths, **style)
        ax.set_ylim(y + 0.5, -0.5)

    def _rows(self, ax, numbers, truth, kwargs):
        """Draw a row of every policy: filled where its answer is known."""
        for y, (estimate, low, high) in enumerate(zip(*numbers, strict=True)):
            answer = self.answers[y]
            chosen = self.policies[y] == self.choice
            style = {
                "fmt": "D" if chosen else "o",
                "color": COLOUR[answer],
                "markerfacecolor": "white" if answer == "cannot tell" else None,
                "capsize": 3,
                "linewidth": 2.4 if chosen else 1.6,
                **kwargs,
            }
            lengths = looks.lengths([estimate], [low], [high])
            ax.errorbar([estimate], [y], xerr=lengths, **style)
            if np.isnan(estimate):
                looks.say_no_value(ax, y)
        if np.isfinite(truth).any():
            style = {"marker": "|", "markersize": 16, "markeredgewidth": 2}
            style |= {"linestyle": "none", "color": looks.TRUE_VALUE, "label": "truth"}
            ax.plot(truth, np.arange(len(truth)), **style)

    def _title(self):
        if self.choice is not None:
            return f"deploy {looks.as_drawn(self.choice)}"
        if self.decision == "keep":
            return f"keep {looks.as_drawn(self.baseline['policy'])}"
        return "undecided"


def _comparison_of(values, baseline, level):
    """Return the comparison of given values with one of them."""
    from skope_ope.selection import PolicyComparison

    if baseline not in values or len(values) < 2:
        raise ValueError(
            "baseline must name one of at least two values, got "
            f"{baseline!r}; their names are {list(values)}."
        )
    level = 0.95 if level is None else level
    return PolicyComparison(values, values[baseline], baseline, level=level)
