# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge, SGDRegressor
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPRegressor

from skope_ope import (
    IPS,
    MRDR,
    SNDR,
    ActionRewardModel,
    AdaptiveDR,
    BanditLogs,
    CascadeDR,
    DirectMethod,
    DoublyRobust,
    DRns,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateLogs,
    UniformPolicy,
)
from skope_ope.exceptions import ModelErrorWarning
from skope_ope.logs import HashKFold
from skope_ope.reward_models import AdditiveSlateModel, _part_fits
from skope_ope.reward_models._part_models import part_models, source_on
from skope_ope.reward_models._sources import reward_source
from tests.reward_models._parts import Parts, read_parts

N = 240
RNG = np.random.RandomState(0)
X = np.column_stack([np.arange(N), RNG.normal(size=N)])  # rounds know their number
ACTION = RNG.choice(list("abc"), N, p=[0.6, 0.3, 0.1])
P = np.array([0.6, 0.3, 0.1])[np.searchsorted(list("abc"), ACTION)]
REWARD = X[:, 1] + RNG.normal(size=N)
GROUP = RNG.randint(40, size=N)
WEIGHT = RNG.uniform(0, 2, size=N)
CUTS = [1, 50, 50, 187]  # one of one round, one of none
CV = HashKFold(3)


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


def logs_of(**fields):
    return BanditLogs(X, ACTION, REWARD, P, actions=list("abc"), **fields)


def slate_logs(weighted=False):
    rng = np.random.RandomState(1)
    slate = np.argsort(rng.uniform(size=(N, 4)), axis=1)[:, :2]
    logs = SlateLogs(X[:, 1:], slate, REWARD, n_candidates=4, group=GROUP)
    return logs.with_columns(sample_weight=WEIGHT) if weighted else logs


def new_logs():
    """30 other rounds."""
    rng = np.random.RandomState(5)
    return BanditLogs(rng.normal(size=(30, 2)), list("abc") * 10, rng.normal(size=30))


def source_of(model, lazy, cv=3, evaluator=None, **given):
    evaluator = DoublyRobust() if evaluator is None else evaluator
    return part_models({"it": evaluator}, model, cv, lazy, **given)["it"]


def by_parts(source, lazy):
    """Predictions for all rounds, partition by partition, in another process."""
    source = pickle.loads(pickle.dumps(source))
    return np.vstack(
        [source.bind(logs)(logs, 0) for _, logs in lazy.read() if logs is not None]
    )


def in_memory(model, logs, cv=CV):
    return reward_source(model, logs, cv).bind(logs)(logs, 0)


# -- the same predictions as in memory ----------------------------------------------

MODELS = [
    None,
    Ridge(),
    ActionRewardModel(Ridge(), "one_hot"),
    SGDRegressor(random_state=0),
    0.25,
    "q",
    FrozenEstimator(ActionRewardModel(Ridge()).fit(logs_of())),
]
FIELDS = {
    "plain": {},
    "groups": {"group": GROUP},
    "weights": {"sample_weight": WEIGHT},
    "weights in one fold": {"sample_weight": WEIGHT * (CV.fold_of(X) == 1)},
}


@pytest.fixture(autouse=True)
def parts_are_in_memory(monkeypatch):
    monkeypatch.setattr(_part_fits, "read_partitions", read_parts)


@pytest.mark.few_cases
@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("fields", FIELDS)
def test_rounds_are_predicted_as_in_memory(model, fields):
    logs = logs_of(**FIELDS[fields]).with_columns(q=RNG.normal(size=(N, 3)))
    for cuts in (CUTS, [], sorted(RNG.randint(N, size=9))):
        lazy = Parts(logs, cuts)
        found = by_parts(source_of(model, lazy), lazy)
        assert_allclose(found, in_memory(model, logs), rtol=1e-12, atol=1e-13)


