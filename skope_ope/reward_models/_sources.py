# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Everything that may stand for a reward model, behind one `bind(logs)`.

`source.bind(logs)` returns `predict(rounds, start)`, which gives the model values of
`rounds = logs[start : start + len(rounds)]` for all actions: evaluators ask for a
chunk of rows at a time and never hold an (n_rounds, n_actions) array.
"""

from numbers import Real

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from skope_ope._progress import untold
from skope_ope._texts import meant
from skope_ope.logs._context_encoder import check_features
from skope_ope.logs._row_container import check_row_labels, own
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._text_files import number
from skope_ope.logs._validation import as_array, as_numbers
from skope_ope.policies._base import BasePolicy
from skope_ope.propensities._model_fits import behind_encoder_if_odd
from skope_ope.reward_models._action_reward_model import (
    ActionRewardModel,
    refuse_other_kinds,
)
from skope_ope.reward_models._cross_fit import (
    CrossFittedModel,
    MeanReward,
    kept_predictions,
    told_model,
)


class TableSource:
    """Values that are known beforehand, a row for every round."""

    # `table_of(logs)` is an array of shape (n_rounds, n_actions), of any kind of real
    # numbers.

    n_uncovered_ = 0

    def bind(self, logs):
        """Return a chunk predictor for `logs`."""
        table = self.table_of(logs)
        return lambda rounds, start: np.asarray(
            table[start : start + len(rounds)], dtype=np.float64
        )


class NumberSource(TableSource):
    """The same expected reward everywhere."""

    def __init__(self, number):
        self.number = float(number)
        if not np.isfinite(self.number):
            raise ValueError(f"reward_model must be a finite number, got {number}.")

    def __repr__(self):
        return f"{figure(self.number)} everywhere"

    def table_of(self, logs):
        """Return the number, as often as it is wanted."""
        return np.broadcast_to(self.number, (len(logs), logs.n_actions))


class ArraySource(TableSource):
    """Values computed elsewhere, for the rows of the logs of fit only."""

    def __init__(self, q_hat, logs):
        self.logs = logs
        remedy = (
            " An array belongs to the rows of fit. For folds, pass a model. If the "
            "values come from other rounds, pass a column: "
            "logs.with_columns(q_hat=...), reward_model='q_hat'."
        )
        self.q_hat = _check_q_hat(q_hat, logs, "reward_model", remedy)

    def __repr__(self):
        return f"array of shape {self.q_hat.shape}"

    def table_of(self, logs):
        """Return the values for `logs`, which must be those of fit."""
        if logs is not self.logs and logs.row_id != self.logs.row_id:
            raise ValueError(
                "reward_model is an array of values for the rows of the logs of fit; "
                "it cannot predict for other logs. Pass a model. If the values come "
                "from other rounds, pass a column: "
                "logs.with_columns(q_hat=...), reward_model='q_hat'."
            )
        return self.q_hat


class ColumnSource(TableSource):
    """Values carried by the logs as a named column."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"column {self.name!r} of the logs"

    def table_of(self, logs):
        """Return the column of `logs`."""
        if self.name not in logs.columns:
            raise ValueError(
                f"reward_model {self.name!r} is not a column of the logs (they have "
                f"{sorted(logs.columns)}).{meant(self.name, logs.columns)} Add it with "
                "logs.with_columns."
            )
        name = f"reward_model {self.name!r}"
        return _check_q_hat(logs.columns[self.name], logs, name)


class FrozenSource:
    """A model fitted beforehand, on other rounds."""

    n_uncovered_ = 0

    def __init__(self, model):
        check_is_fitted(model)
        self.model = model

    def __repr__(self):
        return f"{told_model(self.model)}, fitted beforehand"

    def bind(self, logs):
        """Return a chunk predictor for `logs`."""
        return self._predict

    def shared(self, logs):
        """Return what several evaluators of these rounds share."""
        return kept_predictions(self, logs)

    def _predict(self, rounds, start):
        if hasattr(self.model, "predict_logs"):
            return self.model.predict_logs(own(rounds, self.model))
        q_hat = np.asarray(self.model.predict(own(rounds.context, self.model)))
        if q_hat.shape != (len(rounds), rounds.n_actions):
            raise ValueError(
                f"the fitted reward model {type(self.model).__name__} must predict the "
                "reward of every action, an array of shape (n_rounds, n_actions) = "
                f"({len(rounds)}, {rounds.n_actions}), got {q_hat.shape}. Fit an "
                "ActionRewardModel(model) on logs and freeze that."
            )
        return q_hat


