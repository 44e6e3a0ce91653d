# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
from copy import copy

from skope_ope.exceptions import TailWarning
from skope_ope.intervals import ConfidenceInterval


def test_it_is_the_tuple_of_its_limits():
    interval = ConfidenceInterval(0.25, 1, 0.9, "gamma", 4.0, "stated", (0, 1))
    low, high = interval
    assert interval == (0.25, 1.0) == (low, high)
    assert (interval.low, interval.high, interval.width) == (0.25, 1.0, 0.75)
    assert isinstance(interval.high, float)


def test_it_travels_with_what_it_knows():
    warned = TailWarning("heavy", 0.5)
    interval = ConfidenceInterval(0, 1, 0.9, "student", warnings=[warned])
    for other in (pickle.loads(pickle.dumps(interval)), copy(interval)):
        assert other == interval
        assert (other.level, other.method) == (0.9, "student")
        assert other.warnings[0].value == 0.5
        assert other.max_weight is None


def test_it_prints_its_limits_with_their_decimals():
    interval = ConfidenceInterval(0.47681, 0.55513, 0.95, "gamma")
    assert repr(interval) == (
        "ConfidenceInterval(low=0.477, high=0.555, level=0.95, method='gamma')"
    )
    none = ConfidenceInterval(float("nan"), float("nan"), 0.9, "student")
    assert repr(none).startswith("ConfidenceInterval(low=nan, high=nan, level=0.9")
    assert "- to -" in none._repr_html_()
