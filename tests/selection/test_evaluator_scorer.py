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
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    LearningCurveDisplay,
    RandomizedSearchCV,
    ShuffleSplit,
    ValidationCurveDisplay,
    cross_validate,
    learning_curve,
    validation_curve,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

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
    in_order,
    one_standard_error,
)
from skope_ope.base import BaseEvaluator
from skope_ope.exceptions import LowOverlapWarning, ModelErrorWarning, OPEWarning
from tests._values import stated_value
from tests._worlds import W1, d8_logs, exact_moments
from tests.selection._logs import losses_of, problem

HALVES = [(np.arange(4), np.arange(4, 8))]


def test_loss_by_hand():
    # w r = 0, 1/3, 4, 1/5 | 0, 1/6, 3, 0; clipped at 1: 0, 1/3, 1, 1/5
    search = GridSearchCV(
        IPS(),
        {"cmax": [None, 1.0]},
        scoring=EvaluatorScorer("pi", IPS()),
        cv=HALVES,
        error_score="raise",
    ).fit(d8_logs())
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


def test_default_validator_is_doubly_robust_of_the_held_out_rounds():
    logs, policy = problem()
    evaluator = IPS().fit(logs[:200])
    held_out = logs[200:]
    gap = evaluator.score(policy) - DoublyRobust().fit(held_out).score(policy)
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
    "sequential": (
        DRns(reward_model=Ridge(), cv=2, random_state=0),
        {"q": [0.05, 0.5]},
    ),
    "pipeline": (
        Pipeline([("clip", PropensityClipper()), ("ev", SwitchDR(cv=2))]),
        {"ev__tau": [1.0, 10.0]},
    ),
    "choice of evaluators": (
        Pipeline([("ev", IPS())]),
        {"ev": [IPS(), DirectMethod(), DoublyRobust()]},
    ),
    "pipeline in the model": (
        DoublyRobust(reward_model=make_pipeline(StandardScaler(), Ridge()), cv=2),
        {"reward_model__ridge__alpha": [0.1, 10.0]},
    ),
}


SEARCHES = {
    "grid": lambda est, grid, s: GridSearchCV(est, grid, scoring=s, cv=3),
    "random": lambda est, grid, s: RandomizedSearchCV(
        est, grid, scoring=s, cv=3, n_iter=2, random_state=0
    ),
    "halving": lambda est, grid, s: HalvingGridSearchCV(
        est, grid, scoring=s, cv=3, random_state=0, factor=2
    ),
    "one standard error": lambda est, grid, s: GridSearchCV(
        est,
        grid,
        scoring=s,
        cv=ShuffleSplit(3, train_size=0.5, random_state=0),
        refit=one_standard_error,
    ),
}


# A search does not ask what it searches: all searches meet a grid of each kind of
# parameters, of an evaluator and of a Pipeline; all grids meet the plain search.
@pytest.mark.few_cases(4)
@pytest.mark.parametrize(
    ("search", "name"),
    [
        *(("grid", name) for name in GRIDS),
        *((search, "static") for search in list(SEARCHES)[1:]),
        *((search, "pipeline") for search in list(SEARCHES)[1:]),
        ("halving", "sequential"),
    ],
)
def test_searches(name, search):
    logs, policy = problem()
    estimator, grid = GRIDS[name]
    found = SEARCHES[search](estimator, grid, EvaluatorScorer(policy)).fit(logs)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    if name != "choice of evaluators":  # the direct method warns of its error
        assert np.isfinite(found.best_estimator_.score(policy))
    assert found.score(logs[:100]) <= 0


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("name", GRIDS)
def test_curves_and_validation(name):
    logs, policy = problem()
    estimator, grid = GRIDS[name]
    scorer = EvaluatorScorer(policy)
    scores = cross_validate(estimator, logs, scoring=scorer, cv=3)["test_score"]
    assert scores.shape == (3,) and (scores <= 0).all()
    sizes, _, test = learning_curve(
        estimator, logs, None, scoring=scorer, cv=3, train_sizes=[0.5, 1.0]
    )
    assert sizes.tolist() == [100, 200] and np.isfinite(test).all()
    np.testing.assert_array_equal(test[-1], scores)
    [(parameter, values)] = grid.items()
    _, test = validation_curve(
        estimator,
        logs,
        None,
        param_name=parameter,
        param_range=values,
        scoring=scorer,
        cv=3,
    )
    assert test.shape == (len(values), 3) and np.isfinite(test).all()


