# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Tell what kind of log a file holds, from its name and its first bytes."""

import csv
import os
import re

from skope_ope.readers._open_bandit_table import NEEDED
from skope_ope.readers._text_files import empty_file, read_lines

PARQUET_MAGIC = b"PAR1"
VW_SUFFIXES = (".vw", ".dat", ".ldf", ".json", ".jsonl", ".dsjson")
VW_LABEL = re.compile(r"$|[-+.\d'][^,]*$|(shared|ccb|slates)\b[^,]*$")
SAMPLE = 20  # lines that are looked at


def tell_format(path):
    """Return "parquet", "vw", "open-bandit" or "csv".

    A folder is one of the Open Bandit Dataset; a csv file is, where its header has
    all the columns of that dataset's logs.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        return "open-bandit"
    lines = []
    for number, line in read_lines(path):
        if number == 1 and line.startswith(PARQUET_MAGIC.decode()):
            return "parquet"
        if line.strip():
            lines.append(line)
        if len(lines) == SAMPLE:
            break
    if not lines:
        raise empty_file(path)
    if _looks_like_vw(path, lines):
        return "vw"
    header = [name.strip() for name in next(csv.reader(lines[:1]))]
    return "open-bandit" if set(NEEDED) <= set(header) else "csv"


def _looks_like_vw(path, lines):
    if lines[0].lstrip().startswith("{"):
        return True
    if path.removesuffix(".gz").endswith(VW_SUFFIXES):
        return True
    # a label, a tag or nothing in front of the first bar
    before, bar, _ = lines[0].partition("|")
    return bool(bar) and VW_LABEL.match(before.strip()) is not None
