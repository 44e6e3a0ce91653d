# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LearningCurveDisplay,
    ValidationCurveDisplay,
    cross_validate,
    learning_curve,
    validation_curve,
)
from sklearn.pipeline import Pipeline

from skope_ope import (
    IPS,
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    DRns,
    DRos,
    EpsilonGreedy,
    EvaluatorScorer,
    MixturePolicy,
    PropensityClipper,
    PropensityEstimator,
    RejectionSampling,
    Replay,
    SwitchDR,
    UniformPolicy,
)
from skope_ope.base import BaseEvaluator
from skope_ope.exceptions import LowOverlapWarning, ModelErrorWarning, OPEWarning
from tests._quiet import quiet
from tests._values import stated_value
from tests._worlds import W1, d8_logs, exact_moments
from tests.selection._logs import losses_of, problem


def test_loss_by_hand():
    # w r = 0, 1/3, 4, 1/5 | 0, 1/6, 3, 0; clipped at 1: 0, 1/3, 1, 1/5
    halves = [(np.arange(4), np.arange(4, 8))]
    scorer = EvaluatorScorer("pi", IPS())
    search = GridSearchCV(IPS(), {"cmax": [None, 1.0]}, scoring=scorer, cv=halves)
    search.set_params(error_score="raise").fit(d8_logs())
    trained = np.array([68 / 15, 23 / 15]) / 4
    np.testing.assert_allclose(losses_of(search)[0], (trained - 19 / 24) ** 2)
    assert search.best_params_ == {"cmax": None}
    assert search.best_score_ == -losses_of(search)[0, 0]


def test_expected_loss_is_squared_bias_and_both_variances():
    # A round to learn from and one to validate: all 144 logs of W1. The bias and n
    # Var of IPS clipped at 2, and n Var of IPS, are exact numbers of W1.
    def loss(log):
        logs = BanditLogs(
            log.x[:, None], log.action, log.reward, log.propensity, actions=[0, 1, 2]
        ).with_columns(pi=log.pi)
        scorer = EvaluatorScorer("pi", IPS())
        return -scorer(IPS(cmax=2.0).fit(logs[:1]), logs[1:])

    expected, _ = exact_moments(W1, 2, loss)
    assert expected == pytest.approx(0.22**2 + 0.541166667 + 1.556766667, abs=1e-8)


@pytest.mark.parametrize("permuted", [False, True])
def test_default_validator_is_doubly_robust_of_the_held_out_rounds(permuted):
    logs, policy = problem()
    if permuted:  # by the user: rows stay so
        logs = logs[np.random.RandomState(0).permutation(len(logs))]
    held_out = logs[200:]
    for evaluator in (IPS().fit(logs[:200]), DRns(random_state=0).fit(logs[:200])):
        truth = DoublyRobust().fit(held_out).score(policy)
        gap = quiet(evaluator, policy).value - truth
        assert EvaluatorScorer(policy)(evaluator, held_out) == -(gap**2)


def test_default_validator_of_a_learner_has_the_horizon_of_the_candidate():
    logs, _ = problem(600, n_actions=2, logging_temperature=np.inf)
    policy = EpsilonGreedy(0.1)
    evaluator = DRns(horizon=20, random_state=0).fit(logs[:300])
    held_out = logs[300:]
    score = EvaluatorScorer(policy)(evaluator, held_out)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    validator = RejectionSampling(horizon=20, random_state=seed).fit(held_out)
    value, truth = (one.evaluate(policy).value for one in (evaluator, validator))
    assert score == -((value - truth) ** 2)


GRIDS = {
    "static": (DRos(reward_model=Ridge(), cv=2), {"lam": [1.0, 100.0]}),
    "sequential": (DRns(reward_model=Ridge(), cv=2, random_state=0), {"q": [0.05, 1]}),
    "pipeline": (
        Pipeline([("clip", PropensityClipper()), ("ev", SwitchDR(cv=2))]),
        {"ev__tau": [1.0, 10.0]},
    ),
}


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("name", GRIDS)
def test_curves_and_validation(name):
    logs, policy = problem()
    estimator, grid = GRIDS[name]
    how = {"scoring": EvaluatorScorer(policy), "cv": 3}
    scores = cross_validate(estimator, logs, **how)["test_score"]
    assert scores.shape == (3,) and (scores <= 0).all()
    part = {"train_sizes": [0.5, 1.0]}
    sizes, _, test = learning_curve(estimator, logs, None, **part, **how)
    assert sizes.tolist() == [100, 200] and np.isfinite(test).all()
    np.testing.assert_array_equal(test[-1], scores)
    [(name, values)] = grid.items()
    how |= {"param_name": name, "param_range": values}
    _, test = validation_curve(estimator, logs, None, **how)
    assert test.shape == (len(values), 3) and np.isfinite(test).all()


