# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums as arrays of numbers and texts, which files hold."""

import numpy as np

from skope_ope.evaluators.core._design import Frame
from skope_ope.logs._labels import (
    arrays_of_labels,
    labels_of_arrays,
    labels_of_texts,
    texts_of_labels,
)

STAYS = -2  # a term that does not follow the rewards


def table_of(sums):
    """Return `Sums` as a dict of arrays."""
    frame = sums.frame
    first, second, totals = sums.about(sums.origin, sums.offset, sums.slants)
    table = {
        "origin": np.array(sums.origin),
        "offset": np.array(sums.offset),
        "moves": np.array(
            [STAYS if by is None else by for by in sums.moves or ()], dtype=int
        ),
        "first": first,
        "second": second,
        "count": frame.count,
        "heaviest": np.array(frame.heaviest),
    }
    if sums.upper is not None:
        about = sums.origin, sums.offset, sums.slants
        table["upper_first"], table["upper_second"], _ = sums.upper.about(*about)
    if sums.slants:
        table["slants"] = np.array([(top, *of) for top, of in sums.slants.items()])
    if frame.strata != [None]:
        table["strata"] = texts_of_labels(frame.strata)
    if totals is not None:
        table |= arrays_of_labels("clusters", frame.clusters)
        table |= {
            "totals": totals,
            "n_buckets": np.array(frame.n_buckets or 0),
            "cell_stratum": frame.cell_stratum,
            "cell_cluster": frame.cell_cluster,
            "cell_count": frame.cell_count,
        }
    return table


def parts_of_table(table):
    """Return what `Sums._of` takes, for all rounds and for the upper half, or None."""
    cells = {}
    if "totals" in table:
        cells = {
            name: table[name] for name in ("cell_stratum", "cell_cluster", "cell_count")
        }
        cells["clusters"] = labels_of_arrays("clusters", table)
        cells["n_buckets"] = int(table["n_buckets"]) or None
        cells["cell_mass"] = table["totals"][-1]
        # none has a number without a label: counts by number would fill the memory
        np.empty(len(table["count"]))[cells["cell_stratum"]]
        np.empty(len(cells["clusters"]))[cells["cell_cluster"]]
    strata = None
    if "strata" in table:
        strata = labels_of_texts(table["strata"])
    heaviest = float(table["heaviest"])
    slants = {
        int(top): (int(end), slant)
        for top, end, slant in np.asarray(table.get("slants", ())).tolist()
    }
    moves = [None if by == STAYS else by for by in table["moves"].tolist()]
    frame = Frame(table["count"], strata, **cells, heaviest=heaviest)
    offset, origin = float(table["offset"]), table["origin"].tolist()
    about = frame, offset, tuple(moves) or None, origin
    whole, half = (
        (*about, table[f"{half}first"], table[f"{half}second"], totals, slants)
        if f"{half}first" in table
        else None
        for half, totals in (("", table.get("totals")), ("upper_", None))
    )
    return whole, half
