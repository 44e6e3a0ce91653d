# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Slate policies made of others, of their slots or of draws."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from skope_ope._types import ArrayLike, RandomSeed, SlatePolicyLike
from skope_ope.logs import SlateLogs
from skope_ope.logs._row_container import own
from skope_ope.logs._validation import EMPTY, PROBA_TOLERANCE, as_numbers
from skope_ope.policies._base import mixture_weights
from skope_ope.policies._mixture_policy import MixtureMembers
from skope_ope.policies.slate._slate_base import (
    BaseSlatePolicy,
    IndependentSlots,
    TypeMoments,
    add_moments,
    check_slates,
    couples,
    entries,
    offered_slots,
    row_values,
)


class MixtureSlatePolicy(MixtureMembers, BaseSlatePolicy):
    r"""Draw one of several slate policies in every round and act by it.

    .. math:: \pi(s|x) = \sum_k w_k \pi_k(s|x)

    With a :class:`UniformSlatePolicy` of weight :math:`\epsilon` among them, every
    slate has a positive probability. As a logger it then supports every policy, with a
    variance of order :math:`l m / \epsilon` [1]_.

    Parameters
    ----------
    policies : list of slate policies
        They fill the same number of slots.
    weights : array-like of shape (n_policies,)
        Probabilities of the policies; they sum to one.

    Attributes
    ----------
    policies_ : list of slate policies
        The fitted policies, after `fit`.

    References
    ----------
    .. [1] Swaminathan, A., et al. (2017). Off-policy evaluation for slate
       recommendation. NeurIPS 30. Corollary 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import PlackettLuceSlatePolicy
    >>> from skope_ope.policies import MixtureSlatePolicy
    >>> from skope_ope import SlateLogs, UniformSlatePolicy
    >>> logs = SlateLogs(np.zeros((1, 1)), [[2, 0]], [1.0])
    >>> steep = PlackettLuceSlatePolicy([1, 1, 2], n_slots=2)
    >>> MixtureSlatePolicy([steep, UniformSlatePolicy(2)], [0.9, 0.1]).slate_proba(logs)
    array([0.24166667])
    """

    def __init__(self, policies: Sequence[SlatePolicyLike], weights: ArrayLike) -> None:
        self.policies = policies
        self.weights = weights

    @property
    def _fills_slots(self):
        return all(getattr(one, "_fills_slots", False) for one in self._members)

    @property
    def exact(self) -> bool:
        """Whether moments and probabilities are exact, not means over draws."""
        return all(policy.exact for policy in self._members)

    def _check(self):
        if not isinstance(self.policies, (list, tuple)) or not len(self.policies):
            raise TypeError(
                f"policies must be a list of slate policies, got {self.policies!r}."
            )
        for policy in self.policies:
            if not isinstance(policy, BaseSlatePolicy):
                raise TypeError(
                    f"a mixture is made of slate policies, got {type(policy).__name__}."
                )
        return mixture_weights(self.weights, len(self.policies))

    def _check_logs(self, logs):
        self._check()
        for policy in self._members:
            policy._check_logs(logs)

    def _slots_of(self, logs):
        counts = {policy._slots_of(logs) for policy in self._members}
        if len(counts) > 1:
            raise ValueError(
                "the policies of a mixture must fill the same number of slots, got "
                f"{sorted(counts)}."
            )
        return counts.pop()

    def _for(self, logs):
        return _Mixed([policy._for(logs) for policy in self._members], self._check())

    def _redrawn(self):
        other = copy(self)
        other.policies_ = [policy._redrawn() for policy in self._members]
        return other

    def _round_marginals(self, logs):
        return self._mean("slot_marginals", logs)

    def _round_slots(self, logs, slates):
        return self._mean("marginal_proba", logs, slates)

    def _round_prefixes(self, logs, slates):
        return self._mean("prefix_proba", logs, slates)

    def _round_draws(self, logs, rng):
        member = rng.choice(len(self._members), len(logs), p=self._check())
        slates = np.empty((len(logs), self._slots_of(logs)), dtype=np.intp)
        for number, policy in enumerate(self._members):
            rows = np.flatnonzero(member == number)
            if rows.size:
                slates[rows] = policy.sample(own(logs[rows], policy), rng)
        return slates


class _Mixed:
    """A mixture on given logs: the parameters of its members stand side by side."""

    def __init__(self, members, weights):
        self.members, self.weights = members, weights
        self._sorted = all(member._sorted for member in members)

    def _items(self, logs):
        tables = [member._items(logs) for member in self.members]
        n_rounds = max(len(table) for table in tables)
        tables = [np.broadcast_to(t, (n_rounds, *t.shape[1:])) for t in tables]
        self.ends = np.cumsum([table.shape[2] for table in tables])[:-1]
        return np.concatenate(tables, axis=2)

    def _parts(self, items):
        return zip(
            self.members, np.split(items, self.ends, axis=2), self.weights, strict=True
        )

    def _bytes_per_distribution(self, items, sizes, n_slots):
        return sum(
            member._bytes_per_distribution(part, sizes, n_slots)
            for member, part, _ in self._parts(items)
        )

    def _moments(self, items, sizes):
        same = pairs = 0.0
        for member, part, weight in self._parts(items):
            moments = member._moments(part, sizes)
            same, pairs = same + weight * moments.same, pairs + weight * moments.pairs
        return TypeMoments(same, pairs)

    def _slot_marginals(self, items, sizes):
        return sum(
            weight * member._slot_marginals(part, sizes)
            for member, part, weight in self._parts(items)
        )

    def _sample(self, items, n_rounds, rng):
        member = rng.choice(len(self.members), n_rounds, p=self.weights)
        draws = [
            policy._sample(part, n_rounds, rng)
            for policy, part, _ in self._parts(items)
        ]
        return np.stack(draws)[member, np.arange(n_rounds)]


