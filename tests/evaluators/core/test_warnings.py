# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Each alarm rings where it should, with its number, and nowhere else."""

import warnings

import numpy as np
import pytest

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    UniformPolicy,
    evaluate,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import mean
from skope_ope.evaluators.core._pooling import Shares
from skope_ope.evaluators.core._sums import Sums
from skope_ope.evaluators.core._warnings import (
    group_warnings,
    unformed_warning,
)
from skope_ope.exceptions import (
    FewGroupsWarning,
    LogsWarning,
    LowOverlapWarning,
    ModelErrorWarning,
    PropensityWarning,
    SupportWarning,
)
from tests._worlds import d8


# -- groups ---------------------------------------------------------------------------
def group_alarms(cluster, terms=None, **design):
    """Alarms of groups: list of (class, value)."""
    n = len(cluster)
    terms = np.arange(float(n)) if terms is None else terms
    labels, codes = np.unique(cluster, return_inverse=True)
    found = Design(n, cluster=codes, clusters=labels, **design)
    sums = Sums(found)
    sums.add(found.block(0, n), (terms,))
    return [(type(a), a.value) for a in group_warnings(Estimate(sums, mean, own_means))]


def own_means(mass, units):
    """Strata with a mean and a variance of their own."""
    return Shares(1 / mass, np.arange(len(units)), units > 0)


def test_many_groups_ring_nothing():
    assert group_alarms(np.arange(40)) == []
    assert group_alarms(np.repeat(np.arange(60), 3)) == []


def test_few_groups():
    assert group_alarms(np.arange(39)) == [(FewGroupsWarning, 39)]
    sizes = np.array([50] + [1] * 60)  # one of them has nearly half of the rounds
    [(kind, value)] = group_alarms(np.repeat(np.arange(61), sizes))
    assert kind is FewGroupsWarning
    assert value == pytest.approx(110**2 / (sizes @ sizes))
    assert group_alarms(np.zeros(5)) == [(FewGroupsWarning, 1)]


def test_a_stratum_of_one_group():
    stratum, strata = np.repeat([0, 1], 50), ["a", "b"]
    cluster = np.concatenate([np.arange(50), np.full(50, 50)])
    found = group_alarms(cluster, stratum=stratum, strata=strata)
    assert found == [(FewGroupsWarning, 1)]
    cluster[-1] = 7  # a group of both: they are one sample
    sizes = np.bincount(cluster)
    [(_, value)] = group_alarms(cluster, stratum=stratum, strata=strata)
    assert value == pytest.approx(100**2 / (sizes @ sizes))


def test_the_fixed_log():
    log = d8()
    logs = BanditLogs(log.x.reshape(-1, 1), log.action, log.reward, log.propensity)
    with pytest.warns(LowOverlapWarning, match="3.3 effective rounds of 8") as caught:
        result = IPS().fit(logs).evaluate(log.pi)
    assert caught[0].message.value == pytest.approx(3.328, abs=5e-4)
    assert result.warnings == (caught[0].message,)
    assert caught[0].filename == __file__  # it points at the caller


N = 400
RNG = np.random.RandomState(0)
NEVER = BanditLogs(  # nobody ever took the third action
    np.zeros((N, 1)),
    np.arange(N) % 2,
    RNG.random_sample(N),
    np.full(N, 0.5),
    actions=[0, 1, 2],
)


def test_actions_that_were_never_logged():
    with pytest.warns(SupportWarning, match="33.33% of its probability") as caught:
        IPS().fit(NEVER).evaluate(UniformPolicy())
    assert caught[0].message.value == pytest.approx(1 / 3)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.PropensityWarning")
def test_loggers_that_left_no_choice():
    certain = NEVER.replace(propensity=np.where(np.arange(N) < 100, 1.0, 0.5))
    pi = np.tile([0.5, 0.5, 0.0], (N, 1))
    with pytest.warns(SupportWarning) as caught:
        SNIPS().fit(certain).evaluate(pi)
    assert caught[0].message.value == pytest.approx(0.25 * 0.5)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LowOverlapWarning")
def test_estimates_that_cannot_be_formed():
    nothing = np.tile([0.0, 0.0, 1.0], (N, 1))
    for evaluator in (IPS(), SNIPS()):
        with pytest.warns(SupportWarning) as caught:
            result = evaluator.fit(NEVER).evaluate(nothing)
        assert any("cannot form an estim" in str(w.message) for w in caught)
        assert np.isnan(result.value)
        assert np.isnan(result.standard_error)
        assert any(np.isnan(warning.message.value) for warning in caught)
    assert str(unformed_warning(IPS())).startswith("IPS cannot form an estimate")


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LowOverlapWarning")
def test_a_model_extrapolates_with_a_warning():
    nothing = np.tile([0.0, 0.0, 1.0], (N, 1))
    with pytest.warns(SupportWarning, match="extrapolates") as caught:
        result = DoublyRobust().fit(NEVER, 0.25).evaluate(nothing)
    assert result.value == 0.25
    assert caught[0].message.value == 1.0


def test_the_direct_method_says_what_its_error_leaves_out():
    fitted = DirectMethod().fit(NEVER, 0.25)
    with pytest.warns(ModelErrorWarning, match="DoublyRobust's includes it"):
        fitted.evaluate(np.tile([0.5, 0.5, 0.0], (N, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DoublyRobust().fit(NEVER, 0.25).evaluate(np.tile([0.5, 0.5, 0.0], (N, 1)))


def test_the_remedy_names_the_step_for_several_loggers():
    rng = np.random.RandomState(0)
    action = rng.randint(2, size=400)
    wrong = {"context": np.zeros((400, 1)), "action": action, "reward": action}
    wrong["propensity"] = np.tile([0.2, 0.3], 200)
    for logger, step in (
        (None, " PropensityEstimator"),
        (np.repeat(["a", "b"], 200), " LoggerPropensityEstimator"),
        (np.repeat("a", 400), " PropensityEstimator"),
    ):
        logs = BanditLogs(**wrong, logger=logger)
        with pytest.warns(PropensityWarning) as warned:
            IPS().fit(logs).evaluate(UniformPolicy())
        assert len(warned) == 2  # of the weights, and of the propensities
        assert all(step in str(w.message) for w in warned)


def test_without_propensities_the_error_names_what_needs_none():
    logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], np.ones(4))
    with pytest.raises(ValueError, match="or ExplorationScavenging where the logger"):
        IPS().fit(logs)


def test_rewards_that_have_not_arrived_are_told_by_every_evaluator():
    logs, policy, _ = make_bandit_logs(1000, random_state=0, return_truth=True)
    reward = np.array(logs.reward)
    reward[-40:] = 0  # about 20 rewards are missing
    late = logs.replace(reward=reward)
    with pytest.warns(LogsWarning, match="rounds have no reward"):
        table = evaluate(policy, late, evaluators=["SNIPS", "DRns"])
        alone = IPS().fit(late).evaluate(policy)
    for value in (*table.values(), alone):
        assert any("not arrived yet" in str(one) for one in value.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LogsWarning)
        evaluate(policy, logs)
