# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import warnings

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
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
from skope_ope.datasets import make_slate_logs
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
IGNORED = "ignore::skope_ope.exceptions."
ignore_warnings = pytest.mark.filterwarnings(f"{IGNORED}OPEWarning")
pytestmark = pytest.mark.filterwarnings(f"{IGNORED}ModelErrorWarning")


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
    assert not any(value.leaves_bias_out for value in table.values())


def two_loggers(**fields):
    logger = np.array(["old", "new"])[np.arange(N) % 2]
    proba = np.column_stack([PROPENSITY, np.full(N, 1 / 3)])
    fields = {"propensity": None, "logger_proba": proba} | fields
    return logs_of(logger=logger, **fields)


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
    needs = "Left out, because the logs lack propensities: IPS, SNIPS, DoublyRobust, SN"
    assert f"{needs}DR." in repr(table).splitlines() and needs in table._repr_html_()
    alone = evaluate(LEARNED, logs, evaluators="DirectMethod")
    for complete in (alone, evaluate(LEARNED, logs_of())):
        assert complete.left_out == () and "Left out" not in repr(complete)
    for evaluator in ("IPS", SNIPS(), DoublyRobust(), MRDR()):
        with pytest.raises(ValueError, match="needs the propensities of the logged"):
            evaluate(LEARNED, logs, evaluators=[evaluator])


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


OF_TABLE = ActionRewardModel(Ridge()).fit(logs_of())


@pytest.mark.parametrize(
    ("model", "cv", "name"),
    [
        *((Ridge(), cv, "MRDR") for cv in (3, KFold(4), TimeSeriesSplit(3), None)),
        *((Ridge(), cv, "DoublyRobust") for cv in (3, TimeSeriesSplit(3), None)),
        *((model, 5, "DoublyRobust") for model in (MU, "q_hat", 0.3)),
        (FrozenEstimator(OF_TABLE), 5, "DoublyRobust"),
        (OF_TABLE, "prefit", "DoublyRobust"),
        (ActionRewardModel(Ridge(), "one_hot"), 4, "DoublyRobust"),
        (LogisticRegression(), list(KFold(2).split(X)), "DoublyRobust"),
    ],
)
def test_models_and_folds_are_those_of_a_single_evaluator(model, cv, name):
    logs, given = logs_of().with_columns(q_hat=MU), {"reward_model": model, "cv": cv}
    shared = evaluate(LEARNED, logs, evaluators=name, **given)[name]
    assert_same(shared, STATIC[name](**given).fit(logs).evaluate(LEARNED))


def test_folds_and_models_of_their_own():
    class Plain(DoublyRobust):  # has the usual folds
        def __init__(self, *, reward_model=None):
            self.reward_model, self.cmax = reward_model, None

    logs, model, folds = logs_of(), Ridge(), [*KFold(3).split(X)]
    for cv in (None, 3):
        given = {"evaluators": {"plain": Plain(), "usual": DoublyRobust()}, "cv": cv}
        table = evaluate(LEARNED, logs, reward_model=model, **given)
        assert table["plain"].value == table["usual"].value
    names = ["DoublyRobust", "SNDR", "MRDR"]
    once = evaluate(POLICIES, logs, evaluators=names, cv=iter(folds))
    often = evaluate(POLICIES, logs, evaluators=names, cv=folds)
    for key in often:
        assert once[key].value == often[key].value
    for evaluator in (DoublyRobust(cv=3), DRns(cv=3, random_state=0)):
        for cv in (None, 4):
            given = {"reward_model": model, "cv": cv}
            table = evaluate(LEARNED, logs, evaluators={"it": evaluator}, **given)
            alone = clone(evaluator).set_params(cv=cv or 3).fit(logs, model)
            assert table["it"].value == alone.score(LEARNED)
    own = {"reward_model": Ridge(alpha=100.0), "cv": 3}
    evaluators = {"shared": DoublyRobust(), "none": IPS(cmax=2.0)}
    evaluators |= {"own": DoublyRobust(**own), "own MRDR": MRDR(**own)}
    table = evaluate(LEARNED, logs, evaluators=evaluators, reward_model=model)
    evaluators["shared"] = DoublyRobust(reward_model=model)
    for name, evaluator in evaluators.items():
        assert_same(table[name], clone(evaluator).fit(logs).evaluate(LEARNED))


