# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""No weight looks at its own round or later ones; coverage where loggers learn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import AdaptiveDR, AdaptiveIPS, BanditLogs, ConstantPolicy, DoublyRobust
from skope_ope.datasets import make_adaptive_logs
from skope_ope.datasets._synthetic import AdaptiveWorld, simulate_histories
from skope_ope.evaluators.adaptive_logger._weightings import WEIGHTINGS
from skope_ope.evaluators.core._jobs import prepared_job
from skope_ope.evaluators.core._rounds import PositiveRounds
from skope_ope.evaluators.core._target import Target
from tests.evaluators.adaptive_logger import _tiny as tiny

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def resolved(evaluator, logs, policy):
    """The evaluator that knows what the rounds count."""
    about = Target(policy, logs), PositiveRounds(logs)
    return prepared_job(evaluator.fit(logs), *about)[0]


def weights_of(evaluator, logs, policy):
    """h_t of every round at its own context, whatever the normalisation."""
    counts = resolved(evaluator, logs, policy).counts
    if not counts.by_context:
        return counts.h
    return counts.h * form_total(evaluator, logs, policy)


def form_total(evaluator, logs, policy):
    """Z(x_t): the sum of the weights of all rounds at the context of each."""
    pi = policy.predict_proba(logs.context) if hasattr(policy, "fit") else policy
    power = {"min_variance": 1.0, "stable_variance": 0.5}[evaluator.weighting]
    total = np.zeros(len(logs))
    for e in logs.logging_proba:
        total += (pi**2 / e).sum(axis=1) ** -power
    return total


ALL = "two_point", "min_variance", "stable_variance", "cadr"


@pytest.mark.few_cases
@pytest.mark.parametrize("how", ALL)
@pytest.mark.parametrize("at", [0, 1, 100, 299])
def test_no_weight_follows_the_action_of_its_round_or_later_ones(how, at):
    """Change what was done and earned from a round on: weights up to it stay."""
    logs = make_adaptive_logs(300, random_state=1)
    rng = np.random.RandomState(at)
    action, reward = logs.action_index.copy(), logs.reward.copy()
    action[at:], reward[at:] = 1 - action[at:], rng.random_sample(300 - at)
    rounds = logs.context, action, reward, logs.logging_proba[np.arange(300), action]
    about = {"actions": [0, 1], "reward_range": (0, 1)}
    other = BanditLogs(*rounds, logging_proba=logs.logging_proba, **about)
    policy = np.tile([0.0, 1.0], (300, 1))
    for cls in (AdaptiveDR, AdaptiveIPS):
        evaluator = cls(weighting=how, floor_decay=0.5)
        before, after = (weights_of(evaluator, one, policy) for one in (logs, other))
        assert_allclose(before[: at + 1], after[: at + 1], rtol=1e-10)
        if how == "cadr" and at < 299:
            assert np.abs(before - after).max() > 1e-3


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("weighting", ["two_point", "cadr"])
def test_weighted_scores_are_differences_of_a_martingale(weighting):
    """E[h_t (G_t - V)] = 0 in every round, over all histories."""
    evaluator = AdaptiveDR(weighting=weighting, floor_decay=0.5)
    total = np.zeros(3)
    for probability, logs in tiny.histories(3, contextual=False):
        logger, _ = tiny.logger_of(logs, contextual=False)
        policy = np.tile([1.0, 0.0], (3, 1))
        evaluator.set_params(logger=logger)
        found = resolved(evaluator, logs, policy)
        h = found.counts.h
        if np.ptp(h) == 0:  # nothing varies in so short a log: all count the same
            h = np.zeros(3)
        total += probability * h * (found.rounds.scores - tiny.Q[:, 0].mean())
    assert_allclose(total, 0, atol=1e-12)


def test_cadr_without_any_spread_counts_all_rounds():
    logs = make_adaptive_logs(50, random_state=0).replace(reward=np.full(50, 0.7))
    found = AdaptiveDR(weighting="cadr").fit(logs, 0.7).evaluate(ConstantPolicy(0))
    assert_allclose(found.value, 0.7)
    nothing, first = logs.replace(reward=np.zeros(50)), np.tile([1.0, 0.0], (50, 1))
    found = resolved(AdaptiveDR(weighting="cadr", reward_model=0.0), nothing, first)
    assert_array_equal(found.counts.h, np.ones(50))


