# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    cross_validate,
    learning_curve,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    DoublyRobust,
    DRns,
    EvaluatorScorer,
    IPSPolicy,
    OPESearchCV,
    PolicyScorer,
    PropensityEstimator,
    RewardModelPolicy,
    UniformPolicy,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import LowOverlapWarning
from tests.selection._logs import losses_of, problem

GRID = {"epsilon": [0.0, 0.5], "classifier__var_smoothing": [1e-9, 1.0]}
POLICY = ClassifierPolicy(GaussianNB())
ignore = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def test_score_is_the_value_on_held_out_rounds():
    logs, policy = problem()
    evaluator = DoublyRobust(reward_model=Ridge(), cv=3)
    held_out = logs[200:]
    value = clone(evaluator).fit(held_out).score(policy)
    assert PolicyScorer(evaluator)(policy, held_out) == value
    assert not hasattr(evaluator, "logs_")


class NosyRidge(Ridge):
    """Notes the rewards that it has seen."""

    seen = ()

    def fit(self, X, y, sample_weight=None):
        NosyRidge.seen = (*NosyRidge.seen, set(y.tolist()))
        return super().fit(X, y, sample_weight)


@ignore
def test_no_model_sees_the_rewards_it_corrects():
    logs, _ = problem(90)
    rewards = np.arange(90.0) / 100  # every reward names its round
    logs = logs.replace(reward=rewards)
    NosyRidge.seen = ()
    scorer = PolicyScorer(DoublyRobust(reward_model=NosyRidge(), cv=3))
    search = GridSearchCV(POLICY, {"epsilon": [0.0, 0.5]}, scoring=scorer, cv=3)
    search.set_params(refit=False).fit(logs)
    for held_out in np.split(logs.reward, 3):
        for part in np.split(held_out, 3):
            # the models that predict for a part saw the rest of the held-out rounds
            rest = set(held_out) - set(part)
            fits = [seen for seen in NosyRidge.seen if seen <= rest]
            assert set().union(*fits) == rest
    # and no model saw rounds of two held-out parts: none was fitted in training
    folds = [set(part) for part in np.split(logs.reward, 3)]
    assert all(any(seen <= fold for fold in folds) for seen in NosyRidge.seen)


@pytest.mark.few_cases(2)
@ignore
@pytest.mark.parametrize(
    "evaluator", [IPS(), SNIPS(), DoublyRobust(reward_model=Ridge(), cv=2), DRns()]
)
def test_searches(evaluator):
    logs, _ = problem()
    how = {"scoring": PolicyScorer(evaluator), "cv": 3}
    search = GridSearchCV(POLICY, GRID, **how).fit(logs)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    outer = cross_validate(search, logs, cv=2)["test_score"]
    assert np.isfinite(outer).all()
    _, _, test = learning_curve(POLICY, logs, None, train_sizes=[0.5, 1.0], **how)
    assert np.isfinite(test).all()


@ignore
def test_halving_needs_a_number_of_rounds_for_a_classifier():
    logs, _ = problem(400)
    how = {"cv": 2, "min_resources": 100, "random_state": 0}
    grid, scorer = {"epsilon": [0.1, 0.5]}, PolicyScorer(SNIPS())
    search = HalvingGridSearchCV(POLICY, grid, scoring=scorer, **how)
    assert set(search.fit(logs).cv_results_["n_resources"]) == {100}


@pytest.mark.few_cases(1)
@ignore
@pytest.mark.parametrize("backend", [None, "threading", "loky"])
def test_one_model_fit_per_held_out_part_and_the_same_losses(backend):
    logs, _ = problem(n_actions=3)
    NosyRidge.seen = ()
    scorer = PolicyScorer(DoublyRobust(reward_model=NosyRidge(), cv=2))
    shared = OPESearchCV(POLICY, GRID, scoring=scorer, cv=3)
    with parallel_config(backend or "loky"):
        shared.set_params(n_jobs=2 if backend else None).fit(logs)
    assert len(NosyRidge.seen) == (0 if backend == "loky" else 3 * 2 * 3)
    plain = GridSearchCV(POLICY, GRID, scoring=scorer, cv=3).fit(logs)
    np.testing.assert_array_equal(losses_of(shared), losses_of(plain))


def test_several_evaluators():
    logs, _ = problem(600)
    scorers = {"dr": PolicyScorer(DoublyRobust()), "ips": PolicyScorer(IPS())}
    how = {"scoring": scorers, "refit": "dr", "cv": 3}
    search = GridSearchCV(POLICY, {"epsilon": [0.3, 0.5]}, **how).fit(logs)
    assert set(search.scorer_) == {"dr", "ips"}
    assert np.isfinite(search.cv_results_["mean_test_ips"]).all()


