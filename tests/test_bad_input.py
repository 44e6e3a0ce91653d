# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Every kind of bad input raises, and the message names field, row and remedy."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skope_ope as ope
from skope_ope.exceptions import ModelErrorWarning, OPEWarning
from skope_ope.utils import all_evaluators

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

N = 12
LABELS = np.array(["a", "b", "c"])
CODES = np.arange(N) % 3
MU = np.tile([0.5, 0.3, 0.2], (N, 1))
PI = np.tile([0.2, 0.3, 0.5], (N, 1))
X = np.random.RandomState(0).normal(size=(N, 2))
Q = np.random.RandomState(1).random_sample((N, 3))
FIELDS = {
    "context": X,
    "action": LABELS[CODES],
    "reward": np.arange(N) / 4.0,
    "propensity": MU[np.arange(N), CODES],
    "logging_proba": MU,
    "logger": np.array(["old", "new"] * 6),
    "logger_proba": np.full((N, 2), MU[np.arange(N), CODES][:, None]),
    "available": np.ones((N, 3), dtype=bool),
    "action_context": np.ones((3, 2)),
    "timestamp": np.arange(N),
    "group": np.arange(N) // 2,
    "sample_weight": np.ones(N),
}
for _values in (*FIELDS.values(), MU, PI, X, Q):
    _values.flags.writeable = False


def build(**fields):
    """Logs of the four main fields and of those given, which may be bad."""
    main = ("context", "action", "reward", "propensity")
    if "logger_proba" in fields:
        fields = {"logger": FIELDS["logger"], **fields}
    return ope.BanditLogs(**{**{name: FIELDS[name] for name in main}, **fields})


def put(values, key, value):
    out = np.array(values)
    if not np.can_cast(np.min_scalar_type(value), out.dtype) or value is None:
        out = out.astype(object if out.dtype.kind == "U" else float)
    out[key] = value
    return out


LOGS = build()
FITTED, ROBUST, UNIFORM = (
    ope.IPS().fit(LOGS),
    ope.DoublyRobust().fit(LOGS),
    ope.UniformPolicy(),
)


def refused(match, error=ValueError):
    """Context of a call that must raise."""
    return pytest.raises(error, match=match)


# -- lengths --------------------------------------------------------------------------
@pytest.mark.parametrize("name", FIELDS)
def test_lengths_that_differ(name):
    assert len(ope.BanditLogs(**FIELDS)) == N  # the fields are good
    with refused(f"{name} is no rectangular array"):
        build(**{name: [[1.0], [1.0, 2.0]] * 6})
    short = FIELDS[name][:-1]
    match = {
        "action": "context has 12 rows, action has 11: all fields",
        "logging_proba": r"logging_proba must have shape \(12, 3\).*got \(11, 3\)",
        "available": r"available must have shape \(12, 3\), got \(11, 3\)",
        "action_context": r"action_context must have shape \(3,\).*got \(2, 2\)",
    }.get(name, f"{name} has 11 rows, action has 12: all fields .* one entry per round")
    with refused(match):
        build(**{name: short})


NOBODY = LOGS[:0]
NO_LOGS = "the logs are empty"

OTHER_ROUNDS = {
    "policy": (lambda: FITTED.evaluate(PI[:5]), r"\(5, 3\).*12 rounds.*with_columns"),
    "logged": (lambda: FITTED.evaluate(PI[:5, 0]), r"\(5,\).*12 rounds"),
    "evaluate": (lambda: ope.evaluate(PI[:5], LOGS), r"has shape \(5, 3\).*12 rounds"),
    "q_hat": (lambda: ope.DoublyRobust().fit(LOGS, Q[:5]), r"\(12, 3\).*got \(5, 3\)"),
    "weight": (
        lambda: FITTED.evaluate(PI, sample_weight=np.ones(5)),
        "_weight has 5 ro",
    ),
    "column": (lambda: LOGS.with_columns(pi=PI[:5]), r"round \(12\), got shape \(5, 3"),
    "by": (
        lambda: FITTED.evaluate(PI).by(np.ones(5)),
        r"label per round \(12\), got 5",
    ),
    "empty": (lambda: ope.BanditLogs(np.empty((0, 2)), [], [], []), NO_LOGS),
    "empty_fit": (lambda: ope.IPS().fit(NOBODY), NO_LOGS),
    "empty_fit_of_a_model": (lambda: ope.DirectMethod().fit(NOBODY), NO_LOGS),
    "empty_others": (lambda: FITTED.evaluate(UNIFORM, NOBODY), NO_LOGS),
    "others_and_a_model": (lambda: ROBUST.evaluate(UNIFORM, NOBODY), NO_LOGS),
    "empty_evaluate": (lambda: ope.evaluate(UNIFORM, NOBODY), NO_LOGS),
    "empty_model": (lambda: ope.ActionRewardModel(Ridge()).fit(NOBODY), NO_LOGS),
    "no_reward": (
        lambda: ope.ClassifierPolicy().fit(NOBODY),
        "no row of the logs has a pos",
    ),
    "no_round": (
        lambda: ope.PropensityEstimator().fit(NOBODY),
        "two rounds .* got 0 rounds",
    ),
    "no_policy": (
        lambda: ope.evaluate({}, LOGS),
        "policies is empty; name at least one",
    ),
    "no_evaluator": (
        lambda: ope.evaluate(PI, LOGS, evaluators=[]),
        "evaluators is empty; n",
    ),
}


