# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rows of files are known by their place in them, whichever scan reads them."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from skope_ope import RewardModelPolicy, audit, evaluate, scan_logs, summarize
from skope_ope.logs._known_rows import KnownRows
from skope_ope.policies._learned_rounds import rounds_in_doubt

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROLES = {
    "action": "item",
    "reward": "click",
    "propensity": "p",
    "context": ["x", "z"],
    "actions": [0, 1],
}
LATE = "ignore::skope_ope.exceptions.OPEWarning"


@pytest.fixture
def days(tmp_path):
    """Three files, whose contents hardly tell rows apart."""
    for day in range(3):
        rng = np.random.default_rng(day)
        x, z = rng.integers(0, 40, (2, 500)).astype(float)
        item = rng.integers(0, 2, 500)
        columns = {"x": x, "z": z, "item": item, "click": rng.random(500) < 0.3}
        table = pa.table(columns | {"p": np.full(500, 0.5)})
        parquet.write_table(table, tmp_path / f"{day}.parquet", row_group_size=200)
    return tmp_path


def test_rows_are_known_in_every_scan(days):
    whole = scan_logs(days, **ROLES)
    known = KnownRows(whole.sample(300, random_state=0))
    truth = np.zeros(1500, dtype=bool)
    truth[whole.sample(300, random_state=0).row_id.position] = True
    for day in range(3):
        one = scan_logs(days / f"{day}.parquet", **ROLES)
        found = [known.has(logs) for _, logs in one.read()]
        wanted = truth[500 * day :][:500]
        assert np.array_equal(np.concatenate(found), wanted)
        assert np.array_equal(known.has(one.sample(500)), wanted)
        assert np.array_equal(known.has(one.head(30)[10:]), wanted[10:30])
        assert known.share_in_doubt(one.head(30)) == 0


@pytest.mark.filterwarnings(LATE)
def test_a_policy_is_told_of_its_rows_day_by_day(days):
    whole = scan_logs(days, **ROLES)
    policy = RewardModelPolicy(Ridge()).fit(whole.sample(300, random_state=0))
    scans = [scan_logs(days / f"{day}.parquet", **ROLES) for day in range(3)]
    given = {"evaluators": ["SNIPS"]}
    total = sum(summarize({"new": policy}, one, **given) for one in scans)
    assert total._sums.learned["new"].share == 0.2
    for one in scans:
        assert summarize({"new": policy}, one, **given)._sums.learned["new"].count
        names = [finding.name for finding in audit(policy, one).findings]
        assert "learned_rounds" in names
    with pytest.warns(match="scan those that it has not learned from"):
        evaluate(policy, scans[0], **given)


def test_files_of_other_names_are_told_by_content_or_in_doubt(days):
    """A day was copied: its contexts come back, and some of them with new actions."""
    rng = np.random.default_rng(0)
    known = scan_logs(days / "0.parquet", **ROLES).head(500)
    fresh = {"x": rng.random(500), "z": rng.random(500)}
    columns = {"item": known.action, "click": known.reward, "p": known.propensity}
    for name, flipped in (("a", 0), ("b", 0), ("c", 100)):
        action = known.action.copy()
        action[:flipped] = 1 - action[:flipped]
        table = pa.table(columns | fresh | {"item": action})
        parquet.write_table(table, days / f"{name}.parquet")
    logs = {name: scan_logs(days / f"{name}.parquet", **ROLES) for name in "abc"}
    policy = RewardModelPolicy(Ridge()).fit(logs["a"].head(500))
    assert KnownRows(logs["a"].head(500)).has(logs["b"].head(500)).all()
    assert not KnownRows(logs["a"].head(500)).has(logs["c"].head(500)).any()
    assert rounds_in_doubt(policy, logs["c"].head(500)) == (0.8, 0.0)
