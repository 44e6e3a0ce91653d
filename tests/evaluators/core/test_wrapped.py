# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Searches and Pipelines wherever a policy or an evaluator is taken."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    train_test_split,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope import (
    IPS,
    SNIPS,
    ClassifierPolicy,
    DoublyRobust,
    DRns,
    EvaluatorScorer,
    OPESearchCV,
    PolicyScorer,
    PropensityClipper,
    PropensityEstimator,
    RankingPolicy,
    SlateIPS,
    SlopeSearch,
    UniformPolicy,
    compare_policies,
    evaluate,
    report,
    scan_logs,
    summarize,
)
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from skope_ope.displays import (
    ClippingCurveDisplay,
    ConvergenceDisplay,
    HistoryDisplay,
    PolicyComparisonDisplay,
    PolicyValueDisplay,
    QuantileCurveDisplay,
    SensitivityDisplay,
    SupportDisplay,
    WeightsDisplay,
)
from skope_ope.exceptions import OPEWarning

pytestmark = pytest.mark.filterwarnings(
    f"ignore::{OPEWarning.__module__}.{OPEWarning.__name__}"
)

ALL, TARGET, _ = make_bandit_logs(
    600, reward="binary", random_state=0, return_truth=True
)
TRAIN, TEST = train_test_split(ALL, random_state=0)
UNIFORM = UniformPolicy()
SCORING = EvaluatorScorer(UNIFORM)
GRID = {"cmax": [2.0, 1.5]}
LOW = 0.3


def clipped(evaluator):
    return Pipeline([("clip", PropensityClipper(LOW)), ("ev", evaluator)])


SEARCHES = [
    GridSearchCV(DoublyRobust(), GRID, scoring=SCORING, cv=2),
    RandomizedSearchCV(
        DoublyRobust(), GRID, n_iter=2, scoring=SCORING, cv=2, random_state=0
    ),
    HalvingGridSearchCV(
        DoublyRobust(), GRID, scoring=SCORING, cv=2, random_state=0, min_resources=100
    ),
    OPESearchCV(DoublyRobust(), GRID, scoring=SCORING, random_state=0, n_splits=2),
    SlopeSearch(DoublyRobust(), GRID, scoring=SCORING),
]
PIPELINES = [
    clipped(DoublyRobust()),
    GridSearchCV(
        clipped(DoublyRobust()), {"ev__cmax": [2.0, 1.5]}, scoring=SCORING, cv=2
    ),
    Pipeline([("clip", PropensityClipper(LOW)), ("search", SEARCHES[0])]),
]


def ids(value):
    return type(value).__name__


@pytest.fixture(scope="module", params=[*SEARCHES, *PIPELINES], ids=ids)
def fitted(request):
    return clone(request.param).fit(TRAIN)


def plain_of(fitted):
    """Return the evaluator inside, unfitted, and the test rounds that it meets."""
    found, clips = fitted, False
    while not isinstance(found, DoublyRobust):
        clips = clips or hasattr(found, "steps")
        found = getattr(found, "best_estimator_", None) or found.steps[-1][1]
    return clone(found), PropensityClipper(LOW).fit_transform(TEST) if clips else TEST


# -- as evaluators --------------------------------------------------------------------


@pytest.mark.few_cases(3)
def test_evaluate(fitted):
    plain, logs = plain_of(fitted)
    expected = evaluate(TARGET, logs, evaluators=[plain])["DoublyRobust"]
    for evaluators in ([fitted], fitted, {"own": fitted}):
        [value] = evaluate(TARGET, TEST, evaluators=evaluators).values()
        assert value.value == expected.value
        assert value.standard_error == expected.standard_error
    policies, given = {"new": TARGET, "uniform": UNIFORM}, {"reward_model": Ridge()}
    table = evaluate(policies, TEST, evaluators={"s": fitted, "IPS": IPS()}, **given)
    assert list(table) == [(p, e) for p in policies for e in ("s", "IPS")]
    alone = evaluate(policies, logs, evaluators={"s": plain}, **given)
    others = evaluate(policies, TEST, evaluators=["IPS"], **given)
    for key, value in table.items():
        assert value.value == (alone if key[1] == "s" else others)[key].value


