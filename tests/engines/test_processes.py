# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""loky's processes, and threads."""

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose

from tests.engines import _laws
from tests.evaluators._parquet_worlds import lazy_world

pytestmark = pytest.mark.frames
pytest.importorskip("pyarrow")

BACKENDS = ["loky", "threading"]


@pytest.fixture(params=BACKENDS)
def engine(request):
    with parallel_config(request.param, n_jobs=2):
        yield request.param


@pytest.mark.parametrize("seed", range(3))
def test_the_numbers_of_memory(engine, tmp_path, seed):
    _laws.check_numbers(tmp_path, seed)


def test_notebook_classes(engine, tmp_path):
    _laws.check_notebook_classes(tmp_path)


def test_errors_are_named(engine, tmp_path):
    _laws.check_errors_are_named(tmp_path)


def test_corrupt_files_are_named(engine, tmp_path):
    _laws.check_corrupt_files_are_named(tmp_path)


def test_a_dead_worker_is_named_and_the_next_call_works(tmp_path):
    logs, folder = _laws.some_logs(), tmp_path / "logs"
    folder.mkdir()
    lazy = lazy_world(logs, folder, np.random.RandomState(1), n_files=3)
    policy = _laws.notebook_policy(dies=str(tmp_path / "died"))
    with parallel_config("loky", n_jobs=2):
        with pytest.raises(RuntimeError, match="a worker process died") as told:
            _laws.table_of(lazy, policy)
        assert type(told.value).__name__ == "TerminatedWorkerError"
        found = _laws.table_of(lazy, policy)  # it dies once
    whole = _laws.table_of(logs, policy)
    for key, value in whole.items():
        assert_allclose(found[key].value, value.value, rtol=1e-11)
