# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Reward models for logs in files, through the calls that users make."""

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.linear_model import SGDRegressor as SGD
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope import (
    IPS,
    MRDR,
    ActionRewardModel,
    BanditLogs,
    CascadeDR,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateLogs,
    UniformPolicy,
    UniformSlatePolicy,
    evaluate,
    scan_logs,
    summarize,
)
from skope_ope.evaluators import ValueSummary
from skope_ope.exceptions import ModelErrorWarning
from skope_ope.logs import HashKFold
from skope_ope.reward_models import AdditiveSlateModel

pytestmark = pytest.mark.frames

N = 600
CUTS = [0, 200, 290, 600]
NAMES = ["number", "x"]
ROLES = {"action": "action", "reward": "reward", "propensity": "p", "context": NAMES}


@pytest.fixture(autouse=True)
def values_may_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what the values say, not of errors
        yield


@pytest.fixture(scope="module")
def frame():
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    x = rng.normal(size=N)
    action = rng.choice(3, N, p=[0.5, 0.3, 0.2])
    user = rng.randint(120, size=N)
    columns = {
        "number": np.arange(N, dtype=float),
        "x": x,
        "action": action,
        "reward": (rng.uniform(size=N) < 1 / (1 + np.exp(-x * action))).astype(float),
        "p": np.array([0.5, 0.3, 0.2])[action],
        "user": user,
        "name": [f"user {i}" for i in user],
        "weight": rng.uniform(0.5, 2.0, N),
        **{f"q{k}": rng.uniform(size=N) for k in range(3)},
    }
    slates = np.argsort(rng.uniform(size=(N, 4)), axis=1)
    columns |= {f"slot{j}": slates[:, j] for j in range(2)}
    return pandas.DataFrame(columns)


def write(frame, folder, cuts=CUTS, row_group_size=130):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    for k, (low, high) in enumerate(pairwise(cuts)):
        table = pyarrow.Table.from_pandas(frame.iloc[low:high], preserve_index=False)
        path = folder / f"{k}.parquet"
        parquet.write_table(table, path, row_group_size=row_group_size)
    return folder


def in_memory(frame, **fields):
    return BanditLogs.from_frame(frame, **ROLES, **fields)


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    return write(frame, tmp_path_factory.mktemp("log"))


class Memory(RegressorMixin, BaseEstimator):
    """Knows by heart which rounds it was trained on: predicts 1 for them, else 0."""

    def fit(self, X, y):
        self.seen_ = set()
        return self.partial_fit(X, y)

    def partial_fit(self, X, y):
        self.seen_ = getattr(self, "seen_", set()) | set(np.asarray(X)[:, 0].tolist())
        return self

    def predict(self, X):
        return np.array([float(x in self.seen_) for x in np.asarray(X)[:, 0]])


def agree(one, other):
    assert_allclose(one.value, other.value, rtol=1e-12)
    assert_allclose(one.standard_error, other.standard_error, rtol=1e-10)
    assert one.n_rounds == other.n_rounds


MODELS = {  # others: tests/judge
    "pipeline": make_pipeline(StandardScaler(), Ridge()),
    "classifier": LogisticRegression(),
    "one model": ActionRewardModel(LinearRegression(), "one_hot"),
    "small": SGD(random_state=0, eta0=1e-8),  # of few rounds fit learns at once
}


def value_of(logs, evaluator, model=None, cv=None, policy=None, **given):
    policies = {"it": UniformPolicy() if policy is None else policy}
    how = {"evaluators": {"e": evaluator}, "reward_model": model, **given}
    if given:
        return summarize(policies, logs, **how).values()["it", "e"]
    return evaluate(policies, logs, cv=cv, **how)["it", "e"]


@pytest.mark.few_cases(3)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_evaluate_gives_the_values_of_memory(folder, frame, model):
    names = ["DirectMethod", "DoublyRobust", "SNDR"]
    given = {"evaluators": names, "reward_model": model}
    policies = {"it": UniformPolicy()}
    lazy = evaluate(policies, scan_logs(folder, **ROLES), **given)
    table = evaluate(policies, in_memory(frame), cv=HashKFold(5), **given)
    assert list(lazy) == list(table)
    for key, value in table.items():
        agree(lazy[key], value)


