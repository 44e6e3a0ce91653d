# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Both contract suites over every class: scikit-learn's, and that of evaluators."""

import re
from contextlib import suppress
from functools import partial
from unittest import SkipTest

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import estimator_checks_generator

import skope_ope as ope
from skope_ope import policies
from skope_ope.logs import DistinctViews
from skope_ope.propensities import LoggerPropensityEstimator
from skope_ope.utils import (
    _check_rounds,
    _contract_checks,
    _law_checks,
    all_evaluators,
    all_policies,
    all_slate_policies,
)
from skope_ope.utils.estimator_checks import (
    check_evaluator,
    parametrize_with_evaluator_checks,
)

INF = float("inf")

EVALUATORS = [
    *(ope.IPS(cmax=cmax) for cmax in (None, 0.5, 2.0)),
    *(ope.SNIPS(cmax=cmax) for cmax in (None, 0.5)),
    ope.DirectMethod(),
    ope.DirectMethod(reward_model=DecisionTreeRegressor()),
    ope.DoublyRobust(),
    ope.DoublyRobust(cmax=0.5),
    ope.DoublyRobust(reward_model=make_pipeline(StandardScaler(), Ridge()), cv=3),
    ope.DoublyRobust(reward_model=ope.ActionRewardModel(Ridge(), encoding="one_hot")),
    ope.SNDR(),
    ope.SwitchDR(),
    *(ope.SwitchDR(tau=tau) for tau in (0.0, 0.7, INF)),
    ope.DRos(),
    *(ope.DRos(lam=lam) for lam in (0.0, INF)),
    ope.SubGaussianIPS(),
    *(ope.SubGaussianIPS(lam=lam) for lam in (0.0, 1.0)),
    ope.SubGaussianDR(),
    *(ope.SubGaussianDR(lam=lam) for lam in (0.0, 1.0)),
    *(ope.LogSmoothing(lam=lam) for lam in (None, 0.0, 0.3)),
    ope.MRDR(),
    ope.MRDR(reward_model=Ridge(), cv=3),
    ope.Replay(),
    ope.RejectionSampling(),
    ope.RejectionSampling(cmax="target"),
    ope.DRns(),
    ope.DRns(q=0.0, cmax=0.5),
    ope.DRns(reward_model=Ridge(), cv=3, q=0.5),
    ope.DRns(acceptance="worst_case"),
    ope.DRns(normalize=False),
    ope.DRns(horizon=20),
    ope.DRns(horizon=20, normalize="pooled"),
    ope.DRns(n_splits=3),
    ope.PseudoInverse(),
    ope.PseudoInverse(self_normalized=True),
    ope.PseudoInverse(cmax=2.0),
    *(ope.PseudoInverse(control_variates=how) for how in ("single", "multiple")),
    *(ope.SlateIPS(self_normalized=ratio) for ratio in (False, True)),
    ope.SlateDirectMethod(),
    ope.SlateDirectMethod(reward_model=Ridge(), cv=3),
    *(ope.SlateDoublyRobust(cmax=cmax) for cmax in (None, 2.0)),
    ope.IndependentSlotIPS(),
    ope.CascadeIPS(),
    *(ope.CascadeDR(reward_model=model) for model in (None, Ridge())),
    *(ope.MultiLoggerIPS(self_normalized=ratio) for ratio in (False, True)),
    *(ope.MultiLoggerIPS(pooling=how) for how in ("balanced", "weighted")),
    ope.MultiLoggerIPS(pooling="weighted", self_normalized=True, divergences=[2.0]),
    ope.MultiLoggerDR(),
    ope.MultiLoggerDR(pooling="balanced", self_normalized=True),
    ope.MultiLoggerDR(pooling="weighted", reward_model=Ridge(), cv=3),
    ope.AdaptiveIPS(),
    ope.AdaptiveDR(),
    ope.AdaptiveDR(reward_model=Ridge(), n_refits=3),
    ope.ExplorationScavenging(),
    ope.ExplorationScavenging(self_normalized=True, on_missing="nan"),
    ope.PositionScavenging(attention=[1.0, 0.5]),
    ope.ReorderingScavenging(attention=[1.0, 0.5]),
]
# Every class is checked: what has no setting above by its defaults.
LISTED = tuple({type(evaluator) for evaluator in EVALUATORS})
EVALUATORS += [cls() for _, cls in all_evaluators() if cls not in LISTED]


def two_actions(X):
    return np.tile([0.25, 0.75], (X.shape[0], 1))


def history_of_two_actions(X, history):
    return two_actions(X)


