# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Ray with two processors, through its backend of joblib."""

import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose

from skope_ope import summarize
from tests.engines import _laws

pytestmark = [
    pytest.mark.frames,
    pytest.mark.filterwarnings("ignore:::ray"),  # of its own making
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster():
    from ray.util.joblib import register_ray

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        logging_level="error",
        log_to_driver=False,
        object_store_memory=100 << 20,
    )
    register_ray()
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def engine(cluster):
    with parallel_config("ray", n_jobs=2):
        yield


def test_the_numbers_of_memory(tmp_path):
    # every call starts a pool of actors, which costs seconds
    _laws.check_numbers(tmp_path, worlds=_laws.FAMILY_WORLDS[1:2])


@pytest.mark.parametrize("law", _laws.LAWS_OF_ONE_CALL)
def test_laws(tmp_path, law):
    law(tmp_path)


def test_a_dead_worker_is_named_and_the_next_call_works(tmp_path):
    logs, lazy, policy = _laws.killer(tmp_path)
    call = {"policies": {"new": policy}, "evaluators": ["IPS"]}
    with pytest.raises(ray.exceptions.RayError, match=r"a worker process died.*Actor"):
        summarize(logs=lazy, **call)
    found = summarize(logs=lazy, **call).values()  # it dies once
    whole = summarize(logs=logs, **call).values()
    assert_allclose(found["new", "IPS"].value, whole["new", "IPS"].value, rtol=1e-12)
