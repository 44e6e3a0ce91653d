# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import tracemalloc
from decimal import Decimal

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skope_ope import (
    IPS,
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    FunctionPolicy,
    MixturePolicy,
    UniformPolicy,
)
from skope_ope.base import BasePolicy
from skope_ope.exceptions import SupportWarning
from skope_ope.policies import action_probabilities
from tests._frames import every_library, frame_of

RNG = np.random.RandomState(0)
X = RNG.normal(size=(60, 3))
ACTION = np.array(list("abc"))[RNG.randint(3, size=60)]
CODES = np.searchsorted([*"abc"], ACTION)
OFFERED = RNG.random_sample((60, 4)) < 0.6


def logs_of(actions="abc", rows=slice(None), **fields):
    action = ACTION[rows]
    given = X[rows], action, np.ones(len(action)), 1 / 3
    return BanditLogs(*given, actions=[*actions], **fields)


def offering_logs(actions="cbaz"):
    offered = OFFERED.copy()
    offered[np.arange(60), logs_of(actions).action_index] = True
    return logs_of(actions, available=offered)


def fitted(epsilon=0.1, **parameters):
    return ClassifierPolicy(epsilon=epsilon, **parameters).fit(X, ACTION)


LEARNED = fitted()


class Handmade:
    """A policy that knows nothing of scikit-learn."""

    classes_ = ("b", "a")

    def predict_proba(self, X):
        return [[0.75, 0.25]] * len(X)


class RowPolicy:
    """A policy that depends on other fields than the context."""

    def logs_proba(self, logs):
        return np.eye(logs.n_actions)[logs.action_index]


def test_columns_follow_the_labels_of_the_logs():
    for actions in ("abc", "cba", "bca", "zbyac"):
        proba = action_probabilities(LEARNED, logs_of(actions))
        expected = np.zeros((60, len(actions)))
        expected[:, [actions.index(one) for one in "abc"]] = LEARNED.predict_proba(X)
        assert_array_equal(proba, expected)
    numbers = np.array([-4, 100, 7])[np.arange(60) % 3]
    policy = ClassifierPolicy(epsilon=0.3).fit(X, numbers)
    logs = BanditLogs(X, numbers, np.ones(60), actions=[100, 0, 7, -4])
    proba = action_probabilities(policy, logs)
    assert_array_equal(proba[:, [3, 2, 0]], policy.predict_proba(X))
    assert not proba[:, 1].any()


def test_actions_the_logs_never_saw_raise_with_the_remedy():
    rows = ACTION != "c"
    logs = logs_of("ab", rows)
    message = r"0\.03333 at row 0 .* do not know: \['c'\].*pass all labels as actions="
    with pytest.raises(ValueError, match=message):
        action_probabilities(fitted(), logs)
    with pytest.raises(ValueError, match="do not know"):
        IPS().fit(logs).score(fitted())
    assert action_probabilities(fitted(), logs_of("abc", rows)).shape[1] == 3
    # a greedy tree never takes "c" there: no harm
    tree = ClassifierPolicy(DecisionTreeClassifier()).fit(X, ACTION)
    assert_array_equal(action_probabilities(tree, logs).sum(axis=1), 1)
    # they may be reported
    policy = fitted()
    with pytest.warns(SupportWarning, match=r"do not know: \['c'\]") as record:
        proba = action_probabilities(policy, logs, unknown="ignore")
    lost = policy.predict_proba(logs.context)[:, 2]
    assert_allclose(proba.sum(axis=1), 1 - lost)
    assert record[0].message.value == pytest.approx(lost.mean())
    with pytest.raises(ValueError, match="'raise' or 'ignore', got 'drop'"):
        action_probabilities(fitted(), logs_of(), unknown="drop")


def test_only_offered_actions_get_probability():
    logs = offering_logs()
    proba = action_probabilities(fitted(epsilon=0.4), logs)
    assert_allclose(proba.sum(axis=1), 1)
    assert (proba[~logs.available] == 0).all()
    # exploration over what is offered of the policy's three actions
    offered = logs.available[:, :3].sum(axis=1)
    best = proba.max(axis=1)
    assert_allclose(best, 0.6 + 0.4 / offered)
    # the argmax, too
    proba = action_probabilities(fitted(epsilon=0.0), logs)
    ranking = LogisticRegression().fit(X, ACTION).predict_proba(X)[:, [2, 1, 0]]
    best = np.where(logs.available[:, :3], ranking, -1).argmax(axis=1)
    assert_array_equal(proba, np.eye(4)[best])


