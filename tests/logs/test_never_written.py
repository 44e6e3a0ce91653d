# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Users' code may write to the rows it is handed: neither logs nor others see it."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import base
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope import (
    ActionRewardModel,
    AdaptiveDR,
    BanditLogs,
    ClassifierPolicy,
    DirectMethod,
    DoublyRobust,
    DRns,
    DRPolicy,
    EpsilonGreedy,
    FunctionPolicy,
    IPSPolicy,
    LinUCB,
    MixturePolicy,
    PlackettLuceSlatePolicy,
    PropensityEstimator,
    PseudoInverse,
    RankingPolicy,
    Replay,
    RewardModelPolicy,
    SlateDirectMethod,
    SlateIPS,
    SlateLogs,
    SoftmaxPolicy,
    UniformSlatePolicy,
    audit,
    compare_policies,
    evaluate,
    scan_logs,
)
from skope_ope.base import AdaptivePolicy, BaseLogTransformer, BasePolicy
from skope_ope.policies import (
    AdaptiveFunctionPolicy,
    BatchPolicy,
    EmpiricalSlatePolicy,
    OnlineClassifierPolicy,
    SampledSlatePolicy,
    SegmentedPolicy,
)
from skope_ope.reward_models import AdditiveSlateModel

pytestmark = pytest.mark.filterwarnings("ignore")
N, NAMES = 80, ["x0", "x1"]


def numbers():
    return np.random.default_rng(0).normal(size=(N, 2))


def pandas_frame(X):
    pd = pytest.importorskip("pandas")
    # a type of pandas' own: its arrays are shared by shallow copies
    return pd.DataFrame({"x0": X[:, 0], "x1": pd.array(X[:, 1], dtype="Float64")})


def polars_frame(X):
    return pytest.importorskip("polars").DataFrame(X, schema=NAMES)


CONTAINERS = {
    "array": np.array,
    "column order": np.asfortranarray,
    "csr": sparse.csr_matrix,
    "pandas": pandas_frame,
    "polars": polars_frame,
}


def content(X):
    """Every number that rows hold, byte for byte, and their names."""
    if sparse.issparse(X):
        return X.data.tobytes(), X.indices.tobytes(), X.indptr.tobytes()
    if isinstance(X, np.ndarray):
        return X.tobytes()
    columns = {str(name): np.asarray(X[name], dtype=float) for name in X.columns}
    return {name: values.tobytes() for name, values in columns.items()}


def first_feature(X):
    if isinstance(X, np.ndarray):
        return X[:, 0].copy()
    if sparse.issparse(X):
        return X[:, [0]].toarray()[:, 0]
    return np.array(X["x0"], dtype=float)


def spoil(X):
    """Write to rows in every way that is open."""
    if isinstance(X, np.ndarray):
        X[:] = 7.0
    elif sparse.issparse(X):
        X.data[:] = 7.0
        X.indices[:] = 0
    elif hasattr(X, "iloc"):
        X["x1"].array[:] = 7.0
        X.loc[:, "x0"] = 7.0
        X["ratio"] = 7.0
        X.drop(columns="x1", inplace=True)
    elif len(X):
        import polars

        X[0, "x0"] = 7.0
        X.insert_column(0, polars.Series("ratio", np.full(len(X), 7.0)))
        X.drop_in_place("x1")


class Writing(BaseEstimator):
    """What reads the first feature and, if it `writes`, spoils what it was handed."""

    def __init__(self, writes=False):
        self.writes = writes

    def __sklearn_is_fitted__(self):
        return True

    def seen(self, X):
        values = first_feature(X)
        if self.writes:
            spoil(X)
        return values

    def table(self, X):
        chance = 1 / (1 + np.exp(-self.seen(X)))
        return np.column_stack([1 - chance, chance])


class Rule(Writing, BasePolicy):
    classes_ = np.array([0, 1])

    def _proba(self, X, available):
        return self.table(X)

    def fit(self, X, y=None):
        return self


class ByHand:
    classes_ = np.array([0, 1])

    def __init__(self, writes):
        self.predict_proba = Writing(writes).table


