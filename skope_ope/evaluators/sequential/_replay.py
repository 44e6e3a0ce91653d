# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The mean reward of accepted rounds: replay and rejection sampling."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Literal

import numpy as np

from skope_ope._sklearn import Interval, StrOptions, validate_params
from skope_ope._types import RandomSeed
from skope_ope.evaluators.core._mean_weight import mean_weight_findings
from skope_ope.evaluators.core._overlap_findings import support_findings
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._warnings import (
    history_overlap_warnings,
    propensity_warnings,
    uneven_action_warnings,
    warnings_of,
)
from skope_ope.evaluators.sequential._acceptance import (
    ConstantRule,
    UniformRule,
    n_offered,
)
from skope_ope.evaluators.sequential._base import (
    NEGLIGIBLE_BIAS,
    SequentialEvaluator,
    bias_mass_warnings,
)
from skope_ope.evaluators.sequential._sequential_value import check_unit_interval

UNIFORM_TOLERANCE = 1e-6


class AcceptedMean(SequentialEvaluator):
    """The value of a trajectory is the mean reward of its accepted rounds."""

    def __init__(
        self, *, horizon: int | None = None, random_state: RandomSeed = None
    ) -> None:
        self.horizon = horizon
        self.random_state = random_state

    def _terms(self, trace, reward, w):
        return trace.accepted, reward[trace.accepted], np.ones(len(trace.accepted))

    def _slope(self, trace, w):
        return 1.0

    def _freedom(self, history):
        # Given their number, accepted rewards are independent draws.
        if history.n_accepted < 2:
            return 0
        n_used = history.n_accepted if self.horizon is None else self.horizon
        return max(n_used - 1, 1)

    def _successes(self, history):
        found = history.trajectories
        if history.adaptive or np.isnan(found.value) or history.log.groups is not None:
            return None
        n_used = history.n_accepted
        if self.horizon is not None:
            n_used = len(found.values) * self.horizon
        (part,) = history.parts
        ones = part.successes(n_used)
        return None if ones is None else (ones, n_used)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.constant_reward = tags.shift_equivariant = True
        return tags


class Replay(AcceptedMean):
    r"""Replay a log of uniform choices to a policy that may learn [1]_.

    A round is accepted when :math:`u < \pi(a|x, h)\, K(x) / K_{max}` with :math:`K(x)`
    offered actions. The ratio is 1 if offers do not vary. Only accepted rounds reach
    the policy. The value is the mean reward of the accepted rounds. Accepted
    histories are distributed as in a live run. Read more in the :ref:`User Guide
    <replay>`.

    Parameters
    ----------
    horizon : int, default=None
        Length T of a history (Algorithm 1 of the paper). After T accepted rounds the
        policy starts anew. The value is the mean over complete histories. `None` runs
        to the end of the log (Algorithm 2).
    random_state : int, RandomState instance or None, default=None
        Seeds the uniform numbers, which are drawn in `fit`, one per row.

    Attributes
    ----------
    uniforms_ : ndarray of shape (n_rounds,)
        The uniform numbers. They are not stored after a fit on lazy logs, which draw
        the same numbers part by part.
    seed_ : int
        Seeds those for other logs.

    Raises
    ------
    ValueError
        If the logged propensities are not uniform over the offered actions:
        `RejectionSampling` takes any.

    See Also
    --------
    RejectionSampling : For any logger with known propensities.
    DRns : Accepts more rounds and uses all, at a small bias.

    Notes
    -----
    A log of L rounds gives about L / K accepted rounds for any policy, also for one
    that takes the K actions in turn, see `replay_log_length`.
    For stationary policies `confidence_interval(method="clopper_pearson")` is exact
    for 0/1 rewards, and `deviation_bound(delta, n_actions=K, value_bound=g)` is
    Theorem 2 of the paper for rewards in [0, 1]:
    :math:`(\gamma_1 + \gamma_2)\, g / (1 - \gamma_1)` with
    :math:`\gamma_1 = \sqrt{3 K \ln(4/\delta) / L}`,
    :math:`\gamma_2 = \sqrt{3 K \ln(4/\delta) / (L g)}`, both at most one.

    References
    ----------
    .. [1] Li, L., Chu, W., Langford, J., & Wang, X. (2011). Unbiased offline
       evaluation of contextual-bandit-based news article recommendation algorithms.
       WSDM.

    Examples
    --------
    >>> from skope_ope import EpsilonGreedy, Replay
    >>> from skope_ope.datasets import make_bandit_logs
    >>> import numpy as np
    >>> logs = make_bandit_logs(5000, logging_temperature=np.inf, random_state=0)
    >>> result = Replay(horizon=100, random_state=0).fit(logs).evaluate(EpsilonGreedy())
    >>> result.n_trajectories > 10
    True
    """

    requires = Requires(weights=False)

    def check_logs(self, logs):
        super().check_logs(logs)
        if logs.propensity is None:
            return
        expected = 1 / n_offered(logs)
        off = np.abs(logs.propensity - expected) > UNIFORM_TOLERANCE
        if off.any():
            row = int(np.flatnonzero(off)[0])
            want = np.broadcast_to(expected, off.shape)[row]
            raise ValueError(
                f"Replay needs a uniform logger, but the propensity at row {row} "
                f"is {logs.propensity[row]:.6g}, not {want:.6g} ({int(off.sum())} "
                "such rows). Use RejectionSampling or DRns."
            )

    def _rule(self, facts, n_rounds, ratio):
        return UniformRule(facts.most_offered)

    def _weight_warnings(self, history):
        return uneven_action_warnings(history.log) + super()._weight_warnings(history)

    def _bound(self, history):
        return replay_bound, {"n_actions": history.facts.most_offered}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.uniform_logger = True
        return tags


