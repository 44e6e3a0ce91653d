# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import copy
import random
import re

import numpy as np
import pytest

from skope_ope import UCB1, ClassifierPolicy, EpsilonGreedy, LinUCB
from skope_ope.base import AdaptivePolicy
from skope_ope.utils.estimator_checks import check_adaptive_policy
from tests.policies._histories import make_logs


class Honest(AdaptivePolicy):
    """Softmax of the successes so far; every mutant spoils one thing."""

    def reset(self, logs):
        super().reset(logs)
        self.successes_ = np.zeros(logs.n_actions)

    def _proba(self, X, available):
        weight = np.exp(self.successes_ - self.successes_.max())
        proba = np.tile(weight, (len(X), 1))
        if available is not None:
            proba = np.where(available, proba, 0.0)
        return proba / proba.sum(axis=1, keepdims=True)

    def update(self, X, action, reward, proba):
        self.successes_[action] += reward / 10
        return True


class DropsAnAction(Honest):
    def update(self, X, action, reward, proba):
        self.classes_ = self.classes_[::-1]
        return super().update(X, action, reward, proba)


class DropsAColumn(Honest):
    def _proba(self, X, available):
        proba = super()._proba(X, available)
        return proba[:, :-1] if self.successes_.sum() > 1 else proba


class DoesNotSumToOne(Honest):
    def _proba(self, X, available):
        return super()._proba(X, available) * 0.9


class ForgetsTheOffers(Honest):
    def _proba(self, X, available):
        return super()._proba(X, None)


class ChangesSilently(Honest):
    def update(self, X, action, reward, proba):
        super().update(X, action, reward, proba)
        return False


class SaysNothing(Honest):
    def update(self, X, action, reward, proba):
        super().update(X, action, reward, proba)


class ChangesWhereItIsAsked(Honest):
    def _proba(self, X, available):
        self.successes_[0] += 1e-3
        return super()._proba(X, available)


class DrawsAtRandom(Honest):
    def _proba(self, X, available):
        proba = super()._proba(X, available)
        proba[:] = np.eye(proba.shape[1])[np.random.RandomState().randint(3)]
        return proba if available is None else super()._proba(X, available)


class RemembersWhatItWasAsked(Honest):
    """Two equal questions get equal answers, but the next update uses them."""

    def reset(self, logs):
        super().reset(logs)
        self.asked_ = set()

    def _proba(self, X, available):
        self.asked_ |= {float(x) for x in X[:, 0]}
        return super()._proba(X, available)

    def update(self, X, action, reward, proba):
        self.successes_[0] += 1e-3 * len(self.asked_)
        return super().update(X, action, reward, proba)


class ForgetsToForget(Honest):
    def reset(self, logs):
        if not hasattr(self, "successes_"):
            super().reset(logs)


class IsNotSeeded(Honest):
    def reset(self, logs):
        super().reset(logs)
        self.rng_ = np.random.RandomState()

    def update(self, X, action, reward, proba):
        self.successes_[action] += self.rng_.random_sample()
        return True


class SharesItsState(Honest):
    lives = []

    def reset(self, logs):
        super().reset(logs)
        SharesItsState.lives.append(self)
        self.successes_[0] = len({id(life) for life in SharesItsState.lives})


class RefreshesNothing(Honest):
    answer = True

    def look_ahead(self, X, available=None):
        block = super().look_ahead(X, available)
        block.refresh = lambda start, action: self.answer
        return block


class RefreshesTooLate(LinUCB):
    def look_ahead(self, X, available=None):
        block = super().look_ahead(X, available)
        refresh = block.refresh
        block.refresh = lambda start, action: refresh(start + 1, action)
        return block


class RefreshesWithoutAnAnswer(RefreshesNothing):
    answer = None


class LooksAheadWrongly(Honest):
    def look_ahead(self, X, available=None):
        block = super().look_ahead(X, available)
        block.proba = block.proba[::-1].copy()
        block.proba[:, [0, 1]] = block.proba[:, [1, 0]]
        return block


class LooksAheadWithoutABlock(Honest):
    def look_ahead(self, X, available=None):
        return self.predict_proba(X, available)


class LooksAtOthers(Honest):
    def look_ahead_at(self, X, action, available=None):
        block = self.look_ahead(X, available)
        block.proba = block.proba[:, 0]
        return block


class LooksAtAll(Honest):
    def look_ahead_at(self, X, action, available=None):
        return self.look_ahead(X, available)


class RowThatDisagrees(EpsilonGreedy):
    def action_row(self):
        return super().action_row()[::-1]

    def _proba(self, X, available):
        proba = super()._proba(X, available)
        return proba[:, ::-1] if available is None else proba


class RowAsAnArray(UCB1):
    def action_row(self):
        return np.array(super().action_row())


class RowWrittenTo(UCB1):
    def reset(self, logs):
        super().reset(logs)
        self.row_ = super().action_row()

    def action_row(self):
        return self.row_

    def update(self, X, action, reward, proba):
        super().update(X, action, reward, proba)
        self.row_[:] = super().action_row()
        return True


class TakesNoWeight(EpsilonGreedy):
    def update(self, X, action, reward, proba):
        return super().update(X, action, reward, proba)


class WeighsWrongly(EpsilonGreedy):
    def update(self, X, action, reward, proba, weight=None):
        reward = reward if weight is None else -weight * reward
        return super().update(X, action, reward, proba)


