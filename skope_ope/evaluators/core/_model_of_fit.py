# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What `fit(logs, reward_model)` is given: a model, or the y of scikit-learn."""

from collections.abc import Iterable
from numbers import Integral, Real

from skope_ope._sklearn import HasMethods, Interval
from skope_ope.logs import BanditLogs
from skope_ope.logs._folds import check_cv_kind
from skope_ope.logs._row_container import RowContainer
from skope_ope.logs._validation import is_vector, is_y
from skope_ope.logs.lazy._lazy_logs import LazyLogs
from skope_ope.reward_models._part_models import check_model_column
from skope_ope.reward_models._slate_reward_models import given_slate_source
from skope_ope.reward_models._sources import (
    check_prefit,
    given_source,
    is_source,
    refuse_non_models,
)

# What may stand for a reward model, and how rounds are held out of its fits.
REWARD_MODEL_CONSTRAINTS = {
    "reward_model": [HasMethods(["fit", "predict"]), "array-like", Real, str, None],
    # what "cv_object" stands for, which is made anew at every check
    "cv": [
        Interval(Integral, 2, None, closed="left"),
        HasMethods(["split", "get_n_splits"]),
        Iterable,
        None,
    ],
}


def checked_model(evaluator, logs, model):
    """Return the reward model that was given to fit; None where it is y."""
    # Evaluators that use a model check it. The others refuse only what no evaluator
    # takes.
    lazy = isinstance(logs, LazyLogs)
    known = lazy or isinstance(logs, RowContainer)  # others are refused later
    if model is None or is_source(model) or not known:
        return model
    if is_vector(model):
        if not lazy and is_y(model, len(logs)):
            return None
        raise ValueError(_vector_refused(model, None if lazy else len(logs)))
    refuse_non_models(model, "reward_model")
    if not evaluator.requires.model:
        _check_unused(logs, model)
    return model


def check_model_of_call(logs, reward_model, cv):
    """Raise where no evaluator can use a reward model, or folds, for these logs."""
    if reward_model is not None and not is_source(reward_model):
        refuse_non_models(reward_model, "reward_model")
        _check_unused(logs, reward_model)
    if not isinstance(cv, str):
        check_cv_kind(cv)
    elif cv != "prefit" or reward_model is not None:  # evaluators may have their own
        check_prefit(reward_model, cv)


def _check_unused(logs, model):
    lazy = isinstance(logs, LazyLogs)
    if hasattr(model, "fit") and not hasattr(model, "predict"):
        raise TypeError(
            f"reward_model is {type(model).__name__}, which has no predict. Pass a "
            "scikit-learn model, or leave it out."
        )
    if lazy and isinstance(model, str):
        check_model_column(model, logs)
    elif (logs._log_type if lazy else type(logs)) is BanditLogs:
        given_source(model, None if lazy else logs)
    else:
        given_slate_source(model, lambda model: model)


def _vector_refused(vector, n_rounds):
    """Return why an array of one dimension is neither y nor a reward model."""
    if n_rounds is None:
        return (
            "reward_model is an array of one dimension. Lazy logs hold actions and "
            "rewards and take no y; leave it out."
        )
    return (
        f"reward_model is an array of one dimension with {len(vector)} entries, the "
        f"logs have {n_rounds} rounds. Predictions have the shape (n_rounds, "
        "n_actions); y of scikit-learn has an entry per round and is ignored."
    )