@pytest.mark.parametrize("case", OTHER_ROUNDS)
def test_other_rounds_and_none(case):
    call, match = OTHER_ROUNDS[case]
    with refused(match):
        call()


# -- NaN and infinity -----------------------------------------------------------------
BAD_NUMBERS = [np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=str)
def test_fields_that_are_not_finite(bad):
    for name in (
        "reward",
        "propensity",
        "logging_proba",
        "logger_proba",
        "sample_weight",
    ):
        with refused(f"{name} must be finite, got {bad} at row 3"):
            build(**{name: put(FIELDS[name], 3, bad)})
    with refused(f"action_context must be finite, got {bad}"):
        build(action_context=put(FIELDS["action_context"], (1, 1), bad))
    word = "missing" if np.isnan(bad) else "infinite"
    with refused(f"timestamp is {word} at row 3"):
        build(timestamp=put(FIELDS["timestamp"], 3, bad))
    for name in ("group", "action", "logger"):
        with refused(rf"{name} has a missing label .* row 3"):
            build(**{name: put(CODES, 3, bad)})


def test_labels_masked_values_and_propensities_of_loggers():
    for name in ("action", "group", "logger"):
        with refused(rf"{name} has a missing label \(None\) at row"):
            build(**{name: put(LABELS[CODES], 3, None)})
    days = np.arange(N).astype("M8[D]")
    with refused(r"timestamp is missing at row 5 \(1 such"):
        build(timestamp=put(days, 5, np.datetime64("NaT")))
    masked = np.ma.masked_array(FIELDS["reward"], mask=np.arange(N) == 4)
    with refused("reward is masked at row 4. Drop them only if feedback"):
        build(reward=masked)
    assert build(reward=np.ma.masked_array(FIELDS["reward"])).reward[4] == 1
    for value in (-0.1, 1.1):
        with refused(f"got {value} at row 3, logger 'old'"):
            build(logger_proba=put(FIELDS["logger_proba"], (3, 1), value))
    zero = put(FIELDS["logger_proba"], (2, 1), 0.0)
    with refused("logger_proba is 0 at row 2"):
        build(logger_proba=zero, propensity=None)
    with refused(r"0\.5 at row 0 contradicts logging_proba.*0\.2"):
        build(logging_proba=MU[:, ::-1])
    with refused("at row 0 contradicts logger_proba"):
        build(logger_proba=0.5 * FIELDS["logger_proba"])


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=str)
@pytest.mark.parametrize(
    "evaluator", [ope.IPS(), ope.SNIPS(), ope.DirectMethod()], ids=repr
)
def test_policies_that_are_not_finite(evaluator, bad):
    wrong = put(PI, (3, 1), bad)  # at a logged action, and at one that was not
    other = put(PI, (3, 2), bad)
    match = f"policy must (sum to 1|not be negative).*got {bad} at row 3"
    for pi in (wrong, other):
        fitted = evaluator.fit(LOGS.with_columns(pi=pi))
        for policy in (pi, "pi", ope.FunctionPolicy(lambda X, pi=pi: pi)):
            with refused(match):
                fitted.evaluate(policy)


@pytest.mark.parametrize("bad", [*BAD_NUMBERS, -0.5, 1.5], ids=str)
def test_probabilities_of_logged_actions_and_weights(bad):
    with refused(rf"in \[0, 1\], got {bad} at row 3"):
        ope.SNIPS().fit(LOGS).evaluate(put(PI[:, 0], 3, bad))
    if not np.isfinite(bad):
        with refused(f"sample_weight must be finite, got {bad}"):
            FITTED.evaluate(PI, sample_weight=put(np.ones(N), 3, bad))