class Thompson(AdaptivePolicy):
    """Takes the best of one draw from the posterior of every arm."""

    def __init__(self, random_state=0):
        self.random_state = random_state

    def reset(self, logs):
        super().reset(logs)
        self.counts_ = np.ones((2, logs.n_actions))
        self.rng_ = self._generator()
        self.best_ = 0

    def _generator(self):
        return np.random.RandomState(self.random_state)

    def _proba(self, X, available):
        score = np.arange(self.counts_.shape[1]) == self.best_
        proba = np.tile(0.1 + 0.7 * score, (len(X), 1))
        if available is not None:
            proba = np.where(available, proba, 0.0)
        return proba / proba.sum(axis=1, keepdims=True)

    def update(self, X, action, reward, proba):
        self.counts_[int(reward), action] += 1
        self.best_ = int(self._draw().argmax())
        return True

    def _draw(self):
        return self.rng_.beta(self.counts_[1], self.counts_[0])


class NewThompson(Thompson):
    def _generator(self):
        return np.random.default_rng(self.random_state)


class SeededOtherwise(Thompson):
    def __init__(self, seed=0):
        self.seed = seed

    def _generator(self):
        return np.random.RandomState(self.seed)


class SeededAnew(SeededOtherwise):
    """Holds no generator: every update makes one."""

    def _generator(self):
        return None

    def _draw(self):
        rng = np.random.default_rng([self.seed, int(self.counts_.sum())])
        return rng.beta(self.counts_[1], self.counts_[0])


class SeededForEver(Thompson):
    def _generator(self):
        return {"draws": [random.Random(0)]}

    def _draw(self):
        draw = self.rng_["draws"][0].betavariate
        return np.array([draw(*pair) for pair in self.counts_[::-1].T])


class SeededNowhere(Thompson):
    def __init__(self):
        pass

    def _generator(self):
        return np.random.Generator(np.random.MT19937(3))


class OtherActions(Honest):
    def reset(self, logs):
        super().reset(logs)
        self.classes_ = np.arange(logs.n_actions)


MUTANTS = {
    DropsAnAction: "classes_ must be the actions of the logs, .* after the update with",
    OtherActions: "classes_ must be the actions of the logs, .* after reset",
    DropsAColumn: r"predict_proba must return an array of shape \(\d+, 3\)",
    DoesNotSumToOne: r"predict_proba must sum to 1 over the actions, got 0\.9",
    ForgetsTheOffers: "where it is not available",
    ChangesSilently: "update returned False with row .* but probabilities have changed",
    SaysNothing: "update must return True or False, got None",
    ChangesWhereItIsAsked: "gives different probabilities when asked twice",
    DrawsAtRandom: "gives different probabilities when asked twice",
    RemembersWhatItWasAsked: "changes with rejected rounds",
    ForgetsToForget: "gives other probabilities after reset",
    IsNotSeeded: "gives other probabilities after reset",
    SharesItsState: "gives other probabilities after reset",
    RefreshesNothing: "look_ahead or refresh disagrees with predict_proba",
    RefreshesTooLate: "look_ahead or refresh disagrees with predict_proba",
    RefreshesWithoutAnAnswer: "refresh must return True or False, got None",
    LooksAheadWrongly: "look_ahead or refresh disagrees with predict_proba",
    LooksAheadWithoutABlock: "must return an object with .* refresh, got ndarray",
    LooksAtOthers: "look_ahead_at or refresh disagrees with predict_proba",
    LooksAtAll: r"look_ahead_at must give one probability per row.*\(32, 3\)",
    RowThatDisagrees: "action_row disagrees with predict_proba",
    RowAsAnArray: "action_row must return a list, got ndarray",
    RowWrittenTo: "action_row returned a list that update wrote to",
    TakesNoWeight: "says takes_weight, but its update takes no weight",
    SeededOtherwise: "draws the same numbers in every trajectory, from 'rng_'",
    SeededAnew: "draws random numbers from its parameter 'seed'",
    SeededForEver: "numbers in every trajectory, from \"rng_\\['draws'\\]\\[0\\]",
    SeededNowhere: "draws the same numbers in every trajectory, from 'rng_'",
    WeighsWrongly: "gives other probabilities with weight=1",
}


@pytest.mark.few_cases(12)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mutant_is_found(mutant):
    with pytest.raises(AssertionError, match=MUTANTS[mutant]) as found:
        check_adaptive_policy(mutant())
    assert re.search(rf"^{mutant.__name__}\b", str(found.value))


class HasAnIdleGenerator(Honest):
    def __init__(self, seed=3):
        self.seed = seed

    def reset(self, logs):
        super().reset(logs)
        self.rng_ = np.random.RandomState(self.seed)


def test_honest_policies_pass():
    policy = Honest()
    check_adaptive_policy(policy)
    assert vars(policy) == {}  # it was cloned
    check_adaptive_policy(Honest(), make_logs(100, available=True))
    check_adaptive_policy(EpsilonGreedy(), make_logs(100, 2))
    # that draw their own numbers, or none
    for policy in (Thompson(), NewThompson(4), HasAnIdleGenerator()):
        check_adaptive_policy(policy)


class CopiesAGenerator(Thompson):
    def _generator(self):
        return copy.deepcopy(self.random_state)


def test_a_generator_as_random_state_is_found():
    """A clone has a copy of it, in the same state."""
    with pytest.raises(AssertionError, match="the same numbers in every trajectory"):
        check_adaptive_policy(CopiesAGenerator(np.random.RandomState(0)))


def test_logs_and_policies_that_cannot_be_checked():
    logs = make_logs(40)
    logs = logs[logs.action_index > 0]
    with pytest.raises(AssertionError, match="no round of the logs was accepted"):
        check_adaptive_policy(UCB1(), logs)
    for wrong in (ClassifierPolicy(), EpsilonGreedy, "UCB1"):
        name = getattr(wrong, "__name__", type(wrong).__name__)
        with pytest.raises(TypeError, match=f"of AdaptivePolicy .* got {name}"):
            check_adaptive_policy(wrong)