def test_rows_of_a_log_keep_their_folds():
    logs = logs_of()[::3]  # positions 0, 3, 6, ... of what was built
    lazy = Parts(logs, [20])
    for model in (None, Ridge()):
        found = by_parts(source_of(model, lazy), lazy)
        assert_allclose(found, in_memory(model, logs), rtol=1e-12)


@pytest.mark.few_cases
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("evaluator", "model"),
    [
        (SlateDirectMethod(), None),
        (SlateDirectMethod(n_samples=None), LinearRegression()),
        (SlateDirectMethod(), AdditiveSlateModel()),
        (SlateDoublyRobust(), None),
        (SlateDoublyRobust(), 0.5),
        (SlateDoublyRobust(), AdditiveSlateModel(LinearRegression(), max_iter=3)),
    ],
)
def test_slates_are_predicted_as_in_memory(evaluator, model, weighted):
    logs = slate_logs(weighted)
    lazy = Parts(logs, CUTS)
    whole = evaluator.set_params(cv=CV)._fit_reward_model(logs, model)
    source = pickle.loads(pickle.dumps(source_of(model, lazy, 3, evaluator)))

    def call(model, rounds, rows):
        return model.predict(rounds, rounds.slate)

    found = np.concatenate(
        [source.predict(part, call) for _, part in lazy.read() if part is not None]
    )
    assert_allclose(found, whole.predict(logs, call), rtol=1e-12)


def test_drns_has_one_mean_for_all_actions():
    logs = logs_of(group=GROUP)
    lazy = Parts(logs, CUTS)
    found = by_parts(source_of(None, lazy, 3, DRns()), lazy)
    fold = CV.fold_of(logs)
    means = np.array([REWARD[fold != k].mean() for k in range(3)])
    assert_allclose(found, np.tile(means[fold][:, None], 3), rtol=1e-12)


def test_the_values_of_parts_are_those_of_memory():
    logs = logs_of()
    lazy = Parts(logs, CUTS)
    source = source_of(Ridge(), lazy)
    found = DoublyRobust().fit(logs, source).evaluate(UniformPolicy())
    whole = DoublyRobust(reward_model=Ridge(), cv=CV).fit(logs)
    whole = whole.evaluate(UniformPolicy())
    assert_allclose(found.round_values, whole.round_values, rtol=1e-12)


# -- nobody sees the reward of a round that he predicts -----------------------------


@pytest.mark.few_cases
@pytest.mark.parametrize("group", [None, GROUP])
@pytest.mark.parametrize("encoding", ["per_action", "one_hot"])
@pytest.mark.parametrize("way", ["sample", "all", "partial_fit"])
def test_no_model_sees_its_own_fold(way, encoding, group, monkeypatch):
    if way == "partial_fit":
        monkeypatch.setattr(_part_fits, "N_SAMPLE", N - 1)
    logs = logs_of(group=group)
    lazy = Parts(logs, CUTS)
    model = ActionRewardModel(Memory(), encoding)
    source = source_of(model, lazy, n_sample=99 if way == "sample" else "auto")
    known = by_parts(source, lazy)[np.arange(N), logs.action_index]
    assert_array_equal(known, 0.0)
    # while the models of the other folds have seen it, all of them or the sample
    fold = CV.fold_of(logs)
    learned = [
        float(
            source.models_[(fold[i] + 1) % 3].predict_logs(logs[[i]])[
                0, logs.action_index[i]
            ]
        )
        for i in range(N)
    ]
    assert sum(learned) == (99 if way == "sample" else N)


def test_the_rounds_of_a_group_are_in_one_fold():
    lazy = Parts(logs_of(group=GROUP), CUTS)
    source = source_of(None, lazy)
    folds = {}
    for _, logs in lazy.read():
        if logs is None:
            continue
        for label, k in zip(logs.group, source._folds(logs), strict=True):
            assert folds.setdefault(label, k) == k
    assert len(folds) == len(np.unique(GROUP))


# -- which rounds a model is fitted to ----------------------------------------------


