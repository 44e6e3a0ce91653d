# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Probabilities in one column, or in an array, where columns are wanted."""

import re

import numpy as np
import pytest

from skope_ope import BanditLogs

pytestmark = pytest.mark.frames
DATA = {"item": ["b", "a", "b"], "click": [1, 0, 1], "age": [3, 4, 5]}
NAMES = {"action": "item", "reward": "click", "context": ["age"]}


def frame_of(library, width=2):
    module = pytest.importorskip(library)
    even = [1 / width] * width
    lists = [even, [0.25, 0.75, *[0.0] * (width - 2)], even]
    data = DATA | {"router.p": lists}
    return module.table(data) if library == "pyarrow" else module.DataFrame(data)


def told(frame, **names):
    with pytest.raises(TypeError) as error:
        BanditLogs.from_frame(frame, **NAMES, **names)
    return str(error.value)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("form", [str, list, tuple])
def test_a_column_of_lists_is_no_column_of_each_action(library, form):
    names = "router.p" if form is str else form(["router.p"])
    text = told(frame_of(library), logging_proba=names)
    assert "the column 'router.p', which holds lists. Make a column of each" in text
    assert "logging_proba={action: name, ...}" in text
    assert "Use [" not in text


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("width", [2, 12])
def test_the_code_in_the_message_works(library, width):
    frame = frame_of(library, width)
    if library == "pandas":
        frame = frame.set_axis([7, 3, 5])
    text = told(frame, logging_proba="router.p")
    code = re.search(r"entries: (.*?)\. Pass ", text)[1]
    scope = {"frame": frame}
    exec(code, scope)
    actions = ["b", "a", *map(str, range(width - 2))]
    proba = {one: f"router.p_{j}" for j, one in enumerate(actions)}
    logs = BanditLogs.from_frame(
        scope["frame"], **NAMES, actions=actions, logging_proba=proba
    )
    np.testing.assert_allclose(logs.propensity, [1 / width, 0.75, 1 / width])


def test_an_array_becomes_columns():
    frame = frame_of("pandas")
    text = told(frame, logging_proba=np.full((3, 2), 0.5))
    assert "got an array. Make a column of each of its entries: frame[[" in text
    scope = {"frame": frame, "values": np.full((3, 2), 0.5)}
    exec(re.search(r"entries: (.*?)\. Pass ", text)[1], scope)
    proba = ["proba_0", "proba_1"]
    logs = BanditLogs.from_frame(frame, **NAMES, logging_proba=proba)
    assert logs.propensity.tolist() == [0.5] * 3
    text = told(frame, logger="item", logger_proba=np.full((3, 2), 0.5))
    assert "Pass these names, in the order of the sorted loggers." in text


def test_the_name_of_one_column_of_numbers_is_listed():
    frame = frame_of("pandas").assign(p=1.0)
    assert "Use ['p']" in told(frame, logging_proba="p")
    assert "Use ['q']" in told(frame, logging_proba="q")
