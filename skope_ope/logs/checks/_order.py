# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the order of the rounds tells: rewards that end early, drift, sorted rounds."""

from itertools import pairwise
from math import exp, sqrt

import numpy as np
from scipy.special import gammaln

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._labels import first_of_codes
from skope_ope.logs._row_container import in_stored_order
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._finding import Finding
from skope_ope.logs.sums._group_sums import EVERY_GROUP, GroupSums, WordsOfGroups

TRAILING_CHANCE = 3e-4  # of so many zeros at the end; about 8.1 rewards are missing
TRAILING_SHARE = 0.005  # of the rounds
SORTED = "sorted_rounds"
DRIFT_CHANCE = 1e-4
DRIFT_EFFECT = 0.2  # change of the mean reward, in mean absolute rewards
FEWEST_IN_ORDER = 50  # rounds or groups: Kolmogorov's law is one of many
REWARD_ROUNDING = 1e-13  # of the largest reward: rounding
OTHER_ROUNDS = 5  # rounds besides those of the most frequent value
FEW_CHOICES = 20  # of an action: its mean would follow its rewards


def order_findings(log, rows=None, random_state=None):
    """Return what the order tells of logs, or of sums beside some rounds in order."""
    if rows is None or rows is log:
        log = rows = in_stored_order(log)
    found = _time_disorder(log) + _sorted_rounds(rows)
    if any(one.name == SORTED for one in found):  # the end and trends say nothing then
        return {}, found
    late = trailing_zero_findings(log)
    if late:  # what is missing is no drift
        first = late[0].rows[0]
        rows = rows[:first] if rows is log else rows[rows.row_id.position < first]
    return {}, found + late + (_reward_drift(rows) if len(rows) else [])


def trailing_zero_findings(logs, chance_below=TRAILING_CHANCE):
    """Return a finding where the rewards of the last rounds seem to be missing."""
    n_orders, found = logs._trailing_zeros
    return [one for one in found if one.number < chance_below / n_orders][:1]


def trailing_zeros(logs):
    """Return how many origins there are, and findings of last rounds without reward."""
    # Of :math:`n` rounds in random order of which :math:`k` are rewarded, the last
    # :math:`L` are all without reward with probability :math:`\binom{n - L}{k} /
    # \binom{n}{k}`, about :math:`(1 - k/n)^L`. Where the gaps between rewards have a
    # heavier tail than independent rounds give them (sessions), the chance is that of a
    # gap from this tail. Where rounds have groups, each group counts with its last
    # round.
    reward = logs.reward
    if not logs._in_order:
        reward = reward[logs._stored_order]
    # most logs have a reward near their end: nothing more is summed of these
    length = len(reward) - 1 - _last_rewarded(reward)
    if length == len(reward) or length <= TRAILING_SHARE * len(reward):
        return 1, []
    known = len(reward), np.count_nonzero(reward), length
    if logs.group is None and _chance_of_end(*known) >= TRAILING_CHANCE:
        return 1, []
    return 1, _trailing_zeros(OrderSums.of(logs), TRAILING_CHANCE, range(len(logs)))


def trailing_zeros_of_parts(orders):
    """Return the same of the `OrderSums` of every origin."""
    n_orders = max(len(orders), 1)
    each = TRAILING_CHANCE / n_orders
    return n_orders, [one for order in orders for one in _trailing_zeros(order, each)]


def _chance_of_end(n, n_rewarded, n_last):
    """Return the chance that the last of some rounds in random order have none."""
    chance = _log_binomial(n - n_last, n_rewarded)
    return exp(chance - _log_binomial(n, n_rewarded))


def _trailing_zeros(order, chance_below, names=None):
    """Return the finding from what is known of the order of the rounds."""
    n_rounds, length = order.n, order.n_trailing
    is_short = length <= TRAILING_SHARE * n_rounds
    if is_short or not order.is_known or not order.n_rewarded:
        return []
    n_units, n_rewarded, n_last, gaps = order.units()
    if n_rewarded > n_units - n_last or not n_rewarded:
        return []
    chance = _chance_of_end(n_units, n_rewarded, n_last)
    if chance < chance_below:
        chance = max(chance, chance_of_gap(*gaps, n_last))
    if chance >= chance_below:
        return []
    rate = order.n_rewarded / (n_rounds - length)
    if names is None:
        first = order.last_rewarded + 1
        rows = range(first, min(first + 10, order.stop))
    else:
        rows = names[n_rounds - length :][:10]
    found = (
        f"The last {length:,} of {n_rounds:,} rounds have no reward, where "
        f"{figure(rate * length, 3)} were to be expected by the rate before them; "
        f"chance does this in {_rarely(chance)}."
    )
    advice = (
        "The rewards of the last rounds have not arrived yet: drop these "
        "rounds, and all that are younger than the longest delay of a reward.",
        "A join has lost them: compare the number of rewards with their source.",
        "The rounds are not in the order of time but sorted by their rewards: "
        "sort them by time.",
    )
    about = {"number": chance, "effect": length / n_rounds, "rows": rows}
    about |= {"category": LogsWarning}
    return [Finding("trailing_zeros", "warning", found, advice, **about)]


