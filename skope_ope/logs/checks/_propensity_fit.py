# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Propensities against models of the logger that are fitted to the log."""

from math import log

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.exceptions import PropensityWarning
from skope_ope.logs._propensity_audit import uneven_weight
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._validation import plain
from skope_ope.logs.checks._dropped_rounds import with_dropped
from skope_ope.logs.checks._e_value import (
    FLOOR,
    LEAST_EFFECT,
    SURE,
    SURE_FORWARD,
    crosswise,
    forwards,
    log_e_forward,
    log_e_of_parts,
    misfit_effect,
    probability_ratio,
    quarters_by_time,
)
from skope_ope.logs.checks._finding import Finding
from skope_ope.logs.checks._inverse_propensities import rounding_error
from skope_ope.logs.checks._logger_model import held_out_proba
from skope_ope.logs.checks._propensity_cells import cell_bets, cell_text
from skope_ope.logs.checks._propensity_findings import chance_of, estimate_advice

MOST_ROUNDS = 10_000
FEWEST_ROUNDS = 30
MOST_ROWS = 10
EITHER = log(2)  # two models have their say: each needs twice the evidence
LEAST_SHARE = 0.01  # of the rounds, in cells with an effect that matters
LEAST_IN_CELLS = 0.25  # weights are then off by the root of it, a half
MANY_TIMES = 3.0  # effect above which its digits tell nothing


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
    # needs both and an effect, the larger of the means of ln f and f - 1 above .035
    # (the weights are then off by the root of it, 19%), or a mean of f - 1 above .25 in
    # the cells that deviate, a hundredth of the rounds or more. The rounds of a group
    # enter by their mean, weighted rounds by their share of the largest weight, rounded
    # propensities by the largest that they may stand for. Propensities that are too
    # large are not seen in this way.
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
    if len(rows) < FEWEST_ROUNDS:
        return {what: f"not possible: fewer than {FEWEST_ROUNDS} rounds or groups"}, []
    could = logs.n_actions
    if logs.available is not None:
        could = logs.available[rows].sum(axis=1)
    largest = p[rows] + rounding_error(p[rows], logs.n_actions)
    share = uneven_weight(logs, rows)
    group = None if logs.group is None else logs.group_index[rows]
    plan = crosswise(quarter % 2)
    halves = [part for _, part in plan]
    # what an estimate misses, a model of another kind has to find
    for forest in (False, True) if logs.propensity_estimated else (False,):
        predicted = held_out_proba(logs, rows, plan, forest=forest)
        ratio = probability_ratio(predicted, largest, could)
        evidence = log_e_of_parts(ratio, halves, share, group) - EITHER
        effect = misfit_effect(ratio, share)
        if evidence > SURE and effect > LEAST_EFFECT:
            break

    def is_past_alike(ahead):
        """Tell whether predictions from the past win, too, as a learner's may not."""
        sure = log_e_forward(ahead, quarter, share, group) > SURE_FORWARD + EITHER
        return sure or logs.propensity_estimated  # depend on the context alone

    learns = False
    if evidence > SURE and effect > LEAST_EFFECT:
        ahead = held_out_proba(logs, rows, forwards(quarter))
        if is_past_alike(probability_ratio(ahead, largest, could)):
            found = _misfit(logs, rows, predicted, ratio, evidence, effect)
            return {what: _likelier(effect)}, [found]
        learns = True
    known = logs, rows, largest
    bets = cell_bets(*known, plan, share, group)
    sure = log_e_of_parts(bets.f, halves, share, group) - EITHER
    if sure > SURE and _matters(bets, share):
        if is_past_alike(cell_bets(*known, forwards(quarter), share, group).f):
            overall = misfit_effect(bets.f, share)
            return {what: _likelier(overall)}, [
                _in_cells(*known, share, bets, sure, overall)
            ]
        learns = True
    told = _likelier(effect) if evidence > SURE else "no fitted model predicts the "
    told += "" if evidence > SURE else "logged actions better"
    if learns:
        told = (
            "a fitted model is better, but not by what came before each round: the "
            "logger may learn from its past"
        )
    return {what: told}, []


def _matters(bets, share):
    """Tell whether propensities are far off, in all or in some of the rounds."""
    if misfit_effect(bets.f, share) > LEAST_EFFECT:
        return True
    mine = bets.cell >= 0
    weight = np.ones(len(mine)) if share is None else share
    enough = weight[mine].sum() >= LEAST_SHARE * weight.sum()
    gain = np.average(bets.f[mine] - 1, weights=weight[mine]) if enough else 0.0
    return gain > LEAST_IN_CELLS


def _drawn_quarters(logs, random):
    """Return some rows and their quarters in time; a group's rounds stay together."""
    weight = logs.sample_weight
    rank = logs.row_id.position
    if logs.group is None:
        rows = np.arange(len(logs)) if weight is None else np.flatnonzero(weight)
        rows = random.permutation(rows)[:MOST_ROUNDS]
        return rows, quarters_by_time(rank[rows])
    order = random.permutation(logs.n_groups)
    n_groups = int(np.searchsorted(logs._group_sizes[order].cumsum(), MOST_ROUNDS)) + 1
    if min(n_groups, logs.n_groups) < FEWEST_ROUNDS:
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
    return f"by {effect:,.1%} on average" if effect < MANY_TIMES else "many times over"


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
        action, np.log(np.maximum(ratio, FLOOR)), minlength=logs.n_actions
    )
    worst = int(gain.argmax())
    mine = action == worst
    label = plain(logs.actions[worst])
    show = rows[mine][np.argsort(-ratio[mine], kind="stable")[:MOST_ROWS]]
    return Finding(
        "propensity_misfit",
        "error",
        "A model of the logger, fitted to other rounds of this log, makes a logged "
        f"action likelier than its propensity {_by(effect)} "
        f"({chance_of(evidence)}). Most of it comes from action {label!r}: mean "
        f"propensity {figure(p[mine].mean())} where it was logged, by the model "
        f"{figure(predicted[mine].mean())}.",
        (
            *with_dropped(OTHER_PROPENSITIES, logs),
            "A column of the context tells the action that was taken: it was written "
            "after the decision. Leave it out.",
            estimate_advice(logs),
        ),
        evidence,
        effect,
        rows=np.sort(show).tolist(),
        actions=(label,),
        category=PropensityWarning,
    )


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
    shown = taken[np.argsort(largest[taken], kind="stable")[:MOST_ROWS]]
    return Finding(
        "propensity_misfit",
        "error",
        f"The propensities are wrong in a part of the log. Where "
        f"{cell_text(bets, cell)} ({len(inside):,} of {len(rows):,} rounds looked at), "
        f"action {label!r} was logged {figure(times, 3)} times as often as its "
        f"propensities predict ({chance_of(evidence)}).",
        (
            *with_dropped([OTHER_RULE], logs),
            estimate_advice(logs),
        ),
        evidence,
        effect,
        rows=np.sort(rows[shown]).tolist(),
        columns=[one.name for one in columns],
        actions=(label,),
        category=PropensityWarning,
    )
