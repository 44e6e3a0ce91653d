# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs from a file of any format that the package reads."""

from skope_ope.readers._log_format import tell_format
from skope_ope.readers._read_open_bandit import read_open_bandit
from skope_ope.readers._read_table import TABLES
from skope_ope.readers._read_vw import PARSERS, read_vw
from skope_ope.readers._table_logs import LogFile, read_table_logs

VW_FORMATS = {f"vw-{name.replace('_', '-')}": name for name in PARSERS}
FORMATS = (*TABLES, "open-bandit", "vw", *VW_FORMATS)


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
    if format in TABLES:
        if roles is None or not (roles.action and roles.reward):
            raise ValueError(
                f"{path} is read as {format}: name the columns of the action and the "
                "reward with --action and --reward."
            )
        return read_table_logs(path, roles, format=format, like=like, report=report)
    if roles is not None:
        raise ValueError(
            f"{path} is read as {format}, whose columns are known: leave out --action "
            "and the other options that name columns, or name another --format."
        )
    if format == "open-bandit":
        logs = read_open_bandit(path, align_with=align_with, as_frame=as_frame)
        return LogFile(logs, format)
    kind = VW_FORMATS.get(format)
    return LogFile(read_vw(path, format=kind, on_error=on_error), format)
