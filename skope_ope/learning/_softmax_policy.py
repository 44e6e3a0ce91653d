# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The linear softmax policy of the largest estimated value."""

from __future__ import annotations

import warnings
from itertools import islice
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from skope_ope._progress import step
from skope_ope._sklearn import HasMethods, Interval, StrOptions
from skope_ope._types import RandomSeed, RewardModelLike, SplitterLike
from skope_ope.evaluators.core._requires import REWARD_MODEL_CONSTRAINTS
from skope_ope.learning import _softmax as softmax
from skope_ope.learning._logs_policy import (
    LogsPolicy,
    NoEvidence,
    act,
    finite_predictions,
    learners_source,
    prefer,
)
from skope_ope.logs import ContextEncoder
from skope_ope.logs._context_encoder import encoding_explained, has_other_columns
from skope_ope.logs._row_container import own
from skope_ope.policies._classifier_policy import ACTING_CONSTRAINTS, with_inputs_of

OBJECTIVES = {
    "ips": softmax.IPSValue,
    "snips": softmax.SNIPSValue,
    "log_smoothing": softmax.LogSmoothingValue,
}


SPARSE_NORM = 10.0  # root mean square length of a sparse context after scaling


def times(X, factor):
    """Features by default of sparse contexts: zeros must stay zeros."""
    return X * factor


def _factor(context):
    size = np.sqrt((context.data**2).sum() / context.shape[0])
    return SPARSE_NORM / size if size else 1.0