@pytest.mark.thorough
def test_displays(pyplot):
    logs, policy = problem()
    how = {"scoring": EvaluatorScorer(policy), "cv": 3}
    for display, given in (
        (LearningCurveDisplay, {"train_sizes": [0.5, 1]}),
        (ValidationCurveDisplay, {"param_name": "lam", "param_range": [1.0, 10.0]}),
    ):
        shown = display.from_estimator(DRos(), logs, None, **given, **how)
        assert shown.ax_.get_ylabel() == "Negative validated error"


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    "what", ["member", "classifier", "validator", "other policy", "rewards"]
)
def test_what_changes_deep_inside_is_noticed(what):
    logs, policy = problem()
    folds = list(KFold(3).split(logs))
    validator = DoublyRobust(reward_model=Ridge(), cv=2)
    mixture = MixturePolicy([policy, UniformPolicy()], [0.5, 0.5])
    scorer = EvaluatorScorer(mixture, validator)
    grid = {"cmax": [None, 1.0]}
    search = GridSearchCV(DoublyRobust(), grid, scoring=scorer, cv=folds)
    before = losses_of(search.fit(logs))
    if what == "member":
        policy.fit(logs.context, logs.action)
    elif what == "classifier":
        policy.classifier_.fit(logs.context, logs.action)
    elif what == "validator":
        validator.set_params(reward_model__alpha=1e4)
    elif what == "rewards":
        logs = logs.replace(reward=logs.reward * (logs.action_index > 0))
    else:
        scorer.policy = UniformPolicy()
    after = losses_of(search.fit(logs))
    fresh = EvaluatorScorer(scorer.policy, validator)
    search.set_params(scoring=fresh, cv=3)
    np.testing.assert_array_equal(after, losses_of(search.fit(logs)))
    assert not np.array_equal(before, after)


@pytest.mark.thorough
def test_nested_search():
    logs, policy = problem()
    scorer = EvaluatorScorer(policy)
    search = GridSearchCV(DRos(), {"lam": [1.0, 100.0]}, scoring=scorer, cv=3)
    nested = cross_validate(search, logs, cv=3, return_estimator=True)["test_score"]
    direct = cross_validate(search, logs, scoring=scorer, cv=3)["test_score"]
    np.testing.assert_array_equal(nested, direct)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_steps_are_applied_to_held_out_rows_where_propensities_are_missing():
    logs, policy = problem()
    unknown = logs.replace(propensity=None, logging_proba=None)
    pipe = Pipeline([("p", PropensityEstimator(cv=2)), ("ev", IPS())])
    scorer = EvaluatorScorer(policy, IPS())
    train, test = unknown[:200], unknown[200:]
    pipe.fit(train)
    truth = IPS().fit(pipe[:-1].transform(test)).score(policy)
    assert scorer(pipe, test) == -((pipe.score(policy) - truth) ** 2)
    clipping = Pipeline([("clip", PropensityClipper(0.5)), ("ev", IPS())])
    clipping.fit(logs[:200])
    truth = IPS().fit(logs[200:]).score(policy)  # as they are
    gap = clipping.score(policy) - truth
    assert scorer(clipping, logs[200:]) == -(gap**2)


def test_scorers_travel_and_leave_the_users_validator_alone():
    logs, policy = problem()
    forest = RandomForestRegressor(3)
    scorer = EvaluatorScorer(policy, DoublyRobust(reward_model=forest))
    evaluator, held_out = IPS().fit(logs[:200]), logs[200:]
    score = scorer(evaluator, held_out)
    assert scorer(evaluator, held_out) == score  # a clone is seeded
    assert forest.random_state is None and not hasattr(forest, "estimators_")
    assert pickle.loads(pickle.dumps(scorer))(evaluator, held_out) == score
    search = GridSearchCV(IPS(), {"cmax": [None, 1.0]}, scoring=scorer)
    assert clone(search).scoring(evaluator, held_out) == score
    assert repr(scorer).startswith("EvaluatorScorer(ClassifierPolicy(")


