# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
import warnings

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope import (
    IPS,
    MRDR,
    SNIPS,
    ActionRewardModel,
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    DRns,
    EpsilonGreedy,
    LinUCB,
    MixturePolicy,
    MultiLoggerDR,
    MultiLoggerIPS,
    PseudoInverse,
    SlateDirectMethod,
    SlateIPS,
    SwitchDR,
    UniformPolicy,
    UniformSlatePolicy,
    evaluate,
)
from skope_ope.base import BaseEvaluator
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from skope_ope.evaluators import PolicyValue
from skope_ope.exceptions import (
    LowOverlapWarning,
    ModelErrorWarning,
    OPEWarning,
    PropensityWarning,
    SupportWarning,
)
from skope_ope.utils import all_evaluators
from tests._values import stated_value

DEFAULTS = ["IPS", "SNIPS", "DoublyRobust", "SNDR"]
STATIC = {n: cls for n, cls in all_evaluators() if ".static." in cls.__module__}
N = 240
RNG = np.random.RandomState(0)
X = RNG.normal(size=(N, 3))
MU = np.exp(X @ RNG.normal(size=(3, 3)) / 2)
MU /= MU.sum(axis=1, keepdims=True)
CODE = (MU.cumsum(axis=1) < RNG.random_sample((N, 1))).sum(axis=1)
ACTION = np.array(list("abc"))[CODE]
REWARD = (RNG.random_sample(N) < 0.2 + 0.2 * CODE).astype(float)
PROPENSITY = MU[np.arange(N), CODE]
LEARNED = ClassifierPolicy(epsilon=0.4).fit(X, ACTION)
POLICIES = {"uniform": UniformPolicy(), "learned": LEARNED}
ignore_model_error = pytest.mark.filterwarnings(
    "ignore::skope_ope.exceptions.ModelErrorWarning"
)
ignore_warnings = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
pytestmark = ignore_model_error


def logs_of(rows=slice(None), **fields):
    fields = {"propensity": PROPENSITY, "reward_range": (0, 1), **fields}
    return BanditLogs(X, ACTION, REWARD, **fields)[rows]


def assert_same(left, right):
    """Both `PolicyValue` say the same."""
    assert left.value == pytest.approx(right.value, rel=1e-12, abs=1e-15)
    assert left.standard_error == pytest.approx(right.standard_error, rel=1e-9)
    assert left.n_rounds == right.n_rounds
    assert_allclose(left.round_values, right.round_values, rtol=1e-10, atol=1e-12)
    assert_allclose(left.effective_sample_size, right.effective_sample_size, rtol=1e-12)
    assert left.row_id == right.row_id
    assert left.estimator == right.estimator
    assert [str(w) for w in left.warnings] == [str(w) for w in right.warnings]
    assert [*left.diagnostics] == [*right.diagnostics]


# -- what comes out -----------------------------------------------------------------
def test_four_evaluators_by_default():
    table = evaluate(LEARNED, logs_of())
    assert list(table) == DEFAULTS
    assert all(isinstance(value, PolicyValue) for value in table.values())
    assert [value.estimator for value in table.values()] == [*table]
    assert table.recommended == "DoublyRobust"
    assert not any(value.leaves_bias_out for value in table.values())


def two_loggers(**fields):
    other = np.full((N, 3), 1 / 3)
    logger = np.arange(N) % 2
    proba = np.column_stack([PROPENSITY, other[np.arange(N), CODE]])
    fields = {"propensity": None, "logger_proba": proba} | fields
    return logs_of(logger=np.array(["old", "new"])[logger], **fields)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.PropensityWarning")
def test_the_balanced_pair_comes_where_loggers_are_known():
    logs = two_loggers()
    table = evaluate(LEARNED, logs)
    assert list(table) == [*DEFAULTS, "BalancedIPS", "BalancedDR"]
    assert table.recommended == "BalancedDR"
    for name, cls in (("BalancedIPS", MultiLoggerIPS), ("BalancedDR", MultiLoggerDR)):
        assert_same(table[name], cls(pooling="balanced").fit(logs).evaluate(LEARNED))
        by_name = evaluate(LEARNED, logs, evaluators=name)
        assert_same(by_name[name], table[name])
    unknown = evaluate(LEARNED, two_loggers(propensity=PROPENSITY, logger_proba=None))
    assert list(unknown) == DEFAULTS
    assert unknown.recommended == "DoublyRobust"
    assert unknown.left_out == ("BalancedIPS", "BalancedDR")
    note = "lack the probabilities of all loggers (logger_proba): BalancedIPS, Bal"
    assert note in " ".join(repr(unknown).split())
    one = evaluate(LEARNED, logs[logs.logger == "old"])
    assert list(one) == DEFAULTS
    assert one.left_out == ()


