# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Propensities against models of the logger that are fitted to the log."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import log

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.exceptions import LowOverlapWarning
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._validation import plain
from skope_ope.logs.checks._context_columns import ContextColumn, context_columns
from skope_ope.logs.checks._evidence import (
    EVIDENT,
    LEAST_EFFECT,
    LEAST_RATIO,
    SURE_FORWARD,
    Bets,
    held_out_proba,
    probability_ratio,
    quarters_by_time,
)
from skope_ope.logs.checks._finding import Finding, propensity_alarm, with_dropped
from skope_ope.logs.checks._propensity_findings import (
    chance_of,
    estimate_advice,
    tested_propensities,
)
from skope_ope.logs.checks._propensity_sums import (
    ROWS_NAMED,
    rounding_error,
    uneven_weight,
)

ROUNDS_FITTED = 10_000
FEWEST_FITTED = 30
EITHER = log(2)  # two models have their say: each needs twice the evidence
LEAST_MISFIT = 0.015  # weights are then off by the root of it, 12%
LEAST_IN_DOUBT = 0.01  # of the rounds, in cells with an effect that matters
LEAST_IN_CELLS = 0.25  # weights are then off by the root of it, a half
MANY_TIMES_OVER = 3.0  # effect above which its digits tell nothing


def fitted_propensity_findings(logs, random_state=0):
    r"""Return a finding where a model of the logger beats the recorded propensities."""
    # At most 10,000 rounds are cut into quarters in time; the odd and the even ones
    # predict each other's actions. With :math:`f_i = (.99\, \hat p(a_i | x_i) + .01 /
    # K_i) / p_i`, whose mean is at most one under right propensities,
    #
    # .. math::
    #
    #    E = \frac{1}{6} \sum_{\text{halves}} \sum_{\lambda \in \{.1, .5, 1\}}
    #    \prod_i (1 + \lambda (f_i - 1))
    #
    # has a mean of at most one however skewed 1/p is. Two models are tried: one adds up
    # what columns tell, the other looks at cells of up to three columns (`cell_bets`,
    # which gives f itself). One of two E > 2,000 happens in at most one right log of a
    # thousand, where choices do not depend on those before. For loggers that learn this
    # holds of predictions from the past: the mean of the e-values of the quarters that
    # theirs predicts, and of all of these together, has to exceed 200, too. An alarm
    # needs both and an effect, the larger of the means of ln f and f - 1 above .015
    # (the weights are then off by the root of it, 12%; of estimates, which are never
    # exact, .035), or a mean of f - 1 above .25 in the cells that deviate, a hundredth
    # of the rounds or more. The rounds of a group enter by their mean, weighted rounds
    # by their share of the largest weight, rounded propensities by the largest that
    # they may stand for. Propensities that are too large are not seen in this way.
    p = logs.propensity
    if p is None or logs.propensity_estimated or p.min() >= 1 - 1e-9:
        return {}, []  # the quick tests say so
    return fitted_logger(logs, random_state)


def fitted_logger(logs, random_state=0):
    """Return the same of propensities of any origin."""
    # A logger that learns is no excuse for estimated ones, which depend on the context
    # alone; and a third model, a forest, has its say on what the classifier missed.
    p = logs.propensity
    rows, quarter = _drawn_quarters(logs, check_random_state(random_state))
    what = "propensities against a fitted logger"
    if len(rows) < FEWEST_FITTED:
        return {what: f"not possible: fewer than {FEWEST_FITTED} rounds or groups"}, []
    could = logs.n_actions
    if logs.available is not None:
        could = logs.available[rows].sum(axis=1)
    largest = p[rows] + rounding_error(p[rows], logs.n_actions)
    group = None if logs.group is None else logs.group_index[rows]
    least = LEAST_EFFECT if logs.propensity_estimated else LEAST_MISFIT
    bets = Bets(quarter, share=uneven_weight(logs, rows), group=group)
    # what an estimate misses, a model of another kind has to find
    for forest in (False, True) if logs.propensity_estimated else (False,):
        predicted = held_out_proba(logs, rows, bets.plan, forest=forest)
        ratio = probability_ratio(predicted, largest, could)
        evidence, effect = bets.evidence(ratio) - EITHER, bets.effect(ratio)
        if evidence > EVIDENT and effect > least:
            break

    def is_past_alike(ahead):
        """Tell whether predictions from the past win, too, as a learner's may not."""
        sure = bets.evidence_ahead(ahead) > SURE_FORWARD + EITHER
        return sure or logs.propensity_estimated  # depend on the context alone

    learns = False
    if evidence > EVIDENT and effect > least:
        ahead = held_out_proba(logs, rows, bets.plan_ahead)
        if is_past_alike(probability_ratio(ahead, largest, could)):
            found = _misfit(logs, rows, predicted, ratio, evidence, effect)
            return {what: _likelier(effect)}, [found]
        learns = True
    known, about = (logs, rows, largest), (bets.share, group)
    cells = cell_bets(*known, bets.plan, *about)
    sure = bets.evidence(cells.f) - EITHER
    if sure > EVIDENT and _are_far_off(cells, bets, least):
        if is_past_alike(cell_bets(*known, bets.plan_ahead, *about).f):
            effect = bets.effect(cells.f)
            found = _in_cells(*known, bets.share, cells, sure, effect)
            return {what: _likelier(effect)}, [found]
        learns = True
    told = "no fitted model predicts the logged actions better"
    if evidence > EVIDENT:
        told = _likelier(effect)
    if learns:
        told = (
            "a fitted model is better, but not by what came before each round: the "
            "logger may learn from its past"
        )
    return {what: told}, []


