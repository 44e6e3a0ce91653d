# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums over partitions give what one pass over the log in memory gives."""

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose

from skope_ope import evaluate, summarize
from tests.evaluators._parquet_worlds import lazy_world
from tests.evaluators._reference_worlds import WORLDS
from tests.evaluators.test_merging import FAMILIES, world_of

pytestmark = [
    pytest.mark.frames,
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning"),
]
pytest.importorskip("pyarrow")

IN_FILES = [name for name in FAMILIES if name != "slates_weighted"]  # no such column
N_PARTITIONS = 50


def named(evaluators):
    return {str(k): one for k, one in enumerate(evaluators)}


def assert_same_table(found, whole, atol=1e-12):
    assert list(found) == list(whole)
    for key, value in whole.items():
        assert_allclose(found[key].value, value.value, rtol=1e-12, atol=atol)
        assert_allclose(
            found[key].standard_error, value.standard_error, rtol=1e-11, atol=atol
        )
        assert_allclose(found[key].degrees_of_freedom, value.degrees_of_freedom)
        assert found[key].n_rounds == value.n_rounds


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", IN_FILES)
def test_any_partitions_give_the_numbers_of_memory(name, grouped, tmp_path):
    logs, atol = world_of(name, grouped)
    policies = {str(k): one for k, one in enumerate(WORLDS[name][1]().policies)}
    evaluators = named(FAMILIES[name])
    whole = evaluate(policies, logs, evaluators=evaluators)
    rng = np.random.RandomState(sum(map(ord, name)) + grouped)
    for trial in range(-(-N_PARTITIONS // (2 * len(IN_FILES)))):
        folder = tmp_path / str(trial)
        folder.mkdir()
        lazy = lazy_world(logs, folder, rng)
        backend = {"backend": "threading", "n_jobs": 2} if trial else {}
        with parallel_config(**backend):
            found = evaluate(policies, lazy, evaluators=evaluators)
        assert_same_table(found, whole, max(atol, 1e-12))