@pytest.mark.thorough
def test_displays(pyplot):
    logs, policy = problem()
    display = LearningCurveDisplay.from_estimator(
        IPS(), logs, None, scoring=EvaluatorScorer(policy), cv=3, train_sizes=[0.5, 1]
    )
    assert display.ax_.get_ylabel() == "Negative validated error"
    display = ValidationCurveDisplay.from_estimator(
        DRos(),
        logs,
        None,
        param_name="lam",
        param_range=[1.0, 10.0],
        scoring=EvaluatorScorer(policy),
        cv=3,
    )
    assert display.ax_.get_ylabel() == "Negative validated error"


def test_several_scores():
    logs, policy = problem()
    scorers = {
        "policy": EvaluatorScorer(policy),
        "uniform": EvaluatorScorer(UniformPolicy()),
    }
    both = GridSearchCV(
        DRos(), {"lam": [1.0, 100.0]}, scoring=scorers, refit="policy", cv=3
    ).fit(logs)
    alone = GridSearchCV(DRos(), {"lam": [1.0, 100.0]}, scoring=scorers["policy"], cv=3)
    np.testing.assert_array_equal(
        both.cv_results_["mean_test_policy"],
        alone.fit(logs).cv_results_["mean_test_score"],
    )
    assert np.isfinite(both.cv_results_["mean_test_uniform"]).all()


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("what", ["member", "classifier", "validator", "other policy"])
def test_what_changes_deep_inside_is_noticed(what):
    logs, policy = problem()
    folds = list(KFold(3).split(logs))
    validator = DoublyRobust(reward_model=Ridge(), cv=2)
    mixture = MixturePolicy([policy, UniformPolicy()], [0.5, 0.5])
    scorer = EvaluatorScorer(mixture, validator)
    search = GridSearchCV(IPS(), {"cmax": [None, 1.0]}, scoring=scorer, cv=folds)
    before = losses_of(search.fit(logs))
    if what == "member":
        policy.fit(logs.context, logs.action)
    elif what == "classifier":
        policy.classifier_.fit(logs.context, logs.action)
    elif what == "validator":
        validator.set_params(reward_model__alpha=1e4)
    else:
        scorer.policy = UniformPolicy()
    after = losses_of(search.fit(logs))
    fresh = EvaluatorScorer(scorer.policy, validator)
    search.set_params(scoring=fresh, cv=3)
    np.testing.assert_array_equal(after, losses_of(search.fit(logs)))
    assert not np.array_equal(before, after)


def test_other_rewards_of_the_same_rows_are_not_mistaken():
    logs, policy = problem()
    folds = list(KFold(3).split(logs))
    search = GridSearchCV(
        DRos(reward_model=Ridge(), cv=2),
        {"lam": [1, 10]},
        scoring=EvaluatorScorer(policy),
        cv=folds,
    )
    one = losses_of(search.fit(logs))
    other = losses_of(search.fit(logs.replace(reward=1 - logs.reward)))
    fresh = clone(search).set_params(scoring=EvaluatorScorer(policy))
    fresh.fit(logs.replace(reward=1 - logs.reward))
    np.testing.assert_array_equal(other, losses_of(fresh))
    assert not np.array_equal(one, other)


def test_rows_are_put_in_order():
    logs, policy = problem(400)
    estimator, grid = DRns(reward_model=Ridge(), cv=2, random_state=0), {"q": [0, 0.5]}
    splitter = ShuffleSplit(3, train_size=0.5, random_state=0)
    found = [
        losses_of(
            GridSearchCV(estimator, grid, scoring=EvaluatorScorer(policy), cv=cv).fit(
                logs
            )
        )
        for cv in (splitter, in_order(splitter))
    ]
    np.testing.assert_array_equal(found[0], found[1])


def test_rows_that_the_user_permuted_stay_permuted():
    logs, policy = problem()
    permuted = logs[np.random.RandomState(0).permutation(len(logs))]
    train, test = permuted[:200], permuted[200:]
    evaluator = DRns(random_state=0).fit(train)
    gap = evaluator.evaluate(policy).value
    gap -= DoublyRobust().fit(test).score(policy)
    assert EvaluatorScorer(policy)(evaluator, test) == -(gap**2)


