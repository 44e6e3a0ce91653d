# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Texts that others have written: fit to be shown, and near known names."""

import re
from difflib import get_close_matches
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
    >>> from skope_ope._texts import harmless
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


def one_line(text, longest=None):
    """Return a text in one line, of so many characters at most."""
    text = " ".join(str(text).split())
    cut = longest is not None and len(text) > longest
    return f"{text[:longest]}..." if cut else text


# -- the name that somebody may have meant who misspelt it -----------------------------


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