# -- slates whose slots are filled independently of each other -------------------------


class ProductSlatePolicy(IndependentSlots):
    r"""Fill every slot independently; a candidate may be shown twice.

    .. math:: \pi(s|x) = \prod_j \pi_j(s_j|x)

    Parameters
    ----------
    slot_proba : array-like of shape (n_slots, n_candidates), callable or str
        Probability of every candidate in every slot. An array is used in every round.
        It can also be a function of the logs, or the name of a column. The last two
        have the shape (n_slots, n_candidates) or (n_rounds, n_slots, n_candidates).
        Every slot sums to one. A slot that a round does not have holds zeros.

        For a logging policy, a column may also have the shape (n_rounds, n_slots): the
        probabilities of the logged candidates only. They are enough for product-form
        weights, but for nothing else.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import SlateLogs
    >>> from skope_ope.policies import ProductSlatePolicy
    >>> logs = SlateLogs(np.zeros((1, 1)), [[1, 1]], [1.0])
    >>> ProductSlatePolicy([[0.2, 0.8], [0.5, 0.5]]).slate_proba(logs)
    array([0.4])
    """

    def __init__(self, slot_proba: ArrayLike | Callable[..., Any] | str) -> None:
        self.slot_proba = slot_proba

    def _slots_of(self, logs):
        if isinstance(self.slot_proba, str):
            return logs.n_slots
        return np.shape(row_values(self.slot_proba, logs, "slot_proba"))[-2]

    def _table(self, logs):
        """Return the probabilities as a checked (n_rounds or 1, slots, candidates)."""
        given = row_values(self.slot_proba, logs, "slot_proba")
        table = as_numbers("slot_proba", given, 3 if np.ndim(given) == 3 else 2)
        if table.ndim == 2 and isinstance(self.slot_proba, str):
            raise ValueError(
                f"slot_proba {self.slot_proba!r} holds the probabilities of the logged "
                "candidates only. This needs those of all candidates: a column of "
                "shape (n_rounds, n_slots, n_candidates)."
            )
        table = table if table.ndim == 3 else table[None]
        if len(table) not in (1, len(logs)) or table.shape[2] != logs.max_candidates:
            raise ValueError(
                "slot_proba must have shape (n_slots, n_candidates) or (n_rounds, "
                f"n_slots, n_candidates) with {len(logs)} rounds and "
                f"{logs.max_candidates} candidates, got {np.shape(given)}."
            )
        _check_slot_proba(table, offered_slots(logs, table.shape[1]))
        return table

    def _items(self, logs):
        return self._table(logs).transpose(0, 2, 1)

    def _logged_only(self, logs):
        """Return the column with the probabilities of the logged candidates, if any."""
        if not isinstance(self.slot_proba, str):
            return None
        column = row_values(self.slot_proba, logs, "slot_proba")
        if column.ndim != 2:
            return None
        column = as_numbers("slot_proba", column, 2)
        if column.shape != logs.slate.shape:
            raise ValueError(
                f"slot_proba {self.slot_proba!r} must have shape {logs.slate.shape} "
                "(n_rounds, n_slots) or (n_rounds, n_slots, n_candidates), got "
                f"{column.shape}."
            )
        wrong = (logs.slate != EMPTY) & ~((column > 0) & (column <= 1 + 1e-9))
        if wrong.any():
            row, slot = np.argwhere(wrong)[0]
            raise ValueError(
                "slot_proba of a logged candidate must lie in (0, 1], got "
                f"{column[row, slot]:.6g} at row {row}, slot {slot}."
            )
        return np.where(logs.slate == EMPTY, 1.0, column)

    def _round_slots(self, logs, slates):
        known = self._logged_only(logs)
        if known is not None and np.array_equal(slates, logs.slate):
            return known
        table = self._table(logs)
        table = np.broadcast_to(table, (len(slates), *table.shape[1:]))
        return entries(table, slates, 1.0 - table.any(axis=2))

    def _round_marginals(self, logs):
        table = self._table(logs)
        return np.array(np.broadcast_to(table, (len(logs), *table.shape[1:])))

    def closed_form(self, logs: SlateLogs) -> Literal["product"]:
        """Return the form of the distribution, if its pseudoinverse is known.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.

        Returns
        -------
        form : {"product"}
        """
        return "product"

    def _sample(self, items, n_rounds, rng):
        sums = np.cumsum(items, axis=1)
        uniform = rng.random_sample((n_rounds, items.shape[2]))
        below = sums <= (uniform * sums[:, -1])[:, None]
        # rounding may leave the last sum, which is the total, not above the draw
        slates = np.minimum(below.sum(axis=1), items.shape[1] - 1)
        return np.where(sums[:, -1] > 0, slates, EMPTY)


def _check_slot_proba(table, offered):
    outside = (table < 0) | ((table > 0) & ~offered)
    if outside.any():
        row, slot, candidate = np.argwhere(outside)[0]
        raise ValueError(
            "slot_proba must be non-negative, and zero where a candidate is not "
            f"offered, got {table[tuple(np.argwhere(outside)[0] % table.shape)]:.6g} "
            f"for candidate {candidate} at row {row}, slot {slot}."
        )
    sums = table.sum(axis=2)
    wrong = (np.abs(sums - 1) > PROBA_TOLERANCE) & (sums != 0)
    if wrong.any():
        row, slot = np.argwhere(wrong)[0]
        raise ValueError(
            "slot_proba must sum to 1 over the candidates (0 in a slot that the round "
            f"does not have), got {sums[row, slot]:.9g} at row {row}, slot {slot}."
        )


# -- slate policies whose moments are means over draws ---------------------------------


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