class SoftmaxPolicy(LogsPolicy):
    r"""Learn the linear softmax policy of the largest estimated value.

    .. math:: \pi_\theta(a|x) \propto \exp(\theta_a^T \phi(x) + b_a), \qquad
        \max_\theta\; \hat V(\pi_\theta) - z\, SE(\pi_\theta)
        + \eta\, \sigma\, \bar H(\pi_\theta)
        - \frac{\alpha\, \sigma}{2 K} \|\theta - \theta_\mu\|^2

    The value :math:`\hat V` is exactly that of an evaluator on these rounds. L-BFGS
    finds a local maximum. :math:`\bar H` is the mean entropy and :math:`\theta_\mu` the
    policy of the logger. :math:`\sigma` is the standard deviation of the rewards, so no
    parameter depends on the unit of the rewards. If the logs have no information on a
    choice, the policy stays near the logger. Read more in the
    :ref:`User Guide <softmax_policy>`.

    Parameters
    ----------
    features : transformer, default=None
        Any scikit-learn transformer, or Pipeline of them, that makes the features
        :math:`\phi(x)`. `None`: contexts are standardised, and frames with texts or
        dates are encoded by a `ContextEncoder`. Sparse contexts are multiplied by one
        factor, so that their root mean square length is 10. Scale matters: coefficients
        of small features stay near the anchor.
    objective : {"dr", "snips", "ips", "log_smoothing"}, default="dr"
        The evaluator whose value is maximised: `DoublyRobust`, `SNIPS`, `IPS` or
        `LogSmoothing`. "log_smoothing" is pessimistic: it reduces large weights [1]_.
        It needs rewards that are not negative, or a `reward_range`.
    reward_model : model, number, array or str, default=None
        Any reward model that `DoublyRobust` takes. Only "dr" uses one. `None`: per
        action `LogisticRegression` where all rewards are 0 or 1, otherwise `Ridge`, on
        the same features.
    cv : int, splitter, iterable or "prefit", default=5
        How rounds are split for cross-fitting of the reward model. Groups stay
        together.
    alpha : float, default=0.01
        Strength of the penalty on the distance of coefficients to the anchor.
        Intercepts have no penalty.
    entropy : float, default=0.0
        Weight of the mean entropy. A larger weight gives a policy that explores more.
    pessimism : float, default=0.0
        Number :math:`z` of standard errors that are subtracted from the value, for
        "dr", "snips" and "ips". They are clustered by the groups of the logs. 1.645
        maximises a lower bound of 95% [2]_. The bound holds for one given policy, not
        for the policy that is chosen.
    anchor : {"logger", "uniform"}, default="logger"
        The ascent starts at this policy, and the penalty is on the distance from it: a
        model of the logger, or the uniform policy.
    n_starts : int, default=1
        Number of ascents. The one with the highest objective is kept. The second starts
        at the other anchor, the third at the classifier of rewarded actions, others at
        random. The objective has several local maxima. With few rounds the highest one
        fits noise, see Notes.
    max_iter : int, default=500
        Most steps of an ascent.
    tol : float, default=1e-5
        An ascent ends if no slope of the objective, in units of :math:`\sigma`, is
        larger.
    epsilon : float, default=0.0
        Share of uniform exploration over all (offered) actions, in [0, 1].
    temperature : float, default=1.0
        Of the softmax: 1 is the policy whose value was maximised. `None` takes its most
        likely action.
    random_state : int, RandomState or None, default=0
        Of the starts at random.

    Attributes
    ----------
    coef_ : ndarray of shape (n_actions, n_features_out)
        Coefficients of the features.
    intercept_ : ndarray of shape (n_actions,)
        Intercepts.
    objective_ : float
        The final objective. It is too good, because the policy was chosen on these
        rounds.
    n_iter_ : int
        Steps of the ascent that was kept.
    features_ : transformer
        The fitted transformer.
    known_ : ndarray of bool of shape (n_actions,)
        Actions that the logs have taken.
    classes_ : ndarray of shape (n_actions,)
        Action labels of the logs.
    n_features_in_ : int
        Number of features of the contexts.

    See Also
    --------
    DRPolicy : Any classifier, improved by doubly robust rewards.
    DoublyRobust, SNIPS, IPS, LogSmoothing : What is maximised.

    Notes
    -----
    Memory holds the features and tables of at most 256 MB, for any number of actions
    and rounds. If the predictions of a model do not fit, every pass computes them
    again. Actions that were never logged are chosen only if nothing else is offered.

    On labelled sets turned into logs, three starts found higher estimated values, but
    worse policies, than one start at the logger. Choose `n_starts` and `alpha` on other
    rounds, by a search with `PolicyScorer`.

    References
    ----------
    .. [1] Sakhi, O., Aouali, I., Alquier, P., & Chopin, N. (2024). Logarithmic
       smoothing for pessimistic off-policy evaluation, selection and learning.
       NeurIPS.
    .. [2] Swaminathan, A., & Joachims, T. (2015). Counterfactual risk minimization:
       learning from logged bandit feedback. ICML.

    Examples
    --------
    >>> from skope_ope import DoublyRobust, SoftmaxPolicy
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(4000, reward="continuous", random_state=0)
    >>> train, test = logs[:2000], logs[2000:]
    >>> policy = SoftmaxPolicy(alpha=0.1).fit(train)
    >>> bool(DoublyRobust().fit(test).score(policy) > test.reward.mean() + 0.3)
    True
    """

    _has_steps = True
    _parameter_constraints: dict = {
        "features": [HasMethods(["fit", "transform"]), None],
        "objective": [StrOptions({"dr", *OBJECTIVES})],
        **REWARD_MODEL_CONSTRAINTS,
        "alpha": [Interval(Real, 0, None, closed="left")],
        "entropy": [Interval(Real, 0, None, closed="left")],
        "pessimism": [Interval(Real, 0, None, closed="left")],
        "anchor": [StrOptions({"logger", "uniform"})],
        "n_starts": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        **ACTING_CONSTRAINTS,
    }

    def __init__(
        self,
        features: Any = None,
        *,
        objective: Literal["dr", "snips", "ips", "log_smoothing"] = "dr",
        reward_model: RewardModelLike = None,
        cv: SplitterLike | Literal["prefit"] = 5,
        alpha: float = 0.01,
        entropy: float = 0.0,
        pessimism: float = 0.0,
        anchor: Literal["logger", "uniform"] = "logger",
        n_starts: int = 1,
        max_iter: int = 500,
        tol: float = 1e-5,
        epsilon: float = 0.0,
        temperature: float = 1.0,
        random_state: RandomSeed = 0,
    ) -> None:
        self.features = features
        self.objective = objective
        self.reward_model = reward_model
        self.cv = cv
        self.alpha = alpha
        self.entropy = entropy
        self.pessimism = pessimism
        self.anchor = anchor
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.tol = tol
        self.epsilon = epsilon
        self.temperature = temperature
        self.random_state = random_state

    def _fit(self, logs):
        self.known_ = logs._action_counts > 0
        phi = self._fit_features(logs.context)
        omega = np.ones(len(logs)) if logs.sample_weight is None else logs.sample_weight
        share = omega / omega.sum()
        change = logs.reward - share @ logs.reward
        unit = float(np.abs(change).max()) or 1.0  # squares of small ones would be 0
        unit *= np.sqrt(share @ (change / unit) ** 2)
        if logs.reward.min() == logs.reward.max():
            if self.known_.sum() > 1:
                raise NoEvidence(self)
            unit = 1.0
        offered = self.known_
        if logs.available is not None:
            offered = prefer(self.known_, logs.available)
        rounds, objective = self._problem(logs, phi, offered)
        likely = self._fitted(rounds, omega)
        anchor = likely if self.anchor == "logger" else np.zeros(rounds.shape)
        problem = Penalised(
            rounds,
            objective,
            share,
            entropy=self.entropy * unit,
            penalty=self.alpha * unit / self.known_.sum(),
            anchor=anchor,
            unit=unit,
        )
        starts = islice(self._starts(logs, rounds, likely), self.n_starts)

        def told(found):
            with step(self, logs, "iteration"):
                pass

        tops = [
            problem.ascend(start, self.max_iter, self.tol, told) for start in starts
        ]
        best = max(tops, key=lambda top: top.objective)
        if not best.converged:
            warn_of_no_end(type(self).__name__, best.n_iter, self.max_iter)
        self.coef_, self.intercept_ = best.theta[:, :-1], best.theta[:, -1]
        self.objective_, self.n_iter_ = best.objective, best.n_iter

    def _fit_features(self, context):
        from sklearn.preprocessing import FunctionTransformer, StandardScaler

        if self.features is not None:
            self.features_ = clone(self.features)
        elif sparse.issparse(context):
            self.features_ = FunctionTransformer(
                times, accept_sparse=True, kw_args={"factor": _factor(context)}
            )
        elif has_other_columns(context):
            self.features_ = ContextEncoder(sparse_output="auto")
        else:
            self.features_ = StandardScaler()
        with encoding_explained(context):
            fitted = self.features_.fit(own(context, self.features_))
            return self._phi(fitted, context)

    def _phi(self, features, context):
        phi = features.transform(own(context, features))
        phi = phi.tocsr() if sparse.issparse(phi) else np.asarray(phi, dtype=float)
        values = phi.data if sparse.issparse(phi) else phi
        if not np.isfinite(values).all():
            raise ValueError(
                "SoftmaxPolicy needs finite features, and these have missing or "
                "infinite values. Replace infinite ones, and pass features="
                "make_pipeline(SimpleImputer(), MaxAbsScaler()) for missing ones."
            )
        return phi

    def _problem(self, logs, phi, offered):
        if self.objective != "dr":
            rounds = softmax.SoftmaxRounds(phi, logs.action_index, offered)
            return rounds, OBJECTIVES[self.objective](logs, self.pessimism)
        steps = () if self.features is None else (self.features,)
        predict = finite_predictions(learners_source(self, logs, steps), logs)

        def q_hat(start, stop):
            return predict(logs[start:stop], start)

        rounds = softmax.SoftmaxRounds(phi, logs.action_index, offered, q_hat)
        q_logged = rounds.logged_q_hat()
        return rounds, softmax.DoublyRobustValue(logs, q_logged, self.pessimism)

    def _fitted(self, rounds, weight):
        """Coefficients under which the logged actions, weighted, are likeliest."""
        rounds = softmax.SoftmaxRounds(rounds.features, rounds.logged, rounds.offered)
        penalty = 1 / weight.sum()  # that of LogisticRegression
        problem = Penalised(
            rounds, softmax.LogLikelihood(weight), weight, penalty=penalty
        )
        return problem.ascend(np.zeros(rounds.shape), self.max_iter, 1e-4).theta

    def _starts(self, logs, rounds, likely):
        """Where ascents start: as many as are asked for."""
        uniform = np.zeros(rounds.shape)
        yield from (likely, uniform) if self.anchor == "logger" else (uniform, likely)
        gain = logs.reward - logs.reward.min()
        if logs.sample_weight is not None:
            gain = gain * logs.sample_weight
        yield self._fitted(rounds, gain / logs.propensity)
        rng = check_random_state(self.random_state)
        while True:
            yield likely + rng.normal(size=rounds.shape)

    def _proba(self, X, available):
        theta = np.column_stack([self.coef_, self.intercept_])
        scores = softmax.linear_scores(self._phi(self.features_, X), theta)
        return act(self, scores, self.known_, available)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags if self.features is None else with_inputs_of(self.features, tags)


