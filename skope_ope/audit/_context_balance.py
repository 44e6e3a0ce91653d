# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether weighted rounds have the contexts that all rounds have."""

from math import log

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.evaluators.core._implied_weights import (
    LACKING,
    are_codes,
    only_propensities,
    regional_share,
)
from skope_ope.evaluators.core._mean_weight import EVIDENT, UNSEEN, log_evidence
from skope_ope.exceptions import LowOverlapWarning, PropensityWarning
from skope_ope.logs.checks._context_columns import (
    capital,
    columns_tested,
    context_columns,
    in_words,
    sampled_rows,
)
from skope_ope.logs.checks._finding import Finding, with_dropped

# Weights leave the distribution of contexts as it is: for every bounded function g of a
# column with mean :math:`\bar g`,
# .. math:: E\Big[\sum_i w_i (g_i - \bar g)\Big] = 0.
# An alarm needs an effect, a distance of more than a tenth of a standard deviation, and
# evidence that the weights that are possible and were not met do not explain it: the
# e-value of the mean weight (`_mean_weight`) on :math:`\pm w (g - \bar g)`.

MOST_BALANCED_ROUNDS = 50_000
DISTANCE = 0.1  # standard deviations
MOST_DEVIATIONS = 3.0  # standard deviations: values beyond count as this far
MOST_CONTRASTS = 10  # of a categorical column
CODED_FROM = 0.1  # share of a policy that lacks where codes of actions were given
ARE_CODES = (
    "If they are codes of actions, pass one column for every action, which is 1 where "
    "it is taken: (codes[:, None] == logs.actions)."
)
REGION_ADVICE = (
    "Give logging_proba, the probabilities of all actions: it shows what the logger "
    "never does.",
    "compare_policies and report allow for it in their intervals; others do not.",
)


def balance_findings(rounds, random_state=0):
    """Return a table of the columns, and a finding about those out of balance."""
    if not rounds.has_weights:
        return {}, []
    logs, rows, random = rounds.logs, None, check_random_state(random_state)
    if not logs.n_features or not rounds.overlap.sum_w or len(logs) < 2:
        return {}, []
    w, omega, group = rounds.w, rounds.omega, logs.group_index
    if len(logs) > MOST_BALANCED_ROUNDS:
        rows = sampled_rows(len(logs), MOST_BALANCED_ROUNDS, random)
        w, omega, group = (
            None if x is None else x[rows] for x in (rounds.w, rounds.omega, group)
        )
    omega = np.ones(len(w)) if omega is None else omega
    largest = UNSEEN * max(1 / float(logs.propensity.min()), float(w.max()))
    measure = _Measure(w, omega, group, largest)
    columns = context_columns(logs.context, rows)
    parts = [(column, *part) for column in columns for part in _contrasts(column)]
    found = [(column, what, measure(values)) for column, what, values in parts]
    found = [one for one in found if one[2] is not None]
    found.sort(key=lambda one: -abs(one[2].distance))
    facts = {
        "balance of the context": {
            "column": [f"{column.name}{what}" for column, what, _ in found],
            "mean": [one.mean for *_, one in found],
            "weighted mean": [one.weighted for *_, one in found],
            "distance in sd": [one.distance for *_, one in found],
            "standard error": [one.error for *_, one in found],
        }
    }
    part = columns_tested(logs.context)
    if part is not None:
        facts["columns tested for balance"] = part
    sure = EVIDENT + log(2 * max(len(found), 1))
    off = [
        one
        for one in found
        if abs(one[2].distance) > DISTANCE and one[2].evidence > sure
    ]
    return facts, [_imbalance_finding(off, logs)] if off else []


def _contrasts(column):
    """Yield what is measured of a column: its numbers, or its frequent categories."""
    values = column.values
    if not column.categorical:
        yield "", np.where(np.isfinite(values), values, np.nan)
        return
    for level in range(MOST_CONTRASTS):
        inside = values == level
        if not inside.any():
            return
        yield f" = {column.labels[level]!r}", inside.astype(float)