def _check_q_hat(q_hat, logs, name, remedy=""):
    check_row_labels(name, q_hat, logs)
    # tables of other numbers are converted by those who read them, block by block
    if not isinstance(q_hat, np.ndarray) or q_hat.dtype.kind not in "biuf":
        q_hat = as_numbers(name, as_array(name, q_hat, logs.actions), 2)
    if q_hat.shape != (len(logs), logs.n_actions):
        raise ValueError(
            f"{name} must have shape ({len(logs)}, {logs.n_actions}), the expected "
            f"reward of every action in every round, got {q_hat.shape}.{remedy}"
        )
    return q_hat


def model_and_folds(evaluator, reward_model=None, cv=None):
    """Return the reward model that an evaluator uses, and its folds."""
    model, folds = evaluator.reward_model, getattr(evaluator, "cv", 5)
    if model is not None:
        return model, folds
    return reward_model, folds if cv is None else cv


def is_source(model):
    """Tell whether something is a source already: an equal evaluator fitted it."""
    return hasattr(model, "n_uncovered_")


def refuse_non_models(model, name):
    """Raise where a policy or a class stands for the reward model `name`."""
    if isinstance(model, BasePolicy):
        raise TypeError(
            f"{name} is the policy {type(model).__name__}, but a model of the rewards "
            "is expected; evaluators take a policy in evaluate(policy)."
        )
    if isinstance(model, type):
        raise TypeError(f"{name} is the class {model.__name__}; make an instance.")
    refuse_other_kinds(model, name)


def reward_source(model, logs, cv=5, sample_weight=None, n_jobs=None, progress=untold):
    """Return what predicts rewards for `logs` from anything that may stand for it."""
    given = model if is_source(model) else given_source(model, logs)
    if given is not None:
        return given
    if isinstance(cv, str):
        return frozen_source(model, cv)
    return CrossFittedModel(fittable(model), logs, cv, sample_weight, n_jobs, progress)


def frozen_source(model, cv):
    """Return a model that was fitted beforehand, where `cv` is "prefit"."""
    check_prefit(model, cv)
    return FrozenSource(model)


def check_prefit(model, cv):
    """Raise unless the word `cv` is "prefit", and there is a fitted model."""
    if cv != "prefit":
        raise ValueError(f"cv must be 'prefit', a number or folds, got {cv!r}.")
    if model is None:
        raise ValueError("cv='prefit' needs a fitted reward_model, got None.")
    if hasattr(model, "__sklearn_tags__"):
        check_is_fitted(model)


def given_source(model, logs):
    """Return the source of predictions that need no fit, or None for a model."""
    if isinstance(model, str):
        source = ColumnSource(model)
        if logs is not None:
            source.table_of(logs)  # a missing column is noticed in fit
        return source
    if isinstance(model, Real) and not isinstance(model, bool):
        return NumberSource(model)
    if type(model).__name__ == "FrozenEstimator":
        return FrozenSource(model.estimator)
    if model is not None and not hasattr(model, "fit"):
        if hasattr(model, "predict"):
            raise TypeError(
                f"reward_model {type(model).__name__} has no fit. Wrap a fitted model "
                "as FrozenEstimator(model)."
            )
        tables = isinstance(model, (list, tuple)) or sparse.issparse(model)
        if callable(model) or not (tables or hasattr(model, "__array__")):
            raise TypeError(
                "reward_model must be a scikit-learn model, an ActionRewardModel, a "
                "number, an array of shape (n_rounds, n_actions) or the name of such a "
                f"column, got {type(model).__name__}."
            )
        if logs is None:
            raise ValueError(
                "reward_model is an array for rounds in memory, which does not work "
                "for a log in parts. Store the values as columns of the files, one "
                "per action: scan_logs(..., columns={'q_hat': [...]}), "
                "reward_model='q_hat'."
            )
        return ArraySource(model, logs)
    refuse_non_models(model, "reward_model")
    return None


def fittable(model):
    """Return what is fitted on rounds: None is the mean reward of every action."""
    if model is None:
        return MeanReward()
    return model if isinstance(model, ActionRewardModel) else ActionRewardModel(model)


# -- reward models that a word on the command line names -------------------------------

MODELS_BY_NAME = ("none", "ridge", "logistic", "hist")


def named_reward_model(name, logs):
    """Return the reward model of a name, after a look at what it is to learn from."""
    if name == "none":
        return None
    if name not in MODELS_BY_NAME:
        try:
            return number(name, finite=True)
        except ValueError:
            raise ValueError(
                f"the reward model {name!r} is unknown: name "
                f"{', '.join(MODELS_BY_NAME)} or a number.{meant(name, MODELS_BY_NAME)}"
            ) from None
    check_features(logs, f"the reward model {name!r}", takes_sparse=name != "hist")
    if name == "hist":
        from sklearn.ensemble import HistGradientBoostingRegressor

        return HistGradientBoostingRegressor()
    from sklearn.linear_model import LogisticRegression, Ridge

    model = Ridge() if name == "ridge" else LogisticRegression(max_iter=1000)
    return behind_encoder_if_odd(model, logs.context)
