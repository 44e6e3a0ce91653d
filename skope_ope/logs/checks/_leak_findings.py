# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of the context that tell the logged action better than the logger could."""

from dataclasses import dataclass
from math import log

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.logs._propensity_audit import estimating_step, least_possible
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._context_columns import (
    ContextColumn,
    binned,
    capital,
    columns_tested,
    context_columns,
    in_words,
    rows_apart,
)
from skope_ope.logs.checks._e_value import (
    LEAST_EFFECT,
    LEAST_RATIO,
    SURE,
    SURE_FORWARD,
    Bets,
    mean_gain,
    misfit_effect,
    probability_ratio,
    quarters_by_time,
)
from skope_ope.logs.checks._finding import propensity_alarm
from skope_ope.logs.checks._inverse_propensities import rounding_error
from skope_ope.logs.checks._logger_model import held_out_proba

IGNORED = "propensity_ignores_context"
ROUNDS_APART = 10_000
FEWEST_APART = 100
DENSE = 1_000_000  # numbers that are counted without sorting
PRIOR_ROUNDS = 5.0  # rounds of every bin that follow the frequencies of the actions
MOST_BINS = 256
ALMOST_ALL = 0.8  # of the surprise about an action, told by a single column
FEWEST_ALONE, MOST_ALONE, ALONE_Z = 20, 20, 3.0  # rounds, actions; standard errors
MOST_OF_IT = 0.5  # of it: more than a column tells that only the logger looks at


def action_leak_findings(logs, random_state=0, most=ROUNDS_APART):
    r"""Return a finding where single columns tell the action better than p does."""
    # Rounds are cut into quarters in time. The frequencies of the actions in the bins
    # of a column, learned from the odd ones, are a bet against the propensities of the
    # even ones, and the other way round: with :math:`f_i = \hat p(a_i \mid x_{ij}) /
    # p_i`, products of :math:`1 + \lambda (f_i - 1)` have a mean of at most one where p
    # is right, however skewed they are. One above 1,000 times the number of columns, of
    # any of them, happens in less than one log of 1,000. That of quarters which their
    # past predicts, bets that a logger that learns does not make unfair, has to exceed
    # 100 times as many.
    #
    # Where propensities are not known, or estimated, a column is found that tells
    # almost all about the action. Where the propensity of an action is the same in
    # every context, a column that tells less than half of the action is no leak: the
    # logger looked at it, and the propensities do not.
    facts = {}
    if (part := columns_tested(logs.context)) is not None:
        facts["columns tested"] = part
    random = check_random_state(random_state)
    rows = independent_rows(logs, most, random)
    if logs.propensity is not None:  # a placeholder is no column's fault
        rows = rows[logs.propensity[rows] >= least_possible(len(logs), logs.n_actions)]
    action = logs.action_index[rows]
    if len(rows) < FEWEST_APART or (action == action[0]).all():
        return facts, []
    test = _LeakTest(logs, rows, random)
    leaks = test.leaks()
    if not leaks:
        return facts, []
    if not test.known:
        return facts, [_unknown_finding(leaks)]
    if leaks[0].told <= MOST_OF_IT:
        if test.ignores_context(leaks[0]):
            return facts, [_ignored_finding(logs, leaks, len(rows))]
        if test.is_wrong_without(leaks[0].column):
            return facts, [_innocent_finding(leaks)]
    alone = _wrong_alone(action, logs.propensity[rows])
    return facts, [_known_finding(leaks, len(rows), alone)]