def test_fit_and_evaluate_give_the_values_of_memory(folder, frame):
    lazy, logs = scan_logs(folder, **ROLES), in_memory(frame)
    parts = DoublyRobust(cv=3).fit(lazy, Ridge())
    whole = DoublyRobust(cv=HashKFold(3)).fit(logs, Ridge())
    expected = whole.evaluate(UniformPolicy())
    agree(parts.evaluate(UniformPolicy()), expected)
    assert parts.score(UniformPolicy()) == pytest.approx(whole.score(UniformPolicy()))
    agree(pickle.loads(pickle.dumps(parts)).evaluate(UniformPolicy()), expected)
    # some of the rounds of fit, out of fold: of the same scan, and of another one
    late = parts.evaluate(UniformPolicy(), lazy.filter(lambda f: f["number"] > 99))
    agree(late, whole.evaluate(UniformPolicy(), logs[100:]))
    one_file = scan_logs(folder / "1.parquet", **ROLES, actions=[0, 1, 2])
    found = parts.evaluate(UniformPolicy(), one_file)
    agree(found, whole.evaluate(UniformPolicy(), logs[200:290]))


def test_files_of_fit_are_needed_for_new_ones_alone(frame, tmp_path):
    roles, u = ROLES | {"actions": [0, 1, 2]}, UniformPolicy()
    parts = DirectMethod().fit(scan_logs(write(frame, tmp_path), **roles), Ridge())
    one_file = scan_logs(tmp_path / "1.parquet", **roles)
    expected = parts.score(u, one_file)
    (tmp_path / "0.parquet").rename(tmp_path / "gone")
    assert parts.score(u, one_file) == expected  # out of fold
    (tmp_path / "1.parquet").rename(tmp_path / "new.parquet")
    new = scan_logs(tmp_path / "new.parquet", **roles)
    with pytest.raises(FileNotFoundError, match=r"0\.parquet, row group 0") as told:
        parts.score(u, new)
    assert "is fitted to the files of fit" in told.value.__notes__[0]
    fewer = scan_logs(tmp_path / "new.parquet", **roles | {"context": ["x"]})
    with pytest.raises(ValueError, match="have 1 features, those of fit had 2"):
        parts.score(u, fewer)


def test_new_files_are_predicted_by_the_model_of_all_rounds(folder, frame, tmp_path):
    new = frame.assign(x=frame.x[::-1].to_numpy(), number=frame.number + 1000)
    lazy, other = (scan_logs(one, **ROLES) for one in (folder, write(new, tmp_path)))
    parts = DirectMethod().fit(lazy, Ridge()).evaluate(UniformPolicy(), other)
    logs, new = in_memory(frame), in_memory(new)
    agree(parts, DirectMethod().fit(logs, Ridge()).evaluate(UniformPolicy(), new))


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("field", [None, "user"])
@pytest.mark.parametrize("n_sample", ["auto", 150, None])
def test_nobody_is_predicted_by_a_model_that_saw_him(folder, field, n_sample):
    lazy = scan_logs(folder, **ROLES, group=field)
    value = value_of(lazy, DirectMethod(), Memory(), n_sample=n_sample)
    assert value.value == 0.0  # it predicts 1 for what it knows
    known = ActionRewardModel(Memory()).fit(lazy.sample(10**6))
    value = value_of(lazy, DirectMethod(), FrozenEstimator(known))
    assert 0 < value.value <= 1


@pytest.mark.thorough
def test_other_groups_than_those_of_fit_do_not_mix_the_folds(folder):
    plain, by_user, by_name = (
        scan_logs(folder, **ROLES, group=field) for field in (None, "user", "name")
    )
    day = scan_logs(folder / "1.parquet", **ROLES, group="user")
    fitted = DirectMethod(reward_model=Memory()).fit(plain)
    for lazy in (by_user, by_user.filter(lambda f: f["x"] > 0), day):
        assert fitted.evaluate(UniformPolicy(), lazy).value == 0.0
    fitted = DirectMethod(reward_model=Memory()).fit(by_user)
    assert fitted.evaluate(UniformPolicy(), day).value == 0.0
    for lazy in (plain, by_name, scan_logs(folder / "1.parquet", **ROLES)):
        with pytest.raises(ValueError, match="Scan these logs with group='user', too"):
            fitted.evaluate(UniformPolicy(), lazy)
    with pytest.raises(ValueError, match=r"these logs.* have no group"):
        fitted.evaluate(UniformPolicy(), plain.head(50))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("cuts", "size"), [([0, 600], 50), ([0, 1, 2, 301, 599, 600], 600)]
)
def test_the_sample_does_not_depend_on_partitions(folder, frame, tmp_path, cuts, size):
    other = scan_logs(write(frame, tmp_path, cuts, size), **ROLES)
    lazy = scan_logs(folder, **ROLES)
    for model in (Ridge(), None):
        given = DoublyRobust(), model, None, None
        one = value_of(lazy, *given, n_sample=100, random_state=3)
        agree(one, value_of(other, *given, n_sample=100, random_state=3))
    another = value_of(lazy, DoublyRobust(), Ridge(), n_sample=100, random_state=4)
    assert another.value != value_of(lazy, DoublyRobust(), Ridge(), n_sample=100).value


