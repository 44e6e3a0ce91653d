# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The contract of policies that learn, as a check that every one of them passes."""

from __future__ import annotations

import re
from inspect import signature
from numbers import Integral

import numpy as np

from skope_ope.logs import BanditLogs
from skope_ope.logs._row_container import take_rows
from skope_ope.logs._validation import check_distributions
from skope_ope.policies._adaptive import (
    AdaptivePolicy,
    fresh_copy,
    generator_states,
    repeated_draws,
    seeds_of_start,
)

SAME_SUM = 1e-9  # rounding in another order of summation
_SEEDING = re.compile(r"(^|_)(seed|rng)(_|$)")  # names of parameters
_SEEDED = (
    "evaluators change only random_state between trajectories, so all trajectories "
    "would use the same random numbers, and the standard error would leave out "
    "their variance. In reset, seed random numbers from a parameter random_state "
    "that is an int."
)
AHEAD = 32
N_PROBED = 16


def check_adaptive_policy(
    policy: AdaptivePolicy, logs: BanditLogs | None = None
) -> None:
    """Check that a policy that learns keeps the contract of evaluators.

    The policy goes through the logs several times: row by row, with accepted rounds
    only, and by blocks. All passes must give the same probabilities. This shows several
    things. The policy changes only inside `update` and says so. Rejected rounds do not
    change it. It starts anew at `reset` and in a clone. It keeps its actions, and gives
    distributions over the offered actions. `look_ahead`, `refresh` and `action_row`
    agree with `predict_proba`. A policy with `takes_weight` gets weights, and a weight
    of 1 changes nothing. A random policy must draw other numbers if its `random_state`
    is another one, because evaluators seed it for every trajectory. The check finds
    random generators among the attributes, and changes the parameters that seed them,
    by name.

    Parameters
    ----------
    policy : AdaptivePolicy
        An instance; it is cloned.
    logs : BanditLogs, default=None
        The rounds of the passes. About 200 are enough. `None`: 160 rounds with three
        actions, three features and 0/1 rewards, once with all actions offered and once
        with offers that vary.

    Raises
    ------
    AssertionError
        If the policy breaks the contract. The message says where, and how to correct
        it.
    TypeError
        If it is not an `AdaptivePolicy`.

    See Also
    --------
    check_evaluator : The same for evaluators.

    Examples
    --------
    >>> from skope_ope import EpsilonGreedy
    >>> from skope_ope.utils.estimator_checks import check_adaptive_policy
    >>> check_adaptive_policy(EpsilonGreedy(epsilon=0.2))
    """
    if isinstance(policy, type) or not isinstance(policy, AdaptivePolicy):
        name = getattr(policy, "__name__", type(policy).__name__)
        raise TypeError(
            f"an instance of a subclass of AdaptivePolicy is expected, got {name}."
        )
    for world in _practice_logs() if logs is None else [logs]:

        def life(weight=None, world=world):
            return _Life(fresh_copy(policy, world), world, weight)

        first = fresh_copy(policy, world)
        told = _Life(first, world).by_row()
        life().watched(told)
        _Life(first, world).says_the_same(told, again="after reset")
        life().says_the_same(told, again="in a clone")
        life().without_rejected_rounds(told)
        for given in (False, True):
            life().by_block(told, given)
        _check_own_draws(policy, world, told)
        if first.takes_weight:
            assert "weight" in signature(first.update).parameters, (
                f"{type(first).__name__} says takes_weight, but its update takes no "
                "weight. Add a keyword weight=1.0, or set takes_weight = False."
            )
            life(weight=1.0).says_the_same(told, again="with weight=1")
            life(weight=2.5).by_row()


def _check_own_draws(policy, world, told):
    """Look for draws that every trajectory repeats."""
    name, one = type(policy).__name__, fresh_copy(policy, world)
    at_start = generator_states(one)
    _Life(one, world).without_rejected_rounds(told)
    at_end = generator_states(one)
    other = generator_states(fresh_copy(policy, world, seeds_of_start(policy, 1)))
    same = [
        place
        for place in repeated_draws(at_start, other)
        if at_end.get(place) != at_start[place]
    ]
    assert not same, (
        f"{name} draws the same numbers in every trajectory, from {same[0]!r}: "
        f"{_SEEDED}"
    )
    for parameter, value in policy.get_params(deep=True).items():
        own = parameter.split("__")[-1]
        is_int = isinstance(value, Integral) and not isinstance(value, bool)
        if not (_SEEDING.search(own) and is_int and own != "random_state"):
            continue
        life = _Life(fresh_copy(policy, world, {parameter: value + 1}), world)
        assert life.differs_nowhere(told), (
            f"{name} draws random numbers from its parameter {parameter!r}: {_SEEDED}"
        )


