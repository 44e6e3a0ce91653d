# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Read logs of JSON lines: traces of decisions, one object a line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from skope_ope._types import ArrayLike, Path
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._frames import LIBRARIES, import_narwhals
from skope_ope.readers._jsonl_columns import field_names, line_of_object
from skope_ope.readers._read_table import (
    check_names,
    fields_of_context,
    inner_fields,
    only_stars,
    read_columns,
)
from skope_ope.readers._table_logs import (
    KIND_OF_FIELD,
    check_propensity_field,
    check_reward_field,
    made_whole,
)
from skope_ope.readers._vw_text import errors_of_file


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
    backend: str = "pandas",
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
    if backend not in LIBRARIES:
        raise ValueError(f"backend must be one of {LIBRARIES}, got {backend!r}.")
    path = os.fspath(path)
    names = field_names(path)
    single = {
        "action": action,
        "reward": reward,
        "propensity": propensity,
        "logger": logger,
        "timestamp": timestamp,
        "group": group,
        "sample_weight": sample_weight,
    }
    fields = {field: name for field, name in single.items() if isinstance(name, str)}
    kinds = {name: KIND_OF_FIELD[field] for field, name in fields.items()}
    for name in chain(_fields_in(logging_proba), _fields_in(logger_proba)):
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
    for argument, wanted in (("context", context), ("exclude", exclude)):
        if isinstance(wanted, str):
            # all of them are a list that is not taken
            instead = "" if only_stars(wanted, names) else f" Use [{wanted!r}]."
            raise TypeError(
                f"{argument} must be a list of fields, objects or patterns, got the "
                f"text {wanted!r}.{instead}"
            )
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
    read = read_columns(path, kinds.items(), format="jsonl", names=names)
    values = {name: column for (name, _), column in read.items()}
    all_actions = list(dict.fromkeys(_fields_in(logging_proba)))
    if all_actions:
        proba = made_whole(path, [values[name] for name in all_actions])
        values |= zip(all_actions, proba.T, strict=True)
    frame = _frame(values, backend)
    with errors_of_file(path, partial(line_of_object, path)):
        return BanditLogs.from_frame(
            frame,
            **single,
            context=context,
            actions=actions,
            logging_proba=logging_proba,
            logger_proba=logger_proba,
            columns=columns,
            reward_range=reward_range,
        )


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
