# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The name that somebody may have meant who misspelt it."""

from difflib import get_close_matches


def meant(name, known):
    """Return " Did you mean 'x'?" where one of the known names is near, else ""."""
    near = nearest(name, known)
    return "" if near is None else f" Did you mean {near!r}?"


def nearest(name, known, cutoff=0.6):
    """Return the known name that is spelt most like a given one; None where none is."""
    # Upper and lower case are the same. A number is near a text that holds it, and near
    # no other number.
    is_text = isinstance(name, str)
    names = {
        str(one).casefold(): str(one) if isinstance(one, str) else one
        for one in known
        if is_text or isinstance(one, str)
    }
    near = get_close_matches(str(name).casefold(), names, n=1, cutoff=cutoff)
    return names[near[0]] if near else None