def test_policies_written_by_hand():
    rows = ACTION != "c"
    offered = np.ones((rows.sum(), 2), dtype=bool)
    offered[::2] = logs_of("ab", rows).action_index[::2, None] == [0, 1]
    logs = logs_of("ab", rows, available=offered)
    proba = action_probabilities(Handmade(), logs)
    assert_array_equal(proba[1::2], [[0.25, 0.75]] * len(proba[1::2]))
    assert_array_equal(proba[::2], offered[::2])
    policy = Handmade()  # with nothing to say
    policy.predict_proba = lambda X: np.tile([1.0, 0.0], (len(X), 1))
    offered = np.eye(3, dtype=bool)[logs_of().action_index]
    with pytest.raises(ValueError, match="probability 0 to every offered action at ro"):
        action_probabilities(policy, logs_of(rows=rows, available=offered[rows]))
    with pytest.raises(ValueError, match="none of the policy's actions is offered"):
        action_probabilities(policy, logs_of(available=offered))

    # policies written by hand need no fit
    class WithFit(Handmade):
        def fit(self, X, y=None):
            return self

    for policy in (Handmade(), WithFit()):
        proba = action_probabilities(policy, logs_of("cab"))
        assert_array_equal(proba, [[0, 0.25, 0.75]] * 60)
    assert action_probabilities(UniformPolicy(), logs_of()[:0]).shape == (0, 3)
    logged = action_probabilities(RowPolicy(), logs_of("cab"))
    assert_array_equal(logged, np.eye(3)[logs_of("cab").action_index])


def test_searches_frozen_policies_and_pipelines_are_policies():
    policy = make_pipeline(StandardScaler(), ClassifierPolicy(epsilon=0.2))
    how = {"cv": 2, "scoring": "accuracy"}
    search = GridSearchCV(policy, {"classifierpolicy__epsilon": [0.2]}, **how)
    expected = action_probabilities(policy.fit(X, ACTION), logs_of("cba"))
    assert_array_equal(expected[:, ::-1], policy.predict_proba(X))
    for other in (
        FrozenEstimator(policy),
        search.fit(X, ACTION),
        FrozenEstimator(search),
        GridSearchCV(ClassifierPolicy(), {"epsilon": [0.2]}, **how).fit(X, ACTION),
    ):
        proba = action_probabilities(other, logs_of("cba"))
        assert_allclose(proba, expected)


@pytest.mark.parametrize("wrap", [FrozenEstimator, lambda p: p], ids=["frozen", "bare"])
@pytest.mark.parametrize("before", [(), (StandardScaler(),)], ids=["alone", "scaler"])
def test_the_policy_of_a_pipeline_learns_what_is_offered(wrap, before):
    logs = offering_logs()
    pipeline = make_pipeline(*before, ClassifierPolicy()).fit(X, ACTION)
    proba = action_probabilities(wrap(pipeline), logs)
    offered = np.zeros((60, 3), dtype=bool)
    offered[:] = logs.available[:, [2, 1, 0]]
    inner = pipeline[:-1].transform(X) if before else X
    expected = pipeline[-1].predict_proba(inner, offered)
    assert_array_equal(proba[:, [2, 1, 0]], expected)
    with sklearn.config_context(enable_metadata_routing=True):
        assert_array_equal(action_probabilities(wrap(pipeline), logs), proba)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LowOverlapWarning")
@pytest.mark.parametrize("kind", ["list", "pandas", "polars", "sparse", "int", "bool"])
def test_arrays_of_any_kind_stand_for_a_policy(kind):
    proba = np.eye(3)[np.arange(60) % 3]
    if kind in ("pandas", "polars"):
        given = pytest.importorskip(kind).DataFrame(proba)
    elif kind == "sparse":
        given = sparse.csr_matrix(proba)
    else:
        given = proba.tolist() if kind == "list" else proba.astype(kind)
    assert_array_equal(action_probabilities(given, logs_of()), proba)
    assert IPS().fit(logs_of()).score(given) == IPS().fit(logs_of()).score(proba)


