# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs from csv, JSON lines and parquet files whose columns are named."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from numbers import Real
from typing import Any, Literal

import numpy as np

from skope_ope._types import ArrayLike, Path
from skope_ope.exceptions import LogsWarning, warn_user
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._context_encoder import (
    MAX_CATEGORIES,
    category_columns,
    category_names,
    scale_of,
)
from skope_ope.logs._fields import BANDIT, FIELDS, column_fields
from skope_ope.logs._frames import LIBRARIES, check_order, import_narwhals
from skope_ope.logs._text_files import Texts, errors_of_file, parse_labels
from skope_ope.logs._validation import PROBA_TOLERANCE, row_sums
from skope_ope.readers._json_lines import field_names, line_of_object
from skope_ope.readers._table_columns import (
    LINE_OF,
    check_names,
    fields_of_context,
    inner_fields,
    names_of_columns,
    only_stars,
    read_columns,
)

# -- columns of files of tables as a context of floats ---------------------------------


class TableEncoder:
    """Numbers standardised and texts one-hot, as they were in one file."""

    def __init__(self, features):
        self.parts = {
            name: _columns_of_texts(name, values)
            if isinstance(values, Texts)
            else scale_of(values)
            for name, values in features.items()
        }

    def names(self):
        """Return what the columns of the context hold, such as "city = Rome"."""
        out = []
        for name, part in self.parts.items():
            out += category_names(name, part) if isinstance(part, dict) else [name]
        return out

    def transform(self, features):
        """Return an array with the columns of all features side by side."""
        blocks = [np.empty((len(next(iter(features.values()))), 0))] if features else []
        for name, part in self.parts.items():
            values = features[name]
            if isinstance(values, Texts) != isinstance(part, dict):
                raise ValueError(
                    f"column {name!r} holds texts in one of the files and numbers in "
                    "the other. Name columns that agree."
                )
            if isinstance(part, dict):
                # a text unknown to the first file has no column
                width = max(part.values()) + 1
                codes = np.array([part.get(text, width) for text in values.values])
                indicators = codes[values.codes, None] == np.arange(width)
                blocks.append(indicators.astype(np.float64))
            else:
                centre, scale = part
                blocks.append(((values - centre) / scale)[:, None])
        return np.hstack(blocks)


def _columns_of_texts(name, texts):
    """Return {text: column}; rare texts share the last column."""
    counts = np.bincount(texts.codes, minlength=len(texts.values))
    columns, n_kept = category_columns(texts.values, counts, MAX_CATEGORIES)
    if n_kept < len(counts):
        told = (
            f"column {name!r} holds {len(counts)} different texts. The {n_kept} "
            "most frequent ones have a column each, the others share one. Leave "
            "the column out if it names single rounds or users."
        )
        warn_user([LogsWarning(told, len(counts))])
    return columns


# --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Roles:
    """Which column of a file means what."""

    # Columns by field: of `logging_proba` several, in the order of the actions, called
    # like them behind the last dot, or as `label=column`. Or what holds for all rounds:
    # a number as `propensity`, and the labels of all `actions` in their order
    named: dict
    # Columns, or patterns such as `user_*` for columns that mean nothing else; `()`: no
    # features
    context: tuple = None
    # Columns that are not to be in the context; all others that mean nothing else are
    # then, as `*` says in words
    exclude: tuple = None
    # Names and kinds of further columns, which are returned beside the logs
    extra: tuple = ()

    def lacks_columns(self):
        """Tell whether a field that is needed has no column."""
        names = column_fields(BANDIT)
        return any(FIELDS[one].needed and not self.named.get(one) for one in names)

    def fields(self):
        """Return {field: (column, field)} of the fields that are columns."""
        found = {name: self.named.get(name) for name in column_fields(BANDIT)}
        return {k: (name, k) for k, name in found.items() if isinstance(name, str)}

    def context_names(self, path, names):
        """Return the columns of the context, patterns replaced by what they match."""
        wanted = (*self.fields().values(), *self.extra)
        check_reward_field(path, self.named["reward"], names)
        propensity = self.named.get("propensity")
        check_propensity_field(propensity, names, "--logging-proba")
        check_names(path, names, [name for name, _ in wanted])
        # what a policy looks at may be context as well
        used = {name for name, kind in wanted if kind != "feature"}
        used.update(self.proba_columns(names).values())
        return fields_of_context(
            path,
            names,
            [name for name in names if name not in used],
            self.context,
            self.exclude,
            {field: name for field, (name, _) in self.fields().items()},
            ("--context", "--exclude", "--context ''"),
        )

    def proba_columns(self, names):
        """Return the columns of the logger's probabilities, by what they are called."""
        return proba_columns(self.named.get("logging_proba", ()), names)