@pytest.mark.thorough
def test_filtered_rounds_keep_their_folds(folder, frame):
    lazy = scan_logs(folder, **ROLES).filter(lambda f: f["x"] > 0)
    logs = in_memory(frame)[(frame.x > 0).to_numpy()]
    for model in (None, Ridge()):
        found = value_of(lazy, DoublyRobust(), model)
        agree(found, value_of(logs, DoublyRobust(), model, HashKFold(5)))


def test_models_of_memory_know_no_rounds_of_files(folder, frame):
    fitted = DoublyRobust(reward_model=Ridge()).fit(in_memory(frame))
    with pytest.raises(ValueError, match="fitted to logs in memory"):
        fitted.evaluate(UniformPolicy(), scan_logs(folder, **ROLES))


def test_seeds_and_folds_may_be_objects(folder):
    lazy, given = scan_logs(folder, **ROLES), {"n_sample": 90}
    one, other = (
        value_of(lazy, DirectMethod(), LinearRegression(), **given, random_state=seed)
        for seed in (np.random.RandomState(3), np.random.RandomState(3))
    )
    assert one.value == other.value
    one, other = (value_of(lazy, DirectMethod(), None, cv) for cv in (2, HashKFold(2)))
    assert one.value == other.value


@pytest.mark.parametrize(
    ("evaluator", "model", "cv", "error", "match"),
    [
        (DoublyRobust(), np.zeros((N, 3)), 3, ValueError, r"columns=\{'q_hat'"),
        (MRDR(), Ridge(), 3, ValueError, "MRDR .* Use DoublyRobust, or load rounds"),
        (DoublyRobust(), None, KFold(5), TypeError, r"HashKFold\(5\).*got KFold"),
        (DoublyRobust(), None, [([0], [1])], TypeError, "HashKFold"),
        (DoublyRobust(), None, True, TypeError, "a number of folds"),
        (DoublyRobust(), None, 1, ValueError, "at least 2 folds, got 1"),
        (DoublyRobust(), None, "prefit", ValueError, "needs a fitted reward_model"),
        (DoublyRobust(), Ridge(), "prefit", NotFittedError, "not fitted"),
        (DoublyRobust(), Ridge(), "loo", ValueError, "cv must be 'prefit'"),
        (DoublyRobust(), "q", 3, ValueError, r"'q' is not a column .* scan_logs"),
        (DoublyRobust(), np.inf, 3, ValueError, "finite number"),
        (DoublyRobust(), Ridge, 3, TypeError, "make an instance"),
        (DoublyRobust(), UniformPolicy(), 3, TypeError, "is the policy UniformPolicy"),
    ],
)
def test_what_needs_all_rounds_at_once_is_refused(
    folder, evaluator, model, cv, error, match
):
    lazy = scan_logs(folder, **ROLES)
    with pytest.raises(error, match=match):
        value_of(lazy, evaluator, model, cv)
    if isinstance(cv, int) and cv < 2:
        error, match = ValueError, "The 'cv' parameter of DoublyRobust"
    with pytest.raises(error, match=match):
        clone(evaluator).set_params(cv=cv).fit(lazy, model)


def test_what_slates_refuse(folder):
    rewards = {"reward": None, "slot_reward": ["q0", "q1"]}
    lazy = scan_logs(folder, **SLATES | rewards)
    for evaluator, model, match in (
        (CascadeDR(), Ridge(), "CascadeDR .* use CascadeIPS"),
        (SlateDoublyRobust(), Ridge(), "AdditiveSlateModel"),
        (SlateDirectMethod(), np.zeros(N), "got ndarray"),
        (SlateDirectMethod(), Ridge(), "n_samples=20 slates are .* n_samples=None"),
    ):
        with pytest.raises((ValueError, TypeError), match=match):
            value_of(lazy, evaluator, model, policy=UniformSlatePolicy(2))


def test_sizes_of_the_sample(folder):
    lazy = scan_logs(folder, **ROLES)
    for n_sample in (0, 1, 2.5, -3, "all", True, np.nan):
        with pytest.raises(ValueError, match="n_sample must be a number of rounds"):
            value_of(lazy, DoublyRobust(), Ridge(), n_sample=n_sample)


