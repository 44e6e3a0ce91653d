# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The doubly robust evaluator of nonstationary policies, and theorems about it."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Literal

import numpy as np

from skope_ope._progress import untold
from skope_ope._sklearn import Interval, StrOptions, validate_params
from skope_ope._types import RandomSeed, RewardModelLike, SplitterLike
from skope_ope.evaluators.core._drowned import is_huge
from skope_ope.evaluators.core._overlap_findings import overlap_findings
from skope_ope.evaluators.core._requires import REWARD_MODEL_CONSTRAINTS, Requires
from skope_ope.evaluators.core._target import check_all_actions
from skope_ope.evaluators.core._warnings import (
    history_overlap_warnings,
    propensity_warnings,
    warnings_of,
)
from skope_ope.evaluators.sequential._acceptance import ConstantRule, QuantileRule
from skope_ope.evaluators.sequential._base import (
    SequentialEvaluator,
    bias_mass_warnings,
)
from skope_ope.evaluators.sequential._drns_model import drns_source, rounds_seen_ahead
from skope_ope.evaluators.sequential._history import linearised, mean_of
from skope_ope.evaluators.sequential._sequential_value import check_unit_interval
from skope_ope.evaluators.sequential._simulator import takes_weight
from skope_ope.exceptions import HorizonWarning, LowOverlapWarning
from skope_ope.reward_models._cross_fit import MeanReward

