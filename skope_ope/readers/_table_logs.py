# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs from csv, JSON lines and parquet files whose columns are named."""

from dataclasses import dataclass
from functools import partial
from numbers import Real

import numpy as np

from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._texts import parse_labels
from skope_ope.readers._context_fields import fields_of_context
from skope_ope.readers._field_roles import check_propensity_field, check_reward_field
from skope_ope.readers._proba_columns import labels_told, order_of, proba_columns
from skope_ope.readers._read_table import LINES, check_names, column_names, read_columns
from skope_ope.readers._rounded_columns import made_whole
from skope_ope.readers._row_lines import errors_of_file
from skope_ope.readers._table_encoder import TableEncoder


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which column of a file means what."""

    action: str  # columns of the logged actions and rewards
    reward: str  # columns of the logged actions and rewards
    propensity: object = None  # column, or the one propensity of all rounds
    # Columns, or patterns such as `user_*` for columns that mean nothing else; `()`: no
    # features
    context: tuple = None
    # Columns that are not to be in the context; all others that mean nothing else are
    # then, as `*` says in words
    exclude: tuple = None
    # Columns with the probabilities of all actions: in the order of the actions, called
    # like them behind the last dot, or as `label=column`
    logging_proba: tuple = None
    logger: str = None  # further columns
    timestamp: str = None  # further columns
    group: str = None  # further columns
    sample_weight: str = None  # further columns
    actions: tuple = None  # labels of all actions, in their order
    # Names and kinds of further columns, which are returned beside the logs
    extra: tuple = ()

    def fields(self):
        """Return {field: (column, kind)} of the fields that are columns."""
        kinds = {
            "action": "label",
            "reward": "reward",
            "propensity": "number",
            "logger": "label",
            "timestamp": "moment",
            "group": "label",
            "sample_weight": "number",
        }
        return {
            field: (getattr(self, field), kind)
            for field, kind in kinds.items()
            if isinstance(getattr(self, field), str)
        }

    def context_names(self, path, names):
        """Return the columns of the context, patterns replaced by what they match."""
        wanted = (*self.fields().values(), *self.extra)
        check_reward_field(path, self.reward, names)
        check_propensity_field(self.propensity, names, "--logging-proba")
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
        return proba_columns(self.logging_proba or (), names)


@dataclass(frozen=True)
class LogFile:
    """What was read from a file."""

    logs: BanditLogs  # the rounds
    format: str  # the format of the file
    # The columns of the context as they are, where the file is a table
    features: dict = None
    extra: dict = None  # further columns by (name, kind), where the file is a table
    encoder: TableEncoder = None  # what made the context from the features


def read_table_logs(path, roles, *, format="csv", like=None, report=None):
    """Read logs from a file of a table."""
    names = column_names(path, format=format)
    known = roles.context_names(path, names) if like is None else like.features
    context = list(known)
    fields = roles.fields()
    features = [(name, "feature") for name in context]
    proba = roles.proba_columns(names)
    numbers = [(name, "number") for name in proba.values()]
    wanted = [*fields.values(), *numbers, *features, *roles.extra]
    columns = read_columns(path, wanted, format=format, names=names, report=report)
    values = {field: columns[key] for field, key in fields.items()}
    n_rounds = len(values["action"])
    if isinstance(roles.propensity, Real):
        values["propensity"] = np.full(n_rounds, float(roles.propensity))
    actions = None
    if roles.actions is not None:
        values["action"], actions = _same_kind(values["action"], roles.actions)
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
    with errors_of_file(path, LINES[format] and partial(LINES[format], path)):
        logs = BanditLogs(encoded, actions=actions, **values)
    extra = {key: columns[key] for key in roles.extra}
    return LogFile(logs, format, features, extra, encoder)


def _same_kind(labels, texts):
    """Return the labels and the listed ones, both as numbers or both as texts."""
    listed = parse_labels(texts)
    if listed.dtype.kind == "U" and labels.dtype.kind in "iub":
        return labels.astype(str), listed
    return labels, np.array(texts) if labels.dtype.kind == "U" else listed