@every_library
def test_columns_of_frames_are_matched_by_label(library):
    proba = LEARNED.predict_proba(X)
    turned = {label: proba[:, j] for j, label in [*enumerate("abc")][::-1]}
    named = frame_of(library, turned)
    assert_array_equal(action_probabilities(named, logs_of("abc")), proba)
    assert_array_equal(action_probabilities(named, logs_of("cab")), proba[:, [2, 0, 1]])
    other = frame_of(library, {label: proba[:, j] for j, label in enumerate("abq")})
    with pytest.raises(ValueError, match=r"columns of policy are \['a', 'b', 'q'\]"):
        action_probabilities(other, logs_of())


def test_columns_and_labels_stand_for_a_policy():
    proba = np.eye(3)[np.arange(60) % 3]
    logs = logs_of().with_columns(pi=proba)[[5, 1]]
    assert_array_equal(action_probabilities("pi", logs), proba[[5, 1]])
    message = r"'mu' is not a column .* \['pi'\].* an object such as UniformPolicy\(\)"
    with pytest.raises(ValueError, match=message):
        action_probabilities("mu", logs)
    # dates are labels and decimals are probabilities
    days = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]")
    logs = BanditLogs(np.zeros((2, 1)), days, [1.0, 0.0], [0.5, 0.5])
    assert_array_equal(action_probabilities(days[::-1], logs), [[0, 1], [1, 0]])
    assert IPS().fit(logs).score([Decimal("0.5"), Decimal("0.25")]) == 0.5
    # labels that are refused
    logs, labels = logs_of("abc"), np.full(60, "a", dtype="<U5")
    labels[7:9] = "B"
    message = r"policy names 'B' at row 7 \(2 such.*Did you mean 'b'\?.*actions=\["
    with pytest.raises(ValueError, match=message):
        action_probabilities(labels, logs)
    with pytest.raises(ValueError, match=r"shape \(7,\), but the logs have 60 rounds"):
        action_probabilities(labels[:7], logs)
    offered = np.array([[True, True], [False, True]])
    logs = BanditLogs(np.zeros((2, 1)), ["a", "b"], [1.0, 0.0], available=offered)
    assert_array_equal(action_probabilities(["a", "b"], logs), [[1, 0], [0, 1]])
    with pytest.raises(ValueError, match="policy takes 'a' at row 1, where it is not"):
        action_probabilities(["b", "a"], logs)
    with pytest.raises(ValueError, match="where it is not available"):
        action_probabilities(np.full((60, 4), 0.25), offering_logs())


THIRDS = np.full((60, 3), 1 / 3)


@pytest.mark.parametrize(
    ("proba", "error", "message"),
    [
        (THIRDS[1:], ValueError, r"\(59, 3\), but the logs have 60 .*with_c"),
        (np.ones(60), ValueError, r"of shape \(60,\) .*logged action only"),
        (CODES, TypeError, r"vector of integers: .*labels\[:, None\] == logs\.actions"),
        (CODES > 0, TypeError, r"vector of booleans: actions, or pr.*astype\(float\)"),
        (0.9 * THIRDS, ValueError, "must sum to 1 over the actions"),
        (np.tile([1.5, -0.5, 0], (60, 1)), ValueError, "not be negative, got -0.5"),
        (np.nan * THIRDS, ValueError, "policy must sum.* got nan.* Give every"),
    ],
    ids=lambda value: str(np.shape(value)) if isinstance(value, np.ndarray) else None,
)
def test_arrays_that_are_no_policy_are_refused(proba, error, message):
    with pytest.raises(error, match=message):
        action_probabilities(proba, logs_of())


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LowOverlapWarning")
@pytest.mark.parametrize("kind", ["list", "array", "object", "pandas", "polars"])
def test_labels_stand_for_the_policy_that_takes_them(kind):
    labels = np.array(["b", "c", "a"])[np.arange(60) % 3]
    given = labels
    if kind in ("pandas", "polars"):
        given = pytest.importorskip(kind).Series(labels.tolist())
    elif kind != "array":
        given = labels.tolist() if kind == "list" else labels.astype(object)
    logs = logs_of("abc")
    proba = (labels[:, None] == logs.actions).astype(float)
    assert_array_equal(action_probabilities(given, logs), proba)
    assert IPS().fit(logs).score(given) == IPS().fit(logs).score(proba)
    carried = logs.with_columns(new=labels)[[4, 7]]
    assert_array_equal(action_probabilities("new", carried), proba[[4, 7]])