class Constant(BaseEstimator):
    """A fitted model that predicts a number for all of three actions."""

    def __init__(self, number):
        self.number = number
        self.fitted_ = True

    def fit(self, X, y=None):
        return self

    def predict(self, X):
        return np.full((len(X), 3), self.number)


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=str)
def test_models_that_are_not_finite(bad):
    never = np.tile([1.0, 0.0, 0.0], (N, 1))  # even where the policy never goes
    wrong = put(Q, (3, 1), bad)
    columns = LOGS.with_columns(q_hat=wrong)
    for evaluator, logs, model in (
        (ope.DoublyRobust(), LOGS, wrong),
        (ope.DirectMethod(), LOGS, wrong),
        (ope.DoublyRobust(reward_model="q_hat"), columns, None),
    ):
        with refused("reward_model") as info:
            evaluator.fit(logs, model).evaluate(never)
        assert f"must be finite, got {bad} at row 3" in str(info.value)
    with refused(f"finite number, got {bad}"):
        ope.DoublyRobust().fit(LOGS, bad)
    with refused("reward_model must be finite"):
        ope.DoublyRobust().fit(LOGS, FrozenEstimator(Constant(bad))).evaluate(PI)


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=str)
def test_contexts_are_the_business_of_who_uses_them(bad):
    logs = build(context=put(X, (3, 1), bad))
    assert np.isfinite(ope.IPS().fit(logs).score(PI))  # IPS does not
    evaluator = ope.DoublyRobust(reward_model=Ridge(), cv=2)
    policy = ope.ClassifierPolicy(LogisticRegression())
    if np.isnan(bad):  # filled, as those of a frame
        ope.ClassifierPolicy().fit(logs)
        for one in (evaluator, policy):
            with pytest.warns(OPEWarning, match="was fitted behind a ContextEncoder"):
                one.fit(logs)
        return
    with refused("contains infinity") as info:
        evaluator.fit(logs)
    assert "reward model of action 'a'" in info.value.__notes__[0]
    with refused("contains infinity"):
        policy.fit(logs)


# -- propensities ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "match"),
    [
        (0.0, r"got 0 at row 3 \(1 such rows\)\. A round with propensity 0 cannot"),
        (-0.1, r"got -0\.1 at row 3 .*PropensityEstimator"),
        (1.1, r"got 1\.1 at row 3 .* not its inverse and not a percentage"),
        (5e-324, r"got 4\.94.*e-324 at row 3 .*Such a small probability"),
        (1 + 1e-6, r"got 1\.000001 at row 3"),
    ],
)
def test_propensities_out_of_range(value, match):
    with refused(r"propensity must lie in \(0, 1\], " + match):
        build(propensity=put(FIELDS["propensity"], 3, value))
    if value > 0:
        assert build(propensity=np.full(N, 1 + 1e-12)).propensity.max() > 1


def takes_bandit_logs(cls):
    requires = cls.requires  # a property where it follows parameters
    return isinstance(requires, property) or ope.BanditLogs in requires.logs


@pytest.mark.parametrize(
    ("name", "cls"),
    [(name, cls) for name, cls in all_evaluators() if takes_bandit_logs(cls)],
)
def test_propensities_that_are_missing(name, cls):
    unknown = build(propensity=None)
    if name in ("DirectMethod", "ExplorationScavenging", "Replay"):
        fixed = {"random_state": 1} if name == "Replay" else {}
        assert np.isfinite(cls(**fixed).fit(unknown).score(PI))
        return
    for call in (
        lambda: cls().fit(unknown),
        lambda: cls().fit(LOGS).evaluate(UNIFORM, unknown),
        lambda: ope.evaluate(PI, unknown, evaluators=name),
    ):
        with refused(f"{name} needs the propensities .*PropensityEstimator, or use Di"):
            call()
    with refused("Put PropensityEstimator in front of it"):
        ope.PropensityClipper(low=0.1).fit(unknown)


# -- distributions --------------------------------------------------------------------
OFFERED = np.ones((N, 3), dtype=bool)
OFFERED[4, 2] = False  # b was logged there

