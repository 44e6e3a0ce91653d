# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The target policy's probabilities, aligned with the actions of the logs."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from skope_ope._texts import meant
from skope_ope._types import Array, PolicyLike
from skope_ope.logs import BanditLogs
from skope_ope.logs._labels import kind_of_labels
from skope_ope.logs._row_container import check_output_labels, check_row_labels, own
from skope_ope.logs._validation import (
    as_array,
    check_agreement,
    check_distributions,
    check_propensity,
    label_codes,
    plain,
)
from skope_ope.logs.lazy._lazy_logs import kind_of, refuse_lazy
from skope_ope.policies._adaptive import AdaptivePolicy, contexts_of
from skope_ope.policies._base import BasePolicy, n_rows, offers, restrict
from skope_ope.policies._fit_free_policies import FunctionPolicy
from skope_ope.policies._policy_outputs import (
    can_be_labels,
    checked_floats,
    columns_told,
    function_table,
    label_table,
    named_table,
    report_unknown,
)


def action_probabilities(
    policy: PolicyLike,
    logs: BanditLogs,
    *,
    unknown: Literal["raise", "ignore"] = "raise",
) -> Array:
    """Return the probability of every action of the logs under a policy.

    Parameters
    ----------
    policy : policy, str, or array-like of shape (n_rounds, n_actions) or (n_rounds,)
        A fitted policy, the name of a column of the logs, the probabilities
        themselves, or the labels of the actions that are taken.
    logs : BanditLogs
        The rounds.
    unknown : {"raise", "ignore"}, default="raise"
        What to do if the policy gives positive probability to actions that are not in
        `logs.actions`. "ignore" drops this probability, so that rows sum to less than
        one, and warns with its mean.

    Returns
    -------
    proba : ndarray of shape (n_rounds, n_actions)
        Columns in the order of `logs.actions`. Actions that the policy does not know
        have probability 0, and so have actions that are not available.

    Raises
    ------
    TypeError
        If `policy` is not a policy (a bare classifier, logs, an evaluator).
    ValueError
        If the probabilities are not distributions over the offered actions.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, UniformPolicy
    >>> from skope_ope.policies import action_probabilities
    >>> logs = BanditLogs(np.zeros((2, 1)), ["a", "b"], [1.0, 0.0], [0.5, 0.5])
    >>> action_probabilities(UniformPolicy(), logs)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    if not isinstance(logs, BanditLogs):
        raise TypeError(f"logs must be BanditLogs, got {kind_of(logs)}.")
    if unknown not in ("raise", "ignore"):
        raise ValueError(f"unknown must be 'raise' or 'ignore', got {unknown!r}.")
    proba = resolve_policy(policy, logs)
    if not isinstance(proba, np.ndarray):
        proba = policy_probabilities(proba, logs, unknown)
        if unknown == "ignore":
            return proba
    elif proba.ndim == 1:
        raise ValueError(
            f"an array of shape ({len(logs)},) has the probability of the logged "
            "action only, which is not enough here. Pass an array of shape "
            f"({len(logs)}, {logs.n_actions}) with all actions."
        )
    proba = np.asarray(proba, dtype=np.float64)
    check_distributions("policy", proba, logs.available)
    return proba


def resolve_policy(policy, logs):
    """Return a policy object, or the array (n,) or (n, n_actions) in its stead."""
    # An array of any kind of real numbers is returned as it was given. Its reader makes
    # floats of it, block by block.
    refuse_lazy(logs)
    if isinstance(policy, str):
        if policy not in logs.columns:
            if policy in logs.actions.tolist():
                raise ValueError(
                    f"policy {policy!r} is an action of the logs. The policy that "
                    f"always takes it is ConstantPolicy({policy!r})."
                )
            raise ValueError(
                f"policy {policy!r} is not a column of the logs (they have "
                f"{sorted(logs.columns)}).{meant(policy, logs.columns)} Add it with "
                "logs.with_columns, or pass a policy, which is an object such as "
                "UniformPolicy()."
            )
        policy = logs.columns[policy]
    if isinstance(policy, (np.ndarray, list, tuple)) or (
        (hasattr(policy, "__array__") or sparse.issparse(policy))
        and not isinstance(policy, BanditLogs)
    ):
        return _probability_array(policy, logs)
    policy = unwrap(policy)
    refuse_non_policies(policy)
    return policy


def unwrap(policy):
    """Policy inside a finished search or a FrozenEstimator."""
    while True:
        if hasattr(policy, "best_estimator_"):
            best = getattr(policy, "best_score_", None)
            if isinstance(best, float) and isnan(best):
                raise ValueError(
                    "the search has only scores that are NaN, so its choice means "
                    "nothing. Pass scoring=PolicyScorer(evaluator), and fit it again."
                )
            policy = policy.best_estimator_
        elif type(policy).__name__ == "FrozenEstimator":
            policy = policy.estimator
            if isinstance(policy, AdaptivePolicy):  # it learns no more
                return policy.frozen(explore=True)
        else:
            return policy


def refuse_non_policies(policy):
    """Raise a TypeError that says what to pass instead."""
    policy = unwrap(policy)
    if isinstance(policy, BanditLogs):
        raise TypeError(
            "a policy is expected, got BanditLogs. One that is learned from logs is "
            "fitted first: ClassifierPolicy().fit(logs)."
        )
    if isinstance(policy, type):
        raise TypeError(
            f"a policy is expected, got the class {policy.__name__}; make an instance."
        )
    if isinstance(policy, BasePolicy) or hasattr(policy, "logs_proba"):
        return
    last = last_step(policy)
    if isinstance(last, AdaptivePolicy):
        raise TypeError(
            f"a Pipeline cannot end in {type(last).__name__}, which learns while it "
            "acts: transform the contexts before the logs are built."
        )
    if isinstance(last, BasePolicy):
        return
    if hasattr(policy, "param_grid") or hasattr(policy, "param_distributions"):
        searched = getattr(policy, "estimator", None)
        if isinstance(last_step(searched), BasePolicy):
            raise NotFittedError(
                f"this {type(policy).__name__} over policies is not fitted yet (or has "
                "refit=False). Fit it before its best policy is evaluated."
            )
    if hasattr(policy, "evaluate"):
        raise TypeError(
            f"a policy is expected, got the evaluator {type(policy).__name__}."
        )
    if hasattr(policy, "__sklearn_tags__") and is_classifier(policy):
        name = type(policy).__name__
        written = "pipeline" if hasattr(policy, "steps") else f"{name}()"
        as_it_is = ""
        if hasattr(policy, "classes_"):  # it is fitted
            as_it_is = (
                " That learns anew. With clf, the one that you fitted, "
                "ClassifierPolicy(FrozenEstimator(clf)).fit(logs) only reads which "
                "actions there are, from any rounds; from sklearn.frozen import "
                "FrozenEstimator."
            )
        raise TypeError(
            f"{name} is a classifier, not a policy. Wrap it: "
            f"ClassifierPolicy({written}).fit(logs), fitted on other rounds than "
            f"you evaluate on.{as_it_is} The parameters of ClassifierPolicy choose "
            "between greedy actions, softmax and exploration."
        )
    if hasattr(policy, "predict_proba") and hasattr(policy, "classes_"):
        return
    is_rule = callable(getattr(policy, "predict", None)) and (  # written by hand
        not hasattr(policy, "__sklearn_tags__")
        or get_tags(policy).estimator_type is None  # as no regressor or clusterer has
    )
    if is_rule and not hasattr(policy, "predict_proba"):
        return
    wrap = " Wrap a function of the contexts: FunctionPolicy(func)."
    raise TypeError(
        "a policy needs predict_proba and classes_, or is an array of probabilities "
        f"of shape (n_rounds, n_actions); got {type(policy).__name__}."
        + (wrap if callable(policy) else "")
    )


def last_step(policy):
    """Return the policy at the end of a Pipeline."""
    return unwrap(policy.steps[-1][1]) if hasattr(policy, "steps") else policy


def check_policy_fitted(policy):
    """Raise NotFittedError where the policy is an unfitted estimator."""
    # a policy written by hand needs no fit
    if hasattr(policy, "fit") and hasattr(policy, "__sklearn_tags__"):
        check_is_fitted(policy)


def _probability_array(policy, logs):
    if sparse.issparse(policy):
        policy = policy.toarray()
    check_row_labels("policy", policy, logs)
    policy = as_array("policy", policy, logs.actions)
    if policy.ndim not in (1, 2):
        raise ValueError(
            f"policy must be an array of shape ({len(logs)}, {logs.n_actions}), got "
            f"{policy.shape}.{_of_positions(policy)}"
        )
    kind = policy.dtype.kind
    of_truth = kind == "O" and kind_of_labels(policy.ravel()) == "bools"
    if of_truth and not (policy.ndim == 1 and can_be_labels(policy, logs.actions)):
        policy, kind = policy.astype(bool), "b"
    if policy.ndim == 1 and kind in "iub":
        what = "booleans" if kind == "b" else "integers"
        raise TypeError(
            f"policy is a vector of {what}: actions, or probabilities? Pass labels of "
            "actions as (labels[:, None] == logs.actions), or the rule that gives them "
            "as FunctionPolicy(lambda X: ...). Probabilities of the logged actions are "
            "floats: policy.astype(float)."
        )
    real = policy.dtype.kind in "biuf"
    # objects may be numbers
    named = policy.ndim == 1 and not real and kind_of_labels(policy) != "numbers"
    named = named and can_be_labels(policy, logs.actions)
    proba = policy if real or named else checked_floats("policy", policy)
    want = (len(logs),) if proba.ndim == 1 else (len(logs), logs.n_actions)
    if proba.shape != want:
        raise ValueError(
            f"policy has shape {proba.shape}, but the logs have {len(logs)} rounds and "
            f"{logs.n_actions} actions: an array belongs to the rows it was made for. "
            "For other rows or folds, carry it with logs.with_columns(name=...) and "
            "pass the column's name."
        )
    if named:
        return label_table("policy", proba, logs.actions, logs.available)
    return proba


def _of_positions(proba):
    """Return what to do with probabilities at several positions, as obp has them."""
    remedy = " The last axis is of positions, as of obp's action_dist: pass [:, :, 0]"
    if proba.ndim != 3:
        return ""
    if proba.shape[2] > 1:
        remedy += ", or of each round its position, [np.arange(n_rounds), :, position]"
    return f"{remedy}."


def policy_probabilities(policy, logs, unknown="raise"):
    """Return the (n_rounds, n_actions) probabilities of a policy object."""
    check_policy_fitted(policy)
    expected = getattr(policy, "n_features_in_", logs.n_features)
    if expected != logs.n_features:
        none = ": name their columns, context=[...]" if not logs.n_features else ""
        raise ValueError(
            f"the policy was fitted on {expected} features, the logs have "
            f"{logs.n_features}. Evaluate it on logs with the same context{none}."
        )
    if hasattr(policy, "logs_proba"):
        given = policy.logs_proba(own(logs, policy))
        who = f"the output of {type(policy).__name__}.logs_proba"
        check_output_labels(who, given, logs.context)
        proba = named_table(policy, given, logs.actions, "logs_proba")
        return _check_shape(policy, proba, (len(logs), logs.n_actions))
    # a function that was not fitted speaks of the actions of the logs
    classes = np.asarray(getattr(policy, "classes_", logs.actions))
    codes = label_codes(logs.actions, classes)
    known = codes >= 0
    available = offers(logs, classes)
    # some need more of a row than its context
    special = hasattr(policy, "context_of")
    X = contexts_of(policy, logs) if special else logs.context
    proba = context_probabilities(policy, X, classes, available)
    if known.all() and np.array_equal(codes, np.arange(logs.n_actions)):
        return proba
    out = np.zeros((len(logs), logs.n_actions))
    out[:, codes[known]] = proba[:, known]
    if not known.all():
        report_unknown(classes[~known], proba[:, ~known], logs, unknown)
    return out


def context_probabilities(policy, X, classes, available=None):
    """Return probabilities of `classes`, renormalised over the offered actions."""
    last = last_step(policy)
    if last is not policy and isinstance(last, BasePolicy):
        # A Pipeline knows nothing of offers: hand them to its policy. "passthrough" and
        # samplers of imbalanced-learn, which change the rows of fits only, are skipped.
        X = own(X, policy) if len(policy.steps) > 1 else X
        for _, step in policy.steps[:-1]:
            X = step.transform(X) if hasattr(step, "transform") else X
        policy = last
    if isinstance(policy, FunctionPolicy) and not hasattr(policy, "classes_"):
        policy = policy._knowing(classes)
    ours, shape = isinstance(policy, BasePolicy), (n_rows(X), len(classes))
    seen = own(X, policy), *([own(available, policy)] if ours else [])
    if hasattr(policy, "predict_proba"):
        given = policy.predict_proba(*seen)
        check_output_labels(f"the output of {type(policy).__name__}", given, X)
        proba = named_table(policy, given, classes)
    else:
        who = f"the output of {type(policy).__name__}.predict"
        with columns_told(X):
            given = policy.predict(*seen)
        check_output_labels(who, given, X)
        proba = function_table(who, given, classes, shape[0])
    proba = _check_shape(policy, proba, shape)
    return proba if ours else restrict(proba, available)


def answers_alone(policy):
    """Tell whether a policy gives `logged_proba` and `mass_on`."""
    # Those of a parent do not count where a subclass has changed the probabilities.
    if not (hasattr(policy, "logged_proba") and hasattr(policy, "mass_on")):
        return False
    for one in type(policy).__mro__:
        own = vars(one)
        if "logged_proba" in own and "mass_on" in own:
            return True
        if own.keys() & {"_proba", "logs_proba", "predict_proba"}:
            return False
    return True  # attributes of the instance


def _check_shape(policy, proba, shape):
    if proba.shape != shape:
        raise ValueError(
            f"{type(policy).__name__} gave probabilities of shape {proba.shape}, "
            f"expected {shape} (n_rounds, one column per action)."
            f"{_of_positions(proba)}"
        )
    return checked_floats(f"the output of {type(policy).__name__}", proba)


# -- `logs.with_logger_policies()`: logs stand above policies, so these give it them ---

ASKED_AT_ONCE = 1 << 20  # probabilities asked of a policy at once


def with_logger_policies(self, policies: Mapping[Any, PolicyLike]) -> BanditLogs:
    """Compute the probability of every logged action under every logger.

    The policies of the loggers give `logger_proba`, and `propensity` if the logs have
    none. Read more in the :ref:`User Guide <multi_logger>`.

    Parameters
    ----------
    policies : dict
        The policy of every logger, by label: a policy object, an array of shape
        (n_rounds, n_actions), or the name of such a column. An array of shape
        (n_rounds,) gives the probabilities of the logged actions only.

    Returns
    -------
    logs : BanditLogs
        The same rounds with `logger_proba` and `propensity`.

    Raises
    ------
    TypeError
        If a policy learns while it acts: its probabilities depend on its history.
    ValueError
        If a logger has no policy. If a policy gives probability 0 to an action that its
        logger took. If the probabilities contradict the recorded propensities.

    See Also
    --------
    LoggerPropensityEstimator : If you do not have the policies.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, UniformPolicy
    >>> logs = BanditLogs(
    ...     np.zeros((3, 1)), ["a", "b", "a"], [1.0, 0.0, 1.0], logger=[0, 1, 1]
    ... )
    >>> b_mostly = np.tile([0.2, 0.8], (3, 1))
    >>> logs = logs.with_logger_policies({0: UniformPolicy(), 1: b_mostly})
    >>> logs.logger_proba
    array([[0.5, 0.2],
           [0.5, 0.8],
           [0.5, 0.2]])
    >>> logs.propensity
    array([0.5, 0.8, 0.2])
    """
    logs = self
    if logs.loggers is None:
        raise ValueError(
            "the logs have no logger: build them with logger=..., the label of the "
            "logger of every round."
        )
    if not hasattr(policies, "keys"):
        raise TypeError(
            "policies must be a dict of policies by the labels of the loggers, got "
            f"{type(policies).__name__}."
        )
    labels = logs.loggers.tolist()
    for names, others, what in (
        (labels, policies, "has no policy"),
        (policies, labels, "is not a logger of the logs"),
    ):
        for name in names:
            if name not in others:
                raise ValueError(
                    f"{name!r} {what}: policies needs exactly the loggers {labels}, "
                    f"got {list(policies)}."
                )
    proba = np.empty((len(logs), len(labels)))
    for column, label in zip(proba.T, labels, strict=True):
        column[:] = _logged_probability(policies[label], label, logs)
    told = proba[np.arange(len(logs)), logs.logger_index]
    never = np.flatnonzero(told <= 0)
    if never.size:
        row = int(never[0])
        raise ValueError(
            f"the policy of logger {labels[logs.logger_index[row]]!r} gives "
            f"probability {told[row]:.6g} to {plain(logs.action[row])!r}, which it "
            f"logged at row {row} ({never.size} such rows). So another policy acted. "
            "Correct the policy, or the loggers of the rows."
        )
    if logs.propensity is None:
        return logs.replace(
            logger_proba=proba, propensity=check_propensity(told, len(logs))
        )
    check_agreement(logs.propensity, "the policies of the loggers", told)
    return logs.replace(logger_proba=proba)


# its name in messages, and by which pickles find it
with_logger_policies.__qualname__ = "BanditLogs.with_logger_policies"
BanditLogs.with_logger_policies = with_logger_policies


def _logged_probability(policy, label, logs):
    """Probability of the logged actions, a chunk of rounds at a time."""
    policy = resolve_policy(policy, logs)
    if isinstance(policy, AdaptivePolicy):
        raise TypeError(
            f"the policy of logger {label!r}, {type(policy).__name__}, learns while "
            "it acts, so its probabilities depend on its history. Pass its recorded "
            "probabilities as an array of shape (n_rounds,). If it stopped learning, "
            "pass policy.frozen()."
        )
    given = policy if isinstance(policy, np.ndarray) else None
    if given is not None and given.ndim == 1:
        return given
    out = np.empty(len(logs))
    chunk = max(ASKED_AT_ONCE // logs.n_actions, 1)
    for start in range(0, len(logs), chunk):
        rounds = logs[start : start + chunk]
        if given is None:
            proba = policy_probabilities(policy, rounds)
        else:
            proba = np.asarray(given[start : start + chunk], dtype=np.float64)
        check_distributions(
            f"the policy of logger {label!r}", proba, rounds.available, start
        )
        out[start : start + chunk] = proba[np.arange(len(rounds)), rounds.action_index]
    return out
