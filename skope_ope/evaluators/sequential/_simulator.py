# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One ordered pass over the rounds, which simulates the history of a policy.

An acceptance rule says which rounds enter the simulated history; the target policy
learns from these and from no others. Adaptive policies are asked for blocks of coming
rounds; what an update makes stale is refreshed or asked for anew, so that results do
not depend on the size of the blocks. The rounds come part by part, and a pass carries
on what it knows: a log in memory is one part.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from skope_ope.evaluators.core._blocks import (
    CHUNK_ENTRIES,
    Chunks,
    check_answer,
    check_block,
    check_chances,
    checked_row,
    checked_rows,
)
from skope_ope.evaluators.sequential._acceptance import in_force
from skope_ope.logs._row_container import own, take_rows
from skope_ope.policies._adaptive import (
    contexts_of,
    fresh_copy,
    given_seeds,
    learn,
    restart,
    seeds_of_restart,
)

FIRST_ROWS_ASKED, MOST_ROWS_ASKED = 64, 8192
NUMBERS = 1 << 16  # rows turned into Python numbers at once
UPDATES_PER_BLOCK = 1.5
REFRESHES_PER_BLOCK = 8  # each costs in proportion to the rest of the block


@dataclass
class Trace:
    """What happened to the rounds of a part."""

    # Rows of the part that entered the simulated history, in order
    accepted: np.ndarray
    c: np.ndarray  # acceptance ratio in use at every row
    # Target's probability of the logged action, given the history so far
    pi: np.ndarray
    # Model values of the target, given the history so far, and of the logged action;
    # None where there is no model
    v: np.ndarray
    q: np.ndarray
    policy: object = None  # the target after its last update, where it learns


def takes_weight(policy):
    """Whether a policy learns how often an accepted round counts."""
    return getattr(policy, "takes_weight", False)


class StationarySimulator:
    """Accept rounds for a policy that does not learn: nothing is called per row."""

    restarts = None

    def __init__(self, rule):
        self.rule = rule

    def take(self, logs, u, known):
        """Take the next rounds, and return the `Trace` of them."""
        self.rule.begin(logs, u)
        pi, v, q = (*known, None, None)[:3]
        accepted, c = self.rule.known(pi)
        return Trace(accepted, c, pi, v, q)


class AdaptiveSimulator:
    """Accept rounds for a policy that learns from those accepted."""

    def __init__(self, policy, logs, rule, horizon=None, part=0, weighs=False):
        self.restarts, self.rule = Restarts(policy, logs, part), rule
        self.horizon, self.weighs, self.n_accepted = horizon, weighs, 0
        self._size, self._since = (
            FIRST_ROWS_ASKED,
            0,
        )  # of the next block; rows since stale

    @property
    def policy(self):
        """The policy in its present history."""
        return self.restarts.policy

    def take(self, logs, u, predict=None):
        """Take the next rounds, and return the `Trace` of them."""
        self.rule.begin(logs, u)
        context_free = self.policy.context_free and logs.available is None
        simulate = self._by_row if context_free else self._by_block
        accepted, c_values, pi, model = simulate(logs, predict)
        accepted = np.array(accepted, dtype=np.intp)
        c = in_force(c_values, accepted, len(pi))
        return Trace(accepted, c, pi, model.v, model.q, self.policy)

    def _accept(self, X, code, reward, chance, row):
        """Learn from a round; tell if the policy changed, and if it starts anew."""
        rule, policy = self.rule, self.policy
        weight = rule.weight(chance, row) if self.weighs else 1.0
        changed = learn(policy, X, code, reward, chance, weight)
        if changed is None:
            check_answer(changed, policy)  # raises
        if rule.observes:
            rule.renew()
        if self.horizon is None:
            return changed, False
        self.n_accepted += 1
        if self.n_accepted % self.horizon:
            return changed, False
        self.restarts.next()  # it was the last of a history
        return True, True

    def _by_block(self, logs, predict):
        rule, policy = self.rule, self.policy
        n_rounds, n_actions = len(logs), logs.n_actions
        contexts, pi = contexts_of(policy, logs), np.empty(n_rounds)
        model = _ModelValues(predict, logs)
        accepted, c_values = [], [rule.c]
        size, start, renewed = self._size, 0, -self._since
        while start < n_rounds:
            stop = min(start + size, n_rounds)
            X = take_rows(contexts, slice(start, stop))
            offered = None if logs.available is None else logs.available[start:stop]
            codes, pi_block = logs.action_index[start:stop], pi[start:stop]
            tables = predict is not None  # else nothing but the logged actions counts
            block, largest = _asked(policy, X, codes, offered, n_actions, start, tables)
            pi_block[:] = block.proba
            at, valued, n_refreshes, stale = 0, 0, 0, False
            while at < stop - start and not stale:
                hits = rule.accepts(pi_block[at:], slice(start + at, stop))
                hit = int(hits.argmax())
                found = bool(hits[hit])
                end = at + hit + 1 if found else stop - start
                here = slice(start + at, start + end)
                if rule.observes:
                    rule.observe(pi[here], here)
                at = end
                if not found:
                    break
                row = start + end - 1
                accepted.append(row)
                code, reward = codes.item(end - 1), logs.reward.item(row)
                own_row = take_rows(X, slice(end - 1, end))
                about = own_row, code, reward, pi_block.item(end - 1), row
                changed, stale = self._accept(*about)
                c_values.append(rule.c)
                if changed and not stale:
                    n_refreshes += 1
                    if tables:  # they are about to change
                        model.add(start + valued, block.table[valued:end])
                        valued = end
                    stale = not block.refresh(end, code)
                    if not stale:
                        pi_block[end:] = block.proba[end:]
            if tables:
                model.add(start + valued, block.table[valued:at])
            start += at
            # The rest of a stale block was asked for in vain: ask for a few more rows
            # than there were between two such updates. Results do not depend on it.
            if stale:
                size, renewed = int((start - renewed) * UPDATES_PER_BLOCK), start
            else:
                size = int(size * min(2, REFRESHES_PER_BLOCK / max(n_refreshes, 1)))
            size = min(max(size, 8), largest)
        self._size, self._since = size, start - renewed
        return accepted, c_values, pi, model

    def _by_row(self, logs, predict):
        """Take rounds without contexts: probabilities hold from update to update."""
        rule, policy = self.rule, self.policy
        n_rounds, n_actions = len(logs), logs.n_actions
        proba = checked_row(policy.action_row(), n_actions)
        accepted, c_values, tables, table_of = [], [rule.c], [proba], [0]
        accepts, reward, seen = rule.accepts_one, logs.reward.item, 0
        for start in range(0, n_rounds, NUMBERS):
            part = slice(start, min(start + NUMBERS, n_rounds))
            codes = logs.action_index[part].tolist()
            least = rule.least_proba(part).tolist()
            at = _next_likely(proba, codes, least, 0)
            while at is not None:
                row, code = start + at, codes[at]
                pi_row = proba[code]
                if accepts(pi_row, row):
                    if rule.observes:
                        since = slice(seen, row + 1)
                        rule.observe(np.asarray(proba)[logs.action_index[since]], since)
                        seen = row + 1
                    accepted.append(row)
                    changed, _ = self._accept(None, code, reward(row), pi_row, row)
                    c_values.append(rule.c)
                    if changed:
                        proba = checked_row(policy.action_row(), n_actions)
                        tables.append(proba)
                    table_of.append(len(tables) - 1)
                at = _next_likely(proba, codes, least, at + 1)
        rows = np.array(accepted, dtype=np.intp)
        which = in_force(table_of, rows, n_rounds).astype(np.intp)
        tables = checked_rows(tables, which)
        pi = tables[which, logs.action_index]
        if rule.observes:
            rule.observe_later(pi[seen:], slice(seen, n_rounds))
        model = _ModelValues(predict, logs)
        for start in range(0, n_rounds, MOST_ROWS_ASKED):
            some = slice(start, min(start + MOST_ROWS_ASKED, n_rounds))
            model.add(start, tables[which[some]])
        return accepted, c_values, pi, model


