# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The Open Bandit Dataset, from a folder where it lies."""

from __future__ import annotations

import os
from pathlib import Path as Folder

from skope_ope._sklearn import StrOptions, validate_params
from skope_ope._types import Path
from skope_ope.datasets._load import DATA_HOME_VARIABLE
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.policies import UniformSlatePolicy
from skope_ope.readers._read_open_bandit import read_open_bandit

LOGGER_NAMES, CAMPAIGNS = ("random", "bts"), ("all", "men", "women")
FOLDERS_OF_DATA = (
    "",
    "obd",
    "open_bandit_dataset",
    "obp/dataset/obd",
)  # the last: of a clone
SMALL_VERSION = "https://github.com/st-tech/zr-obp"
FULL_VERSION = "https://research.zozo.com/data.html"


@validate_params(
    {
        "campaign": [StrOptions(set(CAMPAIGNS))],
        "logger": [StrOptions(set(LOGGER_NAMES))],
        "data_home": [str, os.PathLike, None],
        "align": ["boolean"],
        "as_frame": ["boolean"],
        "as_slates": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def fetch_open_bandit(
    campaign: str = "men",
    *,
    logger: str = "random",
    data_home: Path | None = None,
    align: bool = True,
    as_frame: bool = False,
    as_slates: bool = False,
) -> BanditLogs | SlateLogs:
    r"""Read a log of the Open Bandit Dataset from a folder.

    Nothing is downloaded. If the data are missing, the error says where to get them
    and by which command. Read more in the :ref:`User Guide <datasets>`.

    Parameters
    ----------
    campaign : {"all", "men", "women"}, default="men"
        The campaign.
    logger : {"random", "bts"}, default="random"
        The logger: uniformly random, or Bernoulli Thompson sampling.
    data_home : str or path-like, default=None
        Folder with `<logger>/<campaign>/<campaign>.csv`, directly or in a folder `obd`
        or `open_bandit_dataset`; or a clone of the repository [1]_. `None`: the
        environment variable SKOPE_OPE_DATA.
    align : bool, default=True
        Whether the context also has columns for the users of the other logger, if that
        log exists. Logs of both loggers then have the same columns.
    as_frame : bool, default=False
        Whether the context is a pandas frame.
    as_slates : bool, default=False
        Whether to return slates of one slot, see `read_open_bandit`.

    Returns
    -------
    logs : BanditLogs or SlateLogs
        As `read_open_bandit` returns them. Slates of the logger
        "random" come with their `logging_policy`.

    Raises
    ------
    FileNotFoundError
        If the file does not exist. The message says where to get it.

    See Also
    --------
    skope_ope.readers.read_open_bandit : Reads one file by its path.

    Notes
    -----
    The small version has 10,000 rows a log. It is part of the repository of the Open
    Bandit Pipeline [1]_, whose licence is Apache-2.0. The full version has 26 million
    rows; its page [2]_ states the terms of use.

    References
    ----------
    .. [1] https://github.com/st-tech/zr-obp
    .. [2] https://research.zozo.com/data.html

    Examples
    --------
    >>> import os, tempfile
    >>> from skope_ope.datasets import fetch_open_bandit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     os.makedirs(os.path.join(folder, "random", "men"))
    ...     with open(os.path.join(folder, "random", "men", "men.csv"), "w") as file:
    ...         _ = file.write(
    ...             "timestamp,item_id,position,click,propensity_score\n"
    ...             "2019-11-24 00:00:01+00:00,1,3,0,0.5\n"
    ...             "2019-11-24 00:00:02+00:00,0,1,1,0.5\n"
    ...         )
    ...     logs = fetch_open_bandit("men", logger="random", data_home=folder)
    >>> logs
    BanditLogs(n_rounds=2, n_features=3, n_actions=2)
    """
    home = os.environ.get(DATA_HOME_VARIABLE) if data_home is None else data_home
    path = _find_log(home, logger, campaign) if home else None
    if path is None:
        raise FileNotFoundError(_where_to_get(home, logger, campaign))
    other = None
    if align:
        other = _find_log(
            home, next(one for one in LOGGER_NAMES if one != logger), campaign
        )
    logs = read_open_bandit(
        path, align_with=other, as_frame=as_frame, as_slates=as_slates
    )
    if as_slates and logger == "random":
        return logs.replace(logging_policy=UniformSlatePolicy(1))
    return logs


def _find_log(home, logger, campaign):
    """Return the file of a log, or None."""
    home = Folder(home).expanduser()
    for inner in FOLDERS_OF_DATA:
        for end in (".csv", ".csv.gz"):
            path = home / inner / logger / campaign / f"{campaign}{end}"
            if path.is_file():
                return path
    # a flat folder that keeps one file a log
    path = home / f"obd_{logger}_{campaign}.csv.gz"
    return path if path.is_file() else None


def _where_to_get(home, logger, campaign):
    name = f"{logger}/{campaign}/{campaign}.csv"
    if home:
        found = f"the folder {os.fspath(home)} holds no {name}"
    else:
        found = f"no folder is named: pass data_home, or set {DATA_HOME_VARIABLE}"
    return (
        f"the Open Bandit Dataset is missing: {found}. Nothing is downloaded for you. "
        "The small version, 10,000 rows a log, is part of the Open Bandit Pipeline "
        f"(licence Apache-2.0): git clone --depth 1 {SMALL_VERSION}, then data_home="
        f"'zr-obp'. The full version, 26 million rows, is at {FULL_VERSION}, where its "
        "terms are stated. Cite Saito et al., arXiv:2008.07146."
    )
