# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Some rows of a log, the same however it is cut into parts; the rows as logs."""

from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._coded_labels import Grouped
from skope_ope.logs._fields import BANDIT, SLATE, WEIGHT_COLUMN, column_fields
from skope_ope.logs._row_container import is_drawn
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs._validation import column_weights, is_uniform
from skope_ope.logs.checks._adaptive_logger import segment_numbers
from skope_ope.logs.sums._group_sums import SPARE_ERRORS, TOP

HASHED_ROWS = 1 << 14  # rows whose hashes stay in the cache
HALF = np.uint64(32)
ODD = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@dataclass(eq=False)
class RowSample:
    """Rows of a log with the smallest keys; parts add to their union."""

    most: int
    origins: list  # texts
    origin: np.ndarray  # of every row, a place among these
    position: np.ndarray
    key: np.ndarray
    columns: dict
    by_origin: bool  # whether the rows of the first origin come first

    @classmethod
    def by_lot(cls, most, logs, columns_of):
        """Return rows drawn by a hash of their position."""
        # Every row of a log is kept with the same probability, and another row of it
        # tells nothing of that. An origin that was drawn by lot itself does not count,
        # so that the sample of logs in memory is the same in every process.
        rows, key = _smallest_hashes(most, logs)
        return cls._of(most, logs, rows, key, columns_of, False)

    @classmethod
    def first(cls, most, logs, columns_of):
        """Get the rows of the lowest positions; the arguments are those of `by_lot`."""
        # Of several origins those of the first one are kept, in the order of their
        # texts.
        rows = np.arange(min(len(logs), most))
        if not logs._in_order:
            rows = np.sort(logs._stored_order[:most])
        key = logs._positions_at(rows).astype(np.uint64)
        return cls._of(most, logs, rows, key, columns_of, True)

    @classmethod
    def _of(cls, most, logs, rows, key, columns_of, by_origin):
        origin = np.zeros(len(rows), dtype=np.int32)
        found = logs._positions_at(rows), key, columns_of(logs, rows), by_origin
        return cls(most, [logs._origin], origin, *found)

    def __len__(self):
        return len(self.position)

    def __add__(self, other):
        """Return the rows of both that have the smallest keys."""
        if not len(other):
            return self
        if not len(self):
            return other
        most = min(self.most, other.most)
        one, other = self._before(other, most), other._before(self, most)
        if not (len(one) and len(other)):
            return one.reduced(most) if len(one) else other.reduced(most)
        return one._with(other, most)

    def _before(self, other, most):
        """Return what has its place beside another sample that is full."""
        if len(other) < most or (
            self.by_origin and not self.origins == other.origins == self.origins[:1]
        ):
            return self
        some = np.flatnonzero(self.key <= other.key.max())
        return self if len(some) == len(self) else self._taken(some, most)

    def _with(self, other, most):
        origins = sorted({*self.origins, *other.origins})
        place = {name: k for k, name in enumerate(origins)}
        parts = self, other
        origin = np.concatenate(
            [
                np.array([place[o] for o in one.origins], dtype=np.int32)[one.origin]
                for one in parts
            ]
        )
        names = [
            name
            for name, values in self.columns.items()  # that all rows have alike
            if name in other.columns
            and other.columns[name].shape[1:] == values.shape[1:]
        ]
        columns = {
            name: np.concatenate([one.columns[name] for one in parts]) for name in names
        }
        position = np.concatenate([one.position for one in parts])
        key = np.concatenate([one.key for one in parts])
        found = most, origins, origin, position, key, columns, self.by_origin
        return RowSample(*found).reduced(most)

    def reduced(self, most):
        """Return fewer rows, as if fewer had been kept from the start."""
        if len(self) <= most:
            return replace(self, most=most)
        return self._taken(self._smallest(most), most)

    def _taken(self, rows, most):
        columns = {name: values[rows] for name, values in self.columns.items()}
        origins, origin = self.origins, self.origin[rows]
        if len(origins) > 1:
            used = np.unique(origin)
            origins = [origins[k] for k in used]
            origin = np.searchsorted(used, origin).astype(np.int32)
        found = self.position[rows], self.key[rows], columns, self.by_origin
        return RowSample(most, origins, origin, *found)

    def _smallest(self, most):
        if self.by_origin and len(self.origins) > 1:
            return np.sort(np.lexsort((self.key, self.origin))[:most])
        return lowest(self.key, most, self.origin)

    def with_column(self, name, values):
        """Return the same rows with other values in a column."""
        return replace(self, columns={**self.columns, name: values})

    def order(self):
        """Return the rows in the order of the log, by origin."""
        return np.lexsort((self.position, self.origin))


