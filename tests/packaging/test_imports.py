# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import ast
import json
import subprocess
import sys
from graphlib import TopologicalSorter

from tests.packaging._tree import MODULES, PACKAGE, ROOT, imports_of

# The flow of the data: a folder imports only from what stands before it.
FLOW = [
    *("_interrupted", "_texts", "_types", "_pairs", "exceptions", "_sklearn"),
    *("_progress", "_parallel"),
    *("logs", "readers", "propensities", "policies", "reward_models", "intervals"),
    *("displays", "evaluators", "audit", "selection", "learning", "reports"),
    *("datasets", "utils"),
]
# Likewise inside folders that have rooms of their own; "" are the files beside them.
ROOMS = {
    "logs": ["", "sums", "checks", "lazy"],
    "evaluators": [
        *("core", "parts", "frames", "base", "static", "sequential", "scavenging"),
        *("multi_logger", "adaptive_logger", "slate", ""),
    ],
    "policies": ["", "adaptive", "slate"],
}
# They gather the names of all folders, or put them to work in the shell.
EXEMPT = {"__init__", "__main__", "_shell", "base"}
# Logs, in memory and as sums, keep what their checks found; no check imports them.
CHECKED = {
    ("logs/_bandit_logs.py", "checks"),
    ("logs/_slate_logs.py", "checks"),
    ("logs/sums/_log_sums.py", "checks"),
    ("logs/sums/_row_sample.py", "checks"),
}
# Methods that open a door further down, importing inside the function.
DOORS = {
    ("logs/_transformer.py", "lazy"),  # what is said of lazy logs
    (
        "displays/_comparison_display.py",
        "selection",
    ),  # gains to be computed
}
OPTIONAL = {"IPython", "matplotlib", "narwhals", "numba", "pandas", "polars", "pyarrow"}
OPTIONAL |= {"seaborn", "skops", "torch", "tqdm"}
# The arrows of modules without which no circle is left.
CIRCLES = {
    ("displays._comparison_display", "selection"),
}
# Parts of scikit-learn whose import costs more than our whole package.
HEAVY = "calibration compose datasets ensemble feature_extraction inspection pipeline"
HEAVY += " linear_model model_selection naive_bayes neighbors preprocessing svm tree"
HEAVY = {f"sklearn.{name}" for name in HEAVY.split()}


def stage_of(parts):
    return parts[0].removesuffix(".py") if parts else "__init__"


def test_a_folder_imports_only_from_folders_above_it():
    for path in MODULES:
        here = stage_of(path.relative_to(PACKAGE).parts)
        if here in EXEMPT:
            continue
        assert here in FLOW, f"{here} has no place in the flow of the data"
        allowed = {"", *FLOW[: FLOW.index(here) + 1]}
        for node, name, at_top in imports_of(path):
            if name.split(".")[0] != "skope_ope":
                continue
            there = name.removeprefix("skope_ope").lstrip(".").split(".")[0]
            if there == "":
                # `from skope_ope import X` would load all folders; `import skope_ope`
                # itself does not stand before any of them either.
                assert isinstance(node, ast.ImportFrom), f"{path}:{node.lineno}"
                assert {alias.name for alias in node.names} <= set(FLOW), path
                continue
            door = (path.relative_to(PACKAGE).as_posix(), there)
            assert there in allowed or (door in DOORS and not at_top), (
                f"{path}:{node.lineno} {here} imports {there}"
            )


def room_of(parts):
    """Room of a module inside its folder, "" for the files beside the rooms."""
    return parts[1] if len(parts) > 1 and not parts[1].startswith("_") else ""


