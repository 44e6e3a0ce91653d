# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from scipy import sparse

from skope_ope import BanditLogs
from skope_ope.logs._logs_html import bandit_summary


def logs_of(**fields):
    fields = {"context": np.eye(4), "action": [0, 1, 1, 1], **fields}
    return BanditLogs(reward=[0, 1, 2, 5], **fields)


def test_what_every_log_has():
    assert bandit_summary(logs_of()) == {
        "rounds": "4",
        "actions": "2 (logged 1 to 3 times)",
        "features": "4 (ndarray)",
        "reward": "0 to 5, mean 2",
        "propensity": "unknown",
    }


@pytest.mark.parametrize(
    ("fields", "name", "text"),
    [
        ({"propensity": [0.25, 1, 1, 1]}, "propensity", "0.25 to 1"),
        ({"actions": [0, 1, 2]}, "actions", "3 (logged 0 to 3 times)"),
        ({"context": sparse.eye(4)}, "features", "4 (csr_matrix)"),
        ({"reward_range": (0, np.inf)}, "reward range", "0 to inf"),
        ({"logger": ["x", "x", "y", "x"]}, "loggers", "x: 3, y: 1"),
        (
            {"available": np.eye(2, dtype=bool)[[0, 1, 1, 1]]},
            "offered actions",
            "1 to 1",
        ),
        ({"timestamp": [4, 1, 2, 3]}, "time", "1 to 4"),
        ({"sample_weight": [0.5, 1, 1, 20]}, "sample weight", "0.5 to 20"),
    ],
)
def test_what_some_logs_have(fields, name, text):
    assert bandit_summary(logs_of(**fields))[name] == text


def test_columns_are_named():
    logs = logs_of().with_columns(pi=np.eye(4), q_hat=np.ones(4))
    assert bandit_summary(logs)["columns"] == "pi, q_hat"


def test_thousands_are_separated():
    logs = BanditLogs(np.zeros((12_345, 1)), np.zeros(12_345), np.zeros(12_345))
    summary = bandit_summary(logs)
    assert summary["rounds"] == "12,345"
    assert summary["actions"] == "1 (logged 12,345 to 12,345 times)"


def test_an_empty_slice_has_no_ranges():
    assert bandit_summary(logs_of()[:0]) == {"rounds": "0", "actions": "2"}
