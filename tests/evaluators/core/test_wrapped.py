# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Searches and Pipelines wherever a policy or an evaluator is taken."""

from functools import partial

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

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

DRAWN = {"reward": "binary", "random_state": 0}
ALL, TARGET, _ = make_bandit_logs(600, return_truth=True, **DRAWN)
TRAIN, TEST = train_test_split(ALL, random_state=0)
UNIFORM = UniformPolicy()
SCORING = EvaluatorScorer(UNIFORM)
GRID = {"cmax": [2.0, 1.5]}
LOW = 0.3


def clipped(evaluator):
    return Pipeline([("clip", PropensityClipper(LOW)), ("ev", evaluator)])


TWO = {"scoring": SCORING, "cv": 2}
BY_CHANCE = {"random_state": 0, **TWO}
SEARCHES = [
    GridSearchCV(DoublyRobust(), GRID, **TWO),
    RandomizedSearchCV(DoublyRobust(), GRID, n_iter=2, **BY_CHANCE),
    HalvingGridSearchCV(DoublyRobust(), GRID, min_resources=100, **BY_CHANCE),
    OPESearchCV(DoublyRobust(), GRID, scoring=SCORING, random_state=0, n_splits=2),
    SlopeSearch(DoublyRobust(), GRID, scoring=SCORING),
]
PIPELINES = [
    clipped(DoublyRobust()),
    GridSearchCV(clipped(DoublyRobust()), {"ev__cmax": [2.0, 1.5]}, **TWO),
    Pipeline([("clip", PropensityClipper(LOW)), ("search", SEARCHES[0])]),
]
WRAPPED = [*SEARCHES, *PIPELINES]


def ids(value):
    return type(value).__name__


@pytest.fixture(scope="module", params=WRAPPED, ids=ids)
def fitted(request):
    return clone(request.param).fit(TRAIN)


def inside(found, kind):
    """The estimator of a class that searches and Pipelines hold."""
    while not isinstance(found, kind):
        found = getattr(found, "best_estimator_", None) or found.steps[-1][1]
    return found


def plain_of(fitted):
    """Return the evaluator inside, unfitted, and the test rounds that it meets."""
    clips = hasattr(getattr(fitted, "best_estimator_", fitted), "steps")
    logs = PropensityClipper(LOW).fit_transform(TEST) if clips else TEST
    return clone(inside(fitted, DoublyRobust)), logs


def is_refused(call, error, match):
    with pytest.raises(error, match=match):
        call()


# -- as evaluators --------------------------------------------------------------------
POLICIES = {"new": TARGET, "uniform": UNIFORM}


@pytest.mark.few_cases(3)
def test_evaluate(fitted):
    plain, logs = plain_of(fitted)
    expected = evaluate(TARGET, logs, evaluators=[plain])["DoublyRobust"]
    for evaluators in ([fitted], fitted, {"own": fitted}):
        [value] = evaluate(TARGET, TEST, evaluators=evaluators).values()
        assert value.value == expected.value
        assert value.standard_error == expected.standard_error
    given = {"reward_model": Ridge()}
    table = evaluate(POLICIES, TEST, evaluators={"s": fitted, "IPS": IPS()}, **given)
    assert list(table) == [(p, e) for p in POLICIES for e in ("s", "IPS")]
    alone = evaluate(POLICIES, logs, evaluators={"s": plain}, **given)
    others = evaluate(POLICIES, TEST, evaluators=["IPS"], **given)
    for key, value in table.items():
        assert value.value == (alone if key[1] == "s" else others)[key].value
    found = compare_policies(POLICIES, TEST, evaluator=fitted)
    expected = compare_policies(POLICIES, logs, evaluator=plain)
    assert found.sentence == expected.sentence
    for name in POLICIES:
        assert found[name].value == expected[name].value
        assert found.differences[name].value == expected.differences[name].value
    page = report({"new": TARGET}, TEST, evaluators={"mine": fitted})
    assert "mine" in page.to_html()


def test_summarize(fitted):
    plain, logs = plain_of(fitted)
    found = summarize({"new": TARGET}, TEST, evaluators={"s": fitted}).values()
    expected = summarize({"new": TARGET}, logs, evaluators={"s": plain}).values()
    assert found["new", "s"].value == expected["new", "s"].value


def test_a_summary_is_of_one_log():
    given = {"evaluators": [clipped(IPS()), SNIPS()]}
    with pytest.raises(ValueError, match=r"needs the same rounds.* Summarize it"):
        summarize({"new": TARGET}, TEST, **given)