class Mean(BaseEvaluator):
    """An evaluator of which nothing is known but the contract."""

    def __init__(self, *, shift=0.0):
        self.shift = shift

    def _evaluate(self, policy, logs, sample_weight):
        value = float(logs.reward.mean()) + self.shift
        return stated_value(value, 0.0, len(logs), estimator="Mean")


def test_any_evaluator_that_keeps_the_contract():
    logs, policy = problem()
    scorer = EvaluatorScorer(policy, Mean())
    search = GridSearchCV(Mean(), {"shift": [0.0, 5.0]}, scoring=scorer, cv=3)
    assert search.fit(logs).best_params_ == {"shift": 0.0}


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_a_candidate_without_a_value_is_last():
    logs, _ = problem()
    unsupported = ConstantPolicy("never").fit(logs.context, ["never"] * len(logs))
    given = (logs.context, logs.action.astype(str), logs.reward, logs.propensity)
    logs = BanditLogs(*given, actions=[*map(str, logs.actions), "never"])
    with pytest.warns(ModelErrorWarning, match="DoublyRobust with the same model"):
        scorer = EvaluatorScorer(unsupported, DirectMethod())
    assert np.isnan(scorer(IPS().fit(logs[:200]), logs[200:]))
    assert np.isfinite(scorer(DirectMethod().fit(logs[:200]), logs[200:]))


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_validators_and_folds_that_lack_rounds_or_actions():
    logs, _ = problem(80)
    evaluator = DRns(horizon=10, random_state=0).fit(logs[:60])
    with pytest.raises(ValueError, match=r"20 held-out rounds.*Hold out more rounds"):
        EvaluatorScorer(EpsilonGreedy())(evaluator, logs[60:])
    logs, policy = problem(300)
    search = GridSearchCV(
        DRos(reward_model=Ridge(), cv=2),
        {"lam": [1.0, 10.0]},
        scoring=EvaluatorScorer(policy),
        cv=3,
    ).fit(logs[logs.action_index.argsort(kind="stable")])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_held_out_rounds_that_say_nothing_about_the_policy():
    logs, _ = problem()
    never, always = (logs[(logs.action_index == 0) == told] for told in (False, True))
    policy = ConstantPolicy(logs.actions[0])
    scorer = EvaluatorScorer(policy)
    with pytest.warns(LowOverlapWarning, match=rf"on {len(never)} held-out rounds Dou"):
        assert scorer(IPS().fit(logs), never) <= 0
    assert scorer(IPS().fit(logs), always) <= 0


