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


def table_of(sums):
    """Return `JointSums` as a dict of arrays."""
    frame = sums.frame
    table = {
        "origin": sums.origin,
        "offset": np.array(sums.offset),
        "first": sums.first,
        "second": sums.second,
        "halves": np.array(sums.has_halves),
        "count": frame.count,
        "heaviest": np.array(frame.heaviest),
        "slants": np.array([(top, *of) for top, of in sums.slants.items()]),
    }
    if frame.strata != [None]:
        table["strata"] = texts_of_labels(frame.strata)
    if sums.totals is not None:
        table |= arrays_of_labels("clusters", frame.clusters)
        table |= {
            "totals": sums.totals,
            "n_buckets": np.array(frame.n_buckets or 0),
            "cell_stratum": frame.cell_stratum,
            "cell_cluster": frame.cell_cluster,
            "cell_count": frame.cell_count,
        }
    return table


def joint_of_table(table, places, moves, make):
    """Return the `JointSums` that `table_of` wrote; `make` is their class."""
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
    frame = Frame(table["count"], strata, **cells, heaviest=heaviest)
    slants = {
        int(top): (int(end), slant)
        for top, end, slant in np.asarray(table["slants"]).reshape(-1, 3).tolist()
    }
    about = float(table["offset"]), places, moves, table["origin"], slants
    sums = table["first"], table["second"], table.get("totals")
    out = make.of_arrays(frame, *about, *sums)
    out.has_halves = bool(table["halves"])
    return out
