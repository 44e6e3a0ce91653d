# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""README lists every benchmark, once."""

import re

from tests.examples._assertions import EXAMPLES
from tests.packaging._tree import ROOT


def test_readme_lists_every_benchmark_once():
    listed = re.findall(
        r"^\d+\. `(bench_\w+)`: ", (ROOT / "README.md").read_text(), re.M
    )
    scripts = sorted(path.stem for path in EXAMPLES.glob("5_benchmarks/bench_*.py"))
    assert sorted(listed) == scripts
