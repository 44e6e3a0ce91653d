# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Public signatures share one order and one default each."""

import inspect
import re
from contextlib import suppress
from importlib import import_module

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

import skope_ope
from skope_ope import (
    IPS,
    AttentionDecay,
    BanditLogs,
    ConstantPolicy,
    EpsilonGreedy,
    PlackettLuceSlatePolicy,
    PositionScavenging,
    RewardModelPolicy,
    SlateLogs,
    UniformPolicy,
    audit,
    compare_policies,
    evaluate,
    report,
    scan_logs,
    suggest,
    summarize,
)
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from skope_ope.evaluators import logger_overlap
from skope_ope.policies import EpochGreedy
from skope_ope.utils import all_evaluators
from tests.packaging._tree import public_objects

LOGS = BanditLogs(
    np.zeros((4, 1)), [0, 1, 0, 1], [0.0, 1, 1, 0], [0.5] * 4, logger=[0, 1, 0, 1]
)
POLICIES = {0: UniformPolicy(), 1: UniformPolicy()}
CALLS = (audit, compare_policies, evaluate, report, suggest, summarize)
each_call = pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)


def public_callables():
    """Public functions and methods, by name, with their parameters."""
    for name, value in public_objects().values():
        name, members = name.rpartition(".")[2], {}
        if inspect.isclass(value):
            members = dict(inspect.getmembers(value, callable))
        members = {f"{name}.{k}": one for k, one in members.items() if k[0] != "_"}
        for key, one in {name: value, **members}.items():
            with suppress(ValueError):  # of a class written in C
                yield key, one, inspect.signature(one).parameters


def test_no_public_callable_takes_logs_before_policies():
    found = set()
    for name, _, parameters in public_callables():
        both = [one for one in parameters if one in ("policy", "policies", "logs")]
        if len(both) > 1:
            found.add(name)
            # new rounds come first, as in partial_fit
            assert both[-1] == "logs" or name == "ConfidenceSequence.update", name
    assert {"evaluate", "compare_policies", "logger_overlap", "IPS.score"} <= found
    for name, cls in all_evaluators():
        for parameter in inspect.signature(cls).parameters.values():
            assert parameter.kind is parameter.KEYWORD_ONLY, (name, parameter)


def test_one_default_each():
    """Policies, audits and intervals are seeded, all else is as scikit-learn's is."""
    asked_twice = {"audit", "confidence_interval", "confidence_intervals"}
    asked_twice |= {"bootstrap_interval", "percentile_interval"}
    for name, value, parameters in public_callables():
        seeded = hasattr(value, "predict_proba") or hasattr(value, "slot_marginals")
        seeded = seeded or value.__name__ in asked_twice
        for one in ("random_state", "n_bootstrap", "n_jobs"):
            if one in parameters:
                expected = 0 if seeded and one == "random_state" else None
                assert parameters[one].default is expected, name


def no_baseline():
    compare_policies(POLICIES, LOGS, evaluator=IPS(), baseline=None)


def no_bootstrap():
    AttentionDecay(n_bootstrap=0).fit(make_slate_logs(9))


