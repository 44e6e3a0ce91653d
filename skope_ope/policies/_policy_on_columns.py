# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Saved policies on the columns of a file as they are."""

import numpy as np

from skope_ope.logs import BanditLogs
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._texts import Texts
from skope_ope.policies._action_probabilities import (
    action_probabilities,
    refuse_non_policies,
)


def policy_on_columns(policy, source):
    """Return the probabilities of a policy that was trained elsewhere."""
    # The context of logs from a table is encoded for models that are fitted here; a
    # saved policy knows the columns as they are, by name or by order.
    if isinstance(policy, np.ndarray):
        return policy
    refuse_non_policies(policy)
    if source.features is None:
        return policy
    if hasattr(policy, "feature_names_in_"):
        columns = {
            name: source.extra[name, "feature"] for name in policy.feature_names_in_
        }
        context = _frame_of(columns)
    else:
        context = _array_of(policy, source)
    logs = source.logs
    rounds = BanditLogs(context, logs.action, logs.reward, actions=logs.actions)
    return action_probabilities(policy, rounds)


def logs_on_columns(policy, source):
    """Return the logs that a policy that learns acts on."""
    # It starts with an empty history, so it is asked in every round of its own; it sees
    # the named columns as they are, as a data frame where one of them holds texts.
    logs, features = source.logs, source.features
    if features is None or policy.context_free:
        return logs
    if any(isinstance(values, Texts) for values in features.values()):
        context = _frame_of(features)
    else:
        context = _stacked(features, len(logs))
    kept = ("propensity", "logging_proba", "logger", "timestamp", "group")
    return BanditLogs(
        context,
        logs.action,
        logs.reward,
        actions=logs.actions,
        sample_weight=logs.sample_weight,
        **{name: getattr(logs, name) for name in kept},
    )


def named_columns(source):
    """Return the context of a file as a pandas frame; None without pandas."""
    return _frame_of(source.features) if can_name_columns() else None


def can_name_columns():
    """Tell whether what pandas frames need is installed."""
    try:
        import_narwhals()
        _frame_of({})
    except ImportError:
        return False
    return True


def _array_of(policy, source):
    """Return the named columns in their order, as the policy expects them."""
    features = source.features
    texts = [name for name, values in features.items() if isinstance(values, Texts)]
    n_wanted = getattr(policy, "n_features_in_", len(features))
    if texts and not hasattr(policy, "n_features_in_"):  # it was not trained
        return _frame_of(features)
    if texts or len(features) != n_wanted:
        found = f"{len(features)} are named"
        if texts:
            found = f"column {texts[0]!r} holds texts"
        raise ValueError(
            f"the saved policy was trained on {n_wanted} numbers without column names, "
            f"but {found}. Name with --context the columns it was trained on, in their "
            "order."
        )
    return _stacked(features, len(source.logs))


def _stacked(features, n_rounds):
    return np.column_stack([np.empty((n_rounds, 0)), *features.values()])


def _frame_of(columns):
    """Return a pandas frame, as policies with column names expect."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "the saved policy takes a data frame, with columns by name or with texts, "
            "and needs pandas: pip install 'skope-ope[frames]'."
        ) from error
    return pd.DataFrame(
        {
            name: values.array() if isinstance(values, Texts) else values
            for name, values in columns.items()
        }
    )
