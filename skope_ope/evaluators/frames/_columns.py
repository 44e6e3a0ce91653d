# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of a lazy frame that formulas of arrays take for arrays.

The formulas of the evaluators are written once, for numpy. Handed a `Column` in the
place of an array they give a `Column`: what is to be computed, not yet computed. That
is translated into an expression of narwhals, which the database evaluates.
"""

import operator

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

FLAG_OF = {
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.bitwise_and: operator.and_,
    np.bitwise_or: operator.or_,
}
ARITHMETIC = FLAG_OF | {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
}
FLAGS = "is", "known", "all", *FLAG_OF
NAMED_EXPRESSIONS = ("column", "is", "known")
TREES = {"sum": operator.add, "all": operator.and_}
COMMUTE = (np.add, np.multiply, np.minimum, np.maximum)


class Column(NDArrayOperatorsMixin):
    """What is computed of the columns of a frame, row by row."""

    def __init__(self, *key):
        self.key = key

    @property
    def is_flag(self):
        """Whether the entries are true or false."""
        return self.key[0] in FLAGS

    def names(self):
        """Return the names of all columns that this is made of, a set."""
        return _names(self.key)

    def astype(self, dtype):
        """Return ones and zeros for what is true and false."""
        return where(self, 1.0, 0.0) if self.is_flag else self

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        known = ufunc in ARITHMETIC or ufunc in COLUMN_FUNCTIONS
        if method != "__call__" or kwargs or not known:
            raise _unknown(ufunc)
        if ufunc is np.multiply:
            one, other = inputs
            for flag, value in ((one, other), (other, one)):
                if isinstance(flag, Column) and flag.is_flag:
                    return where(flag, value, 0.0)
        keys = [_key(value) for value in inputs]
        if ufunc in COMMUTE:
            keys = sorted(keys, key=repr)
        return Column(ufunc, *keys)

    def __array_function__(self, function, types, args, kwargs):
        if function is np.zeros_like:
            return args[0] * 0.0
        if function is np.where:
            return where(*args)
        raise _unknown(function)

    __hash__ = None

    def __repr__(self):
        return f"Column{self.key!r}"


def _unknown(function):
    return TypeError(
        f"numpy's {function.__name__} cannot be computed inside a lazy frame. "
        "Write the frame to parquet files, and scan these."
    )


def column(name):
    """Return the `Column` of a name."""
    return Column("column", name)


def where(flag, one, other):
    """Return one value where a flag is true, and another elsewhere, nulls too."""
    # `None` in the place of a value is a null.
    return Column("where", _key(flag), _key(one), _key(other))


def label_is(name, label):
    """Return whether the label of a name is this one."""
    return Column("is", name, label)


def all_of(flags):
    """Return whether all of many flags are true."""
    return Column("all", *map(_key, flags))


def label_known(name):
    """Return whether there is a label."""
    return Column("known", name)


def are_finite(columns):
    """Return whether none of some numbers is null, NaN or infinite."""
    return sum_of([one * 0.0 for one in columns]) == 0.0  # NaN * 0 and inf * 0 are NaN


def sum_of(columns):
    """Return the sum of many columns; a null among them makes it null."""
    return Column("sum", *map(_key, columns))


def _names(key):
    if not isinstance(key, tuple):
        return set()
    if key[0] in NAMED_EXPRESSIONS:
        return {key[1]}
    return set().union(*map(_names, key[1:]))


def _key(value):
    if isinstance(value, Column):
        return value.key
    return None if value is None else float(value)


def expression(found, narwhals):
    """Return the expression of narwhals that computes a `Column`."""
    return _built(found.key, narwhals)


def _built(key, narwhals):
    if key is None:
        return None
    if isinstance(key, float):
        return narwhals.lit(key)
    function, *inputs = key
    if function == "column":
        return narwhals.col(inputs[0])
    if function == "is":  # the label of an action or of a logger
        return narwhals.col(inputs[0]) == narwhals.lit(inputs[1])
    if function == "known":
        return ~narwhals.col(inputs[0]).is_null()
    inputs = [_built(one, narwhals) for one in inputs]
    if function in TREES:
        return _tree(TREES[function], inputs)
    if function in ARITHMETIC:
        return ARITHMETIC[function](*inputs)
    return COLUMN_FUNCTIONS[function](narwhals, *inputs)


def _tree(function, inputs):
    """Combine inputs, in a depth that grows with the logarithm of their number."""
    if len(inputs) == 1:
        return inputs[0]
    half = len(inputs) // 2
    return function(_tree(function, inputs[:half]), _tree(function, inputs[half:]))


def _where(narwhals, flag, one, other):
    if other is None:
        return narwhals.when(flag).then(one)
    return narwhals.when(flag).then(one).otherwise(other)


def _minimum(narwhals, one, other):
    return _where(narwhals, one <= other, one, other)


def _maximum(narwhals, one, other):
    return _where(narwhals, one >= other, one, other)


def _absolute(narwhals, one):
    return one.abs()


def _log(narwhals, one):
    # databases raise at zero; rows that have it are counted, and refused, elsewhere
    return _where(narwhals, one > 0, one, narwhals.lit(1.0)).log()


def _log1p(narwhals, one):
    """Return ln(1 + x) with all digits, which databases do not offer (Kahan)."""
    # The rounding of u = 1 + x is made good by that of u - 1.
    near = one + 1.0
    rounded = _where(narwhals, near == 1.0, narwhals.lit(1.0), near - 1.0)
    whole = _log(narwhals, near) * (one / rounded)
    return _where(narwhals, near == 1.0, one, whole)


COLUMN_FUNCTIONS = {
    "where": _where,
    np.minimum: _minimum,
    np.maximum: _maximum,
    np.absolute: _absolute,
    np.log: _log,
    np.log1p: _log1p,
}
