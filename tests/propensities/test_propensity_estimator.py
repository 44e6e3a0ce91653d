# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_predict,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skope_ope import (
    IPS,
    BanditLogs,
    ClassifierPolicy,
    DoublyRobust,
    PropensityClipper,
    PropensityEstimator,
    UniformPolicy,
)
from skope_ope.exceptions import PropensityWarning
from tests._worlds import W1

RNG = np.random.RandomState(0)
N = 300
X = RNG.normal(size=(N, 2))
MU = np.exp(X @ RNG.normal(size=(2, 3)))
MU /= MU.sum(axis=1, keepdims=True)
CODE = (MU.cumsum(axis=1) < RNG.random_sample((N, 1))).sum(axis=1)
ACTION = np.array(list("abc"))[CODE]
REWARD = (RNG.random_sample(N) < 0.3 + 0.2 * CODE).astype(float)


def logs_of(context=X, action=ACTION, **fields):
    return BanditLogs(context, action, REWARD[: len(action)], **fields)


def estimates(logs=None, **parameters):
    logs = logs_of() if logs is None else logs
    return PropensityEstimator(**parameters).fit_transform(logs).propensity


def logged(proba, code=CODE):
    return proba[np.arange(len(code)), code]


def out_of_fold(classifier, folds, action=ACTION, groups=None):
    """Probabilities by scikit-learn's own function."""
    how = {"method": "predict_proba", "groups": groups}
    return cross_val_predict(classifier, X, action, cv=folds, **how)


@pytest.mark.few_cases
@pytest.mark.parametrize("cv", [5, 3, KFold(4), StratifiedKFold(3), None], ids=str)
@pytest.mark.parametrize("classifier", [LogisticRegression(), GaussianNB()], ids=str)
def test_rounds_of_fit_are_predicted_out_of_fold(classifier, cv):
    folds = KFold(cv or 5) if cv is None or isinstance(cv, int) else cv
    expected = logged(out_of_fold(classifier, folds))
    assert_allclose(estimates(classifier=classifier, cv=cv), expected, rtol=1e-12)


def test_no_round_is_predicted_by_a_classifier_that_saw_it():
    # one neighbour remembers every logged action: in the fold it would be certain
    action = RNG.randint(3, size=N)
    with pytest.warns(PropensityWarning):
        p = estimates(logs_of(action=action), classifier=KNeighborsClassifier(1))
    assert np.mean(p == 1) < 0.5


def test_default_is_a_logistic_regression_of_scaled_contexts():
    scaled = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    assert_allclose(estimates(), estimates(classifier=scaled))
    assert_allclose(estimates(logs_of(X * [1, 1000])), estimates(), rtol=1e-6)
    assert np.corrcoef(estimates(), logged(MU))[0, 1] > 0.95


def test_rounds_are_recognised_and_others_get_the_classifier_of_all():
    logs = logs_of()
    step = PropensityEstimator(LogisticRegression()).fit(logs[:200])
    out_of_fold = step.transform(logs[:200]).propensity
    full = logged(LogisticRegression().fit(X[:200], ACTION[:200]).predict_proba(X))
    expected = np.append(out_of_fold, full[200:])
    assert_allclose(step.transform(logs).propensity, expected)
    order = RNG.permutation(N)
    assert_allclose(step.transform(logs[order]).propensity, expected[order])
    copied = pickle.loads(pickle.dumps(logs[::2]))
    assert_allclose(step.transform(copied).propensity, expected[::2])
    assert_allclose(step.transform(logs_of()).propensity, expected)  # built anew
    assert_allclose(logged(step.classifier_.predict_proba(X)), full)
    # the floor is counted
    plain = estimates(logs)
    with pytest.warns(PropensityWarning, match=r"lie below floor=0\.3") as record:
        step = PropensityEstimator(floor=0.3).fit(logs)
    assert step.n_floored_ == record[0].message.value == (plain < 0.3).sum()
    assert_allclose(step.transform(logs).propensity, np.maximum(plain, 0.3))
    assert PropensityEstimator().fit(logs).n_floored_ == 0


def test_groups_and_offers():
    group, model = np.arange(N) // 7, LogisticRegression()
    expected = logged(out_of_fold(model, GroupKFold(5), groups=group))
    logs = logs_of(group=group)
    assert_allclose(estimates(logs, classifier=model), expected)
    assert_allclose(estimates(logs, classifier=model, cv=GroupKFold(5)), expected)
    with pytest.raises(ValueError, match="cv leaves row 0 in no test part"):
        estimates(cv=TimeSeriesSplit(3))
    # offered actions share the probability
    available = RNG.random_sample((N, 3)) < 0.6
    available[np.arange(N), CODE] = True
    offered = np.where(available, out_of_fold(LogisticRegression(), KFold(5)), 0)
    expected = logged(offered / offered.sum(axis=1, keepdims=True))
    p = estimates(logs_of(available=available), classifier=LogisticRegression())
    assert_allclose(p, expected)
    assert_array_equal(p[available.sum(axis=1) == 1], 1)


