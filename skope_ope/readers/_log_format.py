# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Tell what kind of log a file holds, from its name and its first bytes."""

import os
import re

from skope_ope.logs._text_files import empty_file, first_line
from skope_ope.readers._csv_columns import open_csv
from skope_ope.readers._json_lines import OBJECTS, load
from skope_ope.readers._open_bandit_table import NEEDED
from skope_ope.readers._vw_event import MalformedLineError
from skope_ope.readers._vw_json import LABEL, OTHER_KEYS

PARQUET_MAGIC = b"PAR1"
VW_SUFFIXES = (".vw", ".dat", ".ldf", ".json", ".dsjson")
VW_KEYS = {"_multi", "_slots", "_outcomes", "_text", "_tag", *LABEL, *OTHER_KEYS}
DECISION_KEYS = {"a", "p", "o", "EventId", "Timestamp"}  # of dsjson, beside "c"
JSONL_SUFFIXES = (".jsonl", ".ndjson")
VW_LABEL = re.compile(r"$|[-+.\d'][^,]*$|(shared|ccb|slates)\b[^,]*$")


def tell_format(path):
    """Return "parquet", "vw", "jsonl", "open-bandit" or "csv"."""
    # A line of JSON is an event of Vowpal Wabbit where the name of the file or its keys
    # say so. A folder is one of the Open Bandit Dataset; a csv file is, where its
    # header has all the columns of that dataset's logs.
    path = os.fspath(path)
    if os.path.isdir(path):
        return "open-bandit"
    if _starts_with(path, PARQUET_MAGIC):
        return "parquet"
    line = first_line(path)
    if not line:
        raise empty_file(path)
    if _unpacked(path).endswith(VW_SUFFIXES):
        return "vw"
    if line.startswith("{"):
        return "vw" if _is_vw_event(line) else "jsonl"
    if _unpacked(path).endswith(JSONL_SUFFIXES):
        return "jsonl"  # its reader says what is wrong
    if _looks_like_vw(line):
        return "vw"
    header, _ = open_csv(path)
    return "open-bandit" if set(NEEDED) <= set(header) else "csv"


def table_format(path):
    """Return "parquet", "jsonl" or "csv" for a file that is known to be a table."""
    path = os.fspath(path)
    if _starts_with(path, PARQUET_MAGIC):
        return "parquet"
    return "jsonl" if first_line(path).startswith("{") else "csv"


def _starts_with(path, magic):
    try:
        with open(path, "rb") as file:
            return file.read(len(magic)) == magic
    except FileNotFoundError:
        return False  # the reader of lines says what to do


def _unpacked(path):
    return path.removesuffix(".gz").removesuffix(".zst")


def _is_vw_event(line):
    try:
        event = load(line)
    except MalformedLineError:  # its reader says what is wrong
        return any(f'"{key}"' in line for key in VW_KEYS)
    keys = {key for key, _ in event}
    if not keys.isdisjoint(VW_KEYS):
        return True
    is_decision = not keys.isdisjoint(DECISION_KEYS)
    return is_decision and isinstance(event.get("c"), OBJECTS)


def _looks_like_vw(line):
    # a label, a tag or nothing in front of the first bar
    before, bar, _ = line.partition("|")
    return bool(bar) and VW_LABEL.match(before.strip()) is not None