def _are_far_off(cells, bets, least):
    """Tell whether propensities are far off, in all or in some of the rounds."""
    if bets.effect(cells.f) > least:
        return True
    mine = cells.cell >= 0
    weight = np.ones(len(mine)) if bets.share is None else bets.share
    enough = weight[mine].sum() >= LEAST_IN_DOUBT * weight.sum()
    gain = np.average(cells.f[mine] - 1, weights=weight[mine]) if enough else 0.0
    return gain > LEAST_IN_CELLS


def _drawn_quarters(logs, random):
    """Return some rows and their quarters in time; a group's rounds stay together."""
    weight = logs.sample_weight
    rank = logs.row_id.position
    if logs.group is None:
        rows = np.arange(len(logs)) if weight is None else np.flatnonzero(weight)
        rows = random.permutation(rows)[:ROUNDS_FITTED]
        return rows, quarters_by_time(rank[rows])
    order = random.permutation(logs.n_groups)
    n_groups = (
        int(np.searchsorted(logs._group_sizes[order].cumsum(), ROUNDS_FITTED)) + 1
    )
    if min(n_groups, logs.n_groups) < FEWEST_FITTED:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
    first = np.full(logs.n_groups, rank.max() + 1)
    np.minimum.at(first, logs.group_index, rank)
    quarter = np.full(logs.n_groups, -1)
    quarter[order[:n_groups]] = quarters_by_time(first[order[:n_groups]])
    of_round = quarter[logs.group_index]
    rows = np.flatnonzero((of_round >= 0) & (True if weight is None else weight > 0))
    return rows, of_round[rows]


def _likelier(effect):
    return f"a fitted model makes a logged action likelier {_by(effect)}"


def _by(effect):
    return (
        f"by {effect:,.1%} on average"
        if effect < MANY_TIMES_OVER
        else "many times over"
    )


OTHER_PROPENSITIES = (
    "The propensities belong to other rounds, to another action or another logger: "
    "check the join, the labels and the order of the rows.",
    "They are no probabilities of the draw: scores, parts of probabilities, those of a "
    "model that does not know how the logger explores, or 1 / (number of actions) for "
    "a logger that is not uniform.",
)


def _misfit(logs, rows, predicted, ratio, evidence, effect):
    """Name the action whose rounds gain most, and the rounds that gain most."""
    action, p = logs.action_index[rows], logs.propensity[rows]
    gain = np.bincount(
        action, np.log(np.maximum(ratio, LEAST_RATIO)), minlength=logs.n_actions
    )
    worst = int(gain.argmax())
    mine = action == worst
    label = plain(logs.actions[worst])
    show = rows[mine][np.argsort(-ratio[mine], kind="stable")[:ROWS_NAMED]]
    found = (
        "A model of the logger, fitted to other rounds of this log, makes a logged "
        f"action likelier than its propensity {_by(effect)} "
        f"({chance_of(evidence)}). Most of it comes from action {label!r}: mean "
        f"propensity {figure(p[mine].mean())} where it was logged, by the model "
        f"{figure(predicted[mine].mean())}."
    )
    advice = (
        *with_dropped(OTHER_PROPENSITIES, logs),
        "A column of the context tells the action that was taken: it was written "
        "after the decision. Leave it out.",
        estimate_advice(logs),
    )
    about = {"number": evidence, "effect": effect, "rows": np.sort(show).tolist()}
    about |= {"actions": (label,)}
    return propensity_alarm("propensity_misfit", found, advice, **about)