def test_which_rounds_a_model_is_fitted_to(folder):
    lazy = scan_logs(folder, **ROLES)
    for model, n_sample, facts in (
        (Ridge(), "auto", (N, "all rounds")),
        (Ridge(), 60, (60, "a random sample")),
        (SGD(random_state=0), 60, (60, "a random sample")),
        (SGD(random_state=0), None, (N, "all rounds, by partial_fit")),
    ):
        assert told(value_of(lazy, DoublyRobust(), model, n_sample=n_sample)) == facts


def test_models_learn_from_the_partitions_in_their_order(folder, frame):
    fields = {"group": "user", "sample_weight": "weight"}
    lazy, logs = scan_logs(folder, **ROLES, **fields), in_memory(frame, **fields)
    model = ActionRewardModel(SGD(random_state=0, eta0=1e-8))
    fold, q = HashKFold(5).fold_of(logs), np.empty((N, 3))
    row_groups = [0, 130, 200, 290, 420, 550, 600]  # of the three files
    for k in range(5):
        fitted = clone(model)
        for low, high in pairwise(row_groups):
            part = logs[low:high]
            fitted.partial_fit(part[fold[low:high] != k])
        q[fold == k] = fitted.predict_logs(logs)[fold == k]
    found = value_of(lazy, DirectMethod(), model, n_sample=None).value
    assert found == pytest.approx(np.average(q.mean(axis=1), weights=frame.weight))


every_model = pytest.mark.parametrize(
    "model", [None, Ridge(), SGD(random_state=0)], ids=str
)


@pytest.mark.few_cases(1)
@every_model
def test_workers_change_nothing(folder, model):
    lazy = scan_logs(folder, **ROLES)
    alone = value_of(lazy, DoublyRobust(), model, n_sample=None)
    with parallel_config("threading"):
        shared = value_of(lazy, DoublyRobust(), model, n_sample=None, n_jobs=2)
    assert shared.value == alone.value


@every_model
def test_an_unseen_action_gets_the_mean_of_the_fold(frame, tmp_path, model):
    fold, policy = HashKFold(5).fold_of(in_memory(frame)), ConstantPolicy(2)
    frame = frame.assign(action=np.where(fold == 1, 2, np.arange(N) % 2))
    lazy = scan_logs(write(frame, tmp_path), **ROLES, actions=[0, 1, 2])
    with pytest.warns(ModelErrorWarning, match=r"1 action.s. .*\[2\]") as caught:
        found = value_of(lazy, DirectMethod(), model, policy=policy, n_sample=None)
    assert len([one for one in caught if "action(s) have no" in str(one.message)]) == 1
    if model is None:  # in fold 1 the mean of all others: nobody took it
        seen, rest = (frame.reward[rows].mean() for rows in (fold == 1, fold != 1))
        expected = np.where(fold == 1, rest, seen)
        assert found.value == pytest.approx(expected.mean())
    logs = in_memory(frame, actions=[0, 1, 2])
    if not isinstance(model, SGD):
        agree(found, value_of(logs, DirectMethod(), model, HashKFold(5), policy))


class Unweighted(SGD):
    def fit(self, X, y):
        return super().fit(X, y)

    def partial_fit(self, X, y):
        return super().partial_fit(X, y)


def test_a_model_without_weights_warns_once(folder):
    lazy = scan_logs(folder, **ROLES, sample_weight="weight")
    model = Unweighted(random_state=0)
    with pytest.warns(ModelErrorWarning, match="ignores the weights") as caught:
        value_of(lazy, DoublyRobust(), model, n_sample=None)
    assert sum("ignores" in str(one.message) for one in caught) == 1
    nothing = lazy.filter(lambda f: f["x"] > 1e9)
    with pytest.raises(ValueError, match="there is no round in LazyLogs"):
        value_of(nothing, DoublyRobust())


@every_model
def test_few_groups(frame, tmp_path, model):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir(), two.mkdir()
    lazy = scan_logs(write(frame.assign(user=0), one), **ROLES, group="user")
    match = rf"all {N} rounds are in one fold of HashKFold\(\)"
    with pytest.raises(ValueError, match=match):
        value_of(lazy, DirectMethod(), model, n_sample=None)
    # of two groups three folds are empty
    fold = HashKFold(5).fold_of(np.zeros((9, 1)), np.arange(9))
    user = np.where(np.arange(N) < 99, 0, (fold != fold[0]).argmax())
    lazy = scan_logs(write(frame.assign(user=user), two), **ROLES, group="user")
    if not isinstance(model, SGD):
        logs = in_memory(frame.assign(user=user), group="user")
        found = value_of(lazy, DirectMethod(), model)
        agree(found, value_of(logs, DirectMethod(), model, 2))


