# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Slate policies whose moments are means over draws."""

from __future__ import annotations

import zlib
from copy import copy, deepcopy
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.logs._row_container import own
from skope_ope.logs._slate_fields import EMPTY
from skope_ope.policies.slate._slate_base import BaseSlatePolicy
from skope_ope.policies.slate._slate_tables import (
    TypeMoments,
    add_moments,
    check_slates,
    couples,
    entries,
)

if TYPE_CHECKING:
    from typing import Any

    from skope_ope._types import RandomSeed


class SampledSlatePolicy(BaseSlatePolicy):
    r"""A policy whose slot marginals are means over draws.

    Use it for a target policy that you can only sample. The pseudoinverse needs only
    the slot marginals of a target, and means over draws keep it unbiased [1]_. The
    probability of a slate is that of the policy itself; a policy that you can only
    sample has none. Use it for a logging policy only if nothing else is possible: its
    estimated second moments are inverted, which biases the weights. Even 100,000 draws
    may be too few.

    Parameters
    ----------
    policy : slate policy, object with `sample`, or callable
        `policy.sample(logs, random_state)` or `policy(logs, rng)` draws a slate for
        every round, integers of shape (n_rounds, n_slots). Only slate policies of
        this package can be logging policies.
    n_samples : int, default=1000
        Draws per round, or per distinct distribution of a slate policy.
    random_state : int or RandomState instance, default=0
        Seed of the draws. The same number gives the same marginals again. The moments
        of a logging policy do not advance an instance: they always use the same draws.

    References
    ----------
    .. [1] Swaminathan, A., et al. (2017). Off-policy evaluation for slate
       recommendation. NeurIPS 30. Equation 6.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import SlateLogs
    >>> from skope_ope.policies import SampledSlatePolicy
    >>> logs = SlateLogs(np.zeros((2, 1)), [[2, 0], [1, 2]], [1.0, 0.0])
    >>> def shuffle(logs, rng):
    ...     return np.stack([rng.permutation(3)[:2] for _ in range(len(logs))])
    >>> SampledSlatePolicy(shuffle, n_samples=400).slot_marginals(logs).shape
    (2, 2, 3)
    """

    exact = False
    _draws_again = ()  # what tells other draws from the first ones

    def __init__(
        self, policy: Any, *, n_samples: int = 1000, random_state: RandomSeed = 0
    ) -> None:
        self.policy = policy
        self.n_samples = n_samples
        self.random_state = random_state

    def _check(self):
        if not (isinstance(self.n_samples, (int, np.integer)) and self.n_samples > 0):
            raise ValueError(
                f"n_samples must be a positive integer, got {self.n_samples!r}."
            )
        if not (hasattr(self.policy, "sample") or callable(self.policy)):
            raise TypeError(
                "policy must have sample(logs, random_state), or be a function of "
                f"(logs, rng) that draws slates; got {type(self.policy).__name__}."
            )

    def _check_logs(self, logs):
        super()._check_logs(logs)
        self._check()

    @property
    def _is_known(self):
        return isinstance(self.policy, BaseSlatePolicy)

    def _slots_of(self, logs):
        return self.policy._slots_of(logs) if self._is_known else logs.n_slots

    def _draw(self, logs, rng):
        draw = getattr(self.policy, "sample", self.policy)
        drawn = draw(own(logs, self.policy), rng)
        slates = check_slates(drawn, logs, "the output of sample")
        if slates.shape[1] != logs.n_slots and not self._is_known:
            raise ValueError(
                f"the output of sample has {slates.shape[1]} slots, the logs have "
                f"{logs.n_slots}."
            )
        return slates

    def _known(self, what):
        if not self._is_known:
            raise TypeError(
                f"{what} cannot be computed from draws of a "
                f"{type(self.policy).__name__}. Do not use it as a logger. "
                "Evaluators that need only slot marginals can evaluate it."
            )
        return self.policy

    def _for(self, logs):
        policy = self._known("the distribution of a logger")
        n_slots = policy._slots_of(logs)
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(deepcopy(seed)).randint(2**31)
        seeds = [seed, *self._draws_again]
        return _Drawn(policy._for(logs), self.n_samples, seeds, n_slots)

    def _redrawn(self):
        other = copy(self)  # not a clone, which would forget what was learned
        other._draws_again = (*self._draws_again, 1)
        return other

    def _round_marginals(self, logs):
        if self._is_known:
            return super()._round_marginals(logs)
        rng = check_random_state(self.random_state)
        marginals = np.zeros((len(logs), logs.n_slots, logs.max_candidates))
        for _ in range(self.n_samples):
            slates = self._draw(logs, rng)
            rows, slots = np.nonzero(slates != EMPTY)
            marginals[rows, slots, slates[rows, slots]] += 1.0
        return marginals / self.n_samples

    def _round_slots(self, logs, slates):
        if self._is_known:
            return super()._round_slots(logs, slates)
        table = self._round_marginals(logs)
        return entries(table, slates, 1 - table.sum(axis=2))

    def _round_prefixes(self, logs, slates):
        return self._known("the probability of a slate").prefix_proba(logs, slates)

    def _round_draws(self, logs, rng):
        return self._draw(logs, rng)


class _Drawn:
    """Moments of the distributions of a policy as means over draws."""

    def __init__(self, policy, n_samples, seeds, n_slots):
        self.policy, self.n_samples, self.seeds = policy, n_samples, seeds
        self.n_slots = n_slots
        self._sorted = policy._sorted

    def _items(self, logs):
        return self.policy._items(logs)

    def _bytes_per_distribution(self, items, sizes, n_slots):
        moments = 16 * (n_slots * int(np.sum(sizes))) ** 2
        return moments + 32 * self.n_samples * int(np.sum(sizes))

    def _draws(self, items, sizes):
        """Yield slates of every distribution; its content seeds them, not its place."""
        items = np.repeat(items, sizes, axis=1)
        for table in items:
            rng = np.random.RandomState([*self.seeds, zlib.crc32(table.tobytes())])
            yield self.policy._sample(table[None], self.n_samples, rng)

    def _moments(self, items, sizes):
        n_types = len(sizes)
        same = np.zeros((len(items), self.n_slots, self.n_slots, n_types))
        pairs = np.zeros((*same.shape, n_types))
        types = np.repeat(np.arange(n_types), sizes)
        proba = np.full(self.n_samples, 1 / self.n_samples)
        for row, slates in enumerate(self._draws(items, sizes)):
            add_moments(same[row], pairs[row], slates, proba, types)
        return TypeMoments(same / sizes, pairs / couples(sizes))

    def _slot_marginals(self, items, sizes):
        moments = self._moments(items, sizes)
        slots = np.arange(self.n_slots)
        return moments.same[:, slots, slots]