@dataclass(frozen=True)
class ReadLogs:
    """What was read from a file."""

    logs: BanditLogs  # the rounds
    format: str  # the format of the file
    # The columns of the context as they are, where the file is a table
    features: dict = None
    extra: dict = None  # further columns by (name, kind), where the file is a table
    encoder: TableEncoder = None  # what made the context from the features


def read_table_logs(path, roles, *, format="csv", like=None, report=None, skip=False):
    """Read logs from a file of a table."""
    names = names_of_columns(path, format=format, skip=skip)
    known = roles.context_names(path, names) if like is None else like.features
    context = list(known)
    fields = roles.fields()
    features = [(name, "feature") for name in context]
    proba = roles.proba_columns(names)
    numbers = [(name, "logging_proba") for name in proba.values()]
    wanted = [*fields.values(), *numbers, *features, *roles.extra]
    how = {"format": format, "names": names, "report": report, "skip": skip}
    columns = read_columns(path, wanted, **how)
    values = {field: columns[key] for field, key in fields.items()}
    n_rounds = len(values["action"])
    if isinstance(roles.named.get("propensity"), Real):
        values["propensity"] = float(roles.named["propensity"])
    actions = roles.named.get("actions")
    if actions is not None:
        values["action"], actions = _same_kind(values["action"], actions)
    elif like is not None:
        actions = like.logs.actions
    elif proba:
        listed = labels_told(proba, values["action"])
        values["action"], actions = _same_kind(values["action"], listed)
    if proba:
        told = made_whole(path, [columns[key] for key in numbers])
        values["logging_proba"] = told[:, order_of(proba, actions)]
    features = {name: columns[name, "feature"] for name in context}
    encoder = TableEncoder(features) if like is None else like.encoder
    encoded = encoder.transform(features) if features else np.empty((n_rounds, 0))
    with errors_of_file(path, LINE_OF[format] and partial(LINE_OF[format], path)):
        logs = BanditLogs(encoded, actions=actions, **values)
    logs._name_reward(roles.named["reward"])
    extra = {key: columns[key] for key in roles.extra}
    return ReadLogs(logs, format, features, extra, encoder)


def _same_kind(labels, texts):
    """Return the labels and the listed ones, both as numbers or both as texts."""
    listed = parse_labels(texts)
    if listed.dtype.kind == "U" and labels.dtype.kind in "iub":
        return labels.astype(str), listed
    return labels, np.array(texts) if labels.dtype.kind == "U" else listed


# -- which column of a file is the logger's probability of which action ----------------


def proba_columns(given, names):
    """Return columns by what they are called: a label, or the end of their names."""
    if len(given) == 1 and given[0] not in names:
        given = inner_fields(given[0], names) or given
    found = {}
    for one in given:
        label, column = one.rpartition(".")[2], one
        if one not in names and "=" in one:
            label, _, column = one.partition("=")
        elif "=" not in one and label in found:
            label = one
        if label in found:
            raise ValueError(f"--logging-proba names {label!r} twice: name each once.")
        found[label] = column
    check_names("the log", names, list(found.values()))
    return found


def labels_told(columns, action):
    """Return the labels of the actions, as texts in their order."""
    # Those that the columns are called, if all logged ones are among them, else the
    # logged ones.
    logged = set(map(str, np.unique(action).tolist()))
    labels = columns if logged <= set(columns) else logged
    return [str(one) for one in np.sort(parse_labels(list(labels))).tolist()]


def order_of(columns, actions):
    """Return which column is that of each action."""
    labels, called = list(map(str, actions.tolist())), list(columns)
    if set(labels) == set(called):
        return [called.index(label) for label in labels]
    named = list(columns.values())
    if len(labels) != len(named):
        raise ValueError(
            f"--logging-proba names {len(named)} columns ({', '.join(called)}), but "
            f"there are {len(labels)} actions: {', '.join(labels[:12])}. Name one "
            "column for each, as LABEL=COLUMN, or all actions with --actions."
        )
    check_order("--logging-proba", named, actions, ", or as LABEL=COLUMN")
    return list(range(len(named)))


# -- columns of a file that are the probabilities of all actions, perhaps rounded ones


def made_whole(path, columns):
    """Get columns whose rows sum to one wherever rounding explains that they do not."""
    # Other rows stay as they are: the logs refuse them.
    proba = np.column_stack(columns)
    sums = row_sums(proba)
    off = np.abs(sums - 1) > PROBA_TOLERANCE
    if not off.any():
        return proba
    digits, bound = rounding(proba)
    mended = off & (np.abs(sums - 1) <= bound)
    n_mended = int(mended.sum())
    if not n_mended:
        return proba
    proba[mended] /= sums[mended, None]
    farthest = sums[mended][np.abs(sums[mended] - 1).argmax()]
    warn_user(
        [
            LogsWarning(
                f"{path}: the probabilities of all actions are rounded to {digits} "
                f"digits, so {n_mended:,} of {len(proba):,} rows do not sum to 1 (the "
                f"farthest sums to {farthest:.9g}). These rows were divided by their "
                "sums. Log more digits if you can.",
                n_mended,
            )
        ]
    )
    return proba