class RejectionSampling(AcceptedMean):
    r"""Replay for any logger whose propensities are known [1]_ [2]_.

    A round is accepted when :math:`u \le c\, \pi(a|x, h) / p`; only accepted rounds
    reach the policy. The value is the mean reward of the accepted rounds. It is
    unbiased like `Replay` if :math:`c\, \pi \le p` in all rounds. About n c rounds are
    accepted. Read more in the :ref:`User Guide <rejection_sampling>`.

    Parameters
    ----------
    cmax : float or "target", default=None
        The constant c. A number is a bound known beforehand. `None` is the smallest
        logged propensity. `"target"` is the smallest p / pi of the logs, for stationary
        policies only.
    horizon : int, default=None
        Length of a history: after that many accepted rounds the policy starts anew,
        and the value is the mean over complete histories.
    random_state : int, RandomState instance or None, default=None
        Seeds the uniform numbers, which are drawn in `fit`, one per row.

    Attributes
    ----------
    uniforms_ : ndarray of shape (n_rounds,)
        The uniform numbers. They are not stored after a fit on lazy logs, which draw
        the same numbers part by part.
    seed_ : int
        Seeds those for other logs.

    See Also
    --------
    DRns : Accepts more rounds and uses all, at a small bias.

    References
    ----------
    .. [1] Li, L., Chu, W., Langford, J., & Wang, X. (2011). Unbiased offline
       evaluation of contextual-bandit-based news article recommendation algorithms.
       WSDM.
    .. [2] Dudik, M., Erhan, D., Langford, J., & Li, L. (2012). Sample-efficient
       nonstationary policy evaluation for contextual bandits. UAI.

    Examples
    --------
    >>> from skope_ope import RejectionSampling
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(5000, random_state=0, return_truth=True)
    >>> result = RejectionSampling(random_state=0).fit(logs).evaluate(policy)
    >>> low, high = result.confidence_interval(0.999)
    >>> bool(low < truth.value < high)
    True
    """

    _parameter_constraints: dict = {
        "cmax": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions({"target"}),
            None,
        ],
        **AcceptedMean._parameter_constraints,
    }

    def __init__(
        self,
        *,
        cmax: float | Literal["target"] | None = None,
        horizon: int | None = None,
        random_state: RandomSeed = None,
    ) -> None:
        self.cmax = cmax
        self.horizon = horizon
        self.random_state = random_state

    def _check_settings(self, adaptive, target, n_rounds):
        super()._check_settings(adaptive, target, n_rounds)
        if adaptive and self.cmax == "target":
            raise ValueError(
                "cmax='target' needs the policy's probabilities in advance, and a "
                "policy that learns changes them. Pass a number or None."
            )

    def _rule(self, facts, n_rounds, ratio):
        if self.cmax is None:
            return ConstantRule(facts.log._lowest_propensity)
        if self.cmax == "target":
            return ConstantRule(ratio())
        return ConstantRule(float(self.cmax))

    def _weight_warnings(self, history):
        logs, overlap = history.log, history.overlap
        if history.adaptive:
            return history_overlap_warnings(logs, overlap)
        # Accepted rounds have no weights: those of the policy tell of propensities.
        found = support_findings(overlap, logs) + mean_weight_findings(overlap, logs)
        return warnings_of(found) + propensity_warnings(logs)

    def _diagnostics(self, history):
        return super()._diagnostics(history) | history.found.violations.diagnostics

    def _acceptance_warnings(self, history, diagnostics):
        warned = super()._acceptance_warnings(history, diagnostics)
        # a single round that violates it proves that cmax is no bound
        advice = "It is no bound on p / pi: lower cmax"
        return warned + bias_mass_warnings(diagnostics, advice, NEGLIGIBLE_BIAS, z=0)


