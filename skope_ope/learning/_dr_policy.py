# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Learn policies as classifiers of actions with costs: IPSPolicy and DRPolicy."""

from __future__ import annotations

import warnings
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import islice
from numbers import Integral, Real
from typing import Any, Literal

import joblib
import numpy as np
from sklearn.utils import get_tags

from skope_ope._sklearn import Interval, StrOptions
from skope_ope._types import RewardModelLike, SplitterLike
from skope_ope.evaluators.core._requires import REWARD_MODEL_CONSTRAINTS
from skope_ope.evaluators.core._weights import shrink
from skope_ope.evaluators.static._base import doubly_robust_scores
from skope_ope.learning._logs_policy import (
    LogsPolicy,
    NoEvidence,
    centre,
    finite_predictions,
    learners_source,
)
from skope_ope.learning._softmax import linear_scores
from skope_ope.logs._context_encoder import encoding_explained
from skope_ope.logs._folds import HeldOut
from skope_ope.logs._row_container import take_rows
from skope_ope.logs._validation import row_sums
from skope_ope.policies._base import mostly, row_max, soften
from skope_ope.policies._classifier_policy import ClassifierActor
from skope_ope.propensities._model_fits import (
    class_probabilities,
    default_classifier,
    is_bare,
)
from skope_ope.reward_models._cross_fit import CrossFittedModel

# -- cost-sensitive classification with any classifier that takes weights --------------


class CostSensitivePolicy(LogsPolicy, ClassifierActor):
    """A classifier that learns from estimated rewards."""

    # A subclass implements `_first_rewards(logs)`, the estimated reward of every action
    # in every round, which the first classifier learns from, and may fit others in its
    # place, in `_fit_classifier(logs)`.

    _parameter_constraints: dict = {
        **ClassifierActor._parameter_constraints,
        "shrinkage": [Interval(Real, 0, None, closed="both"), None],
    }

    def _fit(self, logs):
        if (logs._action_counts > 0).sum() == 1:  # nothing to choose from
            self._learn(logs, np.zeros(1, int), logs.action_index[:1], np.ones(1))
        else:
            self._fit_classifier(logs)
        self._copy_features()

    def _fit_classifier(self, logs, learn=None):
        """Fit the first classifier; return the weight of the logged actions."""
        learn = learn or partial(self._learn, logs)
        rows, codes, weight = weighted_labels(
            self._first_rewards(logs), offered_actions(logs), logs.sample_weight
        )
        if not rows.size:
            raise NoEvidence(self)
        learn(rows, codes, weight)
        return weight[codes == logs.action_index[rows]].sum()

    def _fitted(self, context, rows, y, weight):
        found = None
        if self.classifier is None:
            found = fit_to_tables(default_classifier(), context, rows, y, weight)
        return found or super()._fitted(context, rows, y, weight)


def fit_to_tables(classifier, context, rows, y, weight):
    """Fit a logistic regression behind an encoder, None where examples share no row."""
    from scipy.optimize import minimize

    # Examples of the same row have the same scores. So the likelihood of all labels of
    # a row is computed at once, from a table of their weights: it is the likelihood of
    # the examples.
    kept = np.flatnonzero(np.bincount(rows))
    labels, codes = np.unique(y, return_inverse=True)
    if len(kept) == len(rows) or len(labels) < 3:
        return None
    encoder, logistic = (one for _, one in classifier.steps)
    with encoding_explained(context):
        encoder.fit(take_rows(context, rows))
        X = encoder.transform(take_rows(context, kept))
    table = np.zeros((len(kept), len(labels)))
    table[np.searchsorted(kept, rows), codes] = weight
    mass, total = table.sum(axis=1), table.sum()
    penalty = 1 / (logistic.C * total)

    def descent(flat):
        theta = flat.reshape(len(labels), -1)
        scores = linear_scores(X, theta)
        scores -= row_max(scores)[:, None]
        proba = np.exp(scores)
        sums = row_sums(proba)
        value = mass @ np.log(sums) - np.vdot(table, scores)
        proba *= (mass / sums)[:, None]
        proba -= table
        slopes = np.column_stack([(X.T @ proba).T, proba.sum(axis=0)]) / total
        slopes[:, :-1] += penalty * theta[:, :-1]
        value = value / total + penalty * (theta[:, :-1] ** 2).sum() / 2
        return value, slopes.ravel()

    found = minimize(
        descent,
        np.zeros(len(labels) * (X.shape[1] + 1)),
        jac=True,
        method="L-BFGS-B",  # with the options of LogisticRegression
        options={
            "maxiter": logistic.max_iter,
            "maxls": 50,
            "gtol": logistic.tol,
            "ftol": 64 * np.finfo(float).eps,
        },
    )
    if found.status:  # LogisticRegression says why
        return None
    theta = found.x.reshape(len(labels), -1)
    logistic.classes_, logistic.n_features_in_ = labels, X.shape[1]
    logistic.coef_, logistic.intercept_ = theta[:, :-1].copy(), theta[:, -1].copy()
    logistic.n_iter_ = np.array([found.nit], dtype=np.int32)
    return classifier, labels


