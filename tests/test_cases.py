# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from itertools import product

import pytest

from tests._cases import covering, spread


@pytest.mark.parametrize(
    ("length", "n", "kept"),
    [
        (10, 1, {0}),
        (10, 2, {0, 9}),
        (10, 4, {0, 3, 6, 9}),
        (3, 3, {0, 1, 2}),
        (3, 9, {0, 1, 2}),
    ],
)
def test_the_first_and_the_last_case_are_among_those_that_are_spread(length, n, kept):
    assert spread(length, n) == kept


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (5, 2), (2, 7), (3, 4, 6), (9,)])
def test_few_cases_hold_every_value_of_every_parameter(shape):
    cases = [
        dict(zip("abc", positions, strict=False))
        for positions in product(*map(range, shape))
    ]
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


@pytest.mark.parametrize(
    ("marker", "matrix", "single", "slow"),
    [
        ("not thorough and not theory", 3, 2, 0),
        ("thorough", 6, 2, 1),
        ("theory", 0, 1, 0),
    ],
)
def test_the_default_run_and_the_thorough_one_take_every_case_between_them(
    pytestconfig, tmp_path, marker, matrix, single, slow
):
    (tmp_path / "conftest.py").write_text(
        "from tests._cases import mark_thorough\n"
        "def pytest_collection_modifyitems(items):\n"
        "    mark_thorough(items)\n"
    )
    (tmp_path / "test_suite.py").write_text(SUITE)
    options = ["-q", "-m", marker, "-c", str(pytestconfig.inipath)]
    options += ["--rootdir", str(tmp_path), "-p", "no:cacheprovider", str(tmp_path)]
    names = Names()
    pytest.main([*options, "--collect-only"], plugins=[names])
    assert [names.of(t) for t in ("matrix", "list", "slow")] == [matrix, single, slow]


class Names:
    """Plugin that keeps the names of the tests to run."""

    def pytest_collection_finish(self, session):
        self.names = [item.name for item in session.items]

    def of(self, test):
        return sum(name.split("[")[0] == f"test_{test}" for name in self.names)