@pytest.mark.few_cases
@pytest.mark.parametrize(
    ("model", "n_sample", "facts"),
    [
        (None, "auto", (N, "all rounds")),
        (None, 50, (N, "all rounds")),
        (Ridge(), "auto", (100, "a random sample")),
        (Ridge(), 60, (60, "a random sample")),
        (Ridge(), None, (N, "all rounds")),
        (Ridge(), N, (N, "all rounds")),
        (Ridge(), N + 1, (N, "all rounds")),
        (SGDRegressor(random_state=0), "auto", (N, "all rounds, by partial_fit")),
        (SGDRegressor(random_state=0), 60, (60, "a random sample")),
        (SGDRegressor(random_state=0), 1_000_000, (N, "all rounds")),
        (SGDRegressor(random_state=0), None, (N, "all rounds, by partial_fit")),
        (
            ActionRewardModel(MLPRegressor(hidden_layer_sizes=(2,)), "one_hot"),
            "auto",
            (N, "all rounds, by partial_fit"),
        ),
    ],
)
@pytest.mark.parametrize("counted", [True, False])
def test_what_a_model_is_fitted_to(model, n_sample, facts, counted, monkeypatch):
    monkeypatch.setattr(_part_fits, "N_SAMPLE", 100)
    lazy = Parts(logs_of(), CUTS, counted)
    source = source_of(model, lazy, n_sample=n_sample)
    if (n_sample, counted) == (N, False):  # nobody knows that there are no more
        facts = N, "a random sample"
    assert source.facts == {"model_rounds": facts[0], "model_fitted_to": facts[1]}


def test_the_sample_is_drawn_once_for_all_models():
    lazy = Parts(logs_of(), CUTS)
    lazy.n_samples = 0
    sample = lazy.sample

    def counting(*given, **more):
        lazy.n_samples += 1
        return sample(*given, **more)

    lazy.sample = counting
    evaluators = {
        "ridge": DoublyRobust(reward_model=Ridge()),
        "line": SNDR(reward_model=LinearRegression(), cv=4),
        "shared": SNDR(),
        "also shared": DirectMethod(),
        "means": DoublyRobust(cv=HashKFold(4)),
        "IPS": IPS(),
    }
    shared = Ridge(alpha=2.0)
    sources = part_models(evaluators, shared, None, lazy, n_sample=100)
    assert list(sources) == [name for name in evaluators if name != "IPS"]
    assert sources["shared"] is sources["also shared"] is not sources["ridge"]
    assert [source.cv.n_splits for source in sources.values()] == [5, 4, 5, 5, 4]
    assert lazy.n_samples == 1
    with_folds = part_models(evaluators, shared, 3, lazy, n_sample=100)
    assert [s.cv.n_splits for s in with_folds.values()] == [5, 4, 3, 3, 3]


def test_only_what_is_needed_is_read():
    lazy = Parts(logs_of().with_columns(other=np.zeros(N)), CUTS)
    source_of(None, lazy)
    assert lazy.asked == [(False, ())]
    lazy.asked.clear()
    source_of(Ridge(), lazy)
    assert lazy.asked == [(True, ())] * len(lazy.asked)


def test_another_seed_draws_another_sample():
    lazy = Parts(logs_of(), CUTS)
    first, same, other = (
        by_parts(source_of(Ridge(), lazy, n_sample=90, random_state=seed), lazy)
        for seed in (0, 0, 1)
    )
    assert_array_equal(first, same)
    assert (first != other).all()
    rng = np.random.RandomState(3)
    source = source_of(Ridge(), lazy, n_sample=90, random_state=rng)
    # drawn anew where other logs ask, and the same
    assert source._of_all.models_[0].coef_.tolist() == (
        pickle.loads(pickle.dumps(source))._of_all.models_[0].coef_.tolist()
    )