class Labels:
    def __init__(self, writes):
        self.seen = Writing(writes).seen

    def predict(self, X):
        return (self.seen(X) > 0).astype(int)


class OfLogs(Rule):
    def logs_proba(self, logs):
        return self.table(logs.context)


class Alone(OfLogs):
    def logged_proba(self, logs):
        return self.table(logs.context)[np.arange(len(logs)), logs.action_index]

    def mass_on(self, logs, codes):
        return self.table(logs.context)[:, codes].sum(axis=1)


class Regressor(base.RegressorMixin, Writing):
    def fit(self, X, y, sample_weight=None):
        self.mean_, x = y.mean(), self.seen(X)
        self.slope_ = x @ y / (x @ x)
        if self.writes:
            y[:] = 7.0
        return self

    def predict(self, X):
        return self.mean_ + self.slope_ * self.seen(X)


class Classifier(base.ClassifierMixin, Writing):
    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.slope_ = self.seen(X) @ (y == self.classes_[-1])
        return self

    def predict_proba(self, X):
        chance = 1 / (1 + np.exp(-self.slope_ * self.seen(X) / 50))
        return np.column_stack([1 - chance, chance])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Features(base.TransformerMixin, Writing):
    def get_feature_names_out(self, input_features=None):
        return np.array(["scaled"])

    def fit(self, X, y=None):
        self.scale_ = np.abs(first_feature(X)).max()
        return self

    def transform(self, X):
        return self.seen(X)[:, None] / self.scale_


class Step(Writing, BaseLogTransformer):
    _parameter_constraints: dict = {}

    def _fit(self, logs):
        self.mean_ = self.seen(logs.context).mean()

    def _transform(self, logs):
        shift = self.seen(logs.context).mean() - self.mean_
        return logs.replace(propensity=np.full(len(logs), 0.5 + shift))


class Learner(Writing, AdaptivePolicy):
    def reset(self, logs):
        super().reset(logs)
        self.slope_ = 0.0

    def _proba(self, X, available):
        chance = 1 / (1 + np.exp(-self.slope_ * self.seen(X)))
        if self.writes and available is not None:
            available[:] = True
        return np.column_stack([1 - chance, chance])

    def update(self, X, action, reward, proba):
        self.slope_ += 0.1 * reward * (action - 0.5) * self.seen(X)[0]
        return True


class OfContext(Learner):
    def context_of(self, logs):
        X = logs.context
        kept = X.clone() if hasattr(X, "clone") else X.copy()
        self.seen(X)
        return kept


def labels(writes):
    return lambda X: (Writing(writes).seen(X) > 0).astype(int)


def scaled(writes, model):
    return make_pipeline(StandardScaler(copy=not writes, with_mean=False), model)


def one_hot(model):
    return ActionRewardModel(model, encoding="one_hot")


def values(policy, logs, **more):
    """Values of a policy, and of a well-behaved one after it."""
    table = evaluate({"a": policy, "b": Rule()}, logs, **more)
    return [value.value for value in table.values()]


def learned(policy, logs, **more):
    return values(clone(policy).fit(logs), logs, **more)


def modelled(model, logs, evaluator=DoublyRobust, policy=None):
    policy = Rule() if policy is None else policy
    return evaluator(reward_model=model).fit(logs).score(policy)


def frozen(writes, logs):
    return FrozenEstimator(ActionRewardModel(Regressor(writes)).fit(logs))


def replayed(policy, logs, evaluator=Replay):
    return evaluator(random_state=0).fit(logs).score(policy)


def adaptive(writes, logs):
    def logger(t, X):
        return 0.5 + 0 * Writing(writes).table(X)

    logs = logs.replace(logging_proba=np.full((N, 2), 0.5))
    evaluator = AdaptiveDR(weighting="cadr", logger=logger)
    return evaluator.fit(logs).score(Rule())


def judged(policy, logs):
    return [finding.check for finding in audit(policy, logs).findings]


def by_batch(writes, logs):
    logs = logs.replace(timestamp=np.arange(N))
    policy = BatchPolicy(Learner(writes), logs, every=N)
    return values(policy, logs)