DISTRIBUTIONS = {
    "sum": (0.9 * PI, r"must sum to 1 over the actions, got 0\.9 at row 0 \(12 such"),
    "one sum": (put(PI, (3, 0), 0.21), r"got 1\.01 at row 3 \(1 such.*Normalise"),
    "negative": (
        put(put(PI, (3, 1), -0.1), (3, 2), 0.9),
        r"must not be negative, got -0\.1 at row 3, column 1\. Clip",
    ),
    "not offered": (PI, r"0\.5 to action 2 at row 4, where it is not available.*Renor"),
}


@pytest.mark.parametrize("case", DISTRIBUTIONS)
def test_distributions(case):
    proba, match = DISTRIBUTIONS[case]
    available = OFFERED if case == "not offered" else None
    with refused(f"logging_proba .*{match}"):
        build(logging_proba=proba, propensity=None, available=available)
    logs = build(available=available).with_columns(pi=proba)
    policies = [proba, "pi", proba.tolist()]
    if available is None:  # over offers, functions are renormalised
        policies.append(ope.FunctionPolicy(lambda X: proba))
    for evaluator in (ope.IPS(), ope.DirectMethod()):
        for policy in policies:
            with refused(f"policy .*{match}"):
                evaluator.fit(logs).evaluate(policy)


def test_offers_and_labels_that_the_logs_do_not_know():
    with refused(r"'b' was logged at row 4, where it is not `av"):
        build(available=put(OFFERED, (4, 1), False))
    logs = build(available=OFFERED)
    for policy in (ope.ConstantPolicy("c"), ope.ConstantPolicy("c").fit(logs)):
        with refused("at row 4"):
            ope.IPS().fit(logs).evaluate(policy)
    soft = SOFT.fit(X, np.array(["a", "b", "z"])[CODES])
    for policy in (soft, ope.ConstantPolicy("z")):
        with refused(r"do not know: \['z'\].*actions=\[\.\.\.\]"):
            FITTED.evaluate(policy)
    with refused("'z' is not among the actions"):
        ope.ConstantPolicy("z").fit(LOGS)
    named = build(actions=["a", "b", "c", "z"])  # the remedy
    assert np.isfinite(ope.IPS().fit(named).score(soft))


# -- policies -------------------------------------------------------------------------
CLASSIFIER = LogisticRegression().fit(X, LABELS[CODES])
SOFT = ope.ClassifierPolicy(LogisticRegression(), temperature=1.0)


@pytest.mark.parametrize(
    "classifier",
    [
        CLASSIFIER,
        LogisticRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()).fit(X, LABELS[CODES]),
        GridSearchCV(LogisticRegression(), {"C": [1]}, cv=2).fit(X, LABELS[CODES]),
        FrozenEstimator(CLASSIFIER),
    ],
    ids=["fitted", "unfitted", "pipeline", "search", "frozen"],
)
def test_bare_classifiers(classifier):
    for call in (
        lambda: FITTED.evaluate(classifier),
        lambda: ope.DirectMethod().fit(LOGS).score(classifier),
        lambda: ope.evaluate(classifier, LOGS),
        lambda: ope.evaluate({"mine": classifier}, LOGS),
        lambda: FITTED.evaluate(ope.MixturePolicy([classifier], [1.0])),
    ):
        with refused(r"not a policy\. Wrap it: ClassifierPolicy", TypeError):
            call()


NO_POLICIES = [
    (LOGS, TypeError, r"a policy is expected, got BanditLogs.*\.fit\(logs\)"),
    (ope.IPS(), TypeError, "a policy is expected, got the evaluator IPS"),
    (ope.UniformPolicy, TypeError, "got the class UniformPolicy; make an instance"),
    (Ridge().fit(X, CODES), TypeError, "needs predict_proba and classes_.*got Ridge"),
    (None, TypeError, "needs predict_proba and classes_.*got NoneType"),
    (3, TypeError, "needs predict_proba and classes_.*got int"),
    ({"a": 1.0}, TypeError, "needs predict_proba and classes_.*got dict"),
    (lambda X: PI, TypeError, r"FunctionPolicy\(func\)"),
]