def test_without_propensities_the_direct_method_is_left():
    logs = logs_of(propensity=None)
    table = evaluate(LEARNED, logs)
    assert [*table] == ["DirectMethod"]
    single = DirectMethod().fit(logs).evaluate(LEARNED)
    assert_same(table["DirectMethod"], single)
    assert table["DirectMethod"].leaves_bias_out == "the error of the reward model"
    assert table.recommended is None
    assert "none of these; without propensities only a" in " ".join(repr(table).split())
    note = (
        "Left out, because the logs lack propensities: IPS, SNIPS, DoublyRobust, SNDR."
    )
    assert note in repr(table).splitlines()
    assert note in table._repr_html_()
    for complete in (
        evaluate(LEARNED, logs, evaluators="DirectMethod"),
        evaluate(LEARNED, logs_of()),
    ):
        assert complete.left_out == () and "Left out" not in repr(complete)


MODELS = {"mean": None, "ridge": Ridge(), "number": 0.4}


@ignore_warnings
@pytest.mark.few_cases
@pytest.mark.parametrize("model_name", MODELS)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_values_are_those_of_single_evaluators(model_name, weighted):
    logs = logs_of(sample_weight=1.0 + np.arange(N) % 3 if weighted else None)
    model, policies = MODELS[model_name], {"x": LEARNED, "y": UniformPolicy()}
    names = [name for name in STATIC if name != "MRDR" or model != 0.4]
    table = evaluate(policies, logs, evaluators=names, reward_model=model)
    for name in names:
        single = STATIC[name]().fit(logs, model).evaluate(LEARNED)
        assert_same(table["x", name], single)
        alone = evaluate(LEARNED, logs, evaluators=STATIC[name](), reward_model=model)
        assert_same(alone[name], single)


def test_an_evaluator_without_folds_of_its_own_has_those_that_are_usual():
    class Plain(DoublyRobust):
        def __init__(self, *, reward_model=None):
            self.reward_model, self.cmax = reward_model, None

    logs = logs_of()
    for cv in (None, 3):
        given = {"reward_model": Ridge(), "cv": cv}
        plain = evaluate(LEARNED, logs, evaluators={"plain": Plain()}, **given)
        usual = evaluate(LEARNED, logs, evaluators="DoublyRobust", **given)
        assert plain["plain"].value == usual["DoublyRobust"].value


OF_TABLE = ActionRewardModel(Ridge()).fit(logs_of())


@pytest.mark.parametrize("cv", [3, KFold(4), TimeSeriesSplit(3), None], ids=str)
@pytest.mark.parametrize("name", ["DoublyRobust", "MRDR"])
def test_folds_are_those_of_the_shared_model(name, cv):
    check_model(Ridge(), cv, name)


@pytest.mark.parametrize(
    ("model", "cv"),
    [
        (MU, 5),
        ("q_hat", 5),
        (0.3, 5),
        (FrozenEstimator(OF_TABLE), 5),
        (OF_TABLE, "prefit"),
        (ActionRewardModel(Ridge(), "one_hot"), 4),
        (LogisticRegression(), list(KFold(2).split(X))),
    ],
)
def test_everything_that_stands_for_a_reward_model(model, cv):
    check_model(model, cv)


def check_model(model, cv, name="DoublyRobust"):
    logs, given = logs_of().with_columns(q_hat=MU), {"reward_model": model, "cv": cv}
    shared = evaluate(LEARNED, logs, evaluators=name, **given)[name]
    assert_same(shared, STATIC[name](**given).fit(logs).evaluate(LEARNED))


