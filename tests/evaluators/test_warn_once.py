# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import warnings
from types import SimpleNamespace

import pytest

from skope_ope.evaluators._warn_once import rows_of, warn_once
from skope_ope.exceptions import LowOverlapWarning, OPEWarning, PropensityWarning


def told(names, warned):
    """The texts of what `warn_once` warns of; only `warned` rows have a warning."""
    values = [
        (name, SimpleNamespace(warnings=[OPEWarning("few.")] * (name in warned)))
        for name in names
    ]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_once(values, stacklevel=1)
    return [str(one.message) for one in found]


ROWS = [(policy, row) for policy in "ab" for row in ("IPS", "SNIPS")]


@pytest.mark.parametrize(
    "warned, text",
    [
        (ROWS, "few."),
        (ROWS[:2], "a: few."),
        (ROWS[:1], "a (IPS): few."),
        (ROWS[:3], "a, b (IPS): few."),
        (ROWS[1:], "a (SNIPS), b: few."),
        (ROWS[::2], "IPS: few."),
    ],
)
def test_rows_are_named_where_others_are_fine(warned, text):
    assert told(ROWS, warned) == [text]


def test_one_policy_has_no_name():
    rows = [name for name, _ in rows_of({"IPS": 0, "SNIPS": 0}, several=False)]
    assert rows == [(None, "IPS"), (None, "SNIPS")]
    assert told(rows, rows[1:]) == ["SNIPS: few."]


def test_policies_alone_and_many_of_them():
    assert told("ab", "b") == ["b: few."]
    assert told("abcdef", "abcde") == ["a, b, c and 2 more: few."]


def test_a_finding_with_other_numbers_is_told_once():
    def of(kind, *texts):
        pairs = zip("abc", texts, strict=True)
        rows = [
            (name, SimpleNamespace(warnings=[kind(text, 1.5, "mean_weight", "error")]))
            for name, text in pairs
        ]
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            warn_once(rows, stacklevel=1)
        return [one.message for one in found]

    for kind in (PropensityWarning, LowOverlapWarning):
        [one] = of(kind, "is 1.2.", "is 1.3.", "is 1.2.")
        assert str(one) == "a, c: is 1.2. The same was found for b, with other numbers."
        assert (one.value, one.name, one.severity) == (1.5, "mean_weight", "error")
    assert len(of(OPEWarning, "x.", "y.", "z.")) == 3