def _practice_logs():
    rng = np.random.RandomState(0)
    n_rounds, n_actions = 160, 3
    X = rng.standard_normal((n_rounds, 3))
    everything = np.ones((n_rounds, n_actions), dtype=bool)
    some = rng.random_sample((n_rounds, n_actions)) < 0.7
    some[np.arange(n_rounds), rng.randint(n_actions, size=n_rounds)] = True
    for available in (everything, some):
        share = available / available.sum(axis=1, keepdims=True)
        draw = rng.random_sample(n_rounds)[:, None]
        codes = np.argmax(draw < share.cumsum(axis=1), axis=1)
        score = X[:, 0] * (codes - 1) + 0.5 * codes - 0.5
        yield BanditLogs(
            X,
            np.array(["a", "b", "c"])[codes],
            (rng.random_sample(n_rounds) < 1 / (1 + np.exp(-2 * score))).astype(float),
            share[np.arange(n_rounds), codes],
            available=None if available is everything else available,
            timestamp=np.arange(n_rounds),
        )


class _Life:
    """One walk of a policy through the logs; every method is another way to walk."""

    def __init__(self, policy, logs, weight=None):
        policy.reset(logs[:0])
        self.policy, self.logs = policy, logs
        self.told = {} if weight is None else {"weight": weight}
        self.name = type(policy).__name__
        self.X = policy.context_of(logs)
        self.codes = logs.action_index
        self.draws = np.random.RandomState(1).random_sample(len(logs))
        step = max(len(logs) // N_PROBED, 1)
        self.probes = np.arange(0, len(logs), step)

    def by_row(self):
        """Ask for every row. Return what all other ways must say."""
        self._same_actions(-1)
        rows, proba = [], np.empty((len(self.logs), self.logs.n_actions))
        for row in range(len(self.logs)):
            proba[row] = self._proba(np.array([row]))[0]
            if self.draws[row] < proba[row, self.codes[row]]:
                rows.append(row)
                self._update(row, proba[row, self.codes[row]])
                self._same_actions(row)
        assert rows, (
            f"no round of the logs was accepted for {self.name}: its actions were "
            "never logged where it would take them. Pass other logs."
        )
        return rows, proba

    def watched(self, told):
        """Compare what the policy does on some rounds before and after updates."""
        rows, proba = told
        for row in rows:
            before = self._proba(self.probes).copy()
            self._compare(
                self._proba(self.probes),
                before,
                f"{self.name} gives different probabilities when asked twice "
                f"before the update with row {row}. predict_proba must not change "
                "the policy or draw random numbers",
            )
            kept = self.policy.action_row() if self.policy.context_free else []
            copied = list(kept)
            changed = self._update(row, proba[row, self.codes[row]])
            assert kept == copied, (
                f"{self.name}.action_row returned a list that update wrote to, at row "
                f"{row}. Return a new list."
            )
            if not changed:
                self._compare(
                    self._proba(self.probes),
                    before,
                    f"{self.name}.update returned False with row {row}, but "
                    "probabilities have changed. Return True where they may have",
                )

    def says_the_same(self, told, again):
        """Learn from the same history again."""
        for row, found, expected in self._retold(told, range(len(self.logs))):
            self._compare(
                found,
                expected,
                f"{self.name} gives other probabilities {again}, at row {row}. "
                "reset must forget everything and seed all random numbers from "
                "random_state, an int that evaluators change between histories",
            )

    def differs_nowhere(self, told):
        """Whether the same history gives the same probabilities."""
        return all(
            np.abs(found - expected).max() <= SAME_SUM
            for _, found, expected in self._retold(told, told[0])
        )

    def without_rejected_rounds(self, told):
        """Never ask for a round that will be rejected."""
        for row, found, expected in self._retold(told, told[0]):
            self._compare(
                found,
                expected,
                f"{self.name} changes with rejected rounds, at row {row}. It must "
                "change in update only",
            )

    def _retold(self, told, asked):
        """Learn from the same history again; yield what is said of rows, and was."""
        rows, proba = told
        for row in asked:
            yield row, self._proba(np.array([row])), proba[row]
            if row in rows:
                self._update(row, proba[row, self.codes[row]])

    def by_block(self, told, given):
        """Ask for blocks, of all actions or of given ones, and refresh them."""
        rows, proba = told
        expected = proba[np.arange(len(proba)), self.codes] if given else proba
        name = f"{self.name}.look_ahead{'_at' if given else ''}"
        start = 0
        while start < len(self.logs):
            stop = min(start + AHEAD, len(self.logs))
            block = self._look_ahead(start, stop, name, given)
            if block is None:  # it does not offer any
                return
            at = start
            for row in [row for row in rows if start <= row < stop]:
                self._block_is(block, name, expected, start, at, row + 1)
                at = row + 1
                action = self.codes.item(row)
                if not self._update(row, proba[row, action]):
                    continue
                if not self._truth("refresh", block.refresh(at - start, action)):
                    stop = at
                    break
            self._block_is(block, name, expected, start, at, stop)
            start = stop

    def _block_is(self, block, name, expected, start, at, stop):
        self._compare(
            block.proba[at - start : stop - start],
            expected[at:stop],
            f"{name} or refresh disagrees with predict_proba, in the "
            f"rows {at} to {stop - 1} of a block from row {start} on: refresh must "
            "bring all later rows up to date, or return False",
        )

    def _look_ahead(self, start, stop, name, given):
        rows = slice(start, stop)
        X, offered = take_rows(self.X, rows), self._offered(rows)
        if given:
            block = self.policy.look_ahead_at(X, self.codes[rows], offered)
            if block is None:
                return None
        else:
            block = self.policy.look_ahead(X, offered)
        assert hasattr(block, "proba") and hasattr(block, "refresh"), (
            f"{name} must return an object with proba and refresh, got "
            f"{type(block).__name__}."
        )
        if given:
            assert np.shape(block.proba) == (stop - start,), (
                f"{name} must give one probability per row, of the given action; got "
                f"the shape {np.shape(block.proba)} for {stop - start} rows."
            )
        else:
            self._is_distribution(block.proba, np.arange(start, stop), "look_ahead")
        return block

    def _offered(self, rows):
        return None if self.logs.available is None else self.logs.available[rows]

    def _proba(self, rows):
        X, offered = take_rows(self.X, rows), self._offered(rows)
        proba = self.policy.predict_proba(X, offered)
        self._is_distribution(proba, rows, "predict_proba")
        if self.policy.context_free and offered is None:
            row = self.policy.action_row()
            assert isinstance(row, list), (
                f"{self.name}.action_row must return a list, got {type(row).__name__}."
            )
            self._compare(
                proba,
                np.array(row),
                f"{self.name}.action_row disagrees with predict_proba, at row "
                f"{rows[0]}",
            )
        return proba

    def _is_distribution(self, proba, rows, method):
        shape = (len(rows), self.logs.n_actions)
        assert getattr(proba, "shape", None) == shape, (
            f"{self.name}.{method} must return an array of shape {shape}, one column "
            f"per action, got {getattr(proba, 'shape', type(proba).__name__)}."
        )
        try:
            check_distributions(method, proba, self._offered(rows), int(rows[0]))
        except ValueError as error:
            raise AssertionError(f"{self.name}: {error}") from error

    def _same_actions(self, row):
        classes = getattr(self.policy, "classes_", None)
        assert np.asarray(classes).tolist() == self.logs.actions.tolist(), (
            f"{self.name}.classes_ must be the actions of the logs, "
            f"{self.logs.actions.tolist()}, from reset on; got {classes!r} "
            + ("after reset." if row < 0 else f"after the update with row {row}.")
        )

    def _update(self, row, chance):
        X = None
        if not self.policy.context_free:
            X = take_rows(self.X, slice(row, row + 1))
        lesson = X, self.codes.item(row), self.logs.reward.item(row), float(chance)
        return self._truth("update", self.policy.update(*lesson, **self.told))

    def _truth(self, method, answer):
        assert isinstance(answer, (bool, np.bool_)), (
            f"{self.name}: {method} must return True or False, got {answer!r}."
        )
        return answer

    def _compare(self, found, expected, text):
        off = np.abs(found - expected)
        worst = float(off.max()) if off.size else 0.0
        assert worst <= SAME_SUM, f"{text} (they differ by up to {worst:.3g})."