def test_a_generator_of_folds_serves_all_evaluators():
    folds = [*KFold(3).split(X)]
    names = ["DoublyRobust", "SNDR", "MRDR"]
    once, often = (
        evaluate(POLICIES, logs_of(), evaluators=names, cv=cv)
        for cv in (iter(folds), folds)
    )
    for key in often:
        assert once[key].value == often[key].value


def test_evaluators_with_a_model_of_their_own_keep_it():
    logs = logs_of()
    evaluators = {
        "shared": DoublyRobust(),
        "own": DoublyRobust(reward_model=Ridge(alpha=100.0), cv=3),
        "own MRDR": MRDR(reward_model=Ridge(alpha=100.0), cv=3),
        "none": IPS(cmax=2.0),
    }
    table = evaluate(LEARNED, logs, evaluators=evaluators, reward_model=Ridge())
    expected = {**evaluators, "shared": DoublyRobust(reward_model=Ridge())}
    for name, evaluator in expected.items():
        assert_same(table[name], clone(evaluator).fit(logs).evaluate(LEARNED))


def test_policies_of_a_dict_are_named():
    names = ["IPS", "DoublyRobust"]
    logs = logs_of()
    table = evaluate(POLICIES, logs, evaluators=names)
    assert [*table] == [(p, e) for p in POLICIES for e in names]
    for policy, evaluator in table:
        single = evaluate(POLICIES[policy], logs, evaluators=evaluator)
        assert_same(table[policy, evaluator], single[evaluator])
    one = evaluate({"only": LEARNED}, logs_of(), evaluators="IPS")
    assert [*one] == [("only", "IPS")]
    names = ["IPS", "MRDR"]
    twice = evaluate({"a": LEARNED, "b": LEARNED}, logs, evaluators=names)
    for name in names:
        assert_same(twice["a", name], twice["b", name])
    difference = table["learned", "IPS"] - table["uniform", "IPS"]
    assert difference.value == pytest.approx(
        table["learned", "IPS"].value - table["uniform", "IPS"].value
    )


def test_everything_that_stands_for_a_policy():
    logs = logs_of().with_columns(pi=LEARNED.predict_proba(X))
    proba = LEARNED.predict_proba(X)
    expected = evaluate(LEARNED, logs, evaluators="DoublyRobust")["DoublyRobust"].value
    targets = {
        "array": proba,
        "list": proba.tolist(),
        "column": "pi",
        "frozen": FrozenEstimator(LEARNED),
        "mixture": MixturePolicy([LEARNED], [1.0]),
    }
    table = evaluate(targets, logs, evaluators="DoublyRobust")
    for value in table.values():
        assert value.value == pytest.approx(expected, rel=1e-12)
    logged = proba[np.arange(N), CODE]
    table = evaluate(logged, logs, evaluators=["IPS", "SNIPS"])
    assert table["IPS"].value == pytest.approx(np.mean(logged / PROPENSITY * REWARD))
    with pytest.raises(ValueError, match="DoublyRobust needs the policy's prob"):
        evaluate(logged, logs)


def test_other_logs_than_those_of_fit():
    train, test = logs_of(slice(160)), logs_of(slice(160, None))
    names = ["IPS", "SNIPS", "DoublyRobust", "MRDR"]
    for name in names:
        evaluator = STATIC[name]().fit(train)
        value = evaluator.evaluate(LEARNED, test)
        assert value.n_rounds == 80
        assert value.row_id == test.row_id
        if name in ("IPS", "SNIPS"):
            assert_same(value, evaluate(LEARNED, test, evaluators=name)[name])
    labels = BanditLogs(X[:9], ["q"] * 9, np.ones(9), np.ones(9))
    with pytest.raises(ValueError, match="action 'q' of the logs was unknown in fit"):
        IPS().fit(train).evaluate(UniformPolicy(), labels)


# -- what is shared -----------------------------------------------------------------
class CountingRidge(Ridge):
    fits = 0

    def fit(self, X, y, sample_weight=None):
        type(self).fits += 1
        return super().fit(X, y, sample_weight)


class CountingPolicy:
    classes_ = ("a", "b", "c")

    def __init__(self):
        self.rows = 0

    def predict_proba(self, X):
        self.rows += len(X)
        return LEARNED.predict_proba(X)


