# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The (context, action) design of reward models that share one regressor."""

import numpy as np
from scipy import sparse

from skope_ope.logs._frames import add_columns, import_narwhals
from skope_ope.logs._validation import is_frame


def design(logs, codes, encoding):
    """Join the contexts of the rounds with what stands for their actions.

    Parameters
    ----------
    logs : BanditLogs
        The rounds.
    codes : ndarray of shape (n_rounds,)
        Action of every round, 0..n_actions-1.
    encoding : {"one_hot", "action_context"}
        What is put beside the context. A frame gets the column `action` with the
        label (so that the user's own ColumnTransformer encodes it), or the columns
        `action_context_<j>`.
    """
    if is_frame(logs.context):
        return _frame_design(logs, codes, encoding)
    if encoding == "one_hot":
        features = (np.arange(len(codes)), codes)
        if sparse.issparse(logs.context):
            ones = np.ones(len(codes))
            one_hot = sparse.csr_matrix(
                (ones, features), shape=(len(codes), logs.n_actions)
            )
            return sparse.hstack([logs.context, one_hot], format="csr")
        one_hot = np.zeros((len(codes), logs.n_actions))
        one_hot[features] = 1.0
        return np.hstack([logs.context, one_hot])
    features = _action_features(logs, codes)
    if sparse.issparse(logs.context):
        return sparse.hstack([logs.context, sparse.csr_matrix(features)], format="csr")
    return np.hstack([logs.context, features])


def _action_features(logs, codes):
    if logs.action_context is None:
        raise ValueError(
            "encoding='action_context' needs logs with action_context, the features "
            "of the actions; these have none. Use encoding='one_hot'."
        )
    if logs.action_context.ndim == 2:
        return logs.action_context[codes]
    return logs.action_context[np.arange(len(codes)), codes]


def _frame_design(logs, codes, encoding):
    narwhals = import_narwhals()
    frame = narwhals.from_native(logs.context, eager_only=True)
    if encoding == "one_hot":
        columns = {"action": logs.actions[codes]}
    else:
        features = _action_features(logs, codes)
        columns = {f"action_context_{j}": f for j, f in enumerate(features.T)}
    return add_columns(frame, columns)