def the_scorers_agree(one, plain, logs):
    """What is wrapped scores the test rounds as what is inside does what it meets."""
    policy = ClassifierPolicy(LogisticRegression()).fit(TRAIN)
    assert PolicyScorer(one)(policy, TEST) == PolicyScorer(plain)(policy, logs)
    candidate = IPS().fit(TRAIN)
    expected = EvaluatorScorer(TARGET, validator=plain)(candidate, logs)
    assert EvaluatorScorer(TARGET, validator=one)(candidate, TEST) == expected


def test_scorers(fitted):
    the_scorers_agree(fitted, *plain_of(fitted))


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("search", WRAPPED, ids=ids)
def test_scorers_fit_what_is_not_fitted(search):
    plain, logs = plain_of(clone(search).fit(TEST))
    the_scorers_agree(search, plain, logs)
    assert not hasattr(search, "best_estimator_")  # nothing is written to the user's


@pytest.mark.thorough
def test_searches_score_by_searches():
    given = {"error_score": "raise"}
    policy, grid = ClassifierPolicy(LogisticRegression()), {"epsilon": [0.1, 0.5]}
    for evaluator in (SEARCHES[0], clipped(IPS())):
        for kind in (GridSearchCV, OPESearchCV):
            scorer = PolicyScorer(evaluator)
            search = kind(policy, grid, scoring=scorer, cv=2, **given)
            assert np.isfinite(search.fit(TRAIN).best_score_)
    scorer = EvaluatorScorer(TARGET, validator=clipped(SNIPS()))
    for cv in (2, None):
        search = OPESearchCV(IPS(), GRID, scoring=scorer, cv=cv, **given)
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


def test_names_of_pipelines_and_what_is_recommended():
    for steps in ([("ev", IPS())], [("a", "passthrough"), ("e", IPS())]):
        [(name, value)] = evaluate(TARGET, TEST, evaluators=[Pipeline(steps)]).items()
        assert (name, value.row_id) == ("IPS", TEST.row_id)
    # logs without propensities are evaluated after an estimator
    logs = TEST.replace(propensity=None)
    pipe = make_pipeline(PropensityEstimator(), IPS())
    table = evaluate(TARGET, logs, evaluators=[pipe])
    [(name, value)] = table.items()
    assert name == "IPS after PropensityEstimator" and name in repr(table)
    assert value.value == pipe.fit(logs).score(TARGET)
    # the rule recommends no row of other rounds
    evaluators = {"plain": DoublyRobust(), "clipped": clipped(DoublyRobust())}
    assert evaluate(TARGET, TEST, evaluators=evaluators).recommended == "plain"
    evaluators.pop("plain")
    assert evaluate(TARGET, TEST, evaluators=evaluators).recommended is None


def calls_of(policy, logs, evaluator):
    """The three calls that take an evaluator, of one policy."""
    policies = {"new": policy}
    yield partial(evaluate, policy, logs, evaluators=[evaluator])
    yield partial(summarize, policies, logs, evaluators=[evaluator])
    yield partial(compare_policies, policies, logs, evaluator=evaluator)


def test_what_is_not_fitted_evaluates_nothing():
    for call in calls_of(TARGET, TEST, SEARCHES[0]):
        is_refused(call, NotFittedError, "GridSearchCV is not fitted yet")
    unchosen = clone(SEARCHES[0]).set_params(refit=False).fit(TRAIN)
    policy = ClassifierPolicy().fit(TRAIN)
    for call in (
        partial(evaluate, TARGET, TEST, evaluators=[unchosen]),
        partial(PolicyScorer(unchosen), policy, TEST),
        partial(PolicyScorer(clone(unchosen)), policy, TEST),
    ):
        is_refused(call, TypeError, "no best_estimator_: with refit=False")


def test_what_has_no_evaluator_inside():
    policy = GridSearchCV(ClassifierPolicy(), {}, scoring=PolicyScorer(IPS()), cv=2)
    array = clipped(DoublyRobust(reward_model=np.zeros((5, 2))))
    ridge, fitted = make_pipeline(StandardScaler(), Ridge()), policy.fit(TRAIN)
    for call, match in (
        (lambda: PolicyScorer(policy), "expects an evaluator .* got ClassifierPolicy"),
        (lambda: EvaluatorScorer(TARGET, policy), "an evaluator .* ClassifierPolicy"),
        (lambda: PolicyScorer(ridge), "expects an evaluator .* got Ridge"),
        (lambda: PolicyScorer(array), "whose reward_model is an array"),
        (lambda: evaluate(TARGET, TEST, evaluators=[fitted]), "names or .* Classifier"),
    ):
        is_refused(call, TypeError, match)