def offered_actions(logs):
    """Actions that were offered and that the logs have taken, for broadcasting."""
    logged = logs._action_counts > 0
    return logged if logs.available is None else logged & logs.available


def estimated_rewards(logs, expected, shrinkage=None):
    r"""Return :math:`\hat r_i(a) = q_i(a) + 1[a_i = a] w_i (r_i - q_i(a))`."""
    w = 1 / logs.propensity
    if shrinkage is not None:
        w = shrink(w, shrinkage)
    return doubly_robust_scores(logs, expected, w)


def weighted_labels(rewards, offered, sample_weight=None, chance=None):
    r"""Return (rows, codes, weights) whose weighted accuracy is the value."""
    # For every policy :math:`\pi` that chooses one action
    #
    # .. math:: \sum_i \hat r_i(\pi(x_i)) = \sum_i \min_b \hat r_i(b)
    #     + \sum_i \sum_a 1[\pi(x_i) = a]\, (\hat r_i(a) - \min_b \hat r_i(b)),
    #
    # so a round becomes one example per action, weighted by how much better than the
    # worst offered action it is; the worst one itself has weight 0 and is left out.
    # Weights times the chances of the actions under a policy are those of a step of
    # expectation-maximisation from it.
    worst = np.where(offered, rewards, np.inf).min(axis=1, keepdims=True)
    weight = np.where(offered, rewards - worst, 0.0)
    rounding = 1e-12 * np.abs(rewards).max(axis=1, keepdims=True)
    weight[weight <= rounding] = 0.0
    if chance is not None:
        weight *= chance
    if sample_weight is not None:
        weight *= sample_weight[:, None]
    rows, codes = np.nonzero(weight)
    return rows, codes, weight[rows, codes]


# --------------------------------------------------------------------------------------


