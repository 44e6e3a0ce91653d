# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Expected reward of every action, from one scikit-learn model or one per action."""

from __future__ import annotations

import os
import warnings
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, check_memory

from skope_ope._parallel import one_call
from skope_ope._progress import TellsOfFit, steps
from skope_ope._sklearn import (
    Estimator,
    HasMethods,
    StrOptions,
    fit_context,
    has_method,
)
from skope_ope._texts import meant
from skope_ope._types import Array, ArrayLike, Contexts
from skope_ope.exceptions import ModelErrorWarning
from skope_ope.logs import BanditLogs
from skope_ope.logs._context_encoder import encoding_explained, odd_part, odd_rows
from skope_ope.logs._frames import add_columns, import_narwhals
from skope_ope.logs._labels import rows_of_codes
from skope_ope.logs._row_container import own, take_rows
from skope_ope.logs._validation import check_y, is_frame, label_codes, plain
from skope_ope.logs.lazy._lazy_logs import kind_of
from skope_ope.propensities._model_fits import (
    all_alike,
    class_probabilities,
    drawn_by_weight,
    fit_weighted,
    is_routed,
    predictions_of,
    takes_weights,
    weight_parameter,
)


def _learns_in_parts(self):
    return hasattr(self.model, "partial_fit")


class ActionRewardModel(TellsOfFit, Estimator):
    r"""Model :math:`\hat q(x, a)`, the expected reward of every action.

    Read more in the :ref:`User Guide <reward_models>`.

    Parameters
    ----------
    model : regressor or classifier
        Any regressor with the interface of scikit-learn. If rewards are 0/1, also a
        classifier: its probability of 1 is the prediction.
    encoding : {"per_action", "one_hot", "action_context", "column"}
        "per_action", the default, fits one clone of the model per action. The others
        fit one model for all actions, which sees the context and:

        - "one_hot": an indicator column per action; in frames these are called
          `action = <label>`;
        - "action_context": the features in `logs.action_context`;
        - "column": the labels as the column `action` of a frame, which your
          ColumnTransformer encodes.
    memory : str, path or joblib.Memory, default=None
        Folder in which fitted models are kept, as in scikit-learn's Pipeline. An equal
        model is fitted to equal rounds only once, in every search and process. Classes
        are identified by their names: delete the folder after you edit a class.

    Attributes
    ----------
    actions_ : ndarray of shape (n_actions,)
        Action labels, the order of the columns of `predict`.
    models_ : list
        The fitted models: one per action (`None` if the mean reward is used), or a
        single one.
    mean_reward_ : float
        Mean reward of the training rounds. It is the prediction for actions without a
        training round.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skope_ope import ActionRewardModel, BanditLogs
    >>> X = np.arange(6.0).reshape(-1, 1)
    >>> logs = BanditLogs(X, [0, 1] * 3, X[:, 0], [0.5] * 6)
    >>> model = ActionRewardModel(LinearRegression(), encoding="one_hot").fit(logs)
    >>> model.predict(X[:2]).round(6) + 0.0
    array([[0., 0.],
           [1., 1.]])
    """

    _is_a_wrapper = True  # a name of ours around the model that was given
    _parameter_constraints: dict = {
        "model": [HasMethods(["fit", "predict"])],
        "encoding": [StrOptions({"per_action", "one_hot", "action_context", "column"})],
        "memory": [None, str, os.PathLike, HasMethods(["cache"])],
    }
    # logs stand where scikit-learn has X: they are not metadata
    __metadata_request__fit = {"logs": UNUSED}
    __metadata_request__partial_fit = {"logs": UNUSED}
    _has_steps = True

    def __init__(
        self,
        model: Any,
        encoding: Literal[
            "per_action", "one_hot", "action_context", "column"
        ] = "per_action",
        memory: Any = None,
    ) -> None:
        self.model = model
        self.encoding = encoding
        self.memory = memory

    def fit(self, logs, y=None, sample_weight=None):
        """Fit on the rounds of logs.

        Parameters
        ----------
        logs : BanditLogs
            Training rounds.
        y : array-like of shape (n_rounds,), default=None
            Ignored: the logs hold the rewards.
        sample_weight : ndarray of shape (n_rounds,), default=None
            Row weights. `None`: `logs.sample_weight`. A model without `sample_weight`
            is fitted to rounds drawn in proportion to the weights, with a warning.

        Returns
        -------
        self : ActionRewardModel
        """
        self._check_y(logs, y)
        return self._fit_rows(logs, None, sample_weight)

    def _check_y(self, logs, y):
        if isinstance(logs, BanditLogs):  # others are refused with a sentence
            check_y(y, len(logs), type(self).__name__)

    @fit_context(prefer_skip_nested_validation=False)
    def _fit_rows(self, logs, rows, sample_weight=None, told=False):
        """Fit on some rounds of logs, like `fit(logs[rows])`."""
        # Models per action take their rows from the logs themselves.
        reward = self._checked(logs, rows)
        weight = self._weights(logs, sample_weight, told)
        weight = weight if weight is None or rows is None else weight.take(rows)
        self._start(logs)
        # zero weights everywhere say that nothing matters here
        usable = None if weight is None or not weight.any() else weight
        self.mean_reward_ = float(np.average(reward, weights=usable))
        if self.encoding == "per_action":
            codes = logs.action_index if rows is None else logs.action_index.take(rows)
            self.models_, odd = [], odd_part(logs.context)
            by_action = enumerate(rows_of_codes(codes, logs.n_actions))
            by_action = steps(self, logs, by_action, "model of an action")
            with one_call():
                for code, mine in by_action:
                    own = None if weight is None else weight.take(mine)
                    mine = mine if rows is None else rows.take(mine)
                    fitted = None
                    if mine.size:
                        X, y = take_rows(logs.context, mine), logs.reward.take(mine)
                        label = f"action {plain(logs.actions[code])!r}"
                        fitted = self._fit_one(X, y, own, label, odd)
                    self.models_.append(fitted)
        else:
            odd = self._odd_design(logs)
            logs = logs if rows is None else logs[rows]
            X = action_design(logs, logs.action_index, self.encoding)
            self.models_ = [self._fit_one(X, reward, weight, "all actions", odd)]
        return self

    def _odd_design(self, logs):
        """Return the design of the rows that `odd_part` takes, None without these."""
        rows = odd_rows(logs.context)
        if not rows.size:
            return None
        return action_design(logs[rows], logs.action_index[rows], self.encoding)

    def _checked(self, logs, rows):
        """Return the rewards of training rounds that the model can learn from."""
        if not isinstance(logs, BanditLogs):
            raise TypeError(f"logs must be BanditLogs, got {kind_of(logs)}.")
        if not (len(logs) if rows is None else len(rows)):
            raise ValueError("the logs are empty: a model needs at least one round.")
        reward = logs.reward if rows is None else logs.reward.take(rows)
        refuse_other_kinds(self.model, "model")
        self.classifier_ = is_classifier(self.model)
        if self.classifier_:
            if not has_method(self.model, "predict_proba"):
                raise TypeError(
                    f"the classifier {type(self.model).__name__} has no predict_proba: "
                    "it cannot model rewards. Use CalibratedClassifierCV around it, or "
                    "a regressor."
                )
            _check_binary(reward)
        return reward

    def _start(self, logs):
        """Note whose rounds are learned from; nothing is known of them yet."""
        self.__dict__.pop("_sums", None)
        self.actions_ = logs.actions
        self.n_features_in_ = logs.n_features
        self.action_context_ = logs.action_context

    @available_if(_learns_in_parts)
    def partial_fit(
        self,
        logs: BanditLogs,
        y: ArrayLike | None = None,
        sample_weight: Array | None = None,
    ) -> Self:
        """Learn from more rounds, where the model has `partial_fit`.

        Call it for one part of a log after the other. The model learns the whole log,
        which need not be in memory. It does not continue a model fitted by `fit`.

        Parameters
        ----------
        logs : BanditLogs
            More training rounds, with the same actions.
        y : array-like of shape (n_rounds,), default=None
            Ignored: the logs hold the rewards.
        sample_weight : ndarray of shape (n_rounds,), default=None
            Row weights. `None`: `logs.sample_weight`. A model without `sample_weight`
            ignores the weights of the logs, with a warning, and raises an error for
            others.

        Returns
        -------
        self : ActionRewardModel
        """
        self._check_y(logs, y)
        return self._partial_fit_rows(logs, None, sample_weight)

    @fit_context(prefer_skip_nested_validation=False)
    def _partial_fit_rows(self, logs, rows, sample_weight=None):
        """Learn from some rounds of logs, see `_fit_rows`."""
        reward = self._checked(logs, rows)
        weight = self._weights_of_part(logs, sample_weight)
        if rows is not None:
            logs, weight = logs[rows], None if weight is None else weight[rows]
        if not hasattr(self, "_sums"):
            self._start(logs)
            self._sums = np.zeros((2, 2))
            n_models = logs.n_actions if self.encoding == "per_action" else 1
            self.models_ = [None] * n_models
        fitted = match_actions(self.actions_, logs.actions)
        ones = np.ones(len(logs))
        for total, w in zip(self._sums, (ones, weight), strict=True):
            w = ones if w is None else w
            total += (w @ reward), w.sum()
        total, mass = self._sums[int(self._sums[1, 1] > 0)]  # see `_fit_rows`
        self.mean_reward_ = float(total / mass)
        if self.encoding == "per_action":
            parts = rows_of_codes(logs.action_index, logs.n_actions)
            for code, mine in zip(fitted.tolist(), parts, strict=True):
                if mine.size:
                    w = None if weight is None else weight.take(mine)
                    X = take_rows(logs.context, mine)
                    self._learn(code, X, reward.take(mine), w)
            return self
        codes = logs.action_index
        if self.encoding != "action_context":
            logs, codes = _with_actions(logs, self.actions_), fitted[codes]
        self._learn(0, action_design(logs, codes, self.encoding), reward, weight)
        return self

    def _learn(self, number, X, reward, weight):
        """Teach one of the models."""
        if weight is not None and not weight.any():
            return  # it would learn nothing
        X, reward, weight = (own(v, self.model) for v in (X, reward, weight))
        model = self.models_[number]
        if model is None:
            model = clone(self.model)
        known = {} if weight is None else {"sample_weight": weight}
        if self.classifier_:
            known["classes"], reward = [0, 1], reward.astype(int)
        label = "all actions"
        if self.encoding == "per_action":
            label = f"action {plain(self.actions_[number])!r}"
        try:
            with encoding_explained(X):
                model.partial_fit(X, reward, **known)
        except ValueError as error:
            self._explain(error, f"{label}, fitted on {len(reward)} rounds", X)
            raise
        self.models_[number] = model

    def _weights(self, logs, sample_weight, told):
        """Return the weights of all rounds; warn where rounds are drawn by them."""
        if sample_weight is None:
            sample_weight = logs.sample_weight
        if not told and not all_alike(sample_weight) and not takes_weights(self.model):
            warnings.warn(
                ModelErrorWarning(
                    f"{type(self.model).__name__} takes no sample_weight: the reward "
                    "model is fitted to rounds drawn in proportion to the weights."
                ),
                stacklevel=5,
            )
        return sample_weight

    def _weights_of_part(self, logs, sample_weight):
        if sample_weight is None:
            sample_weight = logs.sample_weight
            if sample_weight is not None and weight_parameter(self.model) is None:
                warn_unweighted(self)
                return None
        elif weight_parameter(self.model) is None:
            raise ValueError(
                f"the reward model {type(self.model).__name__} takes no sample_weight, "
                "which is needed here. Use a model whose fit has sample_weight."
            )
        return sample_weight

    def _fit_one(self, X, reward, weight, label, odd):
        if self.classifier_:
            X, reward, weight = drawn_by_weight(self.model, X, reward, weight)
            # One class leaves a classifier nothing to learn: predict it.
            if (reward == reward[0]).all():
                return float(reward[0])
            reward = reward.astype(int)
        try:
            fit = self._kept(fit_weighted)
            model, known = clone(self.model), {"routed": is_routed(), "odd": odd}
            return fit(model, X, reward, weight, **known)
        except Exception as error:
            # CatBoost refuses equal targets, Poisson losses refuse zeros alone
            if (reward == reward[0]).all() and X.shape[1]:
                return float(reward[0])
            if isinstance(error, ValueError):
                self._explain(error, f"{label}, fitted on {len(reward)} rounds", X)
            raise

    def _kept(self, function):
        """Return the function, with its results on disk where there is a memory."""
        if self.memory is None:
            return function
        is_path = isinstance(self.memory, os.PathLike)
        memory = check_memory(os.fspath(self.memory) if is_path else self.memory)
        return memory.cache(function)

    def predict(self, X: Contexts) -> Array:
        """Predict the reward of every action.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rounds, n_features)
            Contexts.

        Returns
        -------
        q_hat : ndarray of shape (n_rounds, n_actions)
        """
        check_is_fitted(self)
        n_rounds = X.shape[0] if hasattr(X, "shape") else len(X)
        features = self.action_context_
        if features is not None and features.ndim == 3:
            if self.encoding == "action_context":
                raise ValueError(
                    "the features of the actions vary by round: call predict_logs."
                )
            features = None
        rows = BanditLogs(
            X,
            np.broadcast_to(self.actions_[:1], n_rounds),
            np.zeros(n_rounds),
            actions=self.actions_,
            action_context=features,
        )
        return self.predict_logs(rows)

    def predict_logs(self, logs: BanditLogs) -> Array:
        """Predict the reward of every action of the logs in every round.

        Parameters
        ----------
        logs : BanditLogs
            The rounds. Their actions are matched with `actions_` by label.

        Returns
        -------
        q_hat : ndarray of shape (n_rounds, n_actions)
            Columns in the order of `logs.actions`.

        Raises
        ------
        ValueError
            If the logs hold an action that was unknown when the model was fitted.
        """
        check_is_fitted(self)
        fitted = match_actions(self.actions_, logs.actions)
        q_hat = np.empty((logs.n_actions, len(logs))).T  # written by column
        if self.encoding == "per_action":
            for column, code in enumerate(fitted):
                q_hat[:, column] = self._asked(
                    self.models_[code], logs.context, logs.actions[column]
                )
            return q_hat
        labels = logs.actions
        if self.encoding != "action_context":  # labels and columns as in fit
            logs, codes = _with_actions(logs, self.actions_), fitted
        else:
            codes = np.arange(logs.n_actions)
        model = self.models_[0]
        for rows, column, X in designs(logs, codes, self.encoding, model):
            q_hat[rows, column] = self._asked(model, X, labels[column])
        return q_hat

    def _asked(self, model, X, label):
        """Return the predictions of a model for an action."""
        try:
            with encoding_explained(X):
                return self._predict_one(model, X)
        except ValueError as error:
            self._explain(error, f"action {plain(label)!r}")
            raise

    @staticmethod
    def _explain(error, label, X=None):
        if X is not None and not X.shape[1]:
            error.add_note(
                "The logs have no features: name their columns, context=[...]."
            )
        note = f"In the reward model of {label}."
        if not hasattr(error, "__notes__"):  # that say what the cause is
            note += (
                " Few rounds per action: ActionRewardModel(model, encoding='one_hot')."
            )
        error.add_note(note)

    def _predict_one(self, model, X):
        if model is None:
            return self.mean_reward_
        if isinstance(model, float):
            return model
        return expected_reward(model, X)


