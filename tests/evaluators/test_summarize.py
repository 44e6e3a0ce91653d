# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums over partitions give what one pass over the log in memory gives."""

import gc
import weakref
from importlib import import_module

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, train_test_split

from skope_ope import (
    IPS,
    MRDR,
    SNIPS,
    ActionRewardModel,
    AdaptiveIPS,
    ClassifierPolicy,
    DoublyRobust,
    DRns,
    EpsilonGreedy,
    EvaluatorScorer,
    FunctionPolicy,
    IPSPolicy,
    OPESearchCV,
    PropensityEstimator,
    PseudoInverse,
    SlateDoublyRobust,
    UniformPolicy,
    compare_policies,
    evaluate,
    report,
    summarize,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.displays import WeightsDisplay
from skope_ope.evaluators._prepared import prepared
from skope_ope.evaluators.parts._part_sums import sums_of_part
from skope_ope.evaluators.parts._partition_sums import logger_shares
from skope_ope.exceptions import OPEWarning, SupportWarning
from skope_ope.logs import HashKFold
from skope_ope.policies import action_probabilities
from skope_ope.reward_models import AdditiveSlateModel
from tests.evaluators._parquet_worlds import lazy_world
from tests.evaluators._reference_worlds import WORLDS
from tests.evaluators.test_merging import FAMILIES, world_of

pytestmark = [
    pytest.mark.frames,
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning"),
]
pc = pytest.importorskip("pyarrow.compute")

IN_FILES = [name for name in FAMILIES if name != "slates_weighted"]  # no such column
N_PARTITIONS = 50
COMPARING = import_module("skope_ope.selection._compare_policies")


def named(evaluators):
    return {str(k): one for k, one in enumerate(evaluators)}


def assert_same_table(found, whole, atol=1e-12):
    assert list(found) == list(whole)
    for key, value in whole.items():
        assert_allclose(found[key].value, value.value, rtol=1e-12, atol=atol)
        assert_allclose(
            found[key].standard_error, value.standard_error, rtol=1e-11, atol=atol
        )
        assert_allclose(found[key].degrees_of_freedom, value.degrees_of_freedom)
        assert found[key].n_rounds == value.n_rounds


@pytest.mark.few_cases(4)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", IN_FILES)
def test_any_partitions_give_the_numbers_of_memory(name, grouped, tmp_path):
    logs, atol = world_of(name, grouped)
    policies = {str(k): one for k, one in enumerate(WORLDS[name][1]().policies)}
    everyone = named(FAMILIES[name])
    whole = evaluate(policies, logs, evaluators=everyone)
    rng = np.random.RandomState(sum(map(ord, name)) + grouped)
    for trial in range(-(-N_PARTITIONS // (2 * len(IN_FILES)))):
        folder = tmp_path / str(trial)
        folder.mkdir()
        lazy = lazy_world(logs, folder, rng)
        evaluators = dict(list(everyone.items())[trial % 2 :: 2])
        expected = {key: v for key, v in whole.items() if key[1] in evaluators}
        backend = {"backend": "threading", "n_jobs": 2} if trial else {}
        with parallel_config(**backend):
            found = evaluate(policies, lazy, evaluators=evaluators)
        assert_same_table(found, expected, max(atol, 1e-12))


@pytest.fixture
def lazy_and_logs(tmp_path):
    """Clicks with users, as files and in memory."""
    logs, _ = world_of("clicks", grouped=True)
    return lazy_world(logs, tmp_path, np.random.RandomState(0), n_files=4), logs


def test_the_numbers_do_not_depend_on_who_works(lazy_and_logs):
    lazy, _ = lazy_and_logs
    tables = []
    for backend in ({}, {"backend": "threading", "n_jobs": 2}):
        with parallel_config(**backend):
            tables.append(summarize({"new": "pi"}, lazy, evaluators=["SNIPS"]).values())
    one, two = (table["new", "SNIPS"] for table in tables)
    assert (one.value, one.standard_error) == (two.value, two.standard_error)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("reward_model", [None, "q_hat", 0.3, Ridge()])
def test_models_and_folds_are_those_of_memory(lazy_and_logs, reward_model):
    lazy, logs = lazy_and_logs
    how = {"reward_model": reward_model, "cv": HashKFold(3)}
    whole = evaluate("pi", logs, **how)
    assert_same_table(evaluate("pi", lazy, **how), whole)
    how["cv"] = 3  # is HashKFold for sums
    assert_same_table(evaluate("pi", lazy, **how), whole)
    assert_same_table(summarize("pi", logs, **how).values(), whole)
    assert evaluate("pi", lazy).recommended == whole.recommended == "DoublyRobust"


def test_logs_in_memory_add_up_with_files(lazy_and_logs, tmp_path):
    lazy, logs = lazy_and_logs
    call = {"policies": {"new": "pi"}, "evaluators": ["IPS", "SNIPS"]}
    whole = summarize(logs=logs, **call).values()
    parts = [summarize(logs=logs[k::3], **call) for k in range(3)]
    assert_same_table(sum(parts).values(), whole)
    again = evaluate({"new": "pi"}, lazy, evaluators=["IPS", "SNIPS"])
    assert_same_table(again, whole)
    with pytest.raises(ValueError, match="both summaries count"):
        summarize(logs=lazy, **call) + summarize(logs=lazy, **call)


def test_files_and_memory_add_up_where_one_reads_less(lazy_and_logs):
    lazy, logs = lazy_and_logs
    call = {"policies": {"new": "pi"}, "evaluators": ["IPS", "SNIPS"]}
    assert logs.context.dtype.kind == "f"  # which the files are not asked for
    files, memory = summarize(logs=lazy, **call), summarize(logs=logs, **call)
    for total in (files + memory, memory + files):  # rows in memory are not recognised
        assert total.n_rounds == 2 * len(logs)
        for key, value in memory.values().items():
            assert_allclose(total.values()[key].value, value.value, rtol=1e-12)


def test_values_by_columns_are_asked_for_beforehand(lazy_and_logs):
    lazy, logs = lazy_and_logs
    found = summarize("pi", lazy, evaluators=["SNIPS"], by="day").values()["SNIPS"]
    whole = evaluate("pi", logs, evaluators=["SNIPS"])["SNIPS"].by("day")
    assert_same_table(found.by("day"), whole)
    with pytest.raises(ValueError, match="not known: these sums were taken by 'day'"):
        found.by("action")


def test_fitted_evaluators_take_lazy_logs(lazy_and_logs):
    lazy, logs = lazy_and_logs
    for evaluator in (IPS(), DoublyRobust(cv=HashKFold(5))):
        whole = evaluator.fit(logs).evaluate("pi")
        assert evaluator.fit(lazy) is evaluator
        assert_allclose(evaluator.score("pi"), whole.value, rtol=1e-12)
        found = evaluator.evaluate("pi")
        assert_allclose(found.standard_error, whole.standard_error, rtol=1e-12)
        assert evaluator.n_actions_ == 4
        assert evaluator.logs_.n_rounds == len(logs)
        # the rounds of a partition are known again, and predicted out of fold
        part = lazy.partitions[0].read()
        alone = evaluator.evaluate("pi", part)
        some = clone(evaluator).fit(logs).evaluate("pi", logs[: len(part)])
        assert_allclose(alone.round_values, some.round_values, rtol=1e-10, atol=1e-12)
    in_memory = IPS().fit(logs)
    assert_allclose(in_memory.score("pi", lazy), in_memory.score("pi"), rtol=1e-12)


@pytest.mark.thorough
def test_a_model_is_given_once(lazy_and_logs):
    lazy, _ = lazy_and_logs
    found = DoublyRobust().fit(lazy, Ridge()).score("pi")
    assert found == DoublyRobust(reward_model=Ridge()).fit(lazy).score("pi")
    with pytest.raises(ValueError, match="give it once"):
        DoublyRobust(reward_model=Ridge()).fit(lazy, Ridge())


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("baseline", ["logger", "old"])
@pytest.mark.parametrize("few_rounds", [0, 200_000])
def test_policies_are_compared_by_exact_differences(
    lazy_and_logs, baseline, few_rounds, monkeypatch
):
    monkeypatch.setattr(COMPARING, "MOST_READ", few_rounds)
    lazy, logs = lazy_and_logs
    policies = {"new": "pi", "old": "other"}
    for evaluator in (SNIPS(), DoublyRobust(cv=HashKFold(5))):
        how = {"evaluator": evaluator, "baseline": baseline}
        found = compare_policies(policies, lazy, **how)
        whole = compare_policies(policies, logs, **how)
        assert list(found.differences) == list(whole.differences)
        for name, gain in whole.differences.items():
            one = found.differences[name]
            assert_allclose(one.value, gain.value, rtol=1e-10, atol=1e-12)
            assert_allclose(one.standard_error, gain.standard_error, rtol=1e-10)
        if few_rounds:  # which are read
            assert found.sentence == whole.sentence
            some = lazy.filter(pc.field("action") >= lazy.actions[0])  # all of them
            again = compare_policies(policies, some, **how)
            assert again.sentence == whole.sentence
    assert compare_policies(policies, lazy).n_rounds == len(logs)


def many_files(folder, n=20_000):
    logs, policy, _ = make_bandit_logs(n, random_state=0, return_truth=True)
    logs = logs.replace(logging_proba=None)  # rewards are 0 or 1
    pi = action_probabilities(policy, logs)
    return lazy_world(logs.with_columns(pi=pi), folder, np.random.RandomState(0))


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("few_rounds", [0, 200_000])
def test_sums_tell_enough_for_a_decision(tmp_path, monkeypatch, few_rounds):
    """An interval that is only wider than one from the rounds forbids no answer."""
    monkeypatch.setattr(COMPARING, "MOST_READ", few_rounds)
    lazy = many_files(tmp_path)
    for evaluator in (SNIPS(), DoublyRobust(cv=HashKFold(2))):
        found = compare_policies({"new": "pi"}, lazy, evaluator=evaluator)
        assert found.decision == "deploy"
        told = "merged sums, whose interval is wider than one of single rounds"
        assert (told in found.sentence) == (not few_rounds)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("few_rounds", [0, 200_000])
def test_slates_are_compared_without_an_evaluator(tmp_path, monkeypatch, few_rounds):
    monkeypatch.setattr(COMPARING, "MOST_READ", few_rounds)
    logs, _ = world_of("slates_uniform", grouped=False)
    policies = {"new": WORLDS["slates_uniform"][1]().policies[0]}
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0))
    found = compare_policies(policies, lazy)
    coefficients = "multiple" if few_rounds else "single"
    one = PseudoInverse(control_variates=coefficients)
    whole = compare_policies(policies, logs, evaluator=one)
    gain, other = found.differences["new"], whole.differences["new"]
    assert_allclose(gain.value, other.value, rtol=1e-9)
    assert_allclose(gain.standard_error, other.standard_error, rtol=1e-9)
    fitted = SlateDoublyRobust().fit(logs)  # in memory
    with pytest.raises(ValueError, match=r"FrozenEstimator\(AdditiveSlateModel"):
        fitted.evaluate(policies["new"], lazy)
    model = FrozenEstimator(AdditiveSlateModel(Ridge()).fit(logs))
    known = SlateDoublyRobust(reward_model=model).fit(logs)
    value = known.evaluate(policies["new"], lazy).value
    assert_allclose(value, known.evaluate(policies["new"]).value, rtol=1e-9)


@pytest.mark.thorough
def test_folds_of_few_rounds_are_those_of_many(lazy_and_logs, monkeypatch):
    lazy, _ = lazy_and_logs
    evaluator = DoublyRobust(reward_model=Ridge(), cv=3)
    policies = {"new": "pi", "old": "other"}
    read = compare_policies(policies, lazy, evaluator=evaluator)
    monkeypatch.setattr(COMPARING, "MOST_READ", 0)
    summed = compare_policies(policies, lazy, evaluator=evaluator)
    for name in policies:
        assert_allclose(read[name].value, summed[name].value, rtol=1e-9)


@pytest.mark.parametrize("few_rounds", [0, 200_000])
def test_gains_over_lazy_logs_refuse_what_walks(lazy_and_logs, monkeypatch, few_rounds):
    monkeypatch.setattr(COMPARING, "MOST_READ", few_rounds)
    lazy, _ = lazy_and_logs
    with pytest.raises(ValueError, match="DRns needs their rounds in order"):
        compare_policies({"new": "pi"}, lazy, evaluator=DRns())
    with pytest.raises(ValueError, match="from all earlier rounds"):
        compare_policies({"new": "pi"}, lazy, evaluator=AdaptiveIPS())
    with pytest.raises(TypeError, match="learns while it acts"):
        compare_policies({"new": EpsilonGreedy()}, lazy, evaluator=IPS())


@pytest.mark.filterwarnings("error")
def test_warnings_come_once_at_the_line_of_the_caller(tmp_path):
    logs, _ = world_of("unseen", grouped=False)
    logs = logs.replace(logging_proba=None)
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0), n_files=4)
    for call in (
        lambda: evaluate("pi", lazy, evaluators=["IPS", "SNIPS"]),
        lambda: IPS().fit(lazy).evaluate("pi"),
    ):
        with pytest.warns(OPEWarning) as told:
            call()
        kinds = [(type(one.message), str(one.message)) for one in told]
        assert SupportWarning in [kind for kind, _ in kinds]
        assert len(kinds) == len(set(kinds))
        assert all(one.filename == __file__ for one in told)
    assert (
        len(summarize("pi", lazy, evaluators=["IPS"]).policies) == 0
    )  # and no warning


