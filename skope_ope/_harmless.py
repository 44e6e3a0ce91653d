# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Texts that others have written, such as labels of a file, fit to be shown."""

import re
from unicodedata import category

# Controls, formats, lone surrogates, line and paragraph ends: a terminal obeys them,
# or shows the letters around them in another order, or cannot write them.
HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
JOINERS = "\u200c\u200d"  # formats, too, but they shape letters and emoji
SUSPECT = re.compile(r"[^ -~\u00ae-\u02ff]")  # what most texts are made of is none


def harmless(text):
    r"""Return a text whose hidden characters are shown as Python's escapes.

    Parameters
    ----------
    text : object
        What is to be shown; no text is taken as `str` gives it.

    Returns
    -------
    shown : str
        The text; a control such as ESC stands there as ``\x1b``.

    Examples
    --------
    >>> from skope_ope._harmless import harmless
    >>> harmless("\x1b[2Jred")
    '\\x1b[2Jred'
    >>> harmless("Zürich")
    'Zürich'
    """
    return SUSPECT.sub(_escaped, str(text))


def _escaped(match):
    char = match.group()
    if category(char) not in HIDDEN_CATEGORIES or char in JOINERS:
        return char
    return repr(char)[1:-1]
