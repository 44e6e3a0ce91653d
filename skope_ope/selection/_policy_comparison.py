# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies against a baseline: gains, a decision, and the table that shows them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from math import isnan, nan
from typing import TYPE_CHECKING, Any, Literal

from scipy.optimize import brentq

from skope_ope.evaluators._rules import told_row
from skope_ope.evaluators._value_table import ValueTable
from skope_ope.evaluators.core._evidence import (
    ESTIMATED,
    NOTHING_OUTSIDE,
    slates_assumed,
)
from skope_ope.evaluators.core._lift import Lift
from skope_ope.evaluators.core._verdict import VerdictThresholds
from skope_ope.logs._html import table_html, with_bars
from skope_ope.logs._shown_numbers import (
    level_text,
    p_text,
    text_table,
    wrapped,
)
from skope_ope.selection._gain_answers import (
    CANNOT_TELL,
    Comparison,
    GainAnswer,
    decide,
    evaluator_of,
    rough,
    sentence_of,
)
from skope_ope.selection._outcome import LOGGER, THE_SYSTEM, Outcome, rewards_of

if TYPE_CHECKING:
    import pandas

    from skope_ope.displays._comparison_display import PolicyComparisonDisplay
    from skope_ope.evaluators.core._policy_value import PolicyValue

PLAIN = rewards_of(None)  # of tables, whose numbers have no unit
# what is about the gain, of the baseline
OF_BASELINE = GainAnswer(None, "", nan, nan, nan, (), False, nan)


