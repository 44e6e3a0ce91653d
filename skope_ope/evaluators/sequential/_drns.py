# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The doubly robust evaluator of nonstationary policies."""

import warnings
from numbers import Integral, Real

import numpy as np

from skope_ope._sklearn import Interval, StrOptions
from skope_ope.evaluators.core._base import REWARD_MODEL_CONSTRAINTS
from skope_ope.evaluators.core._warnings import (
    history_overlap_warnings,
    overlap_warnings,
    propensity_warnings,
    violation_warnings,
)
from skope_ope.evaluators.sequential._base import SequentialEvaluator
from skope_ope.evaluators.sequential._history import TrajectoryEstimate
from skope_ope.evaluators.sequential._history_overlap import violation_diagnostics
from skope_ope.evaluators.sequential._progressive_policy import ProgressivePolicy
from skope_ope.evaluators.sequential._result import check_unit_interval
from skope_ope.evaluators.sequential._rules import ConstantRule, QuantileRule
from skope_ope.evaluators.sequential._warnings import short_trajectory_warnings
from skope_ope.evaluators.static._base import check_all_actions
from skope_ope.exceptions import LowOverlapWarning, ModelErrorWarning
from skope_ope.logs._folds import FULL
from skope_ope.logs._propensity_audit import group_sizes
from skope_ope.reward_models._sources import reward_source