# -- the ascent of a linear softmax policy: L-BFGS on minus the value ------------------


class Top(NamedTuple):
    """Where an ascent ended: theta, its objective, the number of steps."""

    theta: np.ndarray
    objective: float
    n_iter: int
    converged: bool


class Penalised:
    r"""Objective + entropy * mean entropy - penalty * \|theta - anchor\|^2 / 2."""

    def __init__(
        self,
        rounds,
        objective,
        share,
        *,
        entropy=0.0,
        penalty=0.0,
        anchor=0.0,
        unit=1.0,
    ):
        self.rounds, self.objective, self.unit = rounds, objective, unit
        self.entropy = entropy * share if entropy else None
        self.penalty = penalty
        self.anchor = np.broadcast_to(anchor, rounds.shape)

    def __call__(self, theta):
        """Return the value and its gradient."""
        objective, entropy = self.objective, self.entropy
        if objective.separable:
            measures, gradient = self.rounds.pass_over(theta, objective.slopes, entropy)
            value, _, _ = objective(measures.p, measures.v)
        else:  # all rounds are measured before the slopes of any of them are known
            kept = {}
            measures, _ = self.rounds.pass_over(theta, kept=kept)
            value, dp, dv = objective(measures.p, measures.v)
            measures, gradient = self.rounds.pass_over(
                theta, lambda p, v, block: (dp[block], dv[block]), entropy, kept
            )
        away = theta - self.anchor
        away[:, -1] = 0.0
        value -= self.penalty * (away**2).sum() / 2
        if entropy is not None:
            value += entropy @ measures.entropy
        return float(value), gradient - self.penalty * away

    def ascend(self, start, max_iter, tol, told=None):
        """Return the top that is reached from a start; `told` hears of every step."""
        from scipy.optimize import minimize

        start = np.array(start, dtype=float).reshape(self.rounds.shape)
        level, _ = self(start)  # else `ftol` would be relative to where rewards begin

        def descent(flat):
            value, gradient = self(flat.reshape(self.rounds.shape))
            return (level - value) / self.unit, -gradient.ravel() / self.unit

        found = minimize(
            descent,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            callback=told,
            options={"maxiter": max_iter, "gtol": tol, "ftol": 1e-3 * tol},
        )
        theta = found.x.reshape(self.rounds.shape)
        top = level - float(found.fun) * self.unit
        return Top(theta, top, int(found.nit), found.status == 0)


def warn_of_no_end(name, n_iter, max_iter):
    """Warn that an ascent was stopped."""
    if n_iter < max_iter:
        text = (
            f"{name} stopped after {n_iter} steps: its slopes exceed tol, but no step "
            "increases its value. Increase tol or alpha, or scale the features."
        )
    else:
        text = (
            f"{name} stopped after max_iter={max_iter} steps while its value still "
            "increased. Increase max_iter or alpha, or scale the features."
        )
    warnings.warn(text, ConvergenceWarning, stacklevel=4)