def test_policies_of_a_dict_are_named():
    logs, names = logs_of(), ["IPS", "DoublyRobust", "MRDR"]
    table = evaluate(POLICIES | {"again": LEARNED}, logs, evaluators=names)
    assert [*table] == [(p, e) for p in [*POLICIES, "again"] for e in names]
    for name in names:
        assert_same(table["again", name], table["learned", name])
    one = evaluate({"only": LEARNED}, logs, evaluators="IPS")
    assert [*one] == [("only", "IPS")]


# -- what is shared -----------------------------------------------------------------
class CountingRidge(Ridge):
    fits = 0

    def fit(self, X, y, sample_weight=None):
        type(self).fits += 1
        return super().fit(X, y, sample_weight)


@ignore_warnings
def test_shared_models_are_fitted_once():
    def n_fits(policies, evaluators=None, **given):
        CountingRidge.fits = 0
        with parallel_config(backend="threading"):  # which can count here
            evaluate(policies, logs_of(), evaluators=evaluators, **given)
        return CountingRidge.fits

    names = [name for name in STATIC if name != "MRDR"]
    three = {"a": LEARNED, "b": UniformPolicy(), "c": ConstantPolicy("a")}
    given = {"reward_model": CountingRidge(), "cv": 4}
    assert n_fits(three, names, **given) == 4 * 3  # folds times actions
    assert n_fits(POLICIES, ["MRDR"], **given) == 2 * 4 * 3  # they follow the policy
    for n_jobs in (None, 2, 50):
        assert n_fits(POLICIES, n_jobs=n_jobs, **given) == 4 * 3
    # a model given to two evaluators, of the same folds or not
    model = CountingRidge()
    same = [DoublyRobust(reward_model=model), SwitchDR(reward_model=model)]
    assert n_fits(LEARNED, same) == 15
    other = {str(k): DoublyRobust(reward_model=model, cv=k) for k in (3, 4)}
    assert n_fits(LEARNED, other) == 9 + 12


# -- weights and jobs ---------------------------------------------------------------
@ignore_warnings
def test_sample_weights_are_those_of_evaluate():
    weight = RNG.uniform(0.5, 2, N)
    weight[:9] = 0
    names = [name for name in STATIC if name != "MRDR"]
    how = {"evaluators": names, "reward_model": Ridge(), "sample_weight": weight}
    for logs in (logs_of(), logs_of(sample_weight=1.0 + np.arange(N) % 3)):
        table = evaluate(LEARNED, logs, **how)
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
def test_policies_that_learn_are_walked_in_processes():
    policies = {"linucb": LinUCB(), "greedy": EpsilonGreedy()}
    how = {"evaluators": {"walk": DRns(horizon=20, random_state=0)}}
    one, two = (evaluate(policies, logs_of(), **how, n_jobs=n) for n in (1, 2))
    for key in one:
        assert_array_equal(one[key].trajectory_values, two[key].trajectory_values)
    assert one.recommended is None
    assert "Recommended: none of these; this rule is for policies that" in repr(one)


# -- seeds --------------------------------------------------------------------------
def values(**arguments):
    names = ["DoublyRobust", "MRDR"]
    table = evaluate(LEARNED, logs_of(), evaluators=names, **arguments)
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
    given = {"reward_model": FrozenEstimator(OF_TABLE), "evaluators": "IPS"}
    expected = evaluate(LEARNED, logs_of())["IPS"].value
    for seed in (None, 0):
        table = evaluate(LEARNED, logs_of(), random_state=seed, **given)
        assert table["IPS"].value == expected


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
    tiny = np.where(np.arange(N) == 3, 1e-4, PROPENSITY)
    for kind, policy, logs in (
        (SupportWarning, UniformPolicy(), logs_of(actions=["a", "b", "c", "d"])),
        (LowOverlapWarning, LEARNED, logs_of().replace(propensity=tiny)),
    ):
        with pytest.warns(kind) as record:
            value = evaluate(policy, logs, evaluators="IPS")["IPS"]
        size = value.effective_sample_size
        expected = pytest.approx(0.25 if kind is SupportWarning else size)
        assert record[0].message.value == value.warnings[0].value == expected


# -- bad input ----------------------------------------------------------------------
@ignore_warnings
def test_evaluators_that_are_not_static_are_asked_one_by_one():
    policies = {"a": ConstantPolicy("a"), "b": ConstantPolicy("b")}
    table = evaluate(policies, logs_of(), evaluators=[Stated(), "IPS"])
    assert [*table] == [(p, e) for p in policies for e in ("Stated", "IPS")]
    assert table["a", "Stated"].value == 0.5
    alone = evaluate(policies["a"], logs_of(), evaluators=Stated())
    assert alone["Stated"].value == 0.5