def _rarely(chance):
    if chance < 1e-9:
        return "less than one of a billion logs"
    return f"one of {float(f'{1 / chance:.2g}'):,.0f} logs"


def _last_rewarded(reward, block=4096):
    """Return the last row with a reward that is not zero, or -1."""
    for end in range(len(reward), 0, -block):
        start = max(end - block, 0)
        [rows] = reward[start:end].nonzero()
        if len(rows):
            return start + int(rows[-1])
    return -1


def _log_binomial(n, k):
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def _reward_drift(logs):
    """Return a finding where the mean reward changes along the log."""
    # The statistic is the largest partial sum of the centred rewards; in random order
    # it follows Kolmogorov's law, in units of a spread that allows for rounds that are
    # like those before them. Sums of groups stand in the order in which the groups
    # appear, so rows that are sorted by user are no trend.
    reward = logs.reward
    scale = float(np.abs(reward).max())
    if not scale:
        return []
    deviation = reward / scale
    deviation -= deviation.mean()
    path, at = _largest_partial_sum(deviation, logs)
    chance = _kolmogorov(path)
    if not chance < DRIFT_CHANCE:
        return []
    before, after = reward[: at + 1].mean(), reward[at + 1 :].mean()
    effect = float(abs(after - before) / np.abs(reward).mean())
    row = int(logs._called(np.array([at]))[0])
    p_value = "p < 1e-9" if chance < 1e-9 else f"p = {figure(chance, 1)}"
    found = (
        f"The mean reward changes along the log: {figure(before)} up to row {row:,}, "
        f"{figure(after)} after row {row:,} ({p_value})."
    )
    about = {"number": path, "effect": effect, "category": LogsWarning}
    still = _kolmogorov(_largest_partial_sum(_within_choices(logs, deviation), logs)[0])
    if effect < DRIFT_EFFECT or still > 1e-3:
        reason = "The change is small."
        if effect >= DRIFT_EFFECT:
            reason = (
                "Rounds of the same action and logger show none: the choices changed, "
                "as those of a logger that learns do."
            )
        advice = f"{reason} A value is that of the average over the log's time."
        return [Finding("reward_drift", "note", found, advice, **about)]
    advice = (
        "The world or the definition of the reward has changed: a value from this log "
        "is that of the average over its time, not of today; use the rounds of the "
        "time that you ask about.",
        "The logger has learned, or the users have changed: then this is no fault, and "
        "a value holds for the average over the log's time.",
        "Rounds that follow each other are alike (sessions, users): pass group=...",
        "The rounds are not in the order of time: sort them by time.",
    )
    return [Finding("reward_drift", "warning", found, advice, **about)]


def _largest_partial_sum(deviation, logs):
    """Return the largest partial sum in units of the sum's spread, and its row."""
    steps, first = deviation, None
    if logs.group is not None:
        first = np.sort(first_of_codes(logs.group_index, logs.n_groups))
        totals = np.bincount(logs.group_index, deviation)
        steps = totals[logs.group_index[first]]
    sums = np.abs(np.cumsum(steps))
    spread = long_run_spread(steps)
    if len(steps) < FEWEST_IN_ORDER or spread <= REWARD_ROUNDING * len(steps):
        return 0.0, 0
    at = int(sums[:-1].argmax())
    return float(sums[at]) / spread, at if first is None else int(first[at + 1]) - 1


def _kolmogorov(path):
    """Return the chance of a larger partial sum, by the law's first term."""
    return min(1.0, 2 * exp(-2 * path * path))


def _within_choices(logs, deviation):
    """Return deviations from the mean of logger and action; slates have neither."""
    code = getattr(logs, "action_index", None)
    if code is None:
        return deviation
    if logs.logger_index is not None:
        code = code * len(logs.loggers) + logs.logger_index
        code = np.unique(code, return_inverse=True)[1].ravel()
    rare = np.bincount(code) < FEW_CHOICES
    code = np.where(rare[code], len(rare), code)  # these count as one
    counts = np.maximum(np.bincount(code), 1)
    return deviation - (np.bincount(code, deviation) / counts)[code]


