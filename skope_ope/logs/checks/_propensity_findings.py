# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a few sums tell of recorded propensities, and what to do about it."""

from dataclasses import dataclass
from functools import cached_property
from math import exp, inf, log, sqrt

import numpy as np

from skope_ope.exceptions import PropensityWarning
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._validation import PROBA_TOLERANCE, plain
from skope_ope.logs.checks._context_columns import sampled_rows
from skope_ope.logs.checks._evidence import EVIDENT, log_e_value, log_mean_exp
from skope_ope.logs.checks._finding import Finding, propensity_alarm, with_dropped
from skope_ope.logs.checks._leaks import action_leak_findings
from skope_ope.logs.checks._propensity_sums import (
    ROWS_NAMED,
    SURPRISING_CHANCE,
    count_chance,
    estimating_step,
    group_sizes,
    law_of,
    least_possible,
    rounding_error,
    uneven_weight,
)
from skope_ope.logs.checks._sample_weights import kept_share_finding

TOO_SMALL, SMALL_Z = 1.05, 4.5  # of the mean of 1/p over all frequent actions
TOO_RARE, RARE_Z = 1.1, 4.5  # over one action
TOO_LARGE, LARGE_Z = 1.1, 4.0
ROUGH = 0.02  # of the smallest propensity: rounding that is worth a note
FEWEST_TAKEN = 20  # of an action that is told to be too frequent
SUMMED_ROUNDS = 20_000  # whose 1/p is summed: an effect of 5% shows in them
LEAK_TESTED = 4_000  # whose context columns are looked at
MANY_PROPENSITIES = 20  # of propensities that depend on the context
ROWS_OF_PAGES = "Several rows are one page or list of items: use SlateLogs."


def quick_propensity_findings(logs, held=None):
    """Return what costs a few sums to know of the propensities of logs."""
    # Every alarm needs a deviation beyond chance (all tests together ring for one right
    # log in a thousand) and one that matters: of 5% over all actions, of 10% for one.
    what = "propensity tests"
    if logs.propensity is None:
        kept = kept_share_finding(logs if held is None else held)
        return {what: "not possible: the log has no propensities"}, [
            *([] if kept is None else [kept]),
            _unknown_propensities(logs),
        ]
    if logs.propensity_estimated:
        told = "none here: the propensities were estimated, and an audit tests them"
        return {what: told}, []
    return tested_propensities(logs, held)


def tested_propensities(logs, held=None):
    """Return the same of propensities that are known, estimated ones included."""
    what = "propensity tests"
    if logs._lowest_propensity >= 1 - 1e-9:
        told = {what: "not possible: all propensities are 1"}
        return told, [] if logs.n_actions == 1 else [_certain()]
    names, held = (None, logs) if held is None else (held.row_id.position, held)
    # seeded: the answer is always the same
    rows = sampled_rows(len(held), SUMMED_ROUNDS, 0)
    share = uneven_weight(held, rows)
    rows = rows if share is None else rows[share > 0]
    least = least_possible(len(logs), logs.n_actions)
    found = [_impossible_propensity(logs, least)]
    if found[0] is not None:
        rows = rows[held.propensity[rows] >= least]
    if len(rows) < FEWEST_CLUSTERS:
        told = f"not possible: fewer than {FEWEST_CLUSTERS} rounds"
        return {what: told}, [one for one in found if one is not None]
    inverse = InversePropensities(held, rows, names)
    kept = kept_share_finding(held, inverse)
    if kept is not None:  # what other tests find is due to these weights
        return {what: kept.name}, [kept]
    found += [
        _miscounted(logs, inverse)
        or _too_small(logs, inverse)
        or _said_to_be_certain(logs, inverse),
        _miscalibrated(logs, inverse),
        _too_large(logs, inverse),
        _rounded(logs, inverse),
    ]
    found = [one for one in found if one is not None]
    told_already = any(one.is_alarm for one in found)
    if names is None and not told_already and logs._propensity_by_action is not None:
        # the usual fault of propensities that were counted afterwards, and cheap to see
        leaks = action_leak_findings(logs, 0, LEAK_TESTED)[1]
        found += [one for one in leaks if one.is_alarm]
    alarms = ", ".join(one.name for one in found if one.is_alarm)
    return {what: alarms or "passed"}, found


def estimate_advice(logs):
    """Return the last resort where propensities were not written down."""
    return (
        "They were not recorded when the actions were drawn: estimate them with "
        f"{estimating_step(logs)}."
    )


