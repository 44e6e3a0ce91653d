# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Spark with two local executors, through joblibspark."""

import os
import shutil
import sys

import pytest
from joblib import parallel_config

from tests.engines import _laws

pytestmark = [
    pytest.mark.frames,
    pytest.mark.filterwarnings("ignore:Spark"),  # what local mode does not have
    pytest.mark.filterwarnings("ignore:`apply_async`:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
pytest.importorskip("pyarrow")
pyspark = pytest.importorskip("pyspark")
joblibspark = pytest.importorskip("joblibspark")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)


@pytest.fixture(scope="module")
def session():
    # executors start `python3` unless they are told which Python this is
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    joblibspark.register_spark()
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def engine(session):
    with parallel_config("spark", n_jobs=2):
        yield


def test_the_numbers_of_memory(tmp_path):
    # a task of Spark's costs a tenth of a second, whatever it does
    _laws.check_numbers(tmp_path, worlds=_laws.FAMILY_WORLDS[:2])


@pytest.mark.parametrize("law", _laws.LAWS)
def test_laws(tmp_path, law):
    law(tmp_path)