@pytest.mark.few_cases(3)
def test_compare_policies(fitted):
    plain, logs = plain_of(fitted)
    policies = {"new": TARGET, "uniform": UNIFORM}
    found = compare_policies(policies, TEST, evaluator=fitted)
    expected = compare_policies(policies, logs, evaluator=plain)
    assert found.sentence == expected.sentence
    for name in policies:
        assert found[name].value == expected[name].value
        assert found.differences[name].value == expected.differences[name].value


@pytest.mark.few_cases(3)
def test_report(fitted):
    page = report({"new": TARGET}, TEST, evaluators={"mine": fitted})
    assert "mine" in page.to_html()


def test_summarize(fitted):
    plain, logs = plain_of(fitted)
    found = summarize({"new": TARGET}, TEST, evaluators={"s": fitted}).values()
    expected = summarize({"new": TARGET}, logs, evaluators={"s": plain}).values()
    assert found["new", "s"].value == expected["new", "s"].value


def test_a_summary_is_of_one_log():
    evaluators = [clipped(IPS()), SNIPS()]
    with pytest.raises(
        ValueError, match=r"summary needs the same rounds.* Summarize it"
    ):
        summarize({"new": TARGET}, TEST, evaluators=evaluators)


def test_scorers(fitted):
    plain, logs = plain_of(fitted)
    policy = ClassifierPolicy(LogisticRegression()).fit(TRAIN)
    expected = PolicyScorer(plain)(policy, logs)
    assert PolicyScorer(fitted)(policy, TEST) == expected
    candidate = IPS().fit(TRAIN)
    expected = EvaluatorScorer(TARGET, validator=plain)(candidate, logs)
    assert EvaluatorScorer(TARGET, validator=fitted)(candidate, TEST) == expected


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("search", [*SEARCHES, *PIPELINES], ids=ids)
def test_scorers_fit_what_is_not_fitted(search):
    plain, logs = plain_of(clone(search).fit(TEST))
    policy = ClassifierPolicy(LogisticRegression()).fit(TRAIN)
    score = PolicyScorer(search)(policy, TEST)
    assert score == PolicyScorer(plain)(policy, logs)
    candidate = IPS().fit(TRAIN)
    score = EvaluatorScorer(TARGET, validator=search)(candidate, TEST)
    assert score == EvaluatorScorer(TARGET, validator=plain)(candidate, logs)
    assert not hasattr(search, "best_estimator_")  # nothing is written to the user's


@pytest.mark.thorough
def test_searches_score_by_searches():
    policy = ClassifierPolicy(LogisticRegression())
    grid = {"epsilon": [0.1, 0.5]}
    for scorer in (PolicyScorer(SEARCHES[0]), PolicyScorer(clipped(IPS()))):
        for kind in (GridSearchCV, OPESearchCV):
            search = kind(policy, grid, scoring=scorer, cv=2, error_score="raise")
            assert np.isfinite(search.fit(TRAIN).best_score_)
    scorer = EvaluatorScorer(TARGET, validator=clipped(SNIPS()))
    for cv in (2, None):
        search = OPESearchCV(IPS(), GRID, scoring=scorer, cv=cv, error_score="raise")
        assert np.isfinite(search.fit(TRAIN).best_score_)


def test_steps_as_they_were_fitted_or_else_fitted_anew():
    pipe = Pipeline([("p", PropensityEstimator()), ("ev", IPS())])
    fresh = PropensityEstimator()
    for steps, made in (
        (pipe, fresh.fit_transform(TEST)),
        (clone(pipe).fit(TRAIN), fresh.fit(TRAIN).transform(TEST)),
    ):
        [value] = evaluate(TARGET, TEST, evaluators=[steps]).values()
        assert value.value == IPS().fit(made).score(TARGET)
    assert not hasattr(pipe[0], "n_features_in_")


def test_steps_that_do_nothing():
    for pipe in (
        Pipeline([("ev", IPS())]),
        Pipeline([("a", "passthrough"), ("e", IPS())]),
    ):
        [(name, value)] = evaluate(TARGET, TEST, evaluators=[pipe]).items()
        assert (name, value.row_id) == ("IPS", TEST.row_id)


def test_logs_without_propensities_are_evaluated_after_an_estimator():
    logs = TEST.replace(propensity=None)
    pipe = make_pipeline(PropensityEstimator(), IPS())
    [(name, value)] = evaluate(TARGET, logs, evaluators=[pipe]).items()
    assert name == "IPS after PropensityEstimator"
    assert value.value == pipe.fit(logs).score(TARGET)
    assert name in repr(evaluate(TARGET, logs, evaluators=[pipe]))


