# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums over partitions give what one pass over the log in memory gives."""

import pickle

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
    AdaptiveDR,
    AdaptiveIPS,
    CascadeDR,
    ClassifierPolicy,
    DoublyRobust,
    DRns,
    EpsilonGreedy,
    EvaluatorScorer,
    FunctionPolicy,
    IPSPolicy,
    OPESearchCV,
    PositionScavenging,
    PropensityEstimator,
    PseudoInverse,
    ReorderingScavenging,
    SlateDoublyRobust,
    UniformPolicy,
    compare_policies,
    evaluate,
    report,
    summarize,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.displays import WeightsDisplay
from skope_ope.exceptions import OPEWarning, SupportWarning
from skope_ope.logs import HashKFold
from skope_ope.policies import action_probabilities
from skope_ope.reward_models import AdditiveSlateModel
from tests.evaluators._parquet_worlds import lazy_world
from tests.evaluators._reference_worlds import WORLDS
from tests.evaluators.core._asked import by_pickle
from tests.evaluators.test_merging import world_of

pytestmark = [
    pytest.mark.frames,
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning"),
]
pc = pytest.importorskip("pyarrow.compute")


def assert_same_table(found, whole, atol=1e-12):
    assert list(found) == list(whole)
    for key, value in whole.items():
        one = found[key]
        assert_allclose(one.value, value.value, rtol=1e-12, atol=atol)
        error = value.standard_error
        assert_allclose(one.standard_error, error, rtol=1e-11, atol=atol)
        assert_allclose(one.degrees_of_freedom, value.degrees_of_freedom)
        assert one.n_rounds == value.n_rounds


@pytest.fixture
def lazy_and_logs(tmp_path):
    """Clicks with users, as files and in memory."""
    logs, _ = world_of("clicks", grouped=True)
    return lazy_world(logs, tmp_path, np.random.RandomState(0), n_files=4), logs


def test_files_and_memory_add_up(lazy_and_logs):
    lazy, logs = lazy_and_logs
    call = {"policies": {"new": "pi"}, "evaluators": ["IPS", "SNIPS"]}
    memory = summarize(logs=logs, **call)
    whole = memory.values()
    parts = [summarize(logs=logs[k::3], **call) for k in range(3)]
    assert_same_table(sum(parts).values(), whole)
    assert_same_table(evaluate(logs=lazy, **call), whole)
    assert logs.context.dtype.kind == "f"  # which the files are not asked for
    files = summarize(logs=lazy, **call)
    with parallel_config(backend="threading", n_jobs=2):  # whoever works
        again = summarize(logs=lazy, **call).values()
    for key, value in files.values().items():
        assert value.value == again[key].value
        assert value.standard_error == again[key].standard_error
    for total in (files + memory, memory + files):  # rows in memory are not recognised
        assert total.n_rounds == 2 * len(logs)
        for key, value in whole.items():
            assert_allclose(total.values()[key].value, value.value, rtol=1e-12)
    with pytest.raises(ValueError, match="both summaries count"):
        files + summarize(logs=lazy, **call)


def test_values_by_columns_are_asked_for_beforehand(lazy_and_logs):
    lazy, logs = lazy_and_logs
    found = summarize("pi", lazy, evaluators=["SNIPS"], by="day").values()["SNIPS"]
    whole = evaluate("pi", logs, evaluators=["SNIPS"])["SNIPS"].by("day")
    assert_same_table(found.by("day"), whole)
    with pytest.raises(ValueError, match="not known: these sums were taken by 'day'"):
        by_pickle(found).by("action")  # which leaves the files behind
    for some in lazy_and_logs:
        with pytest.raises(ValueError, match="by='pi' has 4 entries per round"):
            summarize("pi", some, evaluators=["IPS"], by="pi")


def test_fitted_evaluators_take_lazy_logs(lazy_and_logs):
    lazy, logs = lazy_and_logs
    for evaluator in (IPS(), DoublyRobust(cv=HashKFold(5))):
        assert evaluator.fit(lazy) is evaluator
        assert evaluator.n_actions_ == 4
        assert evaluator.logs_.n_rounds == len(logs)
        # the rounds of a partition are known again, and predicted out of fold
        part = lazy.partitions[0].read()
        alone = evaluator.evaluate("pi", part)
        some = clone(evaluator).fit(logs).evaluate("pi", logs[: len(part)])
        assert_allclose(alone.round_values, some.round_values, rtol=1e-10, atol=1e-12)
    in_memory = IPS().fit(logs)
    assert_allclose(in_memory.score("pi", lazy), in_memory.score("pi"), rtol=1e-12)
    found = DoublyRobust().fit(lazy, Ridge()).score("pi")
    assert found == DoublyRobust(reward_model=Ridge()).fit(lazy).score("pi")
    with pytest.raises(ValueError, match="give it once"):
        DoublyRobust(reward_model=Ridge()).fit(lazy, Ridge())
    policy = UniformPolicy().fit(lazy)
    assert policy.classes_.tolist() == [0, 1, 2, 3]
    found = evaluate({"u": policy}, lazy, evaluators=["SNIPS"])
    assert_same_table(found, evaluate({"u": policy}, logs, evaluators=["SNIPS"]))
    found = evaluate("pi", lazy, cv=3)  # is HashKFold for sums
    assert_same_table(found, evaluate("pi", logs, cv=HashKFold(3)))


