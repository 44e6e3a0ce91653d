# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import configparser
import re

import pytest

from tests.packaging import _tree
from tests.packaging._tree import MODULES, PACKAGE, ROOT, pyproject, tracked_files

TOP_LEVEL = {"README.md", "docs", "examples", "pyproject.toml", "setup.cfg"}
TOP_LEVEL |= {"skope_ope", "tests"}
DATA_FILE = re.compile(
    r"\.(csv|tsv|parquet|feather|npz|npy|pkl|pickle|joblib|skops|vw|dsjson|jsonl|dat|ldf"
    r"|arff|ipynb)(\.(gz|bz2|xz|zip|zst))?$"
)
# The patterns are written so that they do not match this file.
REGISTRY = re.compile(
    r"py[p]i|files\.python[h]osted|anaconda\.o[r]g|conda-f[o]rge|npm[j]s|crates\.i[o]",
    re.IGNORECASE,
)
MACHINE_PATH = re.compile(r"/(work|farm|root|home|opt|Users)/\w|/tmp/\w")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
SPDX = "# Authors: the skope_ope developers\n# SPDX-License-Identifier: BSD-3-Clause\n"

# Pages of docs/changes; all else there is a fragment of the next release.
CHANGES_PAGES = {"first_release.rst", "index.rst"}


def text_of(name):
    try:
        return (ROOT / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        pytest.fail(f"{name} is not a text file: data does not enter the repository")


def test_setup_cfg_holds_only_command_defaults():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    assert set(parser.sections()) <= {"egg_info", "sdist", "build", "bdist_wheel"}


def test_top_level_holds_only_what_the_design_allows_and_no_data():
    top = {name.split("/")[0] for name in tracked_files()}
    assert {name for name in top if not name.startswith(".")} <= TOP_LEVEL
    assert [name for name in tracked_files() if DATA_FILE.search(name)] == []
    sizes = {name: (ROOT / name).stat().st_size for name in tracked_files()}
    assert {name: size for name, size in sizes.items() if size > 100_000} == {}


@pytest.mark.parametrize("pattern", [REGISTRY, MACHINE_PATH])
def test_no_tracked_file_names_a_registry_or_a_path_of_a_machine(pattern):
    found = {name: pattern.findall(text_of(name)) for name in tracked_files()}
    assert {name: hits for name, hits in found.items() if hits} == {}


def test_every_python_file_has_its_licence_and_is_finished():
    names = [name for name in tracked_files() if name.endswith(".py")]
    assert [name for name in names if not text_of(name).startswith(SPDX)] == []
    names = [str(path.relative_to(ROOT)) for path in MODULES]
    assert [name for name in names if UNFINISHED.search(text_of(name))] == []


def lower_bounds(requirements):
    return {requirement.replace(">=", "==") for requirement in requirements}


def pins_of(name):
    """Return the exact versions that a file of requirements names."""
    return {line for line in text_of(f".ci/{name}").splitlines() if "==" in line}


def test_oldest_versions_are_the_lower_bounds():
    core = pyproject()["project"]["dependencies"]
    assert pins_of("oldest.txt") == lower_bounds(core)


def test_oldest_frames_and_figures_are_the_lower_bounds():
    extras = pyproject()["project"]["optional-dependencies"]
    named = {one for extra in ("frames", "lazy", "plot") for one in extras[extra]}
    assert pins_of("oldest-frames.txt") == lower_bounds(named)
    lines = text_of(".ci/oldest-frames.txt").splitlines()
    assert "-r oldest.txt" in lines
    assert "-r .ci/oldest-frames.txt" in text_of(".ci/run")


def test_dependencies_are_the_four_and_have_one_lower_bound():
    extras = pyproject()["project"]["optional-dependencies"]
    bounds = {}
    for requirement in {one for extra in extras.values() for one in extra}:
        name, bound = re.fullmatch(r"([\w-]+)(?:\[.*\])?>=(.+)", requirement).groups()
        bounds.setdefault(name, set()).add(bound)
    assert {name: found for name, found in bounds.items() if len(found) > 1} == {}
    names = [
        re.match(r"[\w-]+", one)[0] for one in pyproject()["project"]["dependencies"]
    ]
    assert set(names) == {"numpy", "scipy", "scikit-learn", "joblib"}


def test_changes_are_fragments_of_a_known_type():
    types = {kind["directory"] for kind in pyproject()["tool"]["towncrier"]["type"]}
    folder = ROOT / "docs" / "changes"
    for name in {path.name for path in folder.glob("*.rst")} - CHANGES_PAGES:
        issue, kind, suffix = name.split(".", maxsplit=2)
        assert issue.lstrip("+").split("-")[0].isdigit() or issue.startswith("+"), name
        assert kind in types, name
        assert re.fullmatch(r"(\d+\.)?rst", suffix), name


def test_the_page_of_the_first_release_goes_through_the_folders():
    text = text_of("docs/changes/first_release.rst")
    titles = re.findall(r"^``skope_ope\.(\w+)``: .+\n-+$", text, re.M)
    folders = {path.parent.name for path in PACKAGE.glob("[a-z]*/__init__.py")}
    assert set(titles) == folders
    assert text.count("\n") <= 200
    known = {name.split(".")[-1] for name, _ in _tree.public_objects().values()}
    assert set(re.findall(r"(?<![`:])`(\w+)`(?!`)", text)) - known == set()


def test_ci_runs_the_one_script_on_every_supported_python():
    workflow = text_of(".github/workflows/ci.yml")
    versions = re.search(r"python-version: \[(.+)\]", workflow)[1]
    named = re.findall(
        r"Python :: (3\.\d+)", str(pyproject()["project"]["classifiers"])
    )
    assert re.findall(r'"(.+?)"', versions) == named
    assert re.findall(r"- run: (.+)", workflow) == ["bash .ci/run"]
    assert pyproject()["project"]["requires-python"] == f">={named[0]}"
    # the oldest packages have wheels for this one alone
    assert f"!= ({named[0].replace('.', ', ')})" in text_of(".ci/run")


def test_links_of_the_pages_for_contributors_lead_to_files():
    folder = ROOT / ".github"
    pages = list(folder.rglob("*.md"))
    assert {path.name for path in pages} >= {"CONTRIBUTING.md", "SECURITY.md"}
    for page in pages:
        links = re.findall(r"\]\((?!https:)([^)#]+)", page.read_text())
        paths = re.findall(
            r"`((?:\.ci|docs|examples|skope_ope|tests)/[\w./]+)`", page.read_text()
        )
        missing = [link for link in links if not (page.parent / link).exists()]
        missing += [path for path in paths if not (ROOT / path).exists()]
        assert missing == [], page.name