@ignore_warnings
def test_shared_models_are_fitted_once():
    CountingRidge.fits = 0
    names = [name for name in STATIC if name != "MRDR"]
    three = {"a": LEARNED, "b": UniformPolicy(), "c": ConstantPolicy("a")}
    given = {"reward_model": CountingRidge(), "cv": 4}
    evaluate(three, logs_of(), evaluators=names, **given)
    assert CountingRidge.fits == 4 * 3  # folds times actions
    evaluate(POLICIES, logs_of(), evaluators=["MRDR"], **given)
    assert CountingRidge.fits == 4 * 3 + 2 * 4 * 3  # MRDR's follow the policy
    # a model given to two evaluators, of the same folds or not
    model = CountingRidge()
    for kinds, n_fits in (
        ([DoublyRobust(reward_model=model), SwitchDR(reward_model=model)], 15),
        ({str(k): DoublyRobust(reward_model=model, cv=k) for k in (3, 4)}, 9 + 12),
    ):
        CountingRidge.fits = 0
        evaluate(LEARNED, logs_of(), evaluators=kinds)
        assert CountingRidge.fits == n_fits
    for n_jobs in (None, 2, 50):
        CountingRidge.fits = 0
        with parallel_config(backend="threading"):  # which can count here
            evaluate(POLICIES, logs_of(), **given, n_jobs=n_jobs)
        assert CountingRidge.fits == 4 * 3


def test_probabilities_are_asked_for_once():
    policy = CountingPolicy()
    names = [name for name in STATIC if name != "MRDR"]
    table = evaluate(policy, logs_of(), evaluators=names)
    assert policy.rows == N
    assert table["IPS"].standard_error > 0  # round values and diagnostics come later
    assert policy.rows == N


# -- weights and jobs ---------------------------------------------------------------
@ignore_warnings
def test_sample_weights_are_those_of_evaluate():
    weight = RNG.uniform(0.5, 2, N)
    weight[:9] = 0
    kept = logs_of(sample_weight=1.0 + np.arange(N) % 3)
    for logs in (logs_of(), kept):
        names = [name for name in STATIC if name != "MRDR"]
        table = evaluate(
            LEARNED, logs, evaluators=names, reward_model=Ridge(), sample_weight=weight
        )
        for name in names:
            fitted = STATIC[name]().fit(logs, Ridge())
            assert_same(table[name], fitted.evaluate(LEARNED, sample_weight=weight))
    alike = evaluate(LEARNED, logs, evaluators="IPS", sample_weight=[2.0] * N)
    assert_same(alike["IPS"], evaluate(LEARNED, logs, evaluators="IPS")["IPS"])
    pages, policy, _ = make_slate_logs(240, random_state=0, return_truth=True)
    found = evaluate(policy, pages, sample_weight=weight)["ControlledPI"]
    fitted = SLATES["ControlledPI"].fit(pages)
    assert found.value == fitted.evaluate(policy, sample_weight=weight).value


@ignore_warnings
def test_jobs_do_not_change_the_numbers():
    """Passes in threads, walks in processes, and values that know their rounds."""
    logs = logs_of()
    policies = POLICIES | {"always": ConstantPolicy("a")}
    names = ["IPS", "DoublyRobust", "MRDR", "DRns", "RejectionSampling"]
    given = {"evaluators": names, "reward_model": Ridge(), "random_state": 0}
    one, two = (evaluate(policies, logs, **given, n_jobs=n) for n in (None, 2))
    assert [*one] == [*two]
    for key, value in one.items():
        other = two[key]
        assert other.value == value.value
        assert other.standard_error == value.standard_error
        assert_array_equal(other.round_values, value.round_values)
        assert other.confidence_interval() == value.confidence_interval()
        assert [str(w) for w in other.warnings] == [str(w) for w in value.warnings]
        assert other.by("action").keys() == value.by("action").keys()
    gap = two["learned", "DRns"] - two["uniform", "DRns"]
    assert gap.value == one["learned", "DRns"].value - one["uniform", "DRns"].value
    assert two["learned", "IPS"].row_id == two["learned", "DRns"].row_id


