# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""Which cases of a test the default run takes, see the marker few_cases."""

from collections import defaultdict

import pytest

APART = ("theory", "engines", "thorough")  # what the default run leaves out


def spread(length, n):
    """At most ``n`` positions of ``length``: the first, the last and between them."""
    if n >= length:
        return set(range(length))
    return {round(i * (length - 1) / max(n - 1, 1)) for i in range(n)}


def covering(cases):
    """Positions of few cases that together hold every value of every parameter.

    A case is a dict of parameters and what tells their values apart. Of a square matrix
    the diagonal is enough.
    """
    missing = {value for case in cases for value in case.items()}
    kept = set()
    while missing:
        new = [len(missing.intersection(case.items())) for case in cases]
        position = new.index(max(new))
        kept.add(position)
        missing.difference_update(cases[position].items())
    return kept or {0}


def mark_thorough(items):
    """Mark the cases thorough that the markers few_cases leave out."""
    tests = defaultdict(list)
    for item in items:
        marker = item.get_closest_marker("few_cases")
        apart = any(item.get_closest_marker(name) for name in APART)
        if marker is not None and not apart:
            tests[item.nodeid.split("[")[0]].append(item)
    for cases in tests.values():
        marker = cases[0].get_closest_marker("few_cases")
        if marker.args:
            kept = spread(len(cases), *marker.args)
        else:
            kept = covering(
                [{k: id(v) for k, v in item.callspec.params.items()} for item in cases]
            )
        for position, item in enumerate(cases):
            if position not in kept:
                item.add_marker(pytest.mark.thorough)