def test_lazy_logs(tmp_path):
    pytest.importorskip("pyarrow")  # it reads the file
    path = tmp_path / "log.csv"
    path.write_text("action,reward,p,x\n" + "a,1,.5,1\nb,0,.5,2\n" * 20)
    columns = {"action": "action", "reward": "reward", "propensity": "p"}
    lazy = scan_logs(path, context=["x"], **columns)
    memory, scoring = lazy.head(40), EvaluatorScorer(UNIFORM, IPS())
    search = GridSearchCV(SNIPS(), {"cmax": [1.5]}, scoring=scoring, cv=2).fit(memory)
    expected = pytest.approx(SNIPS(cmax=1.5).fit(memory).score(UNIFORM))
    table, summary, found = (call() for call in calls_of(UNIFORM, lazy, search))
    assert table["SNIPS"].value == expected
    assert summary.values()["new", "SNIPS"].value == expected
    assert found["new"].value == expected
    for call in calls_of(UNIFORM, lazy, clipped(SNIPS())):
        is_refused(call, TypeError, "PropensityClipper first, take rounds in")


# -- displays -------------------------------------------------------------------------
@pytest.mark.few_cases(4)
@pytest.mark.parametrize("logs", [None, TEST], ids=["logs of fit", "others"])
def test_displays(fitted, logs):
    inner, made = plain_of(fitted)
    rounds = PropensityClipper(LOW).fit_transform(TRAIN) if made is not TEST else TRAIN
    inner, made = inner.fit(rounds), None if logs is None else made
    for display, target, attribute in (
        (PolicyValueDisplay, TARGET, "value"),
        (WeightsDisplay, TARGET, "weights"),
        (SupportDisplay, TARGET, "effective_rounds"),
        (ClippingCurveDisplay, TARGET, "value"),
        (ConvergenceDisplay, TARGET, "value"),
        (PolicyComparisonDisplay, POLICIES, "gain"),
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
ASKED = ACTOR, {"epsilon": [0.1, 0.5]}
BY_IPS = {"scoring": PolicyScorer(IPS()), "cv": 2}
WRAPPED_POLICIES = [
    GridSearchCV(*ASKED, **BY_IPS),
    RandomizedSearchCV(*ASKED, n_iter=2, **BY_IPS),
    HalvingGridSearchCV(*ASKED, **BY_IPS),
    OPESearchCV(*ASKED, **BY_IPS),
    make_pipeline(PropensityClipper(LOW), ACTOR),
]


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("search", WRAPPED_POLICIES, ids=ids)
def test_policies(search):
    policy = clone(search).fit(TRAIN, TRAIN.action)
    inner = inside(policy, ClassifierPolicy)
    expected = IPS().fit(TEST).score(inner)
    table, summary, found = (call() for call in calls_of(policy, TEST, IPS()))
    for value in (table["IPS"], summary.values()["new", "IPS"], found["new"]):
        assert value.value == pytest.approx(expected, rel=1e-12)
    assert PolicyScorer(IPS())(policy, TEST) == PolicyScorer(IPS())(inner, TEST)
    assert EvaluatorScorer(policy, validator=IPS())(SNIPS().fit(TEST), TEST) <= 0
    display = PolicyValueDisplay.from_evaluator(IPS().fit(TEST), policy)
    assert display.value[0] == expected


def test_slate_policies_and_evaluators():
    logs, ranker = make_slate_logs(300, random_state=0), RankingPolicy(Ridge(), 3)
    given = {"scoring": PolicyScorer(SlateIPS()), "cv": 2}
    ranker.set_params(temperature=1.0)
    search = GridSearchCV(ranker, {"temperature": [1.0, 2.0]}, **given)
    best = search.fit(logs, logs.reward).best_estimator_
    expected = SlateIPS().fit(logs).score(best)
    given["scoring"] = EvaluatorScorer(best)
    tuned = GridSearchCV(SlateIPS(), {"self_normalized": [False]}, **given).fit(logs)
    assert evaluate(search, logs, evaluators=[tuned])["SlateIPS"].value == expected
    found = compare_policies({"new": search}, logs, evaluator=tuned)
    assert found["new"].value == expected
    assert SupportDisplay.from_evaluator(tuned, search).labels