class DRns(SequentialEvaluator):
    r"""Doubly robust evaluation of policies that may learn [1]_.

    For every logged round k, with the target's history h so far,

    .. math:: R_k = \sum_a \pi(a|x_k, h)\, \hat q(x_k, a)
        + \frac{\pi(a_k|x_k, h)}{p_k} (r_k - \hat q(x_k, a_k)),

    :math:`R \leftarrow R + c R_k`, :math:`C \leftarrow C + c`; the round enters the
    history when :math:`u_k \le c\, \pi(a_k|x_k, h) / p_k`, and only then :math:`c`
    becomes :math:`\min(c_{max}, \text{quantile}_q\{p_j / \pi(a_j|x_j, h)\}_{j \le k})`.
    The value is R / C. Read more in the :ref:`User Guide <drns>`.

    Parameters
    ----------
    q : float, default=0.05
        Quantile level in [0, 1]. Larger values accept more rounds and bias the
        history. 0 is unbiased only in the limit: below about 1e4 rows the rows before
        the first small ratio dominate R / C.
    cmax : float, default=1.0
        Largest acceptance ratio, and the first one.
    reward_model : model, number, array or str, default=None
        See `DoublyRobust`. `None`: the middle of the logs' `reward_range`, of [0, 1]
        where that is unknown and the rewards lie in it, otherwise the out-of-fold
        mean reward per action.
    acceptance : {"quantile", "worst_case"}, default="quantile"
        `"worst_case"` fixes c at the smallest logged propensity.
    normalize : bool or "pooled", default=True
        Divide by C, every trajectory by its own (`True`), or all together by the sum
        (`"pooled"`); `False` divides by the length of the history, over its complete
        blocks (for a policy that learns, the unbiased form where c is small enough).
        See Notes on short horizons.
    horizon : int, default=None
        Length of a history: after that many accepted rounds the trajectory's value is
        kept and the policy starts anew; the quantile and c go on. The value is the
        mean over complete trajectories, or see `normalize`. `None` is a single trace:
        for a policy that learns, its standard error is about another policy, see Notes.
    n_splits : int, default=1
        Consecutive parts of the logs that are evaluated on their own and averaged.
    cv : int, splitter, iterable or "prefit", default=5
        How rounds are held out of the fits of the reward model. Logs of a logger that
        learned need time-ordered folds.
    random_state : int, RandomState instance or None, default=None
        Seeds the uniform numbers, which are drawn in `fit`, one per row.

    Attributes
    ----------
    uniforms_ : ndarray of shape (n_rounds,)
        The uniform numbers.
    seed_ : int
        Seeds those for other logs.

    See Also
    --------
    RejectionSampling : Unbiased, with far fewer accepted rounds.
    DoublyRobust : For policies that do not learn.

    Notes
    -----
    A single trace of a policy that learns values its progressive-validation policy,
    `result.progressive_policy_`, a mixture of the policies along the trace. Its
    standard error, its interval and `deviation_bound(delta, max_weight=M)` (Theorem 2;
    rewards in [0, 1], a model fixed beforehand) are about that policy, as a
    `SingleTrajectoryWarning` and `diagnostics["standard_error_of"]` say: had the policy
    learned another time, it would have learned something else, and its value varies
    more. Several trajectories or parts give a standard error of the policy's own value.

    A trajectory ends with an accepted round, so that its own R / C leans from the
    policy's value towards the model's, by a share of about 1 / horizon; that of sums
    over trajectories does not, where they are many. More trajectories do not help the
    mean of ratios. A `HorizonWarning` tells where both differ by more than chance and
    by half a standard error: pass `normalize="pooled"`.

    References
    ----------
    .. [1] Dudik, M., Erhan, D., Langford, J., & Li, L. (2012). Sample-efficient
       nonstationary policy evaluation for contextual bandits. UAI.

    Examples
    --------
    >>> from skope_ope import DRns, EpsilonGreedy
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(5000, random_state=0)
    >>> evaluator = DRns(q=0.05, horizon=100, random_state=0).fit(logs)
    >>> result = evaluator.evaluate(EpsilonGreedy(epsilon=0.1))
    >>> bool(0 < result.standard_error < 0.05)
    True
    """

    _parameter_constraints: dict = {
        **REWARD_MODEL_CONSTRAINTS,
        "q": [Interval(Real, 0, 1, closed="both")],
        "cmax": [Interval(Real, 0, None, closed="neither")],
        "acceptance": [StrOptions({"quantile", "worst_case"})],
        "normalize": ["boolean", StrOptions({"pooled"})],
        "horizon": [Interval(Integral, 1, None, closed="left"), None],
        "n_splits": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }
    _uses_model = True

    def __init__(
        self,
        *,
        q=0.05,
        cmax=1.0,
        reward_model=None,
        acceptance="quantile",
        normalize=True,
        horizon=None,
        n_splits=1,
        cv=5,
        random_state=None,
    ):
        self.q = q
        self.cmax = cmax
        self.reward_model = reward_model
        self.acceptance = acceptance
        self.normalize = normalize
        self.horizon = horizon
        self.n_splits = n_splits
        self.cv = cv
        self.random_state = random_state

    def _fitted_model(self, logs, reward_model):
        source = self._fit_reward_model(logs, reward_model)
        held_out = getattr(source, "held_out_", None)
        if held_out is not None and logs.propensities_drift:
            _warn_of_later_rounds(held_out)
        return {"reward_source_": source, "model_is_fixed_": held_out is None}

    def _fit_reward_model(self, logs, reward_model):
        model, middle = self._one_model(reward_model), middle_reward(logs)
        model = middle if model is None else model
        return reward_source(model, logs, self.cv, uncovered=middle)

    def _check_settings(self, adaptive, target, logs):
        super()._check_settings(adaptive, target, logs)
        check_all_actions(self, target)

    def _rule(self, logs, rows, u, pi):
        p = logs.propensity[rows]
        if self.acceptance == "worst_case":
            return ConstantRule(min(self.cmax, float(logs.propensity.min())), p, u)
        return QuantileRule(self.q, self.cmax, p, u)

    def _predictor(self, logs, start):
        predict = self.reward_source_.bind(logs)
        return lambda rounds, first: predict(rounds, start + first)

    def _trajectory(self, segment, logs, rows, accepted):
        trace, reward = segment.trace, logs.reward[segment.rows][rows]
        w = trace.pi[rows] / logs.propensity[segment.rows][rows]
        c = trace.c[rows]
        r_k = trace.v[rows] + w * (reward - trace.q[rows])
        if self.normalize:
            total = float(c.sum())
            value = float((c * r_k).sum() / total)
            influence = c * (r_k - value) / total
            return TrajectoryEstimate(value, influence, c / total, total)
        # The sum over complete blocks estimates that of the history's rewards.
        influence, below = np.zeros((2, len(r_k)))
        if not len(accepted):
            return TrajectoryEstimate(float("nan"), influence, below)
        below[accepted - rows.start] = 1 / len(accepted)
        complete = slice(0, int(accepted[-1]) + 1 - rows.start)
        influence[complete] = (c * r_k)[complete] / len(accepted)
        value = float(influence.sum())
        return TrajectoryEstimate(value, influence - value * below, below)

    @property
    def _pooled(self):
        return self.normalize == "pooled"

    def _values_the_progressive_policy(self):
        return self.horizon is None and self.n_splits == 1 and bool(self.normalize)

    def _progressive_policy(self, history):
        if not (history.adaptive and self._values_the_progressive_policy()):
            return None
        (segment,) = history.segments
        trace = segment.trace
        return ProgressivePolicy(
            trace.policy, history.logs, trace.accepted, trace.pi, trace.c
        )

    def _diagnostics(self, history):
        out = super()._diagnostics(history)
        out["effective_sample_size"] = history.overlap.effective_sample_size
        c = history.acceptance_ratios
        share = c / c.max()  # squares of tiny ratios would be zero
        out["effective_ratios"] = float(share.sum() ** 2 / share.dot(share))
        out["sum_c"] = float(c.sum())
        out["uncovered_rounds"] = int(self.reward_source_.n_uncovered_)
        return out | violation_diagnostics(history)

    def _warnings(self, history, found, estimate, diagnostics):
        warned = super()._warnings(history, found, estimate, diagnostics)
        if self.normalize is not True:
            return warned
        error = estimate.standard_error
        return warned + short_trajectory_warnings(found, error, self.horizon)

    def _weight_warnings(self, history):
        logs, overlap = history.logs, history.overlap
        if history.adaptive:
            return history_overlap_warnings(logs, overlap)
        return overlap_warnings(overlap, logs) + propensity_warnings(logs)

    @property
    def _leaves_bias_out(self):
        biased = self.acceptance == "quantile" and self.q > 0
        return biased and "the bias of rounds accepted too rarely"

    def _acceptances_count(self, history):
        # R / C of a policy that does not learn does not depend on its acceptances.
        return history.adaptive or self.horizon is not None or not self.normalize

    def _acceptance_warnings(self, history, diagnostics):
        counts = self._acceptances_count(history)
        warned = []
        if counts:
            warned += super()._acceptance_warnings(history, diagnostics)
        if history.adaptive and not diagnostics["n_accepted"]:
            warned.append(
                LowOverlapWarning(
                    "no logged round was accepted (T = 0): a policy that learns is "
                    "valued as it is before it has learned anything.",
                    0,
                )
            )
        if self.acceptance == "worst_case":
            return warned + violation_warnings(diagnostics, 0.0)
        advice = "Lower cmax."
        if self.q == 0:
            advice = (
                "With q=0 they are rounds before a smaller ratio was met: take "
                "acceptance='worst_case' for the smallest from the start, or say how "
                "many are allowed, as q=0.01."
            )
        # fewer than q of the ratios lie below the quantile, so fewer are violated
        repeats, _ = group_sizes(history.logs)
        return warned + violation_warnings(diagnostics, self.q, advice, repeats)

    @property
    def _deviation_bound(self):
        return drns_bound

    def _bound_terms(self, history):
        values = [part for one in history.segments for part in one.trace.model_values]
        return {
            "cmax": self.cmax,
            "C": float(history.acceptance_ratios.sum()),
            "single": self._values_the_progressive_policy(),
            "fixed_model": self._model_is_fixed_for(history.logs),
            "largest_weight": float(history.w.max()),
            "model_range": (
                min(float(part.min()) for part in values),
                max(float(part.max()) for part in values),
            ),
        }

    def _model_is_fixed_for(self, logs):
        """Tell whether the model was fitted without any of these rounds."""
        if self.model_is_fixed_:
            return True
        return bool((self.reward_source_.held_out_.of(logs) == FULL).all())

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.constant_reward = tags.shift_equivariant = bool(self.normalize)
        # every ratio p / pi of the logger is one: c never moves
        whole = self.horizon is None and self.n_splits == 1
        tags.on_policy_mean = bool(self.normalize and whole)
        tags.parameters_after_model = (
            "q",
            "cmax",
            "acceptance",
            "normalize",
            "horizon",
            "n_splits",
            "random_state",
        )
        return tags