def test_what_needs_all_rounds_names_the_way(tmp_path):
    """The judge asks all evaluators which sum what files hold."""
    static = AdaptiveDR(), AdaptiveIPS(), MRDR()
    attention = {"attention": [1.0, 0.5, 0.25]}
    of_pages = CascadeDR(), PositionScavenging(**attention)
    of_pages = *of_pages, ReorderingScavenging(**attention)
    for name, some in (("clicks", static), ("slates_uniform", of_pages)):
        logs, _ = world_of(name, grouped=False)
        (tmp_path / name).mkdir()
        lazy = lazy_world(logs, tmp_path / name, np.random.RandomState(0), n_files=3)
        policy = WORLDS[name][1]().policies[0]
        for one in some:
            with pytest.raises(ValueError, match=r"lazy\.sample\(|Pass a number"):
                evaluate(policy, lazy, evaluators={"one": one}, cv=HashKFold(3))


# -- comparisons: of few rounds, which are read, and of more, which are summed --------
FEW = 200_000


def tiled(name, folder, more, grouped=False):
    """Return files of a world and the same logs in memory, few or more than FEW."""
    logs, _ = world_of(name, grouped)
    if more:
        logs = logs[np.arange(FEW + len(logs)) % len(logs)]
    return lazy_world(logs, folder, np.random.RandomState(0), n_files=4), logs


def test_policies_are_compared_by_exact_differences(tmp_path):
    lazy, logs = tiled("clicks", tmp_path, more=True, grouped=True)
    policies = {"new": "pi", "old": "other"}
    for evaluator in (SNIPS(), DoublyRobust(cv=HashKFold(5))):
        how = {"evaluator": evaluator, "baseline": "logger"}
        found = compare_policies(policies, lazy, **how)
        whole = compare_policies(policies, logs, **how)
        assert list(found.differences) == list(whole.differences)
        for name, gain in whole.differences.items():
            one = found.differences[name]
            assert_allclose(one.value, gain.value, rtol=1e-10, atol=1e-12)
            assert_allclose(one.standard_error, gain.standard_error, rtol=1e-9)
    assert compare_policies(policies, lazy).n_rounds == len(logs)


def test_few_rounds_that_are_left_are_read(lazy_and_logs):
    lazy, logs = lazy_and_logs
    some = lazy.filter(pc.field("action") >= lazy.actions[0])  # all of them
    policies, how = {"new": "pi", "old": "other"}, {"baseline": "old"}
    how["evaluator"] = DoublyRobust(cv=HashKFold(5))
    sentence = compare_policies(policies, logs, **how).sentence
    assert compare_policies(policies, some, **how).sentence == sentence


@pytest.mark.parametrize("n", [20_000, FEW + 1])
def test_sums_tell_enough_for_a_decision(tmp_path, n):
    """An interval from sums is that of the rounds: it forbids no answer."""
    logs, policy, _ = make_bandit_logs(n, random_state=0, return_truth=True)
    pi = action_probabilities(policy, logs)
    logs = logs.replace(logging_proba=None).with_columns(pi=pi)
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0))
    found = compare_policies({"new": "pi"}, lazy, evaluator=SNIPS())
    assert found.decision == "deploy"
    assert "merged sums" not in found.sentence


def test_slates_are_compared_without_an_evaluator(tmp_path):
    lazy, logs = tiled("slates_uniform", tmp_path, more=True)
    policies = {"new": WORLDS["slates_uniform"][1]().policies[0]}
    single = PseudoInverse(control_variates="single")
    gain = compare_policies(policies, lazy).differences["new"]
    other = compare_policies(policies, logs, evaluator=single).differences["new"]
    assert_allclose(gain.value, other.value, rtol=1e-9)
    assert_allclose(gain.standard_error, other.standard_error, rtol=1e-9)


def test_models_of_slates_are_given_fitted(tmp_path):
    lazy, logs = tiled("slates_uniform", tmp_path, more=False)
    policy = WORLDS["slates_uniform"][1]().policies[0]
    with pytest.raises(ValueError, match=r"FrozenEstimator\(AdditiveSlateModel"):
        SlateDoublyRobust().fit(logs).evaluate(policy, lazy)
    model = FrozenEstimator(AdditiveSlateModel(Ridge()).fit(logs))
    known = SlateDoublyRobust(reward_model=model).fit(logs)
    value = known.evaluate(policy, lazy).value
    assert_allclose(value, known.evaluate(policy).value, rtol=1e-9)


@pytest.mark.parametrize("more", [False, True])
def test_gains_over_lazy_logs_refuse_what_walks(more, tmp_path):
    lazy, _ = tiled("clicks", tmp_path, more)
    for error, policy, evaluator, message in (
        (ValueError, "pi", DRns(), "DRns needs their rounds in order"),
        (ValueError, "pi", AdaptiveIPS(), "from all earlier rounds"),
        (TypeError, EpsilonGreedy(), IPS(), "learns while it acts"),
    ):
        with pytest.raises(error, match=message):
            compare_policies({"new": policy}, lazy, evaluator=evaluator)


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
    summary = summarize("pi", lazy, evaluators=["IPS"])  # and no warning
    assert summary.policies == ()


