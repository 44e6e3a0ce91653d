# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What slate policies share: the base class, checks, tables of slots and items."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from skope_ope._progress import TellsOfFit
from skope_ope._sklearn import Estimator
from skope_ope._types import Array, ArrayLike, RandomSeed
from skope_ope.logs import SlateLogs
from skope_ope.logs._row_container import check_output_labels, own
from skope_ope.logs._validation import EMPTY, PROBA_TOLERANCE, as_numbers, check_y
from skope_ope.logs.lazy._lazy_logs import kind_of
from skope_ope.policies._base import FitFree

# -- tables of shape (n_rounds, n_slots, n_candidates) ---------------------------------


def entries(table, slates, empty=0.0):
    """Entries of (n_rounds, n_slots, n_candidates) that slates show."""
    # `empty`, a number or of shape (n_rounds, n_slots), is that of an empty slot.
    shown = np.take_along_axis(table, np.maximum(slates, 0)[:, :, None], axis=2)
    return np.where(slates == EMPTY, empty, shown[:, :, 0])


def offered_slots(logs, n_slots):
    """Where candidates may be shown: (n_rounds or 1, n_slots or 1, n_cand.)."""
    # One round stands for all, one slot for all, where they do not differ.
    offered = logs.offered
    if offered is None:
        return np.ones((1, 1, logs.max_candidates), dtype=bool)
    if offered.ndim == 2:
        return offered[:, None]
    if offered.shape[1] != n_slots:
        raise ValueError(
            f"logs.candidates has {offered.shape[1]} slots, but the policy fills "
            f"{n_slots}. Use a policy with the same number of slots."
        )
    return offered


# -- first and second moments of slates, by type of candidate --------------------------


class TypeMoments(NamedTuple):
    r"""Moments of slates by type of candidate."""

    # Probability that both slots show the one candidate of the type; on the diagonal,
    # that the slot shows it: the slot marginals
    same: np.ndarray
    # Probability that the slots show two given, different candidates of the types. Zero
    # where both slots are the same, or where a type of one candidate meets itself
    pairs: np.ndarray


def independent_moments(slot_proba):
    """Moments of slots that are filled independently of each other."""
    slots = np.arange(slot_proba.shape[1])
    pairs = slot_proba[:, :, None, :, None] * slot_proba[:, None, :, None, :]
    same = slot_proba[:, :, None] * slot_proba[:, None]
    same[:, slots, slots] = slot_proba
    pairs[:, slots, slots] = 0.0
    return TypeMoments(same, pairs)


def add_moments(same, pairs, slates, proba, types):
    """Add the moments of slates with probabilities to those by type."""
    n_slots = slates.shape[1]
    for one in range(n_slots):
        for two in range(n_slots):
            a, b = slates[:, one], slates[:, two]
            both = (a != EMPTY) & (b != EMPTY)
            twice = both & (a == b)
            np.add.at(same[one, two], types[a[twice]], proba[twice])
            if one != two:
                apart = both & (a != b)
                where = types[a[apart]], types[b[apart]]
                np.add.at(pairs[one, two], where, proba[apart])


def couples(sizes):
    """Numbers of ordered pairs of two different candidates, by type; at least one."""
    return np.maximum(sizes[:, None] * (sizes - np.eye(len(sizes))), 1)


# -- equal rows of a table -------------------------------------------------------------


def distinct_rows(table):
    """Distinct rows of a table, and which of them every row is."""
    if len(table) == 1 or not table.shape[1]:
        return np.zeros(min(len(table), 1), np.intp), np.zeros(len(table), np.intp)
    # numbers are much faster to sort than rows; that no two rows met in one number
    # is checked
    words = _words(table)
    _, first, index = np.unique(
        _codes_of_words(words), return_index=True, return_inverse=True
    )
    index = index.reshape(-1)
    if (words[first[index]] != words).any():
        rows = words.view(f"V{words.dtype.itemsize * words.shape[1]}")[:, 0]
        _, first, index = np.unique(rows, return_index=True, return_inverse=True)
    return first, index.reshape(-1)


def _words(table):
    """Bits of the entries as unsigned integers."""
    table = np.ascontiguousarray(table)
    return table.view(f"u{table.dtype.itemsize}").astype(np.uint64, copy=False)


def _codes_of_words(words):
    """Numbers that nearly always differ where rows of unsigned integers do."""
    factors = np.random.RandomState(0).randint(0, 2**62, words.shape[1], np.uint64)
    # round floats differ in their first bits only, which products would push out
    return (words ^ (words >> np.uint64(32))) @ (2 * factors + 1)