class _LeakTest:
    """The columns of some rounds, one by one, against what the logger could tell."""

    def __init__(self, logs, rows, random):
        self.logs, self.rows, self.action = logs, rows, logs.action_index[rows]
        self.known = logs.propensity is not None and not logs.propensity_estimated
        quarter = quarters_by_time(logs._positions_at(rows))
        half = None if self.known else random.permutation(len(rows)) % 2
        self.bets = Bets(quarter, half)
        one_bin = np.zeros(len(rows), dtype=np.intp)
        frequency = self._learned(one_bin, self.bets.plan)
        # none is zero
        self.frequency = np.maximum(frequency, LEAST_RATIO / logs.n_actions)
        self.chance = self.frequency
        if self.known:
            p = logs.propensity[rows]
            self.chance = p + rounding_error(p, logs.n_actions)

    def _learned(self, code, plan):
        return _learned_chance(code, self.action, self.logs.n_actions, plan)

    def _ratio(self, predicted):
        return probability_ratio(predicted, self.chance, self.logs.n_actions)

    def leaks(self):
        """Return the columns that tell more than chance does, the worst first."""
        columns = context_columns(self.logs.context, self.rows)
        n_tests = log(max(len(columns), 1))
        open_to_chance = -float(np.log(self.frequency).mean())
        n_bins = min(max(16, 2 * self.logs.n_actions), MOST_BINS)
        found = []
        for column in columns:
            code = binned(column, n_bins)
            ratio = self._ratio(self._learned(code, self.bets.plan))
            told = mean_gain(self._among_frequencies(ratio)) / open_to_chance
            number, sure = told, told > ALMOST_ALL
            if self.known:
                number = self.bets.evidence(ratio)
                sure = number > SURE + n_tests
            if sure and misfit_effect(ratio) > LEAST_EFFECT:
                ahead = self._ratio(self._learned(code, self.bets.plan_ahead))
                ahead = self.bets.evidence_ahead(ahead) if self.known else np.inf
                if ahead > SURE_FORWARD + n_tests:
                    found.append(_Leak(column, told, number, ratio))
        return sorted(found, key=lambda one: -one.told)

    def _among_frequencies(self, ratio):
        """Return ratios to the propensities as those to the shares of the actions."""
        return ratio * (self.chance / self.frequency)

    def ignores_context(self, leak):
        """Whether the propensities do not look at the context, and the logger did."""
        # not a column that beats wrong frequencies by right ones
        apart = self.bets.evidence(self._among_frequencies(leak.ratio)) > SURE
        return apart and self.logs._propensity_by_action is not None

    def is_wrong_without(self, column):
        """Whether a model without a column beats the propensities, too."""
        rest = held_out_proba(self.logs, self.rows, self.bets.plan, column.name)
        ratio = self._ratio(rest)
        return misfit_effect(ratio) > LEAST_EFFECT and self.bets.evidence(ratio) > SURE


@dataclass(frozen=True)
class _Leak:
    """A column that tells the action."""

    # `told` is the share that it tells of what the frequencies of the actions leave
    # open; `ratio` how much likelier than by the propensities it makes each action.

    column: ContextColumn
    told: float
    number: float
    ratio: np.ndarray


def independent_rows(logs, most, random):
    """Return rows, ascending, whose actions were drawn apart and follow p."""
    # Of each group one: its rounds may repeat one choice. Where rounds have weights,
    # each is kept with a probability in proportion to its weight, which undoes what the
    # subsampling did to the frequencies of the actions.
    rows = rows_apart(logs, most, random)
    if logs.sample_weight is not None:
        weight = logs.sample_weight[rows]
        rows = rows[random.random_sample(len(rows)) * weight.max() < weight]
    return rows


def _learned_chance(code, action, n_actions, plan):
    """Return the probability of each action by the rounds that are learned from."""
    pair = code * n_actions + action
    chance = np.full(len(action), np.nan)
    for learned, told in plan:
        frequency = _counts_of_wanted(action[learned], action[told]) / learned.sum()
        in_bin = _counts_of_wanted(code[learned], code[told])
        of_pair = _counts_of_wanted(pair[learned], pair[told])
        chance[told] = (of_pair + PRIOR_ROUNDS * frequency) / (in_bin + PRIOR_ROUNDS)
    return chance


def _counts_of_wanted(learned, wanted):
    """Return how often each wanted number occurs among the learned ones."""
    size = int(wanted.max()) + 1
    if size <= DENSE:
        return np.bincount(learned, minlength=size)[wanted]
    learned = np.sort(learned)
    return learned.searchsorted(wanted, "right") - learned.searchsorted(wanted)


