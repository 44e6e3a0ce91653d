# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The name that somebody may have meant who misspelt it."""

from difflib import get_close_matches


def meant(name, known):
    """Return " Did you mean 'x'?" where one of the known names is near, else "".

    Parameters
    ----------
    name : str
        What was given.
    known : iterable of str
        What there is.
    """
    near = get_close_matches(str(name), list(map(str, known)), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
