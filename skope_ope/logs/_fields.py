# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The fields of logs: one table of what each holds, in which shape, and who has it.

Constructors, readers of files and frames, `scan_logs` and the command line ask this
table and list nothing themselves. `python -m skope_ope evaluate -h` prints the words of
the fields that are options.
"""

import sys
from dataclasses import KW_ONLY, dataclass
from functools import cache
from math import inf

BANDIT, SLATE = "BanditLogs", "SlateLogs"
WEIGHT_COLUMN = "sample_weight"  # a field of single actions, a column of slates
FLOAT_MAX = sys.float_info.max

# -- what to do about rows where an entry is missing -----------------------------------

DROP_OR_FILL = "Drop or fill these rows."
DROP_REWARDS = (
    "Drop them only if feedback goes missing for reasons unrelated to action and "
    "outcome; never fill all with 0. Otherwise bound the gain: fill in what is worst "
    "for it, then what is best. Where each action has a column of rewards, take that "
    "of the logged action."
)
FIND_ACTIONS = (
    "Neither drop nor fill these rows: they may be those of one action. Find it where "
    "it was recorded; if no action was a choice, make it a label of its own. Only rows "
    "that are no decisions may be dropped."
)
ESTIMATE_ALL = (
    "Neither drop nor fill these rows: whether a propensity is missing, or wrong, may "
    "depend on the action. Find them where they were recorded, or leave all out and "
    "estimate them with PropensityEstimator, from a context without the old ones."
)

# -- the table -------------------------------------------------------------------------

PER_ROUND, PER_ACTION = ("n_rounds",), ("n_rounds", "n_actions")
SLOTS, ITEMS = ("n_rounds", "n_slots"), ("n_rounds", "max_candidates")
OF_ACTION = ("n_actions", "n_action_features")
OF_ITEM = ("max_candidates", "n_item_features")
FULL_RANGE = -FLOAT_MAX, FLOAT_MAX


@dataclass(frozen=True)
class Field:
    """What a field of logs is; `FIELDS` names them."""

    words: str
    kind: str = "number"  # of its entries; or "label", "moment", "boolean", "feature"
    axes: tuple = (PER_ROUND,)  # its shapes by sizes of the logs; (): no array
    _: KW_ONLY
    of: str = ""  # the only type of logs that has it
    needed: bool = False
    # Whether files and frames name it: by one column, or by one for every action,
    # logger or slot where the shape has two axes.
    in_files: bool = False
    replaceable: bool = False  # policies and models do not learn from it
    own_check: bool = False  # the logs look at all of it, in `_check_<name>`
    codes: str = ""  # attribute with the codes of the labels
    range: tuple = (-inf, inf)  # of the entries
    must: str = ""  # what messages say of entries out of this range
    remedy: str = "."  # and how they end: with what to do
    missing: str = ""  # what to do about rows where it is missing


FIELDS = {
    "context": Field(
        "what was known before the decision", "feature", (("n_rounds", "n_features"),)
    ),
    "action": Field(
        "the logged action",
        "label",
        of=BANDIT,
        needed=True,
        in_files=True,
        codes="action_index",
        missing=FIND_ACTIONS,
    ),
    "slate": Field(
        "the candidate in every slot", axes=(SLOTS,), of=SLATE, in_files=True
    ),
    "reward": Field(
        "its reward; greater is better",
        needed=True,
        in_files=True,
        replaceable=True,
        range=FULL_RANGE,
        must="must be a finite number",
        missing=DROP_REWARDS,
    ),
    "propensity": Field(
        "probability with which the action was chosen",
        in_files=True,
        replaceable=True,
        own_check=True,
        range=(sys.float_info.min, 1.0),  # one over less is infinite
        must="must lie in (0, 1]",
        missing=ESTIMATE_ALL,
    ),
    "logging_proba": Field(
        "probabilities of all actions, one column each",
        axes=(PER_ACTION,),
        of=BANDIT,
        in_files=True,
        replaceable=True,
        missing=ESTIMATE_ALL,
    ),
    "logger": Field(
        "which logger acted", "label", of=BANDIT, in_files=True, codes="logger_index"
    ),
    "logger_proba": Field(
        "probability of the logged action under every logger",
        axes=(("n_rounds", "n_loggers"),),
        of=BANDIT,
        in_files=True,
        replaceable=True,
    ),
    "available": Field(
        "whether each action was offered",
        "boolean",
        (PER_ACTION,),
        of=BANDIT,
        replaceable=True,
    ),
    "n_candidates": Field(
        "how many candidates there were", axes=(PER_ROUND, ()), of=SLATE
    ),
    "candidates": Field(
        "who could be shown, in any slot or in each",
        "boolean",
        (ITEMS, (*SLOTS, "max_candidates")),
        of=SLATE,
    ),
    "item_id": Field("labels of the candidates", "label", (ITEMS,), of=SLATE),
    "action_context": Field(
        "features of the actions", axes=(OF_ACTION, (*PER_ROUND, *OF_ACTION)), of=BANDIT
    ),
    "item_features": Field(
        "features of the candidates, or of a catalogue",
        axes=(OF_ITEM, (*PER_ROUND, *OF_ITEM)),
        of=SLATE,
        own_check=True,
    ),
    "slot_reward": Field(
        "rewards of the slots",
        axes=(SLOTS,),
        of=SLATE,
        in_files=True,
        range=(0, inf),
        must="must be non-negative, and zero in an empty slot",
    ),
    "timestamp": Field(
        "time of the round; numbers or datetimes",
        "moment",
        in_files=True,
        replaceable=True,
    ),
    "group": Field(
        "rows that depend on each other, such as those of a user",
        "label",
        (PER_ROUND, ("n_rounds", "n_parts")),
        in_files=True,
        replaceable=True,
        codes="_group_code",
    ),
    WEIGHT_COLUMN: Field(
        "1 / (probability of being kept)",
        of=BANDIT,
        in_files=True,
        replaceable=True,
        range=(0, FLOAT_MAX),
        must="must be a finite number >= 0",
        remedy=". Use 1 / (probability of being kept).",
    ),
    "actions": Field("all actions, in order", "label", (), of=BANDIT),
    "reward_range": Field("known bounds of the reward", axes=()),
    "logging_policy": Field(
        "the policy that composed the slates", axes=(), of=SLATE, replaceable=True
    ),
    "item_feature_names": Field("names of item_features", "label", (), of=SLATE),
}


def fields_of(logs, array=None):
    """Return the fields of a type of logs, a dict by name; `array`: (no) arrays."""
    return {
        name: field
        for name, field in FIELDS.items()
        if field.of in ("", logs) and array in (None, bool(field.axes))
    }


def row_fields(logs):
    """Return what logs hold of every round: fields, and the codes of labels."""
    pairs = [(name, field.codes) for name, field in fields_of(logs, True).items()]
    return tuple(one for pair in pairs for one in pair if one)


def indexed_fields(logs):
    """Return the fields whose first axis is that of the rounds, in any shape."""
    known = fields_of(logs, True)
    return [name for name, field in known.items() if field.axes[0][0] == "n_rounds"]


def replaceable_fields(logs):
    """Return the fields that `replace` takes, sorted by name."""
    known = fields_of(logs)
    return sorted(name for name, field in known.items() if field.replaceable)


@cache
def column_fields(logs=None, *, several=False, kind=None):
    """Return the fields that files and frames name by one column, or by several."""
    return tuple(
        name
        for name, field in FIELDS.items()
        if field.in_files
        and (logs is None or field.of in ("", logs))
        and (len(field.axes[0]) > 1) is several
        and kind in (None, field.kind)
    )


def kind_of_field(name):
    """Return the kind of the entries of a field; another name is a kind itself."""
    return FIELDS[name].kind if name in FIELDS else name


def remedy_of(name, otherwise=DROP_OR_FILL):
    """Return what to do about rows where a field is missing."""
    return (name in FIELDS and FIELDS[name].missing) or otherwise
