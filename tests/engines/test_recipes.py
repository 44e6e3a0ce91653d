# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The recipes of the guide run as they are printed."""

import re
import shutil
import textwrap

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import evaluate, scan_logs
from tests.packaging._tree import ROOT

pytestmark = [
    pytest.mark.frames,
    pytest.mark.filterwarnings("ignore:Spark"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
pyarrow = pytest.importorskip("pyarrow")

PAGE = (ROOT / "docs/guide/large_logs.rst").read_text()
RECIPES = dict(
    re.findall(
        r"^\.\. recipe: (\w+)\n\.\. code-block:: python\n\n((?:    .*\n|\n)+)",
        PAGE,
        re.M,
    )
)
ROLES = {"action": "item", "reward": "click", "propensity": "p", "columns": ["new"]}
KNOWN = {"actions": [0, 1], "reward_range": (0, 1)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from pyarrow import parquet

    folder = tmp_path_factory.mktemp("days")
    for day in range(4):
        rng = np.random.default_rng(day)
        item = rng.integers(0, 2, 500)
        columns = {
            "item": item,
            "click": (rng.random(500) < 0.1 + 0.05 * item).astype(float),
            "p": np.full(500, 0.5),
            "new": np.where(item == 1, 0.9, 0.1),
        }
        parquet.write_table(pyarrow.table(columns), folder / f"day-{day}.parquet")
    return folder


@pytest.fixture(scope="module")
def logs(folder):
    return scan_logs(folder, **ROLES, **KNOWN)


@pytest.fixture(scope="module")
def value(logs):
    return evaluate("new", logs, evaluators=["SNIPS"])["SNIPS"]


def run(name, **names):
    names = {"__name__": "__main__", "evaluate": evaluate, **names}
    exec(textwrap.dedent(RECIPES[name]), names)
    return names


def agrees(table, value):
    [found] = table.values()
    assert_allclose(found.value, value.value, rtol=1e-12)
    assert_allclose(found.standard_error, value.standard_error, rtol=1e-10)


def test_every_recipe_of_the_page_is_tested():
    assert sorted(RECIPES) == ["daily", "dask", "map_in_arrow", "ray", "spark"]


def test_dask(logs, value):
    pytest.importorskip("distributed")
    agrees(run("dask", logs=logs)["table"], value)


def test_ray(logs, value):
    ray = pytest.importorskip("ray")
    try:
        agrees(run("ray", logs=logs)["table"], value)
    finally:
        ray.shutdown()


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_spark_and_map_in_arrow(logs, folder, value):
    pytest.importorskip("pyspark")
    pytest.importorskip("joblibspark")
    names = run("spark", logs=logs)
    try:
        agrees(names["table"], value)
        frame = names["spark"].read.parquet(str(folder))
        agrees(run("map_in_arrow", frame=frame)["table"], value)
    finally:
        names["spark"].stop()


def test_a_daily_job(folder, tmp_path, value):
    add_day, total = run("daily")["add_day"], tmp_path / "total.npz"
    for day in range(4):
        table = add_day(folder / f"day-{day}.parquet", total)
    agrees(table, value)
    with pytest.raises(ValueError, match=r"day-3\.parquet"):
        add_day(folder / "day-3.parquet", total)
