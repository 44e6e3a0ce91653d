# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is said of a tail: silent without one, an alarm beyond doubt."""

from math import nan

from skope_ope.audit._tail_index import tail_findings


def test_an_alarm_needs_certainty():
    assert tail_findings(nan, nan) == []  # no tail
    assert tail_findings(0.69, 0.01) == []
    assert tail_findings(0.8, 0.1)[0].severity == "note"
    [sure] = tail_findings(0.95, 0.1)
    assert (sure.name, sure.severity) == ("heavy_tail", "warning")
    assert (sure.number, sure.effect) == (0.95, 0.95)
    assert "tail index 1.05" in sure.text