OTHER_RULE = (
    "The rule that computes the propensities differs from that of the logger here: "
    "check its limits and the order of its branches. np.where and if take the first "
    "that holds."
)


def _in_cells(logs, rows, largest, share, bets, evidence, effect):
    """Name the cell and the action that gain most."""
    mine, n_actions = np.flatnonzero(bets.cell >= 0), logs.n_actions
    pair = bets.cell[mine] * n_actions + logs.action_index[rows[mine]]
    worst = int(np.bincount(pair, np.log(bets.f[mine])).argmax())
    cell, action = divmod(worst, n_actions)
    inside = mine[bets.cell[mine] == cell]
    taken = inside[logs.action_index[rows[inside]] == action]
    label = plain(logs.actions[action])
    weight = np.ones(len(rows)) if share is None else share
    times = (weight[taken] / largest[taken]).sum() / weight[inside].sum()
    columns = bets.columns[bets.part[inside[0]]]
    shown = taken[np.argsort(largest[taken], kind="stable")[:ROWS_NAMED]]
    found = (
        f"The propensities are wrong in a part of the log. Where "
        f"{cell_text(bets, cell)} ({len(inside):,} of {len(rows):,} rounds looked at), "
        f"action {label!r} was logged {figure(times, 3)} times as often as its "
        f"propensities predict ({chance_of(evidence)})."
    )
    advice = (*with_dropped([OTHER_RULE], logs), estimate_advice(logs))
    about = {"number": evidence, "effect": effect}
    about |= {"rows": np.sort(rows[shown]).tolist()}
    about |= {"columns": [one.name for one in columns], "actions": (label,)}
    return propensity_alarm("propensity_misfit", found, advice, **about)


# -- bets against recorded propensities in cells of two or three columns ---------------
# A model that adds up what columns tell does not see propensities that are wrong for
# some combinations of values only, as those of a rule whose branches stand in the wrong
# order.
#
# Where the action a was possible, :math:`1[a_i = a] / p_i` has mean one in every cell
# of the context. Who expects more of some actions in some cells puts shares
# :math:`\lambda_{ca}` of the wealth on them and keeps the rest:
#
# .. math:: f_i = 1 - \sum_a \lambda_{ca} + \lambda_{c a_i} / p_i
#
# The mean of f is at most one under right propensities, whatever the logger does within
# a cell, so products of f over rounds that were not learned from are e-values. Cells
# and shares are learned: the columns are those whose cells deviate most, the shares
# have the largest likelihood (they are the weights of a mixture).

COLUMNS_PAIRED = 16  # of which all pairs are tried
ACTIONS_APART = 20  # the most frequent ones
FINE, RESOLUTIONS = 32, (8, 4)  # values of a column: alone, and beside others
MOST_DEEP = 3  # columns of a cell
LARGEST_INVERSE = 1e6  # 1 / p that counts: squares stay finite
FEWEST_IN_CELL = 20  # rounds of a cell that is bet on
LEAST_Z = 3.0  # deviation that is bet on
NOISE = 2.0  # of half a squared deviation, where nothing deviates
SCORED_Z = (2 * NOISE) ** 0.5
LEAST_VARIANCE = 0.01
DOUBTING_ROUNDS = 2.0  # rounds that are on the side of the propensities, in every cell
N_STEPS = 30


@dataclass(frozen=True)
class CellBets:
    """Bets on some rounds, learned from others."""

    f: np.ndarray  # 1 where nothing is bet; NaN for rounds that are in no part
    cell: np.ndarray  # cells with bets, different in every part; -1 elsewhere
    columns: list  # by part: the columns whose values are the cells
    part: np.ndarray  # position of a round's part in the plan, -1 where it is in none


def cell_bets(logs, rows, largest, plan, share=None, group=None):
    """Return bets in cells of the context, learned from other rounds."""
    n = len(rows)
    columns = _cell_columns(logs, rows)
    coarse = [_coarse(one) for one in columns]
    codes = {most: [one[most] for one in coarse] for most in (FINE, *RESOLUTIONS)}
    inverse = np.minimum(1 / largest, LARGEST_INVERSE)
    weight = np.ones(n) if share is None else share.astype(float)
    group = np.arange(n) if group is None else group
    action = logs.action_index[rows]
    f, cell, part = np.full(n, np.nan), np.full(n, -1), np.full(n, -1)
    told, n_cells = [], 0
    for k, (learned, wanted) in enumerate(plan):
        f[wanted], part[wanted] = 1.0, k
        told.append(())
        sample = _Sample.of(action, inverse, weight, group, learned)
        best = _best_cells(codes, sample)
        if best is None:
            continue
        chosen, code = best
        stakes = sample.apart(code).stakes(code)
        mine = stakes[code[wanted], sample.frequent[action[wanted]]]
        kept = 1 - stakes.sum(axis=1)
        f[wanted] = kept[code[wanted]] + mine * inverse[wanted]
        bet = stakes.any(axis=1)[code[wanted]]
        cell[np.flatnonzero(wanted)[bet]] = n_cells + code[wanted][bet]
        n_cells += len(stakes)
        told[-1] = tuple(columns[j] for j in chosen)
    return CellBets(f, cell, told, part)


