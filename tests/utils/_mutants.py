# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluators with one fault each, and the checks that must find it."""

from copy import copy

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

from skope_ope import (
    IPS,
    SNIPS,
    ActionRewardModel,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
)
from tests._values import stated_value

MUTANTS = {}


def fails(*checks):
    def register(cls):
        MUTANTS[cls] = {f"check_{name}" for name in checks}
        return cls

    return register


def changed(result, **numbers):
    out, estimate = copy(result), copy(result._estimate)
    for name, number in numbers.items():
        setattr(estimate, name, float(number))
    out._estimate = estimate
    return out


@fails("on_policy_value_is_the_mean_reward", "one_action")
class DividesByTheWrongN(IPS):
    def terms(self, rounds):
        n = len(rounds.r)
        return (rounds.w * rounds.r * n / (n - 1),)


@fails("constant_rewards_give_that_constant", "one_action")
class PromisesConstants(IPS):
    def weights(self, w):
        return w * 1.01

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.constant_reward = True
        return tags


@fails("shift_of_rewards")
class ForgetsToNormalise(SNIPS):
    combine = staticmethod(IPS.combine)

    def terms(self, rounds):
        return (rounds.w * rounds.r,)


@fails("round_values_are_slopes_of_the_value")
class HasAWrongGradient(SNIPS):
    @staticmethod
    def combine(m):
        return m[0] / m[1], (1 / m[1], -m[0] / m[1] * 0.5)


@fails("scale_of_rewards")
class CutsRewards(IPS):
    def terms(self, rounds):
        return (rounds.w * np.minimum(rounds.r, 1.0),)


@fails("log_of_all_cells_gives_the_value")
class SquaresTheWeights(IPS):  # what else there is to know of a value holds
    def terms(self, rounds):
        return (rounds.w**2 * rounds.r,)


@fails("log_of_all_cells_gives_the_value")
class ForgetsTheWeights(IPS):
    def terms(self, rounds):
        return (np.where(rounds.w > 0, rounds.r, 0.0),)


@fails("log_of_all_cells_gives_the_value")
class SquaresTheWeightsOfResiduals(DoublyRobust):
    def weights(self, w):
        return w**2


@fails("logs_are_left_alone")
class WritesIntoTheRewards(IPS):
    def terms(self, rounds):
        r = rounds.r
        r *= 1.0  # the logs are read-only: raises
        return (rounds.w * r,)