def lowest(key, most, then=None):
    """Return the rows of the smallest keys, in order."""
    limit = np.partition(key, most - 1)[most - 1]
    rows = np.flatnonzero(key <= limit)
    if len(rows) == most:
        return rows
    tied = key[rows] == limit
    below, ties = rows[~tied], rows[tied]
    if then is not None:
        ties = ties[np.argsort(then[ties], kind="stable")]
    return np.sort(np.concatenate([below, ties[: most - len(below)]]))


def _smallest_hashes(most, logs):
    """Return the rows of the smallest hashes, in order, and their hashes."""
    n, origin, word = len(logs), logs._origin, ODD[0]
    if not is_drawn(origin):
        digest = blake2b(origin.encode(), digest_size=8).digest()
        word = np.uint64(int.from_bytes(digest, "little"))
    # the first guess fails once in a billion parts, or where positions repeat
    for share in ((most + SPARE_ERRORS * most**0.5) / max(n, 1), 1.0):
        rows, keys = [np.zeros(0, np.intp)], [np.zeros(0, np.uint64)]
        for start in range(0, n, HASHED_ROWS):
            key = hashed(logs._positions_at(slice(start, start + HASHED_ROWS)), word)
            if share < 1:
                some = np.flatnonzero(key < np.uint64(share * TOP))
                key = key[some]
            else:
                some = np.arange(len(key))
            rows.append(some + start)
            keys.append(key)
        rows, keys = np.concatenate(rows), np.concatenate(keys)
        if len(rows) >= min(most, n):
            break
    if len(rows) > most:
        some = lowest(keys, most)
        rows, keys = rows[some], keys[some]
    return rows, keys


def hashed(position, word):
    """Return a 64-bit hash of every position, another one for every origin's word."""
    # What is compared are its first bits, which follow from all of the position's.
    key = position.astype(np.uint64)
    key ^= word
    key *= ODD[0]
    key ^= key >> HALF
    key *= ODD[1]
    return key


# -- what is kept of rows, without their context, and the rows as logs -----------------

SAMPLED_ROWS = 20_000  # rounds by lot
FEWEST = 2_000  # of them where the logger's whole distribution is known:
MOST_ENTRIES = 1_000_000  # of the distributions that are kept
FIRST_ROWS = 5_000  # rounds from the start on
FIRST_ACTIONS = 100  # most of them whose distribution is kept of the first rounds
BY_ACTION = "logging_proba", "available"