RATIO_Z, RATIO_SHARE = 3, 0.5  # of a difference: its own and the value's errors


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
        Quantile level in [0, 1]. Larger values accept more rounds and bias the history
        more. 0 is unbiased only for long logs: below about 1e4 rows, the rows before
        the first small ratio have most of the weight in R / C.
    cmax : float, default=1.0
        Largest acceptance ratio.
    reward_model : model, number, array or str, default=None
        See `DoublyRobust`. `None`: the out-of-fold mean reward over all actions. If the
        logger learned (its propensities change with time) or the folds follow time
        (`cv=TimeSeriesSplit()`), it is the mean reward of the earlier rounds. Lazy logs
        use the folds of `HashKFold`.
    acceptance : {"quantile", "worst_case"}, default="quantile"
        `"worst_case"` fixes c at the smallest logged propensity.
    normalize : {"pooled", True, False}, default="pooled"
        What the value is divided by. `"pooled"` is the ratio of the sums of R and C
        over all trajectories. `True` is the mean of the ratios of the trajectories,
        which short horizons bias. `False` divides by the length of the history, over
        its complete blocks. For a policy that learns, `False` is unbiased if c is small
        enough. See Notes.
    horizon : int, default=None
        Length of a history. After that many accepted rounds the trajectory is complete,
        and the policy starts anew. The quantile and c go on. Only complete trajectories
        are used. `None` is a single trace: for a policy that learns, its standard error
        is about another policy, see Notes.
    n_splits : int, default=1
        Number of consecutive parts of the logs. Each part is evaluated separately, and
        the values are averaged.
    cv : int, splitter, iterable or "prefit", default=5
        How rounds are split for cross-fitting of the reward model. Logs of a logger
        that learned need time-ordered folds. Rounds that no fold predicts get the mean
        reward of the rounds before.
    c_init : float, default=None
        The acceptance ratio until the first round is accepted, at most `cmax`. `None`
        is `cmax`. The first rounds count most, and with `cmax` they may be accepted too
        rarely. `logs.propensity[:100].min()` is a careful choice.
    excess : {"accept", "weight"}, default="accept"
        How often an accepted round with :math:`c\, \pi / p > 1` counts: once, or
        :math:`c\, \pi / p` times. See Notes.
    random_state : int, RandomState instance or None, default=None
        Seeds the uniform numbers, which are drawn in `fit`, one per row.

    Attributes
    ----------
    uniforms_ : ndarray of shape (n_rounds,)
        The uniform numbers. They are not stored after a fit on lazy logs, which draw
        the same numbers part by part.
    seed_ : int
        Seeds the uniform numbers for other logs.

    See Also
    --------
    RejectionSampling : Unbiased, with far fewer accepted rounds.
    DoublyRobust : For policies that do not learn.

    Notes
    -----
    The first sum of :math:`R_k` uses all probabilities of the policy (the paper's
    "revealed randomness"). On the log that it made, with `cmax=1`, a policy accepts
    every round, whatever q ("idempotent self-evaluation"). A deterministic policy
    accepts 1 / K of the rounds of a uniform logger of K actions. That is little if it
    takes them in turn: the uniform policy has the same value and accepts all.

    If the policy learns, a single trace gives the value of its progressive-validation
    policy, `result.progressive_policy_`: a mixture of the policies along the trace. The
    standard error, the interval and `deviation_bound(delta, max_weight=M)` (Theorem 2;
    rewards in [0, 1], a model fixed beforehand) are about that mixture. A
    `SingleTrajectoryWarning` and `diagnostics["standard_error_of"]` say so. In another
    run the policy would learn something else, so the value of the policy varies more.
    Several trajectories or parts give a standard error of that value.

    A trajectory ends with an accepted round. So the ratio R / C of one trajectory is
    biased towards the model's value, by a share of about 1 / horizon. The ratio of sums
    over many trajectories is not biased, and has the standard error of a ratio of sums.
    More trajectories do not reduce the bias of the mean of ratios (`normalize=True`). A
    `HorizonWarning` says if both differ by more than chance and by half a standard
    error.

    If :math:`c\, \pi > p`, rounds are accepted less often than they should be. The
    share :math:`\epsilon` that is missing is the bias mass (`result.bias_mass`,
    estimated from the logs). The history then has too many actions that the logger
    takes often. A block between two accepted rounds is longer by
    :math:`1 / (1 - \epsilon)`, a factor that `normalize=False` leaves in the value. A
    `BiasWarning` comes above 0.1. The share of such rounds raises no alarm, because q
    limits it. With `excess="weight"` an accepted round has the weight
    :math:`\omega = \max(1, c\, \pi / p)`. Sums over accepted rounds then have the right
    expectation,

    .. math:: E \sum_{k\ accepted} \omega_k f(x_k, a_k, r_k)
        = E \sum_k c_k\, E_{\pi(\cdot|x, h)} f.

    A policy whose `update` takes a weight learns from these sums (`takes_weight`:
    `EpsilonGreedy`, `UCB1`, `LinUCB`, `SegmentedPolicy` of these). `normalize=False`
    then divides by :math:`\sum \omega`, because :math:`E[R - \sum \omega\, V(h)] = 0`.
    Here V(h) is the value of the policy after the history h in which a round was
    accepted. The distribution of the histories stays biased, because each round still
    enters them once. `R / C` does not use the weights: they change it only through what
    the policy learns.

    References
    ----------
    .. [1] Dudik, M., Erhan, D., Langford, J., & Li, L. (2012). Sample-efficient
       nonstationary policy evaluation for contextual bandits. UAI.

    Examples
    --------
    >>> from skope_ope import DRns, EpsilonGreedy
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(5000, random_state=0)
    >>> evaluator = DRns(q=0.01, horizon=50, random_state=0).fit(logs)
    >>> result = evaluator.evaluate(EpsilonGreedy(epsilon=0.1))
    >>> bool(0 < result.standard_error < 0.05)
    True
    """

    _parameter_constraints: dict = {
        **SequentialEvaluator._parameter_constraints,
        **REWARD_MODEL_CONSTRAINTS,
        "q": [Interval(Real, 0, 1, closed="both")],
        "cmax": [Interval(Real, 0, None, closed="neither")],
        "acceptance": [StrOptions({"quantile", "worst_case"})],
        "normalize": ["boolean", StrOptions({"pooled"})],
        "n_splits": [Interval(Integral, 1, None, closed="left")],
        "c_init": [Interval(Real, 0, None, closed="neither"), None],
        "excess": [StrOptions({"accept", "weight"})],
    }
    requires = Requires(model=True)

    def __init__(
        self,
        *,
        q: float = 0.05,
        cmax: float = 1.0,
        reward_model: RewardModelLike = None,
        acceptance: Literal["quantile", "worst_case"] = "quantile",
        normalize: Literal["pooled", True, False] = "pooled",
        horizon: int | None = None,
        n_splits: int = 1,
        cv: SplitterLike | Literal["prefit"] = 5,
        c_init: float | None = None,
        excess: Literal["accept", "weight"] = "accept",
        random_state: RandomSeed = None,
    ) -> None:
        self.q = q
        self.cmax = cmax
        self.reward_model = reward_model
        self.acceptance = acceptance
        self.normalize = normalize
        self.horizon = horizon
        self.n_splits = n_splits
        self.cv = cv
        self.c_init = c_init
        self.excess = excess
        self.random_state = random_state

    def check_logs(self, logs):
        super().check_logs(logs)
        if self.c_init is None:
            return
        if self.acceptance == "worst_case":
            raise ValueError(
                "acceptance='worst_case' sets c to the smallest logged propensity, "
                f"so it does not use c_init={self.c_init:.6g}. Leave c_init=None."
            )
        if self.c_init > self.cmax:
            raise ValueError(
                f"c_init={self.c_init:.6g} is above cmax={self.cmax:.6g}, the largest "
                "acceptance ratio. Lower c_init or raise cmax."
            )

    def fit_reward_model(self, logs, model, cv=None, target=None, progress=untold):
        """Return what predicts the rewards, out of fold."""
        return drns_source(model, logs, cv, progress)

    def _takes_earlier(self, reward_model):
        # Then no source of `part_models` stands for a reward model.
        if not (reward_model is None and self.reward_model is None):
            return False
        from sklearn.model_selection import TimeSeriesSplit  # its import takes long

        return isinstance(self.cv, TimeSeriesSplit)

    def _fittable(self, model):
        if model is None:
            return MeanReward(by_action=False)
        return super()._fittable(model)

    def _check_settings(self, adaptive, target, n_rounds):
        super()._check_settings(adaptive, target, n_rounds)
        check_all_actions(self, target)
        useful = takes_weight(target.policy) or not self.normalize
        if self._weighs and adaptive and not useful:
            raise ValueError(
                "excess='weight' has no effect here: "
                f"{type(target.policy).__name__} learns without weights "
                "(takes_weight), and R / C does not use them. Pass "
                "normalize=False, or a policy that learns from weighted rounds, "
                "such as EpsilonGreedy, UCB1 or LinUCB. Or pass excess='accept'."
            )

    @property
    def _weighs(self):
        return self.excess == "weight"

    def _rule(self, facts, n_rounds, ratio):
        if self.acceptance == "worst_case":
            return ConstantRule(min(self.cmax, facts.log._lowest_propensity))
        return QuantileRule(self.q, self.cmax, self.c_init, n_rounds)

    def _terms(self, trace, reward, w):
        c = trace.c
        above = c * (trace.v + w * (reward - trace.q))
        if self.normalize:
            return slice(None), above, c
        below, entered = np.zeros(len(c)), trace.accepted
        below[entered] = np.maximum(1.0, (c * w)[entered]) if self._weighs else 1.0
        return slice(None), above, below

    def _slope(self, trace, w):
        return trace.c * w

    @property
    def _is_linear(self):
        return bool(self.normalize)

    @property
    def _counts_blocks(self):
        # the sum over complete blocks estimates that of the history's rewards
        return not self.normalize

    @property
    def _pooled(self):
        # lengths that vary are in a ratio, too, whose mean short histories would bias
        return self.normalize == "pooled" or (self._weighs and not self.normalize)

    @property
    def _is_progressive(self):
        return self.horizon is None and self.n_splits == 1 and bool(self.normalize)

    def _diagnostics(self, history):
        out = super()._diagnostics(history)
        out["effective_sample_size"] = history.overlap.effective_sample_size
        out["effective_ratios"] = history.found.ratios.effective
        out["sum_c"] = history.found.ratios.total
        out["uncovered_rounds"] = int(self.reward_model_.n_uncovered_)
        return out | history.found.violations.diagnostics

    def _warnings(self, history, estimate, diagnostics):
        warned = super()._warnings(history, estimate, diagnostics)
        if self.normalize is not True:
            return warned
        about = estimate.standard_error, self.horizon
        return warned + short_trajectory_warnings(history.trajectories, *about)

    def _estimate(self, history):
        estimate, about = super()._estimate(history)
        if is_huge(history.overlap.max_w):
            estimate = estimate.without_error()
        return estimate, about

    def _unformed_warnings(self, history):
        if is_huge(history.overlap.max_w):
            return []  # the warning about that weight says why
        return super()._unformed_warnings(history)

    def _weight_warnings(self, history):
        logs, overlap = history.log, history.overlap
        if is_huge(overlap.max_w):
            return [history.huge_weight_finding().warning()]
        if history.adaptive:
            return history_overlap_warnings(logs, overlap)
        found = overlap_findings(overlap, logs, uses_model=True)
        return warnings_of(found) + propensity_warnings(logs)

    @property
    def leaves_bias_out(self):
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
                    "no logged round was accepted (T = 0), so the value is that of "
                    "the policy before it learns. Use a log that is closer to the "
                    "policy.",
                    0,
                )
            )
        # R and C, and the weighted length, allow for it where nothing is learned
        if history.adaptive or not (self.normalize or self._weighs):
            remedies = ["Lower q or cmax"]
            if not (self.normalize or self._weighs):
                remedies.append("pass normalize='pooled' or excess='weight'")
            warned += bias_mass_warnings(diagnostics, ", or ".join(remedies))
        return warned

    def _bound(self, history):
        return drns_bound, {
            "cmax": self.cmax,
            "C": history.found.ratios.total,
            "single": self._is_progressive,
            "seen_ahead": rounds_seen_ahead(self.reward_model_, history.log),
            "largest_weight": history.overlap.max_w,
            "model_range": history.found.model_range,
        }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.constant_reward = tags.shift_equivariant = bool(self.normalize)
        # every ratio p / pi of the logger is one: c never moves
        tags.on_policy_mean = self._is_progressive
        tags.parameters_after_model = (
            "q",
            "cmax",
            "acceptance",
            "normalize",
            "horizon",
            "n_splits",
            "c_init",
            "excess",
            "random_state",
        )
        return tags


def drns_bound(result, delta, *, max_weight=None, form="sharp"):
    """Return the radius of Theorem 2 of the paper, for a single trace."""
    terms = result.bound_terms
    if max_weight is None:
        raise ValueError(
            "Theorem 2 needs max_weight: a bound on pi(a|x, h) / p in all rounds, "
            "known in advance."
        )
    if form not in ("sharp", "paper"):
        raise ValueError(f"form must be 'sharp' or 'paper', got {form!r}.")
    if not terms["single"]:
        raise ValueError(
            "Theorem 2 is about a single normalised trace and its "
            "progressive-validation policy. Use horizon=None, n_splits=1 and "
            "normalize=True."
        )
    if terms["seen_ahead"] is None:
        raise ValueError(
            "Theorem 2 needs a reward model fitted to other rounds, and this one "
            "was cross-fitted on the evaluated rounds. Pass a number, or "
            "FrozenEstimator(model) fitted on other rounds, or evaluate on logs "
            "other than those of fit. Or use the mean of earlier rounds: "
            "reward_model=None, cv=TimeSeriesSplit()."
        )
    check_unit_interval("rewards", result.reward_bounds)
    check_unit_interval("model values", terms["model_range"])
    if not terms["largest_weight"] <= max_weight * (1 + 1e-9) < np.inf:
        raise ValueError(
            f"max_weight={max_weight:.6g} is not a bound on pi(a|x, h) / p: the "
            f"largest in these rounds is {terms['largest_weight']:.6g}. Pass a "
            "larger one that is known in advance."
        )
    n, log = result.n_rounds, np.log(2 / delta)
    # what is predicted by later rounds is no martingale: charged with all it can do
    ahead = terms["seen_ahead"] * terms["cmax"] * (1 + max_weight) / terms["C"]
    width = terms["cmax"] * (1 + max_weight)
    variance = n * terms["cmax"] ** 2 * (3 + max_weight)
    if form == "sharp":
        # Freedman's inequality solved exactly, instead of by its two cases
        half = width * log / 3
        radius = (half + np.sqrt(half**2 + 2 * variance * log)) / terms["C"]
        return float(radius + ahead)
    rate = max((1 + max_weight) * log / n, np.sqrt((3 + max_weight) * log / n))
    return float(n * terms["cmax"] / terms["C"] * 2 * rate + ahead)


@validate_params(
    {
        "bias_mass": [Interval(Real, 0, 1, closed="left")],
        "horizon": [Interval(Integral, 1, None, closed="left")],
        "reward_range": ["array-like"],
    },
    prefer_skip_nested_validation=True,
)
def drns_sum_bias_bound(
    bias_mass: float, horizon: int, *, reward_range: tuple[float, float] = (0.0, 1.0)
) -> float:
    r"""Return how far the unnormalised *sum* of DR-ns may be off, in expectation.

    With :math:`R_B(t)` the sum of the doubly robust terms of the block that ends with
    the t-th accepted round, Theorem 1 of [1]_ is

    .. math:: \left| E \sum_{t=1}^T c_t R_B(t) - E_\pi \sum_{t=1}^T r_t \right|
        \le \frac{T (T + 1)}{2} \cdot \frac{\epsilon}{1 - \epsilon}

    for rewards in [0, 1]. It is a bound on the bias of a sum of T rewards, that is of
    T times the value that `DRns(horizon=T, normalize=False)` estimates, and
    :math:`(T + 1) / 2 \cdot \epsilon / (1 - \epsilon)` a round. It says nothing about
    R / C (`normalize="pooled"` or `True`), nothing about `excess="weight"`, and nothing
    about how much an estimate varies.

    Parameters
    ----------
    bias_mass : float
        The largest bias mass :math:`\epsilon` of any step and history, in [0, 1):
        :math:`P_\pi[c \pi > p] - P_\mu[c \pi > p] / c`. A result's `bias_mass` is an
        estimate of the mean over the steps of one log: with it the number orders
        settings and guarantees nothing.
    horizon : int
        Length T of a history.
    reward_range : tuple of (float, float), default=(0.0, 1.0)
        Least and largest reward. For another range than [0, 1] the bound is
        :math:`[T (T - 1) / 2 \cdot (high - low) + T \max(|low|, |high|)]\,
        \epsilon / (1 - \epsilon)`: the histories of t - 1 rounds differ by at most
        :math:`(t - 1)\, \epsilon / (1 - \epsilon)` in total variation, and each block
        is too long by :math:`1 / (1 - \epsilon)`, which scales the whole reward.

    Returns
    -------
    bound : float
        In the units of the sum of the rewards. It soon says nothing: from
        :math:`\epsilon = .1` and 17 rounds on it exceeds the largest possible sum.

    Raises
    ------
    ValueError
        If `bias_mass` is no number in [0, 1), `horizon` no positive integer, or
        `reward_range` not two increasing finite numbers.

    See Also
    --------
    DRns : The evaluator; `deviation_bound` of a single trace is Theorem 2.

    References
    ----------
    .. [1] Dudik, M., Erhan, D., Langford, J., & Li, L. (2012). Sample-efficient
       nonstationary policy evaluation for contextual bandits. UAI.

    Examples
    --------
    >>> from skope_ope.evaluators import drns_sum_bias_bound
    >>> round(drns_sum_bias_bound(0.01, 20), 3)  # of a sum of 20 rewards
    2.121
    >>> round(drns_sum_bias_bound(0.01, 20) / 20, 3)  # a round
    0.106
    """
    low, high = _checked_range(reward_range)
    blocks = horizon * max(abs(low), abs(high))
    histories = horizon * (horizon - 1) / 2 * (high - low)
    return float((blocks + histories) * bias_mass / (1 - bias_mass))


def _checked_range(reward_range):
    bounds = np.asarray(reward_range, dtype=float)
    if bounds.shape != (2,) or not np.isfinite(bounds).all() or bounds[0] >= bounds[1]:
        raise ValueError(
            "reward_range must be (low, high), two finite numbers with low < high, got "
            f"{reward_range!r}."
        )
    return bounds.tolist()


def short_trajectory_warnings(trajectories, standard_error, horizon):
    """Return a warning where short histories bias the ratios of trajectories."""
    values, weights = trajectories.values, trajectories.weights
    if len(values) < 2:
        return []
    pooled = mean_of(values, weights)
    gaps = values - linearised(values, weights, pooled)
    gap, noise = gaps.mean(), gaps.std(ddof=1) / np.sqrt(len(gaps))
    if not abs(gap) > max(RATIO_Z * noise, RATIO_SHARE * standard_error):
        return []
    return [
        HorizonWarning(
            f"histories of {horizon} rounds are short, so their values lean "
            "towards the reward model. The mean of the ratios R / C of "
            f"{len(gaps)} trajectories is {values.mean():.6g}, but the ratio of "
            f"their sums is {pooled:.6g}. Pass normalize='pooled', or a longer "
            "horizon.",
            float(gap),
        )
    ]