def test_models_learn_from_the_partitions_in_their_order():
    logs = logs_of(group=GROUP, sample_weight=WEIGHT)
    lazy = Parts(logs, CUTS)
    model = ActionRewardModel(SGDRegressor(random_state=0, eta0=1e-6))
    found = by_parts(source_of(model, lazy, n_sample=None), lazy)
    fold, expected = CV.fold_of(logs), np.empty((N, 3))
    for k in range(3):
        fitted = ActionRewardModel(SGDRegressor(random_state=0, eta0=1e-6))
        for _, part in lazy.read():
            if part is not None and (rows := CV.fold_of(part) != k).any():
                fitted.partial_fit(part[rows])
        expected[fold == k] = fitted.predict_logs(logs[fold == k])
    assert_array_equal(found, expected)


@pytest.mark.parametrize("model", [None, Ridge(), SGDRegressor(random_state=0)])
def test_workers_change_nothing(model):
    lazy = Parts(logs_of(), CUTS)
    alone = source_of(model, lazy, n_sample=None)
    assert source_of(model, lazy, n_sample=None, n_jobs=1).facts == alone.facts
    with parallel_config("threading"):
        shared = source_of(model, lazy, n_sample=None, n_jobs=2)
    assert_array_equal(by_parts(shared, lazy), by_parts(alone, lazy))
    assert list(shared.models_) == list(alone.models_)


# -- actions that a fold has not seen ------------------------------------------------


@pytest.mark.parametrize("model", [None, Ridge(), SGDRegressor(random_state=0)])
def test_an_unseen_action_gets_the_mean_of_the_fold(model):
    fold = CV.fold_of(X)
    action = np.where(fold == 1, "c", np.where(np.arange(N) % 2, "a", "b"))
    logs = BanditLogs(X, action, REWARD, actions=list("abcd"), sample_weight=WEIGHT)
    lazy = Parts(logs, CUTS)
    with pytest.warns(ModelErrorWarning, match=r"1 action.s. .*\['c'\]") as told:
        source = source_of(model, lazy, n_sample=None)
    assert len(told) == 1
    found, others = by_parts(source, lazy), fold != 1
    mean = np.average(REWARD[others], weights=WEIGHT[others])
    assert_allclose(found[fold == 1, 2], mean, rtol=1e-12)
    for k in range(3):  # nobody took d: no warning
        mean = np.average(REWARD[fold != k], weights=WEIGHT[fold != k])
        assert_allclose(found[fold == k, 3], mean, rtol=1e-12)


def test_a_model_without_weights_warns_once():
    class Unweighted(SGDRegressor):
        def fit(self, X, y):
            return super().fit(X, y)

        def partial_fit(self, X, y):
            return super().partial_fit(X, y)

    lazy = Parts(logs_of(sample_weight=WEIGHT), CUTS)
    with pytest.warns(ModelErrorWarning, match="ignores the weights") as told:
        source_of(Unweighted(random_state=0), lazy, n_sample=None)
    assert len(told) == 1


# -- other logs than those of fit ----------------------------------------------------


@pytest.mark.parametrize("model", [None, Ridge(), SGDRegressor(random_state=0)])
@pytest.mark.parametrize("group", [None, GROUP])
def test_other_logs_are_predicted_by_the_model_of_all_rounds(model, group):
    logs = logs_of(group=group)
    lazy = Parts(logs, CUTS)
    source = source_of(model, lazy)
    rng = np.random.RandomState(5)
    new = BanditLogs(
        rng.normal(size=(30, 2)), ["a", "b", "c"] * 10, rng.normal(size=30)
    )
    of_all = reward_source(model, logs, CV).bind(new)(new, 0)
    assert_allclose(source.bind(new)(new, 0), of_all, rtol=1e-12)
    other = Parts(new, [7], source="other")
    assert_allclose(by_parts(source_on(source, other), other), of_all, rtol=1e-12)