def test_parts_are_told_by_one_label(lazy_and_logs):
    lazy, logs = lazy_and_logs
    with pytest.raises(ValueError, match="by='pi' has 4 entries per round"):
        summarize("pi", lazy, evaluators=["IPS"], by="pi")
    with pytest.raises(ValueError, match="by='pi' has 4 entries per round"):
        summarize("pi", logs, evaluators=["IPS"], by="pi")


def test_only_what_is_needed_is_read(lazy_and_logs):
    lazy, _ = lazy_and_logs
    seen = prepared({"new": "pi"}, lazy, ["IPS"]).logs
    assert seen.roles["context"] == ()
    assert list(seen.columns) == ["pi"]
    seen = prepared({"new": "pi"}, lazy, ["DoublyRobust"], Ridge(), by="day").logs
    assert len(seen.roles["context"]) == 2
    assert list(seen.columns) == ["day", "pi"]
    seen = prepared({"new": UniformPolicy()}, lazy, ["IPS"]).logs
    assert len(seen.columns) == len(lazy.columns)  # a policy may look at any


def test_progress_is_told(lazy_and_logs, capfd):
    lazy, _ = lazy_and_logs
    evaluate("pi", lazy, evaluators=["IPS"])
    assert capfd.readouterr() == ("", "")
    evaluate("pi", lazy, evaluators=["IPS"], verbose=10)
    assert "Parallel" in "".join(capfd.readouterr())
    prepared({None: "pi"}, lazy, ["DoublyRobust"]).sources(verbose=10)  # fits as well
    assert "Parallel" in "".join(capfd.readouterr())
    with parallel_config(verbose=10):  # of calls that have no such argument
        DoublyRobust().fit(lazy)
    assert "Parallel" in "".join(capfd.readouterr())


