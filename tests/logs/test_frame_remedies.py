# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

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