@pytest.mark.parametrize("model", [None, Ridge()])
@pytest.mark.parametrize("group", [None, GROUP])
def test_partitions_that_were_in_fit_are_predicted_out_of_fold(model, group):
    logs = logs_of(group=group)
    lazy = Parts(logs, CUTS)
    source = source_of(model, lazy)
    expected = by_parts(source, lazy)
    rng = np.random.RandomState(5)
    users = None if group is None else group[:30]
    fields = rng.normal(size=(30, 2)), ["a", "b", "c"] * 10, rng.normal(size=30)
    new = BanditLogs(*fields, group=users)
    # another scan: new rounds first, then two of the partitions in other places
    other = Parts(new, [12], source="new")
    last, third = lazy.partitions[4], lazy.partitions[1]
    start = 30
    for part in (last, third):
        moved = part.logs[:]
        moved.__dict__["_origin"] = other._origin
        moved.__dict__["_position"] = start + np.arange(len(moved))
        again = type(part)(moved, 0, start)
        again.key = part.key
        other.partitions += (again,)
        start += len(moved)
    found = by_parts(source_on(source, other), other)
    assert_allclose(found[30:], np.vstack([expected[187:], expected[1:50]]), rtol=1e-12)
    of_all = reward_source(model, logs, CV).bind(new)(new, 0)
    assert_allclose(found[:30], of_all, rtol=1e-12)


def test_common_partitions_without_a_place_are_refused():
    lazy = Parts(logs_of(), CUTS)
    other = Parts(logs_of(), [*CUTS])
    for part in other.partitions[2:]:
        part.start = None
    with pytest.raises(ValueError, match="log, part 0 was also in the logs of fit"):
        source_on(source_of(None, lazy), other)


def test_slates_of_other_logs():
    logs, new = slate_logs(), slate_logs()[:30].replace(reward=np.zeros(30))
    new.__dict__["_origin"] = "another"
    lazy, other = Parts(logs, CUTS), Parts(new, source="other")
    model = AdditiveSlateModel(LinearRegression(), max_iter=3)
    for evaluator, given in ((SlateDirectMethod(), None), (SlateDoublyRobust(), model)):
        source = source_on(source_of(given, lazy, 3, evaluator), other)

        def call(fitted, rounds, rows):
            return fitted.predict(rounds, rounds.slate)

        of_all = evaluator._fittable(given).fit(logs)
        expected = of_all.predict(new, new.slate)
        assert_allclose(source.predict(new, call), expected, rtol=1e-12)


def test_sources_of_fits_in_memory():
    logs = logs_of()
    lazy = Parts(logs, CUTS)
    with pytest.raises(ValueError, match="fitted to logs in memory"):
        source_on(reward_source(Ridge(), logs), lazy)
    number = reward_source(0.5, logs)
    assert source_on(number, lazy) is number


def test_a_source_stays_what_it_is():
    lazy = Parts(logs_of(), CUTS)
    source = source_of(Ridge(), lazy)
    assert source_of(source, lazy) is source_on(source, lazy) is source
    before = pickle.dumps(source)
    source.bind(logs_of())(logs_of(), 0)
    assert pickle.dumps(source) == before


# -- what cannot be ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("evaluator", "model", "cv", "error", "match"),
    [
        (
            DoublyRobust(),
            np.zeros((N, 3)),
            3,
            ValueError,
            r"array .* columns=\{'q_hat'",
        ),
        (MRDR(), Ridge(), 3, ValueError, "MRDR .* Use DoublyRobust, or load rounds"),
        (AdaptiveDR(), None, 3, ValueError, "AdaptiveDR .* FrozenEstimator"),
        (DoublyRobust(), None, KFold(5), TypeError, r"HashKFold\(5\).*got KFold"),
        (DoublyRobust(), None, [([0], [1])], TypeError, "HashKFold"),
        (DoublyRobust(), None, True, TypeError, "HashKFold"),
        (DoublyRobust(), None, 1, ValueError, "'n_splits' parameter of HashKFold"),
        (DoublyRobust(), None, "prefit", ValueError, "needs a fitted reward_model"),
        (DoublyRobust(), Ridge(), "prefit", NotFittedError, "not fitted"),
        (DoublyRobust(), Ridge(), "loo", ValueError, "cv must be 'prefit'"),
        (DoublyRobust(), "q", 3, ValueError, r"'q' is not a column .* scan_logs"),
        (DoublyRobust(), np.inf, 3, ValueError, "finite number"),
        (DoublyRobust(), Ridge, 3, TypeError, "make an instance"),
        (DoublyRobust(), UniformPolicy(), 3, TypeError, "is the policy UniformPolicy"),
        (DoublyRobust(reward_model=0.5), None, 3, None, None),
    ],
)
def test_what_is_refused_is_refused_before_anything_is_read(
    evaluator, model, cv, error, match
):
    lazy = Parts(logs_of(), CUTS)
    for part in lazy.partitions:
        part.read = None
    if error is None:
        source_of(model, lazy, cv, evaluator)
        return
    with pytest.raises(error, match=match):
        source_of(model, lazy, cv, evaluator)