@fails("logs_are_left_alone")
class WritesIntoTheUsersContexts(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        result = super()._evaluate(policy, logs, sample_weight)
        base = logs.context.base
        if base is not None and base.flags.writeable:
            base[0] += 1
        return result


@fails("logs_are_left_alone")
class WritesIntoThePolicy(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        result = super()._evaluate(policy, logs, sample_weight)
        if isinstance(policy, np.ndarray) and policy.flags.writeable:
            policy[0] = 1 / policy.shape[1]
        return result


@fails("weight_two_is_the_round_twice", "sample_weight_is_checked")
class IgnoresWeights(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        return super()._evaluate(policy, logs.replace(sample_weight=None), None)


@fails("weight_two_is_the_round_twice")
class IgnoresWeightsOfTheLogs(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        logs = logs.replace(sample_weight=None)
        return super()._evaluate(policy, logs, sample_weight)


@fails(
    "copies_in_a_group_are_one_round",
    "one_group_has_no_standard_error",
    "few_groups_warn",
)
class IgnoresGroups(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        return super()._evaluate(policy, logs.replace(group=None), sample_weight)


class JoinsGroups(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        if logs.group is not None and self._joins(logs.group):
            pairs = np.unique(logs.group, return_inverse=True)[1] // 2
            logs = logs.replace(group=pairs)
        return super()._evaluate(policy, logs, sample_weight)


@fails("copies_in_a_group_are_one_round", "groups_of_one_round_are_independent_rounds")
class PairsGroups(JoinsGroups):
    def _joins(self, group):
        return True


@fails("labels_of_groups_do_not_matter")
class PairsGroupsWithNames(JoinsGroups):
    def _joins(self, group):
        return group.dtype.kind == "U"


@fails("names_of_actions_do_not_matter")
class LikesText(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        result = super()._evaluate(policy, logs, sample_weight)
        liking = 0.01 * (logs.actions.dtype.kind == "U")
        return changed(result, value=result.value + liking)


@fails("names_of_actions_do_not_matter")
class LikesTheFirstAction(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        weight = np.where(logs.action_index == 0, 1.1, 1.0)
        if sample_weight is not None:
            weight = weight * sample_weight
        return super()._evaluate(policy, logs, weight)


@fails("order_of_rounds_does_not_matter")
class LikesTheFirstRounds(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        weight = np.linspace(1.1, 1.0, len(logs))
        if sample_weight is not None:
            weight = weight * sample_weight
        return super()._evaluate(policy, logs, weight)


@fails("blocks_do_not_matter")
class NormalisesEveryBlock(IPS):
    def terms(self, rounds):
        return (rounds.w * rounds.r / rounds.w.mean(),)


@fails("same_answer_each_time", "clone", "pickle", "skops")
class Gambles(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        result = super()._evaluate(policy, logs, sample_weight)
        return changed(result, value=result.value + np.random.default_rng().random())


@fails("same_answer_each_time", "array_column_and_object_are_one_policy")
class RemembersTheLastAnswer(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        result = super()._evaluate(policy, logs, sample_weight)
        last = getattr(self, "last_", 0.0)
        self.last_ = 0.001
        return changed(result, value=result.value + last)


@fails("impossible_action_warns")
class WarnsOfNothing(IPS):
    def evaluate(self, policy, logs=None, sample_weight=None):
        return self._result(policy, logs, sample_weight)


@fails("impossible_action_warns")
class IsNeverNaN(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        result = super()._evaluate(policy, logs, sample_weight)
        return changed(result, value=np.nan_to_num(result.value))


@fails("standard_error_is_that_of_the_round_values")
class ForgetsADegreeOfFreedom(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        result = super()._evaluate(policy, logs, sample_weight)
        error = result.standard_error * np.sqrt((len(logs) - 1) / len(logs))
        return changed(result, standard_error=error)


@fails("one_round")
class IsSureOfOneRound(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        result = super()._evaluate(policy, logs, sample_weight)
        return changed(result, standard_error=np.nan_to_num(result.standard_error))


@fails("score_is_the_value")
class ScoresInNumpy(IPS):
    def score(self, policy, logs=None, sample_weight=None):
        return np.float64(super().score(policy, logs, sample_weight))


@fails("score_is_the_value")
class ScoresSomethingElse(IPS):
    def score(self, policy, logs=None, sample_weight=None):
        if isinstance(policy, BanditLogs):
            return super().score(policy)
        result = self.evaluate(policy, logs, sample_weight)
        return result.value - result.standard_error


@fails("score_refuses_logs")
class ScoresLogs(IPS):
    def score(self, policy, logs=None, sample_weight=None):
        if isinstance(policy, BanditLogs):
            return 0.0
        return super().score(policy, logs, sample_weight)


@fails("classifier_is_refused")
class TakesClassifiers(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        if hasattr(policy, "predict_log_proba"):
            policy = policy.predict_proba(logs.context)
        return super()._evaluate(policy, logs, sample_weight)


@fails("unfitted_raises", "clone")
class SaysItIsFitted(IPS):
    def __sklearn_is_fitted__(self):
        return True


@fails("fit")
class ChangesItsParameters(IPS):
    def fit(self, logs, reward_model=None):
        super().fit(logs, reward_model)
        self.cmax = 1e6 if self.cmax is None else 2 * self.cmax
        return self


@fails("fit")
class FitsTheContextAlone(IPS):
    def fit(self, logs, reward_model=None):
        if not isinstance(logs, BanditLogs):
            return self
        return super().fit(logs, reward_model)


@fails("propensity_is_needed")
class SaysItNeedsNoPropensity(IPS):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.needs_propensity = False
        return tags


@fails("pickle")
class KeepsAFunction(IPS):
    def fit(self, logs, reward_model=None):
        super().fit(logs, reward_model)
        self.function_ = lambda w: w
        return self


@fails("parameters_are_keywords")
class TakesPositions(IPS):
    def __init__(self, cmax=None):
        self.cmax = cmax


@fails("parameters_are_keywords")
class CopiesItsParameters(IPS):
    def __init__(self, *, names=("a", "b")):
        self.names = names

    _parameter_constraints: dict = {"names": "no_validation"}
    cmax = None

    def set_params(self, **params):
        super().set_params(**params)
        self.names = tuple(name for name in self.names)
        return self


@fails("tags")
class HasTheTagsOfScikitLearn(IPS):
    def __sklearn_tags__(self):
        return BaseEstimator.__sklearn_tags__(self)


@fails("paired_difference")
class ForgetsWhichRounds(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        found = super()._evaluate(policy, logs, sample_weight)
        about = {"round_values": found.round_values, "warnings": found.warnings}
        about |= {"estimator": "IPS", "diagnostics": dict(found.diagnostics)}
        return stated_value(found.value, found.standard_error, len(logs), **about)


@fails("logs_must_match_those_of_fit")
class TakesAnyLogs(IPS):
    def _result(self, policy, logs, sample_weight):
        return self._evaluate(policy, self.logs_ if logs is None else logs, None)


@fails("other_logs", "one_round")
class EvaluatesTheLogsOfFit(IPS):
    def _evaluate(self, policy, logs, sample_weight):
        return super()._evaluate(policy, self.logs_, sample_weight)


@fails("reward_model_is_given_once")
class TakesTwoModels(DoublyRobust):
    def _one_model(self, reward_model):
        return self.reward_model if reward_model is None else reward_model


@fails("reward_model_is_given_once")
class UsesAModelItDoesNotNeed(IPS):
    def fit(self, logs, reward_model=None):
        if reward_model is not None:
            logs = logs.replace(reward=np.full(len(logs), float(reward_model)))
        return super().fit(logs)


@fails("no_round_is_predicted_by_a_model_that_saw_it")
class FitsInSample(DoublyRobust):
    def fit_reward_model(self, logs, model, *about, **more):
        if hasattr(model, "fit"):
            model = FrozenEstimator(ActionRewardModel(model).fit(logs))
        return super().fit_reward_model(logs, model, *about, **more)


@fails("no_round_is_predicted_by_a_model_that_saw_it", "rounds_of_fit_are_recognised")
class ForgetsWhichRoundsItFitted(DoublyRobust):
    def _evaluate(self, policy, logs, sample_weight):
        if logs is not self.logs_ and self.reward_model != "q_hat":
            logs = BanditLogs(
                logs.context, logs.action, logs.reward, logs.propensity,
                actions=logs.actions,
            )  # fmt: skip
            logs.__dict__["_context_words"] = np.zeros(len(logs), np.uint64)
        return super()._evaluate(policy, logs, sample_weight)


@fails("shift_of_rewards", "one_action")
class ShrinksItsModel(DirectMethod):
    def terms(self, rounds):
        return (0.9 * rounds.v,)


@fails("names_of_actions_do_not_matter")
class ShiftsTheColumnsOfItsModel(DirectMethod):
    def _evaluate(self, policy, logs, sample_weight):
        if not isinstance(policy, (np.ndarray, str, list)):
            policy = policy.predict_proba(logs.context)[:, ::-1]
        return super()._evaluate(policy, logs, sample_weight)


@fails("other_logs")
class TakesArraysForOtherLogs(DoublyRobust):
    def _evaluate(self, policy, logs, sample_weight):
        kept = self.reward_model_
        if logs is not self.logs_ and hasattr(kept, "q_hat"):
            self.reward_model_ = DirectMethod(reward_model=0.0).fit(logs).reward_model_
        try:
            return super()._evaluate(policy, logs, sample_weight)
        finally:
            self.reward_model_ = kept


@fails("groups_are_refused")
class TakesGroupsAfterAll(IPS):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.takes_groups = False
        return tags
