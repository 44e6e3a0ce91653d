# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a log can tell of a policy: its actions there, and how its weights spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np

from skope_ope._types import AnyEvaluator, Array, ArrayLike, PolicyLike
from skope_ope.displays import _looks as looks
from skope_ope.intervals._tail_shape import UNRELIABLE, tail_shape
from skope_ope.logs import BanditLogs
from skope_ope.logs._shown_numbers import figure, fixed, level_text, share
from skope_ope.logs._validation import as_numbers

SUPPORT_PANELS = ("shares", "rounds")
NEVER_LOGGED = "is never done by the logger"
NO_SHARE, TOLERANCE = 1e-9, 1e-6  # of a probability, and of sums that a user gives
PER_ROW, AROUND_SHARES = 0.24, 1.3  # inches of a new figure


@dataclass(repr=False, eq=False)
class SupportDisplay(looks.Display):
    r"""How often a policy takes every action, and how often the logger does.

    Make it with `from_evaluator` or `from_values`; both compute everything, `plot` only
    draws. If the logger never takes an action of the policy, the log has no rewards of
    it. An estimate leaves the action out, or extrapolates with a reward model. For the
    other actions, the effective rounds say how much information the log has:
    :math:`(\sum w)^2 / \sum w^2` over the rounds of the action. Read more in the
    :ref:`User Guide <displays>`.

    Parameters
    ----------
    labels : list
        Names of the rows: actions, or slots and what they show.
    policy_share, logger_share : ndarray of shape (n_labels,)
        Mean probability under the policy and under the logger. If the distribution of
        the logger is not known, the share of the logged rounds.
    unsupported : ndarray of shape (n_labels,)
        The part of `policy_share` on actions that the logger cannot take in the same
        context. If the distribution of the logger is not known, on actions that it
        never took.
    weight_sums : pair of ndarray of shape (n_labels,), default=None
        Sums of the importance weights and of their squares over the rounds of every
        label; `None`: not known.
    label_name : str, default="action"
        What the labels are.

    Attributes
    ----------
    unsupported_mass : float
        The policy's probability of actions that the logger never takes.
    untold_mass : float
        `unsupported_mass`, plus the probability of labels without an effective round in
        this log: there are too few rounds, or some were left out.
    effective_rounds : ndarray of shape (n_labels,)
        Effective rounds of every label, 0 where there are none; NaN where they are
        not known.
    axes_ : ndarray of matplotlib axes
        Where it was drawn, one for every panel, after `plot`.
    ax_ : matplotlib axes
        The first of them, after `plot`.
    figure_ : matplotlib figure
        Their figure, after `plot`.

    See Also
    --------
    WeightsDisplay : How the weights are spread over all rounds.
    audit : Findings about a policy on a log.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import IPS, BanditLogs, UniformPolicy
    >>> from skope_ope.displays import SupportDisplay
    >>> logs = BanditLogs(np.zeros((4, 1)), ["a", "b", "b", "a"], [1, 0, 1, 0],
    ...                   propensity=[0.5] * 4, actions=["a", "b", "c"])
    >>> display = SupportDisplay.from_evaluator(IPS().fit(logs), UniformPolicy())
    >>> round(display.unsupported_mass, 3), display.effective_rounds.tolist()
    (0.333, [2.0, 2.0, 0.0])
    >>> display = display.plot()  # doctest: +SKIP
    """

    labels: list[Any]
    policy_share: Array
    logger_share: Array
    unsupported: Array
    _: KW_ONLY
    weight_sums: tuple[Array, Array] | None = None
    label_name: str = "action"

    def __post_init__(self):
        # one for actions, which exclude each other; slots may stay empty
        n_slots = self.policy_share.sum() or np.nan
        self.unsupported_mass = float(self.unsupported.sum() / n_slots)
        alone = [[k] for k in range(len(self.labels))]
        self.effective_rounds = _effective(self.weight_sums, alone)
        untold = np.where(
            self.effective_rounds == 0, self.policy_share, self.unsupported
        )
        self.untold_mass = float(untold.sum() / n_slots)

    def _held(self):
        return looks.counted(len(self.labels), self.label_name)

    @classmethod
    def from_values(
        cls,
        policy_share: ArrayLike,
        logger_share: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        unsupported: ArrayLike | None = None,
    ) -> SupportDisplay:
        """Show shares that were computed before.

        Parameters
        ----------
        policy_share, logger_share : array-like of shape (n_actions,)
            Mean probability of every action under the policy and under the logger;
            each sums to one.
        labels : sequence of shape (n_actions,), default=None
            What the actions are called; `None`: their numbers.
        unsupported : array-like of shape (n_actions,), default=None
            The part of `policy_share` where the logger could not take the action.
            `None`: all of it where `logger_share` is zero.

        Returns
        -------
        display : SupportDisplay
        """
        policy_share = _checked_shares("policy_share", policy_share)
        n = len(policy_share)
        logger_share = _checked_shares("logger_share", logger_share, n)
        if unsupported is None:
            unsupported = np.where(logger_share == 0, policy_share, 0.0)
        else:
            unsupported = _checked_part(unsupported, policy_share)
        labels = list(range(n) if labels is None else labels)
        if len(labels) != n:
            raise ValueError(f"labels must have {n} entries, got {len(labels)}.")
        return cls(labels, policy_share, logger_share, unsupported)

    @classmethod
    def from_evaluator(
        cls,
        evaluator: AnyEvaluator,
        policy: PolicyLike,
        *,
        logs: BanditLogs | None = None,
    ) -> SupportDisplay:
        """Show for which actions of a policy the log has rounds.

        Parameters
        ----------
        evaluator : evaluator
            A fitted static evaluator, or one of slates. Only its rounds are used. For
            slates, the items of policy and logger in every slot are compared.
        policy : policy, array or str
            See the evaluator's `evaluate`; probabilities of all actions, or marginals
            of all slots, are needed.
        logs : BanditLogs, default=None
            Rounds to look at; `None`: those of `fit`.

        Returns
        -------
        display : SupportDisplay
        """
        hint = " Fit IPS() to the same logs, or SlateIPS() to slates."
        evaluator, logs = looks.static_evaluator(evaluator, logs, "_support_on", hint)
        return cls(**evaluator._support_on(policy, logs))

    def plot(
        self,
        ax: Any = None,
        *,
        panels: Sequence[Literal["shares", "rounds"]] | None = None,
        n_labels: int = 20,
        **kwargs: Any,
    ) -> SupportDisplay:
        """Draw one row per action, the most likely ones of the policy on top.

        Parameters
        ----------
        ax : matplotlib axes or pair of them, default=None
            Where to draw, one for every panel; `None` makes a new figure.
        panels : sequence of {"shares", "rounds"}, default=None
            What to draw: shares of policy and logger, effective rounds. `None`: both
            if they are known, or only the shares if `ax` is one axes.
        n_labels : int, default=20
            Rows to draw. The last row is the sum of all others.
        **kwargs : dict
            Passed to the `ax.plot` of the policy's shares.

        Returns
        -------
        display : SupportDisplay
            Itself.
        """
        if n_labels < 2:
            raise ValueError(f"n_labels must be at least 2, got {n_labels}.")
        known = SUPPORT_PANELS
        if panels is None and self.weight_sums is None:
            known = SUPPORT_PANELS[:1]
        panels = looks.checked_panels(panels, known, ax)
        texts, rows = self._rows(n_labels)
        of_row = PER_ROW + looks.PER_LINE * max(text.count("\n") for text in texts)
        height = AROUND_SHARES + of_row * len(texts)
        size = looks.FIGURE_SIZE[0], max(looks.LEAST_HEIGHT, height)
        widths = [2 if panel == "shares" else 1 for panel in panels]
        with looks.drawing_panels(self, ax, widths, size=size, across=True) as axes:
            for one, panel in zip(axes, panels, strict=True):
                draw = self._draw_shares if panel == "shares" else self._draw_rounds
                draw(one, rows, kwargs)
                one.set_ylim(len(texts) - 0.5, -0.5)
                one.set_yticks(range(len(texts)), texts)
            axes[0].set_ylabel(self.label_name)
            axes[0].set_title(self._title(), loc="left")
            looks.legend_beside(axes[-1], of=axes)
        return self._drawn_panels(axes)

    def _rows(self, n_labels):
        """Return the texts of the rows, and which labels each of them adds up."""
        order = np.argsort(-self.policy_share, kind="stable")
        rows = [[k] for k in order]
        if len(order) > n_labels:
            rows = [*rows[: n_labels - 1], order[n_labels - 1 :].tolist()]
        texts = [looks.name_lines(self.labels[row[0]]) for row in rows]
        if len(rows[-1]) > 1:
            texts[-1] = f"{len(rows[-1]):,} others"
        return texts, rows

    def _draw_shares(self, ax, rows, kwargs):
        shares = self.policy_share, self.logger_share, self.unsupported
        policy, logger, lost = (_added_up(share, rows) for share in shares)
        y, one = np.arange(len(rows)), np.array([len(row) == 1 for row in rows])
        if not one.all():  # the sums of many would set the scale
            told = f"policy {_share_text(policy[-1])}, logger {_share_text(logger[-1])}"
            if lost[-1] > NO_SHARE:
                told += f", never {_share_text(lost[-1])}"
            color = looks.DOUBTED if lost[-1] > NO_SHARE else looks.TEXT
            self._write(ax, y[-1], told, color)
        ax.hlines(y[one], policy[one], logger[one], color=looks.BASELINE, linewidth=1)
        style = {"linestyle": "none", "color": looks.BASELINE, "marker": "s"}
        ax.plot(logger[one], y[one], **style, label="logger")
        style = {"linestyle": "none", "color": looks.POLICY, "marker": "o"}
        ax.plot(policy[one], y[one], **{**style, "label": "policy", **kwargs})
        never = one & (lost > NO_SHARE)
        if never.any():
            style = {"linestyle": "none", "color": looks.DOUBTED, "marker": "x"}
            style |= {"markersize": 9, "markeredgewidth": 2}
            ax.plot(lost[never], y[never], **style, label="never by the logger")
        ax.set_xlim(left=0)
        looks.numbers_on(ax.xaxis, share=True)
        ax.set_xlabel("mean probability")

    def _draw_rounds(self, ax, rows, kwargs):
        if self.weight_sums is None:
            raise ValueError(
                "effective rounds need importance weights, which are not known: draw "
                "panels='shares'."
            )
        size = _effective(self.weight_sums, rows)
        y, some = np.arange(len(rows)), size > 0
        ax.plot(size[some], y[some], color=looks.POLICY, marker="o", linestyle="none")
        wanted = _added_up(self.policy_share, rows) > NO_SHARE
        for row in y[~some & wanted]:
            self._write(ax, row, "none", looks.DOUBTED)
        ax.set_xscale("log")
        if some.any():
            ax.set_xlim(size[some].min() / 3, size[some].max() * 2)
        looks.log_numbers_on(ax.xaxis)
        ax.set_xlabel("effective rounds")

    def _write(self, ax, y, text, color):
        """Write a text in a row, on the left."""
        looks.annotate(ax, text, (0.02, y), color, xycoords=ax.get_yaxis_transform())

    def _title(self):
        lines = [f"the policy does nothing that {NEVER_LOGGED}"]
        if self.unsupported_mass > NO_SHARE:
            lost = _share_text(self.unsupported_mass)
            lines = [f"{lost} of what the policy does {NEVER_LOGGED}"]
        more = self.untold_mass - self.unsupported_mass
        if more > NO_SHARE:
            what = "more" if self.unsupported_mass else "of it"
            told = f"{_share_text(more)} {what} has no effective round in the log"
            lines.append(told)
        return "\n".join(lines)


