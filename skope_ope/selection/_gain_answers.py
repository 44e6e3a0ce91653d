# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the paired gain of a policy over the baseline says, and what follows."""

from dataclasses import dataclass
from math import isfinite, nan, sqrt

from scipy.special import ndtri

from skope_ope.evaluators.core._intervals import HIGH_SKEWNESS, WIDER
from skope_ope.exceptions import FewEventsWarning, ModelErrorWarning, TailWarning
from skope_ope.selection._doubts import (
    BETTER,
    BOTH,
    NEITHER,
    WORSE,
    bias_doubts,
    doubts_about,
    missing_doubts,
    support_doubts,
    weight_doubts,
)
from skope_ope.selection._rounds_needed import rounds_needed

CANNOT_TELL = "cannot tell"
ENOUGH_EVENTS = 10
CURED_BY_ROUNDS = (FewEventsWarning, TailWarning)


@dataclass(frozen=True)
class GainAnswer:
    """What is known of one policy against the baseline."""

    name: object  # the policy
    # Better: the lower limit of the gain is above zero, and no doubt forbids it
    answer: str
    # The paired gain and its interval, at the level of one of the comparisons
    gain: float
    # The paired gain and its interval, at the level of one of the comparisons
    low: float
    # The paired gain and its interval, at the level of one of the comparisons
    high: float
    # What the interval does not know; those that forbid the answer come first
    doubts: tuple
    alike: bool  # whether the policy acts as the baseline does
    # About how many rounds in all separate the gain from zero, if it is what it seems;
    # NaN where it is told, or where more rounds do not help
    rounds: float

    @property
    def forbidding(self):
        """The doubts for which there is no answer, however many rounds come."""
        if self.answer != CANNOT_TELL:
            return ()
        told = {BETTER} if self.low > 0 else {WORSE} if self.high < 0 else BOTH
        return tuple(
            doubt
            for doubt in self.doubts
            if doubt.forbids & told
            and (told != BOTH or not issubclass(doubt.kind, CURED_BY_ROUNDS))
        )


@dataclass(frozen=True)
class Comparison:
    """What two values of the same rounds are compared by."""

    name: object  # what the two are called
    baseline: object  # what the two are called
    gain: object  # the difference, the value of the policy, and that of the baseline
    value: object  # the difference, the value of the policy, and that of the baseline
    # The difference, the value of the policy, and that of the baseline
    reference: object
    width: float | None  # width of the known range of the rewards
    alike: bool  # whether both are known to act alike
    accepted: tuple = ()  # names of doubts that forbid nothing

    def answer(self, level, n_comparisons):
        """Return the `GainAnswer` at a level that all comparisons keep together."""
        gain = self.gain
        interval = gain._interval(1 - (1 - level) / n_comparisons)
        low, high = interval
        told = BETTER if low > 0 else WORSE if high < 0 else CANNOT_TELL
        doubts = self._doubts(interval)
        if self.alike or any(told in doubt.forbids for doubt in doubts):
            told = CANNOT_TELL
        rounds = nan
        if told == CANNOT_TELL:
            rounds = self._rounds(interval, doubts, level, n_comparisons)
        doubts.sort(key=lambda doubt: -len(doubt.forbids))
        return GainAnswer(
            self.name, told, gain.value, low, high, tuple(doubts), self.alike, rounds
        )

    def _doubts(self, interval):
        if self.alike:
            return []
        name, baseline, gain = str(self.name), str(self.baseline), self.gain
        common = gain.diagnostics.get("n_common_rounds", gain.n_rounds)
        bias = bias_doubts(name, gain)
        found = [
            *missing_doubts(name, baseline, gain, self.reference),
            *bias,
            *support_doubts(
                (name, baseline),
                (self.value, self.reference),
                interval,
                self.width,
                common / gain.n_rounds,
            ),
            *weight_doubts(name, gain, interval),
            *doubts_about(name, interval.warnings),
            *doubts_about(name, gain.warnings),
            *doubts_about(name, self.value.warnings),
            *doubts_about(baseline, self.reference.warnings, is_baseline=True),
        ]
        if gain.leaves_bias_out:  # which a warning may be about, too
            model = ModelErrorWarning
            found = [d for d in found if d in bias or not issubclass(d.kind, model)]
        found = dict.fromkeys(found)
        return [
            d._replace(forbids=NEITHER) if d.name in self.accepted else d for d in found
        ]

    def _rounds(self, interval, doubts, level, n_comparisons):
        """Return about how many rounds decide, NaN where no number does."""
        gain, n = self.gain, self.gain.n_rounds
        cured = all(
            issubclass(d.kind, CURED_BY_ROUNDS) or not d.forbids for d in doubts
        )
        if not cured or self.alike or not gain.standard_error > 0 or not gain.value:
            return nan
        # An interval that knows the range may be wider than what the rounds that were
        # seen tell: it is what must come to lie on one side of zero.
        sd = gain.standard_error * sqrt(n)
        near = gain.value - interval[0] if gain.value > 0 else interval[1] - gain.value
        quantile = ndtri(1 - (1 - level) / (2 * n_comparisons))
        sd = max(sd, near * sqrt(n) / quantile)
        wanted = rounds_needed(gain.value, sd, level=level, n_comparisons=n_comparisons)
        for warning in interval.warnings:
            if isinstance(warning, FewEventsWarning) and warning.value:
                wanted = max(wanted, n * ENOUGH_EVENTS / warning.value)
            elif isinstance(warning, TailWarning) and warning.name != WIDER:
                # the skewness of a mean falls with the root of the number of rounds
                share = (warning.value or 0.0) / HIGH_SKEWNESS
                wanted = max(wanted, n * share**2) if isfinite(share) else wanted
        return wanted


def decide(answers):
    """Return the decision and the choice that follow from all answers."""
    # "deploy": some policy is better, and the choice is the one with the greatest lower
    # limit of its gain. All limits hold together, so no other policy is guaranteed as
    # much; the greatest estimate would favour the policy with the largest error.
    # "keep": all policies are worse. Otherwise "undecided".
    better = [one for one in answers if one.answer == BETTER]
    if better:
        return "deploy", max(better, key=lambda one: one.low).name
    if answers and all(one.answer == WORSE for one in answers):
        return "keep", None
    return "undecided", None
