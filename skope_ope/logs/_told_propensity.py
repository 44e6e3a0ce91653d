# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The propensity as other fields tell it: whole distributions, and known loggers."""

import numpy as np

from skope_ope.exceptions import RowError
from skope_ope.logs._validation import (
    as_numbers,
    check_agreement,
    check_length,
    check_propensity,
    plain,
)

TELLING = ("logging_proba", "logger_proba")


def agreed_propensity(logs, names=TELLING):
    """Return the propensity of some logs, after a look at the fields that tell it."""
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
        f"{plain(logs.action[row])!r}{whose} ({len(never)} such rows). A logged action "
        f"has a positive probability. Correct {name}, or drop these rows."
    )


def check_logger_proba(logs, logger_proba):
    """Return a table of probabilities with a column for every logger."""
    proba = as_numbers("logger_proba", logger_proba, ndim=2)
    check_length("logger_proba", proba, len(logs))
    if logs.loggers is None:
        raise ValueError(
            "logger_proba needs `logger`, the logger that acted in each round: "
            "its columns follow the sorted distinct loggers."
        )
    if proba.shape[1] != len(logs.loggers):
        raise ValueError(
            f"logger_proba must have one column per logger ({len(logs.loggers)}: "
            f"{logs.loggers.tolist()}), got {proba.shape[1]}."
        )
    if proba.size and (proba.min() < 0 or proba.max() > 1 + 1e-9):
        row, column = np.argwhere((proba < 0) | (proba > 1 + 1e-9))[0]
        found = f"logger_proba must lie in [0, 1], got {proba[row, column]:.6g}"
        raise RowError(found, row, f", logger {plain(logs.loggers[column])!r}.")
    return proba