def _time_disorder(logs):
    """Return a note where time decreases in logs, or in sums of their parts."""
    if hasattr(logs, "orders"):
        rows, n_rounds = (), logs.n_logged
        n_back = sum(one.n_backwards for one in logs.orders.values())
        where = f"at {n_back:,} rows"
    else:
        time, n_rounds = logs.timestamp, len(logs)
        back = [] if time is None else np.flatnonzero(time[1:] < time[:-1]) + 1
        rows, n_back = list(map(int, back[:10])), len(back)
        where = f"at row {rows[0]:,} and {n_back - 1:,} more rows" if n_back else ""
    if not n_back:
        return []
    found = Finding(
        "time_disorder",
        "note",
        f"The timestamp decreases {where}.",
        "Replay, RejectionSampling, DRns and checks of the order take rounds as they "
        "are stored: sort the logs by time before you use these. Values of other "
        "evaluators do not depend on the order.",
        float(n_back),
        n_back / n_rounds,
        rows,
        category=LogsWarning,
    )
    return [found]


def _sorted_rounds(logs):
    """Return a finding where rounds are sorted by their rewards or their actions."""
    action = getattr(logs, "action_index", None)
    by = None
    if _is_sorted(logs.reward):
        by = "reward"
    elif action is not None and logs.group is None and _in_runs(action):
        by = "action"
    if by is None or _in_time(logs.timestamp):
        return []
    found = f"The rounds are sorted by {by}, not by time."
    advice = (
        "Sort them by time, or shuffle them where it is not known: folds of "
        "consecutive rounds now hold rounds of one kind, and Replay, "
        "RejectionSampling and DRns see a history that never was. Drift and rewards "
        "that are missing at the end cannot be seen in this order."
    )
    return [Finding(SORTED, "warning", found, advice, category=LogsWarning)]


def _is_sorted(values):
    """Whether values never rise or never fall, and chance would not do that."""
    if len(values) < FEWEST_IN_ORDER or not (
        _monotone(values[:1000]) and _monotone(values)
    ):
        return False
    _, counts = np.unique(values, return_counts=True)
    return len(values) - counts.max() >= OTHER_ROUNDS


def _monotone(values):
    return bool((values[1:] >= values[:-1]).all() or (values[1:] <= values[:-1]).all())


def _in_runs(code):
    """Whether the rounds of each action are consecutive, and chance would not do it."""
    counts = np.bincount(code)
    if len(code) < FEWEST_IN_ORDER or len(code) - counts.max() < OTHER_ROUNDS:
        return False
    changes = np.count_nonzero(code[1:] != code[:-1])
    usual = len(code) - counts @ counts / len(code)  # in random order, about
    return bool(changes == np.count_nonzero(counts) - 1 and changes < usual / 2)


def _in_time(time):
    """Whether timestamps that differ say that the order is that of time."""
    return time is not None and time[0] != time[-1] and (time[1:] >= time[:-1]).all()


# -- what chance does where rounds that follow each other are alike --------------------

N_BLOCKS = 40, 20
FEWEST_IN_BLOCK = 5
TAIL = 0.1  # of the gaps between rewards
FEWEST_IN_TAIL = 10
CLEARLY = 3.0  # standard errors by which a tail is heavier than chance makes it
BY_CHANCE = 2.0  # standard errors that blocks of independent rounds often reach


def long_run_spread(steps):
    r"""Return the standard deviation of the sum of steps that may resemble the next."""
    # For centred steps u and their sums B over m = 40, then 20 blocks of consecutive
    # ones it is the root of the largest of :math:`\sum_i u_i^2` and those
    #
    # .. math:: V_m = \frac{m}{2 (m - 1)} \sum_{j=2}^{m} (B_j - B_{j-1})^2
    #
    # that exceed it by two standard errors, :math:`2 \sqrt{3 / m}` of it. Where the
    # steps of a block are alike its sum varies more; a slow drift, which changes the
    # variance of the sums, hardly changes their differences (von Neumann, 1941).
    plain = spread = float(np.linalg.norm(steps))
    for n_blocks in N_BLOCKS:
        if len(steps) < FEWEST_IN_BLOCK * n_blocks:
            continue
        starts = np.arange(n_blocks) * len(steps) // n_blocks
        change = np.diff(np.add.reduceat(steps, starts))
        alike = float(np.linalg.norm(change)) * sqrt(n_blocks / (2 * (n_blocks - 1)))
        if alike > plain * sqrt(1 + BY_CHANCE * sqrt(3 / n_blocks)):
            spread = max(spread, alike)
    return spread