def refuse_other_kinds(model, name):
    """Raise where scikit-learn's tags say that a model predicts no rewards."""
    tagged = hasattr(model, "__sklearn_tags__") and not isinstance(model, type)
    kind = get_tags(model).estimator_type if tagged else None
    if kind not in (None, "classifier", "regressor"):
        raise TypeError(
            f"{name} is the {kind.replace('_', ' ')} {type(model).__name__}, but a "
            "reward model predicts the reward of an action in a context: a regressor "
            "such as Ridge(), or a classifier for rewards of 0 and 1."
        )


def expected_reward(model, X):
    """Prediction of a regressor, or a classifier's probability of the reward 1."""
    if not is_classifier(model):
        return predictions_of(model, X).astype(float, copy=False)
    proba = class_probabilities(model, X)
    ones = np.flatnonzero(np.asarray(model.classes_) == 1)
    return proba[:, ones[0]] if ones.size else np.zeros(len(proba))


def warn_unweighted(model):
    """Warn that an `ActionRewardModel` is fitted without the weights of the logs."""
    warnings.warn(
        ModelErrorWarning(
            f"{type(model.model).__name__} takes no sample_weight: the reward model "
            "ignores the weights of the logs while it learns in parts."
        ),
        stacklevel=6,
    )


def match_actions(fitted, wanted):
    """Positions of the wanted labels among the fitted ones; an unseen one raises."""
    if fitted is wanted:
        return np.arange(len(fitted))
    codes = label_codes(fitted, wanted)
    if (codes < 0).any():
        strange = plain(wanted[codes < 0][0])
        raise ValueError(
            f"action {strange!r} of the logs was unknown in fit, which saw "
            f"{fitted.tolist()[:8]}. Fit on logs that know it (actions=[...])."
            f"{meant(strange, fitted.tolist())}"
        )
    return codes


def _check_binary(reward):
    wrong = np.flatnonzero((reward != 0) & (reward != 1))
    if wrong.size:
        raise ValueError(
            "a classifier can model rewards only if they are 0 or 1, got "
            f"{reward[wrong[0]]:.6g} at row {wrong[0]} ({wrong.size} such rows). "
            "Use a regressor."
        )


def _with_actions(logs, actions):
    if logs.actions is actions:
        return logs
    out = logs._copy()
    out.__dict__["actions"] = actions
    return out


# -- the (context, action) design of models that share one regressor -------------------

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
