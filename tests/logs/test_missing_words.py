# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import BanditLogs, scan_logs

UNRELATED = "Drop them only if feedback goes missing for reasons unrelated to action"
ROLES = {"action": "a", "reward": "r", "propensity": "p", "context": []}


def test_arrays():
    with pytest.raises(ValueError, match=UNRELATED):
        BanditLogs(np.empty((2, 0)), [0, 1], [0, np.nan], [0.5, 0.5])
    with pytest.raises(ValueError, match="Drop these rows or fill the values"):
        BanditLogs(np.empty((2, 0)), [0, 1], [0, 1], [0.5, np.nan])


@pytest.mark.frames
def test_frames_and_scanned_files(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pytest.importorskip("polars")
    narwhals = pytest.importorskip("narwhals.stable.v2")
    good = pandas.DataFrame({"a": [0, 1], "r": [0.0, 1.0], "p": [0.5, 0.5]})
    for name, message in (("r", UNRELATED), ("p", "Drop or fill these rows")):
        frame = good.assign(**{name: [0.5, None]})
        with pytest.raises(ValueError, match=message):
            BanditLogs.from_frame(frame, **ROLES)
        frame.to_parquet(tmp_path / "log.parquet")
        lazy = scan_logs(tmp_path / "log.parquet", **ROLES)
        with pytest.raises(ValueError, match=message):
            list(lazy.read())
        lazy = scan_logs(
            narwhals.from_native(frame).lazy("polars").to_native(), **ROLES
        )
        with pytest.raises(ValueError, match=UNRELATED if name == "r" else "in .0, 1."):
            lazy.describe()