OTHER_SOURCE = (
    "The propensities are those of another action, of another version of the logger, "
    "or of a logger that was never in use (1 / number of actions)."
)


def propensity_findings(log, rows=None, random_state=0):
    """Return what a log, or sums of it, keep of tests of the propensities."""
    if log.propensity_estimated:
        return log._estimated_propensity_findings
    return log._quick_propensity_findings


# -- notes ----------------------------------------------------------------------------
def _certain():
    found = (
        "All propensities are 1: the logger is said to have had no choice, and the log "
        "tells nothing about other actions in the same context."
    )
    advice = (
        "If the logger did draw its actions, 1 stands for unknown propensities: record "
        "them, or build the logs without and estimate them."
    )
    return Finding("certain_propensities", "note", found, advice)


def _unknown_propensities(logs):
    found = (
        "The log has no propensities: a value of another policy rests on a reward "
        "model alone, and nothing here tells whether the model is right."
    )
    advice = (
        "Record the probability with which an action is drawn.",
        f"{estimating_step(logs)} estimates it from the context, if that holds all "
        "that the logger looked at.",
        "ExplorationScavenging needs none, if the logger ignored the context.",
    )
    return Finding(
        "unknown_propensities", "note", found, advice, category=PropensityWarning
    )


def _rounded(logs, inverse):
    step, lowest = inverse.half_step, float(inverse.p.min())
    by_action = logs._propensity_by_action if step else None
    off = inf if by_action is None else abs(by_action.sum() - 1)
    told = PROBA_TOLERANCE < off <= step * logs.n_actions  # as .33 three times
    if off < PROBA_TOLERANCE or not (step >= ROUGH * lowest or told):
        return None
    effect = step / lowest
    found = (
        f"If a rule of your system says exactly {figure(lowest, 3)}, ignore this. All "
        f"propensities are multiples of {figure(2 * step)}. If they were rounded, the "
        f"smallest is off by up to {figure(100 * effect, 2)}%."
    )
    advice = "Then record them with all their digits."
    about = {"number": 2 * step, "effect": effect}
    about |= {"rows": inverse.shown(inverse.held.propensity == lowest)}
    return Finding("rounded_propensities", "note", found, advice, **about)


# -- alarms ---------------------------------------------------------------------------
def _impossible_propensity(logs, least):
    """Find what right propensities make too rare for a log, however skewed they are."""
    # Of the K actions that the other rounds took, n rounds take one at p or less with a
    # probability of at most n K p. Actions that were taken once do not count: there may
    # be any number of those, as there are of rankings.
    if logs._lowest_propensity >= least:
        return None
    p, rows, actions = logs._propensities_below(least)
    again = logs._action_counts[actions] > 1
    if not again.any():
        return None
    p, rows = p[again], rows[again]
    lowest = float(p[0])
    chance = SURPRISING_CHANCE * lowest / least  # a bound
    found = (
        f"Row {logs._called(rows)[0]} has propensity {figure(lowest, 3)}: right "
        f"propensities bring one that small into a log of {len(logs):,} rounds with "
        f"{logs.n_actions:,} actions with probability {figure(chance, 1)} at most, "
        "and its weight drowns all others."
    )
    advice = (
        "It is a placeholder, or that of a model of the logger that does not know how "
        "the logger explores: record the probability that the action was drawn with.",
        "Drop the row, or bound the weights with PropensityClipper(low=...).",
    )
    about = {"number": chance, "effect": 1 / (len(logs) * lowest)}
    about |= {"rows": np.sort(rows[:ROWS_NAMED]).tolist()}
    return propensity_alarm("impossible_propensity", found, advice, **about)


