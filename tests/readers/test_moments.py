# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import calendar
import random
import re

import numpy as np
import pytest

from skope_ope.logs._text_files import utc_microseconds
from skope_ope.readers._csv_columns import plain_moments

LAYOUT = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|\+00:00)?", flags=re.ASCII
)
PLAIN = [
    "2026-01-31 12:00:00",
    "2026-01-31T12:00:00",
    "2024-02-29 23:59:59.5",
    "1969-12-31T23:59:59.999999Z",
    "0001-01-01 00:00:00+00:00",
    "9999-12-31 23:59:59.123456+00:00",
]
OTHER = [
    "",
    "NaT",
    "today",
    "2026-01-31",
    " 2026-01-31 12:00:00",
    "0000-01-01 00:00:00",
    "2026-02-29 12:00:00",
    "2026-01-31 24:00:00",
    "2026-01-31 12:00:60",
    "2026-01-31 12:00:00.",
    "2026-01-31 12:00:00.1234567",
    "2026-01-31 12:00:00+02:00",
    "2026-01-31t12:00:00",
    "2026-01-31 12:00:00\u00e9",
    "2026-01-31 12:00:00\0",
]


@pytest.mark.parametrize("text", PLAIN)
def test_plain_ones_are_read_as_one_by_one(text):
    found, is_plain = plain_moments([text])
    assert is_plain.tolist() == [True]
    assert found.dtype == np.int64
    assert found[0] == utc_microseconds(text)


@pytest.mark.parametrize("text", OTHER)
def test_others_are_left_to_the_caller(text):
    assert plain_moments([text])[1].tolist() == [False]


def test_no_texts():
    found, is_plain = plain_moments([])
    assert len(found) == len(is_plain) == 0


def test_what_is_plain_has_the_moment_of_the_parser_of_single_texts():
    draw = random.Random(0)
    texts = []
    for _ in range(5000):
        text = draw.choice(PLAIN)
        for _ in range(draw.choice([0, 0, 1, 2])):
            place = draw.randrange(len(text))
            stop = place + draw.choice([0, 1, 1, 1])
            text = text[:place] + draw.choice("0123459 T-:.+Zz\u0661") + text[stop:]
        texts.append(text)
    moments, is_plain = plain_moments(texts)
    assert 1000 < is_plain.sum() < 4000
    for text, moment, plain in zip(texts, moments.tolist(), is_plain, strict=True):
        if not LAYOUT.fullmatch(text):
            assert not plain, text
        elif plain:
            assert moment == utc_microseconds(text), text
        else:
            with pytest.raises(ValueError):
                utc_microseconds(text)


@pytest.mark.parametrize("year", [1600, 1900, 1969, 2000, 2023, 2024, 2100, 9999])
def test_the_days_of_a_year(year):
    days = [f"{year}-{m:02}-{d:02} 00:00:00" for m in range(14) for d in range(33)]
    moments, is_plain = plain_moments(days)
    assert is_plain.sum() == 365 + calendar.isleap(year)
    steps = np.diff(moments[is_plain])
    assert (steps == 86_400_000_000).all()
    assert moments[is_plain][0] == utc_microseconds(days[34])
