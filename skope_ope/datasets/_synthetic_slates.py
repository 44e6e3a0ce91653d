# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Synthetic slate logs, whose true values are known."""

from __future__ import annotations

from itertools import permutations, product
from math import perm
from numbers import Integral, Real
from typing import Literal

import numpy as np
from scipy.special import expit
from sklearn.utils import Bunch, check_random_state

from skope_ope._sklearn import Interval, StrOptions, validate_params
from skope_ope._types import RandomSeed, SlatePolicyLike
from skope_ope.datasets._ranking_measures import (
    slot_discounts,
)
from skope_ope.logs import SlateLogs
from skope_ope.logs._validation import EMPTY
from skope_ope.policies import (
    PlackettLuceSlatePolicy,
    ProductSlatePolicy,
    UniformSlatePolicy,
)
from skope_ope.policies.slate._slate_policy import slate_policy

MOST_SUMMED_SLATES = 20_000  # of a round: over more of them no value is summed


@validate_params(
    {
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "n_slots": [Interval(Integral, 1, None, closed="left")],
        "n_candidates": [Interval(Integral, 1, None, closed="left")],
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "reward": [StrOptions({"additive", "cascade", "interaction"})],
        "logging": [StrOptions({"uniform", "plackett_luce", "product"})],
        "logging_temperature": [Interval(Real, 0, None, closed="neither")],
        "target_temperature": [Interval(Real, 0, None, closed="neither")],
        "world_random_state": ["random_state"],
        "random_state": ["random_state"],
        "return_truth": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def make_slate_logs(
    n_rounds: int = 1000,
    *,
    n_slots: int = 3,
    n_candidates: int = 5,
    n_features: int = 3,
    reward: Literal["additive", "cascade", "interaction"] = "additive",
    logging: Literal["plackett_luce", "uniform", "product"] = "plackett_luce",
    logging_temperature: float = 1.0,
    target_temperature: float = 0.3,
    world_random_state: RandomSeed = None,
    random_state: RandomSeed = None,
    return_truth: bool = False,
) -> tuple[SlateLogs, SlatePolicyLike, Bunch]:
    r"""Generate slate logs, a policy to evaluate, and the policy's true value.

    Each slot is clicked or not, and the reward of a slate is its number of clicks.
    Contexts are independent standard normals. Read more in the
    :ref:`User Guide <datasets>`.

    Parameters
    ----------
    n_rounds : int, default=1000
        Number of logged rounds.
    n_slots : int, default=3
        Number of slots.
    n_candidates : int, default=5
        Number of candidates.
    n_features : int, default=3
        Number of context features.
    reward : {"additive", "cascade", "interaction"}, default="additive"
        How the click on a slot depends on the slate. "additive": on its own candidate
        and slot. "cascade": also on the slots before, because a reader stops at an
        attractive candidate. "interaction": also on all other slots, because
        candidates distract from each other. Only "additive" makes the value of a slate
        a sum over slots, as the pseudoinverse estimator assumes.
    logging : {"plackett_luce", "uniform", "product"}, default="plackett_luce"
        Rankings by a softmax of the logger's scores, equally likely rankings, or slots
        filled independently (with repetition) by that softmax.
    logging_temperature : float, default=1.0
        Temperature of the logger's softmax. Small values mean little exploration.
    target_temperature : float, default=0.3
        Temperature of the evaluated policy's softmax over the true attractions.
    world_random_state : int, RandomState instance or None, default=None
        Seed of the coefficients. `None`: `random_state` also draws the coefficients.
    random_state : int, RandomState instance or None, default=None
        Seed of the contexts, slates and clicks.
    return_truth : bool, default=False
        Also return the policy to evaluate and its true value.

    Returns
    -------
    logs : SlateLogs
        With `slot_reward`, `propensity`, `logging_policy` and `item_features`, which
        are the coefficients of the candidates.
    policy : slate policy
        A Plackett-Luce policy to evaluate, or a product policy if `logging` is
        "product". Only if `return_truth`.
    truth : Bunch
        Only if `return_truth`.

        value : float
            Value of `policy` on exactly these contexts. It is the expectation of
            unbiased evaluators over new draws of slates and clicks. NaN if a round has
            too many slates to sum over.
        slot_values : ndarray of shape (n_rounds, n_slots, n_candidates) or None
            Probability of a click on a candidate in a slot; None unless additive.
        expected_slot_rewards : callable
            A function of slates of shape (n_rounds, n_slots) that returns the
            probability of a click on every slot.

    Notes
    -----
    The attraction of a candidate in a slot is
    :math:`\phi(x, j, a) = d_j \sigma(x \theta_a + b_a)` with
    :math:`d_j = 1 / \log_2(j + 1)`. The probability of a click on slot j is

    - additive: :math:`\phi(x, j, s_j)`,
    - cascade: :math:`\phi(x, j, s_j) \prod_{i < j} (1 - \phi(x, i, s_i))`,
    - interaction: :math:`\phi(x, j, s_j)` times one minus half the mean attraction of
      the other slots.

    Examples
    --------
    >>> from skope_ope.datasets import make_slate_logs
    >>> logs, policy, truth = make_slate_logs(random_state=0, return_truth=True)
    >>> logs
    SlateLogs(n_rounds=1000, n_features=3, n_slots=3, n_candidates=5)
    >>> f"{truth.value:.3f} against {logs.reward.mean():.3f} under the logger"
    '1.424 against 1.235 under the logger'
    """
    repeats = logging == "product"
    if not repeats and n_slots > n_candidates:
        raise ValueError(
            f"n_slots={n_slots} is more than n_candidates={n_candidates}: rankings do "
            "not repeat candidates. Pass logging='product' or fewer slots."
        )
    rng = check_random_state(random_state)
    world_rng = rng if world_random_state is None else world_random_state
    world = _SlateWorld(n_slots, n_candidates, n_features, reward, world_rng)
    context = rng.standard_normal((n_rounds, n_features))
    empty = SlateLogs(
        context,
        np.full((n_rounds, n_slots), EMPTY),
        np.zeros(n_rounds),
        n_candidates=n_candidates,
    )
    logger = UniformSlatePolicy(n_slots)
    if logging != "uniform":
        taste = world.taste, world.taste_bias, logging_temperature
        logger = _softmax_policy(*taste, n_slots, repeats)
    slates = logger.sample(empty, rng)
    chance = world.click_proba(context, slates)
    clicks = (rng.random_sample(chance.shape) < chance).astype(float)
    logs = SlateLogs(
        context,
        slates,
        None,
        n_candidates=n_candidates,
        item_features=np.column_stack([world.theta.T, world.bias]),
        slot_reward=clicks,
        logging_policy=logger,
        propensity=logger.slate_proba(empty, slates),
        reward_range=(0.0, float(n_slots)),
    )
    if not return_truth:
        return logs
    best = world.theta, world.bias, target_temperature
    policy = _softmax_policy(*best, n_slots, repeats)
    truth = Bunch(
        value=world.value(policy, empty, repeats),
        slot_values=world.attraction(context) if reward == "additive" else None,
        expected_slot_rewards=lambda slates: world.click_proba(context, slates),
    )
    return logs, policy, truth


class SoftmaxOfContext:
    """Weights of the candidates: a softmax of scores that are linear in the context."""

    def __init__(self, theta, bias, temperature, n_slots=None):
        self.theta, self.bias, self.temperature = theta, bias, temperature
        self.n_slots = n_slots

    def __call__(self, logs):
        """Weights of the candidates of every round; rows sum to one."""
        scores = (np.asarray(logs.context) @ self.theta + self.bias) / self.temperature
        weights = np.exp(np.maximum(scores - scores.max(axis=1, keepdims=True), -500))
        weights /= weights.sum(axis=1, keepdims=True)
        if self.n_slots is None:
            return weights
        return np.repeat(weights[:, None], self.n_slots, axis=1)


def _softmax_policy(theta, bias, temperature, n_slots, repeats):
    if repeats:
        return ProductSlatePolicy(SoftmaxOfContext(theta, bias, temperature, n_slots))
    weights = SoftmaxOfContext(theta, bias, temperature)
    return PlackettLuceSlatePolicy(weights, n_slots)


class _SlateWorld:
    """Coefficients of one synthetic world."""

    def __init__(self, n_slots, n_candidates, n_features, reward, random_state):
        rng = check_random_state(random_state)
        scale = n_features**-0.5
        self.n_slots, self.n_candidates, self.reward = n_slots, n_candidates, reward
        self.theta = scale * rng.standard_normal((n_features, n_candidates))
        self.bias = rng.standard_normal(n_candidates)
        self.taste = scale * rng.standard_normal((n_features, n_candidates))
        self.taste_bias = rng.standard_normal(n_candidates)

    def attraction(self, context):
        """Return phi: (n_rounds, n_slots, n_candidates)."""
        own = expit(context @ self.theta + self.bias)
        return slot_discounts(self.n_slots)[:, None] * own[:, None]

    def click_proba(self, context, slates):
        """Probability of a click on every slot of slates."""
        slates = np.broadcast_to(slates, (len(context), self.n_slots))
        index = np.maximum(slates, 0)[:, :, None]
        phi = np.take_along_axis(self.attraction(context), index, axis=2)[:, :, 0]
        phi = np.where(slates == EMPTY, 0.0, phi)
        if self.reward == "cascade":
            phi[:, 1:] *= np.cumprod(1 - phi, axis=1)[:, :-1]
        elif self.reward == "interaction" and self.n_slots > 1:
            others = (phi.sum(axis=1, keepdims=True) - phi) / (self.n_slots - 1)
            phi = phi * (1 - others / 2)
        return phi

    def value(self, policy, rounds, repeats):
        """Mean over the rounds of the policy's expected reward."""
        policy, context = slate_policy(policy, rounds), rounds.context
        if self.reward == "additive":
            terms = policy.slot_marginals(rounds) * self.attraction(context)
            return float(terms.sum(axis=(1, 2)).mean())
        m, n_slots = self.n_candidates, self.n_slots
        if (m**n_slots if repeats else perm(m, n_slots)) > MOST_SUMMED_SLATES:
            return float("nan")
        slates = product(range(m), repeat=n_slots)
        if not repeats:
            slates = permutations(range(m), n_slots)
        total = 0.0
        for slate in slates:
            shown = np.tile(np.array(slate), (len(context), 1))
            clicks = self.click_proba(context, shown).sum(axis=1)
            total += (policy.slate_proba(rounds, shown) * clicks).mean()
        return float(total)


# -- rewards of whole slates from the grades of their items ----------------------------


# -- graded documents: every slate has a known reward ----------------------------------
