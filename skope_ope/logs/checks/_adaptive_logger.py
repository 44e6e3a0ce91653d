# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Whether the logger learned while it acted: its probabilities follow rewards.

The rounds of an action are taken in the order of time. Let :math:`c_j` be the mean of
the action's probability in its next m rounds less that in its last m rounds, in units
of its size nearby, and :math:`e_j` the reward of round j less the mean of the rewards
of its last m and its next m rounds. A logger that follows rewards raises the
probability of an action after a good reward, so that the sum of :math:`c_j e_j` is
positive. Without that the rewards do not know what the logger will do next:

- what the context does to both is the same before and after round j,
- trends and seasons of both cancel, for both differences are symmetric about j,
- a logger that changes by a schedule, or is replaced, changes without the rewards.

The spread of the sum is that of sums of consecutive rounds. Rounds in a row with the
same probability are one, for a logger that is updated now and then follows their sum;
but not where probabilities come back, which are those of contexts. Where the whole
logging distribution is known, :math:`c_j` is taken between the rounds of any action
before and after round j, too.
"""

import numpy as np
from scipy.special import stdtr

from skope_ope.exceptions import AdaptiveLoggerWarning
from skope_ope.logs._labels import factorise, order_of_codes
from skope_ope.logs.checks._context_columns import moderate
from skope_ope.logs.checks._finding import Finding

WINDOWS = 1, 4  # m
NEARBY = 16  # runs on both sides, whose changes give the unit
RECURRENT = 0.05  # of the runs have the probability of the last but one: contexts
RUNS_OF_DRAW = 16  # runs whose sum is one draw
FEWEST_BLOCKS = 12
WINDOW_CHANCE = 1e-6  # of one window
LEARNING_EFFECT = 0.03  # correlation
FEW_SEGMENTS = 100  # rounds per distinct context, on average
LEAST_SPREAD = 1e-12
NO_EVIDENCE = 1.0, 0.0
FIRST_ROUNDS = 5_000  # that every value looks at: loggers learn most at the start
AUDITED = 200_000  # likewise of an audit, in memory as of files


def adaptive_logger_findings(logs, random_state=None):
    """Return a finding where the propensities follow earlier rewards."""
    return {}, learning_findings(logs)


def learning_findings(logs, most=AUDITED):
    """Return the finding of the first rounds, of which at most so many are read."""
    if logs.propensity is None or logs.propensity_estimated or logs.n_actions == 1:
        return []
    rounds = slice(most)
    if not logs._in_order:
        rounds = logs._stored_order[rounds]
    logs = logs[rounds]
    p, reward = logs.propensity, moderate(logs.reward)
    sequences = Sequences(_compared_codes(logs), p, reward)
    evidence = [sequences.follow(m) for m in WINDOWS]
    if logs.logging_proba is not None and logs.loggers is None:
        known = logs.logging_proba, logs.action_index
        evidence.append(follow_at_once(*known, p, reward))
    chance, correlation = min(evidence)
    if not (chance < WINDOW_CHANCE and correlation > LEARNING_EFFECT):
        return []
    found = (
        "The propensities follow earlier rewards: after a reward above those "
        "around it the same action has a higher probability (correlation "
        f"{correlation:.2f}; chance does that in less than one of a million logs)."
    )
    advice = (
        "The logger learned while it acted: Student's and normal intervals "
        "are too narrow for actions that it gave up, and their mean rewards "
        "are too low. Use AdaptiveDR, for an action that it gave up with "
        "weighting='two_point' or 'stable_variance', and state reward_range.",
        "The context holds earlier rewards, as counts of clicks do, and the "
        "logger reads them: rounds depend on each other all the same.",
    )
    about = {"number": chance, "effect": correlation}
    about |= {"category": AdaptiveLoggerWarning}
    about |= {"spares": ("AdaptiveIPS", "AdaptiveDR", "mean reward")}
    return [Finding("adaptive_logger", "warning", found, advice, **about)]


def _compared_codes(logs):
    """Return codes of the rounds whose probabilities are compared."""
    # Those of the same action and logger; and, of contexts with few values, such as
    # segments of users, those of the same context.
    code = logs.action_index
    if logs.logger_index is not None:
        code = code + logs.n_actions * logs.logger_index
    context = logs.context
    if isinstance(context, np.ndarray) and context.dtype.kind in "biuf":
        values = segment_numbers(context)
        most = len(code) // FEW_SEGMENTS
        if len(np.unique(values[: 2 * most])) > most:  # the first rows tell
            return code
        labels, segment = factorise(values)
        if len(labels) <= most:
            code = code * len(labels) + segment
    return code


def segment_numbers(context):
    """Return a number for every row of an array, the same for the same numbers."""
    # Of one column it is that column: what was made of several stays what it is.
    if context.shape[1] == 1:
        values = context[:, 0].astype(float)
    else:
        rates = np.sqrt(np.arange(2.0, 2.0 + context.shape[1]))
        with np.errstate(all="ignore"):  # contexts may be huge, or missing
            values = context @ rates
    values[np.isnan(values)] = np.nan  # there are many
    return values


class Sequences:
    """The rounds of every action in the order of time, those alike in a row as one."""

    def __init__(self, code, p, reward, alike=True):
        self.order = order_of_codes(code, int(code.max(initial=0)) + 1)
        code, p, reward = code[self.order], p[self.order], reward[self.order]
        new = np.diff(code, prepend=-1) != 0
        first = np.flatnonzero(new | (np.diff(p, prepend=-1.0) != 0))
        values = p[first]
        back = np.count_nonzero(values[2:] == values[:-2])
        if not alike or back > RECURRENT * len(first):
            first = np.arange(len(p))
        self.code = code[first]
        self.reward = np.add.reduceat(reward, first)
        self.rewards, self.ps = _running_sums(self.reward), _running_sums(p[first])
        self.counts = np.append(first, len(p)).astype(float)

    def follow(self, m, rise=None):
        """Return (chance, correlation) with windows of m runs."""
        # codes rise: where those m runs before and after are one, all between are
        inside = self.code[2 * m :] == self.code[: -2 * m]
        if np.count_nonzero(inside) < FEWEST_BLOCKS * RUNS_OF_DRAW:
            return NO_EVIDENCE
        r_last, r_next = _sums_around(self.rewards, m)
        n_last, n_next = _sums_around(self.counts, m)
        usual = (r_last / n_last + r_next / n_next) / 2
        luck = self.reward[m:-m] - np.diff(self.counts)[m:-m] * usual
        luck = luck[inside]
        if rise is None:
            p_last, p_next = _sums_around(self.ps, m)
            rise = ((p_next - p_last) / m)[inside]
        else:
            rise = rise[m:-m][inside]
        unit = np.sqrt(_mean_nearby(rise * rise))
        rise = np.divide(rise, unit, out=np.zeros(len(rise)), where=unit > LEAST_SPREAD)
        product = rise * luck
        blocks = np.add.reduceat(product, np.arange(0, len(product), RUNS_OF_DRAW))
        spread = blocks.std(ddof=1) * np.sqrt(len(blocks))
        size = np.sqrt((rise @ rise) * (luck @ luck))
        if not (spread > LEAST_SPREAD * size and np.isfinite(size)):
            return NO_EVIDENCE
        total = float(product.sum())
        chance = float(stdtr(len(blocks) - 1, -total / spread))
        return chance, total / float(size)


def follow_at_once(proba, code, p, reward):
    """Return (chance, correlation) of the probabilities in the rounds around each."""
    inner, rise = np.arange(1, len(code) - 1), np.zeros(len(code))
    rise[1:-1] = proba[inner + 1, code[1:-1]] - proba[inner - 1, code[1:-1]]
    own = Sequences(code, p, reward, alike=False)
    return own.follow(WINDOWS[-1], rise[own.order])


def _running_sums(values):
    """Return the sum of the values before every place, the end included."""
    return np.concatenate([[0.0], np.cumsum(values)])


def _sums_around(sums, m):
    """Return the sums of the m values before and after each that has so many."""
    last = sums[m : -m - 1] - sums[: -2 * m - 1]
    return last, sums[2 * m + 1 :] - sums[m + 1 : -m]


def _mean_nearby(values):
    """Return the mean of every value and its neighbours on both sides."""
    sums = np.pad(_running_sums(values), NEARBY, mode="edge")
    one_side = np.minimum(np.arange(len(values)), NEARBY)
    total = sums[2 * NEARBY + 1 :] - sums[: len(values)]
    return np.maximum(total, 0.0) / (one_side + 1 + one_side[::-1])