def _cell_columns(logs, rows):
    columns = context_columns(logs.context, rows)[:COLUMNS_PAIRED]
    if logs.loggers is not None and len(logs.loggers) > 1:
        code = logs.logger_index[rows].astype(float)
        labels = tuple(map(str, logs.loggers))
        columns.append(ContextColumn("logger", code, True, True, labels))
    return columns


def _coarse(column):
    """Return codes by resolution: so many values or bins, and one for missing."""
    known = np.isfinite(column.values)
    values, found = column.values[known], {}
    ordered = np.sort(values)
    distinct = np.unique(ordered)
    for most in (FINE, *RESOLUTIONS):
        edges, codes = distinct, np.full(len(known), most)
        if column.categorical:
            edges = np.arange(most)  # the rarest are the last
        elif len(distinct) > most:
            edges = np.unique(ordered[np.arange(most) * len(ordered) // most])
        codes[known] = np.maximum(np.searchsorted(edges, values, "right") - 1, 0)
        found[most] = codes
    return found


@dataclass(frozen=True)
class _Sample:
    """Rounds that are learned from."""

    # `frequent` gives the position of an action among the frequent ones, and their
    # number for all others.

    mask: np.ndarray
    action: np.ndarray
    inverse: np.ndarray
    weight: np.ndarray
    group: np.ndarray
    frequent: np.ndarray
    n_actions: int

    @classmethod
    def of(cls, action, inverse, weight, group, mask):
        counts = np.bincount(action[mask], minlength=int(action.max()) + 1)
        first = np.argsort(-counts, kind="stable")[:ACTIONS_APART]
        frequent = np.full(len(counts), len(first))
        frequent[first] = np.arange(len(first))
        parts = (part[mask] for part in (frequent[action], inverse, weight, group))
        return cls(mask, *parts, frequent, len(first) + 1)

    def apart(self, code):
        """Return the sample with the rounds of a group in a cell counted as one."""
        cell = code[self.mask] * (int(self.group.max(initial=0)) + 1) + self.group
        _, unit, size = np.unique(cell, return_inverse=True, return_counts=True)
        return replace(self, weight=self.weight / size[unit])

    @cached_property
    def _powers(self):
        """Weight over p, and weight over its square."""
        scaled = self.weight * self.inverse
        return scaled, scaled * self.inverse

    def deviations(self, mine, n_cells):
        """Get z of the mean of 1[a] / p by cell and action, 0 where cells are small."""
        # Its variance under right propensities is that of 1 / p less one.
        pair = mine * self.n_actions + self.action
        shape, size = (n_cells, self.n_actions), n_cells * self.n_actions
        scaled, squared = self._powers
        first = np.bincount(pair, scaled, minlength=size).reshape(shape)
        second = np.bincount(pair, squared, minlength=size).reshape(shape)
        n = np.bincount(mine, self.weight, minlength=n_cells)[:, None]
        noise = np.maximum(second - n, LEAST_VARIANCE * np.maximum(n, 1e-9))
        z = (first - n) / np.sqrt(noise)
        z *= n >= FEWEST_IN_CELL
        z[:, -1] = 0  # actions that are not told apart
        return z

    def score(self, mine, n_cells):
        """Return how much the cells deviate, beyond what chance does."""
        z = self.deviations(mine, n_cells)
        z = z[z > SCORED_Z]
        return float((z @ z) / 2 - NOISE * len(z))

    def stakes(self, code):
        """Return the shares of the wealth by cell and action, of largest likelihood."""
        n_cells = int(code.max()) + 1
        mine = code[self.mask]
        bet = self.deviations(mine, n_cells) > LEAST_Z
        stakes = bet / (2.0 * np.maximum(bet.sum(axis=1, keepdims=True), 1))
        rounds = np.flatnonzero(bet.any(axis=1)[mine])
        mine, action = mine[rounds], self.action[rounds]
        inverse, weight = self.inverse[rounds], self.weight[rounds]
        pair, n = mine * self.n_actions + action, np.bincount(mine, weight, n_cells)
        for _ in range(N_STEPS):
            won = stakes[mine, action] * inverse
            won = weight * won / (won + (1 - stakes.sum(axis=1))[mine])
            won = np.bincount(pair, won, minlength=stakes.size).reshape(stakes.shape)
            stakes = won / (n + DOUBTING_ROUNDS)[:, None]
        return stakes


def _best_cells(codes, sample):
    """Return the columns whose cells deviate most, and the codes of the cells."""
    learned = {most: [one[sample.mask] for one in codes[most]] for most in codes}
    best, resolution = (0.0, ()), None
    for most, parts in learned.items():
        found, width = (0.0, ()), most + 1
        deep = 1 if most == FINE else 2
        for chosen in combinations(range(len(parts)), deep):
            found = _better(found, chosen, parts, width, sample)
        while most != FINE and 0 < len(found[1]) < MOST_DEEP:
            before = found
            for j in set(range(len(parts))) - set(before[1]):
                found = _better(found, (*before[1], j), parts, width, sample)
            if found is before:
                break
        if found[0] > best[0]:
            best, resolution = found, most
    if resolution is None:
        return None
    return best[1], _cell_codes(best[1], codes[resolution], resolution + 1)


def _better(found, chosen, parts, width, sample):
    code = _cell_codes(chosen, parts, width)
    score = sample.score(code, width ** len(chosen))
    return (score, chosen) if score > found[0] else found


def _cell_codes(chosen, parts, width):
    """Return the codes of the cells of some columns."""
    code = parts[chosen[0]]
    for j in chosen[1:]:
        code = code * width + parts[j]
    return code


def cell_text(bets, cell):
    """Say which values the columns have in a cell."""
    mine = bets.cell == cell
    columns = bets.columns[bets.part[mine][0]]
    return " and ".join(f"{one.label} is {_cell_values(one, mine)}" for one in columns)


def _cell_values(column, mine):
    values = column.values[mine]
    values = values[np.isfinite(values)]
    if not len(values):
        return "missing"
    if column.categorical:
        codes = np.unique(values).astype(int)
        one = repr(column.labels[codes[0]])
        return one if len(codes) == 1 else f"one of {len(codes):,} rare values"
    low, high = values.min(), values.max()
    return figure(low) if low == high else f"{figure(low)} to {figure(high)}"


# -- estimated propensities, tested as if they were recorded ---------------------------

ESTIMATED_PROPENSITIES = "estimated_propensities"
FEWEST_SEEN = 20  # of an action, from which a classifier learns
ACTIONS_NAMED = 10  # that are named
OTHER_CLASSIFIER = (
    "estimate them with a classifier that can learn the rule of the logger and does "
    "not overfit, such as HistGradientBoostingClassifier(max_iter=30, "
    "max_leaf_nodes=7)."
)
BETTER_MODEL = (
    f"E{OTHER_CLASSIFIER[1:]}",
    "Give the context all columns that the logger looked at.",
    "Record the propensities when actions are drawn.",
)


def estimated_propensity_findings(logs):
    """Return what the tests of recorded propensities say of estimated ones."""
    # No test sees a reason for an action that is not in the context.
    facts, found = tested_propensities(logs)
    told, more = fitted_logger(logs)
    alarms = [replace(one, advice=BETTER_MODEL) for one in found + more if one.is_alarm]
    return facts | told, [_estimated_note(), *alarms, *_rarely_logged(logs)]


def _estimated_note():
    found = (
        "The propensities were estimated. The tests below see only what the context "
        "tells: what else the logger knew biases every estimate."
    )
    return Finding(ESTIMATED_PROPENSITIES, "note", found)


def _rarely_logged(logs):
    """Find actions of which an estimate has learned from few rounds."""
    counts = logs._action_counts
    few = np.flatnonzero((counts > 0) & (counts < FEWEST_SEEN))
    if not len(few):
        return []
    worst = few[np.argsort(counts[few], kind="stable")[:ACTIONS_NAMED]]
    found = (
        f"{len(few):,} of {len(counts):,} actions have fewer than {FEWEST_SEEN} "
        f"rounds, {plain(logs.actions[worst[0]])!r} has {counts[worst[0]]:,}: a "
        "classifier cannot learn their propensities."
    )
    advice = "Merge rare actions, collect more rounds, or record the propensities."
    about = {"number": float(counts[worst[0]]), "category": LowOverlapWarning}
    about["actions"] = map(plain, logs.actions[worst])
    return [Finding("few_rounds_of_action", "warning", found, advice, **about)]