def test_groups_travel():
    logs, policy = problem()
    logs = logs.replace(group=np.arange(len(logs)) // 2)
    folds = list(GroupKFold(3).split(logs, groups=logs.group))
    scores = cross_validate(
        DoublyRobust(), logs, scoring=EvaluatorScorer(policy), cv=folds
    )
    for (train, test), score in zip(folds, scores["test_score"], strict=True):
        assert not set(logs.group[train]) & set(logs.group[test])
        gap = DoublyRobust().fit(logs[train]).evaluate(policy).value
        gap -= DoublyRobust().fit(logs[test]).evaluate(policy).value
        assert score == -(gap**2)


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


def test_scorers_travel():
    logs, policy = problem()
    scorer = EvaluatorScorer(policy, DoublyRobust())
    evaluator, held_out = IPS().fit(logs[:200]), logs[200:]
    copy = pickle.loads(pickle.dumps(scorer))
    assert copy(evaluator, held_out) == scorer(evaluator, held_out)
    search = GridSearchCV(IPS(), {"cmax": [None, 1.0]}, scoring=scorer)
    assert clone(search).scoring(evaluator, held_out) == scorer(evaluator, held_out)
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
    search = GridSearchCV(
        Mean(), {"shift": [0.0, 5.0]}, scoring=EvaluatorScorer(policy, Mean()), cv=3
    ).fit(logs)
    assert search.best_params_ == {"shift": 0.0}


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_a_candidate_without_a_value_is_last():
    logs, _ = problem()
    unsupported = ConstantPolicy("never").fit(logs.context, ["never"] * len(logs))
    logs = BanditLogs(
        logs.context,
        logs.action.astype(str),
        logs.reward,
        logs.propensity,
        actions=[*map(str, logs.actions), "never"],
    )
    with pytest.warns(ModelErrorWarning, match="DoublyRobust with the same model"):
        scorer = EvaluatorScorer(unsupported, DirectMethod())
    assert np.isnan(scorer(IPS().fit(logs[:200]), logs[200:]))
    assert np.isfinite(scorer(DirectMethod().fit(logs[:200]), logs[200:]))


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_validator_without_a_value_raises():
    logs, _ = problem(80)
    evaluator = DRns(horizon=10, random_state=0).fit(logs[:60])
    with pytest.raises(ValueError, match=r"20 held-out rounds.*Hold out more rounds"):
        EvaluatorScorer(EpsilonGreedy())(evaluator, logs[60:])


def test_held_out_rounds_that_say_nothing_about_the_policy():
    logs, _ = problem()
    never, always = (logs[(logs.action_index == 0) == told] for told in (False, True))
    policy = ConstantPolicy(logs.actions[0])
    scorer = EvaluatorScorer(policy)
    with pytest.warns(LowOverlapWarning, match=rf"on {len(never)} held-out rounds Dou"):
        assert scorer(IPS().fit(logs), never) <= 0
    assert scorer(IPS().fit(logs), always) <= 0


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_folds_without_some_action():
    logs, policy = problem(300)
    by_logger = logs.action_index.argsort(kind="stable")
    order = BanditLogs(
        logs.context[by_logger],
        logs.action[by_logger],
        logs.reward[by_logger],
        logs.propensity[by_logger],
    )
    search = GridSearchCV(
        DRos(reward_model=Ridge(), cv=2),
        {"lam": [1.0, 10.0]},
        scoring=EvaluatorScorer(policy),
        cv=3,
    ).fit(order)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_bad_input():
    logs, policy = problem()
    fitted = IPS().fit(logs)
    scorer, learner = EvaluatorScorer(policy), EpsilonGreedy()
    unfitted = GridSearchCV(IPS(), {"cmax": [1.0]})
    array_model = DoublyRobust(reward_model=np.zeros((300, 3)))
    q_hat = r"logs\.with_columns\(q_hat=\.\.\.\)"
    for call, error, message in (
        ((scorer, fitted, policy), TypeError, r"best_estimator_\.score\(policy\)"),
        (
            (scorer, policy, logs),
            TypeError,
            r"got the policy ClassifierPolicy.*PolicyScor",
        ),
        ((scorer, Ridge(), logs), TypeError, "scores evaluators, got Ridge"),
        ((scorer, unfitted, logs), TypeError, "refit=False"),
        ((scorer, IPS(), logs), NotFittedError, "not fitted"),
        ((EvaluatorScorer("pi"), fitted, logs), ValueError, "not a column"),
        ((EvaluatorScorer, IPS()), TypeError, r"evaluator IPS.*PolicyScorer"),
        ((EvaluatorScorer, UniformPolicy), TypeError, "got the class UniformPolicy"),
        ((EvaluatorScorer, logs), TypeError, "expected, got BanditLogs"),
        ((EvaluatorScorer, LogisticRegression()), TypeError, "Wrap it"),
        ((EvaluatorScorer, policy, array_model), TypeError, q_hat),
        ((EvaluatorScorer, policy, IPS), TypeError, "got the class IPS"),
        ((EvaluatorScorer, policy, UniformPolicy()), TypeError, "got the policy Unif"),
        ((EvaluatorScorer, policy, "IPS"), TypeError, "got the str"),
        *(
            ((EvaluatorScorer, learner, one), ValueError, f"{name} cannot validate")
            for name, one in (
                ("IPS", IPS()),
                ("DoublyRobust", DoublyRobust()),
                ("DirectMethod", DirectMethod()),
            )
        ),
        *(
            ((EvaluatorScorer(learner), one.fit(logs), logs), ValueError, message)
            for one, message in (
                (DRns(), r"DRns has no horizon.*same for all"),
                (IPS(), r"IPS has no horizon.*DRns"),
                (DirectMethod(), "DirectMethod simulates the policy along all"),
            )
        ),
        *(
            ((EvaluatorScorer, array), TypeError, r"got an array.*with_columns")
            for array in (
                np.full((300, 3), 1 / 3),
                [0.5, 0.5],
                (0.5,),
                sparse.csr_matrix(np.eye(3)),
            )
        ),
    ):
        with pytest.raises(error, match=message):
            call[0](*call[1:])
    with pytest.raises(ValueError, match=q_hat):
        GridSearchCV(
            array_model, {"cmax": [1.0]}, scoring=scorer, error_score="raise"
        ).fit(logs)


class SlatePolicy:
    """It has no predict_proba."""

    def slot_marginals(self, logs):
        return None


@pytest.mark.parametrize(
    "policy",
    [
        "pi",
        UniformPolicy(),
        EpsilonGreedy(),
        FrozenEstimator(UniformPolicy()),
        SlatePolicy(),
    ],
)
def test_policies_that_may_be_searched_with(policy):
    assert EvaluatorScorer(policy).policy is policy


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


def test_the_users_validator_is_cloned_and_seeded():
    logs, policy = problem()
    forest = RandomForestRegressor(3)
    scorer = EvaluatorScorer(policy, DoublyRobust(reward_model=forest))
    evaluator = IPS().fit(logs[:200])
    assert scorer(evaluator, logs[200:]) == scorer(evaluator, logs[200:])
    assert forest.random_state is None and not hasattr(forest, "estimators_")


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


def test_fitted_searches_are_scored_by_their_best_evaluator():
    logs, policy = problem()
    pipe = Pipeline([("clip", PropensityClipper(0.5)), ("ev", IPS())])
    scorer = EvaluatorScorer(policy)
    search = GridSearchCV(pipe, {"clip__low": [0.1]}, scoring=scorer, cv=2).fit(logs)
    assert scorer(search, logs[200:]) == scorer(search.best_estimator_, logs[200:])


def test_messages_of_searches_survive():
    logs, policy = problem()
    with pytest.raises(TypeError, match="EvaluatorScorer"):
        GridSearchCV(IPS(), {"cmax": [1.0]}, error_score="raise").fit(logs)
    with pytest.raises(ValueError, match="Invalid parameter 'nope' for estimator IPS"):
        GridSearchCV(IPS(), {"nope": [1]}, scoring=EvaluatorScorer(policy)).fit(logs)
    search = GridSearchCV(IPS(), {"cmax": [1.0, -1]}, scoring=EvaluatorScorer(policy))
    with pytest.raises(TypeError, match=r"best_estimator_\.score"):
        search.set_params(param_grid={"cmax": [1.0]}).fit(logs).score(policy)
    broken = search.set_params(param_grid={"cmax": [-1, -2]})
    with pytest.raises(ValueError, match="fits failed"):
        broken.fit(logs)


def test_policies_that_learned_are_valued_at_their_horizon():
    logs, _ = problem(900, n_actions=2, logging_temperature=np.inf)
    search = GridSearchCV(
        DRns(horizon=20, random_state=0),
        {"q": [0.0, 0.05, 0.2], "reward_model": [None, ClassifierRidge()]},
        scoring=EvaluatorScorer(EpsilonGreedy(0.1)),
        cv=in_order(ShuffleSplit(3, train_size=0.5, random_state=0)),
        refit=one_standard_error,
        error_score="raise",
    ).fit(logs)
    assert np.isfinite(losses_of(search)).all()
    assert isinstance(search.best_estimator_, DRns)


class ClassifierRidge(Ridge):
    """A model whose class is known by its name only."""


def test_policy_search_object_as_policy():
    logs, _ = problem()
    found = GridSearchCV(
        ClassifierPolicy(), {"epsilon": [0.1, 0.3]}, cv=3, scoring="accuracy"
    ).fit(logs.context, logs.action)
    score = EvaluatorScorer(found)(IPS().fit(logs[:200]), logs[200:])
    assert score == EvaluatorScorer(found.best_estimator_)(
        IPS().fit(logs[:200]), logs[200:]
    )
