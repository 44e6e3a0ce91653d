# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import BanditLogs, audit
from skope_ope.logs.checks._context_columns import group_column_findings

pytestmark = pytest.mark.frames


def frame_logs(column="visitor_id", n_values=900, group=None, n_rounds=2000):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    context = pd.DataFrame(
        {
            "price": rng.integers(0, 900, n_rounds),
            column: rng.integers(0, n_values, n_rounds),
        }
    )
    action = rng.integers(0, 2, n_rounds)
    if group is not None:
        group = context.pop(group).to_numpy()
    return BanditLogs(
        context, action, rng.random(n_rounds), np.full(n_rounds, 0.5), group=group
    )


def test_a_user_in_the_context_is_asked_about():
    facts, (one,) = group_column_findings(frame_logs())
    assert facts == {}
    assert (one.name, one.severity) == ("group_in_context", "note")
    assert one.columns == ("visitor_id",)
    assert "group='visitor_id'" in one.advice[0]
    assert "group_in_context" in str(audit(frame_logs()))


@pytest.mark.parametrize("name", ["user", "customer id", "Session", "id", "client_nr"])
def test_names_of_groups(name):
    assert len(group_column_findings(frame_logs(name))[1]) == 1


@pytest.mark.parametrize(
    "logs",
    [
        {"column": "identity"},  # no name of a group
        {"n_values": 5},  # categories
        {"n_values": 10**9},  # every round another one
        {"group": "visitor_id"},
    ],
)
def test_what_is_no_group_or_is_passed_as_one(logs):
    assert group_column_findings(frame_logs(**logs)) == ({}, [])


def test_arrays_have_no_names():
    logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0], [0.5] * 4)
    assert group_column_findings(logs) == ({}, [])
