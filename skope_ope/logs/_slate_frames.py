# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Slates from and to data frames: a row a page, or a row an item that was shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from skope_ope._texts import meant
from skope_ope._types import ArrayLike, Frame, Label
from skope_ope.exceptions import LogsWarning, warn_user
from skope_ope.logs._fields import SLATE, column_fields
from skope_ope.logs._frame_items import (
    Items,
    fills_slots,
    item_features_of,
    offered_items,
    shown_items,
)
from skope_ope.logs._frames import (
    check_context_names,
    check_name,
    column_of,
    columns_by_name,
    columns_side_by_side,
    constant_propensity,
    context_among,
    context_of_frame,
    flat,
    joined_frame,
    opened_frame,
    parts_of_group,
    remember_labels,
    with_named,
)
from skope_ope.logs._labels import factorise, first_of_codes
from skope_ope.logs._row_container import take_rows
from skope_ope.logs._validation import EMPTY, plain

FRAME_FORMS = ("wide", "long")


class SlateFramed:
    """Slate logs from data frames, and data frames from slate logs."""

    @classmethod
    def from_frame(
        cls,
        frame: Frame,
        *,
        item: str | Sequence[str],
        round: str | None = None,
        slot: str | None = None,
        reward: str | None = None,
        slot_reward: str | Sequence[str] | None = None,
        propensity: str | float | None = None,
        context: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        candidates: str | Sequence[Label] | Mapping[Label, Any] | Frame | None = None,
        candidates_by: str | Sequence[str] | None = None,
        item_features: Frame | Mapping[Label, Any] | ArrayLike | None = None,
        item_features_by: str | Sequence[str] | None = None,
        logging_policy: Any = None,
        timestamp: str | None = None,
        group: str | None = None,
        columns: Sequence[str] | Mapping[str, Any] | None = None,
        reward_range: tuple[float, float] | None = None,
    ) -> Self:
        """Build slate logs from the named columns of a data frame.

        The wide form has a row for every page and a column for every slot. The long
        form has a row for every item that was shown. Read more in the
        :ref:`User Guide <frames_of_pages>`.

        Parameters
        ----------
        frame : pandas, polars or pyarrow table
            The pages. The frame is not changed.
        item : list of str, or str
            Wide form: names of the columns with the items, in the order of the
            slots. Long form: name of the column with the item. Items are texts or
            whole numbers. A missing value is an empty slot, and so is -1 among whole
            numbers.
        round : str, default=None
            Name of the column that names the page. The long form needs it. The wide
            form needs it only if `candidates` differ by page.
        slot : str, default=None
            Long form: name of the column with the position on the page. Positions are
            sorted; a position that a page lacks is an empty slot. Rows can be in any
            order; pages are in the order of their first rows.
        reward : str, default=None
            Name of the column with the reward of the page. `None`: the sum of
            `slot_reward`.
        slot_reward : list of str, or str, default=None
            Names of the columns with the rewards of the slots, such as clicks, in the
            order of `item`; one name in the long form.
        propensity : str or float in (0, 1], default=None
            Name of the column with the probability of the whole page, or the one
            probability of all pages.
        context : list of str, default=None
            Names of the columns that were known before the page was composed. They
            are kept as a frame of the same library. `[]`: no features.
        exclude : list of str, default=None
            Instead of `context`: names of columns that are not context. All columns
            that no other argument names become the context.
        candidates : str, list, dict or frame, default=None
            Which items could be shown. `None`: all items that any page shows. You can
            pass:

            - the name of a column of lists;
            - a list of all items, in the order of their indices;
            - a dict or pandas Series {page: list of items};
            - a frame with a row for every page and candidate. Its columns have the
              names `round` and `item` of this call ("item" in the wide form).

            A list may hold one list for every slot.
        candidates_by : str or list of str, default=None
            Name of the column by which `candidates` differ, such as the query: the
            keys of the dict are its values, and the frame has a column of this name.
            With several columns the keys are tuples. `None`: `round`. The column may
            also be in the context.
        item_features : frame, dict or array-like, default=None
            Features of the items, as numbers. You can pass:

            - a frame; the column of the items has the name `item` of this call,
              "item" or "item_id", or is the index of a pandas frame;
            - a dict {item: list of features};
            - an array with a row for every item, in their order.

            The names of a frame's columns are kept as `item_feature_names`.
        item_features_by : str or list of str, default=None
            Names of further columns that the frame `item_features` shares with the
            pages, such as the query: it then has a row for every query and item. Items
            that a page does not offer need no row. This takes 8 bytes for every page,
            item and feature.
        logging_policy : slate policy, default=None
            The policy that composed the pages, if known. If it fills every slot, such
            as `UniformSlatePolicy`, a page with fewer items is taken as a page with
            fewer slots: `candidates` then differ by slot, and its last slots offer
            nothing. Every policy leaves them empty.
        timestamp, group : str, default=None
            Names of further columns.
        columns : list of str or dict, default=None
            Further columns to keep, also in folds (see `with_columns`). A column
            "sample_weight" weights the pages. A dict gives each new name a column or
            a list of columns.
        reward_range : tuple of (float, float), default=None
            Known bounds of the reward. Leave it out if there are none.

        Returns
        -------
        logs : SlateLogs
            Indices follow the sorted items, or the list of `candidates`. `item_id`
            holds the labels of the items, unless these are the indices.

        Raises
        ------
        ValueError, TypeError
            If a column is missing, or a page has two items in one slot. In the long
            form, also if a column of the page changes within the page. The message
            names the page and the value.

        Examples
        --------
        >>> import pandas as pd
        >>> from skope_ope import SlateLogs
        >>> shown = pd.DataFrame({
        ...     "page": [1, 1, 2], "place": [1, 2, 1], "film": ["Heat", "Up", "Up"],
        ...     "click": [0, 1, 0], "age": [31, 31, 54],
        ... })
        >>> logs = SlateLogs.from_frame(
        ...     shown, round="page", slot="place", item="film", slot_reward="click",
        ...     context=["age"],
        ... )
        >>> logs
        SlateLogs(n_rounds=2, n_features=1, n_slots=2, n_candidates=2)
        >>> logs.slate, logs.reward
        (array([[ 0,  1],
               [ 1, -1]]), array([1., 0.]))
        >>> list(logs.to_frame().columns)
        ['age', 'slot_1', 'slot_2', 'slot_reward_1', 'slot_reward_2', 'reward']
        """
        given = dict(locals())
        single = {name: given[name] for name in column_fields(SLATE)}
        places = {"round": round, "slot": slot}
        named = PageColumns(frame, item, slot_reward, places, single, candidates)
        named.choose(context, exclude, columns)
        frame, item = named.frame, named.item
        of_items = [*named.items, *named.rewards]
        pages = FramePages(
            frame, round, slot, named.is_long, len(named.items), of_items
        )
        pages.check_constant(named.constant_names)
        numbered = Items.of(
            shown_items(frame, named.items, pages),
            *offered_items(candidates, pages, round, item, candidates_by),
            pages,
        )
        if fills_slots(logging_policy):
            numbered.shorten()
        fields = named.fields(pages.frame)
        if named.rewards:
            rewards = pages.slot_values(frame, named.rewards, numbered.slate)
            warn_of_page_reward(rewards, numbered.slate, named.rewards)
            fields["slot_reward"] = rewards
        features, names = item_features_of(
            item_features, numbered, item, pages, item_features_by
        )
        logs = cls(
            context_of_frame(pages.frame, named.context),
            numbered.slate,
            fields.pop("reward", None),
            n_candidates=len(numbered.labels),
            candidates=numbered.candidates,
            item_id=numbered.item_id,
            item_features=features,
            item_feature_names=names,
            logging_policy=logging_policy,
            reward_range=reward_range,
            **fields,
        )
        logs._name_reward(slot_reward if reward is None else reward)
        remember_labels(logs, pages.frame, pages.round)
        return logs.with_columns(**named.added(pages.frame))

    def to_frame(self, backend: str | None = None, *, form: str = "wide") -> Frame:
        """Return the logs as a data frame.

        The frame leaves out the features of items and the logging policy.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default=None
            Library of the frame. `None`: that of the context, or pandas.
        form : {"wide", "long"}, default="wide"
            A row for every page, or for every slot of every page.

        Returns
        -------
        frame : pandas, polars or pyarrow table
            Context columns first. The wide form has `slot_1`, `slot_2`, ... with the
            labels of the items (None in an empty slot), and `slot_reward_1`, ... The
            long form has `round`, `slot`, `item` and `slot_reward`. Then `reward` and
            the other fields that are set. `candidates` is a column of lists if pages
            differ in them.
        """
        if form not in FRAME_FORMS:
            hint = meant(form, FRAME_FORMS)
            raise ValueError(f"form must be one of {FRAME_FORMS}, got {form!r}.{hint}")
        n_rounds, n_slots = self.slate.shape
        labels = _labels_of_slots(self)
        data, context = {}, self.context
        if form == "wide":
            data |= {f"slot_{j + 1}": labels[j::n_slots] for j in range(n_slots)}
            if self.slot_reward is not None:
                for j in range(n_slots):
                    data[f"slot_reward_{j + 1}"] = self.slot_reward[:, j]
        else:
            data["round"] = np.repeat(np.arange(n_rounds), n_slots)
            data["slot"] = np.tile(np.arange(1, n_slots + 1), n_rounds)
            data["item"] = labels
            if self.slot_reward is not None:
                data["slot_reward"] = self.slot_reward.ravel()
        of_page = {}
        for name in column_fields(SLATE):
            value = getattr(self, name)
            if value is not None:
                of_page |= parts_of_group(name, value)
        candidates = _lists_of_candidates(self)
        if candidates is not None:
            of_page["candidates"] = candidates
        of_page = with_named(of_page, self.columns)
        if form == "long":
            page = data["round"]
            context = take_rows(context, page)
            of_page = {
                name: [value[k] for k in page.tolist()]
                if isinstance(value, list)
                else value[page]
                for name, value in of_page.items()
            }
        clash = next((name for name in of_page if name in data), None)
        if clash is not None:
            raise ValueError(
                f"logs.columns has a column {clash!r}, the name that a field of the "
                "logs gets in the frame. Rename that column."
            )
        return joined_frame(context, {**data, **of_page}, backend)