def misspelt_method():
    value = IPS().fit(LOGS).evaluate(UniformPolicy())
    value.confidence_interval(method="clopper-pearson")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: compare_policies(LOGS, POLICIES), TypeError, "compare_policies(polic"),
        (lambda: compare_policies(IPS(), POLICIES, LOGS), TypeError, "2 positional"),
        (no_baseline, ValueError, "baseline must be one of the policies"),
        (lambda: logger_overlap(LOGS, POLICIES[0]), TypeError, "logger_overlap(policy"),
        (lambda: PositionScavenging([1.0, 0.5]), TypeError, "positional"),
        (lambda: RewardModelPolicy(regressor=Ridge()), TypeError, "'regressor'"),
        (lambda: EpochGreedy().set_params(model=Ridge()), ValueError, "'model'"),
        (no_bootstrap, ValueError, "'n_bootstrap' parameter of AttentionDecay must be"),
        (misspelt_method, ValueError, "Did you mean 'clopper_pearson'"),
        (lambda: suggest(LOGS), TypeError, "suggest(policies, logs), or suggest(None"),
    ],
)
def test_other_orders_and_names_are_refused(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_a_public_name_stands_in_one_folder():
    modules = [import_module(f"skope_ope.{name}") for name in skope_ope.FOLDERS]
    names = [name for one in modules for name in getattr(one, "__all__", vars(one))]
    names = [name for name in names if not name.startswith("__")]
    assert {name for name in names if names.count(name) > 1} == set()
    assert set(skope_ope.__all__) - set(names) == set()


# What a user finds on logs: the fields, and what follows from them.
OF_ROWS = {
    *("audit", "columns", "context", "from_frame", "group", "group_index", "groups"),
    *("n_features", "n_groups", "n_rounds", "propensity", "replace", "reward"),
    *(
        "reward_name",
        "reward_range",
        "row_id",
        "shape",
        "summary",
        "timestamp",
        "to_frame",
    ),
    "with_columns",
}
SHOWN = {
    "BanditLogs": OF_ROWS
    | {
        *("action", "action_context", "action_index", "actions", "available"),
        *("logger", "logger_index", "logger_proba", "loggers", "logging_proba"),
        *("n_actions", "propensities_drift", "propensity_estimated", "sample_weight"),
        "with_logger_policies",
    },
    "SlateLogs": OF_ROWS
    | {
        *("candidates", "item_feature_names", "item_features", "item_id"),
        *("logging_policy", "max_candidates", "n_candidates", "n_slots", "offered"),
        *("slate", "slot_reward"),
    },
    "LazyLogs": {
        *("actions", "audit", "columns", "describe", "filter", "frame", "head"),
        *("labelled", "loggers", "n_rounds", "partitions", "read", "reward_range"),
        *("roles", "sample", "source", "summary"),
    },
}


@pytest.mark.parametrize("kind", SHOWN)
def test_logs_show_what_a_user_needs_and_no_inner_measure(kind, tmp_path):
    logs = make_slate_logs(9) if kind == "SlateLogs" else make_bandit_logs(9)
    if kind == "LazyLogs":
        (tmp_path / "log.csv").write_text("item,click,p\n0,1,0.5\n1,0,0.5\n")
        logs = scan_logs(tmp_path, action="item", reward="click", propensity="p")
    assert {name for name in dir(logs) if not name.startswith("_")} == SHOWN[kind]


@each_call
def test_calls_take_the_same_policies_model_folds_seed_and_workers(call):
    parameters = inspect.signature(call).parameters
    assert list(parameters)[:2] == ["policies", "logs"]
    of_evaluate = inspect.signature(evaluate).parameters
    for name in ("reward_model", "cv", "random_state", "n_jobs"):
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        if (call, name) != (audit, "random_state"):  # the same audit each time
            assert parameters[name].default == of_evaluate[name].default
    with pytest.raises(ValueError, match="n_jobs must be"):
        call(UniformPolicy(), LOGS, n_jobs=0)


@each_call
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ((LOGS, UniformPolicy()), TypeError, r"The call is {}\(policies, logs\)"),
        ((LOGS, LOGS), TypeError, r"a policy is expected.* is {}\(policies, logs\)"),
        ((POLICIES[0], LOGS.context), TypeError, r"got ndarray.* {}\(policies, logs"),
        (([UniformPolicy()], LOGS), TypeError, r"a dict by name: {}\({{'a': .*a list"),
        ((("a", "b"), LOGS), TypeError, r"{}\({{'a': 'a', 'b': 'b'}}, logs\), got a t"),
        (([], LOGS), TypeError, r"a dict by name: {}\("),
        (({}, LOGS), ValueError, "policies is empty"),
        ((UniformPolicy(), LOGS[:0]), ValueError, "logs are empty: {} needs"),
    ],
)
def test_what_is_no_policy_or_no_logs_is_refused_alike(call, given, error, message):
    with pytest.raises(error, match=message.format(call.__name__)):
        call(*given)


@pytest.mark.parametrize("call", [audit, suggest], ids=lambda call: call.__name__)
def test_a_dict_gives_an_answer_by_name(call):
    logs = make_bandit_logs(300, random_state=0)
    policies = {"one": ConstantPolicy(1), 2: UniformPolicy()}
    found = call(policies, logs, n_jobs=2)
    assert list(found) == list(policies)
    for name, policy in policies.items():
        assert repr(found[name]) == repr(call(policy, logs))


@pytest.mark.parametrize("call", [compare_policies, report], ids=lambda c: c.__name__)
def test_a_single_policy_is_compared_under_its_own_name(call):
    logs, policy, _ = make_bandit_logs(2000, random_state=0, return_truth=True)
    found = call(policy, logs)
    assert found.choice == "the policy"
    assert found.sentence == call({"the policy": policy}, logs).sentence


MODEL = {"reward_model": DecisionTreeRegressor(max_features=1), "cv": 3}


