# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest

from skope_ope.logs.checks._finding import Finding


def test_a_finding_prints_as_what_to_do():
    one = Finding("late_rewards", "warning", "They rise.", ["Wait."], rows=[1, 2])
    assert str(one) == "[warning] late_rewards: They rise. Wait."
    several = Finding("late_rewards", "note", "They rise.", ["Wait.", "Ask."])
    assert str(several).endswith("most likely first:\n(1) Wait.\n(2) Ask.")
    assert several.text.endswith("most likely first: (1) Wait. (2) Ask.")
    long = Finding("late_rewards", "note", "They rise. " * 30, ["Wait.", "Ask. " * 40])
    assert max(map(len, str(long).splitlines())) <= 100
    assert "rows=(1, 2)" in repr(one)


def test_severities_are_three():
    with pytest.raises(ValueError, match="severity must be one of"):
        Finding("late_rewards", "alarm", "They rise.")