def test_slates_refuse_in_parts():
    lazy = Parts(slate_logs(), CUTS)
    for evaluator, model, match in (
        (CascadeDR(), Ridge(), "CascadeDR .* use CascadeIPS"),
        (SlateDoublyRobust(), Ridge(), "AdditiveSlateModel"),
        (SlateDirectMethod(), np.zeros(N), "got ndarray"),
        (
            SlateDirectMethod(),
            Ridge(),
            "n_samples=20 slates are drawn .* n_samples=None",
        ),
    ):
        with pytest.raises((ValueError, TypeError), match=match):
            source_of(model, lazy, 3, evaluator)


@pytest.mark.parametrize("n_sample", [0, 1, 2.5, -3, "all", True, np.nan])
def test_sizes_of_the_sample(n_sample):
    with pytest.raises(ValueError, match="n_sample must be a number of rounds"):
        source_of(Ridge(), Parts(logs_of(), CUTS), n_sample=n_sample)


@pytest.mark.parametrize("model", [None, Ridge(), SGDRegressor()])
def test_rounds_of_one_group_cannot_be_held_out(model):
    lazy = Parts(logs_of(group=np.zeros(N, dtype=int)), CUTS)
    match = rf"all {N} rounds are in one fold of HashKFold\(n_splits=3\)"
    with pytest.raises(ValueError, match=match):
        source_of(model, lazy, n_sample=None)


@pytest.mark.parametrize("model", [None, Ridge(), SGDRegressor(random_state=0)])
def test_a_fold_may_be_empty(model):
    group = np.where(np.arange(N) < 99, 2, 8)
    fold = HashKFold(9).fold_of(X, group)
    assert fold[0] != fold[-1]
    lazy = Parts(logs_of(group=group), CUTS)
    found = by_parts(source_of(model, lazy, 9, n_sample=10**6), lazy)
    expected = in_memory(model, logs_of(group=group), 2)  # two folds of a group each
    assert_allclose(found, expected, rtol=1e-12)


def test_logs_without_rounds_are_refused():
    lazy = Parts(logs_of()[:0])
    with pytest.raises(ValueError, match="the logs are empty"):
        source_of(None, lazy)


def test_frames_take_what_needs_no_fit():
    lazy = Parts(logs_of().with_columns(q=np.zeros((N, 3))))
    lazy.partitions, lazy.frame = None, object()
    assert source_of(0.5, lazy).number == 0.5
    assert source_of("q", lazy).name == "q"
    with pytest.raises(TypeError, match=r"^DoublyRobust needs a reward model, which"):
        source_of(None, lazy)


class Fails(SGDRegressor):
    def partial_fit(self, X, y):
        if 100.0 in X[:, 0]:
            raise ValueError("round 100 is too much")
        return self


def test_an_error_of_a_model_names_the_partition():
    lazy = Parts(logs_of(), CUTS)
    match = "log, part 3: round 100 is too much"
    with pytest.raises(ValueError, match=match):
        source_of(Fails(), lazy, n_sample=None)
