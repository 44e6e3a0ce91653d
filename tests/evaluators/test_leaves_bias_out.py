# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which evaluators leave a bias that they have by design out of their intervals."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    DRns,
    DRos,
    EpsilonGreedy,
    LogSmoothing,
    PseudoInverse,
    SlateDirectMethod,
    SlateDoublyRobust,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
)
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from tests._quiet import quiet
from tests.test_common import EVALUATORS

CLIPPED = "the bias of clipped weights"
SHRUNK = "the bias of shrunk weights"
MODEL = "the error of the reward model"
INF = float("inf")


RARELY = "the bias of rounds accepted too rarely"
LOGS, POLICY, _ = make_bandit_logs(400, random_state=0, return_truth=True)
PAGES, RANKED, _ = make_slate_logs(200, random_state=0, return_truth=True)


def value_of(evaluator, policy=None):
    slates = ".slate." in type(evaluator).__module__
    fitted = evaluator.fit(PAGES if slates else LOGS)
    return quiet(fitted, policy or (RANKED if slates else POLICY))


@pytest.mark.parametrize(
    ("evaluator", "reason"),
    [
        (IPS(cmax=2.0), CLIPPED),
        (IPS(cmax="auto"), CLIPPED),
        (SNIPS(cmax=2.0), CLIPPED),
        (DoublyRobust(cmax=2.0), CLIPPED),
        (DoublyRobust(cmax=0.0), CLIPPED),
        (DirectMethod(), MODEL),
        (SwitchDR(), "the bias of dropped weights"),
        (SwitchDR(tau=INF), False),
        (DRos(), SHRUNK),
        (DRos(lam="auto"), SHRUNK),
        (DRos(lam=INF), False),
        (SubGaussianIPS(), SHRUNK),
        (SubGaussianIPS(lam=0.0), False),
        (SubGaussianDR(), SHRUNK),
        (SubGaussianDR(lam=0.0), False),
        (LogSmoothing(), "the bias of smoothed rewards"),
        (LogSmoothing(lam=0.0), False),
        (PseudoInverse(cmax=2.0), CLIPPED),
        (SlateDoublyRobust(cmax=2.0), CLIPPED),
        (SlateDirectMethod(), MODEL),
        (PseudoInverse(), False),
        (DRns(random_state=0), False),  # R / C of a policy that does not learn
        (DRns(random_state=0, horizon=20), RARELY),
        (DRns(random_state=0, horizon=20, q=0.0), False),
        (DRns(random_state=0, horizon=20, acceptance="worst_case"), False),
    ],
    ids=repr,
)
def test_parameters_tell(evaluator, reason):
    assert value_of(evaluator).leaves_bias_out == reason


# Not consistent on the log of all cells for other reasons than a bias by design.
OTHER_REASONS = (
    "DRns",  # walks through the log
    "Replay",
    "RejectionSampling",
    "ExplorationScavenging",  # assumptions about the logger
    "PositionScavenging",
    "ReorderingScavenging",
    "MultiLoggerIPS",  # divergences of folds
    "MultiLoggerDR",
    "AdaptiveIPS",  # weigh rounds themselves
    "AdaptiveDR",
)


@pytest.mark.parametrize("evaluator", EVALUATORS, ids=repr)
def test_whoever_misses_the_value_of_all_cells_is_marked(evaluator):
    """A log that holds every cell once shows which evaluators are biased by design."""
    if type(evaluator).__name__ not in OTHER_REASONS:
        marked = bool(value_of(clone(evaluator)).leaves_bias_out)
        assert marked == (not evaluator.__sklearn_tags__().consistent)


def test_values_carry_it():
    value = value_of(DRos())
    assert value.leaves_bias_out == SHRUNK
    assert repr(value).endswith(f", estimator='DRos', leaves_bias_out={SHRUNK!r})")
    assert f">it leaves out</th><td>{SHRUNK}</td>" in value._repr_html_()
    assert pickle.loads(pickle.dumps(value)).leaves_bias_out == SHRUNK
    for one in value.by("action").values():
        assert one.leaves_bias_out == SHRUNK
    plain = value_of(IPS())
    assert plain.leaves_bias_out is False
    assert repr(plain).endswith("estimator='IPS')")
    assert "leaves out" not in plain._repr_html_()


def test_differences_carry_it_if_either_does():
    shrunk, model, plain = value_of(DRos()), value_of(DirectMethod()), value_of(IPS())
    assert (plain - shrunk).leaves_bias_out == SHRUNK
    assert (shrunk - plain).leaves_bias_out == SHRUNK
    assert (shrunk - shrunk).leaves_bias_out == SHRUNK
    assert (shrunk - model).leaves_bias_out == f"{SHRUNK}; {MODEL}"
    assert (plain - value_of(SNIPS())).leaves_bias_out is False


@pytest.mark.parametrize(
    ("evaluator", "reason"),
    [
        (DRns(random_state=0), RARELY),
        (DRns(random_state=0, acceptance="worst_case"), False),
        (DirectMethod(), MODEL),
    ],
)
def test_policies_that_learn(evaluator, reason):
    assert value_of(evaluator, EpsilonGreedy()).leaves_bias_out == reason


def quiet_interval(value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return value.confidence_interval()


def heavy_logs(n, seed):
    """A logger that takes the good action in 2% of the rounds."""
    rng = np.random.RandomState(seed)
    mu = np.array([0.98, 0.02])
    action = (rng.random_sample(n) > mu[0]).astype(int)
    reward = (rng.random_sample(n) < np.where(action == 1, 0.8, 0.3)).astype(float)
    return BanditLogs(np.zeros((n, 1)), action, reward, mu[action], reward_range=(0, 1))


def test_a_marked_interval_misses_where_weights_are_heavy():
    """The case of the mark: half the error of DR's, and hardly a hit."""
    hits = {"DRos": 0, "DoublyRobust": 0}
    policy = np.tile([0.1, 0.9], (2000, 1))
    truth, errors = 0.1 * 0.3 + 0.9 * 0.8, {"DRos": [], "DoublyRobust": []}
    for seed in range(40):
        logs = heavy_logs(2000, seed)
        # a model that knows no action: it was fitted to what the logger mostly did
        for evaluator in (DRos(reward_model=0.3), DoublyRobust(reward_model=0.3)):
            value = quiet(evaluator.fit(logs), policy)
            name = type(evaluator).__name__
            low, high = quiet_interval(value)
            hits[name] += low <= truth <= high
            errors[name].append(value.standard_error)
            assert bool(value.leaves_bias_out) == (name == "DRos")
    assert hits["DRos"] == 0
    assert hits["DoublyRobust"] >= 36
    assert np.mean(errors["DRos"]) < np.mean(errors["DoublyRobust"]) / 2