# -- checks of logs, of slates and of parameters that slate policies share -------------


def check_slate_logs(logs):
    """Raise a TypeError unless `logs` are SlateLogs."""
    if not isinstance(logs, SlateLogs):
        raise TypeError(
            f"slate policies act on SlateLogs, got {kind_of(logs)}. Build them "
            "with SlateLogs(context, slate, reward, n_candidates=...)."
        )


def check_slates(slates, logs, name="slates"):
    """Return slates of the logs' rounds as integers."""
    check_output_labels(name, slates, logs.context)
    slates = np.asarray(slates)
    if slates.dtype.kind not in "iu":
        raise TypeError(
            f"{name} must hold integers, the index of a candidate in every slot or "
            f"-1, got dtype {slates.dtype}."
        )
    if slates.ndim != 2 or len(slates) != len(logs):
        raise ValueError(
            f"{name} must have shape (n_rounds, n_slots) with {len(logs)} rounds, got "
            f"{slates.shape}."
        )
    wrong = (slates < EMPTY) | (slates >= logs.max_candidates)
    if wrong.any():
        row, slot = np.argwhere(wrong)[0]
        raise ValueError(
            f"{name} holds candidate {slates[row, slot]} at row {row}, slot {slot}: "
            f"candidates are 0 to {logs.max_candidates - 1}, -1 is an empty slot."
        )
    return slates.astype(np.intp, copy=False)


def check_n_slots(n_slots, logs):
    """Raise unless rankings of `n_slots` fit into the candidates."""
    if isinstance(n_slots, bool) or not isinstance(n_slots, (int, np.integer)):
        raise TypeError(f"n_slots must be an integer, got {n_slots!r}.")
    if n_slots < 1:
        raise ValueError(f"n_slots must be at least 1, got {n_slots}.")
    if n_slots > logs.max_candidates:
        raise ValueError(
            f"n_slots={n_slots} is more than the {logs.max_candidates} candidates of "
            "the logs: a slate without repetition cannot be longer than its "
            "candidates."
        )


def row_values(values, logs, name, instead=""):
    """Return a parameter that may be an array, a function of the logs or a column."""
    # `instead` is what else the message about a missing column advises.
    if isinstance(values, str):
        if values not in logs.columns:
            raise ValueError(
                f"{name} {values!r} is not a column of the logs (they have "
                f"{sorted(logs.columns)}). Add it with logs.with_columns{instead}."
            )
        return logs.columns[values]
    return values(own(logs, values)) if callable(values) else values


def slates_with_proba(slates, proba, name):
    """Return checked slates and probabilities."""
    try:
        array = np.asarray(slates)
    except ValueError as error:
        raise ValueError(f"{name} is no rectangular array: {error}") from error
    if array.ndim != 2 or not array.size:
        raise ValueError(
            f"{name} must have shape (n_slates, n_slots), got {array.shape}."
        )
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}.")
    if array.min() < EMPTY:
        raise ValueError(f"{name} holds {array.min()}: candidates count from 0.")
    array = array.astype(np.intp, copy=False)
    if proba is None:
        array = np.unique(array, axis=0)
        return array, np.full(len(array), 1 / len(array))
    proba = as_numbers("proba", proba)
    if len(proba) != len(array):
        raise ValueError(
            f"proba has {len(proba)} entries, {name} has {len(array)} slates."
        )
    if (proba < 0).any() or abs(proba.sum() - 1) > PROBA_TOLERANCE:
        raise ValueError(
            "proba must be non-negative and sum to 1, got "
            f"minimum {proba.min():.6g}, sum {proba.sum():.9g}."
        )
    return array, proba


# -- the distinct distributions by which a policy draws the slates of many rounds ------
# A distribution is a table of what the policy knows of every candidate (a weight, say),
# one row per candidate. Two rounds share a distribution where their tables are equal up
# to the order of the candidates. Candidates with equal rows are exchangeable: they are
# of one type, and the moments of a distribution are those of its types.

BATCH_BYTES = 2**24  # 16 MiB: what a batch of distributions may take


