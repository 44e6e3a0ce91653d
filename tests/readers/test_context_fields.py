# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest

from skope_ope.readers._read_table import inner_fields, matched, only_stars

NAMES = ["user", "request.n", "request.lang", "cost"]


def test_names_objects_and_patterns():
    assert matched(["request"], NAMES, NAMES, "it") == NAMES[1:3]
    assert matched(["request.*", "request.n"], NAMES, NAMES, "it") == NAMES[1:3]
    assert matched(["user", "none"], NAMES, NAMES, "it") == ["user", "none"]
    assert matched(["*"], NAMES, ["cost"], "it") == ["cost"]
    with pytest.raises(ValueError, match=r"no column for it matches 'x\*'"):
        matched(["x*"], NAMES, NAMES, "it")


def test_parts():
    assert inner_fields("request", NAMES) == NAMES[1:3]
    assert inner_fields("user", NAMES) == []
    assert only_stars("*", NAMES)
    assert not only_stars("*", ["*"])
    assert not only_stars("request.*", NAMES)
