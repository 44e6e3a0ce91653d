# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""IPS by hand; values, bias and variance in a tiny world are in test_vectors.py."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.utils import get_tags

from skope_ope import IPS, BanditLogs
from tests._worlds import FOUR_LOGS as LOGS
from tests._worlds import FOUR_PI as PI
from tests._worlds import W1, enumerate_logs, exact_moments, one_log

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def test_by_hand():
    result = IPS().fit(LOGS).evaluate(PI)
    assert_allclose(result.round_values, [6, -1, 2, 0], rtol=1e-12, atol=1e-15)
    assert_allclose(result.value, 7 / 4)
    clipped = IPS(cmax=0.75).fit(LOGS).evaluate(PI)
    assert_allclose(clipped.value, (0.75 * 3 - 0.75 + 0.5 * 4) / 4)


def test_the_probability_of_the_logged_action_is_enough():
    logged = PI[np.arange(4), LOGS.action_index]
    fitted = IPS(cmax=1.5).fit(LOGS)
    assert fitted.score(logged) == fitted.score(PI)


def test_clipping_biases_towards_zero():
    """Exactly, over all logs of a round, and less the higher the bound is.

    A value is the mean of its rounds: more of them have the same expectation.
    """
    means = [
        exact_moments(W1, 1, lambda log, c=cmax: evaluate(IPS(cmax=c), log).value)[0]
        for cmax in (0.5, 1.0, 2.0, 4.0, None)
    ]
    assert means == sorted(means)
    assert_allclose(means[-1], W1.value, rtol=1e-12)
    assert_allclose(means[-2], W1.value, rtol=1e-12)  # no weight is above 4


def evaluate(evaluator, log):
    logs = BanditLogs(
        log.x.reshape(-1, 1), log.action, log.reward, log.propensity, actions=[0, 1, 2]
    )
    return evaluator.fit(logs).evaluate(log.pi)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("delta", [0.9, 0.5, 0.1])
def test_the_bound_holds_in_the_tiny_world(delta):
    probability, logs = enumerate_logs(W1, 2)
    failed = 0.0
    for i in np.flatnonzero(probability > 0):
        result = evaluate(IPS(), one_log(logs, i))
        radius = result.deviation_bound(delta, max_weight=4.0, reward_bound=1.0)
        failed += probability[i] * (abs(result.value - W1.value) > radius)
    assert failed <= delta


@pytest.mark.parametrize(
    ("cmax", "kept"), [(None, True), (1.0, True), (5.0, True), (0.9, False)]
)
def test_on_policy_weights_are_kept_by_clipping_above_one(cmax, kept):
    assert get_tags(IPS(cmax=cmax)).on_policy_mean is kept
    assert not get_tags(IPS(cmax=cmax)).shift_equivariant


@pytest.mark.parametrize("cmax", [0, -1, np.inf, np.nan, "2"])
def test_wrong_bounds(cmax):
    with pytest.raises(ValueError, match="'cmax' parameter of IPS must be a float"):
        IPS(cmax=cmax).fit(LOGS)


def test_the_bound_refuses_what_it_does_not_cover():
    known = {"max_weight": 8.0, "reward_bound": 7.0}
    IPS().fit(LOGS).evaluate(PI).deviation_bound(**known)
    for evaluator, logs, other, message in (
        (IPS(cmax=2.0), LOGS, {}, "does not cover clipped weights"),
        (IPS(), LOGS.replace(group=[0, 0, 1, 1]), {}, "these logs have groups"),
        (IPS(), LOGS.replace(sample_weight=[1, 2, 1, 1]), {}, "weights that differ"),
        (IPS(), LOGS, {"max_weight": 0.1}, r"max_weight=0\.1 is below the importance"),
        (IPS(), LOGS, {"reward_bound": 0.5}, r"reward_bound=0\.5 is not a bound on"),
    ):
        value = evaluator.fit(logs).evaluate(PI[: len(logs)])
        with pytest.raises(ValueError, match=message):
            value.deviation_bound(**known | other)
    far = pickle.loads(pickle.dumps(IPS().fit(LOGS).evaluate(PI)))
    with pytest.raises(ValueError, match="pickled value does not keep"):
        far.deviation_bound(**known)


def test_rounds_of_no_weight_do_not_count_in_the_bound():
    logs = LOGS[np.array([0, 1, 2, 3, 0, 1])]
    policy = PI[[0, 1, 2, 3, 0, 1]]
    value = IPS().fit(logs).evaluate(policy, sample_weight=[1, 1, 1, 1, 0, 0])
    alone = IPS().fit(LOGS).evaluate(PI)
    known = {"max_weight": 8.0, "reward_bound": 7.0}
    assert value.deviation_bound(**known) == alone.deviation_bound(**known)
