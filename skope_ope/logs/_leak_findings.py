# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of the context that tell the logged action better than the logger could."""

from math import log

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.exceptions import PropensityWarning
from skope_ope.logs._context_columns import (
    binned,
    capital,
    columns_of,
    columns_tested,
    listed,
    sampled_rows,
)
from skope_ope.logs._e_value import (
    FLOOR,
    LEAST_EFFECT,
    SURE,
    log_e_value,
    log_mean_exp,
    mean_gain,
    misfit_effect,
    probability_ratio,
)
from skope_ope.logs._finding import Finding

MOST_ROUNDS = 10_000
FEWEST_ROUNDS = 100
DENSE = 1_000_000  # numbers that are counted without sorting
PRIOR = 5.0  # rounds of every bin that follow the frequencies of the actions
MOST_BINS = 256
ALMOST_ALL = 0.8  # of the surprise about an action, told by a single column
MOSTLY = 0.5  # of it: more than other propensities would explain


def action_leak_findings(logs, random_state=0):
    r"""Return a finding where single columns tell the action better than p does.

    Rounds fall into two halves. The frequencies of the actions in the bins of a
    column, learned from one half, are a bet against the propensities of the other:
    with :math:`f_i = \hat p(a_i \mid x_{ij}) / p_i`, products of
    :math:`1 + \lambda (f_i - 1)` have an expectation of at most one where :math:`p`
    is right, however skewed they are. One above 1,000 times the number of columns, of
    any of them, happens in less than one log of 1,000.

    Where propensities are not known, or estimated, a column is found that tells
    almost all about the action.

    Parameters
    ----------
    logs : BanditLogs
        The rounds.
    random_state : int, RandomState instance or None, default=0
        Which rounds are drawn where there are many, and their halves.

    Returns
    -------
    facts : dict
        Which columns were tested where these are not all.
    findings : list of Finding
    """
    random = check_random_state(random_state)
    rows = independent_rows(logs, MOST_ROUNDS, random)
    action = logs.action_index[rows]
    part = columns_tested(logs.context)
    facts = {} if part is None else {"columns tested": part}
    if len(rows) < FEWEST_ROUNDS or (action == action[0]).all():
        return facts, []
    half = random.permutation(len(rows)) % 2
    columns = columns_of(logs.context, rows)
    known = logs.propensity is not None and not logs.propensity_estimated
    if known:
        chance, level = logs.propensity[rows], SURE + log(max(len(columns), 1))
    else:
        one_bin = np.zeros(len(rows), dtype=np.intp)
        chance = _learned_chance(one_bin, action, logs.n_actions, half)
        chance = np.maximum(chance, FLOOR / logs.n_actions)  # none is zero
        level = ALMOST_ALL
    surprise = -float(np.log(chance).mean())
    n_bins = min(max(16, 2 * logs.n_actions), MOST_BINS)
    told = []
    for column in columns:
        learned = _learned_chance(binned(column, n_bins), action, logs.n_actions, half)
        ratio = probability_ratio(learned, chance, logs.n_actions)
        gain = mean_gain(ratio)
        if known:
            number = log_mean_exp([log_e_value(ratio[half == k]) for k in (0, 1)])
        else:
            number = gain / surprise
        if number > level and misfit_effect(ratio) > LEAST_EFFECT:
            told.append((gain, number, column))
    told.sort(key=lambda one: -one[0])
    return facts, [_finding(told, surprise, len(rows), known)] if told else []


def independent_rows(logs, most, random):
    """Return rows, ascending, whose actions were drawn apart and follow p.

    Of each group one: its rounds may repeat one choice. Where rounds have weights,
    each is kept with a probability in proportion to its weight, which undoes what
    the subsampling did to the frequencies of the actions.
    """
    rows = sampled_rows(len(logs), most, random)
    if logs.group is not None:
        shuffled = random.permutation(len(logs))
        _, first = np.unique(logs.group_index[shuffled], return_index=True)
        rows = np.sort(shuffled[random.permutation(first)[:most]])
    if logs.sample_weight is not None:
        weight = logs.sample_weight[rows]
        rows = rows[random.random_sample(len(rows)) * weight.max() < weight]
    return rows


def _learned_chance(code, action, n_actions, half):
    """Return the probability of each action by the rounds of the other half."""
    pair = code * n_actions + action
    chance = np.empty(len(action))
    for told in (half == 0, half == 1):
        learned = ~told
        frequency = _counts(action[learned], action[told]) / learned.sum()
        in_bin = _counts(code[learned], code[told])
        of_pair = _counts(pair[learned], pair[told])
        chance[told] = (of_pair + PRIOR * frequency) / (in_bin + PRIOR)
    return chance


def _counts(learned, wanted):
    """Return how often each wanted number occurs among the learned ones."""
    size = int(wanted.max()) + 1
    if size <= DENSE:
        return np.bincount(learned, minlength=size)[wanted]
    learned = np.sort(learned)
    return learned.searchsorted(wanted, "right") - learned.searchsorted(wanted)


def _finding(ranked, surprise, n_rounds, known):
    gain, number, column = ranked[0]
    share = min(gain / surprise, 1.0)
    others = [one.label for _, _, one in ranked[1:]]
    others = f" So do {listed(others)}." if others else ""
    written = (
        f"{column.label} was written after the action was chosen, or holds the choice "
        "itself: take it out of the context, which is what was known before."
    )
    if not known:
        found = (
            f"{column.label} tells {share:.0%} of what the frequencies of the actions "
            f"leave open about the logged action.{others}"
        )
        advice = (
            written,
            "The logger follows this column without exploring: then these rounds "
            "cannot tell what another action would have brought.",
        )
    else:
        found = (
            f"{column.label} tells the logged action far better than the propensities "
            f"do: {gain:.3g} of {surprise:.3g} nats a round (ln e-value {number:,.1f} "
            f"on {n_rounds:,} rounds).{others}"
        )
        other = (
            "The propensities are not those of this logger: compare them with the "
            "code that draws the actions."
        )
        alone = share > MOSTLY or len(ranked) == 1  # wrong propensities miss more
        advice = (written, other) if alone else (other, written)
    return Finding(
        "action_leak",
        "error" if known else "warning",
        capital(found),
        tuple(map(capital, advice)),
        number=number,
        effect=gain if known else share,
        columns=[one.name for _, _, one in ranked],
        category=PropensityWarning,
    )
