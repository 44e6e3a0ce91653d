# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Several slate policies, one of which is drawn in every round."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from skope_ope.logs._row_container import own
from skope_ope.policies._base import mixture_weights
from skope_ope.policies._mixture_policy import MixtureMembers
from skope_ope.policies.slate._slate_base import BaseSlatePolicy
from skope_ope.policies.slate._slate_tables import TypeMoments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skope_ope._types import ArrayLike, SlatePolicyLike


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
