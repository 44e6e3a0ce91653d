# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The (context, action) design of reward models that share one regressor."""

import numpy as np
from scipy import sparse

from skope_ope.logs._frames import add_columns, import_narwhals
from skope_ope.logs._validation import is_frame

DESIGN_ENTRIES = 1 << 20  # of a block: with many actions fewer rows


def action_design(logs, codes, encoding):
    """Join the contexts of the rounds with what stands for their actions."""
    if is_frame(logs.context):
        return _frame_design(logs, codes, encoding)
    if encoding == "one_hot":
        return _with_indicators(logs.context, codes, logs.n_actions)
    if encoding == "column":
        raise ValueError(
            "encoding='column' adds the column 'action' to a frame, but the context is "
            f"{type(logs.context).__name__}. Use encoding='one_hot'."
        )
    return append_columns(logs.context, _action_features(logs, codes))


def append_columns(context, features):
    """Return an array or a sparse matrix with further columns."""
    if sparse.issparse(context):
        return sparse.hstack([context, sparse.csr_matrix(features)], format="csr")
    return np.hstack([context, features])


def _with_indicators(context, codes, n_actions):
    shape, places = (len(codes), n_actions), (np.arange(len(codes)), codes)
    if sparse.issparse(context):
        ones = np.ones(len(codes))
        return append_columns(context, sparse.csr_matrix((ones, places), shape))
    one_hot = np.zeros(shape)
    one_hot[places] = 1.0
    return append_columns(context, one_hot)


def designs(logs, codes, encoding, model=None):
    """Yield the design of the rounds for one action after the other."""
    # It is rewritten in place where it can be: a model reads each before the next one
    # is asked for. Arrays and indicators in frames come in blocks of a bounded number
    # of entries.
    context, one_hot = logs.context, encoding == "one_hot"
    is_array = isinstance(context, np.ndarray)
    if one_hot and is_array and _is_linear(model):
        context = sparse.csr_matrix(context.astype(np.float64, copy=False))
    if one_hot and sparse.issparse(context):
        made = _sparse_designs(context, codes, logs.n_actions)
    elif is_array:
        yield from _array_designs(logs, codes, encoding)
        return
    elif one_hot:
        yield from _frame_designs(logs, codes)
        return
    else:
        made = (
            action_design(logs, np.full(len(logs), code), encoding) for code in codes
        )
    for column, X in enumerate(made):
        yield slice(None), column, X


def _is_linear(model):
    # they take whatever they were fitted on; models around a model have no coef_
    own = type(model).__module__.startswith("sklearn.linear_model.")
    return own and hasattr(model, "coef_")


def _sparse_designs(context, codes, n_actions):
    n_rounds, n_features = context.shape
    X = _with_indicators(context, np.full(n_rounds, codes[0]), n_actions)
    indicators = np.flatnonzero(X.indices >= n_features)
    for code in codes.tolist():
        X.indices[indicators] = n_features + code
        yield X


def _array_designs(logs, codes, encoding):
    n, n_features = len(logs), logs.n_features
    first = logs[:1]
    width = action_design(first, np.full(len(first), codes[0]), encoding).shape[1]
    block = max(DESIGN_ENTRIES // width, 1)
    for start in range(0, n, block):
        rows = slice(start, start + block)
        part = logs[rows] if block < n else logs
        X = action_design(part, np.full(len(part), codes[0]), encoding)
        told = X[:, n_features:]
        for column, code in enumerate(codes.tolist()):
            if encoding == "one_hot":
                told[:, codes[column - 1]] = 0.0  # that of the action before
                told[:, code] = 1.0
            else:
                told[:] = _action_features(part, np.full(len(part), code))
            yield rows, column, X


def _frame_designs(logs, codes):
    narwhals = import_narwhals()
    names = indicator_names(logs.actions)
    block = max(DESIGN_ENTRIES // (logs.n_features + logs.n_actions), 1)
    for start in range(0, len(logs), block):
        rows = slice(start, start + block)
        part = logs[rows] if block < len(logs) else logs
        before = codes[0]
        X = action_design(part, np.full(len(part), before), "one_hot")
        for column, code in enumerate(codes.tolist()):
            if code != before:
                frame = narwhals.from_native(X, eager_only=True)
                old, new = frame[names[before]], frame[names[code]]
                X = frame.with_columns(
                    old.alias(names[code]), new.alias(names[before])
                ).to_native()
                before = code
            yield rows, column, X


def indicator_names(actions):
    """Return the names that the indicators of actions have in a frame."""
    labels = actions.tolist()
    names = [f"action = {label}" for label in labels]
    if len(set(names)) < len(names):
        names = [f"action = {label!r}" for label in labels]
    return names


def _action_features(logs, codes):
    if logs.action_context is None:
        raise ValueError(
            "encoding='action_context' needs logs with action_context, the features "
            "of the actions; these have none. Use encoding='one_hot'."
        )
    if logs.action_context.ndim == 2:
        return logs.action_context[codes]
    return logs.action_context[np.arange(len(codes)), codes]


def _with_text_names(frame):
    """Return a frame with names of columns that are texts, as the added ones are."""
    # pandas numbers the columns of arrays, and scikit-learn refuses a mixture.
    if not hasattr(frame, "set_axis"):  # other libraries know texts only
        return frame
    names = [str(name) for name in frame.columns]
    if names == list(frame.columns) or len(set(names)) < len(names):
        return frame
    return frame.set_axis(names, axis="columns")


def _frame_design(logs, codes, encoding):
    narwhals = import_narwhals()
    frame = narwhals.from_native(_with_text_names(logs.context), eager_only=True)
    if encoding == "column":
        columns = {"action": logs.actions[codes]}
    elif encoding == "one_hot":
        names = indicator_names(logs.actions)
        columns = {name: codes == code for code, name in enumerate(names)}
        columns = {name: ones.astype(np.float64) for name, ones in columns.items()}
    else:
        features = _action_features(logs, codes)
        columns = {f"action_context_{j}": f for j, f in enumerate(features.T)}
    return add_columns(frame, columns)
