# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether a log can answer for a policy: its support, its weights, its balance."""

from functools import cached_property, partial
from math import isnan, log

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.audit._support import support_of
from skope_ope.evaluators.core._action_shares import LOGGED_PROBA, ActionShares
from skope_ope.evaluators.core._drowned import huge_weight_finding, is_huge
from skope_ope.evaluators.core._engine import terms_of
from skope_ope.evaluators.core._entries import LARGE_WEIGHT
from skope_ope.evaluators.core._jobs import evaluate_jobs
from skope_ope.evaluators.core._mean_weight import SURE, UNSEEN, log_evidence
from skope_ope.evaluators.core._overlap import Support
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._target import Target, refuse_learning
from skope_ope.evaluators.core._warnings import has_groups, learned_findings
from skope_ope.evaluators.core._weight_findings import overlap_findings
from skope_ope.evaluators.static._snips import SNIPS
from skope_ope.exceptions import PropensityWarning, TailWarning
from skope_ope.intervals._tail_shape import UNRELIABLE, is_bounded, tail_shape
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._validation import plain
from skope_ope.logs.checks._context_columns import (
    capital,
    columns_tested,
    context_columns,
    in_words,
    sampled_rows,
)
from skope_ope.logs.checks._finding import Finding
from skope_ope.logs.checks._lost_rows import with_dropped
from skope_ope.policies._learned_rounds import rounds_in_doubt, share_of_learned_groups

NO_WEIGHTS = "not possible: no propensities"


def policy_findings(policy, logs, random_state):
    """Return facts and findings about a policy on a log."""
    if logs.sample_weight is not None and not logs.sample_weight.any():
        return {"checks of the policy": "not possible: all sample weights are 0"}, []
    rounds = PolicyRounds(policy, logs)
    facts, found = support_of(rounds)
    found = training_findings(policy, logs) + found
    if not rounds.known:
        return facts | {"weights of the policy": NO_WEIGHTS}, found
    parts = [weights_of_policy(rounds)]
    if not any(one.name == "impossible_propensity" for one in parts[0][1]):
        parts.append(balance_of(rounds, check_random_state(random_state)))
        parts.append(clipping_of(rounds))
    for told, more in parts:
        facts |= told
        found += more
    return facts, found


# -- what a policy does in the rounds of a log, from one pass over them ----------------


class PolicyRounds:
    """A policy on the rounds of a log that enter estimates."""

    def __init__(self, policy, logs):
        self.target, self.all_logs = Target(policy, logs), logs
        refuse_learning("an audit", self.target)
        self.positive = PositiveRounds(logs, combined_weights(logs, None))
        support, shares = Support(self.positive), ActionShares(self.positive)
        observers = [support, shares]
        given = logs, self.target, None, self.positive, observers
        [self.pi] = terms_of(LOGGED_PROBA, *given)
        self.overlap = support.overlaps[id(self.target)]
        self.wanted, self.unreached = shares.wanted, shares.unreached

    @property
    def logs(self):
        """The rounds that enter."""
        return self.positive.logs

    @property
    def known(self):
        """Whether the propensities are."""
        return self.all_logs.propensity is not None

    @cached_property
    def w(self):
        """Weights of the rounds that enter, ndarray."""
        return self.positive.of(self.pi) / self.logs.propensity

    @cached_property
    def omega(self):
        """Their sample weights, of mean one, or None."""
        omega = self.positive.omega
        return None if omega is None else self.positive.of(omega)

    @cached_property
    def counted(self):
        """Weights times sample weights."""
        return self.w if self.omega is None else self.omega * self.w


# -- what the importance weights of a policy tell, and what their size alone misses

TOP_SHARE = 0.01  # of the rounds


def weights_of_policy(rounds):
    """Return facts and findings about the weights of a policy."""
    overlap = rounds.overlap
    if is_huge(overlap.max_w):
        found = huge_weight_finding(rounds.logs, rounds.w)
        return {"largest weight": overlap.max_w}, [found]
    found = [
        one
        for one in overlap_findings(overlap, rounds.logs, rounds.target)
        if one.name != "unsupported_mass"
    ]
    facts = weight_facts(overlap) | {
        "policy's mass on weights above 20": float(
            (rounds.counted * (rounds.w > LARGE_WEIGHT)).mean()
        )
    }
    if overlap.sum_w == 0:
        return facts, found
    size = np.abs(rounds.counted * rounds.logs.reward)
    facts["share of the largest 1% of weighted rewards"] = _top_share(size)
    shape, error = weighted_tail(rounds.counted, rounds.logs.reward)
    facts["tail shape of weighted rewards"] = (
        "not estimated: too few rounds, or sizes without a tail"
        if isnan(shape)
        else shape
    )
    return facts, found + tail_findings(shape, error)