def test_a_comparison_uses_the_model_the_folds_and_the_seed_of_the_table():
    logs, policy, _ = make_bandit_logs(300, random_state=0, return_truth=True)
    for n_jobs in (None, 2):
        how = {**MODEL, "random_state": 1, "n_jobs": n_jobs}
        found = compare_policies(policy, logs, **how)["the policy"]
        table = evaluate(policy, logs, **how)
        assert float(found) == float(table["DoublyRobust"])
        assert float(found) != float(evaluate(policy, logs)["DoublyRobust"])


def test_a_suggestion_has_the_model_the_folds_and_the_seed():
    logs, policy, _ = make_bandit_logs(300, random_state=0, return_truth=True)
    found = suggest(policy, logs, **MODEL, random_state=1)
    assert found.evaluator.cv == 3
    assert found.evaluator.reward_model.random_state is not None
    assert MODEL["reward_model"].random_state is None
    names = {"logs": logs, "policy": policy}
    exec(found.code, names)
    assert float(names["value"]) == found.evaluator.fit(logs).score(policy)
    learner = EpsilonGreedy()
    found = [suggest(learner, logs, random_state=seed) for seed in (None, 1, 1, 2)]
    seeds = [one.evaluator.random_state for one in found]
    assert seeds[0] == 0
    assert seeds[1] == seeds[2] != seeds[3]


@pytest.mark.parametrize("make", [make_bandit_logs, make_slate_logs])
def test_an_audit_tells_how_well_the_model_predicts(make):
    logs = make(300, random_state=0)
    name = "R^2 of the reward model, out of fold"
    assert name not in audit(logs).facts
    found = audit(logs, reward_model=DecisionTreeRegressor(max_depth=2), cv=3)
    assert -1 < found.facts[name] < 1
    assert audit(logs, reward_model=0.5).facts[name] <= 0
    other = logs.audit(reward_model=DecisionTreeRegressor(max_depth=2), cv=3)
    assert other.facts[name] == found.facts[name]


def lazy_of(logs, folder):
    pytest.importorskip("pyarrow")
    columns = (logs.context[:, 0], logs.action, logs.reward, logs.propensity)
    text = "\n".join(",".join(map(str, row)) for row in zip(*columns, strict=True))
    (folder / "log.csv").write_text(f"x,item,click,p\n{text}\n")
    roles = {"action": "item", "reward": "click", "propensity": "p", "context": ["x"]}
    return scan_logs(folder, **roles)


def test_lazy_logs_are_compared_and_audited(tmp_path):
    x = np.random.RandomState(0).normal(size=(300, 1))
    action, reward = np.arange(300) % 3, (x[:, 0] > 0) * 1.0
    logs = BanditLogs(x, action, reward, np.full(300, 1 / 3))
    lazy, how = lazy_of(logs, tmp_path), {"reward_model": Ridge(), "cv": 3}
    found = compare_policies(UniformPolicy(), lazy, **how)["the policy"]
    table = evaluate(UniformPolicy(), lazy, **how)
    assert float(found) == pytest.approx(float(table["DoublyRobust"]), rel=1e-12)
    other = evaluate(UniformPolicy(), lazy, reward_model=Ridge())["DoublyRobust"]
    assert float(found) != pytest.approx(float(other), rel=1e-6)
    lazy = lazy_of(make_bandit_logs(300, random_state=0), tmp_path)
    policies, model = {"one": ConstantPolicy(1), 2: UniformPolicy()}, Ridge()
    found = audit(policies, lazy, reward_model=model)
    assert list(found) == list(policies)
    alone = audit(policies["one"], lazy, reward_model=model)
    assert found["one"].to_dict() == alone.to_dict()
    facts = audit(lazy, reward_model=model).facts
    assert "R^2 of the reward model, out of fold" in facts


@pytest.mark.parametrize(
    "ranks", [[2, 1, 3], "rank", lambda logs: logs.columns["rank"]]
)
def test_weights_of_ranks_are_given_as_weights_are(ranks):
    logs = SlateLogs(np.zeros((2, 1)), [[0, 1], [2, 1]], [1.0, 0.0])
    logs = logs.with_columns(rank=[[2, 1, 3], [2, 1, 3]])
    policy = clone(PlackettLuceSlatePolicy.from_ranks(ranks, 2, alpha=2))
    expected = PlackettLuceSlatePolicy([0.25, 1, 0.25], 2).slot_marginals(logs)
    np.testing.assert_allclose(policy.slot_marginals(logs), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="alpha must be at least 0"):
        PlackettLuceSlatePolicy.from_ranks(ranks, 2, alpha=-1)
