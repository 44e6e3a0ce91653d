# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope.readers._read_logs import LOG_FORMATS, VW_FORMATS, read_logs
from skope_ope.readers._table_logs import Roles

ROLES = Roles(
    action="item_id", reward="click", propensity="propensity_score", context=()
)
OPEN_BANDIT = (
    "timestamp,item_id,position,click,propensity_score,user_feature_0\n"
    "2019-11-24 00:00:01+00:00,1,3,0,0.5,young\n"
    "2019-11-24 00:00:02+00:00,0,1,1,0.5,old\n"
)


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_open_bandit_with_and_without_roles(write):
    path = write("men.csv", OPEN_BANDIT)
    source = read_logs(path)
    assert source.format == "open-bandit"
    assert "position" in source.logs.columns
    table = read_logs(path, ROLES)
    assert table.format == "csv"
    np.testing.assert_array_equal(table.logs.reward, source.logs.reward)


def test_open_bandit_logs_share_the_categories_of_users(write):
    path = write("men.csv", OPEN_BANDIT)
    other = write("other.csv", OPEN_BANDIT.replace("old", "ancient"))
    left = read_logs(path, align_with=other).logs
    right = read_logs(other, align_with=path).logs
    assert left.n_features == right.n_features == 6


def test_vw_format_and_bad_lines(write):
    path = write("log.txt", "1:0:0.5 | a\n2:1:0.5 | b\n")
    assert read_logs(path).format == "vw"
    assert len(read_logs(path, format="vw-cb").logs) == 2
    path = write("log.vw", "1:0:0.5 | a\n2:1:nonsense | b\n")
    with pytest.raises(ValueError, match="line 2"):
        read_logs(path)
    with pytest.warns(UserWarning, match="skipped 1 malformed"):
        assert len(read_logs(path, on_error="skip").logs) == 1


def test_evaluated_actions_are_a_column(write):
    path = write("log.txt", "1 1:0:0.5 | a\n1 2:1:0.5 | b\n")
    assert "evaluated" in read_logs(path, format="vw-cb-eval").logs.columns


def test_roles_are_needed_for_tables_and_refused_elsewhere(write):
    path = write("log.csv", "a,b\n1,1\n")
    with pytest.raises(ValueError, match="is read as csv: name the columns of the act"):
        read_logs(path)
    with pytest.raises(ValueError, match="with --action and --reward"):
        read_logs(path, Roles(action="a", reward=None))
    path = write("log.txt", "1:0:0.5 | a\n")
    with pytest.raises(ValueError, match="is read as vw, whose columns are known"):
        read_logs(path, ROLES)


def test_formats_are_those_of_the_readers():
    assert set(VW_FORMATS) <= set(LOG_FORMATS)
    assert VW_FORMATS["vw-cb-eval"] == "cb_eval"


def test_json_lines_need_roles(write):
    path = write("log.jsonl", '{"a": "x", "u": {"r": 1}}\n{"a": "y", "u": {"r": 0}}\n')
    with pytest.raises(ValueError, match="is read as jsonl: name the columns of the a"):
        read_logs(path)
    source = read_logs(path, Roles(action="a", reward="u.r", context=()))
    assert source.format == "jsonl"
    np.testing.assert_array_equal(source.logs.reward, [1, 0])
    other = write("log.json", path.read_text())
    named = read_logs(
        other, Roles(action="a", reward="u.r", context=()), format="jsonl"
    )
    np.testing.assert_array_equal(named.logs.action, source.logs.action)


def test_events_of_vw_may_be_called_jsonl(write):
    event = (
        '{{"_label_cost": {}, "_label_probability": 0.5, "_label_Action": {}, '
        '"_labelIndex": {}, "a": [{}, {}], "p": [0.5, 0.5], "c": {{"_multi": '
        '[{{"x": 1}}, {{"x": 2}}]}}}}\n'
    )
    path = write(
        "log.jsonl", event.format(-1, 1, 0, 1, 2) + event.format(0, 2, 1, 2, 1)
    )
    source = read_logs(path)
    assert source.format == "vw"
    np.testing.assert_array_equal(source.logs.reward, [1, 0])
