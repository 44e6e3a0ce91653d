# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs from a file of any format that the package reads."""

import os
import re

from skope_ope.logs._text_files import empty_file, first_line
from skope_ope.readers._json_lines import MalformedLineError, load
from skope_ope.readers._read_open_bandit import NEEDED, read_open_bandit
from skope_ope.readers._read_vw import VW_PARSERS, read_vw
from skope_ope.readers._table_columns import TABLE_FORMATS, csv_at
from skope_ope.readers._table_logs import ReadLogs, read_table_logs
from skope_ope.readers._vw_json import LABEL_KEYS, OTHER_KEYS

VW_FORMATS = {f"vw-{name.replace('_', '-')}": name for name in VW_PARSERS}
LOG_FORMATS = (*TABLE_FORMATS, "open-bandit", "vw", *VW_FORMATS)


def read_logs(
    path,
    roles=None,
    *,
    format=None,
    like=None,
    align_with=None,
    as_frame=False,
    on_error="raise",
    report=None,
):
    """Read the logs of a file."""
    if format is None:
        format = tell_format(path)
        if format == "open-bandit" and roles is not None:
            format = "csv"
    if format in TABLE_FORMATS:
        if roles is None or roles.lacks_columns():
            raise ValueError(
                f"{path} is read as {format}: name the columns of the action and the "
                "reward with --action and --reward."
            )
        how = {"like": like, "report": report, "skip": on_error == "skip"}
        return read_table_logs(path, roles, format=format, **how)
    if roles is not None:
        raise ValueError(
            f"{path} is read as {format}, whose columns are known: leave out --action "
            "and the other options that name columns, or name another --format."
        )
    if format == "open-bandit":
        logs = read_open_bandit(path, align_with=align_with, as_frame=as_frame)
        return ReadLogs(logs, format)
    kind = VW_FORMATS.get(format)
    return ReadLogs(read_vw(path, format=kind, on_error=on_error), format)


# -- tell what kind of log a file holds, from its name and its first bytes -------------

PARQUET_MAGIC = b"PAR1"
VW_SUFFIXES = (".vw", ".dat", ".ldf", ".json", ".dsjson")
VW_KEYS = {"_multi", "_slots", "_outcomes", "_text", "_tag", *LABEL_KEYS, *OTHER_KEYS}
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
    if _is_parquet(path):
        return "parquet"
    line = first_line(path)
    if not line:
        raise empty_file(path)
    unpacked = path.removesuffix(".gz").removesuffix(".zst")
    if unpacked.endswith(VW_SUFFIXES):
        return "vw"
    if line.startswith("{"):
        return "vw" if _is_vw_event(line) else "jsonl"
    if unpacked.endswith(JSONL_SUFFIXES):
        return "jsonl"  # its reader says what is wrong
    before, bar, _ = line.partition("|")
    if bar and VW_LABEL.match(before.strip()):  # a label, a tag or nothing before it
        return "vw"
    is_open_bandit = set(NEEDED) <= set(csv_at(path).header)
    return "open-bandit" if is_open_bandit else "csv"


def table_format(path):
    """Return "parquet", "jsonl" or "csv" for a file that is known to be a table."""
    path = os.fspath(path)
    if _is_parquet(path):
        return "parquet"
    return "jsonl" if first_line(path).startswith("{") else "csv"


def _is_parquet(path):
    try:
        with open(path, "rb") as file:
            return file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
    except FileNotFoundError:
        return False  # the reader of lines says what to do


def _is_vw_event(line):
    try:
        event = dict(load(line))
    except MalformedLineError:  # its reader says what is wrong
        return any(f'"{key}"' in line for key in VW_KEYS)
    if not VW_KEYS.isdisjoint(event):
        return True
    return not DECISION_KEYS.isdisjoint(event) and type(event.get("c")) is tuple