class IPSPolicy(CostSensitivePolicy):
    r"""Learn a classifier of actions from inverse propensity scores.

    The reward of every action of round :math:`i` is estimated by

    .. math:: \hat r_i(a) = b + 1[a_i = a]\, w_i (r_i - b), \qquad w_i = 1 / p_i,

    and a classifier learns to predict the best action, with a cost for each other
    action. Rewards may have any sign. A reward above the baseline :math:`b` favours the
    logged action, one below favours all others. Read more in the :ref:`User Guide
    <learning>`.

    Parameters
    ----------
    classifier : classifier, default=None
        Any scikit-learn classifier. One that takes no `sample_weight` is fitted on
        rows drawn in proportion to the weights. `None`: that of `ClassifierPolicy`.
        Pass one to tune its parameters, as `classifier__C`.
    baseline : {"auto", "min", "mean", "median", "midrange"} or float, default="auto"
        The reward that favours no action. It does not bias the estimated values, but it
        changes what the classifier learns, see Notes. "min" is the smallest reward;
        where that is 0, this is `ClassifierPolicy().fit(logs)`. "midrange" is the
        middle of `reward_range`, or of the rewards. "auto" is the smallest where all
        rewards are one of two numbers, otherwise the mean.
    shrinkage : float, default=None
        `lam` in the weights lam w / (w^2 + lam) [2]_: less variance from small
        propensities, for some bias. `None` (or infinity): none.
    epsilon : float, default=0.0
        Share of uniform exploration over all (offered) actions, in [0, 1].
    temperature : float, default=None
        `None` acts greedily; a positive number takes the softmax of the classifier's
        log-probabilities.

    Attributes
    ----------
    classifier_ : classifier
        The fitted classifier.
    baseline_ : float
        The baseline that is used.
    classes_ : ndarray of shape (n_actions,)
        Action labels of the logs.
    n_features_in_ : int
        Number of features of the contexts.

    See Also
    --------
    DRPolicy : Improves this classifier with a model of the rewards.
    SoftmaxPolicy : Maximises the estimated value itself.

    Notes
    -----
    A round becomes one example per action, labelled with the action. The weight of the
    example is the reward of the action minus that of the worst action. The weighted
    accuracy of a policy is then its estimated value up to a constant [1]_. A classifier
    does not maximise accuracy, but another loss. A classifier of probabilities learns
    P(a | x) proportional to the mean weight of a. The best action has the largest P,
    but with more examples for other actions the differences are smaller. A baseline
    above the smallest reward makes K - 1 such examples of every round below the
    baseline. The smallest reward as the baseline makes none, but then nearly every
    graded reward favours its action. The default is a compromise, not a theorem.
    `DRPolicy` depends less on it.

    The weights have the unit of the rewards, and a penalty of the classifier has no
    unit. If rewards are as small as 1e-4, use a larger unit.

    Actions that were never logged are chosen only if nothing else is offered.

    References
    ----------
    .. [1] Abe, N., Zadrozny, B., & Langford, J. (2004). An iterative method for
       multi-class cost-sensitive learning. KDD.
    .. [2] Su, Y., Dimakopoulou, M., Krishnamurthy, A., & Dudik, M. (2020). Doubly
       robust off-policy evaluation with shrinkage. ICML.

    Examples
    --------
    >>> from skope_ope import DoublyRobust, IPSPolicy
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(4000, reward="continuous", random_state=0)
    >>> train, test = logs[:2000], logs[2000:]
    >>> policy = IPSPolicy(shrinkage=100).fit(train)
    >>> bool(DoublyRobust().fit(test).score(policy) > test.reward.mean() + 0.3)
    True
    """

    _parameter_constraints: dict = {
        **CostSensitivePolicy._parameter_constraints,
        "baseline": [
            StrOptions({"auto", "min", "mean", "median", "midrange"}),
            Interval(Real, None, None, closed="neither"),
        ],
        "shrinkage": [Interval(Real, 0, None, closed="right"), None],
    }

    def __init__(
        self,
        classifier: Any = None,
        *,
        baseline: Literal["auto", "min", "mean", "median", "midrange"] | float = "auto",
        shrinkage: float | None = None,
        epsilon: float = 0.0,
        temperature: float | None = None,
    ) -> None:
        self.classifier = classifier
        self.baseline = baseline
        self.shrinkage = shrinkage
        self.epsilon = epsilon
        self.temperature = temperature

    def _first_rewards(self, logs):
        self.baseline_ = centre(logs, self.baseline)
        return estimated_rewards(logs, self.baseline_, self.shrinkage)


# -- A classifier of actions, improved by doubly robust rewards ------------------------

MOST_STEPS = 2  # that "auto" takes: more follow the noise of the estimated rewards