class WithTable:
    def __init__(self, table):
        self.table = table


class ByName(WithTable):
    classes_ = np.array(["a", "b", "c"])

    def predict_proba(self, X):
        return self.table


class OfLogs(WithTable, BasePolicy):
    def logs_proba(self, logs):
        return self.table


class OwnPolicy(WithTable, BasePolicy):
    def _proba(self, X, available):
        return self.table


@every_library
@pytest.mark.parametrize("make_policy", [ByName, OfLogs, OwnPolicy])
def test_frames_that_policies_give_are_matched_by_name(make_policy, library):
    proba = LEARNED.predict_proba(X)
    columns = {one: proba[:, "abc".index(one)] for one in "cab"}
    policy = make_policy(frame_of(library, columns))
    if make_policy is OwnPolicy:
        policy = policy.fit(logs_of("abc"))
        assert_array_equal(policy.predict_proba(X), proba)
        assert_array_equal(policy.predict_proba(logs_of("abc")), proba)
    else:
        policy.classes_ = np.array(["a", "b", "c"])
    assert_array_equal(action_probabilities(policy, logs_of("abc")), proba)
    expected = proba[:, [1, 0, 2]]
    assert_array_equal(action_probabilities(policy, logs_of("bac")), expected)
    policy.table = frame_of(library, {one: proba[:, j] for j, one in enumerate("abq")})
    message = r"columns of the output of \w+\.\w+ are \['a', 'b', 'q'\], the actions"
    with pytest.raises(ValueError, match=message):
        action_probabilities(policy, logs_of("abc"))


def test_classes_that_contradict_the_names_are_an_error():
    frame = pytest.importorskip("pandas").DataFrame(np.eye(3)[[0] * 60])
    policy = ByName(frame)
    assert_array_equal(action_probabilities(policy, logs_of("abc")), frame)
    frame.columns = ["a", "b", "c"]
    policy.classes_ = np.array(["a", "b", "d"])
    with pytest.raises(ValueError, match=r"the actions are \['a', 'b', 'd'\]"):
        action_probabilities(policy, logs_of("abc"))


class Rule:
    def predict(self, X):
        return np.where(X[:, 0] > 0, "a", "c")


class RuleEstimator(Rule, BaseEstimator):
    def fit(self, X, y=None):
        self.fitted_ = True
        return self


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LowOverlapWarning")
def test_an_object_that_predicts_labels_is_a_policy():
    logs, fitted = logs_of("abc"), RuleEstimator().fit(X)
    expected = Rule().predict(logs.context)[:, None] == logs.actions
    for rule in (Rule(), fitted, make_pipeline(RuleEstimator()).fit(X)):
        assert_array_equal(action_probabilities(rule, logs), expected)
        assert IPS().fit(logs).score(rule) == IPS().fit(logs).score(expected)
    rule = Rule()
    rule.predict = lambda X: X[:, 0]
    with pytest.raises(ValueError, match=r"Rule\.predict has shape .*label per row"):
        action_probabilities(rule, logs_of("abc"))
    with pytest.raises(TypeError, match=r"needs predict_proba and .*got KMeans"):
        action_probabilities(KMeans(2), logs_of("abc"))


class Narrow(Handmade):
    def predict_proba(self, X):
        return np.ones((len(X), 1))


UNFITTED = make_pipeline(ClassifierPolicy())
SEARCH = GridSearchCV(ClassifierPolicy(), {}, refit=False, cv=2, scoring="accuracy")
SEARCH.fit(X, ACTION)


