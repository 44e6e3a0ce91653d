# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
import sys
from unicodedata import category

import pytest

from skope_ope._harmless import HIDDEN_CATEGORIES, JOINERS, harmless
from skope_ope.exceptions import OPEWarning


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("a\r\nb\tc\x00", r"a\r\nb\tc\x00"),
        ("\x7f\x9b31m", r"\x7f\x9b31m"),
        ("user\u202egnp.exe", r"user\u202egnp.exe"),
        ("\u2066\u200b\ufeff\u2028\xad", r"\u2066\u200b\ufeff\u2028\xad"),
        ("\udc80", r"\udc80"),
        ("\U000e0041", r"\U000e0041"),
        (3, "3"),
    ],
)
def test_hidden_characters_are_told(text, shown):
    assert harmless(text) == shown
    assert harmless(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "Zürich",
        "東京\u3000",
        "\u0645\u06cc\u200c\u062e\u0648",
        "👩\u200d💻",
        "<b>&amp;",
        "a\xa0b",
        "",
    ],
)
def test_letters_of_all_languages_stay(text):
    assert harmless(text) == text


def test_no_hidden_character_is_passed_over():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    hidden = {char for char in harmless(every) if category(char) in HIDDEN_CATEGORIES}
    assert hidden == set(JOINERS)


def test_warnings_are_harmless():
    warning = OPEWarning("logger \x1b[31mold\nnone", 0.5)
    assert str(warning) == r"logger \x1b[31mold\nnone"
    again = pickle.loads(pickle.dumps(warning))
    assert (str(again), again.value) == (str(warning), 0.5)