@pytest.mark.thorough
@ignore_warnings
@pytest.mark.parametrize("cv", [3, KFold(4, shuffle=True, random_state=0)], ids=str)
def test_fits_in_processes_give_the_same_numbers(cv):
    for model in (Ridge(), RandomForestRegressor(n_estimators=3, random_state=0)):
        one, two, many = (
            evaluate(POLICIES, logs_of(), reward_model=model, cv=cv, n_jobs=n_jobs)
            for n_jobs in (None, 2, 1000)
        )
        for key, value in one.items():
            assert_allclose(two[key].value, value.value, rtol=1e-12)
            assert_allclose(many[key].value, value.value, rtol=1e-12)


@pytest.mark.parametrize("evaluator", [DoublyRobust(cv=3), DRns(cv=3, random_state=0)])
def test_an_evaluator_keeps_its_folds_unless_others_are_given(evaluator):
    logs, model = logs_of(), Ridge()
    for cv in (None, 4):
        named = {"it": evaluator}
        table = evaluate(LEARNED, logs, evaluators=named, reward_model=model, cv=cv)
        alone = clone(evaluator).set_params(cv=cv or 3).fit(logs, model)
        assert table["it"].value == alone.score(LEARNED)


@pytest.mark.thorough
@ignore_warnings
def test_policies_that_learn_are_walked_in_processes():
    policies = {"linucb": LinUCB(), "greedy": EpsilonGreedy()}
    logs = BanditLogs(X, ACTION, REWARD, PROPENSITY, reward_range=(0, 1))
    evaluators = {"walk": DRns(horizon=20, random_state=0)}
    one, two = (
        evaluate(policies, logs, evaluators=evaluators, n_jobs=n_jobs)
        for n_jobs in (1, 2)
    )
    for key in one:
        assert (
            one[key].trajectory_values.tolist() == two[key].trajectory_values.tolist()
        )
    assert one.recommended is None
    assert "Recommended: none of these; this rule is for policies that" in repr(one)


# -- seeds --------------------------------------------------------------------------
def values(**arguments):
    table = evaluate(
        LEARNED, logs_of(), evaluators=["DoublyRobust", "MRDR"], **arguments
    )
    return [value.value for value in table.values()]


@pytest.mark.thorough
def test_random_state_seeds_the_models():
    forest = RandomForestRegressor(1, max_depth=3)
    for model in (forest, make_pipeline(StandardScaler(), forest)):
        first = values(reward_model=model, random_state=0)
        assert values(reward_model=model, random_state=0) == first
        assert values(reward_model=model, random_state=1) != first
        seeded = values(reward_model=model, random_state=np.random.RandomState(0))
        assert seeded == first
        assert forest.random_state is None
    assert values(reward_model=forest) != values(reward_model=forest)


def test_given_seeds_are_kept():
    model = RandomForestRegressor(3, max_depth=3, random_state=5)
    assert values(reward_model=model) == values(reward_model=model, random_state=0)
    frozen = FrozenEstimator(ActionRewardModel(model).fit(logs_of()))
    for seed in (None, 0):
        table = evaluate(
            LEARNED, logs_of(), reward_model=frozen, random_state=seed, evaluators="IPS"
        )
        assert table["IPS"].value == evaluate(LEARNED, logs_of())["IPS"].value


# -- warnings -----------------------------------------------------------------------
class Stated(BaseEvaluator):
    """An evaluator that is not static, and warns of the policies of a list."""

    def __init__(self, told=()):
        self.told = told

    def _evaluate(self, policy, logs, sample_weight):
        found = [one for name, one in self.told if name == policy.action]
        about = {"estimator": "Stated", "warnings": found}
        return stated_value(0.5, 0.1, len(logs), **about)


def warned(policies, told):
    """What is warned of, where evaluators warn of (policy, evaluator, warning)."""
    of = {row: [(p, w) for p, e, w in told if e == row] for row in ("IPS", "SNIPS")}
    logs = BanditLogs(np.zeros((9, 1)), list("abcdefabc"), np.ones(9), np.ones(9))
    targets = {name: ConstantPolicy(name) for name in policies}
    if len(targets) == 1:
        [targets] = targets.values()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        evaluate(targets, logs, evaluators={n: Stated(of[n]) for n in of})
    return [one.message for one in found]