@pytest.mark.few_cases(1)
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.PropensityWarning")
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibration(method):
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    calibrated = CalibratedClassifierCV(clone(tree), method=method)
    expected = logged(out_of_fold(calibrated, KFold(5)))
    p = estimates(classifier=tree, calibration=method, floor=1e-12)
    assert_allclose(p, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.PropensityWarning")
def test_calibration_repairs_overconfident_probabilities():
    # naive Bayes on a repeated feature is far too sure of itself
    logs, truth = logs_of(np.repeat(X, 8, axis=1)), logged(MU)
    raw, calibrated = (
        np.mean((estimates(logs, classifier=GaussianNB(), **how) - truth) ** 2)
        for how in ({"floor": 1e-9}, {"calibration": "sigmoid"})
    )
    assert calibrated < raw / 2


def test_weights_of_the_logs_enter():
    weight = 1.0 + np.arange(N) % 3
    p = estimates(logs_of(sample_weight=weight), classifier=GaussianNB(), cv=KFold(2))
    expected = np.empty(N)
    for train, test in KFold(2).split(X):
        model = GaussianNB().fit(X[train], ACTION[train], sample_weight=weight[train])
        expected[test] = logged(model.predict_proba(X[test]), CODE[test])
    assert_allclose(p, expected)
    pipeline = make_pipeline(StandardScaler(), GaussianNB())
    weighted = estimates(logs_of(sample_weight=weight), classifier=pipeline)
    assert np.abs(weighted - estimates(classifier=pipeline)).max() > 1e-3
    # a classifier without weights warns
    classifier = KNeighborsClassifier(50)
    message = "KNeighborsClassifier takes no sample_w"
    with pytest.warns(PropensityWarning, match=message):
        p = estimates(logs_of(sample_weight=weight), classifier=classifier)
    plain = estimates(classifier=classifier)
    assert np.abs(p - plain).max() > 0.01  # rounds are drawn by their weights
    alike = estimates(logs_of(sample_weight=np.full(N, 2.0)), classifier=classifier)
    assert_array_equal(alike, plain)


def test_actions_without_a_choice():
    side, never = (X[:, 0] > 0).astype(int), np.zeros(N, int)
    for logs, classifier in (
        (logs_of(action=side), DecisionTreeClassifier()),
        (logs_of(np.sign(X) * 20, side), LogisticRegression()),
        (logs_of(action=never, actions=[0, 1]), LogisticRegression()),
    ):
        message = r"determines the logged action in .*determinist"
        with pytest.raises(ValueError, match=message):
            PropensityEstimator(classifier).fit(logs)
    # where there is one action it is certain
    assert_array_equal(estimates(logs_of(action=never)), 1)
    # an action that a fold never saw gets the floor
    action = ACTION.copy()
    action[7] = "z"
    with pytest.warns(PropensityWarning, match="1 estimated propensities lie below"):
        p = estimates(logs_of(action=action))
    assert p[7] == 1e-3


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    "labels",
    [[3, -1, 9], [0.5, 1.5, 2.5], [b"x", b"y", b"z"], [2.0, 1.0, 3.0]],
    ids=str,
)
def test_labels_of_any_kind(labels):
    labels = np.array(labels)[CODE]
    assert_allclose(estimates(logs_of(action=labels)), estimates(), rtol=1e-3)
    as_objects = logs_of(action=labels.astype(object))
    assert_allclose(estimates(as_objects), estimates(logs_of(action=labels)))


def test_actions_are_matched_by_label():
    logs = logs_of(actions=["z", "c", "a", "b"])
    step = PropensityEstimator().fit(logs)
    out_of_fold = step.transform(logs).propensity
    assert_allclose(step.transform(logs_of()).propensity, out_of_fold)
    moved = X + 1
    full = logged(step.classifier_.predict_proba(moved))
    assert_allclose(step.transform(logs_of(moved)).propensity, full)
    rows = ACTION != "c"
    some = step.transform(logs_of(moved[rows], ACTION[rows]))
    assert_allclose(some.propensity, full[rows])
    with pytest.raises(ValueError, match="action 'q' of the logs was unknown in fit"):
        step.transform(logs_of(action=np.where(ACTION == "a", "q", ACTION)))


def test_contexts_of_any_kind():
    expected = estimates()
    assert_allclose(estimates(logs_of(sparse.csr_matrix(X))), expected, rtol=1e-2)
    for library in ("pandas", "polars"):
        frame = pytest.importorskip(library).DataFrame({"u": X[:, 0], "v": X[:, 1]})
        assert_allclose(estimates(logs_of(frame)), expected)