def test_bad_input():
    logs, policy = problem()
    fitted = IPS().fit(logs)
    scorer, learner = EvaluatorScorer(policy), EpsilonGreedy()
    unfitted = GridSearchCV(IPS(), {"cmax": [1.0]})
    array_model = DoublyRobust(reward_model=np.zeros((300, 3)))
    q_hat = r"logs\.with_columns\(q_hat=\.\.\.\)"
    of_learner = EvaluatorScorer(learner)
    for error, call, message in (
        (TypeError, (scorer, fitted, policy), r"best_estimator_\.score\(policy\)"),
        (TypeError, (scorer, policy, logs), "policy ClassifierPolicy.*PolicyScor"),
        (TypeError, (scorer, Ridge(), logs), "scores evaluators, got Ridge"),
        (TypeError, (scorer, unfitted, logs), "refit=False"),
        (NotFittedError, (scorer, IPS(), logs), "not fitted"),
        (ValueError, (EvaluatorScorer("pi"), fitted, logs), "not a column"),
        (TypeError, (EvaluatorScorer, IPS()), "evaluator IPS.*PolicyScorer"),
        (TypeError, (EvaluatorScorer, UniformPolicy), "got the class UniformPolicy"),
        (TypeError, (EvaluatorScorer, logs), "expected, got BanditLogs"),
        (TypeError, (EvaluatorScorer, LogisticRegression()), "Wrap it"),
        (TypeError, (EvaluatorScorer, policy, array_model), q_hat),
        (TypeError, (EvaluatorScorer, policy, IPS), "got the class IPS"),
        (TypeError, (EvaluatorScorer, policy, UniformPolicy()), "got the policy Unif"),
        (TypeError, (EvaluatorScorer, policy, "IPS"), "got the str"),
        *(
            (ValueError, (EvaluatorScorer, learner, one()), "cannot validate")
            for one in (IPS, DoublyRobust, DirectMethod)
        ),
        *(
            (ValueError, (of_learner, one.fit(logs), logs), message)
            for one, message in (
                (DRns(), r"DRns has no horizon.*same for all"),
                (IPS(), r"IPS has no horizon.*DRns"),
                (DirectMethod(), "DirectMethod simulates the policy along all"),
            )
        ),
        *(
            (TypeError, (EvaluatorScorer, array), r"got an array.*with_columns")
            for array in (np.eye(3), [0.5, 0.5], (0.5,), sparse.csr_matrix(np.eye(3)))
        ),
        (TypeError, (GridSearchCV(IPS(), {}).fit, logs), "no scoring is specified"),
    ):
        with pytest.raises(error, match=message):
            call[0](*call[1:])
    search = GridSearchCV(array_model, {"cmax": [1.0]}, scoring=scorer)
    with pytest.raises(ValueError, match=q_hat):
        search.set_params(error_score="raise").fit(logs)
    search.set_params(estimator=IPS()).fit(logs)
    with pytest.raises(TypeError, match=r"best_estimator_\.score"):
        search.score(policy)


class SlatePolicy:
    """It has no predict_proba."""

    def slot_marginals(self, logs):
        return None


def test_policies_that_may_be_searched_with():
    frozen = FrozenEstimator(UniformPolicy())
    for one in ("pi", UniformPolicy(), EpsilonGreedy(), frozen, SlatePolicy()):
        assert EvaluatorScorer(one).policy is one


def test_horizons_of_validators_must_agree():
    logs, _ = problem(300, n_actions=2, logging_temperature=np.inf)
    evaluator = DRns(horizon=5, random_state=0).fit(logs[:150])
    for validator in (Replay(), Replay(horizon=5), RejectionSampling(random_state=3)):
        scorer = EvaluatorScorer(EpsilonGreedy(), validator)
        assert scorer(evaluator, logs[150:]) <= 0
        assert validator.get_params() == clone(validator).get_params()
    scorer = EvaluatorScorer(EpsilonGreedy(), Replay(horizon=6))
    with pytest.raises(ValueError, match="validator has horizon=6, the candidate"):
        scorer(evaluator, logs[150:])


def test_biased_validators_are_told():
    policy, learner = UniformPolicy(), EpsilonGreedy()
    for q in (0.05, 0.0):
        EvaluatorScorer(policy, DRns(q=q))  # acceptances do not matter: warnings raise
    for fine in (DRns(q=0.0), DRns(acceptance="worst_case"), Replay()):
        EvaluatorScorer(learner, fine)
    with pytest.warns(OPEWarning, match="q=0.05 is biased where the policy") as warned:
        EvaluatorScorer(learner, DRns(q=0.05))
    assert warned[0].message.value == 0.05
    with pytest.warns(ModelErrorWarning, match="error of its reward model") as warned:
        EvaluatorScorer(policy, DirectMethod())
    assert warned[0].filename == __file__


def test_fitted_searches_are_scored_by_their_best():
    logs, policy = problem()
    pipe = Pipeline([("clip", PropensityClipper(0.5)), ("ev", IPS())])
    scorer, held_out = EvaluatorScorer(policy), logs[200:]
    search = GridSearchCV(pipe, {"clip__low": [0.1]}, scoring=scorer, cv=2).fit(logs)
    assert scorer(search, held_out) == scorer(search.best_estimator_, held_out)
    found = GridSearchCV(ClassifierPolicy(), {"epsilon": [0.1]}, scoring="accuracy")
    found.fit(logs.context, logs.action)  # a search over policies is a policy
    evaluator = IPS().fit(logs[:200])
    score = EvaluatorScorer(found)(evaluator, held_out)
    assert score == EvaluatorScorer(found.best_estimator_)(evaluator, held_out)