def chance_of_gap(gaps, counts, length):
    r"""Return the chance that the last rounds are without reward, by the gaps' tail."""
    # Between rewards of independent rounds the gaps above any u exceed it by the mean
    # gap on average. Where rewards come in bursts, the largest tenth of them exceeds
    # its threshold by more: by :math:`e` in place of the mean gap :math:`d`. A log that
    # ends anywhere then has no reward for more than L rounds with probability
    #
    # .. math:: \frac{m}{N} \, \frac{e}{d} \, \exp\Bigl(-\frac{L - u}{e}\Bigr)
    #
    # for m of N gaps above u: the share of the time that lies in long gaps.
    n_gaps = int(counts.sum())
    if n_gaps < FEWEST_IN_TAIL / TAIL:
        return 0.0
    place = int((1 - TAIL) * (n_gaps - 1))  # of the lower quantile
    threshold = int(gaps[np.searchsorted(np.cumsum(counts), place, side="right")])
    above = gaps > threshold
    n_tail = int(counts[above].sum())
    if n_tail < FEWEST_IN_TAIL:
        return 0.0
    usual = float(gaps @ counts) / n_gaps
    excess = float((gaps[above] - threshold) @ counts[above]) / n_tail
    if excess / usual - 1 <= CLEARLY / sqrt(n_tail):
        return 0.0
    share = n_tail / n_gaps
    return min(1.0, share * excess / usual * exp(-(length - threshold) / excess))


# -- the order of rounds as sums of parts that are given in any order ------------------

OF_STRETCH = ("start", "stop", "n", "rewarded", "lead", "trail", "last", "backwards")
MANY_GAPS = 1 << 16  # of gaps, above which they are sorted
ROWS_AT_ONCE = 1 << 16  # rows
ENDS = 2_000  # groups of every origin whose last rounds are kept, where it is several


