# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Tell what kind of log a file holds, from its name and its first bytes."""

import os
import re

from skope_ope.readers._open_bandit_table import NEEDED
from skope_ope.readers._text_files import empty_file, first_line, open_csv

PARQUET_MAGIC = b"PAR1"
VW_SUFFIXES = (".vw", ".dat", ".ldf", ".json", ".jsonl", ".dsjson")
VW_LABEL = re.compile(r"$|[-+.\d'][^,]*$|(shared|ccb|slates)\b[^,]*$")


def tell_format(path):
    """Return "parquet", "vw", "open-bandit" or "csv".

    A folder is one of the Open Bandit Dataset; a csv file is, where its header has
    all the columns of that dataset's logs.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        return "open-bandit"
    if _starts_with(path, PARQUET_MAGIC):
        return "parquet"
    line = first_line(path)
    if not line:
        raise empty_file(path)
    if _looks_like_vw(path, line):
        return "vw"
    header, _ = open_csv(path)
    return "open-bandit" if set(NEEDED) <= set(header) else "csv"


def _starts_with(path, magic):
    try:
        with open(path, "rb") as file:
            return file.read(len(magic)) == magic
    except FileNotFoundError:
        return False  # the reader of lines says what to do


def _looks_like_vw(path, line):
    if line.startswith("{"):
        return True
    if path.removesuffix(".gz").endswith(VW_SUFFIXES):
        return True
    # a label, a tag or nothing in front of the first bar
    before, bar, _ = line.partition("|")
    return bool(bar) and VW_LABEL.match(before.strip()) is not None