def _share_text(share):
    """Return a share in percent, a small one with one digit."""
    return f"{share:.1%}" if share >= 1e-3 else level_text(float(f"{share:.1g}"))


def _added_up(values, rows):
    """Return sums of values over the labels of every row."""
    return np.array([values[row].sum() for row in rows])


def _effective(weight_sums, rows):
    """Return (sum w)^2 / sum w^2 of every row, 0 without weights."""
    if weight_sums is None:
        return np.full(len(rows), np.nan)
    first, second = (_added_up(values, rows) for values in weight_sums)
    return np.divide(first**2, second, out=np.zeros(len(rows)), where=second > 0)


def _checked_shares(name, shares, n=None):
    shares = as_numbers(name, shares)
    if n is not None and len(shares) != n:
        raise ValueError(f"{name} has {len(shares)} entries, policy_share has {n}.")
    if not len(shares) or shares.min() < 0 or abs(shares.sum() - 1) > TOLERANCE:
        raise ValueError(
            f"{name} must hold non-negative probabilities that sum to one, got "
            f"{len(shares)} that sum to {shares.sum():.6g}"
            + (f", the least of them {shares.min():.6g}." if len(shares) else ".")
        )
    return shares


def _checked_part(unsupported, policy_share):
    part = as_numbers("unsupported", unsupported)
    if part.shape != policy_share.shape:
        raise ValueError(
            f"unsupported has {len(part)} entries, policy_share has "
            f"{len(policy_share)}."
        )
    wrong = np.flatnonzero((part < 0) | (part > policy_share + TOLERANCE))
    if wrong.size:
        k = int(wrong[0])
        raise ValueError(
            "unsupported is a part of policy_share, between 0 and it, got "
            f"{part[k]:.6g} of {policy_share[k]:.6g} at entry {k}."
        )
    return part