def _miscounted(logs, inverse):
    """Compare counts with their exact law, where it is known."""
    if inverse.share is not None:
        return None  # thinned logs: their counts say nothing
    if inverse.mu is not None:
        counts, law, slack = inverse.counts, law_of(inverse.mu), 0.0
        sizes = inverse.group_sizes
    elif logs._action_count_law is not None:
        law, sizes = logs._action_count_law, logs._group_sizes
        counts, slack = logs._action_counts, inverse.half_step * len(logs)
    else:
        return None
    mean, variance = law
    excess = counts - mean
    effect = np.maximum(np.abs(excess) - slack, 0) / np.maximum(mean, 1)
    # any of them may be the worst
    chance = logs.n_actions * count_chance(excess, variance, sizes)
    chance[effect <= TOO_RARE - 1] = 1
    worst = int(chance.argmin())
    if chance[worst] >= SURPRISING_CHANCE:
        return None
    often = excess[worst] > 0
    z = excess[worst] / np.sqrt(max(variance[worst] * group_sizes(sizes)[0], 1e-12))
    found = (
        f"Action {plain(logs.actions[worst])!r} was logged "
        f"{int(counts[worst]):,} times in {int(counts.sum()):,} rounds, where the "
        f"propensities predict {figure(mean[worst])} ({z:+,.1f} standard errors)."
    )
    advice = (*with_dropped([OTHER_SOURCE], logs), estimate_advice(logs))
    about = {"number": z, "effect": effect[worst]}
    about |= {"actions": (plain(logs.actions[worst]),)}
    about |= {"rows": inverse.shown(inverse.held.action_index == worst)}
    return propensity_alarm(
        "action_too_frequent" if often else "action_too_rare", found, advice, **about
    )


def _miscalibrated(logs, inverse):
    if inverse.mu is None:
        return None
    evidence, sharpness = calibration_evidence(
        inverse.mu, inverse.action, inverse.share, inverse.group
    )
    if evidence <= EVIDENT + log(10):
        return None
    how = "more often" if sharpness > 1 else "less often"
    found = (
        f"The logger took its likelier actions {how} than `logging_proba` says: its "
        f"temperature divided by {figure(sharpness, 3)} fits the logged actions better "
        f"({chance_of(evidence)})."
    )
    advice = (
        "The softmax was computed with another temperature than the one in use, "
        "or from scores of another version of the logger.",
        "The rows of `logging_proba` belong to other rounds.",
        estimate_advice(logs),
    )
    about = {"number": evidence, "effect": max(sharpness, 1 / sharpness) - 1}
    return propensity_alarm("propensity_calibration", found, advice, **about)


def chance_of(evidence):
    """Say what an e-value means, from its natural logarithm."""
    small = evidence < log(1e6)
    logs = f"{exp(evidence):,.0f}" if small else f"10^{evidence / log(10):.0f}"
    return f"right propensities do this in at most one log of {logs}"


def _too_small(logs, inverse):
    all_of_them = inverse.too_small()
    if all_of_them.beyond(
        SMALL_Z, TOO_RARE if logs.propensity_estimated else TOO_SMALL
    ):
        text = (
            f"The mean of 1 / propensity over the frequent actions is "
            f"{figure(all_of_them.ratio, 3)} times their number "
            f"({_errors(all_of_them.z)} above it): the actions were taken more often "
            "than the propensities say."
        )
        advice = _small_advice(logs)
        return _too_small_alarm(inverse, all_of_them, text, advice, inverse.frequent)
    ratios = inverse.by_action()
    ratios[logs._action_counts < FEWEST_TAKEN] = 0
    found = []
    for action in np.flatnonzero(ratios > TOO_RARE).tolist():
        excess = inverse.too_small_for(action)
        if excess.beyond(RARE_Z, TOO_RARE):
            found.append((excess.z, action, excess))
    if not found:
        return None
    _, action, excess = max(found)
    label = plain(logs.actions[action])
    text = (
        f"Action {label!r} was logged {figure(excess.ratio, 3)} times as often as its "
        f"propensities predict ({_errors(excess.z)} more)."
    )
    about = text, _small_advice(logs), inverse.action == action
    return _too_small_alarm(inverse, excess, *about, actions=(label,))


def _said_to_be_certain(logs, inverse):
    """Find choices that are recorded as certain, as the greedy ones of a logger."""
    # Whether there was a choice, p < 1, is a matter of the context: over those rounds
    # the mean of 1/p is at most the number of actions, too. Not where 1 may be rounded.
    choice = inverse.p < 1 - 1e-9
    n_choices = np.count_nonzero(choice)
    if inverse.half_step or not FEWEST_CLUSTERS <= n_choices < len(choice):
        return None
    excess = inverse.of(choice).too_small()
    if not excess.beyond(SMALL_Z, TOO_SMALL):
        return None
    found = (
        f"Of the rounds with a propensity below 1, the mean of 1 / propensity is "
        f"{figure(excess.ratio, 3)} times the number of actions ({_errors(excess.z)} "
        "above it): in their contexts other rounds must have had a propensity below "
        "1, too."
    )
    advice = (
        "The logger explores, and its greedy choices were recorded with propensity "
        "1: record the probability of the draw, 1 - epsilon + epsilon / (number "
        "of actions).",
        *_small_advice(logs),
    )
    return _too_small_alarm(inverse, excess, found, advice, choice)