def most_rows(logs):
    """Return how many rows are kept: 20,000, or fewer of many actions."""
    if hasattr(logs, "slate"):
        return most_slates(logs, SAMPLED_ROWS)
    wide = any(getattr(logs, name, None) is not None for name in BY_ACTION)
    if not wide:
        return SAMPLED_ROWS
    return min(SAMPLED_ROWS, max(FEWEST, MOST_ENTRIES // logs.n_actions))


def columns_of(logs, rows):
    """Return what is kept of some rows, without their context."""
    names = column_fields(SLATE if hasattr(logs, "slate") else BANDIT)
    found = {name: getattr(logs, name) for name in names}
    if hasattr(logs, "action_index"):
        found |= {"action": logs.action_index, "logger": logs.logger_index}
        found |= {name: getattr(logs, name) for name in BY_ACTION}
    found = {k: v[rows] for k, v in found.items() if v is not None}
    return found | columns_of_slates(logs, rows) if hasattr(logs, "slate") else found


def first_columns(logs, rows):
    """Return what is kept of the first rows, with a number for their context."""
    if not hasattr(logs, "action_index"):
        return {}
    found = columns_of(logs, rows)
    found.pop("available", None)
    if logs.n_actions > FIRST_ACTIONS:
        found.pop("logging_proba", None)
    context = logs.context
    if isinstance(context, np.ndarray) and context.dtype.kind in "biuf":
        found["context"] = segment_numbers(context[rows])
    return found


def logs_of(sums, sample):
    """Return kept rows as logs."""
    if sums.actions is None or not len(sample):
        return None
    rows = sample.order()
    columns = {name: values[rows] for name, values in sample.columns.items()}
    state = dict.fromkeys((*BanditLogs._row_fields, *BanditLogs._carried_fields))
    state |= columns
    action, logger = columns["action"], columns.get("logger")
    state |= {
        "actions": sums.actions,
        "action_index": action,
        "action": sums.actions[action],
        "loggers": sums.loggers,
        "logger_index": logger,
        "logger": None if logger is None else sums.loggers[logger],
        "reward_range": sums.reward_range,
        "propensity_estimated": sums.propensity_estimated,
        "context": _kept_context(columns.get("context"), len(rows)),
        "columns": {},
        "_origin": "+".join(sample.origins),
        "_position": sample.position[rows],
    }
    logs = object.__new__(BanditLogs)
    logs.__dict__.update(state)
    Grouped._set_group(logs, columns.get("group"))
    return logs


def _kept_context(numbers, n_rounds):
    return np.zeros((n_rounds, 0)) if numbers is None else numbers[:, None]


# -- slates that are kept, and what their pages offer ----------------------------------
# Of a uniform logger they tell whether its pages fit, and with rewards of slots whether
# rows of pages are missing. Other slates are not kept.

FEWEST_SLATES = 2_000  # rounds where pages offer different candidates:
MOST_BYTES = 8_000_000  # of what these offer
OF_UNIFORM = "uniform"  # the column of slates whose logger is
ALL_OFFERED = np.zeros(0, dtype=np.uint8)  # of a page that offers all candidates


def most_slates(logs, most):
    """Return how many slates are kept: fewer where pages offer different ones."""
    if logs.offered is None or not _is_kept(logs):
        return most
    n_bytes = -(-logs.max_candidates // 8) * (
        logs.offered[:1].size // logs.max_candidates
    )
    return min(most, max(FEWEST_SLATES, MOST_BYTES // max(n_bytes, 1)))


def _is_kept(logs):
    return is_uniform(logs) or logs.slot_reward is not None


def columns_of_slates(logs, rows):
    """Return what is kept of some slates: nothing where no test looks at them."""
    if not _is_kept(logs):
        return {}
    offered = np.tile(ALL_OFFERED, (len(rows), 1))
    if logs.offered is not None:
        bits = np.packbits(logs.offered[rows], axis=-1)
        offered = bits.reshape(len(rows), int(np.prod(bits.shape[1:])))
    found = {
        "slate": logs.slate[rows],
        "n_candidates": np.full(len(rows), logs.max_candidates),
        "offered": offered,
    }
    if is_uniform(logs):
        found[OF_UNIFORM] = np.ones(len(rows), dtype=bool)
    if logs.slot_reward is not None:
        found["slot_reward"] = logs.slot_reward[rows]
    weight = column_weights(logs, of_part=True)
    if weight is not None:
        found[WEIGHT_COLUMN] = weight[rows]
    return found


def slates_of(sample):
    """Return kept slates as logs, in the order of the log."""
    rows = sample.order()
    kept = {name: values[rows] for name, values in sample.columns.items()}
    if not {"slate", "n_candidates", "offered"} <= kept.keys() or not len(rows):
        return None
    if (kept["n_candidates"] != kept["n_candidates"][0]).any():
        return None
    n_candidates, offered = int(kept["n_candidates"][0]), None
    if kept["offered"].shape[1]:
        bits = kept["offered"].reshape(len(rows), -1, -(-n_candidates // 8))
        offered = np.unpackbits(bits, axis=-1, count=n_candidates).astype(bool)
        offered = offered[:, 0] if offered.shape[1] == 1 else offered
    logs = SlateLogs(
        np.zeros((len(rows), 0)),
        kept["slate"],
        kept["reward"],
        n_candidates=n_candidates,
        candidates=offered,
        slot_reward=kept.get("slot_reward"),
        group=kept.get("group"),
    )
    return (
        logs.with_columns(**{WEIGHT_COLUMN: kept[WEIGHT_COLUMN]})
        if WEIGHT_COLUMN in kept
        else logs
    )