def test_arguments_and_features_of_something_else():
    with refused(r"scoring=EvaluatorScorer\(policy\)", TypeError):
        FITTED.score(LOGS)
    with refused(r"call is evaluate\(policies, logs\)", TypeError):
        ope.evaluate(LOGS, UNIFORM)
    with refused(r"evaluate\(\{'a': \.\.\., 'b': \.\.\.\}, logs", TypeError):
        ope.evaluate([UNIFORM, SOFT], LOGS)
    with refused(r"'pi' is not a column .* \['mu'\].*with_colu"):
        ope.IPS().fit(LOGS.with_columns(mu=MU)).evaluate("pi")
    with refused(r"'q' is not a column .* \[\].*with_columns"):
        ope.DoublyRobust(reward_model="q").fit(LOGS)
    wide = np.column_stack([X, X])
    policy = ope.ClassifierPolicy().fit(wide, LABELS[CODES])
    with refused("fitted on 4 features, the logs have 2"):
        FITTED.evaluate(policy)
    with refused("the logs have 4 features, those of fit had 2"):
        ROBUST.evaluate(UNIFORM, build(context=wide))
    pandas = pytest.importorskip("pandas")
    named = build(context=pandas.DataFrame(X, columns=["age", "hour"]))
    other = pandas.DataFrame(X, columns=["hour", "size"])
    with refused(r"feature names(.|\n)*age"):
        ope.IPS().fit(named).evaluate(ope.ClassifierPolicy().fit(other, LABELS[CODES]))


def test_policies_that_give_no_distribution_or_are_not_fitted():
    for policy in (
        ope.ClassifierPolicy(),
        ope.MixturePolicy([UNIFORM, ope.ClassifierPolicy()], [0.5, 0.5]),
        FrozenEstimator(ope.ClassifierPolicy()),
        GridSearchCV(ope.ClassifierPolicy(), {"epsilon": [0.0]}),
    ):
        with refused("not fitted", NotFittedError):
            FITTED.evaluate(policy)
    for wrong, match in (
        (PI[:, :2], r"shape \(12, 2\), expected \(12, 3\)"),
        (PI[:5], r"shape \(5, 3\), expected \(12, 3\)"),
        (None, "must hold numbers"),
    ):
        with pytest.raises((ValueError, TypeError), match=match):
            FITTED.evaluate(ope.FunctionPolicy(lambda X, wrong=wrong: wrong))
    for wrong in (PI.astype(complex), PI.astype(str), PI.astype(object)):
        with refused(f"numbers, got .*{wrong.dtype}", TypeError):
            FITTED.evaluate(ope.FunctionPolicy(lambda X, wrong=wrong: wrong))


def test_actions_in_place_of_probabilities():
    taken = CLASSIFIER.predict(X)
    table = taken[:, None] == LOGS.actions
    assert FITTED.score(taken) == FITTED.score(table)
    wrong = np.where(taken == "a", "z", taken)
    with refused("policy names 'z' at row"):
        FITTED.evaluate(wrong)
    with refused(r"actions, or .* floats", TypeError):
        FITTED.evaluate((CODES == 0).astype(int))
    agrees = LABELS[CODES] == "a"  # or whether a rule takes an action, or was right
    with refused(r"vector of booleans: .* policy\.astype\(float\)", TypeError):
        FITTED.evaluate(agrees)
    assert FITTED.score(agrees.astype(float)) == FITTED.score(ope.ConstantPolicy("a"))


# -- reward models and folds ----------------------------------------------------------
NO_MODELS = [
    (Q[1:, 0], ValueError, "one dimension with 11 entries.*12 rounds"),
    (Q[..., None], ValueError, r"must have shape \(12, 3\).*got \(12, 3, 1\)"),
    (Q.astype(str), TypeError, "reward_model must hold numbers, got dtype <U"),
    (Q.astype(object), TypeError, "must hold numbers, got dtype object.*dtype=flo"),
    (Q.astype(complex), TypeError, "reward_model must hold real numbers"),
    (Ridge, TypeError, "is the class Ridge; make an instance"),
    (len, TypeError, "must be a scikit-learn model.*got builtin_function"),
    ({"a": Q}, TypeError, "must be a scikit-learn model.*got dict"),
    (True, TypeError, "must be a scikit-learn model.*got bool"),
    (UNIFORM, TypeError, r"is the policy UniformPolicy.*evaluate\(policy"),
    (StandardScaler(), ValueError, "implementing 'fit' and 'predict'"),
    (FrozenEstimator(Ridge()), NotFittedError, "Ridge instance is not fitted yet"),
]


