# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    MRDR,
    SNDR,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    DRos,
    LogSmoothing,
    MultiLoggerIPS,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
    scan_logs,
)
from skope_ope.datasets import make_bandit_logs
from tests._worlds import FOUR_LOGS as LOGS
from tests._worlds import FOUR_Q as Q
from tests.evaluators.core._asked import bare_logs

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


FOUR = make_bandit_logs(300, n_actions=4, random_state=0)
THREE = make_bandit_logs(100, random_state=0)


def random_policies(n_rounds, n_actions, seed=0):
    rng = np.random.RandomState(seed)
    for _ in range(3):
        yield rng.dirichlet(np.full(n_actions, 0.5), size=n_rounds)
    yield np.eye(n_actions)[rng.randint(n_actions, size=n_rounds)]


@pytest.mark.parametrize(
    "evaluator",
    [
        IPS(),
        *(DirectMethod(reward_model=model) for model in (Ridge(), None)),
        *(DoublyRobust(reward_model=model) for model in (Ridge(), 0.3, None)),
    ],
    ids=str,
)
def test_their_mean_is_the_value_of_every_policy(evaluator):
    rest = make_bandit_logs(200, n_actions=4, random_state=1)
    weight = np.random.RandomState(0).randint(3, size=300).astype(float)
    weighted = FOUR.replace(sample_weight=weight)
    for logs, given in ((FOUR, None), (FOUR, rest), (weighted, None)):
        evaluator.fit(logs)
        rounds = logs if given is None else given
        scores = evaluator.action_scores(given)
        assert scores.shape == (len(rounds), 4)
        assert scores.flags.writeable
        for pi in random_policies(len(rounds), 4):
            gain = (pi * scores).sum(axis=1)
            mean = np.average(gain, weights=rounds.sample_weight)
            assert_allclose(mean, evaluator.score(pi, given), rtol=1e-10)


@pytest.mark.parametrize("kind", [IPS, DoublyRobust])
def test_clipped_scores_hold_for_policies_that_choose(kind):
    evaluator = kind(cmax=3.0).fit(FOUR)
    scores = evaluator.action_scores()
    assert (1 / FOUR.propensity > 3).any()
    *drawn, chosen = random_policies(300, 4)
    value = evaluator.score(chosen)
    assert_allclose((chosen * scores).sum(axis=1).mean(), value, rtol=1e-10)
    value = evaluator.score(drawn[0])  # as documented
    assert abs((drawn[0] * scores).sum(axis=1).mean() - value) > 1e-3


def test_by_hand():
    w = 1 / LOGS.propensity
    rows = np.arange(len(LOGS))
    expected = np.array(Q, dtype=float)
    residuals = LOGS.reward - expected[rows, LOGS.action_index]
    expected[rows, LOGS.action_index] += w * residuals
    scores = DoublyRobust().fit(LOGS, Q).action_scores()
    assert_allclose(scores, expected, rtol=1e-12)
    assert_array_equal(DirectMethod().fit(LOGS, Q).action_scores(), Q)
    inverse = np.zeros_like(expected)
    inverse[rows, LOGS.action_index] = w * LOGS.reward
    assert_allclose(IPS().fit(LOGS).action_scores(), inverse, rtol=1e-12)
    reward, q = [0.1 + 0.2, 1.0, 1e-30], [0.3, 0.3, 0.0]
    logs = BanditLogs(np.zeros((3, 1)), [0, 0, 0], reward, np.full(3, 0.5))
    scores = DoublyRobust().fit(logs, np.array(q)[:, None]).action_scores()
    assert_array_equal(scores[:, 0], [0.3, 0.3 + 2 * (1 - 0.3), 2e-30])


def test_models_alone_give_a_copy_and_need_no_propensity():
    logs = BanditLogs(np.zeros((3, 1)), [0, 1, 1], [1, 2, 4])
    q_hat = np.array([[1.0, 2], [3, 4], [5, 6]])
    evaluator = DirectMethod().fit(logs, q_hat)
    evaluator.action_scores()[:] = 9
    assert_array_equal(evaluator.action_scores(), q_hat)
    assert q_hat[0, 0] == 1
    with pytest.raises(ValueError, match="IPS needs the propensities"):
        IPS().fit(logs)


@pytest.mark.parametrize(
    ("evaluator", "why"),
    [
        (MultiLoggerIPS(), "its weights depend on all loggers"),
        (SNIPS(), "it divides by the sum of the weights"),
        (SNDR(), "it divides by the sum of the weights"),
        (MRDR(reward_model=Ridge()), "its reward model is fitted anew"),
        (SwitchDR(), "its weights are not linear"),
        (DRos(), "its weights are not linear"),
        (SubGaussianDR(), "its weights are not linear"),
        (SubGaussianIPS(), "its weights are not linear"),
        (LogSmoothing(), "not known to be linear"),
        (IPS(cmax="auto"), "cmax='auto' is chosen for every policy"),
        (DoublyRobust(cmax="auto"), "Pass a number"),
    ],
    ids=str,
)
def test_others_refuse(evaluator, why):
    named = bare_logs(THREE.action, THREE.reward, THREE.propensity, logger=["a"] * 100)
    evaluator.fit(named if isinstance(evaluator, MultiLoggerIPS) else THREE)
    name = type(evaluator).__name__
    with pytest.raises(ValueError, match=f"{name} has no scores of actions: .*{why}"):
        evaluator.action_scores()


def test_a_formula_of_ones_own_refuses():
    class Halved(IPS):
        def weights(self, w):
            return w / 2

    class Named(IPS):
        """The same formula under another name."""

    with pytest.raises(ValueError, match=r"Halved has no scores .* weights are not"):
        Halved().fit(THREE).action_scores()
    found, expected = (one().fit(THREE).action_scores() for one in (Named, IPS))
    assert_array_equal(found, expected)


def test_wrong_logs():
    with pytest.raises(NotFittedError):
        IPS().action_scores()
    evaluator = IPS().fit(THREE)
    with pytest.raises(TypeError, match="logs must be BanditLogs"):
        evaluator.action_scores(THREE.context)
    with pytest.raises(ValueError, match="actions"):
        evaluator.action_scores(FOUR)
    holes = LOGS.with_columns(q_hat=np.where(np.max(Q) == Q, np.nan, Q))
    with pytest.raises(ValueError, match="reward_model must be finite"):
        DoublyRobust(reward_model="q_hat").fit(holes).action_scores()


@pytest.mark.frames
def test_logs_in_parts_refuse(tmp_path):
    (tmp_path / "log.csv").write_text("a,r,x\n" + "0,0.5,1\n1,1.5,2\n" * 5)
    pytest.importorskip("pyarrow")
    named = {"action": "a", "reward": "r", "context": ["x"], "actions": [0, 1]}
    lazy = scan_logs(tmp_path / "log.csv", propensity=0.5, **named)
    with pytest.raises(TypeError, match="not in memory"):
        IPS().fit(lazy).action_scores()