POLICIES = [
    ope.ClassifierPolicy(),
    ope.ClassifierPolicy(DecisionTreeClassifier(random_state=0), epsilon=0.2),
    ope.ClassifierPolicy(GaussianNB(), temperature=0.5),
    ope.ClassifierPolicy(make_pipeline(StandardScaler(), LogisticRegression())),
    ope.UniformPolicy(),
    ope.ConstantPolicy(1),  # 1 is an action in all data of the checks
    ope.FunctionPolicy(two_actions),
    ope.MixturePolicy([ope.UniformPolicy(), ope.ClassifierPolicy()], [0.25, 0.75]),
]
ADAPTIVE_POLICIES = [
    *(ope.EpsilonGreedy(), ope.UCB1(), ope.LinUCB(), policies.EpochGreedy()),
    policies.OnlineClassifierPolicy(LogisticRegression()),
    policies.SegmentedPolicy(ope.EpsilonGreedy(), 0),
    policies.AdaptiveFunctionPolicy(history_of_two_actions),
]
EXPLORATION = ope.BanditLogs(
    np.zeros((4, 2)), [0, 1, 0, 1], [0.0, 1.0, 1.0, 0.0], timestamp=[0, 1, 2, 3]
)
BATCH_POLICIES = [policies.BatchPolicy(ope.EpsilonGreedy(), EXPLORATION, 2)]
LEARNED_POLICIES = [
    ope.IPSPolicy(),
    ope.DRPolicy(),
    ope.RewardModelPolicy(Ridge()),
    ope.SoftmaxPolicy(),
]
SLATE_POLICIES = [
    ope.UniformSlatePolicy(2),
    ope.PlackettLuceSlatePolicy([3.0, 2.0, 1.0], 2),
    policies.ProductSlatePolicy([[0.5, 0.5], [0.1, 0.9]]),
    ope.RankingPolicy(Ridge(), 2),
    policies.EmpiricalSlatePolicy([[0, 1], [1, 2]]),
    policies.MixtureSlatePolicy([ope.UniformSlatePolicy(2)], [1.0]),
    policies.SampledSlatePolicy(ope.UniformSlatePolicy(2)),
]
SLATE_LEARNERS = [ope.PseudoInverseRanker(Ridge())]
LOG_TRANSFORMERS = [
    ope.PropensityClipper(),
    ope.PropensityEstimator(),
    LoggerPropensityEstimator(),
    DistinctViews(),
]


def checks(names):
    return tuple(f"check_{name}" for name in names.split())


FEEDS_ARRAYS = (
    "feeds arrays to fit, which takes logs; the checks of skope_ope feed logs"
)
ARRAY_CHECKS = checks(
    """
    complex_data dict_unchanged dont_overwrite_parameters dtype_object
    estimator_sparse_array estimator_sparse_matrix estimator_sparse_tag
    estimators_dtypes estimators_empty_data_messages estimators_fit_returns_self
    estimators_nan_inf estimators_overwrite_params estimators_pickle
    f_contiguous_array_estimator fit1d fit2d_1feature fit2d_1sample fit2d_predict1d
    fit_check_is_fitted fit_idempotent fit_score_takes_y methods_sample_order_invariance
    methods_subset_invariance n_features_in n_features_in_after_fitting
    pipeline_consistency positive_only_tag_during_fit readonly_memmap_input
    """
)
TRANSFORMER_CHECKS = checks(
    """
    transformer_data_not_an_array transformer_general transformer_preserve_dtypes
    """
)
BATCH_CHECKS = checks(
    """
    dict_unchanged estimator_sparse_array estimator_sparse_matrix estimators_dtypes
    estimators_pickle f_contiguous_array_estimator fit_idempotent
    methods_sample_order_invariance methods_subset_invariance
    """
)
WEIGHT_CHECKS = checks(
    """
    all_zero_sample_weights_error sample_weight_equivalence_on_dense_data
    sample_weights_list sample_weights_not_an_array sample_weights_not_overwritten
    sample_weights_pandas_series sample_weights_shape
    """
)


def expected_to_fail(estimator):
    if isinstance(estimator, ope.FunctionPolicy):
        reason = "the function knows two actions, the check has four"
        names = ("check_estimator_sparse_array", "check_estimator_sparse_matrix")
        return dict.fromkeys(names, reason)
    if isinstance(estimator, ope.ClassifierPolicy) and (
        estimator.classifier is None or hasattr(estimator.classifier, "steps")
    ):
        reason = "the scaler in front of the classifier is not weighted"
        name = "check_sample_weight_equivalence_on_{}_data"
        return dict.fromkeys(map(name.format, ("dense", "sparse")), reason)
    if isinstance(estimator, tuple(type(policy) for policy in POLICIES)):
        return {}
    if isinstance(estimator, tuple(type(policy) for policy in SLATE_POLICIES)):
        return {}
    if isinstance(estimator, policies.BatchPolicy):
        return dict.fromkeys(BATCH_CHECKS, "predicts for logs, which have times")
    names = ARRAY_CHECKS
    if isinstance(estimator, tuple(type(step) for step in LOG_TRANSFORMERS)):
        names += TRANSFORMER_CHECKS
    if isinstance(estimator, ope.ActionRewardModel):
        names += WEIGHT_CHECKS
    if isinstance(estimator, tuple(type(policy) for policy in SLATE_LEARNERS)):
        # slate policies know no number of features
        names = set(names) - {"check_n_features_in_after_fitting"}
    return dict.fromkeys(names, FEEDS_ARRAYS)