def test_models_that_an_evaluator_does_not_take():
    for model in (Q, 0.5, "q", FrozenEstimator(Constant(1.0))):
        with refused(r"Pass an unfitted model, or use DoublyRobust"):
            ope.MRDR().fit(LOGS, model)
    of_one_action = Ridge().fit(X, CODES)
    for evaluator in (
        ope.DoublyRobust(reward_model=of_one_action, cv="prefit"),
        ope.DoublyRobust(reward_model=FrozenEstimator(of_one_action)),
    ):
        with refused(r"every action.*got \(12,\).*ActionReward"):
            evaluator.fit(LOGS).evaluate(PI)
    with refused("constructor and to fit; give it once"):
        ope.DoublyRobust(reward_model=Ridge()).fit(LOGS, Ridge())
    for reward, match in (
        (FIELDS["reward"], r"0 or 1, got 1\.5 at row 0 .*Use a regressor"),
        (np.where(CODES == 0, 1.0, -1.0), "0 or 1, got -1 at row 1 .*Use a regressor"),
    ):
        model = ope.DoublyRobust(reward_model=LogisticRegression(), cv=2)
        with refused(match):
            model.fit(build(reward=reward))


def test_constant_and_one_class_folds():
    once = (np.arange(N) == 0) * 1.0  # one class in most folds
    for reward in (np.ones(N), np.zeros(N), np.full(N, 0.5), once):
        model = Ridge() if reward[0] == 0.5 else LogisticRegression()
        logs = build(reward=reward)
        result = ope.DirectMethod(reward_model=model, cv=4).fit(logs).evaluate(PI)
        if np.ptp(reward) == 0:
            np.testing.assert_allclose(result.value, reward[0], rtol=1e-12)
            assert result.standard_error < 1e-15
        else:
            assert 0 <= result.value <= 1


def test_folds_that_lack_actions_rounds_or_groups():
    once = np.where(CODES == 2, 0, CODES)
    once[[5, 7]] = 0, 2
    logs = build(action=LABELS[once])
    match = r"1 action.*\(\['c'\]; 1 in fold 1\)"
    with pytest.warns(ModelErrorWarning, match=match) as found:
        ope.DirectMethod(reward_model=Ridge(), cv=3).fit(logs)
    assert found[0].message.value == 1
    with refused(r"at least two groups .* got 1 groups"):
        ope.DoublyRobust().fit(build(group=np.zeros(N)))
    with refused(r"at least two rounds .* got 1 rounds"):
        ope.DoublyRobust().fit(LOGS[:1])
    result = ope.DoublyRobust(cv=TimeSeriesSplit(2)).fit(LOGS).evaluate(PI)
    assert result.diagnostics["uncovered_rounds"] == 4  # counted, not silent
    model = KNeighborsRegressor(n_neighbors=5)
    with refused("n_neighbors") as info:
        ope.DoublyRobust(reward_model=model, cv=2).fit(LOGS).evaluate(PI)
    assert "encoding='one_hot'" in info.value.__notes__[0]


NO_FOLDS = [
    (1, r"'cv' parameter of DoublyRobust must be an int in the range \[2"),
    (2.5, "'cv' parameter of DoublyRobust must be"),
    ("pre", "cv must be 'prefit', a number or folds, got 'pre'"),
    ("prefit", "cv='prefit' needs a fitted reward_model, got None"),
    ([(np.arange(N), np.arange(N))], "row 0 into the training and the test part"),
    ([(np.arange(N), np.arange(N, 20))], "cv names row 12, .* rows 0 to 11"),
    ([(np.arange(0), np.arange(4))], "no training round in fold 0"),
    ([1, 2], r"pairs \(train, test\), got 1"),
    (KFold(20), "n_splits=20 greater than the number of samples"),
]


# -- kinds and dimensions -------------------------------------------------------------
NUMBERS = ["reward", "propensity", "logging_proba", "logger_proba", "sample_weight"]


@pytest.mark.parametrize("name", [*NUMBERS, "action_context"])
def test_texts_objects_and_complex_numbers(name):
    values = FIELDS[name]
    with refused(rf"{name} must hold numbers, got dtype <U\d+", TypeError):
        build(**{name: values.astype(str)})
    for objects in (values.astype(object), np.full(values.shape, None)):
        with refused(f"{name} .*dtype object .* dtype=float", TypeError):
            build(**{name: objects})
    with refused(f"{name} must hold real numbers, got complex", TypeError):
        build(**{name: values.astype(complex)})
    with refused(f"{name} must hold numbers, got dtype datetime", TypeError):
        build(**{name: np.zeros(values.shape, dtype="M8[D]")})


