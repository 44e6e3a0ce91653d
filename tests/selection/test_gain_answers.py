# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from scipy.stats import t

from skope_ope import IPS, BanditLogs
from skope_ope.exceptions import FewEventsWarning
from skope_ope.selection import rounds_needed
from skope_ope.selection._doubts import Doubt
from skope_ope.selection._gain_answers import Comparison, GainAnswer, decide

NAN = float("nan")


def verdict(name, answer, low=0.0, high=0.0, doubts=()):
    return GainAnswer(name, answer, (low + high) / 2, low, high, doubts, False, NAN)


def test_the_decision():
    better = verdict("a", "better", 0.1, 0.9), verdict("b", "better", 0.2, 0.3)
    worse, open_one = verdict("c", "worse", -2, -1), verdict("d", "cannot tell", -1, 1)
    assert decide([*better, worse, open_one]) == ("deploy", "b")
    assert decide([worse, worse]) == ("keep", None)
    assert decide([worse, open_one]) == ("undecided", None)
    tied = [verdict("e", "better", 0.2, 0.5), better[1]]
    assert decide(tied) == ("deploy", "e")  # the first


def test_what_stands_against_an_answer():
    few = Doubt("a", "few", FewEventsWarning)
    learned = Doubt("a", "learned", UserWarning, frozenset({"better"}))
    blocked = verdict("a", "cannot tell", 0.1, 0.2, (few, learned))
    assert blocked.forbidding == (few, learned)
    wide = verdict("a", "cannot tell", -0.1, 0.2, (few, learned))
    assert wide.forbidding == (learned,)  # more rounds bring more events
    assert verdict("a", "better", 0.1, 0.2, (few,)).forbidding == ()
    worse = verdict("a", "cannot tell", -0.2, -0.1, (learned, few))
    assert worse.forbidding == (few,)


def comparison(gain=0.1, n=400, alike=False, reward_range=None, seed=0):
    """Two fixed actions with normal rewards, `gain` apart."""
    rng = np.random.RandomState(seed)
    action = rng.randint(2, size=n)
    reward = rng.normal(gain * action, 1.0)
    if reward_range:
        reward = (reward > 1).astype(float)
    logs = BanditLogs(
        np.zeros((n, 1)), action, reward, [0.5] * n, reward_range=reward_range
    )
    evaluator = IPS().fit(logs)
    old, new = (evaluator.evaluate(np.eye(2)[[k] * n]) for k in (0, 1))
    return Comparison("new", "old", new - old, new, old, None, alike)


@pytest.mark.parametrize(
    "gain, answer", [(3.0, "better"), (-3.0, "worse"), (0.1, "cannot tell")]
)
def test_the_answer_is_that_of_the_interval(gain, answer):
    one = comparison(gain)
    found = one.answer(0.9, 4)
    freedom = one.gain.degrees_of_freedom
    half = t.ppf(1 - 0.1 / 8, freedom) * one.gain.standard_error
    assert (found.low, found.high) == pytest.approx(
        (one.gain.value - half, one.gain.value + half)
    )
    assert found.answer == answer and found.gain == one.gain.value


def test_rounds():
    one = comparison(0.1)
    found = one.answer(0.9, 4)
    expected = rounds_needed(one.gain, level=0.9, n_comparisons=4)
    assert found.rounds == pytest.approx(expected, rel=0.02)  # Student's quantile
    assert found.rounds > len(one.gain.round_values)
    assert np.isnan(comparison(3.0).answer(0.9, 4).rounds)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LowOverlapWarning")
def test_rounds_for_enough_events():
    one = comparison(1.2, n=24, reward_range=(0, 1))
    found = one.answer(0.8, 1)
    (warning,) = one.gain._interval(0.8).warnings
    assert found.answer == "cannot tell"
    assert found.rounds >= 24 * 10 / warning.value


def test_policies_that_act_alike():
    found = comparison(3.0, alike=True).answer(0.95, 1)
    assert (found.answer, found.doubts) == ("cannot tell", ())
    assert np.isnan(found.rounds)
