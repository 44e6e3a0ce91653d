# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluators of slates with one fault each, and the checks that must find it."""

import numpy as np

from skope_ope import PseudoInverse
from skope_ope.evaluators import PolicyValue
from tests._values import stated_value
from tests.utils._mutants import changed, fails


class Careless(PolicyValue):
    def __sub__(self, other):
        return stated_value(
            self.value - other.value, self.standard_error, 120, estimator="difference"
        )


class ChangesTerms(PseudoInverse):
    def slate_terms(self, target, logs):
        found = super().slate_terms(target, logs)
        found.terms = (self._wrong(found, logs),)
        return found

    def _wrong(self, found, logs):
        return found.terms[0]


@fails("unfitted_raises")
class AnswersUnfitted(PseudoInverse):
    def _result(self, policy, logs, sample_weight):
        if not hasattr(self, "logs_"):
            return stated_value(0.0, 0.0, 1, estimator="guess")
        return super()._result(policy, logs, sample_weight)


@fails("fit")
class ChangesItsParameters(PseudoInverse):
    def fit(self, logs, reward_model=None):
        super().fit(logs, reward_model)
        self.outside_range = "raise"
        return self


@fails("score_is_the_value")
class ScoresAnotherNumber(PseudoInverse):
    def score(self, policy, logs=None, sample_weight=None):
        return super().score(policy, logs, sample_weight) + 1.0


@fails("logs_are_left_alone")
class WritesIntoThePolicy(PseudoInverse):
    def _evaluate(self, policy, logs, sample_weight):
        if isinstance(policy, np.ndarray):
            policy[0] = policy[1]
        return super()._evaluate(policy, logs, sample_weight)


@fails("same_answer_each_time")
class DrawsWithoutASeed(ChangesTerms):
    def _wrong(self, found, logs):
        return found.terms[0] + np.random.RandomState().normal()


@fails("other_logs")
class KeepsToItsLogs(PseudoInverse):
    def _result(self, policy, logs, sample_weight):
        return super()._result(policy, None, sample_weight)


@fails("scale_of_rewards")
class CutsRewards(ChangesTerms):
    def _wrong(self, found, logs):
        return found.weight * np.minimum(logs.reward, 1.0)


@fails("log_of_all_cells_gives_the_value")
class SquaresTheWeights(ChangesTerms):
    def _wrong(self, found, logs):
        return found.weight**2 * logs.reward


@fails("log_of_all_cells_gives_the_value")
class ForgetsTheWeights(ChangesTerms):
    def _wrong(self, found, logs):
        return logs.reward


@fails("constant_rewards_give_that_constant")
class PromisesConstants(PseudoInverse):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.constant_reward = True
        return tags


@fails("on_policy_value_is_the_mean_reward")
class DividesByTheWrongN(ChangesTerms):
    def _wrong(self, found, logs):
        return found.terms[0] * len(logs) / (len(logs) - 1)


@fails("paired_difference")
class SubtractsOtherRounds(PseudoInverse):
    def _evaluate(self, policy, logs, sample_weight):
        result = super()._evaluate(policy, logs, sample_weight)
        result.__class__ = Careless
        return result


@fails("standard_error_is_that_of_the_round_values")
class IsTooSure(PseudoInverse):
    def _evaluate(self, policy, logs, sample_weight):
        result = super()._evaluate(policy, logs, sample_weight)
        return changed(result, standard_error=result.standard_error / 2)


@fails("order_of_rounds_does_not_matter")
class TrustsLateRounds(ChangesTerms):
    def _wrong(self, found, logs):
        return found.terms[0] * np.linspace(0.5, 1.5, len(logs))