def _labels_of_slots(logs):
    """Return a list of the labels in all slots, page after page; None: empty."""
    slate = labels = logs.slate
    if logs.item_id is not None:
        labels = np.take_along_axis(logs.item_id, np.maximum(slate, 0), axis=1)
    empty = (slate < 0).ravel().tolist()
    return [
        None if none else label
        for none, label in zip(empty, labels.ravel().tolist(), strict=True)
    ]


def _lists_of_candidates(logs):
    """Get the labels that every page offers as lists, or None: all offer the same."""
    # A page whose slots differ in them has a list of lists.
    offered, labels = logs.offered, logs.item_id
    shape = len(logs), logs.max_candidates
    if labels is None:
        labels = np.broadcast_to(np.arange(shape[1]), shape)
    if offered is None:
        if (labels == labels[:1]).all():
            return None
        offered = np.ones(shape, dtype=bool)
    pairs = zip(labels, offered, strict=True)
    if offered.ndim == 2:
        return [row[mask].tolist() for row, mask in pairs]
    return [[row[mask].tolist() for mask in masks] for row, masks in pairs]


# -- which columns of a frame of pages mean what ---------------------------------------


class PageColumns:
    """The named columns of a frame of pages, checked."""

    def __init__(self, frame, item, slot_reward, places, single, candidates):
        self.frame = frame = opened_frame(frame)
        self.single = {k: name for k, name in single.items() if name is not None}
        if isinstance(self.single.get("propensity"), (list, tuple)):
            raise TypeError(
                "propensity is the probability of the whole page: one column or one "
                f"number, got {self.single['propensity']!r}. Where each slot was drawn "
                "on its own, pass logging_policy=ProductSlatePolicy(slot_proba)."
            )
        for field, name in self.single.items():
            check_name(field, name, frame)
        self.is_long = not isinstance(item, (list, tuple))
        if self.is_long:
            check_name("item", item, frame)
        self.items = [item] if self.is_long else list(item)
        self.item = item if self.is_long else "item"
        self.rewards = _reward_columns(slot_reward, self.items, self.is_long)
        _check_form(self.items, *places.values(), self.is_long)
        places = {k: name for k, name in places.items() if name is not None}
        for field, name in places.items():
            check_name(field, name, frame)
        self.constant = constant_propensity(self.single, frame)
        self._used = [*self.single.values(), *self.items, *self.rewards]
        self._used += [*places.values(), *_column_of_lists(candidates, frame)]

    def choose(self, context, exclude, columns):
        """Take the columns of the context, and further ones."""
        self.columns = columns_by_name(columns)[0]
        carried = flat(self.columns)
        used = [*self._used, *carried]
        self.context = context_among(
            self.frame, used, context, exclude, self._check_context
        )
        self.constant_names = [*self.context, *self.single.values(), *carried]

    def _check_context(self, context):
        check_context_names(context, {**self.single, "action": self.items[0]})
        both = [name for name in (*self.items, *self.rewards) if name in context]
        if both:
            raise ValueError(
                f"column {both[0]!r} says what was shown or what came of it; it cannot "
                "be in the context as well, which is what was known before the page "
                "was composed. Take it out of the context."
            )

    def fields(self, rows):
        """Return the fields that have one value for a page."""
        fields = {
            field: column_of(rows, name, field) for field, name in self.single.items()
        }
        if self.constant:
            fields["propensity"] = self.constant["propensity"][: len(rows)]
        return fields

    def added(self, rows):
        """Return the further columns, one row a page."""
        return {
            name: columns_side_by_side(rows, some)
            for name, some in self.columns.items()
        }