# -- mistakes in which field means what: computed rewards, objects in place of numbers

COMPUTED = re.compile(r"[-+*/()\s]")


def check_reward_field(path, reward, names):
    """Raise where the reward is to be computed from fields."""
    if isinstance(reward, str) and (
        reward in names or not set(COMPUTED.split(reward)) & set(names)
    ):
        return
    message = (
        f"reward must be the name of one field, got {reward!r}. Compute a reward of "
        "several fields first. With pandas: frame = pd.json_normalize([json.loads(line)"
        f" for line in open({str(path)!r})]); frame['reward'] = frame['a'] - 3 * "
        "frame['b']; BanditLogs.from_frame(frame, reward='reward', ...)."
    )
    raise (ValueError if isinstance(reward, str) else TypeError)(message)


def check_propensity_field(propensity, names, say):
    """Raise where the propensity is an object that holds one of every action."""
    if not isinstance(propensity, str) or propensity in names:
        return
    inner = inner_fields(propensity, names)
    if inner:
        held = ", ".join(one[len(propensity) + 1 :] for one in inner)
        raise ValueError(f"{propensity} is an object of {held}: use {say}.")


# -- probabilities that a file holds with few digits, whose sums are not quite one -----

DIGITS_OF_ROUNDED = range(2, 7)  # behind the point
WIDEST = 0.05  # sums further off say more than that digits were dropped


def rounding(proba):
    """Return how many digits probabilities have, and how far that moves a sum."""
    for digits in DIGITS_OF_ROUNDED:
        if (np.abs(proba - np.round(proba, digits)) < 1e-12).all():
            half_a_digit = 0.5 * 10.0**-digits
            # the sum itself has an error in its last bits
            return digits, min(proba.shape[1] * half_a_digit, WIDEST) + 1e-12
    return None, 0.0


# -- read logs of JSON lines: traces of decisions, one object a line -------------------


