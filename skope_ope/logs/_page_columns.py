# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which columns of a frame of pages mean what."""

from skope_ope._meant import meant
from skope_ope.logs._columns_of_labels import named_columns
from skope_ope.logs._contexts import check_context_names, choose_context
from skope_ope.logs._frames import (
    check_name,
    check_named,
    column_of,
    columns_of,
    constant_propensity,
    names_of,
    opened,
)


class PageColumns:
    """The named columns of a frame of pages, checked."""

    def __init__(
        self,
        frame,
        *,
        item,
        round,
        slot,
        slot_reward,
        of_page,
        context,
        exclude,
        candidates,
        columns,
    ):
        self.frame = frame = opened(frame)
        self.single = {k: name for k, name in of_page.items() if name is not None}
        self._check_single()
        self.is_long = not isinstance(item, (list, tuple))
        if self.is_long:
            check_name("item", item, frame)
        self.items = [item] if self.is_long else list(item)
        self.item = item if self.is_long else "item"
        self.rewards = _reward_columns(slot_reward, self.items, self.is_long)
        _check_form(self.items, round, slot, self.is_long)
        places = {"round": round, "slot": slot}
        places = {k: name for k, name in places.items() if name is not None}
        for field, name in places.items():
            check_name(field, name, frame)
        self.constant = constant_propensity(self.single, frame)
        self.columns = named_columns(columns)[0]
        carried = []
        for some in self.columns.values():
            carried += some if isinstance(some, tuple) else [some]
        used = [*self.single.values(), *self.items, *self.rewards, *places.values()]
        used += [*carried, *_column_of_lists(candidates, frame)]
        self.context = self._context_of(context, exclude, used)
        self.constant_names = [*self.context, *self.single.values(), *carried]

    def _check_single(self):
        if isinstance(self.single.get("propensity"), (list, tuple)):
            raise TypeError(
                "propensity is the probability of the whole page: one column or one "
                f"number, got {self.single['propensity']!r}. Where each slot was drawn "
                "on its own, pass logging_policy=ProductSlatePolicy(slot_proba)."
            )
        for field, name in self.single.items():
            check_name(field, name, self.frame)

    def _context_of(self, context, exclude, used):
        frame = self.frame
        context = None if context is None else names_of("context", context)
        exclude = None if exclude is None else names_of("exclude", exclude)
        check_named(frame, (*used, *(context or ()), *(exclude or ())))
        if context is not None:
            check_context_names(context, {**self.single, "action": self.items[0]})
            _check_not_context(context, [*self.items, *self.rewards])
        others = [name for name in frame.columns if name not in used]
        return list(choose_context(others, context, exclude))

    def fields(self, rows):
        """Return the fields that have one value for a page."""
        fields = {
            field: column_of(rows, name, field == "group")
            for field, name in self.single.items()
        }
        if self.constant:
            fields["propensity"] = self.constant["propensity"][: len(rows)]
        return fields

    def added(self, rows):
        """Return the further columns, one row a page."""
        return {name: columns_of(rows, some) for name, some in self.columns.items()}


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


def _check_not_context(context, outcomes):
    both = [name for name in outcomes if name in context]
    if both:
        raise ValueError(
            f"column {both[0]!r} says what was shown or what came of it; it cannot be "
            "in the context as well, which is what was known before the page was "
            "composed. Take it out of the context."
        )