def _wrong_alone(action, p):
    """Get whether an action is more frequent than its propensities say, by itself."""
    # Under right propensities the mean of 1[a] / p is at most one, whatever columns
    # hold.
    counts = np.bincount(action)
    for k in np.argsort(-counts, kind="stable")[:MOST_ALONE]:
        if counts[k] < FEWEST_ALONE:
            break
        terms = (action == k) / p
        if terms.mean() - 1 > ALONE_Z * terms.std() / np.sqrt(len(terms)):
            return True
    return False


def _leak_finding(leaks, found, advice, effect=None, name="action_leak", **more):
    """Return what is found of columns, the first of which a sentence is about."""
    effect = misfit_effect(leaks[0].ratio) if effect is None else effect
    columns = [one.column.name for one in leaks]
    about = leaks[0].number, effect
    return propensity_alarm(name, found, advice, *about, columns=columns, **more)


def _known_finding(leaks, n_rounds, wrong_alone):
    """Tell of columns that beat propensities which are fine without the first one."""
    better = f"{figure(1 + misfit_effect(leaks[0].ratio))} times as likely as they say"
    label = capital(leaks[0].column.label)
    found = (
        f"{label} tells the logged action far better than the propensities do: "
        f"{better} on average over {n_rounds:,} rounds that were left out."
        f"{_so_do(leaks[1:])}"
    )
    causes = [_written(label), ANOTHER_LOGGER]
    if wrong_alone:  # a column that was written later leaves right ones as they are
        causes = [_other_rule(leaks[0].column.label), _written(label)]
    return _leak_finding(leaks, found, causes)


def _ignored_finding(logs, leaks, n_rounds):
    """Tell of columns that the logger looked at, and its propensities do not."""
    label, effect = leaks[0].column.label, misfit_effect(leaks[0].ratio)
    found = (
        "The propensity of each action is the same in every context, but the logged "
        f"actions depend on {label}: it makes them {1 + effect:.3g} times as likely as "
        f"the propensities say, on average over {n_rounds:,} rounds.{_so_do(leaks[1:])}"
    )
    advice = (
        f"If {label} was known before the action was chosen, the propensities are "
        "wrong: perhaps they are the shares of the actions in the log. Keep the "
        "column. Write down the probability of each draw, by the rule that drew "
        "it, or build the logs without propensities and estimate them with "
        f"{estimating_step(logs)}.",
        f"If {label} was written after the action was chosen, take it out of the "
        "context.",
    )
    return _leak_finding(leaks, found, advice, name=IGNORED)


def _innocent_finding(leaks):
    """Tell of columns that beat propensities which are wrong without them, too."""
    label = leaks[0].column.label
    found = (
        f"{capital(label)} tells the logged action better than the propensities do."
        f"{_so_do(leaks[1:])} But a model without {label} does so, too: the "
        "propensities are wrong, or several columns tell of the decision."
    )
    advice = "Correct the propensities, and audit the log again."
    return _leak_finding(leaks, found, advice, severity="note")


def _unknown_finding(leaks):
    """Tell of columns that leave little open about the action."""
    label, told = capital(leaks[0].column.label), leaks[0].told
    found = (
        f"{label} tells {told:.0%} of what the frequencies of the actions leave "
        f"open about the logged action.{_so_do(leaks[1:])}"
    )
    advice = (
        _written(label),
        "The logger follows this column without exploring: then these rounds "
        "cannot tell what another action would have brought.",
    )
    return _leak_finding(leaks, found, advice, told, severity="warning")


def _so_do(leaks):
    do = "do" if len(leaks) > 1 else "does"
    return f" So {do} {in_words([one.column.label for one in leaks])}." if leaks else ""


ANOTHER_LOGGER = (
    "The propensities are not those of this logger: compare them with the code that "
    "draws the actions."
)


def _other_rule(label):
    return (
        f"The logger looks at {label}, and the propensities come from another rule, or "
        "from other values of it (another unit or time zone): compare them with the "
        "code that draws the actions."
    )


def _written(label):
    return (
        f"{label} was written after the action was chosen, or holds the choice itself: "
        "take it out of the context, which is what was known before."
    )
