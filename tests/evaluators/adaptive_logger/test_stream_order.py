# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import BanditLogs
from skope_ope.evaluators.adaptive_logger._stream_order import StreamOrder


def logs_of(n, time=None):
    """Rounds that only their place and time tell apart."""
    return BanditLogs(np.zeros((n, 1)), np.zeros(n, int), np.zeros(n), timestamp=time)


TIMED, PLAIN = logs_of(10, np.arange(10) // 2), logs_of(10)


@pytest.mark.parametrize("logs", [TIMED, PLAIN])
def test_parts_that_follow(logs):
    order = StreamOrder()
    for start, stop in ((0, 1), (1, 4), (4, 5), (6, 10)):
        order = order.after(logs[start:stop])
    assert order.n == 9


def test_rows_sorted_by_time_may_stand_anywhere_in_their_log():
    shuffled = logs_of(4, [3, 1, 2, 0])
    StreamOrder().after(shuffled[np.argsort(shuffled.timestamp)])


def test_logs_of_each_day_are_built_anew():
    order = StreamOrder().after(logs_of(3)).after(logs_of(3))
    assert order.n == 6


@pytest.mark.parametrize(
    ("logs", "key", "message"),
    [
        (TIMED, [2, 3], "2 of these rows were already given, the first at row 0"),
        (TIMED, [6, 7, 6], "1 of these rows were already given, the first at row 2"),
        (TIMED, [5, 8, 7], "the timestamps decrease from 4 to 3 at row 2"),
        (PLAIN, [3, 7], "do not come after those that were already given"),
        (PLAIN, [6, 8, 7], "not in the order .* before it is at row 2"),
        (PLAIN, [6, 6], "not in the order .* before it is at row 1"),
    ],
)
def test_rows_that_do_not_follow(logs, key, message):
    order = StreamOrder().after(logs[:5])
    with pytest.raises(ValueError, match=message):
        order.after(logs[key])
    assert order.n == 5


def test_time_runs_backwards_between_parts():
    order = StreamOrder().after(TIMED)
    with pytest.raises(ValueError, match=r"the part before ended at 4, .* starts at 3"):
        order.after(logs_of(2, [3, 5]))


def test_times_of_one_kind():
    order = StreamOrder().after(TIMED)
    with pytest.raises(ValueError, match="these logs have no timestamps, those before"):
        order.after(PLAIN)
    with pytest.raises(ValueError, match="these logs have timestamps, those before"):
        StreamOrder().after(PLAIN).after(TIMED)
    dates = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]")
    with pytest.raises(ValueError, match="same type of timestamps"):
        order.after(logs_of(2, dates))
