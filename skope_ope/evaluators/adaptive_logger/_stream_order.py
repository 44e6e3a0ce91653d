# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a log that arrive one after the other: in time order, each row once."""

from copy import copy

import numpy as np

from skope_ope.exceptions import RowError

ORDER = (
    "A confidence sequence takes rounds in the order they were logged. Sort the "
    "log by time before you cut it into parts."
)


class StreamOrder:
    """What is known of the rows that came before."""

    def __init__(self):
        self.n, self.time = 0, None
        self._last = {}  # last position of every origin
        self._seen = {}  # `Runs` that came, where timestamps give the order
        self._places = {}  # of every row group, the scan that it came from

    def after(self, logs, place=None):
        """Return the order after another part; raise where the part cannot follow."""
        timed = logs.timestamp is not None
        if self.n and timed != (self.time is not None):
            have, had = ("have", "had none") if timed else ("have no", "had")
            raise ValueError(
                f"these logs {have} timestamps, those before {had}. Give "
                "timestamps to all parts, or to none."
            )
        out = copy(self)
        out._last, out._seen = dict(self._last), dict(self._seen)
        rows = logs.row_id
        if place is not None:
            # another scan counts rows anew, so positions do not tell
            if self._places.get(place, rows.origin) != rows.origin:
                raise ValueError(
                    "these rows were already given, by another scan of the file. "
                    "Give each round to update once, in the order of time."
                )
            out._places = {**self._places, place: rows.origin}
        if timed:
            out._seen[rows.origin] = self._checked_repeats(rows)
            out.time = self._checked_time(logs.timestamp)
        else:
            self._checked_positions(rows)
            out._last[rows.origin] = int(rows.position[-1])
        out.n += len(logs)
        return out

    def _checked_time(self, time):
        if self.time is not None:
            kinds = time.dtype.kind == "M", np.asarray(self.time).dtype.kind == "M"
            if kinds[0] != kinds[1]:
                raise ValueError(
                    f"these timestamps are {time.dtype}, those before were "
                    f"{np.asarray(self.time).dtype}. Use the same type of "
                    "timestamps in all parts."
                )
            if time[0] < self.time:
                raise ValueError(
                    "the timestamps decrease: the part before ended at "
                    f"{self.time}, and this part starts at {time[0]}. {ORDER} Give "
                    "each part once."
                )
        back = np.flatnonzero(time[1:] < time[:-1])
        if back.size:
            row = int(back[0]) + 1
            raise RowError(
                f"the timestamps decrease from {time[row - 1]} to {time[row]}",
                row,
                f". {ORDER}",
            )
        return time[-1]

    def _checked_repeats(self, rows):
        """Return the positions of an origin that came, with those of these rows."""
        position = rows.position
        before = self._seen.get(rows.origin, Runs())
        again = np.flatnonzero(before.hold(position))
        if not again.size and not (position[1:] > position[:-1]).all():
            first = np.unique(position, return_index=True)[1]
            again = np.setdiff1d(np.arange(len(position)), first)
        if again.size:
            raise _repeated(again)
        return before.with_more(position)

    def _checked_positions(self, rows):
        """Raise where rows of an origin do not follow those before."""
        position = rows.position
        last = self._last.get(rows.origin, -1)
        steps = np.diff(position, prepend=last)
        back = np.flatnonzero(steps <= 0)
        if not back.size:
            return
        old = np.flatnonzero(position <= last)
        if old.size:
            raise _repeated(old, "do not come after those that were already given")
        raise RowError(
            "these rows are not in the order they were logged: the first that does "
            "not come after the row before it is",
            int(back[0]),
            f". {ORDER}",
        )


class Runs:
    """A set of integers, kept as runs of consecutive ones."""

    def __init__(self, first=(), stop=()):
        self.first = np.asarray(first, dtype=np.int64)
        self.stop = np.asarray(stop, dtype=np.int64)

    def hold(self, numbers):
        """Tell which numbers are in the set, ndarray of bool."""
        run = np.searchsorted(self.first, numbers, side="right") - 1
        if not len(self.first):
            return np.zeros(len(numbers), dtype=bool)
        return (run >= 0) & (numbers < self.stop[run])

    def with_more(self, numbers):
        """Return the set with more numbers, which it does not hold yet."""
        numbers = np.sort(numbers)
        cut = np.flatnonzero(np.diff(numbers) > 1) + 1
        first = numbers[np.concatenate([[0], cut])]
        stop = numbers[np.concatenate([cut - 1, [len(numbers) - 1]])] + 1
        first = np.sort(np.concatenate([self.first, first]))
        stop = np.sort(np.concatenate([self.stop, stop]))
        apart = first[1:] > stop[:-1]  # others go on where the one before ends
        return Runs(first[np.append(True, apart)], stop[np.append(apart, True)])


def _repeated(rows, what="were already given"):
    return RowError(
        f"{len(rows)} of these rows {what}, the first",
        int(rows[0]),
        ". Give each round to update once, in the order of time.",
    )
