# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import pytest

from skope_ope.audit import VerdictThresholds


def test_numbers_can_be_changed_one_by_one():
    found = VerdictThresholds(effective_rounds=(100, 30), accepted=["few_events"])
    assert found.effective_rounds == (100, 30)
    assert found.effective_events == (10, 0)
    assert found.accepted == ("few_events",)
    assert pickle.loads(pickle.dumps(found)) == found
    # the same number twice: nothing between "trustworthy" and "not supported"
    assert VerdictThresholds(unsupported=[0.1, 0.1]).unsupported == (0.1, 0.1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"effective_rounds": 30}, "effective_rounds must be a pair of numbers"),
        ({"effective_events": (1, 2, 3)}, "effective_events must be a pair"),
        ({"effective_groups": ("a", 1)}, "effective_groups must be a pair"),
        ({"unsupported": (float("nan"), 1)}, "unsupported must be a pair"),
        ({"effective_rounds": (5, 30)}, "second number is the worse one, got .5, 30."),
        ({"unsupported": (0.1, 0.005)}, "second number is the worse one"),
        ({"range_share": (0.8, 0.5)}, "second number is the worse one"),
        ({"level": 95}, r"level must lie in \(0, 1\), got 95"),
    ],
)
def test_numbers_that_cannot_be(given, message):
    with pytest.raises(ValueError, match=message):
        VerdictThresholds(**given)


def test_one_accepted_name_is_no_collection():
    with pytest.raises(TypeError, match=r"a collection of names, \('few_events',\)"):
        VerdictThresholds(accepted="few_events")


def test_nothing_accepted_is_an_empty_collection():
    with pytest.raises(TypeError, match=r"\(\) for none, got NoneType"):
        VerdictThresholds(accepted=None)


def test_that_there_is_no_estimate_cannot_be_accepted():
    with pytest.raises(
        ValueError, match="without a value or an interval you cannot act"
    ):
        VerdictThresholds(accepted=("drift", "no_estimate"))