def test_the_rule_recommends_no_row_of_other_rounds():
    evaluators = {"plain": DoublyRobust(), "clipped": clipped(DoublyRobust())}
    assert evaluate(TARGET, TEST, evaluators=evaluators).recommended == "plain"
    only = evaluate(TARGET, TEST, evaluators={"clipped": clipped(DoublyRobust())})
    assert only.recommended is None


def test_what_is_not_fitted_evaluates_nothing():
    search = SEARCHES[0]
    calls = [
        lambda: evaluate(TARGET, TEST, evaluators=[search]),
        lambda: summarize({"new": TARGET}, TEST, evaluators=[search]),
        lambda: compare_policies({"new": TARGET}, TEST, evaluator=search),
    ]
    for call in calls:
        with pytest.raises(NotFittedError, match="GridSearchCV is not fitted yet"):
            call()
    unchosen = clone(search).set_params(refit=False).fit(TRAIN)
    with pytest.raises(TypeError, match="no best_estimator_: with refit=False"):
        evaluate(TARGET, TEST, evaluators=[unchosen])
    for scorer in (PolicyScorer(unchosen), PolicyScorer(clone(unchosen))):
        with pytest.raises(TypeError, match="no best_estimator_: with refit=False"):
            scorer(ClassifierPolicy().fit(TRAIN), TEST)


def test_what_has_no_evaluator_inside():
    policy = GridSearchCV(ClassifierPolicy(), {}, scoring=PolicyScorer(IPS()), cv=2)
    with pytest.raises(
        TypeError, match=r"expects an evaluator .* got ClassifierPolicy"
    ):
        PolicyScorer(policy)
    with pytest.raises(TypeError, match=r"must be an evaluator .* ClassifierPolicy"):
        EvaluatorScorer(TARGET, validator=policy)
    with pytest.raises(TypeError, match=r"expects an evaluator .* got Ridge"):
        PolicyScorer(make_pipeline(StandardScaler(), Ridge()))
    with pytest.raises(TypeError, match="whose reward_model is an array"):
        PolicyScorer(clipped(DoublyRobust(reward_model=np.zeros((5, 2)))))
    with pytest.raises(TypeError, match="names or evaluators, got ClassifierPolicy"):
        evaluate(TARGET, TEST, evaluators=[policy.fit(TRAIN)])


def test_lazy_logs(tmp_path):
    pytest.importorskip("pyarrow")  # it reads the file
    path = tmp_path / "log.csv"
    path.write_text("action,reward,p,x\n" + "a,1,.5,1\nb,0,.5,2\n" * 20)
    columns = {"action": "action", "reward": "reward", "propensity": "p"}
    lazy = scan_logs(path, context=["x"], **columns)
    memory = lazy.head(40)
    search = GridSearchCV(
        SNIPS(), {"cmax": [1.5]}, scoring=EvaluatorScorer(UNIFORM, IPS()), cv=2
    ).fit(memory)
    for found in (
        evaluate(UNIFORM, lazy, evaluators=[search]),
        summarize(UNIFORM, lazy, evaluators=[search]).values(),
    ):
        expected = SNIPS(cmax=1.5).fit(memory).score(UNIFORM)
        assert found["SNIPS"].value == pytest.approx(expected)
    found = compare_policies({"u": UNIFORM}, lazy, evaluator=search)
    assert found["u"].value == pytest.approx(expected)
    pipe = clipped(SNIPS())
    for call in (
        lambda: evaluate(UNIFORM, lazy, evaluators=[pipe]),
        lambda: summarize({"u": UNIFORM}, lazy, evaluators=[pipe]),
        lambda: compare_policies({"u": UNIFORM}, lazy, evaluator=pipe),
    ):
        with pytest.raises(TypeError, match="PropensityClipper first, take rounds in"):
            call()


# -- displays -------------------------------------------------------------------------