def _column_of_lists(candidates, frame):
    """Return the name of the column with lists of candidates, in a list."""
    if not isinstance(candidates, str):
        return []
    if candidates not in frame.columns:
        raise ValueError(
            f"candidates={candidates!r} is no column of the frame."
            f"{meant(candidates, frame.columns)} Name a column of lists, or pass a "
            "list, a dict or a frame."
        )
    return [candidates]


def _reward_columns(slot_reward, items, is_long):
    """Return the columns of the rewards of slots."""
    if slot_reward is None:
        return []
    several = isinstance(slot_reward, (list, tuple))
    if is_long and several:
        raise TypeError(
            f"slot_reward must name one column in the long form, got {slot_reward!r}: "
            "item names one column, with a row for every item that was shown."
        )
    if is_long:
        return [slot_reward]
    if not several:
        raise TypeError(
            f"slot_reward must be a list of columns, one per slot, got {slot_reward!r}."
        )
    if len(slot_reward) != len(items):
        raise ValueError(
            f"slot_reward names {len(slot_reward)} columns and item names {len(items)}:"
            " name one for every slot, in the same order."
        )
    return list(slot_reward)


def _check_form(items, round_, slot, is_long):
    """Raise where the names are those of neither form."""
    if is_long:
        for name, value, what in (
            ("round", round_, "the page"),
            ("slot", slot, "the position on the page"),
        ):
            if value is None:
                raise ValueError(
                    f"item={items[0]!r} is one column, so each row is one item that "
                    f"was shown. Name the column of {what} with {name}=. If each row "
                    "is a page, pass a list of columns, item=['slot_1', 'slot_2']."
                )
        return
    if not items:
        raise ValueError("item names no column: name one for every slot of the page.")
    if slot is not None:
        raise ValueError(
            f"slot={slot!r} names the position in the long form, and item={items!r} is "
            "a list, one column for every slot. Pass one column as item, or no slot."
        )
    twice = [name for k, name in enumerate(items) if name in items[:k]]
    if twice:
        raise ValueError(f"item names column {twice[0]!r} twice.")