@pytest.mark.parametrize(
    ("policy", "logs", "error", "message"),
    [
        (0.5, logs_of(), TypeError, "got float"),
        (LEARNED, X, TypeError, "logs must be BanditLogs, got ndarray"),
        (Narrow(), offering_logs(), ValueError, r"Narrow gave .* \(60, 1\), expected"),
        (UNFITTED, logs_of(), NotFittedError, "not fitted yet"),
        (SEARCH, logs_of(), NotFittedError, "not fitted yet"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_policy_is_refused(policy, logs, error, message):
    """What more there is stands in tests/test_bad_input.py."""
    with pytest.raises(error, match=message):
        action_probabilities(policy, logs)


def many_rounds(seed, restricted):
    rng = np.random.RandomState(seed)
    action, available = rng.randint(5, size=40), None
    if restricted:
        available = rng.random_sample((40, 5)) < 0.6
        available[np.arange(40), action] = True
        available[:, 1] = True  # a constant policy takes it
    given = rng.randn(40, 2), np.array([*"edcba"])[action], rng.randn(40)
    return BanditLogs(*given, available=available, actions=[*"edcba"])


class Favours(ConstantPolicy):
    """It changes the probabilities of its parent, and nothing else."""

    def logs_proba(self, logs):
        return np.tile([0.6, 0.1, 0.1, 0.1, 0.1], (len(logs), 1))


D, UNIFORM = ConstantPolicy("d"), UniformPolicy()
LABELS = np.zeros((2, 1)), ["d", "b"]
MIXED = MixturePolicy([MixturePolicy([UNIFORM], [1.0]), D], [0.5, 0.5])
MEMBERS = [D, clone(D).fit(*LABELS), UNIFORM, clone(UNIFORM).fit(*LABELS), MIXED]


@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize(
    "policy", [*MEMBERS, MixturePolicy([D, UNIFORM], [0.3, 0.7])], ids=repr
)
def test_policies_that_answer_for_the_logged_action_alone(
    policy, restricted, global_random_seed
):
    logs = many_rounds(global_random_seed, restricted)
    table = action_probabilities(policy, logs)
    logged = table[np.arange(len(logs)), logs.action_index]
    assert_array_equal(policy.logged_proba(logs), logged)
    for codes in ([], [1], [0, 3], np.arange(5)):
        mass = table[:, np.asarray(codes, int)].sum(axis=1)
        assert_allclose(policy.mass_on(logs, codes), mass, rtol=0, atol=1e-15)


def test_labels_that_the_logs_do_not_know_raise_when_asked_alone(global_random_seed):
    logs = many_rounds(global_random_seed, False)
    for policy in (
        ConstantPolicy("q"),
        ConstantPolicy("q").fit(np.zeros((2, 1)), ["q", "a"]),
        MixturePolicy([UniformPolicy(), ConstantPolicy("q")], [0.5, 0.5]),
    ):
        for ask in (policy.logged_proba, lambda logs, p=policy: p.mass_on(logs, [0])):
            with pytest.raises(ValueError, match=r"do not know: \['q'\]"):
                ask(logs)
    logs = many_rounds(global_random_seed, True)
    with pytest.raises(ValueError, match="probability 0 to every offered action"):
        ConstantPolicy("q").logged_proba(logs)
    available = logs.available.copy()
    available[logs.action_index != 1, 1] = False
    first = int(np.flatnonzero(~available[:, 1])[0])
    with pytest.raises(ValueError, match=f"every offered action at row {first} "):
        ConstantPolicy("d").mass_on(logs.replace(available=available), [1])


def test_who_does_not_answer_for_the_logged_action_alone():
    """A parent's answer for the logged action would be that of another policy."""
    logs = many_rounds(0, False).replace(propensity=np.full(40, 0.2))
    tabular = FunctionPolicy(lambda X: np.full((len(X), 5), 0.2))
    for policy in (tabular, MixturePolicy([UNIFORM, tabular], [0.5, 0.5])):
        assert not hasattr(policy, "logged_proba")
    mixture = MixturePolicy([UNIFORM, Favours("d")], [0.5, 0.5])
    for policy in (Favours("d"), mixture):
        table = action_probabilities(policy, logs)
        found = IPS().fit(logs).evaluate(policy).value
        assert found == pytest.approx(IPS().fit(logs).evaluate(table).value)


@pytest.mark.parametrize("policy", [ConstantPolicy(3), UniformPolicy()], ids=repr)
def test_answers_for_the_logged_action_take_no_table(policy):
    n, k = 2000, 100_000  # a table would take 1.6 GB
    logs = BanditLogs(np.zeros((n, 1)), np.arange(n), np.zeros(n), actions=np.arange(k))
    tracemalloc.start()
    policy.logged_proba(logs), policy.mass_on(logs, np.arange(10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * k * 8  # a few arrays of labels