class DRPolicy(CostSensitivePolicy):
    r"""Learn a classifier of actions and improve it by doubly robust rewards [1]_.

    The first classifier is that of `IPSPolicy`. Then the reward of every action of
    round :math:`i` is estimated by

    .. math:: \hat r_i(a) = \hat q(x_i, a) + 1[a_i = a]\, \tilde w_i
        (r_i - \hat q(x_i, a)), \qquad
        \tilde w_i = \frac{\lambda w_i}{w_i^2 + \lambda}, \quad w_i = 1 / p_i,

    where the model :math:`\hat q` is cross-fitted: it never saw the reward that
    corrects it. A step from a classifier with probabilities :math:`\pi` to the next one
    fits it to every action of every round, with the weights

    .. math:: \pi(a|x_i)\, (\hat r_i(a) - \min_b \hat r_i(b)),

    a step of expectation-maximisation of the estimated value :math:`\sum_i \sum_a
    \pi(a|x_i)\, \hat r_i(a)` [3]_. The value of `DoublyRobust` on held-out rounds
    decides how many steps are taken. Rewards may have any sign. Read more in the
    :ref:`User Guide <learning>`.

    Parameters
    ----------
    classifier : classifier, default=None
        Any scikit-learn classifier. One that takes no `sample_weight` is fitted on
        rows drawn in proportion to the weights. `None`: that of `ClassifierPolicy`.
    reward_model : model, number, array or str, default=None
        Any reward model that `DoublyRobust` takes. `None`: per action
        `LogisticRegression` if all rewards are 0 or 1, otherwise `Ridge`. Its features
        are those of the classifier: after the first steps of a Pipeline, or else
        standardised. A `ContextEncoder` encodes a frame with texts, dates or missing
        values. If arrays are not finite numbers, the model is the mean reward of every
        action.
    cv : int, splitter, iterable or "prefit", default=5
        How rounds are split for cross-fitting of the reward model, and for the
        comparison of policies by `n_steps="auto"` (5 folds if the model is given).
    shrinkage : float, default=10.0
        :math:`\lambda` in the weights [2]_: 0 uses only the model, infinity and `None`
        shrink nothing. Without shrinkage single rounds of large weight decide, and
        their noise is learned.
    n_steps : int or "auto", default="auto"
        Steps after the first classifier; 0 is `IPSPolicy`. Many steps follow the noise
        of the estimated rewards. "auto" takes 0, 1 or 2: the number with the largest
        cross-validated value. With k folds this needs about k (k - 1) more fits of the
        reward model and 3 k of the classifier.
    epsilon : float, default=0.0
        Share of uniform exploration over all (offered) actions, in [0, 1].
    temperature : float, default=None
        `None` acts greedily; a positive number takes the softmax of the classifier's
        log-probabilities.

    Attributes
    ----------
    classifier_ : classifier
        The last classifier.
    n_steps_ : int
        Steps that were taken.
    classes_ : ndarray of shape (n_actions,)
        Action labels of the logs.
    n_features_in_ : int
        Number of features of the contexts.

    See Also
    --------
    IPSPolicy : The first classifier alone.
    SoftmaxPolicy : Maximises the estimated value itself.
    RewardModelPolicy : Takes the action that a model predicts to be best.

    Notes
    -----
    No step lowers the estimated value if the classifier fully maximises the weighted
    likelihood. Other classifiers come close. A classifier without `predict_proba` is
    taken at the softmax of its `decision_function`, and without that half uniform. In
    every step the examples of the logged actions have the same total weight as for the
    first classifier. So a penalty has the same effect in all steps.

    A step has up to n_actions examples of every round.

    References
    ----------
    .. [1] Dudik, M., Langford, J., & Li, L. (2011). Doubly robust policy evaluation
       and learning. ICML.
    .. [2] Su, Y., Dimakopoulou, M., Krishnamurthy, A., & Dudik, M. (2020). Doubly
       robust off-policy evaluation with shrinkage. ICML.
    .. [3] Peters, J., & Schaal, S. (2007). Reinforcement learning by reward-weighted
       regression for operational space control. ICML.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from skope_ope import DoublyRobust, DRPolicy
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(4000, reward="continuous", random_state=0)
    >>> train, test = logs[:2000], logs[2000:]
    >>> policy = DRPolicy(reward_model=Ridge()).fit(train)
    >>> bool(DoublyRobust().fit(test).score(policy) > test.reward.mean() + 0.3)
    True
    """

    _parameter_constraints: dict = {
        **CostSensitivePolicy._parameter_constraints,
        **REWARD_MODEL_CONSTRAINTS,
        "n_steps": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
    }

    def __init__(
        self,
        classifier: Any = None,
        *,
        reward_model: RewardModelLike = None,
        cv: SplitterLike | Literal["prefit"] = 5,
        shrinkage: float | None = 10.0,
        n_steps: int | Literal["auto"] = "auto",
        epsilon: float = 0.0,
        temperature: float | None = None,
    ) -> None:
        self.classifier = classifier
        self.reward_model = reward_model
        self.cv = cv
        self.shrinkage = shrinkage
        self.n_steps = n_steps
        self.epsilon = epsilon
        self.temperature = temperature

    def _first_rewards(self, logs):
        return estimated_rewards(logs, centre(logs, "auto"))

    def _fit_classifier(self, logs):
        self.n_steps_ = self.n_steps
        if not self.n_steps:
            super()._fit_classifier(logs)
            return
        steps = getattr(self._get_classifier(), "steps", [])[:-1]
        source = learners_source(self, logs, [step for _, step in steps])
        q_hat = finite_predictions(source, logs)(logs, 0)
        if self.n_steps == "auto":
            self.n_steps_ = self._steps_that_pay(logs, source, q_hat)
        path = self._path(logs, q_hat, partial(self._learn, logs))
        for _ in islice(path, self.n_steps_ + 1):
            pass

    def _path(self, logs, q_hat, learn):
        """Yield with the first classifier, and after every step from it."""
        logged = super()._fit_classifier(logs, learn)
        yield
        offered = offered_actions(logs)
        rewards = estimated_rewards(logs, q_hat, self.shrinkage)
        while True:
            chance = self._chances(logs.context) * offered
            mass = chance.sum(axis=1, keepdims=True)  # 0 where only unknown ones are
            chance = np.divide(chance, mass, out=chance, where=mass > 0)
            rows, codes, weight = weighted_labels(
                rewards, offered, logs.sample_weight, chance
            )
            if rows.size:  # else the classifier is sure, and of the worst
                now = weight[codes == logs.action_index[rows]].sum()
                scale = logged / now if now > 0 else logged / weight.sum()
                learn(rows, codes, weight * scale)
            yield

    def _steps_that_pay(self, logs, source, q_hat):
        """Return the number of steps of the largest cross-validated value."""
        refitted = hasattr(source, "held_out_")
        held_out = source.held_out_ if refitted else self._five_folds(logs)
        rewards = estimated_rewards(logs, q_hat)
        if logs.sample_weight is not None:
            rewards *= logs.sample_weight[:, None]
        values, fitted = np.zeros(MOST_STEPS + 1), {}
        for k, train in enumerate(held_out.train):
            test = np.flatnonzero(held_out.fold == k)
            part, rest = logs[train], logs[test]
            counts = part.sample_weight is None or part.sample_weight.any()
            if not (test.size and counts):  # a fold repeated, or of no weight
                continue
            predicted = q_hat[train]
            if refitted:  # by models that have not seen the test rounds either
                inside = held_out.inside(k)
                if not inside:  # the first part of folds in the order of time
                    continue
                with _said_of_all_rounds():
                    of_rest = _FoldsInFolds(
                        source.model, part, inside, (logs, train), fitted
                    )
                    predicted = finite_predictions(of_rest, part)(part, 0)
            policy = copy(self)  # a clone would copy what stands for a model and folds
            with suppress(NoEvidence), _said_of_all_rounds():  # few tell nothing
                learn = partial(policy._learn_some, logs, train)
                path = policy._path(part, predicted, learn)
                for step, _ in enumerate(islice(path, MOST_STEPS + 1)):
                    chosen = policy._proba(rest.context, rest.available)
                    values[step] += (chosen * rewards[test]).sum()
        return int(values.argmax())

    def _learn_some(self, logs, some, rows, codes, weight):
        """Learn from rows of some rounds, to act on all: some may be odd."""
        self._learn(logs, some[rows], codes, weight)

    def _five_folds(self, logs):
        try:
            return HeldOut(logs, 5)
        except ValueError as error:
            raise ValueError(
                'n_steps="auto" compares policies on rounds that are held out, but '
                "these logs cannot be split. Pass a number of steps."
            ) from error

    def _chances(self, X):
        """Probabilities of the actions by the present classifier, none of them 0."""
        classifier, few = self.classifier_, 1e-6
        if hasattr(classifier, "predict_proba"):
            chance = self._to_classes(class_probabilities(classifier, X), 0.0)
        elif hasattr(classifier, "decision_function"):
            chance = soften(self._ranking(X), 1.0)
        else:
            chance, few = mostly(self._choice(X, None), len(self.classes_)), 0.5
        return (1 - few) * chance + few / chance.shape[1]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if hasattr(self.reward_model, "__sklearn_tags__"):
            inner = get_tags(self.reward_model).input_tags
            tags.input_tags.sparse &= inner.sparse
            # else it goes behind a ContextEncoder
            tags.input_tags.allow_nan &= inner.allow_nan or is_bare(self.reward_model)
        return tags


def _said_of_all_rounds():
    """Silence what the fits to all rounds warn of, in fits to parts of them."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)


class _FoldsInFolds(CrossFittedModel):
    """Models of the folds inside of a fold."""

    # What is fitted without the folds j and k serves inside of both, so that every
    # model is fitted once. `fitted` holds those that still serve, by their rounds.
    # `origin` are all logs, and which rounds of these are `logs`.

    def __init__(self, model, logs, folds, origin, fitted):
        self.origin, self.fitted = origin, fitted
        super().__init__(model, logs, folds)

    def _training(self, fold):
        logs, rows = self.origin
        return logs, rows[super()._training(fold)[1]]

    def _fit(self, fold):
        rounds = joblib.hash(self._training(fold)[1])
        if rounds in self.fitted:
            return self.fitted.pop(rounds)
        model = self.fitted[rounds] = super()._fit(fold)
        return model
