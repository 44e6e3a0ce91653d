# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which rows of a lazy log are kept: expressions, and functions of frames."""

import importlib
from dataclasses import replace

import numpy as np

from skope_ope.logs._frames import import_narwhals

ROW = "__row__"  # a column that numbers the rows, while rows are chosen
ALONE = (
    "the filter compares a row with other rows, such as with their mean. Files are "
    "read in parts, so the result would depend on the parts. Compute the number "
    "first, and compare with that."
)


class Condition:
    """A condition that every row of a table fulfils or not."""

    def __init__(self, what, empty):
        if not (is_expression(what, "narwhals", "Expr") or callable(what)) and (
            not is_expression(what, "pyarrow", "Expression")
        ):
            raise TypeError(
                "filter takes an expression, such as narwhals.col('age') > 30 or "
                "pyarrow.compute.field('age') > 30, or a function of a narwhals frame "
                f"that returns a mask; got {type(what).__name__}."
            )
        self.what, self.names = what, ()
        try:
            self.mask(empty)
        except Exception as error:  # every library has its own for a missing column
            typed = [f"{one.name}: {one.type}" for one in empty.schema]
            told = str(error).strip("'").partition("\n")[0]  # lists of columns follow
            told = told.removesuffix(f" in {typed[0]}").removesuffix(".")
            raise ValueError(
                f"the filter does not fit these columns: {told}. They are "
                f"{', '.join(typed)}. Columns from names of folders are texts, as "
                "in field('day') >= '2026-11-01'."
            ) from error
        self.names = tuple(n for n in empty.column_names if self._needs(n, empty))

    def _needs(self, name, empty):
        try:
            self.mask(empty.drop_columns([name]))
        except Exception:
            return True
        return False

    def mask(self, table):
        """Return which rows of a table of pyarrow are kept; missing answers are no."""
        mask = self._answer(table)
        if len(table) > 1 and not is_expression(self.what, "pyarrow", "Expression"):
            for row in {int(mask.argmin()), int(mask.argmax())}:
                if self._answer(table.slice(row, 1))[0] != mask[row]:
                    raise ValueError(ALONE)
        return mask

    def _answer(self, table):
        import pyarrow

        if is_expression(self.what, "pyarrow", "Expression"):
            rows = pyarrow.array(np.arange(len(table)))
            kept = table.append_column(ROW, rows).filter(self.what)[ROW]
            mask = np.zeros(len(table), dtype=bool)
            mask[kept.to_numpy()] = True
            return mask
        narwhals = import_narwhals()
        if callable(self.what):
            found = self.what(narwhals.from_native(table, eager_only=True))
        else:
            own = importlib.import_module(module_of(self.what))
            frame = own.from_native(table, eager_only=True)
            found = frame.select(self.what.alias(ROW))[ROW]
        found = getattr(found, "to_native", lambda: found)()
        if hasattr(found, "fill_null"):  # of pyarrow
            found = found.fill_null(False) if found.null_count else found
            found = found.to_numpy(zero_copy_only=False) if len(found) else []
        mask = np.asarray(found)
        if mask.shape != (len(table),) or (mask.dtype != bool and len(table)):
            raise TypeError(
                "a filter must give one boolean for every row, got dtype "
                f"{mask.dtype}, shape {mask.shape} for {len(table)} rows."
            )
        return mask.astype(bool)


def is_expression(what, library, name):
    """Tell whether an object is an expression of a library."""
    return any(
        cls.__name__ == name and cls.__module__.split(".")[0] == library
        for cls in type(what).__mro__
    )


def module_of(expression):
    """Return the module of narwhals that an expression was made with."""
    module = type(expression).__module__
    for stable in ("narwhals.stable.v2", "narwhals.stable.v1"):
        if module.startswith(stable):
            return stable
    return "narwhals"


def filtered(logs, what):
    """Return lazy logs of the rows that fulfil a condition."""
    if logs.frame is not None:
        return logs._of(logs._scanned.filter(what))
    scanned = logs._scanned
    condition = Condition(what, scanned.empty_table())
    if condition.names and set(condition.names) <= set(scanned.folder_columns):
        return logs._of(
            scanned.only(lambda said: bool(condition.mask(scanned.one_row(said))[0]))
        )
    reading = replace(logs._reading, conditions=(*logs._reading.conditions, condition))
    return logs._of(scanned, replace(reading, types=scanned.types(reading.uses)))
