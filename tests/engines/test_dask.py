# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A Dask cluster of two worker processes."""

import os
from functools import partial

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, RegressorMixin

from skope_ope import DoublyRobust, FunctionPolicy, evaluate
from tests.engines import _laws
from tests.evaluators._parquet_worlds import lazy_world

pytestmark = pytest.mark.frames
pytest.importorskip("pyarrow")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit="1GiB",
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


@pytest.fixture(autouse=True)
def engine(cluster):
    with parallel_config("dask"):
        yield


def test_the_numbers_of_memory(tmp_path):
    _laws.check_numbers(tmp_path)


@pytest.mark.parametrize("law", _laws.LAWS)
def test_laws(tmp_path, law):
    law(tmp_path)


def test_a_dead_worker_is_replaced_and_the_numbers_are_the_same(tmp_path):
    logs, lazy, policy = _laws.killer(tmp_path)
    found = _laws.table_of(lazy, policy)
    assert (tmp_path / "died").exists()
    _laws.check_same(found, _laws.table_of(logs, policy))


def _dies(home, X):
    if os.getpid() != home:
        os._exit(1)
    return np.full((len(X), 3), 1 / 3)


class Dies(RegressorMixin, BaseEstimator):
    def __init__(self, home):
        self.home = home

    def fit(self, X, y):
        if os.getpid() != self.home:
            os._exit(1)
        return self

    def predict(self, X):
        return np.zeros(len(X))


def test_workers_that_die_again_and_again_end_the_call(cluster, monkeypatch, tmp_path):
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 1)
    logs = _laws.some_logs(60)
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(2), n_files=3)
    policy = FunctionPolicy(partial(_dies, os.getpid())).fit(lazy)
    client = distributed.default_client()
    client.wait_for_workers(2, timeout=30)  # one would not be asked
    # joblib would wait for its tasks for ever
    with pytest.raises(RuntimeError, match="a worker process died"):
        evaluate({"new": policy}, lazy, evaluators=["IPS"])
    client.wait_for_workers(2, timeout=30)
    with pytest.raises(RuntimeError, match="a worker process died"):
        DoublyRobust(reward_model=Dies(os.getpid())).fit(logs)
    client.wait_for_workers(2, timeout=30)
