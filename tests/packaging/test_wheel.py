# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import shutil
import subprocess
import sys
import zipfile

import pytest

import skope_ope
from tests.packaging._tree import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy so that the work tree stays as it is."""
    setuptools = pytest.importorskip("setuptools")
    if int(setuptools.__version__.split(".")[0]) < 77:
        pytest.skip("needs setuptools 77 or newer")
    pytest.importorskip("pip")
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.cfg", "README.md"):
        shutil.copy(ROOT / name, source)
    unwanted = shutil.ignore_patterns(
        "__pycache__", "*.pyc", "_build", "auto_examples", "generated", "api"
    )
    for name in ("skope_ope", "docs", "tests"):
        shutil.copytree(ROOT / name, source / name, ignore=unwanted)
    command = [sys.executable, "-m", "pip", "wheel", ".", "-q", "--no-deps"]
    subprocess.run(
        [*command, "--no-build-isolation", "--wheel-dir", "dist"],
        cwd=source,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    (path,) = (source / "dist").glob("*.whl")
    return path


@pytest.mark.thorough
def test_wheel_is_small_and_holds_the_package_only(wheel):
    assert wheel.stat().st_size <= 1.75 * 2**20
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names}
    assert top == {"skope_ope", f"skope_ope-{skope_ope.__version__}.dist-info"}
    assert not [name for name in names if "test_" in name]
    assert "skope_ope/py.typed" in names


@pytest.mark.thorough
def test_wheel_holds_every_module(wheel):
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name[-3:] == ".py"}
    package = ROOT / "skope_ope"
    outside = {str(path.relative_to(ROOT)) for path in package.rglob("*.py")}
    assert inside == outside


def test_wheel_metadata(wheel):
    archive = zipfile.ZipFile(wheel)
    folder = f"skope_ope-{skope_ope.__version__}.dist-info"
    metadata = archive.read(f"{folder}/METADATA").decode()
    assert f"\nVersion: {skope_ope.__version__}\n" in metadata
    assert "\nLicense-Expression: BSD-3-Clause\n" in metadata
    assert "\nRequires-Python: >=3.11\n" in metadata
    entry_points = archive.read(f"{folder}/entry_points.txt").decode()
    assert "skope-ope = skope_ope.__main__:main" in entry_points
    assert any(name.endswith("LICENSE.rst") for name in archive.namelist())