# -- a step of a pipeline ---------------------------------------------------------
def test_only_the_probabilities_change():
    logs = logs_of(
        propensity=logged(MU),
        logging_proba=MU,
        logger=np.arange(N) % 2,
        logger_proba=np.column_stack([logged(MU)] * 2),
        group=np.arange(N),
    ).with_columns(q=np.zeros(N))
    with pytest.warns(PropensityWarning, match="these logs have 2 loggers"):
        out = PropensityEstimator().fit(logs).transform(logs)
    assert out.context is logs.context
    assert out.row_id == logs.row_id
    assert out.columns == logs.columns
    assert out.logging_proba is None
    assert out.logger_proba is None
    for name in ("action", "reward", "group", "logger"):
        assert getattr(out, name) is getattr(logs, name)
    assert_array_equal(logs.propensity, logged(MU))


def test_in_front_of_an_evaluator():
    policy = ClassifierPolicy(epsilon=0.5).fit(X, ACTION)
    pipeline = make_pipeline(PropensityEstimator(), DoublyRobust())
    value = pipeline.fit(logs_of(), Ridge()).score(policy)
    estimated = PropensityEstimator().fit_transform(logs_of())
    by_hand = DoublyRobust(reward_model=Ridge()).fit(estimated)
    assert value == by_hand.score(policy)
    assert pipeline.fit(logs_of()).score(policy) != value
    with sklearn.config_context(enable_metadata_routing=True):
        assert pipeline.fit(logs_of(), Ridge()).score(policy) == value


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_a_search_over_its_parameters():
    first = PropensityEstimator(LogisticRegression())
    pipeline = make_pipeline(first, PropensityClipper(), IPS())
    names = "propensityestimator__classifier__C", "propensityclipper__low"
    grid = dict(zip(names, ([1e-6, 1.0], [0, 0.2]), strict=True))

    def scorer(pipe, logs, y=None):
        errors = pipe[:-1].transform(logs).propensity - logged(MU)[logs.row_id.position]
        return -np.mean(errors**2)

    search = GridSearchCV(pipeline, grid, scoring=scorer, cv=3).fit(logs_of())
    assert [search.best_params_[name] for name in names] == [1.0, 0]
    value = search.best_estimator_.score(UniformPolicy())
    assert value == clone(search.best_estimator_).fit(logs_of()).score(UniformPolicy())


def test_bad_parameters_are_refused():
    bad = {"floor": (0.0, 1.0), "calibration": ("platt",), "cv": (1, "prefit")}
    for name, values in (bad | {"classifier": (LinearSVC(),)}).items():
        for value in values:
            with pytest.raises(ValueError, match=f"The '{name}' parameter"):
                estimates(**{name: value})


# -- theory -----------------------------------------------------------------------
@pytest.mark.theory
def test_saturated_frequencies_reduce_the_variance(global_random_seed):
    """Frequencies by context reach the efficiency bound; true propensities do not."""
    rng = np.random.RandomState(global_random_seed)
    n, repeats = 400, 150
    values = np.empty((repeats, 2))
    for i in range(repeats):
        x = (rng.random_sample(n) < W1.p_context[1]).astype(int)
        a = (W1.mu[x].cumsum(axis=1) < rng.random_sample((n, 1))).sum(axis=1)
        r = (rng.random_sample(n) < W1.q[x, a]).astype(float)
        true = BanditLogs(x[:, None], a, r, W1.mu[x, a], actions=range(3))
        step = PropensityEstimator(DecisionTreeClassifier(), floor=1e-9)
        for j, logs in enumerate((true, step.fit_transform(true))):
            values[i, j] = (W1.pi[x, a] / logs.propensity * r).mean()
    variances = n * values.var(axis=0, ddof=1)
    w = W1.pi / W1.mu
    exact = (W1.p_context @ (W1.mu * w**2 * W1.q)).sum() - W1.value**2
    # the standard error of a variance of normal values is variance * sqrt(2 / m)
    slack = 4 * np.sqrt(2 / (repeats - 1))
    assert variances[0] == pytest.approx(exact, rel=slack)
    # terms of order 1 / n beyond the bound are allowed for
    assert variances[1] == pytest.approx(W1.efficiency_bound, rel=slack + 0.1)
    assert variances[1] < variances[0] / 1.5
    # 1 / p is convex: estimates from the other folds bias it by about (1 - p) / (m p)
    # for m rounds of the context, four fifths of n * p_context
    bias = (W1.pi * W1.q * (1 - W1.mu) / W1.mu).sum() / (0.8 * n)
    errors = 4 * values.std(axis=0, ddof=1) / np.sqrt(repeats)
    assert abs(values[:, 0].mean() - W1.value) < errors[0]
    assert abs(values[:, 1].mean() - W1.value - bias) < errors[1] + bias / 2


def test_without_features_the_shares_of_other_rounds_are_estimated():
    logs = logs_of(X[:, :0])
    found = PropensityEstimator().fit_transform(logs).propensity
    first = np.arange(N) < N // 5  # the first fold is not shuffled
    share = [(ACTION[~first] == label).mean() for label in ACTION[first]]
    assert_allclose(found[first], share)