class OrderSums:
    """Stretches of the rounds of one origin, and the gaps between their rewards."""

    # A part of a log is one stretch: the rows between its first and its last one are
    # its own. Where those of several parts overlap nothing is known of the order.

    def __init__(self, stretches, times, gaps, ends):
        self.stretches, self.times = stretches, times
        self.gaps, self.ends = gaps, ends

    @classmethod
    def of(cls, logs, words=None):
        """Return the order of the rounds of a part of a log, at least one."""
        logs = in_stored_order(logs)
        reward, time = logs.reward, logs.timestamp
        rewarded = np.flatnonzero(reward != 0)  # faster than of the numbers
        n, k = len(reward), len(rewarded)
        last = int(rewarded[-1]) if k else -1
        ends = logs._positions_at(np.array([0, n - 1, last])).tolist()
        back = 0 if time is None else int(np.count_nonzero(time[1:] < time[:-1]))
        stretch = {
            "start": ends[0],
            "stop": ends[1] + 1,
            "n": n,
            "rewarded": k,
            "lead": int(rewarded[0]) if k else n,
            "trail": n - 1 - last,
            "last": ends[2] if k else -1,
            "backwards": back,
        }
        times = None if time is None else np.array([[time[0], time[-1]]])
        by_group = None
        if logs.group is not None:
            at = np.zeros(logs.n_groups, dtype=np.intp)
            for low in range(0, n, ROWS_AT_ONCE):  # the last one of a group stays
                codes = logs.group_index[low : low + ROWS_AT_ONCE]
                at[codes] = np.arange(low, low + len(codes))
            words = WordsOfGroups(logs, EVERY_GROUP) if words is None else words
            at = at[words.order]
            told = 2 * logs._positions_at(at) + (reward[at] != 0)
            by_group = GroupSums.of(words, {"last": told})
        stretches = np.array([[stretch[name] for name in OF_STRETCH]])
        return cls(stretches, times, _gap_counts(np.diff(rewarded), n), by_group)

    def __add__(self, other):
        """Return the order of both parts."""
        stretches = np.concatenate([self.stretches, other.stretches])
        order = np.lexsort((stretches[:, 1], stretches[:, 0]))
        times = None
        if self.times is not None:
            times = np.concatenate([self.times, other.times])[order]
        gaps = dict(self.gaps)
        for length, count in other.gaps.items():
            gaps[length] = gaps.get(length, 0) + count
        ends = None if self.ends is None else self.ends + other.ends
        return OrderSums(stretches[order], times, gaps, ends)

    def with_fewer_ends(self, most=ENDS):
        """Return the same with the last rounds of fewer groups."""
        if self.ends is None:
            return self
        ends = self.ends.reduced((most, most))
        return OrderSums(self.stretches, self.times, self.gaps, ends)

    def joined(self):
        """Return the same with stretches that touch as one: few of many parts."""
        touch = self._of("start")[1:] == self._of("stop")[:-1]
        if not (self.is_known and touch.any()):
            return self
        first = np.flatnonzero(np.append(True, ~touch))
        rows = [
            OrderSums(
                self.stretches[a:b],
                None if self.times is None else self.times[a:b],
                {},
                None,
            )
            for a, b in pairwise([*first, len(self.stretches)])
        ]
        gaps = dict(self.gaps)
        for length in (gap for one in rows for gap in one._gaps_between()):
            gaps[length] = gaps.get(length, 0) + 1
        stretches = np.array([one._as_one() for one in rows])
        times = None
        if self.times is not None:
            times = np.array([[one.times[0, 0], one.times[-1, 1]] for one in rows])
        return OrderSums(stretches, times, gaps, self.ends)

    def _as_one(self):
        """Return the numbers of stretches that follow each other as those of one."""
        backward = type(self)(self.stretches[::-1], None, {}, None)
        one = {
            "start": self._of("start")[0],
            "stop": self._of("stop")[-1],
            "n": self.n,
            "rewarded": self.n_rewarded,
            "lead": backward._n_without("lead"),
            "trail": self.n_trailing,
            "last": self.last_rewarded,
            "backwards": self.n_backwards,
        }
        return [one[name] for name in OF_STRETCH]

    def _n_without(self, name):
        """Return how many rounds at the end have no reward, by "trail"."""
        total = 0
        rewarded = self._of("rewarded")[::-1].tolist()
        for n, some in zip(self._of(name)[::-1].tolist(), rewarded, strict=True):
            total += n
            if some:
                break
        return total

    def _of(self, name):
        return self.stretches[:, OF_STRETCH.index(name)]

    @property
    def is_known(self):
        """Whether the stretches follow each other."""
        return bool((self._of("start")[1:] >= self._of("stop")[:-1]).all())

    @property
    def stop(self):
        """One past the last position."""
        return int(self._of("stop").max())

    @property
    def n(self):
        """Number of rounds."""
        return int(self._of("n").sum())

    @property
    def n_rewarded(self):
        """Number of rounds whose reward is not zero."""
        return int(self._of("rewarded").sum())

    @property
    def last_rewarded(self):
        """Position of the last of them, -1 where there is none."""
        return int(self._of("last").max())

    @property
    def n_trailing(self):
        """Number of rounds after the last rewarded one."""
        return self._n_without("trail")

    @property
    def n_backwards(self):
        """How often the timestamp decreases."""
        inside = int(self._of("backwards").sum())
        if self.times is None:
            return 0
        return inside + int(np.count_nonzero(self.times[1:, 0] < self.times[:-1, 1]))

    def units(self):
        """Return what stands for independent rounds at the end of the log."""
        if self.ends is None:
            gaps = dict(self.gaps)
            for length in self._gaps_between():
                gaps[length] = gaps.get(length, 0) + 1
            lengths = np.array(sorted(gaps), dtype=np.intp)
            counts = np.array([gaps[length] for length in lengths.tolist()], np.intp)
            return self.n, self.n_rewarded, self.n_trailing, (lengths, counts)
        told = np.sort(self.ends["last"])
        rewarded = np.flatnonzero(told % 2)
        n_last = int(np.count_nonzero(told // 2 > self.last_rewarded))
        gaps = np.unique(np.diff(rewarded), return_counts=True)
        return len(told), len(rewarded), n_last, gaps

    def _gaps_between(self):
        """Yield the gaps from the last reward of a stretch to the next one's first."""
        passed = None  # rounds since the last rewarded one
        numbers = (
            self._of(name).tolist() for name in ("n", "rewarded", "lead", "trail")
        )
        for n, rewarded, lead, trail in zip(*numbers, strict=True):
            if not rewarded:
                passed = None if passed is None else passed + n
                continue
            if passed is not None:
                yield passed + lead + 1
            passed = trail


def _gap_counts(gaps, n_rounds):
    """Return how many gaps have each length, as a dict."""
    if not len(gaps):
        return {}
    if len(gaps) == n_rounds - 1:  # all rounds are rewarded
        return {1: len(gaps)}
    if gaps.max() < MANY_GAPS:
        counts = np.bincount(gaps)
        lengths = np.flatnonzero(counts)
        counts = counts[lengths]
    else:
        lengths, counts = np.unique(gaps, return_counts=True)
    return dict(zip(lengths.tolist(), counts.tolist(), strict=True))