def weight_facts(overlap):
    """Return what sums of the weights tell, by name."""
    return {
        "effective sample size": overlap.effective_sample_size,
        "effective share": overlap.effective_sample_size / overlap.n,
        "largest weight": float(overlap.max_w),
        "mean weight": overlap.mean_weight,
        "mean weight, standard errors from 1": overlap.mean_weight_z,
    }


def _top_share(size):
    """Return the share of the largest 1% of terms in their sum, at least of one."""
    total = float(size.sum())
    if not total:
        return float("nan")
    positive = size[size > 0]  # partitions of equal terms are slow
    k = min(max(round(TOP_SHARE * len(size)), 1), len(positive))
    return float(np.partition(positive, -k)[-k:].sum()) / total


# -- what a heavy tail of the weighted rewards means for their mean --------------------


def weighted_tail(weight, reward):
    """Return the shape of the tail of weighted rewards, and its standard error."""
    # Where the weights reach a bound, as those of a few recorded propensities do, the
    # tail is that of the rewards: a constant factor changes no shape. Products would
    # come in lumps, one for each size of the weights.
    counts = weight > 0
    weight, size = weight[counts], np.abs(reward[counts])
    return tail_shape(size if is_bounded(weight) else weight * size)


def tail_findings(shape, error):
    """Return a finding where a tail is heavy: an alarm where that is beyond doubt."""
    if isnan(shape) or shape <= UNRELIABLE:
        return []
    certain = shape - 2 * error > UNRELIABLE
    return [
        Finding(
            "heavy_tail",
            "warning" if certain else "note",
            f"The weighted rewards have a heavy tail: shape k = {shape:.2f} (tail "
            f"index {figure(1 / shape)}). From k = 0.5 on the variance is infinite. "
            "From k = 0.7 on no practical number of rounds makes a mean reliable. "
            "Standard errors and effective sizes are too optimistic.",
            (
                "Compare clipped values (cmax=...) and DRos, which limit the effect "
                "of a single round. Or collect logs closer to the policy.",
            ),
            number=shape,
            effect=shape,
            category=TailWarning,
        )
    ]


# -- the answer under other bounds on the weights --------------------------------------

HALF_WIDTH = 1.96  # half an interval, in standard errors
LEVELS = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0)
ALTERED = (
    0.05  # rounds that are altered: a bound that alters more asks another question
)


def clipping_of(rounds):
    """Return a table of self-normalised values, and a note where they differ."""
    # The self-normalised estimate does not sink just because weights are cut: what
    # moves it are the rounds that have large ones.
    top = float(rounds.w.max())
    levels = [level for level in LEVELS if level < top]
    if not levels or not rounds.overlap.sum_w:
        return {}, []
    # the logged actions' probabilities are known: no policy is asked again
    target = Target(rounds.pi, rounds.all_logs)
    jobs = [(SNIPS(cmax=level), target, None) for level in (*levels, None)]
    values = evaluate_jobs(jobs, rounds.positive)
    *clipped, own = values
    altered = [float((rounds.w > level).mean()) for level in levels]
    facts = {
        "values by clipping (SNIPS)": {
            "cmax": [*levels, "none"],
            "value": [one.value for one in values],
            "standard error": [one.standard_error for one in values],
            "altered rounds": [*altered, 0.0],
        }
    }
    half = HALF_WIDTH * own.standard_error
    moved = [
        (abs(one.value - own.value), level, one, share)
        for level, one, share in zip(levels, clipped, altered, strict=True)
        if share <= ALTERED and abs(one.value - own.value) > half
    ]
    if not moved:
        return facts, []
    gap, level, one, share = max(moved, key=lambda entry: entry[0])
    return facts, [
        Finding(
            "clipping_matters",
            "note",
            f"The answer depends on {share:.2%} of the rounds. The self-normalised "
            f"value is {figure(own.value)} ± {half:.2g}. With weights clipped at "
            f"{figure(level)} it is {figure(one.value)}.",
            (
                "Do not take the value with clipped weights for the answer: it is "
                "biased towards the logger. A few rounds of large weight decide the "
                "other one. Its interval allows for that. A good reward model "
                "(DoublyRobust) needs large weights less.",
            ),
            number=gap,
            effect=gap / abs(own.value) if own.value else float("nan"),
        )
    ]


# -- whether a policy has learned from the rounds, and whether anybody can tell --------


def training_findings(policy, logs):
    """Return a finding where a policy has learned from the rounds, or may have."""
    learned = learned_findings(policy, logs)
    learned = learned or _learned_groups(policy, logs)
    share, repeats = (0.0, 0.0) if learned else rounds_in_doubt(policy, logs)
    if share == 0:
        return learned
    copies = f" ({repeats:.1%} repeat an earlier one)" if repeats else ""
    alike = (
        f"{share:.1%} of these rounds have the same content as a round that it "
        "learned from"
    )
    if isnan(share):
        alike = "these rounds lack columns or fields of the rounds that it learned from"
    return [
        Finding(
            "rows_not_recognised",
            "note",
            "The policy learned from another log object, and the content of its "
            f"rounds does not identify them{copies}: {alike}. Whether the policy has "
            "learned from these rounds is not known.",
            (
                "If both logs come from one table, the value may be too good. Build "
                f"the logs once and split them{_split_remedy(logs)}. "
                "Parts of one log object are always recognised, and so are rows of "
                "scanned files. If the logs hold different rounds, do nothing.",
            ),
            number=repeats,
            effect=share,
        )
    ]