def middle_reward(logs):
    """Return the minimax constant, or None where the range is unknown."""
    if logs.reward_range is not None:
        return sum(logs.reward_range) / 2
    if logs.reward.min() >= 0 and logs.reward.max() <= 1:
        return 0.5
    return None


def _learns_from_later_rounds(held_out):
    """Tell whether a round is predicted by a model that saw a later one."""
    for k, train in enumerate(held_out.train):
        test = np.flatnonzero(held_out.fold == k)
        if test.size and train.max() > test[0]:
            return True
    return False


def drns_bound(result, delta, *, max_weight=None, form="sharp"):
    """Return the radius of Theorem 2 of the paper, for a single trace."""
    terms = result.bound_terms
    if max_weight is None:
        raise ValueError(
            "Theorem 2 needs max_weight: a bound on pi(a|x, h) / p over all rounds "
            "that is known beforehand."
        )
    if form not in ("sharp", "paper"):
        raise ValueError(f"form must be 'sharp' or 'paper', got {form!r}.")
    if not terms["single"]:
        raise ValueError(
            "Theorem 2 is about a single normalised trace (horizon=None, "
            "n_splits=1, normalize=True) and its progressive-validation policy."
        )
    if not terms["fixed_model"]:
        raise ValueError(
            "Theorem 2 needs a reward model fixed beforehand; this one was "
            "cross-fitted on the evaluated rounds. Pass a number, or "
            "FrozenEstimator(model) fitted on other rounds, or evaluate on other "
            "logs than those of fit."
        )
    check_unit_interval("rewards", result.reward_bounds)
    check_unit_interval("model values", terms["model_range"])
    if not terms["largest_weight"] <= max_weight * (1 + 1e-9) < np.inf:
        raise ValueError(
            f"max_weight={max_weight:.6g} is no bound on pi(a|x, h) / p: the "
            f"largest in these rounds is {terms['largest_weight']:.6g}."
        )
    n, log = result.n_rounds, np.log(2 / delta)
    width = terms["cmax"] * (1 + max_weight)
    variance = n * terms["cmax"] ** 2 * (3 + max_weight)
    if form == "sharp":
        # Freedman's inequality solved exactly, instead of by its two cases
        half = width * log / 3
        return float((half + np.sqrt(half**2 + 2 * variance * log)) / terms["C"])
    rate = max((1 + max_weight) * log / n, np.sqrt((3 + max_weight) * log / n))
    return float(n * terms["cmax"] / terms["C"] * 2 * rate)


def _warn_of_later_rounds(held_out):
    """Warn where rounds are predicted by a model that saw later ones."""
    if _learns_from_later_rounds(held_out):
        warnings.warn(
            ModelErrorWarning(
                "the propensities of the logs change over time, as those of a "
                "logger that learns do, but the reward model is cross-fitted on "
                "later rounds, too. Use time-ordered folds: cv=TimeSeriesSplit()."
            ),
            stacklevel=8,  # of fit
        )
