# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import gzip

import pytest

from skope_ope.exceptions import RowError
from skope_ope.readers._table_logs import Roles, read_table_logs
from skope_ope.readers._vw_event import errors_of_file

ROLES = Roles(action="a", reward="r", propensity="p", sample_weight="w", context=("x",))
LINES = [
    "a,r,p,x,w",  # line 1
    '0,0,0.5,"text',
    'over lines",1',
    "",
    "1,1,0.5,text,1",  # line 5
    "1,0,0.5,text,1",
]


def write(tmp_path, old, new, packed):
    text = "\n".join([*LINES[:5], LINES[5].replace(old, new)]) + "\n"
    path = tmp_path / "log.csv"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return path


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.5", "0", r"got 0 at line 6 \(1 such rows\)"),
        ("0.5", "50", "got 50 at line 6"),
        ("0.5", "1e-320", "propensity must lie .* at line 6"),
        ("text,1", "text,-1", "sample_weight must not be negative, got -1 at line 6"),
    ],
)
def test_rows_that_cannot_be_are_told_with_their_line(
    tmp_path, old, new, message, packed
):
    path = write(tmp_path, old, new, packed)
    with pytest.raises(ValueError, match=rf"log\.csv: .*{message}"):
        read_table_logs(path, ROLES)


def test_errors_of_all_rows_name_the_file(tmp_path):
    path = write(tmp_path, "1,0", "1,0", packed=False)
    path.write_text(path.read_text().replace(",1\n", ",0\n"))
    with pytest.raises(ValueError, match=r"log\.csv: sample_weight is zero everywhere"):
        read_table_logs(path, ROLES)


@pytest.mark.parametrize("error", [ValueError("of a kind"), TypeError("of a kind")])
def test_other_errors_keep_their_type(error):
    with (
        pytest.raises(type(error), match=r"^log\.x: of a kind$"),
        errors_of_file("log.x"),
    ):
        raise error


def test_files_without_lines_have_rows():
    with (
        pytest.raises(ValueError, match=r"^log\.x: odd at row 3\.$"),
        errors_of_file("log.x"),
    ):
        raise RowError("odd", 3, ".")
