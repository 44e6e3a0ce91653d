# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""All that takes logs takes the fields of the one table."""

import json
from inspect import signature

import numpy as np
import pytest

from skope_ope import BanditLogs, SlateLogs, scan_logs
from skope_ope.logs._fields import FIELDS, column_fields, fields_of
from skope_ope.readers import read_jsonl

LOGS = {"BanditLogs": BanditLogs, "SlateLogs": SlateLogs}


@pytest.mark.parametrize("kind", LOGS)
def test_constructors_take_the_fields_of_the_table(kind):
    assert set(signature(LOGS[kind]).parameters) == set(fields_of(kind))
    needed = {name for name, one in fields_of(kind).items() if one.axes}
    assert needed <= set(LOGS[kind]._row_fields)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (BanditLogs.from_frame, ["BanditLogs", True]),
        (SlateLogs.from_frame, ["SlateLogs"]),
        (read_jsonl, ["BanditLogs", True]),
        (scan_logs, [None, True]),
    ],
)
def test_files_and_frames_name_the_fields_of_the_table(call, names):
    logs, *several = names
    wanted = {*column_fields(logs)}
    if several:
        wanted |= {*column_fields(logs, several=True)}
    given = set(signature(call).parameters)
    assert wanted <= given
    others = given & set(FIELDS) - wanted
    assert not {name for name in others if FIELDS[name].in_files} - {"slot_reward"}


def test_what_replace_takes():
    logs = BanditLogs(np.zeros((2, 1)), [0, 1], [0.0, 1.0], 0.5)
    slates = SlateLogs(np.zeros((2, 1)), [[0, 1], [1, 0]], [0.0, 1.0])
    names = "available', 'group', 'logger_proba', 'logging_proba', 'propensity', "
    names += "'reward', 'sample_weight', 'timestamp"
    with pytest.raises(ValueError, match=names):
        logs.replace(logger=["a", "b"])
    names = "'group', 'logging_policy', 'propensity', 'reward', 'timestamp'"
    with pytest.raises(ValueError, match=names):
        slates.replace(slot_reward=[[0, 0], [1, 0]])


@pytest.mark.parametrize(
    ("field", "advice"),
    [
        ("action", "may be those of one action"),
        ("reward", "never fill all with 0"),
        ("propensity", "estimate them with PropensityEstimator"),
        ("group", "Correct or drop the line"),
    ],
)
def test_files_advise_on_what_is_missing(tmp_path, field, advice):
    rows = [{"action": "a", "reward": 1, "propensity": 0.5, "group": "u"}] * 2
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, [*rows, {**rows[0], field: None}])))
    names = {name: name for name in rows[0]}
    with pytest.raises(ValueError, match=f"line 3: field '{field}' .*{advice}"):
        read_jsonl(path, **names, context=[])
