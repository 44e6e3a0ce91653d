# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a report of a bug should say about the installation."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

SHOWN_PACKAGES = (
    "skope-ope",
    "numpy",
    "scipy",
    "scikit-learn",
    "joblib",
    "threadpoolctl",
    "narwhals",
    "pandas",
    "polars",
    "pyarrow",
    "matplotlib",
    "skops",
    "pip",
    "setuptools",
)


def show_versions() -> None:
    """Write versions of Python, the system and the packages to standard output.

    Examples
    --------
    >>> from skope_ope.utils import show_versions
    >>> show_versions()  # doctest: +SKIP
    """
    lines = []
    for title, known in ("System", _system()), ("Packages", _packages()):
        lines += ["", f"{title}:"]
        lines += [f"{name:>14}: {text}" for name, text in known.items()]
    sys.stdout.write("\n".join(lines) + "\n")


def _system():
    return {
        "python": sys.version.replace("\n", " "),
        "executable": sys.executable,
        "machine": platform.platform(),
        "cpus": f"{os.cpu_count()}",
    }


def _packages():
    """Versions from the metadata: nothing is imported, None is not installed."""
    found = {}
    for name in SHOWN_PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    if found["skope-ope"] is None:  # run from a work tree
        found["skope-ope"] = sys.modules["skope_ope"].__version__
    return found