DEFAULTS = list({type(evaluator): evaluator for evaluator in EVALUATORS[::-1]}.values())


def class_that_defines_fit(estimator):
    return next(cls for cls in type(estimator).__mro__ if "fit" in vars(cls))


def representatives(estimators):
    """One class per definition of `fit` and reason of an expected failure.

    Expected failures end in the first lines of `fit`, which wants logs; one class for
    each of these tells that they still fail: a check that passes must leave the table.
    """
    found = {}
    for estimator in estimators:
        for reason in expected_to_fail(estimator).values():
            key = (class_that_defines_fit(estimator), reason)
            found.setdefault(key, type(estimator))
    return found


UNDER_SCIKIT_LEARNS_CONTRACT = [
    *(*DEFAULTS, *POLICIES, *ADAPTIVE_POLICIES, *BATCH_POLICIES, *LEARNED_POLICIES),
    *(*SLATE_POLICIES, *SLATE_LEARNERS, *LOG_TRANSFORMERS),
    ope.ActionRewardModel(Ridge()),
]
REPRESENTATIVES = representatives(UNDER_SCIKIT_LEARNS_CONTRACT)


def without_addresses(estimator):
    """Name a test alike in every process: functions show where they lie in memory."""
    return re.sub(" at 0x[0-9a-f]+", "", repr(estimator))


# A test per check would take as long to set up as to run: there are 1,400 of them.
@pytest.mark.few_cases(24)
@pytest.mark.parametrize(
    "estimator", UNDER_SCIKIT_LEARNS_CONTRACT, ids=without_addresses
)
def test_scikit_learns_contract(estimator):
    expected = expected_to_fail(estimator)
    n_checks, wrong = 0, []
    for instance, check in estimator_checks_generator(estimator):
        name = check.func.__name__
        reason = expected.get(name)
        key = (class_that_defines_fit(estimator), reason)
        if reason is not None and REPRESENTATIVES[key] is not type(estimator):
            continue
        try:
            with suppress(SkipTest):  # of what is not installed
                check(instance)
                n_checks += 1
                if reason is not None:
                    wrong.append(AssertionError(f"{name} passes: {reason!r} is over"))
        except Exception as error:
            if reason is None:
                error.add_note(name)
                wrong.append(error)
    if wrong:
        raise ExceptionGroup(f"{len(wrong)} checks of {estimator!r}", wrong)
    assert n_checks > 10


def laws_that_do_not_hold(evaluator):
    if isinstance(evaluator, ope.LogSmoothing) and evaluator.lam is None:
        names = checks("copies_in_a_group_are_one_round weight_two_is_the_round_twice")
        reason = "lam = 1 / sqrt(n_rounds) counts rounds, and a round twice is two"
        return dict.fromkeys(names, reason)
    if np.ndim(getattr(evaluator, "divergences", "pooled")):
        reason = "its divergences are those of one logger, and there are two"
        return {"check_log_of_all_cells_gives_the_value": reason}
    if getattr(evaluator, "n_splits", 1) > 1:
        return {"check_one_round": "one round cannot be split into parts"}
    if getattr(evaluator, "on_missing", "warn") == "nan":
        return {"check_one_round": "one round leaves actions out, which makes it NaN"}
    return {}


@pytest.mark.few_cases(26)
@parametrize_with_evaluator_checks(
    [ope.IPS(), ope.DoublyRobust()], expected_failed_checks=laws_that_do_not_hold
)
def test_contract_of_evaluators_check_by_check(evaluator, check):
    check(evaluator)


# One test for all checks, as above. The other settings pass the same checks in the test
# of theory below.
@pytest.mark.few_cases(6)
@pytest.mark.parametrize("evaluator", DEFAULTS, ids=repr)
def test_contract_of_evaluators(evaluator):
    expected = laws_that_do_not_hold(evaluator)
    results = check_evaluator(evaluator, expected_failed_checks=expected, on_fail=None)
    failed = [result for result in results if result["status"] == "failed"]
    assert not failed


@pytest.mark.theory
@pytest.mark.parametrize("evaluator", EVALUATORS, ids=repr)
def test_the_laws_hold_in_another_world(evaluator, global_random_seed, monkeypatch):
    other = partial(_check_rounds.random_rounds, seed=1000 + global_random_seed)
    for module in (_contract_checks, _law_checks):
        monkeypatch.setattr(module, "random_rounds", other)
    check_evaluator(evaluator, expected_failed_checks=laws_that_do_not_hold(evaluator))


@pytest.mark.parametrize("listed", [all_evaluators, all_policies, all_slate_policies])
def test_every_class_is_checked(listed):
    checked = {type(estimator) for estimator in UNDER_SCIKIT_LEARNS_CONTRACT}
    assert [name for name, cls in listed() if cls not in checked] == []
