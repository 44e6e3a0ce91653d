# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope import evaluate, scan_logs
from skope_ope.logs.lazy import _read_together
from skope_ope.logs.lazy._read_together import read_together

pytestmark = pytest.mark.frames
pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
nw = pytest.importorskip("narwhals")

N = 100
NAMES = {"action": "item", "reward": "r", "propensity": "p"}


def table(n=N):
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "item": rng.choice(list("abc"), n),
            "r": rng.random(n),
            "p": np.full(n, 0.5),
            "city": pa.array(rng.choice(["Rome", "Oslo"], n)).dictionary_encode(),
            "pi": np.full(n, 1 / 3),
        }
    )


@pytest.fixture
def lazy(tmp_path):
    for k, (low, size) in enumerate([(0, 30), (30, 5), (35, 65)]):
        path = tmp_path / f"{k}.parquet"
        pq.write_table(table().slice(low, size), path, row_group_size=20)
    more = {"context": ["city"], "columns": ["pi"], "logger": "city"}
    return scan_logs(tmp_path, **NAMES, **more).labelled()


def sizes_of(partitions):
    return [
        (len(some), 0 if logs is None else len(logs))
        for some, logs in read_together(partitions)
    ]


def test_small_partitions_come_together(lazy, monkeypatch):
    assert [part.n_rounds for part in lazy.partitions] == [20, 10, 5, 20, 20, 20, 5]
    whole = lazy.sample(N)
    for most, sizes in (
        (1, [(1, 20), (1, 10), (1, 5), (1, 20), (1, 20), (1, 20), (1, 5)]),
        (30, [(2, 30), (2, 25), (1, 20), (2, 25)]),
        (1000, [(7, 100)]),
    ):
        monkeypatch.setattr(_read_together, "STRETCH", most)
        assert sizes_of(lazy.partitions) == sizes
        start = 0
        for _, logs in read_together(lazy.partitions):
            rows = whole[start : start + len(logs)]
            for name in ("action", "action_index", "reward", "logger", "logger_index"):
                assert_array_equal(getattr(logs, name), getattr(rows, name))
            assert_array_equal(logs.row_id.position, rows.row_id.position)
            assert logs.context["city"].tolist() == rows.context["city"].tolist()
            start += len(logs)
        assert start == N


def test_positions_of_filtered_and_of_distant_partitions(lazy):
    whole = lazy.sample(N)
    kept = lazy.filter(nw.col("r") > 0.5)
    position = [logs.row_id.position for _, logs in read_together(kept.partitions)]
    assert_array_equal(np.concatenate(position), np.flatnonzero(whole.reward > 0.5))
    some = [lazy.partitions[k] for k in (0, 3, 6)]
    for _, logs in read_together(some):
        assert_array_equal(logs.reward, whole.reward[logs.row_id.position])
    none = lazy.filter(nw.col("r") > 2)
    assert sizes_of(none.partitions) == [(1, 0)] * 7


def test_errors_name_their_own_partition(tmp_path):
    data = table(60)
    rewards = data["r"].to_numpy().copy()
    rewards[27] = np.nan
    data = data.set_column(1, "r", pa.array(rewards))
    pq.write_table(data, tmp_path / "log.parquet", row_group_size=20)
    lazy = scan_logs(tmp_path, **NAMES, columns=["pi"], actions=list("abc"))
    with pytest.raises(ValueError, match=r"^log.parquet, row group 1: .* at row 7"):
        list(read_together(lazy.partitions))
    lazy = scan_logs(tmp_path, **{**NAMES, "reward": "p"}, actions=list("abc"))
    policy = FailsOn(27)
    with pytest.raises(RuntimeError, match=r"^log.parquet, row group 1: no such row"):
        evaluate(policy, lazy, evaluators=["IPS"])


class FailsOn:
    """A policy that cannot answer for one round."""

    def __init__(self, row):
        self.row = row

    def logs_proba(self, logs):
        if self.row in logs.row_id.position:
            raise RuntimeError("no such row")
        return np.full((len(logs), logs.n_actions), 1 / logs.n_actions)


def test_row_groups_that_change_places_are_refused(tmp_path):
    path = tmp_path / "day.parquet"
    with pq.ParquetWriter(path, table().schema) as writer:
        for low, high in ((0, 20), (20, 30)):
            writer.write_table(table().slice(low, high - low))
    lazy = scan_logs(path, **NAMES, actions=list("abc"))
    assert sizes_of(lazy.partitions) == [(2, 30)]
    with pq.ParquetWriter(path, table().schema) as writer:
        for low, high in ((20, 30), (0, 20)):
            writer.write_table(table().slice(low, high - low))
    with pytest.raises(ValueError, match=r"row group 0.*changed since it was"):
        sizes_of(lazy.partitions)