@pytest.mark.few_cases(4)
@pytest.mark.parametrize("logs", [None, TEST], ids=["logs of fit", "others"])
def test_displays(fitted, logs):
    inner, made = plain_of(fitted)
    rounds = PropensityClipper(LOW).fit_transform(TRAIN) if made is not TEST else TRAIN
    inner = inner.fit(rounds)
    made, policies = None if logs is None else made, {"t": TARGET, "u": UNIFORM}
    for display, target, attribute in (
        (PolicyValueDisplay, TARGET, "value"),
        (WeightsDisplay, TARGET, "weights"),
        (SupportDisplay, TARGET, "effective_rounds"),
        (ClippingCurveDisplay, TARGET, "value"),
        (ConvergenceDisplay, TARGET, "value"),
        (PolicyComparisonDisplay, policies, "gain"),
    ):
        found = display.from_evaluator(fitted, target, logs=logs)
        expected = display.from_evaluator(inner, target, logs=made)
        assert_array_equal(getattr(found, attribute), getattr(expected, attribute))
    named = PolicyValueDisplay.from_evaluator({"a": fitted}, {"t": TARGET}, logs=logs)
    expected = PolicyValueDisplay.from_evaluator(inner, TARGET, logs=made)
    assert_array_equal(named.value, expected.value)
    assert WeightsDisplay.from_evaluator(fitted, TARGET, logs).name == "DoublyRobust"


def test_displays_of_special_evaluators():
    snips = clipped(SNIPS()).fit(TRAIN)
    assert SensitivityDisplay.from_evaluator(snips, TARGET, logs=TEST)
    drns = clipped(DRns(random_state=0)).fit(TRAIN)
    assert QuantileCurveDisplay.from_evaluator(drns, TARGET, q_range=[0.1, 0.2])
    assert HistoryDisplay.from_evaluator(drns, TARGET)


# -- as policies ----------------------------------------------------------------------

ACTOR = ClassifierPolicy(LogisticRegression(), epsilon=0.1)
EPSILONS = {"epsilon": [0.1, 0.5]}
POLICIES = [
    GridSearchCV(ACTOR, EPSILONS, scoring=PolicyScorer(IPS()), cv=2),
    RandomizedSearchCV(ACTOR, EPSILONS, n_iter=2, scoring=PolicyScorer(IPS()), cv=2),
    HalvingGridSearchCV(ACTOR, EPSILONS, scoring=PolicyScorer(IPS()), cv=2),
    OPESearchCV(ACTOR, EPSILONS, scoring=PolicyScorer(IPS()), cv=2),
    make_pipeline(PropensityClipper(LOW), ACTOR),
]


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("search", POLICIES, ids=ids)
def test_policies(search):
    policy = clone(search).fit(TRAIN, TRAIN.action)
    inner = policy
    while not isinstance(inner, ClassifierPolicy):
        inner = getattr(inner, "best_estimator_", None) or inner.steps[-1][1]
    expected = IPS().fit(TEST).score(inner)
    assert evaluate(policy, TEST, evaluators=["IPS"])["IPS"].value == expected
    found = compare_policies({"new": policy}, TEST, evaluator=IPS())
    assert found["new"].value == expected
    assert summarize({"n": policy}, TEST, evaluators=["IPS"]).values()["n", "IPS"].value
    assert PolicyScorer(IPS())(policy, TEST) == PolicyScorer(IPS())(inner, TEST)
    scorer = EvaluatorScorer(policy, validator=IPS())
    assert scorer(SNIPS().fit(TEST), TEST) <= 0
    display = PolicyValueDisplay.from_evaluator(IPS().fit(TEST), policy)
    assert display.value[0] == expected


def test_slate_policies_and_evaluators():
    logs = make_slate_logs(300, random_state=0)
    scoring = PolicyScorer(SlateIPS())
    ranker = RankingPolicy(Ridge(), 3, temperature=1.0)
    search = GridSearchCV(ranker, {"temperature": [1.0, 2.0]}, scoring=scoring, cv=2)
    search.fit(logs, logs.reward)
    best = search.best_estimator_
    expected = SlateIPS().fit(logs).score(best)
    tuned = GridSearchCV(
        SlateIPS(), {"self_normalized": [False]}, scoring=EvaluatorScorer(best), cv=2
    ).fit(logs)
    assert evaluate(search, logs, evaluators=[tuned])["SlateIPS"].value == expected
    found = compare_policies({"new": search}, logs, evaluator=tuned)
    assert found["new"].value == expected
    assert SupportDisplay.from_evaluator(tuned, search).labels
