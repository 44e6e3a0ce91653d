# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs from and to data frames of any library, by way of narwhals."""

import numpy as np
from scipy import sparse

from skope_ope.logs._validation import is_frame


def import_narwhals():
    """Import narwhals when a frame arrives; it is not a core dependency."""
    try:
        import narwhals.stable.v2 as narwhals
    except ImportError as error:
        raise ImportError(
            "Data frames need narwhals: pip install 'skope-ope[frames]'."
        ) from error
    return narwhals


def bandit_logs_from_frame(
    cls, frame, *, single, context, logging_proba, columns, actions, reward_range
):
    """Build `cls` from the named columns of `frame`."""
    if not is_frame(frame):
        raise TypeError(
            "from_frame expects a pandas, polars or pyarrow table, got "
            f"{type(frame).__name__}. Arrays go to the constructor."
        )
    frame = import_narwhals().from_native(frame, eager_only=True)
    single = {field: name for field, name in single.items() if name is not None}
    for field in ("action", "reward"):
        if field not in single:
            raise ValueError(f"from_frame needs the name of the {field} column.")
    logging_proba, columns = (
        _names("logging_proba", logging_proba),
        _names("columns", columns),
    )
    used = [*single.values(), *logging_proba, *columns]
    if context is None:
        context = [name for name in frame.columns if name not in used]
    else:
        context = _names("context", context)
    missing = [name for name in (*used, *context) if name not in frame.columns]
    if missing:
        raise ValueError(
            f"column {missing[0]!r} is not in the frame; it has "
            f"{', '.join(map(repr, frame.columns))}."
        )
    fields = {field: _column(frame, name) for field, name in single.items()}
    if logging_proba:
        fields["logging_proba"] = np.column_stack(
            [_column(frame, name) for name in logging_proba]
        )
    logs = cls(
        # without a feature column an empty frame would forget the number of rows
        frame.select(context).to_native() if context else np.empty((len(frame), 0)),
        actions=actions,
        reward_range=reward_range,
        **fields,
    )
    if columns:
        logs = logs.with_columns(**{name: _column(frame, name) for name in columns})
    return logs


def _names(argument, names):
    if names is None:
        return []
    if isinstance(names, str):
        raise TypeError(
            f"{argument} must be a list of column names, got the text {names!r}. "
            f"Use [{names!r}]."
        )
    return list(names)


def _column(frame, name):
    series = frame[name]
    kind = str(series.dtype)
    if kind.startswith("Datetime") and getattr(series.dtype, "time_zone", None):
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if series.null_count():
        row = int(np.flatnonzero(series.is_null().to_numpy())[0])
        raise ValueError(
            f"column {name!r} has a missing value at row {row} "
            f"({series.null_count()} such rows). Drop or fill these rows."
        )
    return series.to_numpy()


def bandit_logs_to_frame(logs, backend):
    """Return a frame of library `backend` with a column per field."""
    narwhals = import_narwhals()
    context = logs.context
    if backend is None:
        module = type(context).__module__.split(".")[0]
        backend = module if is_frame(context) else "pandas"
    if is_frame(context):
        features = narwhals.from_native(context, eager_only=True)
        data = {name: features[name].to_numpy() for name in features.columns}
    else:
        if sparse.issparse(context):
            context = context.toarray()
        data = {f"context_{j}": context[:, j] for j in range(context.shape[1])}
    for name in logs._row_fields:
        value = getattr(logs, name)
        if value is None or name in ("context", "action_index", "logger_index"):
            continue
        if name == "action_context":
            continue  # features of actions, not of rounds
        if value.ndim == 1:
            data[name] = value
            continue
        labels = logs.loggers if name == "logger_proba" else logs.actions
        for j, label in enumerate(labels.tolist()):
            data[f"{name}_{label}"] = value[:, j]
    for name, value in logs.columns.items():
        flat = value.reshape(len(value), -1)
        if value.ndim == 1:
            data[name] = value
        else:
            data.update({f"{name}_{j}": flat[:, j] for j in range(flat.shape[1])})
    # copies: libraries may hand out writable views of what they are given
    data = {name: np.array(value) for name, value in data.items()}
    try:
        return narwhals.from_dict(data, backend=backend).to_native()
    except ImportError as error:
        raise ImportError(
            f"to_frame needs {backend}: pip install 'skope-ope[frames]'."
        ) from error
