# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Slates from and to data frames: a row a page, or a row an item that was shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skope_ope._meant import meant
from skope_ope._types import ArrayLike, Frame, Label
from skope_ope.logs._columns_of_labels import named_columns
from skope_ope.logs._contexts import check_context_names, choose_context
from skope_ope.logs._frame_items import (
    Items,
    candidates_of,
    item_features_of,
    shown_items,
)
from skope_ope.logs._frame_pages import Pages
from skope_ope.logs._frames import (
    check_name,
    check_named,
    column_of,
    columns_of,
    constant_propensity,
    features_of,
    joined,
    names_of,
    opened,
    parts_of,
    with_named,
)
from skope_ope.logs._row_container import take_rows

if TYPE_CHECKING:
    from skope_ope.logs._slate_logs import SlateLogs

FORMS = ("wide", "long")


class SlateFramed:
    """What logs of slates and data frames have to do with each other."""

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
        item_features: Frame | Mapping[Label, Any] | ArrayLike | None = None,
        logging_policy: Any = None,
        timestamp: str | None = None,
        group: str | None = None,
        columns: Sequence[str] | Mapping[str, Any] | None = None,
        reward_range: tuple[float, float] | None = None,
    ) -> SlateLogs:
        """Build logs of slates from the named columns of a data frame.

        The wide form has a row for every page and a column for every slot; the long
        form has a row for every item that was shown. Read more in the
        :ref:`User Guide <frames_of_pages>`.

        Parameters
        ----------
        frame : pandas, polars or pyarrow table
            It is not written to.
        item : list of str, or str
            The wide form: names of the columns with the items, in the order of the
            slots. The long form: name of the column with the item. Items are texts or
            whole numbers. A missing value, and -1 among whole numbers, is an empty
            slot.
        round : str, default=None
            Name of the column that names the page; needed in the long form. In the
            wide form it is needed where `candidates` are told by page.
        slot : str, default=None
            The long form: name of the column with the position on the page. Positions
            are sorted. One that a page lacks is an empty slot. Rows may stand in any
            order; pages come in the order of their first rows.
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
            Names of the columns that were known before the page was composed, kept as
            a frame of the same library; `[]` for logs without features.
        exclude : list of str, default=None
            In place of `context`: names of columns that do not belong there. All others
            that are not named elsewhere do.
        candidates : str, list, dict or frame, default=None
            Which items could be shown. The name of a column of lists; or a list of all
            items, in the order of their indices; or a dict of lists by the name of the
            page; or a frame with a row for every page and candidate, whose columns are
            called as `round` and `item` ("item" in the wide form). Lists may hold a
            list for every slot. `None`: all items that any page shows.
        item_features : frame, dict or array-like, default=None
            Features of the items, numbers. A frame with a column called as `item`,
            "item" or "item_id", or a pandas frame with the items as its index; a dict
            of lists by item; or an array with a row for every item, in their order.
        logging_policy : slate policy, default=None
            The policy that composed the pages, where known.
        timestamp, group : str, default=None
            Names of further columns.
        columns : list of str or dict, default=None
            Columns that folds carry along (see `with_columns`); one that is called
            "sample_weight" weights the pages. A dict tells the column, or a list of
            columns, of every name.
        reward_range : tuple of (float, float), default=None
            Known bounds of the reward.

        Returns
        -------
        logs : SlateLogs
            Items have indices in sorted order, or in that of a list of `candidates`;
            `item_id` holds their labels, unless these are the indices.

        Raises
        ------
        ValueError, TypeError
            If a column is missing, a page has two items in one slot, or a column of the
            long form that belongs to the page changes within it. The message names the
            page and what was found.

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
        frame = opened(frame)
        single = {
            "reward": reward,
            "propensity": propensity,
            "timestamp": timestamp,
            "group": group,
        }
        single = {field: name for field, name in single.items() if name is not None}
        if isinstance(single.get("propensity"), (list, tuple)):
            raise TypeError(
                "propensity is the probability of the whole page: one column or one "
                f"number, got {propensity!r}. Where each slot was drawn on its own, "
                "pass logging_policy=ProductSlatePolicy(slot_proba)."
            )
        for field, name in single.items():
            check_name(field, name, frame)
        is_long = not isinstance(item, (list, tuple))
        if is_long:
            check_name("item", item, frame)
        items = [item] if is_long else list(item)
        rewards = _reward_columns(slot_reward, items, is_long)
        _check_form(items, round, slot, is_long)
        for field, name in (("round", round), ("slot", slot)):
            if name is not None:
                check_name(field, name, frame)
        constant = constant_propensity(single, frame)
        columns = named_columns(columns)[0]
        listed = isinstance(candidates, str)
        used = [*single.values(), *items, *rewards, *([candidates] if listed else [])]
        used += [name for name in (round, slot) if name is not None]
        carried = []
        for some in columns.values():
            carried += some if isinstance(some, tuple) else [some]
        used += carried
        context = None if context is None else names_of("context", context)
        exclude = None if exclude is None else names_of("exclude", exclude)
        if listed and candidates not in frame.columns:
            raise ValueError(
                f"candidates={candidates!r} is no column of the frame."
                f"{meant(candidates, frame.columns)} Name a column of lists, or pass a "
                "list, a dict or a frame."
            )
        check_named(frame, (*used, *(context or ()), *(exclude or ())))
        if context is not None:
            told = {**single, "action": items[0]}
            check_context_names(context, told)
            _check_not_context(context, [*items, *rewards])
        others = [name for name in frame.columns if name not in used]
        context = choose_context(others, context, exclude)
        pages = Pages(frame, round, slot, is_long, len(items))
        pages.check_constant([*context, *single.values(), *carried])
        rows = pages.frame
        shown = shown_items(frame, items, pages)
        offered, listing = candidates_of(
            candidates, rows, pages, round, slot, item if is_long else "item"
        )
        numbered = Items.of(shown, offered, listing, pages)
        fields = {
            field: column_of(rows, name, field == "group")
            for field, name in single.items()
        }
        if constant:
            fields["propensity"] = constant["propensity"][: len(rows)]
        if rewards:
            fields["slot_reward"] = pages.slot_values(frame, rewards, numbered.slate)
        logs = cls(
            features_of(rows, context),
            numbered.slate,
            fields.pop("reward", None),
            n_candidates=len(numbered.labels),
            candidates=numbered.candidates,
            item_id=numbered.item_id,
            item_features=item_features_of(
                item_features, numbered.labels, item if is_long else None
            ),
            logging_policy=logging_policy,
            reward_range=reward_range,
            **fields,
        )
        if not columns:
            return logs
        added = {name: columns_of(rows, some) for name, some in columns.items()}
        return logs.with_columns(**added)

    def to_frame(self, backend: str | None = None, *, form: str = "wide") -> Frame:
        """Return the logs as a data frame.

        Features of items are in no column, nor is the logging policy.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default=None
            Library of the frame. `None`: that of the context, or pandas.
        form : {"wide", "long"}, default="wide"
            A row for every page, or for every slot of every page.

        Returns
        -------
        frame : pandas, polars or pyarrow table
            Context columns, then those of the wide form: `slot_1`, `slot_2`, ... with
            the labels of the items, None where a slot is empty; `slot_reward_1`, ...;
            or those of the long form: `round`, `slot`, `item`, `slot_reward`. Then
            `reward` and the other fields there are. `candidates` is a column of lists,
            where pages differ in them.
        """
        if form not in FORMS:
            raise ValueError(
                f"form must be one of {FORMS}, got {form!r}.{meant(form, FORMS)}"
            )
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
        for name in ("reward", "propensity", "timestamp", "group"):
            value = getattr(self, name)
            if value is not None:
                of_page |= parts_of(name, value)
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
        return joined(context, {**data, **of_page}, backend)


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
                    f"item={items[0]!r} is one column, with a row for every item that "
                    f"was shown: name the column of {what} with {name}=. Where a row "
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


def _check_not_context(context, outcomes):
    both = [name for name in outcomes if name in context]
    if both:
        raise ValueError(
            f"column {both[0]!r} says what was shown or what came of it; it cannot be "
            "in the context as well, which is what was known before the page was "
            "composed. Take it out of the context."
        )


def _labels_of_slots(logs):
    """Return a list of the labels in all slots, page after page; None: empty."""
    slate = logs.slate
    labels = slate
    if logs.item_id is not None:
        labels = np.take_along_axis(logs.item_id, np.maximum(slate, 0), axis=1)
    empty = (slate < 0).ravel().tolist()
    return [
        None if none else label
        for none, label in zip(empty, labels.ravel().tolist(), strict=True)
    ]


def _lists_of_candidates(logs):
    """Return the labels that every page offers as lists, or None: all offer the same.

    A page whose slots differ in them has a list of lists.
    """
    offered, labels = logs.offered, logs.item_id
    n_rounds, n_candidates = len(logs), logs.max_candidates
    if labels is None:
        labels = np.broadcast_to(np.arange(n_candidates), (n_rounds, n_candidates))
    if offered is None:
        if (labels == labels[:1]).all():
            return None
        offered = np.ones((n_rounds, n_candidates), dtype=bool)
    if offered.ndim == 2:
        pairs = zip(labels, offered, strict=True)
        return [row[mask].tolist() for row, mask in pairs]
    return [
        [row[mask].tolist() for mask in masks]
        for row, masks in zip(labels, offered, strict=True)
    ]