# -- which rows of a frame make up a page, and in which slots --------------------------


class FramePages:
    """The pages of a frame."""

    def __init__(self, frame, round_, slot, is_long, n_slots, of_items=()):
        self.rows, self.n_slots, self.round = frame, n_slots, round_
        self.of_items = {slot, *of_items}
        self.page = self.slot = self.labels = None
        if not len(frame):
            raise ValueError("the frame is empty: at least one page is needed.")
        if not is_long:
            self.frame, self.n_pages = frame, len(frame)
            if round_ is not None:
                self._name_rows(round_)
            return
        labels, code = _factorised(frame, round_)
        first = first_of_codes(code, len(labels))
        order = np.argsort(first)  # pages come as their first rows do
        rank = np.empty(len(order), dtype=np.intp)
        rank[order] = np.arange(len(order))
        self.page, self.labels, self.first = rank[code], labels[order], first[order]
        slots, self.slot = _factorised(frame, slot)
        self.n_pages, self.n_slots = len(labels), len(slots)
        self.frame = frame[self.first.tolist()]
        self._check_once(slots)

    def _name_rows(self, round_):
        labels, code = _factorised(self.rows, round_)
        twice = np.flatnonzero(np.bincount(code) > 1)
        if twice.size:
            label = plain(labels[twice[0]])
            raise ValueError(
                f"{round_} {label!r} names {int((code == twice[0]).sum())} rows. In "
                "the wide form a row is a page; where it is an item, pass one column "
                "as item, and slot=."
            )
        self.labels = labels[code]

    def _check_once(self, slots):
        """Raise where a page has two rows for one slot."""
        place = self.page * self.n_slots + self.slot
        order = np.argsort(place, kind="stable")
        again = np.flatnonzero(place[order][1:] == place[order][:-1])
        if again.size:
            one, other = order[again[0]], order[again[0] + 1]
            raise ValueError(
                f"{self.called(self.page[one])} has two rows for slot "
                f"{plain(slots[self.slot[one]])!r}: rows {one} and {other}. Each slot "
                "shows one item: drop one of them, or name another column as slot."
            )

    def called(self, page):
        """Return what messages call a page."""
        if self.labels is None:
            return f"row {page}"
        return f"page {plain(self.labels[page])!r}"

    def check_constant(self, names):
        """Raise where a column of pages changes within a page of the long form."""
        if self.page is None:
            return
        of_page = self.first[self.page]
        for name in dict.fromkeys(names):
            series = self.rows.get_column(name)
            missing = series.is_null().to_numpy().astype(bool)
            values = series.to_numpy()
            if values.dtype.kind == "f":
                missing = missing | np.isnan(values)
            differ = missing != missing[of_page]
            known = np.flatnonzero(~missing & ~differ)
            differ[known] = values[known] != values[of_page[known]]
            if differ.any():
                row = int(np.flatnonzero(differ)[0])
                first = of_page[row]
                raise ValueError(
                    f"column {name!r} changes within {self.called(self.page[row])}: "
                    f"{plain(values[first])!r} at row {first}, {plain(values[row])!r} "
                    f"at row {row}. Name a column that has one value for a page; "
                    "rewards of single items go to slot_reward."
                )

    def spread(self, values, empty):
        """Return values of the rows of the long form by page and slot."""
        out = np.full((self.n_pages, self.n_slots), empty, dtype=values.dtype)
        out[self.page, self.slot] = values
        return out

    def slot_values(self, frame, names, slate):
        """Return the rewards of the slots, 0 where a slot is empty."""
        empty = slate < 0
        if self.page is not None:
            values = _slot_numbers(frame, names[0], empty[self.page, self.slot])
            return self.spread(values, 0.0)
        columns = zip(names, empty.T, strict=True)
        return np.column_stack([_slot_numbers(frame, *one) for one in columns])


