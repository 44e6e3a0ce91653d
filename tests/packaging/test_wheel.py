# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

import skope_ope
from tests.packaging._tree import ROOT, pyproject, tracked_files

FOLDERS = (".ci", ".github", "docs", "examples", "skope_ope", "tests")
FILES = (".gitignore", "README.md", "pyproject.toml", "setup.cfg")
MADE = (
    "docs/_build/index.html",
    "docs/api/a.rst",
    "tests/__pycache__/a.cpython-311.pyc",
)
BUILD_SDIST = (
    "import sys; sys.path.insert(0, '.ci'); from build_backend import build_sdist; "
    "build_sdist('dist')"
)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The unpacked sdist, built from a copy so that the work tree stays as it is."""
    setuptools = pytest.importorskip("setuptools")
    if int(setuptools.__version__.split(".")[0]) < 77:
        pytest.skip("needs setuptools 77 or newer")
    source = tmp_path_factory.mktemp("source")
    unwanted = shutil.ignore_patterns(
        "__pycache__", "*.pyc", "_build", "auto_examples", "generated", "api"
    )
    for name in FILES:
        shutil.copy(ROOT / name, source)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=unwanted)
    for name in MADE:  # by a build of the site and by tests: they stay behind
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).touch()
    run([sys.executable, "-c", BUILD_SDIST], cwd=source)
    (path,) = (source / "dist").glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(source / "unpacked", filter="data")
    return source / "unpacked" / path.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(sdist):
    """The wheel, built from the sdist as installers do."""
    pytest.importorskip("pip")
    command = [sys.executable, "-m", "pip", "wheel", ".", "-q", "--no-deps"]
    run([*command, "--no-build-isolation", "--wheel-dir", "dist"], cwd=sdist)
    (path,) = (sdist / "dist").glob("*.whl")
    return path


def run(command, cwd):
    subprocess.run(command, cwd=cwd, check=True, stdin=subprocess.DEVNULL)


def test_sdist_holds_what_is_tracked_and_needed_and_nothing_made(sdist):
    assert [name for name in tracked_files() if not (sdist / name).exists()] == []
    needed = [path for name in FOLDERS for path in (ROOT / name).rglob("*.py")]
    made = {"__pycache__", "_build", "api", "auto_examples", "generated"}
    names = [path.relative_to(ROOT) for path in needed]
    names = [name for name in names if not made & set(name.parts)]
    assert [str(name) for name in names if not (sdist / name).exists()] == []
    assert [name for name in MADE if (sdist / name).exists()] == []
    assert pyproject()["build-system"]["backend-path"] == [".ci"]
    assert all((sdist / name).exists() for name in FILES)


@pytest.mark.thorough
def test_wheel_is_small_and_holds_every_module(wheel):
    assert wheel.stat().st_size <= 1.75 * 2**20
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names}
    assert top == {"skope_ope", f"skope_ope-{skope_ope.__version__}.dist-info"}
    assert not [name for name in names if "test_" in name]
    assert "skope_ope/py.typed" in names
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
