# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
What does the import cost?
==========================

Whatever builds on scikit-learn imports `sklearn.base` first; this script compares
`import skope_ope` with that alone, in fresh interpreters that take turns. It also lists
the packages that we load and scikit-learn does not, and weighs the wheel. The ratio of
the processor times is asserted, and that no heavy package is loaded. Run it as ::

    python examples/5_benchmarks/bench_import.py

The wheel is built where pip and setuptools (77 or newer) are installed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

try:
    ROOT = Path(__file__).resolve().parents[2]
except NameError:  # pasted into a notebook
    ROOT = Path.cwd()
STATEMENTS = {
    "pass": "an empty program",
    "import sklearn.base": "import sklearn.base",
    "import skope_ope": "import skope_ope",
}
AIM, MOST = 1.1, 1.2  # times the import of sklearn.base, CPU: wanted, asserted
UNWANTED = ("matplotlib", "numba", "pandas", "polars", "pyarrow", "torch")

# %%
# Time
# ----
# Processor time is what the child reports to the operating system when it ends. Every
# module is compiled beforehand, into a folder of its own, as an installation does.


def one_start(statement, bytecode):
    """CPU and wall seconds of a fresh interpreter that runs one statement."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-c", statement], cwd=ROOT, env=environment
    )
    if hasattr(os, "wait4"):
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        cpu = usage.ru_utime + usage.ru_stime
    else:  # Windows has no such report
        child.wait()
        cpu = time.perf_counter() - start
    if child.returncode:
        raise RuntimeError(f"{statement!r} failed")
    return cpu, time.perf_counter() - start


def start_times(n_repeats):
    times = {statement: [] for statement in STATEMENTS}
    with tempfile.TemporaryDirectory() as bytecode:
        for statement in STATEMENTS:
            one_start(statement, bytecode)
        for _ in range(n_repeats):
            for statement, found in times.items():
                found.append(one_start(statement, bytecode))
    return {
        statement: [min(column) for column in zip(*found, strict=True)]
        for statement, found in times.items()
    }


# %%
# What is loaded, and what is shipped
# -----------------------------------


def modules_after(statement):
    program = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    return set(json.loads(done.stdout))


def wheel_bytes():
    """Size of the wheel, or None where it cannot be built."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"  # a build leaves files behind
        (source / "docs").mkdir(parents=True)
        for name in ("pyproject.toml", "setup.cfg", "README.md", "docs/LICENSE.rst"):
            shutil.copy(ROOT / name, source / name)
        caches = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "skope_ope", source / "skope_ope", ignore=caches)
        command = [sys.executable, "-m", "pip", "wheel", ".", "-q", "--no-deps"]
        done = subprocess.run(
            [*command, "--no-build-isolation", "--wheel-dir", "dist"],
            cwd=source,
            capture_output=True,
        )
        wheels = list((source / "dist").glob("*.whl"))
        return None if done.returncode else wheels[0].stat().st_size


def main():
    parser = argparse.ArgumentParser(description="Cost of the import.")
    parser.add_argument("--repeats", type=int, default=11, help="alternating rounds")
    parser.add_argument("--most", type=float, default=MOST, help="times sklearn.base")
    options = parser.parse_args()
    times = start_times(options.repeats)
    empty = times["pass"]
    base = times["import sklearn.base"]
    ours = times["import skope_ope"]
    cpu, wall = (
        (mine - idle) / (other - idle)
        for mine, other, idle in zip(ours, base, empty, strict=True)
    )
    print(f"import skope_ope / import sklearn.base: CPU {cpu:.3f}, wall {wall:.3f}")
    print(f"  wanted: {AIM} of CPU; asserted: {options.most}")
    assert cpu <= options.most, f"the import costs {cpu:.2f} times that of sklearn.base"
    loaded = {name: modules_after(name) for name in STATEMENTS if name != "pass"}
    before, after = loaded.values()
    added = sorted(after - before)
    ours = [name for name in added if name.split(".")[0] == "skope_ope"]
    print(f"modules: {len(before)} of sklearn.base, {len(ours)} of ours, others:")
    print("  " + (", ".join(name for name in added if name not in ours) or "none"))
    heavy = sorted({name.split(".")[0] for name in added} & set(UNWANTED))
    print(f"of {', '.join(UNWANTED)} we load: {', '.join(heavy) or 'none'}")
    assert not heavy, f"imported without need: {', '.join(heavy)}"
    size = wheel_bytes()
    print("wheel: " + ("not built" if size is None else f"{size / 1024:.0f} KiB"))


if __name__ == "__main__":
    main()
