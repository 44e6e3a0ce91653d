# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from collections import Counter
from itertools import product

import pytest

from tests._cases import APART, covering, mark_thorough, spread


def test_the_first_and_the_last_case_are_among_those_that_are_spread():
    assert [spread(10, n) for n in (1, 2, 4)] == [{0}, {0, 9}, {0, 3, 6, 9}]
    assert [spread(3, n) for n in (3, 9)] == [{0, 1, 2}] * 2


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (5, 2), (2, 7), (3, 4, 6), (9,)])
def test_few_cases_hold_every_value_of_every_parameter(shape):
    places = product(*map(range, shape))
    cases = [dict(zip("abc", position, strict=False)) for position in places]
    kept = covering(cases)
    assert min(kept) == 0
    assert len(kept) == max(shape)
    for name, length in zip("abc", shape, strict=False):
        assert {cases[position][name] for position in kept} == set(range(length))


SUITE = """
import pytest

@pytest.mark.few_cases
@pytest.mark.parametrize("row", "xyz")
@pytest.mark.parametrize("column", "abc")
def test_matrix(row, column):
    pass

@pytest.mark.few_cases(2)
@pytest.mark.parametrize("n", [0, pytest.param(1, marks=pytest.mark.theory), 2, 3, 4])
def test_list(n):
    pass

@pytest.mark.thorough
def test_slow():
    pass
"""


def test_every_case_is_either_in_the_default_run_or_thorough(pytestconfig, tmp_path):
    (tmp_path / "test_suite.py").write_text(SUITE)
    options = ["-q", "--collect-only", "-c", str(pytestconfig.inipath), "-m", ""]
    options += ["--rootdir", str(tmp_path), "-p", "no:cacheprovider", str(tmp_path)]
    marks = Marks()
    pytest.main(options, plugins=[marks])
    assert marks.by_default == {"test_matrix": 3, "test_list": 2}
    assert marks.thorough == {"test_matrix": 6, "test_list": 2, "test_slow": 1}


class Marks:
    """Plugin that counts the cases of every test."""

    def pytest_collection_modifyitems(self, items):
        mark_thorough(items)
        marks = (set(APART).intersection(item.keywords) for item in items)
        cases = list(zip((item.originalname for item in items), marks, strict=True))
        self.by_default = Counter(test for test, apart in cases if not apart)
        self.thorough = Counter(test for test, apart in cases if "thorough" in apart)
