# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import gc
import os
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

from tests._cases import mark_thorough

# The tests' arrays are small, and pytest-xdist runs one process per core: threads of
# BLAS and OpenMP would only wait for each other. numpy, which nothing has imported yet,
# reads this, and so do the processes of pytest-xdist and of tests, which inherit it;
# what the caller has set stays.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

SEED_VARIABLE = "SKOPE_OPE_TESTS_GLOBAL_RANDOM_SEED"
DATA_VARIABLE = "SKOPE_OPE_DATA"


def pytest_addoption(parser):
    parser.addoption(
        "--first-cases",
        action="store_true",
        help="of every parametrized test run the first case, and all of test_common.py",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Leave the tests' own docstrings alone: none of them holds an example."""
    return [found for found in (yield) if not isinstance(found, DoctestModule)]


@pytest.hookimpl(tryfirst=True)  # before pytest reads -m
def pytest_collection_modifyitems(config, items):
    """Mark the cases that are thorough, and keep what --first-cases asks for."""
    mark_thorough(items)
    if not config.getoption("--first-cases"):
        return
    seen, kept, left_out = set(), [], []
    for item in items:
        test = item.nodeid.split("[")[0]
        again = test in seen and item.path.name != "test_common.py"
        (left_out if again else kept).append(item)
        seen.add(test)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def pytest_collection_finish(session):
    """Take what was collected, thousands of tests, out of the garbage collections."""
    gc.collect()
    gc.freeze()


def seeds_of(spec):
    """Seeds named by "42", by the closed range "40-42" or by "all" (0 to 99)."""
    if spec == "all":
        spec = "0-99"
    low, _, high = spec.partition("-")
    seeds = list(range(int(low), int(high or low) + 1))
    if not seeds or seeds[0] < 0 or seeds[-1] > 99:
        raise pytest.UsageError(
            f"{SEED_VARIABLE} must be a seed in 0..99, a range such as 40-42 or 'all', "
            f"got {spec!r}"
        )
    return seeds


@pytest.fixture(params=seeds_of(os.environ.get(SEED_VARIABLE, "42")), scope="session")
def global_random_seed(request):
    """Seed of a statistical test, which must pass for every seed in 0..99."""
    return request.param


@pytest.fixture(scope="session")
def data_dir():
    """Folder of the larger real data sets; the test is skipped where none is named."""
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        pytest.skip(f"{DATA_VARIABLE} names no folder")
    if not Path(folder).is_dir():
        pytest.fail(f"{DATA_VARIABLE}={folder!r} is not a folder")
    return Path(folder)


@pytest.fixture
def pyplot():
    """matplotlib.pyplot without a screen; figures are closed afterwards."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.close("all")
    yield plt
    plt.close("all")
