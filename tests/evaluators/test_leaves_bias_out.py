# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which evaluators leave a bias that they have by design out of their intervals."""

import pickle
import warnings

import numpy as np
import pytest

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
    UniformPolicy,
)
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from skope_ope.evaluators._logged_value import logged_value
from tests.test_common import EVALUATORS

CLIPPED = "the bias of clipped weights"
SHRUNK = "the bias of shrunk weights"
MODEL = "the error of the reward model"
INF = float("inf")


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
        (DRns(), "the bias of rounds accepted too rarely"),
        (DRns(q=0.0), False),
        (DRns(acceptance="worst_case"), False),
    ],
    ids=repr,
)
def test_parameters_tell(evaluator, reason):
    assert evaluator._leaves_bias_out == reason


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
    consistent = evaluator.__sklearn_tags__().consistent
    if type(evaluator).__name__ not in OTHER_REASONS:
        assert bool(evaluator._leaves_bias_out) == (not consistent)


LOGS, POLICY, TRUTH = make_bandit_logs(400, random_state=0, return_truth=True)


def quiet(evaluator, policy=POLICY, logs=LOGS):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return evaluator.fit(logs).evaluate(policy)


def test_values_carry_it():
    value = quiet(DRos())
    assert value.leaves_bias_out == SHRUNK
    assert repr(value).endswith(f", estimator='DRos', leaves_bias_out={SHRUNK!r})")
    assert f">it leaves out</th><td>{SHRUNK}</td>" in value._repr_html_()
    assert pickle.loads(pickle.dumps(value)).leaves_bias_out == SHRUNK
    for one in value.by("action").values():
        assert one.leaves_bias_out == SHRUNK
    plain = quiet(IPS())
    assert plain.leaves_bias_out is False
    assert repr(plain).endswith("estimator='IPS')")
    assert "leaves out" not in plain._repr_html_()
    chosen = quiet(IPS(cmax="auto"))
    assert chosen.leaves_bias_out == CLIPPED


def test_differences_carry_it_if_either_does():
    shrunk, model, plain = quiet(DRos()), quiet(DirectMethod()), quiet(IPS())
    assert (plain - shrunk).leaves_bias_out == SHRUNK
    assert (shrunk - plain).leaves_bias_out == SHRUNK
    assert (shrunk - shrunk).leaves_bias_out == SHRUNK
    assert (shrunk - model).leaves_bias_out == f"{SHRUNK}; {MODEL}"
    assert (shrunk - logged_value(LOGS)).leaves_bias_out == SHRUNK
    assert (plain - quiet(SNIPS())).leaves_bias_out is False


def test_acceptances_bias_what_depends_on_them():
    """R / C of a policy that does not learn has no history to be wrong about."""
    rarely = "the bias of rounds accepted too rarely"
    assert quiet(DRns(random_state=0)).leaves_bias_out is False
    assert quiet(DRns(random_state=0, horizon=20)).leaves_bias_out == rarely
    learns = quiet(DRns(random_state=0), EpsilonGreedy())
    assert learns.leaves_bias_out == rarely
    exact = quiet(DRns(random_state=0, acceptance="worst_case"), EpsilonGreedy())
    assert exact.leaves_bias_out is False


def test_a_simulated_value_carries_it():
    assert quiet(DirectMethod(), EpsilonGreedy()).leaves_bias_out == MODEL


def test_slates_carry_it():
    logs, policy, _ = make_slate_logs(200, random_state=0, return_truth=True)
    assert quiet(PseudoInverse(cmax=2.0), policy, logs).leaves_bias_out == CLIPPED
    assert quiet(PseudoInverse(), policy, logs).leaves_bias_out is False
    assert quiet(SlateDirectMethod(), policy, logs).leaves_bias_out == MODEL


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
            value = quiet(evaluator, policy, logs)
            name = type(evaluator).__name__
            low, high = value._interval()
            hits[name] += low <= truth <= high
            errors[name].append(value.standard_error)
            assert bool(value.leaves_bias_out) == (name == "DRos")
    assert hits["DRos"] == 0
    assert hits["DoublyRobust"] >= 36
    assert np.mean(errors["DRos"]) < np.mean(errors["DoublyRobust"]) / 2


def test_uniform_policies_are_no_exception():
    assert quiet(SwitchDR(), UniformPolicy()).leaves_bias_out