def replay_bound(result, delta, *, n_actions=None, value_bound=None):
    """Return the radius of Theorem 2 of the paper, for a stationary policy."""
    given = {"n_actions": n_actions, "value_bound": value_bound}
    missing = [name for name, value in given.items() if value is None]
    if missing:
        raise ValueError(
            f"the bound of Replay needs {' and '.join(missing)}. Pass the number "
            "of actions and an upper bound on the value, both known in advance. "
            "The bound holds for stationary policies and rewards in [0, 1]."
        )
    k, g = n_actions, value_bound
    if result.adaptive:
        raise ValueError(
            "Theorem 2 of the replay paper is about stationary policies, and this "
            "policy learns. Evaluate policy.frozen(), or use confidence_interval."
        )
    if result.horizon is not None:
        raise ValueError(
            "Theorem 2 of the replay paper is about the whole log. Use horizon=None."
        )
    offered = result.bound_terms["n_actions"]
    if not offered <= k < np.inf:
        raise ValueError(
            f"n_actions={k}, but some round offers {offered} actions. Pass at "
            f"least {offered}."
        )
    if not 0 < g <= 1:
        raise ValueError(
            f"value_bound must lie in (0, 1], got {g}. It is an upper bound on the "
            "value, for rewards in [0, 1]."
        )
    check_unit_interval("rewards", result.reward_bounds)
    log = 3 * k * np.log(4 / delta) / result.n_rounds
    gammas = np.sqrt([log, log / g])
    if gammas[0] >= 1 or gammas[1] > 1:
        raise ValueError(
            f"the log is too short for Theorem 2: gamma_1 = {gammas[0]:.3g} must "
            f"be below 1, gamma_2 = {gammas[1]:.3g} at most 1. Use more rounds, or "
            "confidence_interval."
        )
    return float(gammas.sum() * g / (1 - gammas[0]))


@validate_params(
    {
        "n_accepted": [Interval(Integral, 1, None, closed="left")],
        "n_actions": [Interval(Integral, 1, None, closed="left")],
        "delta": [Interval(Real, 0, 1, closed="neither"), None],
        "exact": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def replay_log_length(
    n_accepted: int, n_actions: int, *, delta: float | None = None, exact: bool = True
) -> float:
    r"""Return how many uniformly logged rounds a replayed history of length T takes.

    A round is accepted with probability 1 / K, for any policy. So the length L of the
    log is negative binomial, K T on average [1]_.

    Parameters
    ----------
    n_accepted : int
        Wanted length T of the history.
    n_actions : int
        Number K of actions; where offers vary, the most that are ever offered.
    delta : float, default=None
        Probability that the log is too short after all, in (0, 1). `None`: the
        expected length.
    exact : bool, default=True
        The quantile, or the paper's bound :math:`2 K (T + \ln(1/\delta))`.

    Returns
    -------
    length : float
        Rounds. The quantile and the expected length are whole numbers.

    See Also
    --------
    Replay : Evaluates a policy on such a log.

    References
    ----------
    .. [1] Li, L., Chu, W., Langford, J., & Wang, X. (2011). Unbiased offline
       evaluation of contextual-bandit-based news article recommendation algorithms.
       WSDM.

    Examples
    --------
    >>> from skope_ope.evaluators import replay_log_length
    >>> replay_log_length(100, 20), replay_log_length(100, 20, delta=0.05)
    (2000.0, 2331.0)
    >>> round(replay_log_length(100, 20, delta=0.05, exact=False), 1)
    4119.8
    """
    if delta is None:
        return float(n_actions * n_accepted)
    if not exact:
        return float(2 * n_actions * (n_accepted + np.log(1 / delta)))
    from scipy.stats import nbinom

    refused = nbinom.ppf(1 - delta, n_accepted, 1 / n_actions)
    return float(refused + n_accepted)