class PolicyComparison(ValueTable):
    """Policies against a baseline: gains, and what follows from them.

    A mapping of `PolicyValue` by the name of the policy, made by `compare_policies`.

    Parameters
    ----------
    values : dict
        `PolicyValue` by the name of the policy.
    reference : PolicyValue
        That of the baseline, on the same rounds.
    baseline : str
        Its name among the values. "logger" is not among them.
    level : float, default=0.95
        Coverage of all intervals of gains together, and of all intervals of values
        together.
    reward_range : tuple (float, float), default=None
        The known range of the rewards; `None`: not known.
    alike : collection of names, default=()
        Policies that are known to act as the baseline does.
    evaluator : str, default=None
        What the sentence calls the evaluator, such as its row in a table. `None`: its
        class.
    accepted : collection of str, default=()
        Names of doubts that do not prevent a decision, see `compare_policies`.

    Attributes
    ----------
    decision : {"deploy", "keep", "undecided"}
        "deploy": a policy is better than the baseline. "keep": all are worse.
    choice : str or None
        The policy to deploy, which has the greatest lower limit of its gain. None
        unless the decision is "deploy".
    sentence : str
        What to do and why, and how many more rounds would decide.
    differences : dict
        Paired gains by name: the value of each policy minus that of the baseline.
    lifts : dict
        Relative gains by name, `Lift`. NaN if the baseline may be zero. Their intervals
        at `level_of_each` hold together.
    reference : PolicyValue
        The value of the baseline.
    n_rounds : int
        Number of rounds of the gains: the rounds for which all values are known.
    level_of_each : float
        Coverage of the interval of one gain: 1 - (1 - level) / m for m gains.
    p_values : dict
        Two-sided p-values by name, corrected for the number of gains. Each is the
        smallest 1 - level at which the interval of this gain excludes zero. At this
        level the intervals of all gains hold together. p-values do not include other
        doubts.

    See Also
    --------
    rounds_needed : How many rounds a decision takes.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import IPS, BanditLogs, ConstantPolicy, compare_policies
    >>> logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0], [0.5] * 4)
    >>> policies = {"zero": ConstantPolicy(0), "one": ConstantPolicy(1)}
    >>> comparison = compare_policies(
    ...     policies, logs, evaluator=IPS(), baseline="zero")
    >>> comparison.differences["one"].value, comparison.decision
    (0.0, 'undecided')
    """

    _index = ("policy",)

    def __init__(
        self,
        values: Mapping[Any, Any],
        reference: PolicyValue,
        baseline: str,
        *,
        level: float = 0.95,
        reward_range: tuple[float, float] | None = None,
        alike: Collection[str] = (),
        evaluator: str | None = None,
        accepted: Collection[str] = (),
    ) -> None:
        super().__init__(values)
        self._evaluator, self._rewards = evaluator, rewards_of(reference._log)
        self.baseline, self.level, self.reference = baseline, level, reference
        self.differences = {
            name: value - reference for name, value in self.items() if name != baseline
        }
        width = None if reward_range is None else reward_range[1] - reward_range[0]
        self._comparisons = {
            name: Comparison(
                name,
                self._against,
                gain,
                self[name],
                reference,
                width,
                name in alike,
                VerdictThresholds(accepted=accepted).accepted,
            )
            for name, gain in self.differences.items()
        }

    @property
    def level_of_each(self) -> float:
        """Coverage of the interval of one gain."""
        return self._level_of(self.level, len(self.differences))

    @property
    def decision(self) -> Literal["deploy", "keep", "undecided"]:
        """What to do."""
        return self._answer[0]

    @property
    def choice(self) -> str | None:
        """The policy to deploy."""
        return self._answer[1]

    @cached_property
    def sentence(self) -> str:
        """What to do and why, in words."""
        estimator = self._evaluator or evaluator_of(self._first_gain)
        return sentence_of(self, told_row(estimator))

    @property
    def _first_gain(self):
        return next(iter(self.differences.values()))

    @property
    def _condition(self):
        """Under which a choice holds, and no log shows it; empty: under none."""
        return (
            NOTHING_OUTSIDE
            if self._first_gain._evidence.propensities == ESTIMATED
            else ""
        )

    @property
    def _assumed(self):
        """What the gains assume of slates, a list of sentences."""
        return slates_assumed(self._first_gain._evidence)

    @property
    def n_rounds(self) -> int:
        """The rounds that the gains are about: those that all values know."""
        gain = self._first_gain
        return int(gain.diagnostics.get("n_common_rounds", gain.n_rounds))

    @cached_property
    def lifts(self) -> dict[str, Lift]:
        """Relative gains by name."""
        return {
            name: Lift(*(gain._operands or (self[name], self.reference)), gain)
            for name, gain in self.differences.items()
        }

    @cached_property
    def p_values(self) -> dict[str, float]:
        """Corrected p-values by name."""
        return {
            name: p_value(gain, len(self.differences), self.level)
            for name, gain in self.differences.items()
        }

    def to_records(self, level: float | None = None) -> list[dict[str, Any]]:
        """Rows of the table as a list of dicts.

        Parameters
        ----------
        level : float, default=None
            Coverage of the intervals; `None`: that of the comparison. Answers follow
            from the intervals.

        Returns
        -------
        records : list of dict
            Keys: policy, difference, difference_low, difference_high, lift, lift_low,
            lift_high, p_value, answer ("better", "worse" or "cannot tell"), chosen,
            rounds_needed, value, standard_error, low, high, warnings. The lift is the
            relative gain, .1 is ten percent, and its limits have the level of the gain.
            `rounds_needed` is the total number of rounds, if the answer is open and
            more rounds would give it. What is about the gain is NaN or "" for the
            baseline.
        """
        level = self.level if level is None else level
        answers = self._answers_at(level)
        choice = decide(answers)[1]
        by_name = {one.name: one for one in answers}
        records = []
        for name, value in self.items():
            low, high = value._interval(self._level_of(level, len(self)))
            one = by_name.get(name, OF_BASELINE)
            lift, (lift_low, lift_high) = self._lift_record(name, level)
            kinds = [type(warning) for warning in value.warnings]
            kinds += [doubt.kind for doubt in one.doubts]
            records.append(
                {
                    "policy": name,
                    "difference": one.gain,
                    "difference_low": one.low,
                    "difference_high": one.high,
                    "lift": lift,
                    "lift_low": lift_low,
                    "lift_high": lift_high,
                    "p_value": self.p_values.get(name, nan),
                    "answer": one.answer,
                    "chosen": name == choice,
                    "rounds_needed": one.rounds,
                    "value": value.value,
                    "standard_error": value.standard_error,
                    "low": low,
                    "high": high,
                    "warnings": "; ".join(dict.fromkeys(k.__name__ for k in kinds)),
                }
            )
        return records

    def _lift_record(self, name, level):
        """Return the relative gain of a policy and its interval."""
        if name not in self.lifts:
            return nan, (nan, nan)
        lift = self.lifts[name]
        return lift.value, lift._interval(self._level_of(level, len(self.lifts)))

    def to_frame(self, level: float | None = None) -> pandas.DataFrame:
        """Return the table as a pandas frame, indexed by policy.

        Parameters
        ----------
        level : float, default=None
            Coverage of the intervals; `None`: that of the comparison.

        Returns
        -------
        frame : pandas.DataFrame
        """
        return super().to_frame(level)

    def plot(
        self,
        ax: Any = None,
        *,
        level: float | None = None,
        truth: Mapping[Any, float] | None = None,
    ) -> PolicyComparisonDisplay:
        """Draw gains and values with their intervals; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib axes or pair of them, default=None
            Where to draw the gains, and the values where there are two; `None` makes a
            new figure with both.
        level : float, default=None
            Coverage of the intervals; `None`: that of the comparison.
        truth : dict of float, default=None
            The true values of policies, where they are known.

        Returns
        -------
        display : PolicyComparisonDisplay
        """
        from skope_ope.displays import PolicyComparisonDisplay

        display = PolicyComparisonDisplay.from_values(self, level=level)
        return display.plot(ax, truth=truth)

    @cached_property
    def _answers(self):
        return self._answers_at(self.level)

    @cached_property
    def _answer(self):
        return decide(self._answers)

    def _answers_at(self, level):
        m = len(self._comparisons)
        return [one.answer(level, m) for one in self._comparisons.values()]

    def _level_of(self, level, n_intervals):
        return 1 - (1 - level) / n_intervals

    def _baseline_record(self, level=None):
        """Return name, value and interval of the baseline."""
        level = self.level if level is None else level
        if self.baseline != LOGGER:  # one of the values, whose intervals hold together
            level = self._level_of(level, len(self))
        low, high = self.reference._interval(level)
        name, value = self._called, self.reference.value
        return {"policy": name, "value": value, "low": low, "high": high}

    @property
    def _called(self):
        """What tables and figures call the baseline."""
        return "the logger" if self.baseline == LOGGER else self.baseline

    @property
    def _against(self):
        """What sentences call the baseline."""
        return THE_SYSTEM if self.baseline == LOGGER else str(self.baseline)

    @cached_property
    def _outcome(self):
        """How sentences tell what the rewards are."""
        return self._outcome_of(self._rewards)

    def _outcome_of(self, rewards):
        """Return how amounts of an outcome are written."""
        limits = [limit for one in self._answers for limit in (one.low, one.high)]
        return Outcome.of(rewards, self.values(), self.differences.values(), limits)

    def __repr__(self):
        lines = text_table(*table_texts(self), left=("answer",))
        for note in notes_below(self):
            lines += wrapped(note)
        return "\n".join(lines)

    def _repr_html_(self):
        header, rows = table_texts(self)
        records = self.to_records()
        ends = [f"difference{end}" for end in ("", "_low", "_high")]
        limits = [tuple(record[end] for end in ends) for record in records]
        kinds = [kind_of_mark(record) for record in records]
        header, rows, foot = with_bars(
            header, rows, limits, "high", zero=True, kinds=kinds
        )
        return table_html(
            self.decision.upper() + (f" {self.choice}" if self.choice else ""),
            header,
            rows,
            bold=[i for i, name in enumerate(self) if name == self.choice],
            left=("policy", "answer"),
            foot=foot,
            lead=f"gains over {self._called}",
            notes=notes_below(self),
        )