REFUSED = {
    "arrays": (lambda lazy: evaluate(np.ones((500, 4)) / 4, lazy), "is an array"),
    "no column": (lambda lazy: evaluate("nobody", lazy), "is not a column"),
    "no column by": (lambda lazy: summarize("pi", lazy, by="moon"), "by is 'moon'"),
    "weights": (
        lambda lazy: evaluate("pi", lazy, sample_weight=np.ones(500)),
        "For lazy logs name its column",
    ),
    "no policy": (lambda lazy: summarize({}, lazy), "policies is empty"),
    "unfitted": (lambda lazy: evaluate(IPSPolicy(), lazy), "not fitted yet"),
    "auto": (
        lambda lazy: evaluate("pi", lazy, evaluators=[IPS(cmax="auto")]),
        "Pass a",
    ),
    "MRDR": (lambda lazy: evaluate("pi", lazy, evaluators=["MRDR"]), "DoublyRobust"),
    "folds": (lambda lazy: evaluate("pi", lazy, cv=KFold(5)), "HashKFold"),
    "walks": (lambda lazy: summarize("pi", lazy, evaluators=["DRns"]), "in order"),
    "learns": (lambda lazy: evaluate(EpsilonGreedy(), lazy), "lazy logs in order"),
    "slates": (lambda lazy: PseudoInverse().fit(lazy), "must be SlateLogs"),
    "functions": (
        lambda lazy: summarize(FunctionPolicy(lambda X: X).fit(lazy), lazy),
        "Name the policy",
    ),
    "rows": (lambda lazy: lazy[3], "sample"),
    "array": (np.asarray, "sample"),
    "loops": (list, "not iterable"),
    "splits": (train_test_split, "sample"),
    "search": (
        lambda lazy: GridSearchCV(
            IPS(), {"cmax": [1, 2]}, scoring=EvaluatorScorer("pi")
        ).fit(lazy),
        "sample",
    ),
    "our search": (
        lambda lazy: OPESearchCV(
            IPS(), {"cmax": [1, 2]}, scoring=EvaluatorScorer("pi")
        ).fit(lazy),
        "sample",
    ),
    "scorer": (lambda lazy: EvaluatorScorer("pi")(IPS().fit(lazy), lazy), "sample"),
    "fold numbers": (lambda lazy: HashKFold().fold_of(lazy), "partition"),
    "steps": (lambda lazy: PropensityEstimator().fit(lazy), "sample"),
    "learners": (lambda lazy: IPSPolicy().fit(lazy), "sample"),
    "classifiers": (lambda lazy: ClassifierPolicy().fit(lazy), "sample"),
    "models": (lambda lazy: ActionRewardModel(Ridge()).fit(lazy), "sample"),
    "tables": (lambda lazy: action_probabilities(UniformPolicy(), lazy), "sample"),
    "weights shown": (
        lambda lazy: WeightsDisplay.from_evaluator(IPS().fit(lazy), "pi"),
        "sample",
    ),
    "report": (lambda lazy: report({"new": "pi"}, lazy), "sample"),
    "rounds": (lambda lazy: IPS().fit(lazy).evaluate("pi").round_values, "sample"),
}