@pytest.mark.parametrize("name", [*NUMBERS, "action_context"])
def test_wrong_dimensions_of_numbers(name):
    values = FIELDS[name]
    for wrong in (values[..., None], values[0]):
        if name == "action_context" and wrong.ndim == 3:
            continue  # features per round: tested with the lengths
        if name == "propensity" and not wrong.ndim:
            continue  # one number for all rounds
        with refused(rf"{name} must have .* got"):
            build(**{name: wrong})
    if values.ndim == 1:
        with refused(r"\(12, 1\). Flatten it with np\.ravel"):
            build(**{name: values[:, None]})
        if name != "propensity":
            with refused(r"np\.full\(n_rounds, 0\.5\)"):
                build(**{name: 0.5})


@pytest.mark.parametrize("name", ["action", "group", "logger"])
def test_wrong_labels(name):
    column = FIELDS[name][:, None]  # a column of groups is a table of them
    for wrong in (FIELDS[name][0], np.array(None), *([column] * (name != "group"))):
        with refused(f"{name} must be 1-d"):
            build(**{name: wrong})
    with refused(f"{name} must hold labels, got complex", TypeError):
        build(**{name: CODES * 1j})
    with refused(r"the text 'item'\. from_frame takes names"):
        build(**{name: "item"})
    mixed = put(LABELS[CODES].astype(object), 3, 7)
    if name != "group":  # which needs no order
        with refused(f"{name} mixes labels that cannot be order", TypeError):
            build(**{name: mixed})


NO_ACTIONS = [
    (["a", "b"], r"action 'c' at row 2 is not among actions \['a', 'b'\]. Add it"),
    ([0, 1, 2], r"action 'a' at row 0 is not among actions \[0, 1, 2\]"),
    (["a", "b", "c", "c"], "actions must be distinct"),
    (["a", "b", "c", None], r"actions has a missing label \(None\)"),
    ([["a", "b", "c"]], "actions must be 1-d"),
]


NO_CONTEXTS = [
    (None, TypeError, "context must not be None"),
    (X[:, 0], ValueError, r"2-d .* got shape \(12,\). Reshape one feature with x"),
    (X[..., None], ValueError, r"2-d .* got shape \(12, 2, 1\)"),
    (X.astype(str), TypeError, "real numbers, got dtype <U.*ColumnTransformer"),
    (X.astype(object), TypeError, "real numbers, got dtype object"),
    (X.astype(complex), TypeError, "real numbers, got dtype complex"),
    (sparse.csr_matrix(X * 1j), TypeError, "context must hold numbers, got comp"),
    ({"x": X[:, 0]}, ValueError, "context must be 2-d"),
]


@pytest.mark.parametrize("dtype", [str, object, int, float, complex])
def test_offers_that_are_not_boolean_and_wrong_times(dtype):
    with refused(r"available must be boolean.*\.astype\(bool\)", TypeError):
        build(available=FIELDS["available"].astype(dtype))
    days = FIELDS["timestamp"]
    wrong = days[:, None] if dtype in (int, float) else days.astype(dtype)
    with refused(r"timestamp must be 1-d and .*datetime64\[us\]", TypeError):
        build(timestamp=wrong)


NO_ARRAYS = [
    (PI.astype(str), TypeError, "policy must hold numbers, got dtype <U"),
    (PI.astype(object), TypeError, "policy must hold numbers, got dtype object"),
    (PI.astype(complex), TypeError, "policy must hold real numbers, got complex"),
    (PI[..., None], ValueError, r"array of shape \(12, 3\), got \(12, 3, 1\)"),
    (PI[:, :1], ValueError, r"\(12, 1\), but the logs have 12 rounds and 3 act"),
    (np.array(0.5), ValueError, r"array of shape \(12, 3\), got \(\)"),
    ([[0.5, 0.5, 0.0], [1.0, 0.0]] * 6, ValueError, "policy is no rectangular ar"),
]


ONES = np.ones(N)


def test_wrong_weights():
    for weight, error, match in (
        (ONES.astype(str), TypeError, "sample_weight must hold numbers"),
        (ONES[:, None], ValueError, r"sample_weight must have 1 dimension\(s\)"),
        (-ONES, ValueError, "non-negative and positive somewhere"),
        (0 * ONES, ValueError, "non-negative and positive somewhere"),
    ):
        with refused(match, error):
            FITTED.evaluate(PI, sample_weight=weight)
    with refused(r"number >= 0, got -1 at row 2\. Use 1 /"):
        build(sample_weight=put(ONES, 2, -1.0))
    with refused("sample_weight is zero everywhere"):
        build(sample_weight=0 * ONES)