def region_findings(rounds, random_state=0):
    """Return the share of a policy that regions of contexts lack, and a finding."""
    if not rounds.has_weights or not only_propensities(rounds.logs):
        return {}, []
    coded = rounds.target.logged_only and are_codes(rounds.pi)
    about = rounds.omega, random_state, 2 if coded else 3
    share, n = regional_share(rounds.logs, rounds.w, *about)
    if not share > 0:
        return {LACKING: share}, []
    found = (
        f"In {n:,} rounds, a region of contexts, the weights average far less than "
        f"one: about {share:.1%} of what this policy does may not be in the log."
    )
    advice = with_dropped(REGION_ADVICE, rounds.logs)
    about = {"number": share, "effect": share, "category": LowOverlapWarning}
    finding = Finding("missing_region", "warning", found, advice, **about)
    if coded and share > CODED_FROM:
        found += " All its probabilities of logged actions are 0 or 1, as codes are."
        advice = (ARE_CODES, *advice)
        finding = Finding("codes_as_probabilities", "error", found, advice, **about)
    return {LACKING: share}, [finding]


class _Measure:
    """Measures the balance of values."""

    def __init__(self, w, omega, group, largest):
        self.w, self.omega, self.largest = omega * w, omega, largest
        self.group = None if group is None else np.unique(group, return_inverse=True)[1]
        self.unit = float(self._by_unit(omega).max())

    def _by_unit(self, values):
        return values if self.group is None else np.bincount(self.group, values)

    def __call__(self, values):
        """Return the `_Balance` of some values, None where they do not vary."""
        known = np.isfinite(values)
        w, omega = self.w * known, self.omega * known
        values = np.where(known, values, 0.0)
        total, weight = float(omega.sum()), float(w.sum())
        peak = float(np.abs(values).max())
        if not (total and weight and peak):
            return None
        values = values / peak  # squares of what is left are numbers
        mean = float(omega @ values) / total
        sd = float(np.sqrt(omega @ (values - mean) ** 2 / total))
        if not sd > 1e-12:
            return None
        g = np.clip((values - mean) / sd, -MOST_DEVIATIONS, MOST_DEVIATIONS)
        centre, drawn = float(omega @ g) / total, float(w @ g) / weight
        change = w * (g - drawn) / weight - omega * (g - centre) / total
        influence = self._by_unit(change)
        bound = 2 * MOST_DEVIATIONS * self.largest * self.unit
        term = self._by_unit(w * (g - centre)) / bound
        sums = float(term.sum()), float(term @ term)
        return _Balance(
            mean * peak,
            float(w @ values) / weight * peak,
            drawn - centre,
            float(np.sqrt(influence @ influence)),
            log_evidence(abs(sums[0]), sums[1]),
        )


class _Balance:
    """Mean, weighted mean, their distance in sd, its error, and ln E against chance."""

    def __init__(self, mean, weighted, distance, error, evidence):
        self.mean, self.weighted, self.distance = mean, weighted, distance
        self.error, self.evidence = error, evidence


def _imbalance_finding(off, logs):
    told = [
        f"{column.label}{what} by {one.distance:+.2f} standard deviations"
        for column, what, one in off
    ]
    worst = off[0][2]
    found = (
        f"{capital(in_words(told))}: the weighted rounds have other contexts than the "
        "log. Correct weights do not change the contexts."
    )
    advice = with_dropped(
        (
            "In some contexts the logger never takes the policy's actions, so the "
            "estimate is about other contexts than those of the log. Evaluate a "
            "policy that takes only actions that the logger takes.",
            "The true propensities depend on these columns in another way than the "
            "recorded ones: check how they were logged.",
            "The policy or its model learned from these rounds: evaluate it on "
            "other rounds.",
        ),
        logs,
    )
    about = {"number": worst.evidence, "effect": abs(worst.distance)}
    about |= {"columns": tuple(dict.fromkeys(column.name for column, *_ in off))[:10]}
    about |= {"category": PropensityWarning}
    return Finding("covariate_imbalance", "warning", found, advice, **about)
