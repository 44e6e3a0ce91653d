# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How the importance weights behind a value are spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from skope_ope._types import AnyEvaluator, Array, ArrayLike, PolicyLike
from skope_ope.displays import _looks as looks
from skope_ope.displays._given_values import static_evaluator
from skope_ope.intervals._tail_shape import UNRELIABLE, tail_shape
from skope_ope.logs import BanditLogs
from skope_ope.logs._shown_numbers import figure, fixed, share
from skope_ope.logs._validation import as_numbers

WEIGHT_PANELS = ("shares", "tail")
SMALL_WEIGHT = 0.01  # weights below this share of the mean are not drawn
N_RANKS, N_DOTS = 200, 10  # points of the tail, and rounds that are drawn one by one


class WeightsDisplay(looks.Display):
    r"""Distribution of importance weights over rounds and over the weight itself.

    Make it with `from_evaluator` or `from_values`; both compute everything, `plot` only
    draws. Rounds are sorted into bins of their weight :math:`w_i = \pi(a_i|x_i) / p_i`.
    Bars show the share of the rounds in each bin. A line shows their share of all
    weight. If the line runs far to the right of the bars, few rounds decide. Below is
    the tail: the share of the rounds with at least some weight, and their share of all
    weight. Its shape k says how fast large weights become rare. From k = 0.5 on their
    variance is infinite. From k = 0.7 on no practical number of rounds makes a weighted
    mean reliable. Read more in the :ref:`User Guide <displays>`.

    Parameters
    ----------
    weights : ndarray of shape (n_rounds,)
        Importance weights, non-negative.
    used_weights : ndarray of shape (n_rounds,), default=None
        The weights that the evaluator uses, clipped or shrunk. `None`: the same
        weights.
    rewards : ndarray of shape (n_rounds,), default=None
        Rewards of the rounds, for their share of the weighted rewards.
    name : str, default=None
        Name of the evaluator.

    Attributes
    ----------
    n_rounds : int
        Number of rounds.
    effective_sample_size : float
        (sum w)^2 / sum w^2; NaN where all weights are zero.
    max_weight : float
        The largest weight.
    max_weight_share : float
        Its share of all weight; NaN where all weights are zero.
    zero_share : float
        Share of the rounds whose weight is zero.
    altered_share : float
        Share of the rounds whose weight the evaluator changes.
    tail_shape, tail_shape_error : float
        Shape k of the tail of the weights, and its standard error. NaN if there are too
        few weights, or too many equal ones.
    axes_ : ndarray of matplotlib axes
        Where it was drawn, one for every panel, after `plot`.
    ax_ : matplotlib axes
        The first of them, after `plot`.
    figure_ : matplotlib figure
        Their figure, after `plot`.
    bars_ : BarContainer
        Shares of the rounds, after `plot`.
    line_ : StepPatch
        Shares of the weight, after `plot`.

    See Also
    --------
    ClippingCurveDisplay : How a value changes with the bound on the weights.

    Examples
    --------
    >>> from skope_ope.displays import WeightsDisplay
    >>> display = WeightsDisplay.from_values([0.0, 0.5, 0.5, 1.0, 8.0])
    >>> round(display.effective_sample_size, 2), display.max_weight_share
    (1.53, 0.8)
    >>> display.share_of_largest(0.4)  # of the two largest of five
    0.9
    >>> display = display.plot()  # doctest: +SKIP
    """

    def __init__(
        self,
        weights: Array,
        *,
        used_weights: Array | None = None,
        rewards: Array | None = None,
        name: str | None = None,
    ) -> None:
        self.weights, self.rewards = weights, rewards
        self.used_weights = weights if used_weights is None else used_weights
        self.name = name
        total, square = weights.sum(), weights @ weights
        self.n_rounds = len(weights)
        self.effective_sample_size = float(total**2 / square if total else np.nan)
        self.max_weight = float(weights.max())
        self.max_weight_share = float(self.max_weight / total if total else np.nan)
        self.zero_share = float((weights == 0).mean())
        self.altered_share = float((self.used_weights != weights).mean())
        self.tail_shape, self.tail_shape_error = tail_shape(weights)

    def _held(self):
        return looks.counted(self.n_rounds, "weight")

    @classmethod
    def from_values(
        cls,
        weights: ArrayLike,
        *,
        used_weights: ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        name: str | None = None,
    ) -> WeightsDisplay:
        """Show weights that were computed before.

        Parameters
        ----------
        weights : array-like of shape (n_rounds,)
            Importance weights.
        used_weights : array-like of shape (n_rounds,), default=None
            The weights that an evaluator uses. `None`: the same weights.
        rewards : array-like of shape (n_rounds,), default=None
            Rewards of the rounds.
        name : str, default=None
            Name of the evaluator.

        Returns
        -------
        display : WeightsDisplay
        """
        weights = _check_weights("weights", weights)
        if used_weights is not None:
            used_weights = _check_weights("used_weights", used_weights)
            _check_rows("used_weights", used_weights, weights)
        if rewards is not None:
            rewards = as_numbers("rewards", rewards)
            _check_rows("rewards", rewards, weights)
        return cls(weights, used_weights=used_weights, rewards=rewards, name=name)

    @classmethod
    def from_evaluator(
        cls, evaluator: AnyEvaluator, policy: PolicyLike, logs: BanditLogs | None = None
    ) -> WeightsDisplay:
        """Show the weights with which an evaluator values a policy.

        Parameters
        ----------
        evaluator : evaluator
            A fitted static one that uses importance weights.
        policy : policy, array or str
            See the evaluator's `evaluate`.
        logs : BanditLogs, default=None
            Rounds to evaluate on; `None`: those of `fit`.

        Returns
        -------
        display : WeightsDisplay
        """
        evaluator, logs = static_evaluator(evaluator, logs, "_weights_on")
        name = type(evaluator).__name__
        weights, used_weights = evaluator._weights_on(policy, logs)
        rewards = (evaluator.logs_ if logs is None else logs).reward
        return cls(weights, used_weights=used_weights, rewards=rewards, name=name)

    def share_of_largest(
        self, fraction: float, of: Literal["weight", "value"] = "weight"
    ) -> float:
        """Share of all weight in the rounds with the largest weights.

        Parameters
        ----------
        fraction : float
            Fraction of the rounds, in [0, 1]; at least one round is counted.
        of : {"weight", "value"}, default="weight"
            "value": the share of all weighted rewards, with the weights that the
            evaluator uses; it needs `rewards` that are not negative.

        Returns
        -------
        share : float
            NaN if all weights, or all weighted rewards, are zero.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"fraction must lie in [0, 1], got {fraction}.")
        # ceil of 0.1 * 30 must be 3, not 4.
        count = max(int(np.ceil(fraction * self.n_rounds * (1 - 1e-12))), 1)
        largest = np.argpartition(self.weights, -count)[-count:]
        carried = self._carried(of)
        total = carried.sum()
        return float(carried[largest].sum() / total) if total else float("nan")

    def _carried(self, of):
        """Return what the rounds carry of all weight, or of all weighted rewards."""
        if of == "weight":
            return self.weights
        if of != "value":
            raise ValueError(f"of must be 'weight' or 'value', got {of!r}.")
        if not self._has_value_shares:
            raise ValueError(
                "shares of the value need rewards that are not negative; these are "
                f"{'not known' if self.rewards is None else 'partly below zero'}."
            )
        return self.used_weights * self.rewards

    @property
    def _has_value_shares(self):
        return self.rewards is not None and self.rewards.min() >= 0

    def plot(
        self,
        ax: Any = None,
        *,
        panels: Sequence[Literal["shares", "tail"]] | None = None,
        bins: int = 30,
        line_kw: Mapping[Any, Any] | None = None,
        **kwargs: Any,
    ) -> WeightsDisplay:
        """Draw shares of rounds and of weight by the size of the weight.

        Parameters
        ----------
        ax : matplotlib axes or pair of them, default=None
            Where to draw, one for every panel; `None` makes a new figure.
        panels : sequence of {"shares", "tail"}, default=None
            What to draw. `None`: both, or only the shares if `ax` is one axes.
        bins : int, default=30
            Number of bins up to the largest weight, of equal width on a logarithmic
            axis. Weights below a hundredth of the mean, zero among them, are not
            drawn: the title says how many rounds have them.
        line_kw : dict, default=None
            Passed to the line of the weight.
        **kwargs : dict
            Passed to `ax.bar`.

        Returns
        -------
        display : WeightsDisplay
            Itself.
        """
        panels = looks.checked_panels(panels, WEIGHT_PANELS, ax)
        size = 6.4, 1.2 + 2.0 * len(panels)
        with looks.drawing_panels(self, ax, [1] * len(panels), size=size) as axes:
            for one, panel in zip(axes, panels, strict=True):
                if panel == "shares":
                    self._draw_shares(one, bins, line_kw, kwargs)
                else:
                    self._draw_tail(one)
                one.set_xscale("log")
                looks.log_numbers_on(one.xaxis)
            axes[0].set_title(self._title())
            axes[-1].set_xlabel("importance weight")
        return self._drawn_panels(axes)

    def _draw_shares(self, ax, bins, line_kw, kwargs):
        edges = self._edges(bins)
        rounds = np.histogram(self.weights, edges)[0] / self.n_rounds
        total = self.weights.sum() or 1.0
        carried = np.histogram(self.weights, edges, weights=self.weights)[0] / total
        style = {
            "color": looks.BASELINE,
            "alpha": 0.5,
            "label": "of the rounds",
            **kwargs,
        }
        self.bars_ = ax.bar(edges[:-1], rounds, np.diff(edges), align="edge", **style)
        style = {"color": looks.POLICY, "linewidth": 2, "label": "of the weight"}
        self.line_ = ax.stairs(carried, edges, **{**style, **(line_kw or {})})
        if self.altered_share:
            used = np.histogram(self.weights, edges, weights=self.used_weights)[0]
            label = f"left by {looks.name_lines(self.name or 'the evaluator')}"
            ax.stairs(
                used / total, edges, color=looks.DOUBTED, linestyle="--", label=label
            )
        looks.numbers_on(ax.yaxis, share=True)
        ax.set_ylabel("share")
        looks.legend_beside(ax, title="share")

    def _draw_tail(self, ax):
        """Draw what the rounds of a weight or more are, and carry, at some ranks."""
        order = np.argsort(-self.weights, kind="stable")
        n_positive = max(int((self.weights > 0).sum()), 1)
        ranks = np.unique(np.geomspace(1, n_positive, N_RANKS).round().astype(int))
        ranks = np.union1d(ranks, np.arange(1, min(N_DOTS, n_positive) + 1))
        x = self.weights[order][ranks - 1]
        ranks, x = (
            values[x >= SMALL_WEIGHT * self.weights.mean()] for values in (ranks, x)
        )
        curves = [("of the rounds", looks.BASELINE, "-", ranks / self.n_rounds)]
        names = ["weight", "value"] if self._has_value_shares else ["weight"]
        for name, line in zip(names, ("-", ":"), strict=False):
            carried = self._carried(name)[order].cumsum()
            share = carried[ranks - 1] / (carried[-1] or 1.0)
            told = "of the weight" if name == "weight" else "of weighted rewards"
            curves.append((told, looks.POLICY, line, share))
        for (told, color, line, share), marker in zip(curves, "so^", strict=False):
            style = {"color": color, "linestyle": line, "label": told}
            dots = {"marker": marker, "markersize": 4, "markevery": slice(0, N_DOTS)}
            ax.plot(x, share, **style, **dots)
        ax.set_yscale("log")
        ax.set_ylim(0.7 / self.n_rounds, 1.5)
        looks.log_numbers_on(ax.yaxis, share=True)
        ax.set_ylabel("share of rounds with\nthis weight or more")
        looks.legend_beside(ax, title="share")

    def _edges(self, bins):
        drawn = self.weights[self.weights >= SMALL_WEIGHT * self.weights.mean()]
        low, high = drawn.min(), drawn.max()
        if high == 0:
            low = high = 1.0
        if high < low * 2:  # nearly equal weights: a scale from half to twice
            low, high = low / 2, high * 2
        edges = np.geomspace(low, high, bins + 1)
        # Rounding must not push the extreme weights out of the outer bins.
        edges[0], edges[-1] = low, high
        return edges

    def _title(self):
        if not self.max_weight:
            return f"all {self.n_rounds:,} rounds have weight 0"
        lines = [
            f"{fixed(self.effective_sample_size, 0)} effective rounds of "
            f"{self.n_rounds:,}",
            f"largest weight {figure(self.max_weight, 3)}, "
            f"{share(self.max_weight_share)} of "
            "all",
        ]
        if np.isfinite(self.tail_shape):
            heavy = f", heavy above {UNRELIABLE}" * (self.tail_shape > UNRELIABLE)
            error = self.tail_shape_error
            lines.append(f"tail shape k = {self.tail_shape:.2f} ± {error:.2f}{heavy}")
        small = SMALL_WEIGHT * self.weights.mean()
        below = (self.weights < small).mean()
        if below and below == self.zero_share:
            lines.append(f"{share(below)} of the rounds have weight 0")
        elif below:
            lines.append(
                f"{share(below)} of the rounds have weights below {figure(small, 2)}"
            )
        if self.altered_share:
            lines.append(f"{share(self.altered_share)} of the weights are altered")
        return "\n".join(lines)


def _check_rows(name, values, weights):
    if len(values) != len(weights):
        raise ValueError(f"{name} has {len(values)} rows, weights has {len(weights)}.")


def _check_weights(name, weights):
    weights = as_numbers(name, weights)
    if not len(weights):
        raise ValueError(f"{name} is empty: at least one round is needed.")
    if weights.min() < 0:
        row = int(np.argmin(weights))
        raise ValueError(
            f"{name} must not be negative, got {weights[row]:.6g} at row {row}."
        )
    return weights