def _too_small_alarm(inverse, excess, found, advice, mask, **more):
    """Return the alarm with the smallest propensities of some rounds, in order."""
    rows = np.flatnonzero(mask)
    if len(rows) > ROWS_NAMED:
        rows = rows[np.argpartition(inverse.p[rows], ROWS_NAMED)[:ROWS_NAMED]]
    about = {"number": excess.z, "effect": excess.ratio - 1, **more}
    about |= {"rows": inverse.names(np.sort(rows))}
    return propensity_alarm("propensity_too_small", found, advice, **about)


def _small_advice(logs):
    other = (
        "The propensities belong to other rounds, another action or another version of "
        "the logger: check the join and the order of the rows."
    )
    return (
        *with_dropped([other], logs),
        "Rounds of some actions were dropped on purpose: renormalise the propensities "
        "over what was kept.",
        "They are parts of the probability: multiplied by the share of a filter, a "
        "position or an experiment.",
        estimate_advice(logs),
    )


def _too_large(logs, inverse):
    excess = inverse.too_large()
    if excess is None or not excess.beyond(LARGE_Z, TOO_LARGE):
        return None
    p = inverse.p
    lowest = p == p.min()
    advice = [
        "The propensities are those of the likeliest action, or those of a logger that "
        "explored less.",
        ROWS_OF_PAGES,
        estimate_advice(logs),
    ]
    if logs.available is None and logs.logging_proba is None:
        differ = "Contexts differ in the actions that were offered: pass `available`."
        advice.insert(0, differ)
    show = p == p.max()
    if lowest.mean() > 0.01 and len(np.unique(p)) > MANY_PROPENSITIES:
        show = lowest
        advice.insert(
            0,
            f"{lowest.mean():.1%} of the rounds have exactly the smallest propensity, "
            f"{figure(p.min())}: smaller ones were raised to it. Use the ones before "
            "that.",
        )
    found = (
        f"The mean of 1 / propensity is too small for the number of actions that the "
        f"logger took, by {excess.ratio - 1:,.0%} ({_errors(excess.z)}): propensities "
        "are too large, or some actions were not offered in some contexts."
    )
    about = {"number": excess.z, "effect": excess.ratio - 1}
    about |= {"rows": inverse.names(np.flatnonzero(show)[:ROWS_NAMED])}
    return propensity_alarm("propensity_too_large", found, advice, **about)


def _errors(z):
    return "without any spread" if np.isinf(z) else f"{z:,.1f} standard errors"


# -- whether a logger was as sure of its actions as its distribution says --------------

SHARPNESS = (0.5, 2 / 3, 0.8, 1.25, 1.5, 2.0)
CALIBRATED_CELLS = 32_000  # of the logging distribution, but for
FEWEST_CALIBRATED = 1000