# -- coverage -----------------------------------------------------------------------
N_LOGS = 600


def coverage(world, n_rounds, evaluators, arm, seed):
    """Share of Student's intervals that hold the value, and the mean of t.

    `arm` is that of the policy, or None: the one that the logger took least in the end.
    """
    t, rng = {name: [] for name in evaluators}, np.random.RandomState(seed)
    for _ in range(N_LOGS // 200):
        histories = simulate_histories(world, 200, n_rounds, rng)
        for i in range(200):
            proba, action = histories.proba[i, :, 0], histories.action[i]
            p, arms = proba[np.arange(n_rounds), action], np.arange(world.n_actions)
            rounds = np.zeros((n_rounds, 1)), action, histories.reward[i], p
            logs = BanditLogs(*rounds, actions=arms, logging_proba=proba)
            wanted = int(proba[-1].argmin()) if arm is None else arm
            truth = world.means[:, wanted].mean()
            for name, evaluator in evaluators.items():
                if evaluator is None:
                    mine = logs.reward[action == wanted]
                    value, error = mine.mean(), mine.std(ddof=1) / np.sqrt(len(mine))
                else:
                    found = evaluator.fit(logs).evaluate(ConstantPolicy(wanted))
                    value, error = found.value, found.standard_error
                t[name].append((value - truth) / error if error > 0 else np.inf)
    covers = {name: np.mean(np.abs(z) < 1.96) for name, z in t.items()}
    return {name: (covers[name], np.mean(np.clip(z, -9, 9))) for name, z in t.items()}


ROOM = 4 * np.sqrt(0.95 * 0.05 / N_LOGS)


@pytest.mark.theory
def test_coverage_without_a_signal(global_random_seed):
    """Greedy, floor t^-.7 / 2, T = 2000: the mean of the arm is too low."""
    world = AdaptiveWorld((0, 0), "epsilon_greedy", 0.7, 1, "continuous")
    evaluators = {w: AdaptiveDR(weighting=w, floor_decay=0.7) for w in WEIGHTINGS}
    evaluators["mean"] = None
    found = coverage(world, 2000, evaluators, 0, global_random_seed)
    for name in WEIGHTINGS:
        assert abs(found[name][0] - 0.945) < ROOM, (name, found[name])
    t = {name: one[1] for name, one in found.items()}
    assert t["mean"] < -0.389 + 4 / np.sqrt(N_LOGS)
    assert abs(t["two_point"]) < 0.15 + 4 / np.sqrt(N_LOGS)


@pytest.mark.theory
def test_coverage_of_an_arm_that_loses(global_random_seed):
    """Thompson sampling with a floor of t^-.9 / 2: schedules repair it, DR does not."""
    world = AdaptiveWorld((0.6, 0.4), "thompson", 0.9, 1, "binary")
    evaluators = {
        "DR": DoublyRobust(),
        "uniform": AdaptiveDR(),
        "two_point": AdaptiveDR(weighting="two_point", floor_decay=0.9),
        "min_variance": AdaptiveDR(weighting="min_variance"),
    }
    found = coverage(world, 1000, evaluators, 1, global_random_seed)
    assert found["DR"][0] < 0.90
    assert found["uniform"][0] < 0.90
    assert found["two_point"][0] > 0.88
    assert found["min_variance"][0] > 0.88


@pytest.mark.theory
def test_coverage_of_the_action_that_lost():
    """Of two equal actions, the one that the logger took for the worse in the end."""
    world = AdaptiveWorld((0.5, 0.5), "thompson", 0.7, 1, "binary")
    weightings = ("min_variance", "stable_variance")
    evaluators = {w: AdaptiveDR(weighting=w) for w in weightings}
    found = coverage(world, 1000, evaluators, None, 0)
    assert found["stable_variance"][0] > 0.95 - ROOM
    assert found["min_variance"][0] < 0.95 - ROOM  # as the guide says