def _factorised(frame, name):
    found = column_of(frame, name, "label")
    return factorise(getattr(found, "values", found))


def _slot_numbers(frame, name, empty):
    """Return a column of rewards; those of empty slots may be missing."""
    series = frame.get_column(name)
    missing = series.is_null().to_numpy().astype(bool)
    values = series.fill_null(0).to_numpy() if missing.any() else series.to_numpy()
    if values.dtype.kind not in "biuf":
        raise TypeError(
            f"column {name!r} must hold the rewards of slots, numbers, got "
            f"{series.dtype}."
        )
    values = values.astype(float)
    missing = missing | np.isnan(values)
    wrong = np.flatnonzero(missing & ~empty)
    if wrong.size:
        raise ValueError(
            f"column {name!r} has no reward at row {wrong[0]}, where an item was shown "
            f"({wrong.size} such rows). Fill in 0 where nothing came of it."
        )
    values[missing] = 0.0
    return values


# -- whether what is given as the rewards of slots is the reward of the page -----------

FEWEST_REWARDED_ROWS = (
    10  # pages with a reward, and others: chance does not make all slots equal
)


def like_page_reward(slot_reward, slate):
    """Tell whether all slots of every page have the same reward, and pages differ."""
    filled = slate != EMPTY
    several = filled.sum(axis=1) > 1
    reward = np.asarray(slot_reward, dtype=float)[several]
    most = np.where(filled[several], reward, -np.inf).max(axis=1, initial=-np.inf)
    least = np.where(filled[several], reward, np.inf).min(axis=1, initial=np.inf)
    if (most != least).any() or not len(most):
        return None
    usual = np.unique(most, return_counts=True)[1].max()
    n_rewarded = int(np.count_nonzero(most))
    if min(n_rewarded, len(most) - usual) < FEWEST_REWARDED_ROWS:
        return None
    return len(most), n_rewarded


def warn_of_page_reward(slot_reward, slate, names):
    """Warn where the columns of the rewards of slots look like that of the page."""
    found = like_page_reward(slot_reward, slate)
    if found is None:
        return
    n_pages, n_rewarded = found
    what, given = names[0], names if len(names) > 1 else names[0]
    page = "the column with the reward of the page" if len(names) > 1 else repr(what)
    told = (
        f"slot_reward={given!r} is the same in all slots of each of the {n_pages:,} "
        "pages with several items, so it looks like the reward of the page. The "
        "rewards of slots are added: a page then counts once for every slot. Pass "
        f"reward={page} and no slot_reward."
    )
    warn_user([LogsWarning(told, float(n_rewarded))])