# -- p-values that agree with intervals ------------------------------------------------

LEAST_P = 1e-12  # smaller ones are not told apart


def p_value(gain, n_comparisons, level):
    """Return the p-value of no gain, corrected for the number of comparisons."""
    # It is the least alpha at which zero is outside of the interval of level 1 - alpha
    # / m of the gain: one interval, whatever its method, gives limits and p-value.
    if not gain.standard_error > 0:  # NaN too
        return nan if isnan(gain.standard_error) else 1.0
    m = n_comparisons

    def outside(alpha):
        low, high = gain._interval(1 - alpha)
        return max(low, -high)  # how far 0 is outside, where it is

    # on one side of the own level: rounding never contradicts the decision
    own = (1 - level) / m
    ends = (LEAST_P, own) if outside(own) > 0 else (own, 1 - LEAST_P)
    if outside(ends[0]) > 0:
        return min(m * ends[0], 1.0)
    if not outside(ends[1]) > 0:
        return 1.0
    return min(m * brentq(outside, *ends, rtol=1e-10), 1.0)


# -- what the table of a comparison shows, as texts ------------------------------------


def table_texts(comparison):
    """Return the header and the rows of the table: gains first, then values."""
    percent = level_text(comparison.level)
    header = ["policy", f"gain over {comparison._called}", f"{percent} low", "high"]
    header += ["p", "answer", "rounds needed", "value", f"{percent} low", "high"]
    numbers, rows = comparison._outcome_of(PLAIN), []
    for record in comparison.to_records():
        name = str(record["policy"])
        cells = [name if record["answer"] else f"{name} (baseline)"]
        ends = [record[f"difference{end}"] for end in ("", "_low", "_high")]
        cells += [numbers.limit(x, "+") for x in ends]
        cells.append(p_text(record["p_value"]))
        cells.append("deploy" if record["chosen"] else record["answer"])
        n = record["rounds_needed"]
        cells.append("" if isnan(n) else rough(n))
        cells += [numbers.value(record[key]) for key in ("value", "low", "high")]
        rows.append(cells)
    return header, rows