def refuse(X):
    if np.asarray(X)[:, 0].max() > 250:
        raise ValueError("I do not know this")


class Bad(Ridge):
    def predict(self, X):
        refuse(X)
        return super().predict(X)


class Fails(SGD):
    def partial_fit(self, X, y):
        refuse(X)
        return super().partial_fit(X, y)


def test_an_error_of_a_model_names_the_file(folder):
    lazy, match = scan_logs(folder, **ROLES), r"1\.parquet, row group 0: .*not know th"
    with pytest.raises(ValueError, match=match):
        evaluate({"it": UniformPolicy()}, lazy, reward_model=Bad())
    with pytest.raises(ValueError, match=match):
        value_of(lazy, DoublyRobust(), Fails(), n_sample=None)


def test_columns_are_models_of_lazy_frames(frame):
    polars = pytest.importorskip("polars")
    names = [f"q{k}" for k in range(3)]
    total = frame[names].sum(axis=1)
    proba = {f"pi{k}": frame[f"q{k}"] / total for k in range(3)}
    frame = frame.assign(**proba).sort_values("action")  # the first rows lack actions
    columns = {"pi": list(proba), "q": names}
    lazy = scan_logs(polars.from_pandas(frame).lazy(), **ROLES, columns=columns)
    whole = {name: frame[some].to_numpy() for name, some in columns.items()}
    logs, given = in_memory(frame).with_columns(**whole), {"evaluators": "DoublyRobust"}
    found = evaluate("pi", lazy, reward_model="q", **given)["DoublyRobust"]
    agree(found, evaluate("pi", logs, reward_model="q", **given)["DoublyRobust"])
    match = r"reward model of DoublyRobust is None: .* rounds in memory"
    with pytest.raises(TypeError, match=match):
        evaluate("pi", lazy, **given)


def told(value):
    return value.diagnostics["model_rounds"], value.diagnostics["model_fitted_to"]


@pytest.mark.thorough
def test_diagnostics_say_what_models_were_fitted_to(folder, tmp_path):
    days = [scan_logs(folder / f"{k}.parquet", **ROLES) for k in (0, 1)]
    models = {"means": None, "ridge": Ridge(), "steps": SGD(random_state=0)}
    models["number"] = 0.5
    evaluators = {name: DoublyRobust(reward_model=one) for name, one in models.items()}
    evaluators["none"] = IPS()
    given = {"evaluators": evaluators, "by": "action"}
    policies = {"it": UniformPolicy()}
    first = summarize(policies, days[0], n_sample=100, **given)
    total = first + summarize(policies, days[1], n_sample=None, **given)
    total.save(tmp_path / "total.npz")
    for summary in (total, ValueSummary.load(tmp_path / "total.npz")):
        table = summary.values()
        assert told(table["it", "means"]) == (290, "all rounds")
        assert told(table["it", "ridge"]) == (190, "a random sample; all rounds")
        by_partial_fit = "a random sample; all rounds, by partial_fit"
        assert told(table["it", "steps"]) == (190, by_partial_fit)
        for name in ("number", "none"):
            assert "model_rounds" not in table["it", name].diagnostics
    part = total.values()["it", "means"].by("action")[0]
    assert told(part) == (290, "all rounds")
    value = DoublyRobust().fit(days[0]).evaluate(UniformPolicy())
    assert told(value) == (200, "all rounds")
    assert told(pickle.loads(pickle.dumps(value))) == told(value)


SLATES = {"slate": ["slot0", "slot1"], "reward": "reward", "n_candidates": 4}
SLATES |= {"context": NAMES, "logging_policy": UniformSlatePolicy(2)}
ADDITIVE = AdditiveSlateModel(LinearRegression(), max_iter=3)
OF_SLATES = [(SlateDoublyRobust(), ADDITIVE)]
OF_SLATES += [(SlateDirectMethod(n_samples=None), LinearRegression())]


@pytest.mark.few_cases(1)
@pytest.mark.parametrize(("evaluator", "model"), OF_SLATES)
def test_slates_have_the_values_of_memory(folder, frame, evaluator, model):
    lazy = scan_logs(folder, **SLATES, group="user")
    fields = {k: v for k, v in SLATES.items() if k not in ("slate", "context")}
    fields |= {"reward": frame.reward, "group": frame.user}
    logs = SlateLogs(frame[NAMES], frame[SLATES["slate"]].to_numpy(), **fields)
    policy = UniformSlatePolicy(2)
    found = value_of(lazy, evaluator, model, policy=policy)
    agree(found, value_of(logs, evaluator, model, HashKFold(5), policy))
