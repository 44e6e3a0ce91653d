# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The propensity as other fields tell it: whole distributions, and known loggers."""

import numpy as np

from skope_ope.logs._validation import check_agreement, check_propensity, plain

TELLING = ("logging_proba", "logger_proba")


def agreed_propensity(logs, names=TELLING):
    """Return the propensity of some logs, after a look at the fields that tell it.

    Parameters
    ----------
    logs : BanditLogs
        With the fields.
    names : sequence of {"logging_proba", "logger_proba"}
        Which of them are asked.

    Returns
    -------
    propensity : ndarray of shape (n_rounds,) or None
        The recorded one, which they must not contradict, or else what they tell.
    """
    propensity = logs.propensity
    for name in names:
        proba = getattr(logs, name)
        if proba is None:
            continue
        code = logs.action_index if name == "logging_proba" else logs.logger_index
        told = proba[np.arange(len(logs)), code]
        if propensity is None:
            _check_possible(logs, name, told)
            propensity = check_propensity(told, len(logs))
        else:
            check_agreement(propensity, name, told)
    return propensity


def _check_possible(logs, name, told):
    """Raise where a field says that what was logged cannot have been."""
    never = np.flatnonzero(told < np.finfo(float).tiny)
    if not never.size:
        return
    row, whose = int(never[0]), ""
    if name == "logger_proba":
        whose = f" under logger {plain(logs.logger[row])!r}, which acted there"
        if not logs.logger_proba[row].any():
            whose += ", and under every other logger"
    raise ValueError(
        f"{name} is {told[row]:.9g} at row {row} for the logged action "
        f"{plain(logs.action[row])!r}{whose} ({len(never)} such rows): it cannot have "
        f"been logged. Correct {name}, or drop these rows."
    )