MRDR_OF_A_NUMBER = {"evaluators": "MRDR", "reward_model": 0.4}
WEIGHTED_WALK = {"evaluators": "DRns", "sample_weight": 1.0 + np.arange(N)}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"policies": [LEARNED, LEARNED]}, TypeError, "go into a dict by name"),
        ({"policies": LogisticRegression()}, TypeError, "Wrap it: ClassifierPolicy"),
        ({"policies": None}, TypeError, "a policy needs predict_proba"),
        ({"policies": logs_of()}, TypeError, "a policy is expected, got BanditLogs"),
        ({"policies": IPS()}, TypeError, "got the evaluator IPS"),
        ({"policies": np.ones((N, 3))}, ValueError, "must sum to 1"),
        ({"policies": np.ones((N - 1, 3)) / 3}, ValueError, "but the logs have 240 ro"),
        ({"policies": ConstantPolicy("q")}, ValueError, r"do not know: \['q'\]"),
        ({"logs": X}, TypeError, r"The call is evaluate\(policies, logs\)"),
        ({"evaluators": ["MIPS"]}, ValueError, "'MIPS' is unknown; there are IPS, SNI"),
        ({"evaluators": ["IPS", IPS()]}, ValueError, "two evaluators are called 'IPS'"),
        ({"evaluators": [IPS]}, TypeError, "got the class IPS; make an instance"),
        ({"evaluators": [LEARNED]}, TypeError, "got ClassifierPolicy"),
        ({"evaluators": [IPS(cmax=-1)]}, ValueError, "The 'cmax' parameter of IPS"),
        ({"reward_model": IPS()}, (TypeError, ValueError), "model"),
        ({"reward_model": LEARNED}, TypeError, "is the policy ClassifierPolicy"),
        ({"reward_model": MU[:5]}, ValueError, r"shape \(240, 3\)"),
        (MRDR_OF_A_NUMBER, ValueError, "MRDR refits the reward model"),
        ({"sample_weight": np.ones(N - 1)}, ValueError, "sample_weight"),
        ({"sample_weight": -np.ones(N)}, ValueError, "must be non-negative and posit"),
        ({"sample_weight": np.zeros(N)}, ValueError, "must be non-negative and posit"),
        ({"sample_weight": np.full(N, np.nan)}, ValueError, "sample_weight"),
        (WEIGHTED_WALK, ValueError, "DRns"),
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
MODEL = {"reward_model": Ridge(), "cv": 3, "random_state": SEED}
CONTROLLED = PseudoInverse(control_variates="multiple")
SLATES = {"SlateIPS": SlateIPS(), "PseudoInverse": PseudoInverse()}
SLATES |= {"wPI": PseudoInverse(self_normalized=True), "ControlledPI": CONTROLLED}
SLATES |= {"wIPS": SlateIPS(self_normalized=True)}
SLATES |= {"SlateDirectMethod": SlateDirectMethod(**MODEL)}


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
    assert table.left_out == ("PseudoInverse", "wPI", "ControlledPI")
    table = evaluate(policy, unknown.replace(propensity=None))
    assert list(table) == ["SlateDirectMethod"]
    assert table.left_out == ("SlateIPS", "wIPS", *usual[1:])
    unknown = r"'IPS' is unknown; there are Expl.*IPS is for logs of s"
    for error, message, target, evaluator in (
        (ValueError, unknown, policy, "IPS"),
        (TypeError, "logs must be BanditLogs, got SlateLogs", policy, [IPS()]),
        (TypeError, "go into a dict by name", [policy], None),
    ):
        with pytest.raises(error, match=message):
            evaluate(target, logs, evaluators=evaluator)


def test_nothing_is_changed():
    logs, evaluator, model = logs_of(), DoublyRobust(), Ridge()
    names = "context", "reward", "propensity"
    before = [getattr(logs, name).copy() for name in names]
    evaluate(LEARNED, logs, evaluators=[evaluator, "MRDR"], reward_model=model, cv=3)
    assert not hasattr(evaluator, "logs_")
    assert evaluator.reward_model is None
    assert not hasattr(model, "coef_")
    for left, name in zip(before, names, strict=True):
        assert_array_equal(left, getattr(logs, name))
