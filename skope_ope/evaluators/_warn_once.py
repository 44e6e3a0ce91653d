# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Warnings that several values have in common, given once."""

import warnings

NAMED = 3  # policies that a warning names; of more, their number is


def warn_once(values, stacklevel):
    """Warn of what values warn of: once, and of which policies if not of all.

    Parameters
    ----------
    values : iterable of (name, PolicyValue or ConfidenceInterval)
        With the name of the policy.
    stacklevel : int
        As `warnings.warn` takes it, of the function that calls this one.
    """
    policies, about = set(), {}
    for name, value in values:
        policies.add(name)
        for warning in value.warnings:
            key = (type(warning), str(warning))
            _, names = about.setdefault(key, (warning, {}))
            names[name] = True
    for (kind, text), (warning, names) in about.items():
        if len(names) < len(policies):
            warning = kind(f"{_first_of(names)}: {text}", warning.value)
        warnings.warn(warning, stacklevel=stacklevel + 1)


def _first_of(names):
    """Return some names as a text, those of many policies shortened."""
    names = [str(name) for name in names]
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