def calibration_evidence(mu, action, share=None, group=None):
    r"""Return evidence that another temperature fits a whole logging distribution."""
    # With :math:`\mu_\beta \propto \mu^\beta` the likelihood ratios :math:`\prod_i
    # \mu_\beta(a_i | x_i) / \mu(a_i | x_i)` are e-values under right probabilities, and
    # so is their mean over :math:`\beta`.
    most = max(CALIBRATED_CELLS // mu.shape[1], FEWEST_CALIBRATED)
    rows = slice(None, None, -(-len(mu) // most))
    mu, action = mu[rows], action[rows]
    share = None if share is None else share[rows]
    group = None if group is None else group[rows]
    with np.errstate(divide="ignore"):  # what is impossible stays so
        log_mu = np.log(mu)
    own = log_mu[np.arange(len(mu)), action]
    evidence = []
    for beta in SHARPNESS:
        ratio = np.exp((beta - 1) * own) / np.exp(beta * log_mu).sum(axis=1)
        evidence.append(log_e_value(ratio, share, group))
    return log_mean_exp(evidence), SHARPNESS[int(np.argmax(evidence))]


# -- what the mean of 1/p tells: propensities that are too small, or too large ---------

FEWEST_CLUSTERS = 30  # rounds or groups, from which a mean is judged
OFTEN_IN_HALF = 15  # in one half of the rounds: an action that the other half tests
OFTEN_ENOUGH = 50  # rounds of an action, for what is missing
HEAVY = 4  # 1/p above sqrt(n) / 4 stands for more of the kind, not seen yet:
UNSEEN_PER_SEEN = 40  # so much more
HARDLY_A_CHOICE = 0.99  # a probability that leaves others unseen in most logs
MOST_CELLS = 1_000_000  # loggers times actions


@dataclass(frozen=True)
class Excess:
    """By how much a mean exceeds what it should be."""

    ratio: float  # the mean over what it should be
    # Its distance from that in standard errors; `inf` where rounds do not differ
    z: float
    n: int  # number of rounds or groups that tell

    def beyond(self, z, ratio):
        """Tell whether it is far beyond chance and large."""
        # Where 1/p is the same in all rounds there is no error. Then it counts how
        # probable it is that nothing else was drawn: at most ratio to the power -n.
        if self.n < FEWEST_CLUSTERS or self.z <= z or self.ratio <= ratio:
            return False
        return self.n * log(self.ratio) > z**2 / 2


class InversePropensities:
    r"""Means of 1/p, by rounds or groups, with sample weights."""

    # Under right propensities :math:`E[I(a \in S)/p] = |S|` for actions that may be
    # taken in every context, and less where some may not. Recorded ones that were
    # rounded stand for all in half a step of them: what follows is told only where no
    # such propensities explain it.

    def __init__(self, logs, rows, names=None):
        def part(values):
            return None if values is None else values[rows]

        self.held, self.rows, self._names = logs, rows, names
        self.p, self.action = logs.propensity[rows], logs.action_index[rows]
        self.group, self.available = part(logs.group_index), part(logs.available)
        self.mu, self.logger = part(logs.logging_proba), part(logs.logger_index)
        self.share = uneven_weight(logs, rows)
        self.weight = None if self.share is None else self.share / self.share.mean()
        self.n_actions = logs.n_actions
        n_loggers = 1 if logs.loggers is None else len(logs.loggers)
        # too many to tell apart: what each of them never does is not known
        self.pooled = n_loggers > 1 and n_loggers * logs.n_actions > MOST_CELLS
        self.n_loggers = 1 if self.pooled else n_loggers

    def names(self, places):
        """Return where the rounds at some places of `p` stand in the log, as a list."""
        return self._named(self.rows[places])

    def shown(self, mask):
        """Return the same of the first rounds of `held` that a mask shows."""
        return self._named(np.flatnonzero(mask)[:ROWS_NAMED])

    def of(self, some):
        """Return the same of some of the rounds, given as a mask."""
        return InversePropensities(self.held, self.rows[some], self._names)

    def _named(self, rows):
        return (rows if self._names is None else self._names[rows]).tolist()

    @property
    def counts(self):
        """How often each action was taken, ndarray of shape (n_actions,)."""
        return np.bincount(self.action, minlength=self.n_actions)

    @property
    def group_sizes(self):
        """Numbers of rounds of the groups, or None."""
        if self.group is None:
            return None
        sizes = np.bincount(self.group)
        return sizes[sizes > 0]

    @cached_property
    def half_step(self):
        """Largest error that rounding may have made, 0 where none is apparent."""
        return rounding_error(self.p, self.n_actions)

    @cached_property
    def at_least(self):
        """The smallest that 1/p can be, weighted, ndarray of shape (n_rounds,)."""
        return self._weighted(1 / (self.p + self.half_step))

    def _weighted(self, values):
        return values if self.weight is None else values * self.weight

    @cached_property
    def _cell(self):
        """Codes of (acting logger, action)."""
        if self.n_loggers == 1:
            return self.action
        return self.logger * self.n_actions + self.action

    def _counts(self, rows):
        return np.bincount(self._cell[rows], minlength=self.n_loggers * self.n_actions)

    @cached_property
    def _half(self):
        """Halves of the rounds by lot; the rounds of a group stand in the same."""
        lots = np.random.RandomState(0)
        if self.group is None:
            return lots.randint(2, size=len(self.p))
        return lots.randint(2, size=self.group.max() + 1)[self.group]

    @cached_property
    def _often(self):
        """Cells that the rounds of the other half took often, (2, n_cells)."""
        # Actions that are chosen by their counts in the same rounds would look too
        # frequent.
        often = [self._counts(self._half == other) for other in (1, 0)]
        return np.array(often) >= OFTEN_IN_HALF

    @cached_property
    def frequent(self):
        """Which rounds took an action that the other half took often."""
        return self._often[self._half, self._cell]

    def _sizes(self, cells):
        """Return how many actions of some cells each round could take."""
        cells = cells.reshape(self.n_loggers, self.n_actions).astype(float)
        several = self.n_loggers > 1
        if self.available is None:
            sizes = cells.sum(axis=1)
            return sizes[self.logger] if several else sizes.repeat(len(self.p))
        mine = cells[self.logger] if several else cells
        return (self.available * mine).sum(axis=1)

    def too_small(self):
        """Return the `Excess` of 1/p over the number of the frequent actions."""
        sizes = [self._sizes(cells) for cells in self._often]
        expected = np.where(self._half == 0, *sizes)
        return self._excess(self.at_least * self.frequent, expected)

    def too_small_for(self, action):
        """Return the `Excess` of I(a)/p over one, for an action by its code."""
        offered = np.ones(len(self.p))
        if self.available is not None:
            offered = self.available[:, action].astype(float)
        return self._excess(self.at_least * (self.action == action), offered)

    def by_action(self):
        """Return the means of I(a)/p over what they should be."""
        sums = np.bincount(self.action, self.at_least, minlength=self.n_actions)
        if self.available is None:
            return sums / len(self.p)
        offered = self._weighted(np.ones(len(self.p))) @ self.available
        return np.divide(sums, offered, out=np.zeros(len(sums)), where=offered > 0)

    def _excess(self, values, expected):
        expected = self._weighted(expected)
        total, error, n = self._sum_and_error(values - expected, slice(None))
        should = float(expected.sum())
        if should <= 0:
            return Excess(1.0, 0.0, n)
        return Excess(1 + total / should, _in_errors(total, error), n)

    def _sum_and_error(self, gap, rows):
        """Return the sum of some rounds' numbers, its error, and how many tell."""
        change = gap - gap.mean()
        if self.group is not None:
            present = np.bincount(self.group[rows]) > 0
            change = np.bincount(self.group[rows], change)[present]
        n = len(change)
        error = sqrt(n / (n - 1) * float(change @ change)) if n > 1 else inf
        if error <= 1e-9 * np.abs(gap).sum():
            error = 0.0  # rounding
        return float(gap.sum()), error, n

    def too_large(self):
        r"""Return the `Excess` of a number of actions over what 1/p tells of it."""
        # Of rounds with a choice (p < .99) and the set S of actions that the acting
        # logger took at least 50 times in them,
        #
        # .. math:: D = |S| - \overline{I(a \in S) / p}
        #    - 40\, \overline{I(1 / p > \sqrt{n} / 4) / p}
        #
        # The last term, of all actions, stands for what no log of this size can show:
        # contexts in which an action is so improbable that it was never seen. A softmax
        # of sharp logits has some in every octave of 1/p. Where the whole distribution
        # is known nothing need be guessed:
        #
        # .. math:: D = \overline{\#\{a \in S : \mu_a \ge t\}
        #    - I(a \in S, p \ge t) / p}, \qquad t = 4 / \sqrt{n}
        known = self.mu is not None
        rows = np.flatnonzero(self.p < (1 - 1e-9 if known else HARDLY_A_CHOICE))
        often = self._counts(rows) >= OFTEN_ENOUGH
        rough = self.p.min() < 3.1 * self.half_step
        if self.pooled or rough or not often.any():
            return None
        every = self._weighted(1 / (self.p - self.half_step))[rows]
        mine = every * often[self._cell[rows]]
        n = len(rows) if self.group is None else len(np.unique(self.group[rows]))
        least = HEAVY / sqrt(n)
        could = self._weighted(self._could_take(often, least))[rows]
        if not could.any():
            return None
        if known:
            mine, unseen = mine * (self.p[rows] >= least), 0.0
        else:
            unseen = UNSEEN_PER_SEEN * every * (every > 1 / least)
        missing = float((could - mine - unseen).sum())
        _, error, n = self._sum_and_error(np.minimum(mine, sqrt(n)) - could, rows)
        return Excess(1 + missing / float(could.sum()), _in_errors(missing, error), n)

    def _could_take(self, often, least):
        """Return how many of the frequent actions each round could have taken."""
        if self.mu is None:
            return self._sizes(often)
        of_action = often.reshape(self.n_loggers, self.n_actions).any(axis=0)
        return (self.mu >= least) @ of_action.astype(float)


def _in_errors(total, error):
    return total / error if error > 0 else (inf if total > 0 else 0.0)