class DistributionBatch(NamedTuple):
    r"""Distributions whose types have the same sizes, and their moments."""

    # Candidates of one type are exchangeable, so that :math:`\Gamma` acts separately on
    # the means over types and, type by type, on what differs from these means. With
    # :math:`n_t` candidates of type t, its blocks are
    #
    # .. math::
    #
    #     M_{(j,t),(k,u)} = \sqrt{n_t n_u} P_{jktu} + [t = u] (S_{jkt} - P_{jktt}),
    #     \quad A^t_{jk} = S_{jkt} - P_{jktt}
    #
    # with `same` as S and `pairs` as P: one matrix of (n_slots n_types) squared on the
    # vectors :math:`\sum_{a \in t} v_{ja} / \sqrt{n_t}`, and one of n_slots squared for
    # every type of two candidates or more. Their pseudoinverses make that of
    # :math:`\Gamma`, however many candidates there are.

    numbers: np.ndarray  # which distributions these are
    sizes: np.ndarray  # number of candidates of every type
    types: np.ndarray  # type of every candidate, in the order of the distribution
    moments: TypeMoments

    def second_moments(self):
        r""":math:`\Gamma = E[1_s 1_s^T]` of every distribution."""
        same, pairs = self.moments
        gamma = pairs[..., self.types, :][..., self.types]
        each = np.arange(len(self.types))
        gamma[..., each, each] = same[..., self.types]
        return gamma.transpose(0, 1, 3, 2, 4)


