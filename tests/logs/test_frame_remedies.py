# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import re

import numpy as np
import pytest

from skope_ope import BanditLogs

PROBA = np.array([[0.3333, 0.6668], [0.5, 0.5]])


def test_arrays_are_told_in_their_words():
    with pytest.raises(ValueError, match=r"logging_proba / logging_proba\.sum\(axis=1"):
        BanditLogs(np.empty((2, 0)), [0, 1], [0, 1], logging_proba=PROBA)


@pytest.mark.frames
def test_frames_are_told_in_theirs():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [0, 1], "r": [0, 1], "p": PROBA[:, 0]})
    names = ["p", "q"]
    frame["q"] = PROBA[:, 1]
    roles = {"action": "a", "reward": "r", "context": [], "logging_proba": names}
    with pytest.raises(ValueError, match=r"row 0 .*axis=0\)\.$") as told:
        BanditLogs.from_frame(frame, **roles)
    start = str(told.value).index("frame[names]")
    exec(str(told.value)[start:-1], {"frame": frame, "names": names})
    logs = BanditLogs.from_frame(frame, **roles)
    np.testing.assert_allclose(logs.logging_proba.sum(axis=1), 1)
    with pytest.raises(ValueError, match=r"reward_range .* Widen"):  # as it was
        BanditLogs.from_frame(frame, **roles, reward_range=(0, 0.5))


@pytest.mark.frames
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_times_that_are_texts_are_read_by_the_code_in_the_message(library):
    module = pytest.importorskip(library)
    times = ["2026-05-01T12:00:00Z", "2026-05-01T12:00:01Z"]
    frame = module.DataFrame({"a": [0, 1], "r": [0, 1], "ts": times})
    roles = {"action": "a", "reward": "r", "context": [], "timestamp": "ts"}
    with pytest.raises(TypeError, match=r"timestamp must be 1-d") as told:
        BanditLogs.from_frame(frame, **roles)
    start = {
        "pandas": r"In pandas, (.*?) reads texts",
        "polars": r"in polars, (.*?)\.$",
    }[library]
    code = re.search(start, str(told.value))[1]
    scope = {"frame": frame, "column": "ts", "pd": module}
    if library == "polars":
        code = f"frame = {code}"
    exec(code, scope)
    logs = BanditLogs.from_frame(scope["frame"], **roles)
    assert logs.timestamp[1] - logs.timestamp[0] == np.timedelta64(1, "s")