@pytest.mark.parametrize(
    ("policies", "rows", "text"),
    [
        ("ab", "aI aS bI bS", "few."),
        ("ab", "aI aS", "a: few."),
        ("ab", "aI", "a (IPS): few."),
        ("ab", "aI aS bI", "a, b (IPS): few."),
        ("ab", "aS bI bS", "a (SNIPS), b: few."),
        ("ab", "aI bI", "IPS: few."),
        ("a", "aS", "SNIPS: few."),  # one policy has no name
        ("abcdef", "aI aS bI bS cI cS dI dS eI eS", "a, b, c and 2 more: few."),
    ],
)
def test_rows_are_named_where_others_are_fine(policies, rows, text):
    names = {"I": "IPS", "S": "SNIPS"}
    told = [(row[0], names[row[1]], OPEWarning("few.")) for row in rows.split()]
    assert [str(one) for one in warned(policies, told)] == [text]


@pytest.mark.parametrize("kind", [PropensityWarning, LowOverlapWarning, OPEWarning])
def test_a_finding_with_other_numbers_is_told_once(kind):
    told = [
        (policy, row, kind(f"is {x}.", 1.5, "mean_weight", "error"))
        for policy, x in zip("abc", (1.2, 1.3, 1.2), strict=True)
        for row in ("IPS", "SNIPS")
    ]
    found = warned("abc", told)
    if kind is OPEWarning:
        assert list(map(str, found)) == ["a, c: is 1.2.", "b: is 1.3."]
        return
    [one] = found
    assert str(one) == "a, c: is 1.2. The same was found for b, with other numbers."
    assert (one.value, one.name, one.severity) == (1.5, "mean_weight", "error")


@ignore_warnings
def test_warnings_begin_with_the_policy_unless_that_is_their_subject():
    logs = logs_of()
    logs = logs[logs.action != "a"]
    policies = {"rare": ConstantPolicy("a"), "all": UniformPolicy()}
    with pytest.warns(SupportWarning, match="never took") as record:
        evaluate(policies, logs, evaluators=["IPS"])
    about = [one for one in record if "never took" in str(one.message)]
    assert [str(one.message).split(":")[0] for one in about] == ["rare", "all"]
    assert about[0].filename == __file__ and about[0].message.value == 1.0


@pytest.mark.filterwarnings("default::skope_ope.exceptions.ModelErrorWarning")
def test_each_warning_is_given_once_and_kept_with_its_values():
    logs = logs_of()
    rare = {"first": ConstantPolicy("a"), "second": ConstantPolicy("a")}
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        wrong = logs.replace(propensity=np.full(N, 0.02))
        table = evaluate(rare, wrong, evaluators=[*DEFAULTS, "DirectMethod"])
    texts = [str(w.message) for w in record]
    assert len(texts) == len(set(texts))
    assert {type(w.message) for w in record} >= {ModelErrorWarning}
    for value in table.values():
        for warning in value.warnings:
            assert any(text.endswith(str(warning)) for text in texts)
    assert record[0].filename == __file__


def test_warnings_carry_their_number():
    logs = logs_of(actions=["a", "b", "c", "d"])
    with pytest.warns(SupportWarning) as record:
        table = evaluate(UniformPolicy(), logs, evaluators="IPS")
    assert record[0].message.value == pytest.approx(0.25)
    assert table["IPS"].warnings[0].value == pytest.approx(0.25)
    tiny = logs_of().replace(propensity=np.where(np.arange(N) == 3, 1e-4, PROPENSITY))
    with pytest.warns(LowOverlapWarning) as record:
        table = evaluate(LEARNED, tiny, evaluators="IPS")
    size = table["IPS"].effective_sample_size
    assert record[0].message.value == pytest.approx(size)