def test_steps_estimate_missing_propensities_of_held_out_rows():
    logs, _ = problem()
    unknown = logs.replace(propensity=None, logging_proba=None)
    train, test = unknown[:200], unknown[200:]
    pipe = make_pipeline(PropensityEstimator(cv=2), IPSPolicy()).fit(train)
    value = IPS().fit(pipe[:-1].transform(test)).score(pipe[-1])
    assert PolicyScorer(IPS())(pipe, test) == value
    with pytest.raises(ValueError, match="IPS needs the propensities"):
        PolicyScorer(IPS())(pipe[-1], test)


@ignore
def test_it_travels_and_its_randomness_is_common():
    logs, policy = problem()
    for scorer in (PolicyScorer(DRns()), PolicyScorer(DoublyRobust())):
        copy = pickle.loads(pickle.dumps(scorer))
        assert copy(policy, logs) == scorer(policy, logs)
    assert repr(scorer) == "PolicyScorer(DoublyRobust())"


def test_bad_input():
    logs, policy = problem()
    scorer = PolicyScorer(IPS())
    array_model = DoublyRobust(reward_model=np.zeros((300, 3)))
    classifier = LogisticRegression().fit(logs.context, logs.action)
    search = GridSearchCV(POLICY, GRID)
    for call, match in (
        ((scorer, IPS().fit(logs), logs), r"got the evaluator IPS.*EvaluatorScorer"),
        ((scorer, policy, logs.context), r"got ndarray.*on BanditLogs, search.fit\("),
        ((scorer, classifier, logs), "Wrap it"),
        ((PolicyScorer, policy), r"expects an evaluator.*EvaluatorScorer\(policy\)"),
        ((PolicyScorer, IPS), "make an instance"),
        ((PolicyScorer, "IPS"), "got str"),
        ((PolicyScorer, EvaluatorScorer(policy)), "got EvaluatorScorer"),
        ((PolicyScorer, array_model), "reward_model='q_hat'"),
        ((search.fit, logs), "no scoring is specified"),
        ((policy.score, logs), "scoring=PolicyScorer"),
    ):
        with pytest.raises(TypeError, match=match):
            call[0](*call[1:])


@ignore
def test_no_value_is_nan_with_the_reason():
    logs, _ = problem(60)
    never = ConstantPolicy("never").fit(logs.context, ["never"] * 60)
    given = (logs.context, logs.action.astype(str), logs.reward, logs.propensity)
    logs = BanditLogs(*given, actions=[*map(str, logs.actions), "never"])
    assert np.isnan(PolicyScorer(IPS())(never, logs))
    assert np.isfinite(PolicyScorer(IPS())(UniformPolicy(), logs))


@ignore
def test_held_out_rounds_that_say_nothing_about_the_policy():
    logs, _ = problem()
    never = logs[logs.action_index != 0]
    for evaluator in (IPS(), DoublyRobust()):
        with pytest.warns(LowOverlapWarning, match=r"gave .* without any evidence"):
            PolicyScorer(evaluator)(ConstantPolicy(logs.actions[0]), never)


@ignore
@pytest.mark.theory
def test_nested_search_gains_nothing_where_nothing_matters(global_random_seed):
    """Over 40 worlds; the best score of the inner search is optimistic there."""
    n_worlds, rng = 40, np.random.RandomState(global_random_seed)
    ridge = RewardModelPolicy(Ridge())
    grid = [
        {"policy": [POLICY], "policy__epsilon": [0.0, 0.2]},
        {"policy": [ridge], "policy__reward_model__alpha": [1.0, 100.0]},
    ]
    scorer = PolicyScorer(DoublyRobust(cv=2))
    search = GridSearchCV(Pipeline([("policy", POLICY)]), grid, scoring=scorer, cv=2)
    inner, outer = np.empty(n_worlds), np.empty(n_worlds)
    world = {"n_actions": 3, "logging_temperature": np.inf, "random_state": rng}
    for k in range(n_worlds):
        logs = make_bandit_logs(200, **world)
        logs = logs.replace(reward=rng.randint(2, size=200).astype(float))
        nested = cross_validate(search, logs, cv=2, return_estimator=True)
        logger = logs.reward.mean()
        outer[k] = nested["test_score"].mean() - logger
        inner[k] = np.mean([one.best_score_ for one in nested["estimator"]]) - logger
    assert abs(outer.mean()) < 4 * outer.std(ddof=1) / n_worlds**0.5
    assert inner.mean() > 4 * inner.std(ddof=1) / n_worlds**0.5