def test_progress_is_told(lazy_and_logs, capfd):
    lazy, _ = lazy_and_logs
    evaluate("pi", lazy, evaluators=["IPS"])
    assert capfd.readouterr() == ("", "")
    evaluate("pi", lazy, evaluators=["IPS"], verbose=10)
    assert "Parallel" in "".join(capfd.readouterr())
    with parallel_config(verbose=10):  # of calls that have no such argument
        DoublyRobust().fit(lazy)
    assert "Parallel" in "".join(capfd.readouterr())


CMAX, BY_PI = {"cmax": [1, 2]}, EvaluatorScorer("pi")
REFUSED = [
    (lambda lazy: summarize({}, lazy), "policies is empty"),
    (lambda lazy: evaluate(np.ones((500, 4)) / 4, lazy), "is an array"),
    (lambda lazy: evaluate("nobody", lazy), "is not a column"),
    (lambda lazy: summarize("pi", lazy, by="moon"), "by is 'moon'"),
    (lambda lazy: evaluate("pi", lazy, sample_weight=[1]), "name its column"),
    (lambda lazy: evaluate(IPSPolicy(), lazy), "not fitted yet"),
    (lambda lazy: summarize("pi", lazy, evaluators=[IPS(cmax="auto")]), "Pass a"),
    (lambda lazy: evaluate("pi", lazy, evaluators=["MRDR"]), "DoublyRobust"),
    (lambda lazy: evaluate("pi", lazy, cv=KFold(5)), "HashKFold"),
    (lambda lazy: summarize("pi", lazy, evaluators=["DRns"]), "in order"),
    (lambda lazy: evaluate(EpsilonGreedy(), lazy), "lazy logs in order"),
    (lambda lazy: PseudoInverse().fit(lazy), "must be SlateLogs"),
    (lambda lazy: summarize(FunctionPolicy(len).fit(lazy), lazy), "Name the policy"),
    (list, "not iterable"),
    (lambda lazy: summarize("pi", 3), "logs must be"),
    (lambda lazy: evaluate("pi", 3), "logs must be"),
    (lambda lazy: HashKFold().fold_of(lazy), "partition"),
    *(
        (call, "sample")
        for call in (
            lambda lazy: lazy[3],
            np.asarray,
            train_test_split,
            lambda lazy: GridSearchCV(IPS(), CMAX, scoring=BY_PI).fit(lazy),
            lambda lazy: OPESearchCV(IPS(), CMAX, scoring=BY_PI).fit(lazy),
            lambda lazy: EvaluatorScorer("pi")(IPS().fit(lazy), lazy),
            lambda lazy: PropensityEstimator().fit(lazy),
            lambda lazy: IPSPolicy().fit(lazy),
            lambda lazy: ClassifierPolicy().fit(lazy),
            lambda lazy: ActionRewardModel(Ridge()).fit(lazy),
            lambda lazy: action_probabilities(UniformPolicy(), lazy),
            lambda lazy: WeightsDisplay.from_evaluator(IPS().fit(lazy), "pi"),
            lambda lazy: report({"new": "pi"}, lazy),
            lambda lazy: by_pickle(IPS().fit(lazy).evaluate("pi")).round_values,
        )
    ),
]


@pytest.mark.few_cases(10)
@pytest.mark.parametrize("call, message", REFUSED)
def test_what_needs_rounds_in_memory_names_the_way(lazy_and_logs, call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(lazy_and_logs[0])


def test_what_has_seen_all_rounds_names_the_way(tmp_path):
    lazy, logs = tiled("clicks", tmp_path, more=False)
    array = DoublyRobust(reward_model=logs.columns["q_hat"]).fit(logs)
    adaptive = {"evaluators": ["AdaptiveDR"]}
    for call, message in (
        (lambda: array.evaluate("pi", lazy), "Carry it as a column|Store the values"),
        (lambda: MRDR().fit(logs).evaluate("pi", lazy), "MRDR fits its reward model"),
        (lambda: AdaptiveIPS().fit(logs).evaluate("pi", lazy), "ConfidenceSequence"),
        (lambda: AdaptiveIPS().fit(lazy), "ConfidenceSequence"),
        (lambda: summarize("pi", lazy, **adaptive), "ConfidenceSequence"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_logs_are_summed_once_and_stay_as_they_were():
    logs = make_bandit_logs(random_state=0)
    before, weight = pickle.dumps(logs), np.r_[0.0, np.ones(len(logs) - 1)]
    tables = [summarize(UniformPolicy(), logs).values() for _ in range(2)]
    assert_same_table(*tables)
    assert pickle.dumps(logs) == before
    how = {"evaluators": ["IPS", "SNIPS"], "sample_weight": weight}
    weighted = summarize(UniformPolicy(), logs, **how).values()
    assert_same_table(weighted, evaluate(UniformPolicy(), logs, **how))