@pytest.mark.few_cases(9)
@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_rounds_in_memory_names_the_way(lazy_and_logs, name):
    call, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=message):
        call(lazy_and_logs[0])


def test_what_weighs_rounds_by_earlier_ones_names_the_way(tmp_path):
    logs, _ = world_of("clicks", grouped=False)
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0))
    for call in (
        lambda: evaluate("pi", lazy, evaluators=["AdaptiveIPS"]),
        lambda: evaluate("pi", lazy, evaluators=["AdaptiveDR"]),
        lambda: summarize("pi", lazy, evaluators=["AdaptiveDR"], reward_model=0.3),
        lambda: AdaptiveIPS().fit(lazy),
        lambda: AdaptiveIPS().fit(logs).evaluate("pi", lazy),
    ):
        with pytest.raises(ValueError, match="ConfidenceSequence"):
            call()


def test_a_fit_in_memory_that_made_no_model_says_so(lazy_and_logs):
    lazy, logs = lazy_and_logs
    with pytest.raises(ValueError, match="MRDR fits its reward model to all rounds"):
        MRDR().fit(logs).evaluate("pi", lazy)


def test_logs_are_checked():
    for call in (summarize, evaluate):
        with pytest.raises(TypeError, match="logs must be"):
            call("pi", 3)


def test_policies_learn_their_actions_from_lazy_logs(lazy_and_logs):
    lazy, logs = lazy_and_logs
    policy = UniformPolicy().fit(lazy)
    assert policy.classes_.tolist() == [0, 1, 2, 3]
    found = evaluate({"u": policy}, lazy, evaluators=["SNIPS"])
    assert_same_table(found, evaluate({"u": policy}, logs, evaluators=["SNIPS"]))


@pytest.mark.few_cases(3)
@pytest.mark.parametrize("name", IN_FILES)
def test_rounds_are_let_go_at_once(name):
    logs, _ = world_of(name, grouped=True)
    policy = WORLDS[name][1]().policies[0]
    evaluators = named(FAMILIES[name])
    part = logs[np.arange(len(logs) // 2)]
    here = weakref.ref(part)
    gc.collect()
    gc.disable()  # a cycle would keep them
    try:
        shares = None if "slates" in name else logger_shares(logs)
        sums = sums_of_part({"new": policy}, evaluators, part, shares=shares)
        del part
        assert here() is None
    finally:
        gc.enable()
    assert sums.n == len(logs) // 2