class SlateDistributions:
    r"""Distinct distributions of a policy on logs, and which every round has."""

    # A distribution numbers the candidates in an order of its own, so that rounds which
    # only permute their candidates share it. `slates` and `marginals` translate. What
    # is held per round is the distribution's number and the order; logs of many rounds
    # and candidates are best taken in parts.

    def __init__(self, policy, items, n_rounds, n_slots):
        self.policy = policy
        self.n_slots = n_slots
        items = np.asarray(items) + 0.0  # -0 and 0 are the same weight
        if policy._sorted:
            # stable, the largest parameters first: what cannot be shown comes last
            self.order = np.lexsort(-items.transpose(2, 0, 1)[::-1], axis=-1)
            items = np.take_along_axis(items, self.order[:, :, None], axis=1)
        else:
            self.order = np.arange(items.shape[1])[None]
        self.place = np.argsort(self.order, axis=1, kind="stable")
        first, index = distinct_rows(items.reshape(len(items), -1))
        self.items = items[first]
        self.index = np.broadcast_to(index, n_rounds) if len(index) == 1 else index

    def __len__(self):
        return len(self.items)

    def batches(self, max_bytes=BATCH_BYTES):
        """Yield the distributions with their moments, some at a time."""
        for numbers, sizes, types, items in self._groups(max_bytes):
            moments = self.policy._moments(items, sizes)
            yield DistributionBatch(numbers, sizes, types, moments)

    def codes(self):
        """Numbers that tell the distributions of several `SlateDistributions` apart."""
        return _codes_of_words(_words(self.items.reshape(len(self), -1)))

    def slot_marginals(self):
        """Probability of every candidate in every slot, by distribution."""
        out = np.empty((len(self), self.n_slots, self.items.shape[1]))
        for numbers, sizes, types, items in self._groups(BATCH_BYTES):
            out[numbers] = self.policy._slot_marginals(items, sizes)[:, :, types]
        return out

    def slates(self, slates):
        """Slates of the rounds, with candidates as the distribution numbers them."""
        place = np.broadcast_to(self.place, (len(slates), self.place.shape[1]))
        numbers = np.take_along_axis(place, np.maximum(slates, 0), axis=1)
        return np.where(slates < 0, slates, numbers)

    def marginals(self, marginals):
        """Marginals of another policy, in the order of the distributions."""
        return np.take_along_axis(marginals, self.order[:, None], axis=2)

    def _groups(self, max_bytes):
        """Yield (numbers, sizes, types, items by type) of some with equal sizes."""
        starts = np.ones(self.items.shape[:2], dtype=bool)
        starts[:, 1:] = (self.items[:, 1:] != self.items[:, :-1]).any(axis=2)
        first, index = distinct_rows(starts)
        for group, where in enumerate(first):
            begins = np.flatnonzero(starts[where])
            numbers = np.flatnonzero(index == group)
            sizes = np.diff(begins, append=starts.shape[1])
            types = np.cumsum(starts[where]) - 1
            items = self.items[numbers][:, begins]
            needed = self.policy._bytes_per_distribution(items, sizes, self.n_slots)
            size = max(1, int(max_bytes // needed))
            for start in range(0, len(numbers), size):
                part = slice(start, start + size)
                yield numbers[part], sizes, types, items[part]


# --------------------------------------------------------------------------------------

ROW_BYTES = 2**26  # of row-wise temporaries


class BaseSlatePolicy(FitFree, TellsOfFit, Estimator):
    r"""Base class of policies that compose slates.

    A slate policy describes a round by a table with one row of parameters per
    candidate. Rounds with the same table (up to the order of the candidates) share one
    distribution, see `distributions`. A subclass implements

    - ``_items(logs)``: the tables, of shape (n_rounds, n_candidates, n_parameters),
      or (1, ...) where all rounds have the same one. Candidates that cannot be shown
      have zeros;
    - ``_moments(items, sizes)``: the `TypeMoments` of distributions, given as
      (n_distributions, n_types, n_parameters) with the number of candidates of every
      type, and ``_slot_marginals(items, sizes)``: (n_distributions, n_slots, n_types)
      of them;
    - ``_prefix_proba(items, slates)`` and ``_sample(items, n_rounds, rng)``, by round.

    A subclass without such tables overrides ``_round_marginals(logs)``,
    ``_round_slots(logs, slates)``, ``_round_prefixes(logs, slates)`` and
    ``_round_draws(logs, rng)`` instead. They return the results of the public methods.

    Attributes
    ----------
    exact : bool
        Whether moments and probabilities are exact, not means over draws.
    """

    exact = True
    _fills_slots = False  # whether a slot is empty only where no candidate is left
    _sorted = True  # whether candidates of a distribution may be put in another order

    def _slots_of(self, logs):
        """Return the number of slots that the policy fills in these logs."""
        return self.n_slots

    def _doubts(self, logs):
        """Return warnings where logs that it is said to have made speak against it."""
        return []

    def fit(self, X, y=None):
        """Check the parameters; there is nothing to learn.

        Parameters
        ----------
        X : SlateLogs or array-like
            Ignored.
        y : array-like of shape (n_rounds,), default=None
            Ignored.

        Returns
        -------
        self : object
        """
        if isinstance(X, SlateLogs):
            check_y(y, len(X), type(self).__name__)
        return self

    def distributions(self, logs: SlateLogs) -> SlateDistributions:
        """Return the distinct distributions of the slates of the logs.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.

        Returns
        -------
        distributions : SlateDistributions
            The distributions, the distribution of every round, and second moments.
        """
        self._check_logs(logs)
        policy = self._for(logs)
        items = policy._items(logs)
        return SlateDistributions(policy, items, len(logs), self._slots_of(logs))

    def slot_marginals(self, logs: SlateLogs) -> Array:
        """Probability of every candidate in every slot.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.

        Returns
        -------
        marginals : ndarray of shape (n_rounds, n_slots, n_candidates)
            A slot sums to one minus the probability that it stays empty.
        """
        self._check_logs(logs)
        return self._round_marginals(logs)

    def _round_marginals(self, logs):
        policy = self._for(logs)
        if policy is not self and isinstance(policy, BaseSlatePolicy):
            return policy.slot_marginals(logs)
        drawn = self.distributions(logs)
        table = drawn.slot_marginals()
        if len(drawn.place) == 1:
            return np.take(table[:, :, drawn.place[0]], drawn.index, axis=0)
        marginals = np.empty((len(logs), *table.shape[1:]))
        rounds = max(1, ROW_BYTES // table[0].nbytes)
        for start in range(0, len(logs), rounds):
            part = slice(start, start + rounds)
            marginals[part] = np.take_along_axis(
                table[drawn.index[part]], drawn.place[part, None], axis=2
            )
        return marginals

    def slate_proba(self, logs: SlateLogs, slates: ArrayLike | None = None) -> Array:
        """Probability of a slate in every round.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.
        slates : array-like of int of shape (n_rounds, n_slots), default=None
            Index of the candidate in every slot; -1: empty. `None`: the logged slates.

        Returns
        -------
        proba : ndarray of shape (n_rounds,)
        """
        return self.prefix_proba(logs, slates)[:, -1]

    def prefix_proba(self, logs: SlateLogs, slates: ArrayLike | None = None) -> Array:
        """Probability that the first slots are filled as in a slate.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.
        slates : array-like of int of shape (n_rounds, n_slots), default=None
            Index of the candidate in every slot; -1: empty. `None`: the logged slates.

        Returns
        -------
        proba : ndarray of shape (n_rounds, n_slots)
            Column j: the probability for slots 0 to j. The last one is `slate_proba`.
        """
        self._check_logs(logs)
        return self._round_prefixes(logs, self._check_slates(slates, logs))

    def _round_prefixes(self, logs, slates):
        proba = np.empty(slates.shape)
        policy = self._for(logs)
        for part in self._chunks(logs):
            items = policy._items(logs[part])
            proba[part] = policy._prefix_proba(items, slates[part])
        return proba

    def marginal_proba(self, logs: SlateLogs, slates: ArrayLike | None = None) -> Array:
        """Probability that each slot, taken alone, is filled as in a slate.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.
        slates : array-like of int of shape (n_rounds, n_slots), default=None
            Index of the candidate in every slot; -1: empty. `None`: the logged slates.

        Returns
        -------
        proba : ndarray of shape (n_rounds, n_slots)
            The slot marginals of the slate's candidates. For an empty slot, one minus
            the sum of the marginals of the slot.
        """
        self._check_logs(logs)
        return self._round_slots(logs, self._check_slates(slates, logs))

    def _round_slots(self, logs, slates):
        drawn = self.distributions(logs)
        table = drawn.slot_marginals()
        slots = np.arange(drawn.n_slots)
        index = drawn.index[:, None]
        proba = table[index, slots, drawn.slates(slates)]
        return np.where(slates == EMPTY, 1 - table.sum(axis=2)[index, slots], proba)

    def _check_slates(self, slates, logs):
        if slates is None or slates is logs.slate:  # which the logs have checked
            slates = logs.slate
        else:
            slates = check_slates(slates, logs)
        n_slots = self._slots_of(logs)
        if slates.shape[1] != n_slots:
            raise ValueError(
                f"the slates have {slates.shape[1]} slots, {type(self).__name__} "
                f"fills {n_slots}."
            )
        return slates

    def sample(self, logs: SlateLogs, random_state: RandomSeed = None) -> Array:
        """Draw a slate for every round.

        Parameters
        ----------
        logs : SlateLogs
            The rounds. The logged slates are ignored.
        random_state : int, RandomState instance or None, default=None
            Seed of the draws.

        Returns
        -------
        slates : ndarray of int of shape (n_rounds, n_slots)
            Index of the candidate in every slot; -1: empty.
        """
        self._check_logs(logs)
        return self._round_draws(logs, check_random_state(random_state))

    def _round_draws(self, logs, rng):
        slates = np.empty((len(logs), self._slots_of(logs)), dtype=np.intp)
        policy = self._for(logs)
        for part in self._chunks(logs):
            items = policy._items(logs[part])
            slates[part] = policy._sample(items, len(slates[part]), rng)
        return slates

    def deterministic_slates(self, logs: SlateLogs) -> Array | None:
        """Slates of a deterministic policy.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.

        Returns
        -------
        slates : ndarray of int of shape (n_rounds, n_slots), or None
            None if the policy draws its slates.
        """
        return None

    def closed_form(self, logs: SlateLogs) -> Literal["uniform", "product"] | None:
        """Return the form of the distribution, if its pseudoinverse is known.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.

        Returns
        -------
        form : {"uniform", "product"} or None
            "uniform": rankings without repetition in which every order of the offered
            candidates is equally likely. "product": slots filled independently.
        """
        return None

    def _for(self, logs):
        """Return the policy that acts on these logs: itself, or a plainer one."""
        return self

    def _chunks(self, logs):
        """Yield slices of rounds whose tables fit into memory."""
        row = 32 * logs.max_candidates * self._slots_of(logs)
        rounds = max(1, ROW_BYTES // row)
        for start in range(0, len(logs), rounds):
            yield slice(start, start + rounds)

    def _redrawn(self):
        """Return the policy with other draws, where moments are means over draws."""
        return self

    def _check_logs(self, logs):
        check_slate_logs(logs)

    def _bytes_per_distribution(self, items, sizes, n_slots):
        """Bytes that the second moments of one distribution take, one copy included."""
        return 16 * (n_slots * int(np.sum(sizes))) ** 2


class IndependentSlots(BaseSlatePolicy):
    """Base class of slates whose slots are filled independently of each other."""

    # The parameters of a candidate are its probabilities in the slots.

    def _round_prefixes(self, logs, slates):
        return np.cumprod(self._round_slots(logs, slates), axis=1)

    def _moments(self, items, sizes):
        return independent_moments(items.transpose(0, 2, 1))

    def _slot_marginals(self, items, sizes):
        return items.transpose(0, 2, 1)
