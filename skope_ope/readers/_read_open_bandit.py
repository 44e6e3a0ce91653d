# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Read logs of the Open Bandit Dataset."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path

import numpy as np

from skope_ope._sklearn import validate_params
from skope_ope.exceptions import RowError
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._fields import remedy_of
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs._text_files import (
    Texts,
    errors_of_file,
    numbers_of,
    quoted,
    utc_microseconds,
    whole_number,
)
from skope_ope.readers._table_columns import (
    csv_at,
    import_pandas,
    line_of_row,
    located,
    read_cells,
)

ITEM_FEATURE = re.compile(r"item_feature_([0-9]{1,9})")


@validate_params(
    {
        "path": [str, os.PathLike],
        "item_context": [str, os.PathLike, None],
        "user_features": ["boolean"],
        "affinity": ["boolean"],
        "align_with": [str, os.PathLike, None],
        "as_frame": ["boolean"],
        "as_slates": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def read_open_bandit(
    path: Path,
    *,
    item_context: Path | None = None,
    user_features: bool = True,
    affinity: bool = True,
    align_with: Path | None = None,
    as_frame: bool = False,
    as_slates: bool = False,
) -> BanditLogs | SlateLogs:
    r"""Read a log of the Open Bandit Dataset.

    Each row is one item that a fashion shop showed at one of three positions [1]_. It
    has the probability of the item at that position, and the click. The logger was
    uniformly random (`random`) or Bernoulli Thompson sampling (`bts`). Rows keep the
    order of the file. Read more in the :ref:`User Guide <readers>`.

    Parameters
    ----------
    path : str or path-like
        The csv file, plain or gzip, or the folder of a campaign (`obd/random/men`,
        which holds `men.csv`).
    item_context : str or path-like, default=None
        The csv file with the features of the items. `None`: the file
        `<name of the log>_item_context.csv` or `item_context.csv` in the same folder,
        if it exists. Each logger has other item codes, so use the file of the same
        logger.
    user_features : bool, default=True
        Whether the context holds the categories of the user.
    affinity : bool, default=True
        Whether the context holds the user's past clicks on each item.
    align_with : str or path-like, default=None
        Another log of the dataset. Its user categories get columns, too. If you use
        two logs together, such as those of the two loggers, pass each when you read
        the other. Otherwise a category that one log lacks shifts its columns.
    as_frame : bool, default=False
        Whether the context is a pandas frame with columns `position`,
        `user_feature_<j>` (categorical) and `user_item_affinity_<k>`.
    as_slates : bool, default=False
        Whether to return slates of one slot: each impression is a round, and its
        position is a column. The files do not say which impressions shared a page, and
        hardly any page is complete. The items in the other two positions, and their
        effect on a click, are unknown.

    Returns
    -------
    BanditLogs or SlateLogs
        The fields of `BanditLogs` are:

        - `context`: the frame, or a float array. The columns of the array are the
          positions 1, 2, 3 (one-hot), the sorted categories of each user feature
          (one-hot), and the affinities to the items 0, 1, ...;
        - `action`: the item; `actions`: 0..n_items-1;
        - `reward`: the click, with `reward_range` (0, 1);
        - `propensity`: the probability of the item at the position;
        - `timestamp`: in UTC;
        - `action_context`: the features of the items, numbers as they are and texts
          one-hot by sorted category; None without their file;
        - `columns["position"]`: the position, from 1.

        Those of `SlateLogs` are the same `context`, `propensity`, `timestamp`,
        `reward_range` and column, the items as `slate` and `n_candidates`, the clicks
        as `slot_reward`, and the features of the items as `item_features`. The files
        have only the probability of the item that was shown: `logging_policy` is None.
        `SlateIPS` can evaluate such logs, `PseudoInverse` cannot. The logger `random`
        is known: ``logs.replace(logging_policy=UniformSlatePolicy(1))``.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is empty, damaged, lacks a column or has a malformed row. The
        message names the file, the line and the value found.

    References
    ----------
    .. [1] Y. Saito, S. Aihara, M. Matsutani and Y. Narita. Open Bandit Dataset and
       Pipeline: Towards Realistic and Reproducible Off-Policy Evaluation. NeurIPS
       Datasets and Benchmarks, 2021.

    Examples
    --------
    >>> import os, tempfile
    >>> from skope_ope.readers import read_open_bandit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "men.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write(
    ...             "timestamp,item_id,position,click,propensity_score,"
    ...             "user_feature_0\n"
    ...             "2019-11-24 00:00:01+00:00,1,3,0,0.5,young\n"
    ...             "2019-11-24 00:00:02+00:00,0,1,1,0.5,old\n"
    ...         )
    ...     logs = read_open_bandit(path)
    >>> logs
    BanditLogs(n_rounds=2, n_features=5, n_actions=2)
    >>> logs.context
    array([[0., 0., 1., 0., 1.],
           [1., 0., 0., 1., 0.]])
    """
    path = _log_file(Path(path))
    table = OpenBanditTable(path, user_features, affinity)
    if align_with is not None and user_features:
        _take_categories_of(align_with, table)
    if item_context is None:
        item_context = _companion(path)
    item_features = None if item_context is None else _item_features(item_context)
    with errors_of_file(path, partial(line_of_row, path)):
        n_items = _count_items(table, item_features, item_context)
        context = table.frame() if as_frame else table.matrix()
        click = np.array(table.click)
        common = {
            "propensity": np.array(table.propensity),
            "timestamp": table.timestamp,
            "reward_range": (0, 1),
        }
        if as_slates:
            logs = SlateLogs(
                context,
                table.item[:, None],
                None,
                n_candidates=n_items,
                item_features=item_features,
                slot_reward=click[:, None],
                **common,
            )
        else:
            logs = BanditLogs(
                context,
                table.item,
                click,
                actions=np.arange(n_items),
                action_context=item_features,
                **common,
            )
        logs._name_reward("click")
        return logs.with_columns(position=table.position)


def _log_file(path):
    """Return the log itself where the folder of a campaign is named."""
    if not path.is_dir():
        return path
    for name in (f"{path.name}.csv", f"{path.name}.csv.gz"):
        if (path / name).is_file():
            return path / name
    raise ValueError(
        f"{path} is a folder without {path.name}.csv. Name the csv file, or a folder "
        "like obd/random/men."
    )


def _companion(path):
    stem = path.name.removesuffix(".gz").removesuffix(".csv")
    for name in (f"{stem}_item_context.csv", "item_context.csv"):
        for beside in (path.with_name(name), path.with_name(f"{name}.gz")):
            if beside.is_file():
                return beside
    return None


def _take_categories_of(other, table):
    """Add the categories of another log to those of `table`."""
    other = _log_file(Path(other))
    file = csv_at(other)
    check_log_columns(other, file.header, table.categories)
    places = [(file.header.index(one), seen) for one, seen in table.categories.items()]
    for _, row in file.rows():
        for place, seen in places:
            seen.setdefault(row[place], len(seen))


def _item_features(path):
    """Read the features of the items: numbers as they are, texts one-hot."""
    file = csv_at(path)
    features = numbered(file.header, ITEM_FEATURE)
    check_log_columns(
        path, file.header, ["item_id"] + ["item_feature_0"] * (not features)
    )
    place_of_item = file.header.index("item_id")
    texts = {place_of_item: True} | {place: False for _, _, place in features}
    cells = read_cells(file, texts)
    try:
        items = parsed("item_id", cells[place_of_item])
        columns = [
            cells[place].array()[:, None] == np.unique(cells[place].array())
            if isinstance(cells[place], Texts)
            else numbers_of(name, cells[place])[:, None]
            for _, name, place in features
        ]
    except RowError as error:
        raise located(file, error) from error
    order = np.argsort(items)
    if not np.array_equal(items[order], np.arange(len(items))):
        raise ValueError(
            f"{path}: item_id must be 0..{len(items) - 1}, each once, got "
            f"{items[order][:8].tolist()}{'...' if len(items) > 8 else ''}."
        )
    return np.hstack(columns)[order].astype(float)


def _count_items(table, item_features, item_context):
    """Tell how many items there are, and check the logged ones."""
    if item_features is not None:
        n_items, told = len(item_features), f"{item_context} lists"
    elif table.n_affinities:
        n_items, told = table.n_affinities, "the affinities name"
    else:
        n_items, told = int(table.item.max()) + 1, "the log has"
    outside = np.flatnonzero(table.item >= n_items)
    if item_features is not None and n_items > table.n_affinities > 0:
        raise ValueError(
            f"{item_context} lists {n_items} items, and the log has affinities to "
            f"{table.n_affinities}. It is the file of another campaign: pass that of "
            "this one, item_context=..."
        )
    if outside.size:
        raise RowError(
            f"item_id {table.item[outside[0]]}",
            outside[0],
            f" is not among the items 0..{n_items - 1} that {told} ({outside.size} "
            "such rows). Was the log read with the items of another campaign?",
        )
    return n_items


# -- columns of the csv files of the Open Bandit Dataset -------------------------------

POSITIONS = (1, 2, 3)  # left, centre, right
MOST_ITEMS = 10**6  # each is an action
NEEDED = ("timestamp", "item_id", "position", "click", "propensity_score")
USER_FEATURE = re.compile(r"user_feature_([0-9]{1,9})")
AFFINITY = re.compile(r"user[-_]item_affinity_([0-9]{1,9})")


def check_log_columns(path, header, needed):
    """Raise unless the header has all the columns that are needed."""
    missing = [name for name in needed if name not in header]
    if missing:
        found = ", ".join(quoted(name) for name in header[:12] if name)
        raise ValueError(
            f"{path} has no column {', '.join(map(repr, missing))}; it has {found}"
            f"{', ...' if len(header) > 12 else ''}. Is it a log of the Open Bandit "
            "Dataset?"
        )
    twice = [name for name in needed if header.count(name) > 1]
    if twice:
        raise ValueError(
            f"{path} has several columns {twice[0]!r}. Give each column its own name."
        )


def numbered(header, pattern):
    """Return (number, name, place) of the columns of a pattern, by number."""
    found = []
    for place, name in enumerate(header):
        if match := pattern.fullmatch(name):
            found.append((int(match[1]), match[0], place))
    return sorted(found)


def number_among(numbers, text):
    """Return the number that a text spells, which must be one of these."""
    number = whole_number(text)
    if number not in numbers:
        raise ValueError("another number")
    return number


WHOLE_NUMBERS = {  # what their texts stand for, and what is said of others
    "timestamp": (utc_microseconds, "a moment like 2019-11-24 00:03:13+00:00"),
    "item_id": (
        partial(number_among, range(MOST_ITEMS)),
        f"a whole number from 0, below {MOST_ITEMS:,}",
    ),
    "position": (partial(number_among, POSITIONS), "1, 2 or 3"),
}


class OpenBanditTable:
    """The columns of a log."""

    def __init__(self, path, user_features, affinity):
        file = csv_at(path)
        header = file.header
        check_log_columns(path, header, NEEDED)
        users = numbered(header, USER_FEATURE) if user_features else []
        affinities = numbered(header, AFFINITY) if affinity else []
        self.path = path
        self.n_affinities = len(numbered(header, AFFINITY))
        self.affinity_names = [f"user_item_affinity_{k}" for k, _, _ in affinities]
        places = {name: header.index(name) for name in NEEDED}
        texts = dict.fromkeys(places.values(), False)
        texts.update((place, False) for _, _, place in affinities)
        texts.update((places[name], True) for name in WHOLE_NUMBERS)
        texts.update((place, True) for _, _, place in users)
        cells = read_cells(file, texts)
        try:
            self.timestamp, self.item, self.position = (
                parsed(name, cells[places[name]]) for name in WHOLE_NUMBERS
            )
            self.click, self.propensity = (
                numbers_of(name, cells[places[name]], remedy_of(field))
                for name, field in zip(
                    NEEDED[3:], ("reward", "propensity"), strict=True
                )
            )
            clicks = [numbers_of(name, cells[place]) for _, name, place in affinities]
        except RowError as error:
            raise located(file, error) from error
        self.timestamp = self.timestamp.view("datetime64[us]")
        self._affinities = np.reshape(clicks, (-1, len(self.item))).T
        self._codes = [cells[place].codes for _, _, place in users]
        self.categories = {
            name: {text: code for code, text in enumerate(cells[place].values)}
            for _, name, place in users
        }

    def _user_codes(self):
        """Yield (name, sorted categories, codes of the rows) of the user features."""
        for j, (name, seen) in enumerate(self.categories.items()):
            categories = sorted(seen)
            code = np.empty(len(seen), dtype=np.intp)
            code[[seen[category] for category in categories]] = np.arange(len(seen))
            yield name, categories, code[self._codes[j]]

    def matrix(self):
        """Return the context as a float array."""
        n_users = sum(map(len, self.categories.values()))
        width = len(POSITIONS) + n_users + len(self.affinity_names)
        context = np.zeros((len(self.item), width))
        rows = np.arange(len(self.item))
        context[rows, self.position - 1] = 1.0
        start = len(POSITIONS)
        for _, categories, codes in self._user_codes():
            context[rows, start + codes] = 1.0
            start += len(categories)
        context[:, start:] = self._affinities
        return context

    def frame(self):
        """Return the context as a pandas frame."""
        pd = import_pandas("as_frame=True")
        columns = {"position": self.position}
        for name, categories, codes in self._user_codes():
            columns[name] = pd.Categorical.from_codes(codes, categories)
        columns.update(zip(self.affinity_names, self._affinities.T, strict=True))
        return pd.DataFrame(columns)


def parsed(name, texts):
    """Return the whole numbers that a column stands for."""
    parse, what = WHOLE_NUMBERS[name]
    found = np.empty(len(texts.values), dtype=np.int64)
    for code, text in enumerate(texts.values):
        try:
            found[code] = parse(text)
        except (ValueError, OverflowError):
            raise RowError(
                f"{name} is {quoted(text)}",
                texts.row_of(text),
                f", not {what}. Correct or drop the row.",
            ) from None
    return found[texts.codes]