@pytest.mark.parametrize("frames", ["pandas", "polars", "pyarrow"])
def test_frames_follow_the_names_of_their_columns(frames):
    module = pytest.importorskip(frames)
    make = module.table if frames == "pyarrow" else module.DataFrame
    fitted = ope.IPS().fit(LOGS)

    def frame(values, names):
        return make(dict(zip(names, values.T, strict=True)))

    turned = frame(PI[:, ::-1], ["c", "b", "a"])
    assert fitted.score(turned) == fitted.score(PI)
    logs = build(logging_proba=frame(MU[:, ::-1], ["c", "b", "a"]))
    np.testing.assert_array_equal(logs.logging_proba, MU)
    offered = build(available=frame(OFFERED[:, ::-1], ["c", "b", "a"]))
    np.testing.assert_array_equal(offered.available, OFFERED)
    model = frame(Q[:, ::-1], ["c", "b", "a"])
    assert ope.DirectMethod().fit(LOGS, model).score(PI) == (
        ope.DirectMethod().fit(LOGS, Q).score(PI)
    )
    strange = frame(PI, ["c", "b", "x"])
    match = r"columns of {} are \['c', 'b', 'x'\], the actions are \['a', 'b', 'c'\]"
    with refused(match.format("policy")):
        fitted.evaluate(strange)
    with refused(match.format("logging_proba")):
        build(logging_proba=strange)
    with refused(match.format("reward_model")):
        ope.DoublyRobust().fit(LOGS, strange)


# -- logs and parameters --------------------------------------------------------------
@pytest.mark.parametrize("logs", [X, None, [LOGS, LOGS]], ids=["array", "None", "list"])
def test_what_are_no_logs(logs):
    with refused(r"logs must be BanditLogs.*from_frame", TypeError):
        ope.IPS().fit(logs)
    if logs is not None:
        with refused("logs must be BanditLogs", TypeError):
            FITTED.evaluate(PI, logs)
    with refused(r"call is evaluate\(policies, logs\)", TypeError):
        ope.evaluate(PI, logs)
    with refused("logs must be BanditLogs", TypeError):
        ope.ActionRewardModel(Ridge()).fit(logs)
    with refused("takes BanditLogs", TypeError):
        ope.PropensityClipper().fit(logs)


def test_actions_rewards_and_offers_of_other_logs():
    other = build(action=np.array(["a", "b", "z"])[CODES])
    with refused(r"action 'z' of the logs was unknown in fit"):
        FITTED.evaluate(UNIFORM, other)
    negative = build(reward=FIELDS["reward"] - 1)
    with refused(r"got -1 at row 0\. Pass reward_range"):
        ope.LogSmoothing().fit(negative)
    with refused(r"at row 0 is negative\. Use IPSPolicy"):
        ope.ClassifierPolicy().fit(negative)
    for one in (ope.ClassifierPolicy().fit(LOGS), UNIFORM):
        with refused("available was given beside BanditLogs", TypeError):
            one.predict_proba(LOGS, np.ones((len(LOGS), LOGS.n_actions), bool))


NO_EVALUATORS = [
    ("IPSS", ValueError, "'IPSS' is unknown; there are IPS, SNIPS"),
    ([ope.IPS(), ope.IPS(cmax=2.0)], ValueError, "two evaluators are called 'IPS'"),
    ([ope.IPS], TypeError, "got the class IPS; make an instance"),
    ([3], TypeError, "names or evaluators, got int"),
    ([ope.IPS(cmax=-1)], ValueError, r"'cmax' parameter of IPS must be a float in"),
]


WRONG = {
    "policy": (FITTED.evaluate, [*NO_POLICIES, *NO_ARRAYS]),
    "reward_model": (lambda one: ope.DoublyRobust().fit(LOGS, one), NO_MODELS),
    "cv": (lambda one: ope.DoublyRobust(cv=one).fit(LOGS), NO_FOLDS),
    "actions": (lambda one: build(actions=one), NO_ACTIONS),
    "context": (lambda one: build(context=one), NO_CONTEXTS),
    "evaluators": (lambda one: ope.evaluate(PI, LOGS, evaluators=one), NO_EVALUATORS),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name):
    call, rows = WRONG[name]
    for value, *error, match in rows:
        with refused(match, *error):
            call(value)
