# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import datetime
from decimal import Decimal

import numpy as np
import pytest

from skope_ope.logs._labels import kind_of_labels

DAY = datetime.date(2026, 1, 1)


@pytest.mark.parametrize(
    "labels, kind",
    [
        ([1, 2.5], "numbers"),
        ([True], "bools"),
        (["a"], "texts"),
        ([b"a"], "bytes"),
        ([DAY], "times"),
        ([datetime.timedelta(1)], "durations"),
        ([(1, "a"), (Decimal(2), "b")], "numbers, texts"),
        ([1, "a"], ""),
        ([(1, None)], ""),
        ([], ""),
    ],
)
def test_kinds(labels, kind):
    given = np.empty(len(labels), dtype=object)
    given[:] = labels
    assert kind_of_labels(given) == kind
    plain = kind and "," not in kind
    assert kind_of_labels(np.array(labels) if plain else None) == (
        kind if plain else ""
    )
