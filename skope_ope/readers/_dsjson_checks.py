# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What an event of dsjson says twice must agree: its label, its action, its `p`.

The logged action is `_labelIndex`, from 0, and once more `_label_Action`, which
writers count from 0 or from 1. Its probability is `_label_probability`, and once more
in `p`: `a` ranks the actions, from 0 or from 1, and `p[i]` is the probability of
`a[i]`.
"""

from decimal import Decimal

from skope_ope.logs._numbers import quoted, whole_number
from skope_ope.readers._vw_event import MalformedLineError

DECISIVE = ("a", "c", "p", "pdrop", "Timestamp", "_skipLearn")  # besides the label
NUMBERS = (float, int)  # as JSON holds them; truth values are none
FLOAT32 = 1e-6  # how far copies of 32-bit numbers may be off
SUM_ROUNDING = 1e-3  # how far the sum of probabilities may be off in any case
FEWEST_DIGITS = 2  # behind the point: no logger rounds more than that


def check_keys(event, decisive=()):
    """Raise if a key of the label, or one of `decisive`, has two values."""
    labels = [key.lower() for key, _ in event.items() if key.startswith("_label")]
    if isinstance(event, dict) and len(set(labels)) == len(labels):
        return  # keys of a dictionary differ, but for the case of letters
    first = {}
    for key, value in event.items():
        if key in decisive or key.startswith("_label"):
            known = first.setdefault(key.lower(), value)
            if known is not value and known != value:
                raise MalformedLineError(
                    f"{key!r} occurs twice, as {quoted(known)} and as {quoted(value)}"
                )


def label_base(action, position):
    """Return from which number `_label_Action` counts."""
    number = action
    if isinstance(action, str):
        try:
            number = whole_number(action)
        except ValueError:
            number = None
    if not is_integer(number) or number - position not in (0, 1):
        raise MalformedLineError(
            f"'_label_Action' is {quoted(action)} and '_labelIndex' is {position}; the "
            f"first must be {position}, counted from 0, or {position + 1}, from 1"
        )
    return number - position


def logging_proba(ranking, proba, position, propensity, n_actions):
    """Return the logging distribution in the order of the actions."""
    ordered = _plain_proba(ranking, proba, position, propensity, n_actions)
    if ordered is not None:
        return ordered
    total = checked_sum(proba, n_actions) if proba else 0.0
    if not ranking:
        return None
    if proba and len(proba) != len(_checked_list("a", ranking)):
        raise MalformedLineError(
            f"'a' has {len(ranking)} entries and 'p' has {len(proba)}"
        )
    places = _places(ranking, position, n_actions)
    if not proba:
        return None
    off = min(abs(proba[place] - propensity) for place in places.values())
    if off > FLOAT32 and off > max(_rounding([propensity]), _rounding(proba)):
        told = " or ".join(f"{proba[place]:.9g}" for place in places.values())
        raise MalformedLineError(
            f"'_label_probability' is {propensity:.9g}, and 'p' gives {told} to the "
            "logged action"
        )
    if len(ranking) < n_actions or abs(total - 1.0) > FLOAT32 or off > FLOAT32:
        return None
    (base,) = places  # all actions are ranked: they count from one number
    ordered = [0.0] * n_actions
    for action, p in zip(ranking, proba, strict=True):
        ordered[action - base] = p / total
    return ordered


def _plain_proba(ranking, proba, position, propensity, n_actions):
    """Return the distribution if nothing is odd about it, None otherwise."""
    # That is the case in nearly all events, and few passes in C tell it.
    if type(ranking) is not list or type(proba) is not list:
        return None
    if not len(ranking) == len(proba) == n_actions:
        return None
    if set(map(type, ranking)) != {int} or set(map(type, proba)) != {float}:
        return None
    total, base = sum(proba), min(ranking)
    if abs(total - 1.0) > FLOAT32 or min(proba) < 0.0 or max(proba) > 1.0:
        return None
    p_of = dict(zip(ranking, proba, strict=True))
    last = base + n_actions - 1
    if base not in (0, 1) or max(ranking) != last or len(p_of) < n_actions:
        return None
    if abs(p_of[position + base] - propensity) > FLOAT32:
        return None
    ordered = [*map(p_of.__getitem__, range(base, last + 1))]
    return ordered if total == 1.0 else [p / total for p in ordered]


def _places(ranking, position, n_actions):
    """Return {base: place of the logged action in `a`} of the possible bases."""
    if set(map(type, ranking)) != {int}:
        wrong = [action for action in ranking if not is_integer(action)]
        raise MalformedLineError(
            f"'a' holds {quoted(wrong[0])}, which is not the number of an action"
        )
    low, high = min(ranking), max(ranking)
    bases = [base for base in (0, 1) if base <= low and high < n_actions + base]
    if not bases:
        found = low if low < 0 else high
        both = " and counts from 0" if high == n_actions and low == 0 else ""
        raise MalformedLineError(
            f"'a' names action {quoted(found)}{both}; the event has {n_actions} actions"
        )
    if len(set(ranking)) < len(ranking):
        twice = next(action for action in ranking if ranking.count(action) > 1)
        raise MalformedLineError(f"'a' names action {twice} twice")
    places = {
        base: ranking.index(position + base)
        for base in bases
        if position + base in ranking
    }
    if not places:
        raise MalformedLineError(
            f"'a' leaves out the logged action, which is {position}, counted from 0"
        )
    return places


def checked_sum(proba, n_actions):
    """Return the sum of probabilities, one unless they leave out actions."""
    for p in _checked_list("p", proba):
        if type(p) not in NUMBERS or not 0 <= p <= 1:
            raise MalformedLineError(f"{quoted(p)} is not a probability")
    total, size = sum(proba), len(proba)
    excess = total - 1.0 if size < n_actions else abs(total - 1.0)
    if excess > SUM_ROUNDING and excess > size * _rounding(proba):
        raise MalformedLineError(
            f"the probabilities {quoted(proba)} sum to {total:.6g}, but the "
            "probabilities of all actions must sum to 1"
        )
    return total


def _checked_list(name, values):
    if type(values) is not list:  # objects are lists of pairs
        raise MalformedLineError(f"{name!r} must be an array, got {quoted(values)}")
    return values


def _rounding(values):
    """Return by how much a value may be off that is cut to the digits that stand."""
    digits = max(-Decimal(repr(value)).as_tuple().exponent for value in values)
    return 10.0 ** -max(digits, FEWEST_DIGITS)


def is_integer(value):
    """Tell whether JSON holds a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)
