# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The model of the rewards that a learned policy takes where none is given."""

import numpy as np
from scipy import sparse
from sklearn.base import clone

from skope_ope.logs._encoding_notes import has_other_columns
from skope_ope.logs._validation import check_finite
from skope_ope.propensities._encoded import encoded
from skope_ope.reward_models._sources import reward_source


def learners_source(policy, logs, transformers):
    """Return the source of predicted rewards for a learned policy."""
    model = policy.reward_model
    if model is None and policy.cv != "prefit":  # which needs a model, and says so
        model = _linear_model(logs, transformers)
    return reward_source(model, logs, policy.cv)


def finite_predictions(source, logs):
    """Return `predict(rounds, start)` of a source; it raises at what is not finite."""
    # Evaluators do; what is learned from such a prediction would be anything.
    predict = source.bind(logs)

    def checked(rounds, start):
        q_hat = predict(rounds, start)
        check_finite("reward_model", q_hat, start)
        return q_hat

    return checked


def _linear_model(logs, transformers):
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    binary = bool(np.isin(logs.reward, (0, 1)).all())
    last = LogisticRegression(max_iter=1000) if binary else Ridge()
    # samplers of imbalanced-learn change rows, "passthrough" nothing
    transformers = [step for step in transformers if hasattr(step, "transform")]
    if transformers:
        return make_pipeline(*(clone(step) for step in transformers), last)
    if sparse.issparse(logs.context):
        return last
    if has_other_columns(logs.context):
        return encoded(last)
    return make_pipeline(StandardScaler(), last) if _finite(logs.context) else None


def _finite(context):
    try:
        return bool(np.isfinite(np.asarray(context, dtype=float)).all())
    except (TypeError, ValueError):  # texts, categories
        return False
