# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""loky's processes, and threads."""

import os
import signal
import subprocess
import sys
import time

import pytest
from joblib import parallel_config

from tests.engines import _laws

pytestmark = pytest.mark.frames
pytest.importorskip("pyarrow")


@pytest.fixture(params=["loky", "threading"])
def engine(request):
    with parallel_config(request.param, n_jobs=2):
        yield request.param


@pytest.mark.parametrize("seed", range(3))
def test_the_numbers_of_memory(engine, tmp_path, seed):
    _laws.check_numbers(tmp_path, seed)


@pytest.mark.parametrize("law", _laws.LAWS)
def test_laws(engine, tmp_path, law):
    law(tmp_path)


def test_a_dead_worker_is_named_and_the_next_call_works(tmp_path):
    logs, lazy, policy = _laws.killer(tmp_path)
    with parallel_config("loky", n_jobs=2):
        with pytest.raises(RuntimeError, match="a worker process died") as told:
            _laws.table_of(lazy, policy)
        assert type(told.value).__name__ == "TerminatedWorkerError"
        found = _laws.table_of(lazy, policy)  # it dies once
    _laws.check_same(found, _laws.table_of(logs, policy))


LONG = """
import os, sys, time
import os
import signal
import subprocess
import sys
import time

import numpy as np
from joblib import parallel_config
from skope_ope import FunctionPolicy, summarize, scan_logs

def slow(X):
    open(os.path.join(sys.argv[2], str(os.getpid())), "w").close()
    time.sleep(60)
    return np.full((len(X), 3), 1 / 3)

lazy = scan_logs(sys.argv[1], action="a", reward="r", propensity="p", actions=range(3))
with parallel_config("loky", n_jobs=2):
    summarize({"slow": FunctionPolicy(slow).fit(lazy)}, lazy, evaluators=["IPS"])
"""


def test_an_interrupt_leaves_nothing_running(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    logs, pids, script = (tmp_path / name for name in ("logs", "pids", "long.py"))
    logs.mkdir()
    pids.mkdir()
    script.write_text(LONG)
    table = pa.table({"a": [0, 1, 2] * 20, "r": [0.0] * 60, "p": [1 / 3] * 60})
    parquet.write_table(table, logs / "day.parquet", row_group_size=20)
    words = [sys.executable, str(script), str(logs), str(pids)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        _wait_for(lambda: len(list(pids.iterdir())) == 2)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in told
    workers = [int(one.name) for one in pids.iterdir()]
    _wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers))


def _wait_for(holds, seconds=40):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