def read_jsonl(
    path: Path,
    *,
    action: str,
    reward: str,
    propensity: str | float | None = None,
    context: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    actions: ArrayLike | None = None,
    logging_proba: Sequence[str] | Mapping[Any, str] | None = None,
    logger_proba: Sequence[str] | None = None,
    logger: str | None = None,
    timestamp: str | None = None,
    group: str | None = None,
    sample_weight: str | None = None,
    columns: Sequence[str] | Mapping[str, Any] | None = None,
    reward_range: tuple[float, float] | None = None,
    backend: Literal["pandas", "polars", "pyarrow"] = "pandas",
    on_error: Literal["raise", "skip"] = "raise",
) -> BanditLogs:
    r"""Read decision traces from JSON lines, one decision per line.

    Routers of language models, recommenders and other services write such files. Name
    a nested field with dots: `user.age` is the field `age` of the object `user`, and
    `probs.0` is the first entry of the list `probs`. Read more in the
    :ref:`User Guide <readers>`.

    Parameters
    ----------
    path : str or path-like
        The file, plain or compressed by gzip or zstd (zstd needs pyarrow).
    action, reward : str
        Fields of the logged action and its reward.
    propensity : str or float in (0, 1], default=None
        Field of the probability with which the action was chosen, or the one
        probability of all rounds.
    context : list of str, default=None
        Fields that were known before the decision. The name of an object or a list
        includes all its fields. A pattern such as `request.*` includes the fields that
        match it and are not named elsewhere. `[]`: no features.
    exclude : list of str, default=None
        Instead of `context`: fields that are not context, such as outcomes. All fields
        that no other argument names become the context.
    actions : array-like of shape (n_actions,), default=None
        Ordered labels of all actions.
    logging_proba : list of str or dict, default=None
        Fields with the probabilities of all actions, in the order of `actions`; or a
        dict {action: field}. Rounded ones are divided by their sum, with a warning.
    logger_proba : list of str, default=None
        Fields with the probability of the logged action under every logger.
    logger, timestamp, group, sample_weight : str, default=None
        Further fields.
    columns : list of str or dict, default=None
        Further fields to keep as columns, as in :meth:`BanditLogs.from_frame`.
    reward_range : tuple of (float, float), default=None
        Known bounds of the reward.
    backend : {"pandas", "polars", "pyarrow"}, default="pandas"
        Library of the frame that holds the context.
    on_error : {"raise", "skip"}, default="raise"
        What to do with a line that is no JSON object: raise a `ValueError` with its
        number, or skip it with a warning that counts such lines.

    Returns
    -------
    logs : BanditLogs
        Rows in the order of the file. The context is a frame with a column for every
        field: numbers and booleans become floats, texts stay texts. A field that is
        absent or null is missing: NaN for numbers, the missing value of the library
        for texts.

    Raises
    ------
    ValueError
        If a line is not a JSON object, a field is missing or has a wrong value, or no
        line has the field. The message names the line.
    FileNotFoundError
        If the file does not exist.
    ImportError
        If the library of the frame is not installed.

    See Also
    --------
    read_vw : Reads the JSON of Vowpal Wabbit.
    scan_logs : Reads parquet and csv files that are larger than memory.

    Examples
    --------
    >>> import json, os, tempfile
    >>> from skope_ope.readers import read_jsonl
    >>> traces = [
    ...     {"user": {"plan": "free"}, "model": "small", "prob": 0.8, "solved": 1},
    ...     {"user": {"plan": "team"}, "model": "large", "prob": 0.2, "solved": 1},
    ... ]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "router.jsonl")
    ...     with open(path, "w") as file:
    ...         _ = file.write("\n".join(map(json.dumps, traces)))
    ...     logs = read_jsonl(
    ...         path,
    ...         action="model",
    ...         reward="solved",
    ...         propensity="prob",
    ...         context=["user.plan"],
    ...     )
    >>> logs
    BanditLogs(n_rounds=2, n_features=1, n_actions=2)
    >>> list(logs.context["user.plan"])
    ['free', 'team']
    """
    given = dict(locals())
    for name, options in (("backend", LIBRARIES), ("on_error", ("raise", "skip"))):
        if given[name] not in options:
            raise ValueError(f"{name} must be one of {options}, got {given[name]!r}.")
    path, skip = os.fspath(path), on_error == "skip"
    names = field_names(path, skip)
    fields = {field: given[field] for field in column_fields(BANDIT)}
    fields = {field: name for field, name in fields.items() if isinstance(name, str)}
    kinds = {name: field for field, name in fields.items()}
    for name in _fields_in(logging_proba):
        kinds.setdefault(name, "logging_proba")
    for name in _fields_in(logger_proba):
        kinds.setdefault(name, "number")
    for name in _fields_in(columns):
        kinds.setdefault(name, "cell")
    check_reward_field(path, reward, names)
    for one in (propensity, logging_proba):
        inner = inner_fields(one, names)
        by_action = {name.removeprefix(f"{one}."): name for name in inner}
        check_propensity_field(one, names, f"logging_proba={by_action}")
    # a misspelt field is named before the context is asked for
    check_names(path, names, kinds)
    _refuse_texts(names, context=context, exclude=exclude)
    context = fields_of_context(
        path,
        names,
        [name for name in names if name not in kinds],
        context,
        exclude,
        fields,
        ("context", "exclude", "context=[]"),
    )
    for name in context:
        kinds.setdefault(name, "cell")
    all_actions = list(dict.fromkeys(_fields_in(logging_proba)))
    frame = _frame(_values_of_fields(path, kinds, names, all_actions, skip), backend)
    named = [*column_fields(BANDIT), *column_fields(BANDIT, several=True)]
    named += ["actions", "columns", "reward_range"]
    with errors_of_file(path, partial(line_of_object, path)):
        return BanditLogs.from_frame(
            frame, context=context, **{name: given[name] for name in named}
        )


def _refuse_texts(names, **given):
    """Raise where a list of fields is given as a text."""
    for argument, wanted in given.items():
        if isinstance(wanted, str):
            # all of them are a list that is not taken
            instead = "" if only_stars(wanted, names) else f" Use [{wanted!r}]."
            raise TypeError(
                f"{argument} must be a list of fields, objects or patterns, got the "
                f"text {wanted!r}.{instead}"
            )


def _values_of_fields(path, kinds, names, all_actions, skip):
    """Return fields by name; probabilities of all actions sum to one."""
    read = read_columns(path, kinds.items(), format="jsonl", names=names, skip=skip)
    values = {name: column for (name, _), column in read.items()}
    if all_actions:
        proba = made_whole(path, [values[name] for name in all_actions])
        values |= zip(all_actions, proba.T, strict=True)
    return values


def _fields_in(argument):
    """Yield the fields that an argument names, itself or in lists and dicts."""
    if isinstance(argument, str):
        yield argument
    elif argument is not None:
        inner = argument.values() if isinstance(argument, Mapping) else argument
        yield from chain.from_iterable(map(_fields_in, inner))


def _frame(columns, backend):
    """Return a frame of a library."""
    try:
        return (
            import_narwhals()
            .from_dict(
                {
                    # texts and what is missing among them: every library has its own
                    name: values.tolist() if values.dtype == object else values
                    for name, values in columns.items()
                },
                backend=backend,
            )
            .to_native()
        )
    except ImportError as error:
        raise ImportError(
            f"read_jsonl needs {backend}: pip install 'skope-ope[frames]'."
        ) from error
