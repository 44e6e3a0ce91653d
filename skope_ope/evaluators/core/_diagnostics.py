# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Diagnostics of an estimate: numbers by name, computed when they are read."""

from collections.abc import Mapping
from functools import cached_property
from numbers import Real

import numpy as np

from skope_ope._harmless import harmless
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.logs._html import card, pairs
from skope_ope.logs._shown_numbers import figure, share

SHOWN = 4  # entries of an array


class Diagnostics(Mapping):
    """Diagnostics of an estimate, by name."""

    # Printing shows the names and the numbers; a pickle holds all of them.

    def __init__(self, entries=()):
        self._given = entries

    @cached_property
    def _entries(self):
        return dict(self._given() if callable(self._given) else self._given)

    def with_entries(self, entries):
        """Return these and more diagnostics."""
        return Diagnostics(lambda: self._entries | entries)

    def __iter__(self):
        return iter(self._entries)

    def __len__(self):
        return len(self._entries)

    def __getitem__(self, name):
        value = self._entries[name]
        if callable(value):
            with beyond_floats():
                value = self._entries[name] = value()
        return value

    def __eq__(self, other):
        if not isinstance(other, Mapping):
            return NotImplemented
        return _equal(self, other)

    __hash__ = None

    def __getstate__(self):
        return {"_entries": dict(self)}  # functions hold the logs: call them now

    def _texts(self):
        return [(name, named_text(name, value)) for name, value in self.items()]

    def __repr__(self):
        if not self:
            return "no diagnostics"
        width = max(map(len, self))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self._texts())

    def _repr_html_(self):
        return card("Diagnostics", self._table())

    def _table(self):
        return pairs(dict(self._texts())) if self else ""


def group_entries(estimate):
    """Return what is known of the groups, by name."""
    buckets = estimate.frame.n_buckets is not None  # which stand for the groups
    return {
        "n_buckets" if buckets else "n_groups": len(estimate.frame.cluster_sizes),
        "effective_groups": estimate.frame.effective_clusters,
        "design_effect": estimate.design_effect,
    }


def named_text(name, value):
    """Return a number as `number_text` does; a share, by its name, in percent."""
    return share(value) if is_share(name) and is_number(value) else number_text(value)


def is_share(name):
    """Whether a name says that it is of a share: "effective_share", "share of a"."""
    return "share" in str(name).replace("_", " ").split()


def is_number(value):
    """Whether something is one number."""
    return isinstance(value, Real) and not isinstance(value, bool)


def number_text(value):
    """Return a number, or the first of several, as a short text."""
    if isinstance(value, (bool, str)) or value is None:
        return harmless(value)
    if isinstance(value, Real):
        return figure(value)
    if isinstance(value, Mapping):
        pairs = [f"{harmless(k)}: {number_text(v)}" for k, v in value.items()]
        return _shortened(pairs, len(pairs))
    if isinstance(value, (np.ndarray, list, tuple)):
        flat = np.asarray(value).ravel()
        texts = [number_text(one) for one in flat[:SHOWN].tolist()]
        return _shortened(texts, len(flat))
    return harmless(value)


def _equal(one, other):
    """Whether entries are the same; NaN is NaN."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_equal(one[k], other[k]) for k in one)
    one, other = np.asarray(one), np.asarray(other)
    same = (one == other) | ((one != one) & (other != other))
    return one.shape == other.shape and bool(same.all())


def _shortened(texts, n):
    more = f", ... ({n} in all)" if n > SHOWN else ""
    return ", ".join(texts[:SHOWN]) + more