# -- bad input ----------------------------------------------------------------------
def test_evaluators_that_are_not_static_are_asked_one_by_one():
    policies = {"a": ConstantPolicy("a"), "b": ConstantPolicy("b")}
    table = evaluate(policies, logs_of(), evaluators=[Stated(), "IPS"])
    assert [*table] == [(p, e) for p in policies for e in ("Stated", "IPS")]
    assert table["a", "Stated"].value == 0.5
    alone = evaluate(policies["a"], logs_of(), evaluators=Stated())
    assert alone["Stated"].value == 0.5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"policies": {}}, ValueError, "policies is empty"),
        ({"policies": [LEARNED, LEARNED]}, TypeError, "go into a dict by name"),
        ({"policies": LogisticRegression()}, TypeError, "Wrap it: ClassifierPolicy"),
        ({"policies": ClassifierPolicy()}, NotFittedError, "not fitted yet"),
        ({"policies": None}, TypeError, "a policy needs predict_proba"),
        ({"policies": logs_of()}, TypeError, "a policy is expected, got BanditLogs"),
        ({"policies": IPS()}, TypeError, "got the evaluator IPS"),
        ({"policies": "pi"}, ValueError, "'pi' is not a column"),
        ({"policies": np.ones((N, 3))}, ValueError, "must sum to 1"),
        ({"policies": np.ones((N - 1, 3)) / 3}, ValueError, "but the logs have 240 ro"),
        ({"policies": ConstantPolicy("q")}, ValueError, r"do not know: \['q'\]"),
        ({"logs": X}, TypeError, r"The call is evaluate\(policies, logs\)"),
        ({"logs": logs_of()[:0]}, ValueError, "the logs are empty"),
        ({"evaluators": []}, ValueError, "evaluators is empty"),
        ({"evaluators": ["MIPS"]}, ValueError, "'MIPS' is unknown; there are IPS, SNI"),
        ({"evaluators": ["IPS", IPS()]}, ValueError, "two evaluators are called 'IPS'"),
        ({"evaluators": [IPS]}, TypeError, "got the class IPS; make an instance"),
        ({"evaluators": [LEARNED]}, TypeError, "got ClassifierPolicy"),
        ({"evaluators": [IPS(cmax=-1)]}, ValueError, "The 'cmax' parameter of IPS"),
        ({"reward_model": IPS()}, (TypeError, ValueError), "model"),
        ({"reward_model": LEARNED}, TypeError, "is the policy ClassifierPolicy"),
        ({"reward_model": MU[:5]}, ValueError, r"shape \(240, 3\)"),
        (
            {"evaluators": "MRDR", "reward_model": 0.4},
            ValueError,
            "MRDR refits the reward model",
        ),
        ({"sample_weight": np.ones(N - 1)}, ValueError, "sample_weight"),
        ({"sample_weight": -np.ones(N)}, ValueError, "must be non-negative and posit"),
        ({"sample_weight": np.zeros(N)}, ValueError, "must be non-negative and posit"),
        ({"sample_weight": np.full(N, np.nan)}, ValueError, "sample_weight"),
        (
            {"evaluators": "DRns", "sample_weight": 1.0 + np.arange(N)},
            ValueError,
            "DRns",
        ),
        ({"cv": 1}, ValueError, "at least 2 folds"),
        ({"cv": 2.5}, TypeError, "cv must be a number of folds"),
        ({"cv": "five"}, ValueError, "cv must be 'prefit', a number or folds"),
        ({"cv": []}, ValueError, "cv gives no test round"),
        ({"random_state": "a"}, ValueError, "cannot be used to seed"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be None or an int other than 0"),
        ({"n_jobs": 1.5}, ValueError, "n_jobs must be None or an int"),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else None,
)
def test_bad_input_is_refused(arguments, error, message):
    arguments = {"policies": UniformPolicy(), "logs": logs_of(), **arguments}
    with pytest.raises(error, match=message):
        evaluate(**arguments)


SEED = np.random.RandomState(0).randint(2**31 - 1)  # evaluate(random_state=0) draws it
SLATES = {
    "SlateIPS": SlateIPS(),
    "PseudoInverse": PseudoInverse(),
    "wPI": PseudoInverse(self_normalized=True),
    "ControlledPI": PseudoInverse(control_variates="multiple"),
    "wIPS": SlateIPS(self_normalized=True),
    "SlateDirectMethod": SlateDirectMethod(
        reward_model=Ridge(), cv=3, random_state=SEED
    ),
}