# what asks the code of a user, and that code, as what is made of it
ASKED = {
    values: {
        "policy": Rule,
        "policy by hand": ByHand,
        "policy that predicts": Labels,
        "policy of logs": OfLogs,
        "policy of one action": Alone,
        "function": lambda w: FunctionPolicy(Writing(w).table),
        "mixture": lambda w: MixturePolicy([Rule(w), Rule()], [0.5, 0.5]),
    },
    modelled: {
        "regressor": Regressor,
        "regressor, one-hot": lambda w: one_hot(Regressor(w)),
        "linear, one-hot": lambda w: one_hot(scaled(w, Ridge())),
        "classifier of rewards": Classifier,
        "transformer": lambda w: make_pipeline(Features(w), Ridge()),
    },
    learned: {
        "ClassifierPolicy": lambda w: ClassifierPolicy(Classifier(w)),
        "IPSPolicy": lambda w: IPSPolicy(Classifier(w)),
        "DRPolicy": lambda w: DRPolicy(Classifier(w), reward_model=Regressor(w)),
        "RewardModelPolicy": lambda w: RewardModelPolicy(Regressor(w)),
        "SoftmaxPolicy": lambda w: SoftmaxPolicy(features=Features(w)),
    },
    replayed: {
        "learner": Learner,
        "learner of contexts": OfContext,
        "learning function": lambda w: AdaptiveFunctionPolicy(
            lambda X, history: Writing(w).table(X)
        ),
        "segments": lambda w: SegmentedPolicy(Learner(w), labels(w)),
        "segments of a mean": lambda w: SegmentedPolicy(EpsilonGreedy(), labels(w)),
        "classifier": lambda w: OnlineClassifierPolicy(scaled(w, LogisticRegression())),
        "LinUCB": lambda w: LinUCB(
            features=FrozenEstimator(Features(w).fit(numbers()))
        ),
    },
}
# what takes the logs and tells numbers, by the code of a user that it calls
CASES = {
    name: lambda w, logs, ask=ask, make=make: ask(make(w), logs)
    for ask, some in ASKED.items()
    for name, make in some.items()
}
CASES |= {
    "asked by the user": lambda w, logs: Rule(w).predict_proba(logs).tolist(),
    "comparison": lambda w, logs: (
        compare_policies({"a": Rule(w), "b": Rule()}, logs).differences["b"].value
    ),
    "audit": lambda w, logs: [judged(Rule(w), logs), judged(Rule(), logs)],
    "frozen learner": lambda w, logs: values(Learner(w).fit(logs).frozen(True), logs),
    "frozen model": lambda w, logs: modelled(frozen(w, logs), logs),
    "direct": lambda w, logs: modelled(Regressor(w), logs, DirectMethod, Learner(w)),
    "propensities": lambda w, logs: (
        PropensityEstimator(Classifier(w)).fit_transform(logs).propensity.tolist()
    ),
    "step": lambda w, logs: values(Rule(), Step(w).fit_transform(logs)),
    "learner in DRns": lambda w, logs: replayed(Learner(w), logs, DRns),
    "batches": by_batch,
    "logger": adaptive,
}


def make_logs(container, **more):
    """Logs, and the rows of the user that they hold."""
    X = numbers()
    rng = np.random.default_rng(1)
    action = rng.integers(0, 2, N)
    reward = (rng.random(N) < 1 / (1 + np.exp(-X[:, 0] * (2 * action - 1)))) * 1.0
    given = CONTAINERS[container](X)
    return BanditLogs(given, action, reward, np.full(N, 0.5), **more), given


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("case", CASES)
def test_what_users_code_writes_has_no_effect(case, container):
    found = {}
    for writes in (False, True):
        logs, given = make_logs(container)
        before = content(given), content(logs.context), logs.reward.tolist()
        found[writes] = CASES[case](writes, logs)
        assert (content(given), content(logs.context), logs.reward.tolist()) == before
    np.testing.assert_array_equal(found[True], found[False])


def files(frame, path):
    for day, part in enumerate(np.array_split(np.arange(N), 2)):
        frame.iloc[part].to_parquet(path / f"{day}.parquet")
    return path


def csv_file(frame, path):
    frame.to_csv(path / "log.csv", index=False)
    return path / "log.csv"