# -- how the importance weights behind a value are spread ------------------------------

WEIGHT_PANELS = ("shares", "tail")
SMALL_WEIGHT = 0.01  # weights below this share of the mean are not drawn
N_RANKS, N_DOTS = 200, 10  # points of the tail, and rounds that are drawn one by one


@dataclass(repr=False, eq=False)
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

    weights: Array
    _: KW_ONLY
    used_weights: Array | None = None
    rewards: Array | None = None
    name: str | None = None

    def __post_init__(self):
        weights = self.weights
        if self.used_weights is None:
            self.used_weights = weights
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
        evaluator, logs = looks.static_evaluator(evaluator, logs, "_weights_on")
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
        style = {"color": looks.BASELINE, "alpha": 0.5, "label": "of the rounds"}
        style |= {"align": "edge", **kwargs}
        self.bars_ = ax.bar(edges[:-1], rounds, np.diff(edges), **style)
        style = {"color": looks.POLICY, "linewidth": 2, "label": "of the weight"}
        self.line_ = ax.stairs(carried, edges, **{**style, **(line_kw or {})})
        if self.altered_share:
            used = np.histogram(self.weights, edges, weights=self.used_weights)[0]
            style = {"color": looks.DOUBTED, "linestyle": "--"}
            style["label"] = f"left by {looks.name_lines(self.name or 'the evaluator')}"
            ax.stairs(used / total, edges, **style)
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
        drawn = x >= SMALL_WEIGHT * self.weights.mean()
        ranks, x = ranks[drawn], x[drawn]
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
        size, weight = fixed(self.effective_sample_size, 0), figure(self.max_weight, 3)
        lines = [
            f"{size} effective rounds of {self.n_rounds:,}",
            f"largest weight {weight}, {share(self.max_weight_share)} of all",
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