def test_a_room_imports_only_from_rooms_above_it():
    for path in MODULES:
        parts = path.relative_to(PACKAGE).parts
        folder = stage_of(parts)
        if folder not in ROOMS or parts[1:] == ("__init__.py",):
            continue
        rooms, here = ROOMS[folder], room_of(parts)
        assert here in rooms, f"{here} has no place in {folder}"
        for node, name, at_top in imports_of(path):
            there = name.split(".")[1:]
            if name.split(".")[0] == "skope_ope" and there[:1] == [folder]:
                room = room_of(there)
                door = (path.relative_to(PACKAGE).as_posix(), room)
                above = room in rooms[: rooms.index(here) + 1]
                opened = door in CHECKED or (door in DOORS and not at_top)
                assert above or opened, (
                    f"{path}:{node.lineno} {folder}/{here} imports {folder}/{room}"
                )


def test_modules_import_each_other_in_no_circle():
    """Imports inside functions count, those for type checkers alone do not."""
    names = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in MODULES
    }
    graph = {}
    for path in MODULES:
        here = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for node, name, at_top in imports_of(path):
            there = name.removeprefix("skope_ope").lstrip(".")
            inner = [f"{there}.{alias.name}" for alias in node.names]
            inner = {*inner, *(f"{one}.__init__" for one in inner)} & names
            one = there if there in names else f"{there}.__init__".lstrip(".")
            known = one in names - {here} and here != "__init__" and not inner
            if known and at_top is not None and (here, there) not in CIRCLES:
                graph.setdefault(here, set()).add(one)
    TopologicalSorter(graph).prepare()


def test_private_names_of_scikit_learn_are_imported_in_one_module():
    for path in MODULES:
        if path.name == "_sklearn.py":
            continue
        for node, name, _ in imports_of(path):
            private = [part for part in name.split(".")[1:] if part.startswith("_")]
            outside = not name.startswith("sklearn")
            assert outside or not private, f"{path}:{node.lineno} {name}"


def test_imports_are_absolute_and_of_heavy_packages_inside_functions():
    for path in MODULES:
        for node, _, _ in imports_of(path):
            level = getattr(node, "level", 0)
            assert level == 0, f"{path}:{node.lineno} is a relative import"
    for path in MODULES:
        for node, name, top in imports_of(path):
            if top:
                assert name.split(".")[0] not in OPTIONAL, (
                    f"{path}:{node.lineno} {name}"
                )
                heavy = ".".join(name.split(".")[:2]) in HEAVY
                assert not heavy, f"{path}:{node.lineno} {name}"


def modules_after(*statements):
    """Modules loaded after each statement in one fresh interpreter."""
    program = ["import json, sys", "seen = []"]
    for statement in statements:
        program += [statement, "seen.append(sorted(sys.modules))"]
    program.append("print(json.dumps(seen))")
    output = subprocess.run(
        [sys.executable, "-c", "\n".join(program)],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    return [set(names) for names in json.loads(output)]


def test_import_loads_nothing_heavy():
    """Compared with sklearn.base, which itself may load narwhals."""
    before, after = modules_after("import sklearn.base", "import skope_ope")
    loaded = after - before
    assert {name for name in loaded if name.split(".")[0] in OPTIONAL} == set()
    assert {".".join(name.split(".")[:2]) for name in loaded} & HEAVY == set()
    strangers = {name.split(".")[0] for name in loaded} - sys.stdlib_module_names
    assert strangers <= {"skope_ope", "numpy", "scipy", "sklearn", "joblib"}


def test_submodules_need_no_import_of_their_own():
    modules = {path.parts[0].removesuffix(".py") for path in _public_modules()}
    asked = "; ".join(f"skope_ope.{name}" for name in sorted(modules))
    code = (
        "import skope_ope; assert {'base', 'datasets', 'utils'} <= set(dir(skope_ope));"
        f"{asked}; skope_ope.utils.estimator_checks.check_evaluator"
    )
    before, after = modules_after("import skope_ope", code)
    new = {"skope_ope.base", "skope_ope.datasets", "skope_ope.utils"}
    assert not new & before
    assert new <= after


def _public_modules():
    """Return the paths of public modules and folders at the top, below the package."""
    for path in PACKAGE.iterdir():
        public = not path.name.startswith("_")
        if public and (path.suffix == ".py" or (path / "__init__.py").is_file()):
            yield path.relative_to(PACKAGE)