BOTH = ["policy", "policy by hand", "policy that predicts", "policy of logs"]
BOTH += ["function", "mixture", "comparison", "audit", "learner", "learner in DRns"]
# policies and models on lazy frames are columns or expressions, no code of users
LAZY_CASES = {name: CASES[name] for name in BOTH} | {
    "regressor": lambda w, logs: values(Rule(), logs, reward_model=Regressor(w))
}


@pytest.mark.parametrize("source", [files, csv_file])
@pytest.mark.parametrize("case", LAZY_CASES)
def test_parts_of_lazy_logs_are_not_written_to(case, source, tmp_path):
    pytest.importorskip("pyarrow")
    logs, given = make_logs("pandas")
    frame = given.astype(float)
    frame = frame.assign(action=logs.action, reward=logs.reward, propensity=0.5)
    roles = {name: name for name in ("action", "reward", "propensity")}
    lazy = scan_logs(source(frame, tmp_path), context=NAMES, **roles)
    found = [LAZY_CASES[case](writes, lazy) for writes in (False, True)]
    np.testing.assert_array_equal(found[1], found[0])


class ShowsFirst(Writing):
    """A slate policy by hand."""

    def slot_marginals(self, logs):
        table = np.zeros((len(logs), 1, 3))
        chance = self.table(logs.context)
        table[:, 0, :2] = chance
        return table

    def slate_proba(self, logs, slates):
        return self.slot_marginals(logs)[np.arange(len(logs)), 0, slates[:, 0]]

    def sample(self, logs, random_state):
        return (self.seen(logs.context) > 0).astype(int)[:, None]


def slate_weights(writes):
    return lambda logs: np.exp(np.outer(Writing(writes).seen(logs.context), [1, 2, 3]))


def direct(model, logs):
    return modelled(model, logs, SlateDirectMethod, UniformSlatePolicy(1))


def scored(policy, logs, evaluator=SlateIPS):
    return evaluator().fit(logs).score(policy)


def drawn(writes):
    return SampledSlatePolicy(ShowsFirst(writes), n_samples=2, random_state=0)


def shown_to(writes, logs):
    return EmpiricalSlatePolicy.seen_in(
        logs, by=lambda one: labels(writes)(one.context)
    )


def logged_by(writes, logs):
    return logs.replace(logging_policy=ShowsFirst(writes))


def additive(writes):
    return AdditiveSlateModel(LinearRegression(copy_X=not writes))


SLATE_CASES = {
    "by hand": lambda w, logs: scored(ShowsFirst(w), logs),
    "pseudo-inverse": lambda w, logs: scored(ShowsFirst(w), logs, PseudoInverse),
    "draws": lambda w, logs: scored(drawn(w), logs, PseudoInverse),
    "weights": lambda w, logs: scored(
        PlackettLuceSlatePolicy(slate_weights(w), 1), logs
    ),
    "logger": lambda w, logs: scored(UniformSlatePolicy(1), logged_by(w, logs)),
    "labels": lambda w, logs: shown_to(w, logs).slot_marginals(logs),
    "model": lambda w, logs: direct(Regressor(w), logs),
    "additive": lambda w, logs: direct(additive(w), logs),
    "ranker": lambda w, logs: (
        RankingPolicy(Regressor(w), 1).fit(logs).slot_marginals(logs)
    ),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("case", SLATE_CASES)
def test_what_is_written_to_slates_has_no_effect(case, container):
    X, rng, found = numbers(), np.random.default_rng(1), []
    slate = rng.integers(0, 2, (N, 1))
    reward = (rng.random((N, 1)) < 0.3 + 0.2 * slate) * 1.0
    features = rng.normal(size=(N, 3, 2))
    fields = {"n_candidates": 3, "slot_reward": reward, "item_features": features}
    fields["logging_policy"] = UniformSlatePolicy(1)
    for writes in (False, True):
        given = CONTAINERS[container](X)
        before = content(given), features.tobytes()
        logs = SlateLogs(given, slate, reward[:, 0], **fields)
        found.append(SLATE_CASES[case](writes, logs))
        assert (content(given), features.tobytes()) == before
        assert content(logs.context) == before[0]
    np.testing.assert_array_equal(found[1], found[0])