def kind_of_mark(record):
    """Return how the bar of a policy is marked, see `interval_bar`."""
    if record["chosen"]:
        return "chosen"
    return "open" if record["answer"] == CANNOT_TELL else "told"


def notes_below(comparison):
    """Return the sentences below the table."""
    m, percent = len(comparison.differences), level_text(comparison.level)
    notes = [comparison.sentence, *comparison._assumed]
    known = comparison._baseline_record()
    if comparison.baseline not in comparison:  # the logger has no row
        text = comparison._outcome_of(PLAIN).value
        value, low, high = (text(known[key]) for key in ("value", "low", "high"))
        notes.append(f"The logger, {THE_SYSTEM}: {value} ({low} to {high}).")
    if m > 1:
        notes.append(
            f"The {m} intervals of gains hold together at {percent}: each alone has "
            f"the level {level_text(comparison.level_of_each, 5)}. The intervals of "
            "values hold together too. So each is wider than in evaluate, where it "
            "holds alone."
        )
    gain = comparison._first_gain
    if comparison.n_rounds < gain.n_rounds:
        notes.append(
            f"Compared on the {comparison.n_rounds:,} of {gain.n_rounds:,} rounds for "
            "which all values are known."
        )
    n_groups = gain.diagnostics.get("n_groups")
    if n_groups:
        notes.append(
            "Values and gains are per round. A group has "
            f"{gain.n_rounds / n_groups:.2f} rounds on average."
        )
    notes.append("This comparison does not audit the log: audit(policy, logs) does.")
    return notes