def _split_remedy(logs):
    if has_groups(logs):
        return " by group, with GroupShuffleSplit and groups=logs.group"
    return ": train, test = train_test_split(logs)"


def _learned_groups(policy, logs):
    """Return a note where a policy has learned from other rounds of these groups."""
    share = share_of_learned_groups(policy, logs)
    if not share:
        return []
    return [
        Finding(
            "learned_groups",
            "note",
            f"{share:.1%} of these rounds are of groups, such as users, of whom the "
            "policy has learned from other rounds. A model can know single groups by "
            "heart, and its value for new ones is then lower.",
            (
                "Split by group: GroupShuffleSplit of scikit-learn takes "
                "groups=logs.group. If the policy will serve the same groups, nothing "
                "is to be done.",
            ),
            effect=share,
        )
    ]


# -- whether weighted rounds have the contexts that all rounds have --------------------
# Weights leave the distribution of contexts as it is: for every bounded function g of a
# column with mean :math:`\bar g`,
# .. math:: E\Big[\sum_i w_i (g_i - \bar g)\Big] = 0.
# An alarm needs an effect, a distance of more than a tenth of a standard deviation, and
# evidence that the weights that are possible and were not met do not explain it: the
# e-value of the mean weight (`_mean_weight`) on :math:`\pm w (g - \bar g)`.

MOST_BALANCED_ROUNDS = 50_000
DISTANCE = 0.1  # standard deviations
CLIPPED_AT = 3.0  # standard deviations: values beyond count as this far
MOST_CONTRASTS = 10  # of a categorical column
RARE_CATEGORY = 0.01  # share of a category that is too small to be balanced


def balance_of(rounds, random_state):
    """Return a table of the columns, and a finding about those out of balance."""
    logs, rows = rounds.logs, None
    if not logs.n_features or not rounds.overlap.sum_w or len(logs) < 2:
        return {}, []
    w, omega, group = rounds.w, rounds.omega, logs.group_index
    if len(logs) > MOST_BALANCED_ROUNDS:
        rows = sampled_rows(len(logs), MOST_BALANCED_ROUNDS, random_state)
        w, omega, group = (
            None if x is None else x[rows] for x in (rounds.w, rounds.omega, group)
        )
    omega = np.ones(len(w)) if omega is None else omega
    largest = UNSEEN * max(1 / float(logs.propensity.min()), float(w.max()))
    measure = _Measure(w, omega, group, largest)
    columns = context_columns(logs.context, rows)
    label = partial(_level_at, logs.context, rows)
    parts = [
        (column, *part) for column in columns for part in _contrasts(column, label)
    ]
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
    sure = SURE + log(2 * max(len(found), 1))
    off = [
        one
        for one in found
        if abs(one[2].distance) > DISTANCE and one[2].evidence > sure
    ]
    return facts, [_imbalance_finding(off, logs)] if off else []


def _level_at(context, rows, name, place):
    """Return the value of a column of a frame in one of the rows that are looked at."""
    frame = import_narwhals().from_native(context, eager_only=True)
    return plain(frame.get_column(name)[int(place if rows is None else rows[place])])


def _contrasts(column, label):
    """Yield what is measured of a column: its numbers, or its frequent categories."""
    values = column.values
    if not column.categorical:
        yield "", np.where(np.isfinite(values), values, np.nan)
        return
    for level in range(MOST_CONTRASTS):
        inside = values == level
        if not inside.any():
            return
        value = label(column.name, int(inside.argmax()))
        yield f" = {value!r}", inside.astype(float)


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
        g = np.clip((values - mean) / sd, -CLIPPED_AT, CLIPPED_AT)
        centre, drawn = float(omega @ g) / total, float(w @ g) / weight
        change = w * (g - drawn) / weight - omega * (g - centre) / total
        influence = self._by_unit(change)
        bound = 2 * CLIPPED_AT * self.largest * self.unit
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
    return Finding(
        "covariate_imbalance",
        "warning",
        f"{capital(in_words(told))}: the weighted rounds have other contexts than the "
        "log. Correct weights do not change the contexts.",
        with_dropped(
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
        ),
        number=worst.evidence,
        effect=abs(worst.distance),
        columns=tuple(dict.fromkeys(column.name for column, *_ in off))[:10],
        category=PropensityWarning,
    )