class Restarts:
    """A policy that learns, and starts anew after every trajectory."""

    def __init__(self, policy, logs, part):
        # no slice of the logs, which would keep a part of files alive
        self.given, self.empty = clone(policy), logs[np.arange(0)]
        self._seeds = given_seeds(policy)
        self.part, self.number = part, 0
        self.policy = self.at(0)

    def at(self, number):
        """Return a policy at its start of some number, with an empty history."""
        return fresh_copy(self.given, self.empty, self._seeds_of(number))

    def next(self):
        """Start anew."""
        self.number += 1
        restart(self.policy, self.empty, self._seeds_of(self.number))

    def _seeds_of(self, number):
        return seeds_of_restart(self._seeds, self.part, number)


def _asked(policy, X, codes, offered, n_actions, start, tables):
    """Get what a policy says of a block of rounds, and the most that one may have."""
    # `tables`: the probabilities of all actions are wanted, not of the logged ones
    # alone.
    given = own(codes, policy), own(offered, policy)
    block = None if tables else policy.look_ahead_at(own(X, policy), *given)
    if block is not None:
        check_chances(block.proba, len(codes), start)
        return block, MOST_ROWS_ASKED
    block = _Table(policy.look_ahead(own(X, policy), own(offered, policy)), codes)
    check_block(block.table, len(codes), n_actions, offered, start)
    return block, min(MOST_ROWS_ASKED, max(CHUNK_ENTRIES // n_actions, 8))


def _next_likely(proba, codes, least, start):
    """Return the next row that may be accepted, at a row of probabilities, or None."""
    if 1.0 in proba:  # the search for one number needs no line of Python per row
        try:
            return codes.index(proba.index(1.0), start)
        except ValueError:
            return None
    for row in range(start, len(codes)):
        if proba[codes[row]] >= least[row]:
            return row
    return None


class _Table:
    """A block with the probabilities of all actions, and of the logged ones."""

    def __init__(self, block, codes):
        self._block, self._codes = block, codes
        self._rows = np.arange(len(codes))

    @property
    def table(self):
        return self._block.proba

    @property
    def proba(self):
        return self.table[self._rows, self._codes]

    def refresh(self, start, action):
        return self._block.refresh(start, action)


class _ModelValues:
    """Model values of the policy and of the logged actions, rows in order."""

    def __init__(self, predict, logs):
        self.logs = logs
        self.v = self.q = self.chunks = None
        if predict is not None:
            self.v, self.q = np.empty(len(logs)), np.empty(len(logs))
            self.chunks = Chunks(predict, logs)

    def add(self, start, proba):
        """Take the probabilities of the rows from `start` on."""
        if self.chunks is None or not len(proba):
            return
        rows = slice(start, start + len(proba))
        values = self.chunks.rows(rows.start, rows.stop)
        self.v[rows] = np.einsum("ij,ij->i", proba, values)
        codes = self.logs.action_index[rows]
        self.q[rows] = values[np.arange(len(codes)), codes]