@ignore_warnings
def test_slates():
    logs, policy, _ = make_slate_logs(300, random_state=0, return_truth=True)
    policies = {"better": policy, "uniform": UniformSlatePolicy(3)}
    usual = ["SlateIPS", "PseudoInverse", "wPI", "ControlledPI"]
    table = evaluate(policy, logs)
    assert list(table) == [*usual, "IndependentSlotIPS"]
    assert table.recommended == "ControlledPI"
    assert "only if no slot affects the reward of another" in table.reason
    other = logs.replace(reward=logs.reward / 2)  # not the sum of its slots
    assert list(evaluate(policy, other)) == usual
    assert evaluate(policy, logs).recommended == "ControlledPI"
    given = {"reward_model": Ridge(), "cv": 3, "random_state": 0}
    table = evaluate(policies, logs, evaluators=list(SLATES), **given)
    assert list(table) == [(one, name) for one in policies for name in SLATES]
    for (one, name), result in table.items():
        expected = SLATES[name].fit(logs).evaluate(policies[one])
        assert result.value == expected.value
        assert result.standard_error == expected.standard_error
    # without a model, too, the folds are those of the call
    mean = evaluate(policy, logs, evaluators=["SlateDirectMethod"], cv=2)
    alone = SlateDirectMethod(cv=2).fit(logs).score(policy)  # needs no draws
    assert mean["SlateDirectMethod"].value == alone
    unknown = logs.replace(logging_policy=None)
    table = evaluate(policy, unknown)
    assert list(table) == ["SlateIPS", "wIPS"]
    assert table.recommended == "wIPS"
    assert table.left_out == ("PseudoInverse", "wPI", "ControlledPI")
    table = evaluate(policy, unknown.replace(propensity=None))
    assert list(table) == ["SlateDirectMethod"]
    assert table.recommended is None
    assert table.left_out == ("SlateIPS", "wIPS", *usual[1:])
    with pytest.raises(
        ValueError, match=r"'IPS' is unknown; there are Expl.*IPS is for logs of s"
    ):
        evaluate(policy, logs, evaluators="IPS")
    with pytest.raises(TypeError, match="logs must be BanditLogs, got SlateLogs"):
        evaluate(policy, logs, evaluators=[IPS()])
    with pytest.raises(TypeError, match="go into a dict by name"):
        evaluate([policy], logs)


@pytest.mark.parametrize("evaluator", ["IPS", SNIPS(), DoublyRobust(), MRDR()])
def test_propensities_are_needed_where_weights_are(evaluator):
    with pytest.raises(ValueError, match="needs the propensities of the logged"):
        evaluate(LEARNED, logs_of(propensity=None), evaluators=[evaluator])


def test_nothing_is_changed():
    logs = logs_of()
    evaluator, model = DoublyRobust(), Ridge()
    before = [
        getattr(logs, name).copy() for name in ("context", "reward", "propensity")
    ]
    evaluate(LEARNED, logs, evaluators=[evaluator, "MRDR"], reward_model=model, cv=3)
    assert not hasattr(evaluator, "logs_")
    assert evaluator.reward_model is None
    assert not hasattr(model, "coef_")
    for left, name in zip(before, ("context", "reward", "propensity"), strict=True):
        assert_array_equal(left, getattr(logs, name))


@ignore_warnings
def test_one_round():
    table = evaluate(UniformPolicy(), logs_of([0]), reward_model=0.5)
    for value in table.values():
        assert value.n_rounds == 1
        assert np.isnan(value.standard_error)
        assert np.isfinite(value.value)


def test_diagnostics_are_equal_where_all_entries_are():
    logs, policy, _ = make_bandit_logs(200, random_state=0, return_truth=True)
    value = evaluate(policy, logs, evaluators="DoublyRobust")
    diagnostics = value["DoublyRobust"].diagnostics
    again = pickle.loads(pickle.dumps(diagnostics))
    assert again == diagnostics
    assert again != {**diagnostics, "action_frequency": np.zeros(3)}
    assert again != {} and again != 0


def test_labels_of_rounds_that_are_not_there_are_named():
    logs, policy, _ = make_bandit_logs(200, random_state=0, return_truth=True)
    value = IPS().fit(logs).evaluate(policy)
    with pytest.raises(ValueError, match=r"column 'hour'.* have .*'action'"):
        value.by("hour")
    with pytest.raises(ValueError, match="'action': this value does not hold its logs"):
        pickle.loads(pickle.dumps(value)).by("action")
