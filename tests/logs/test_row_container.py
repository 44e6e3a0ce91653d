# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs travel through all of scikit-learn that splits, searches and stores."""

import pickle
import time
import tracemalloc
from copy import copy, deepcopy

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn import model_selection as ms
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing, indexable, resample, shuffle
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples

from skope_ope import (
    IPS,
    BanditLogs,
    DoublyRobust,
    PropensityClipper,
    SlateLogs,
    UniformPolicy,
)
from tests.logs._worlds import bandit_fields, slate_fields

N = 60
KINDS = ["array", "csr", "csc", "pandas", "polars", "pyarrow"]

# folds of sixty rounds overlap with little; that is not the point here
pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def context_of(kind, X):
    if kind in ("csr", "csc"):
        return sparse.csr_matrix(X).asformat(kind)
    if kind == "array":
        return X
    module = pytest.importorskip(kind)
    columns = {"number": X[:, 0], "size": X[:, 1]}
    if kind == "pandas":  # an index of its own must not matter
        return module.DataFrame(columns, index=np.arange(len(X))[::-1] * 7)
    return module.table(columns) if kind == "pyarrow" else module.DataFrame(columns)


def make_logs(kind="array", n=N):
    rng = np.random.RandomState(0)
    proba = 0.5 * rng.dirichlet(np.ones(3), n) + 0.5 / 3
    action = rng.randint(3, size=n)
    logs = BanditLogs(
        context_of(kind, np.column_stack([np.arange(n), rng.normal(size=n)])),
        np.array(["a", "b", "c"])[action],
        rng.random_sample(n),
        logging_proba=proba,
        logger=np.where(rng.random_sample(n) < 0.5, "old", "new"),
        available=np.ones((n, 3), dtype=bool),
        action_context=rng.normal(size=(n, 3, 2)),
        timestamp=np.arange(n),
        group=np.arange(n) % 7,
        sample_weight=1 + rng.random_sample(n),
        reward_range=(0, 1),
    )
    return logs.with_columns(pi=np.roll(proba, 1, axis=1), note=action)


@pytest.fixture(params=KINDS)
def logs(request):
    return make_logs(request.param)


def plain(values):
    """Rows as a numpy array, whatever they are kept in."""
    if sparse.issparse(values):
        return values.toarray()
    if type(values).__module__.startswith("pyarrow"):
        return values.to_pandas().to_numpy()
    return np.asarray(values)


def assert_is_part(part, logs, rows):
    """All row fields of `part` are rows `rows` of `logs`, the rest is carried."""
    assert type(part) is type(logs)
    assert len(part) == len(rows) == part.shape[0] == _num_samples(part)
    assert type(part.context) is type(logs.context)
    for name in logs._row_fields:
        found, expected = getattr(part, name), getattr(logs, name)
        if expected is None:
            assert found is None
            continue
        assert_array_equal(plain(found), plain(expected)[rows], err_msg=name)
    assert set(part.columns) == set(logs.columns)
    for name, values in logs.columns.items():
        assert_array_equal(part.columns[name], values[rows], err_msg=name)
    for name in logs._carried_fields:
        assert getattr(part, name) is getattr(logs, name)
    assert part.row_id.origin == logs.row_id.origin
    assert_array_equal(part.row_id.position, logs.row_id.position[rows])


ROWS = np.array([3, 0, 59, 3])
MASK = np.arange(N) % 4 == 1
KEYS = {
    "int array": (ROWS, ROWS),
    "int32 array": (ROWS.astype(np.int32), ROWS),
    "negative ints": (np.array([-1, 0, -60]), np.array([59, 0, 0])),
    "list": (ROWS.tolist(), ROWS),
    "tuple with ellipsis": ((ROWS, Ellipsis), ROWS),
    "slice with ellipsis": ((slice(2, 9), Ellipsis), np.arange(2, 9)),
    "slice": (slice(5, 40), np.arange(5, 40)),
    "slice with step": (slice(50, 2, -3), np.arange(50, 2, -3)),
    "open slice": (slice(None), np.arange(N)),
    "mask": (MASK, np.flatnonzero(MASK)),
    "mask as list": (MASK.tolist(), np.flatnonzero(MASK)),
    "empty mask": (np.zeros(N, dtype=bool), np.array([], dtype=int)),
    "empty list": ([], np.array([], dtype=int)),
    "empty slice": (slice(0), np.array([], dtype=int)),
    "int": (7, np.array([7])),
    "numpy int": (np.int64(-1), np.array([59])),
}


@pytest.mark.few_cases(32)
@pytest.mark.parametrize("name", KEYS)
def test_keys_select_rows(logs, name):
    key, rows = KEYS[name]
    assert_is_part(logs[key], logs, rows)
    if not isinstance(key, tuple):
        again = logs[::2][np.arange(30)[::-1]]
        assert_is_part(again, logs, np.arange(N)[::2][::-1])


@pytest.mark.parametrize(
    ("key", "error", "match"),
    [
        (60, IndexError, "row 60 is out of range: 60 rows"),
        ([0, -61], IndexError, "row -61 is out of range"),
        (np.ones(59, dtype=bool), IndexError, "mask has 59 entries.*60 rows"),
        ([[0, 1]], IndexError, "1-d key, got 2-d"),
        ([0.0, 1.0], IndexError, "integers or booleans, got float64"),
        ((0, 1), IndexError, "one key, got 2 keys"),
        ((0, Ellipsis, 1), IndexError, "one key, got 3 keys"),
        ("reward", TypeError, r"logs\.reward.*logs\.columns"),
    ],
    ids=str,
)
def test_wrong_keys_are_refused(key, error, match):
    with pytest.raises(error, match=match):
        make_logs()[key]


# -- how scikit-learn looks at them ---------------------------------------------------
def test_scikit_learn_indexes_logs(logs):
    for key, rows in (KEYS["int array"], KEYS["mask"], KEYS["slice"], KEYS["list"]):
        assert_is_part(_safe_indexing(logs, key), logs, rows)
    assert indexable(logs)[0] is logs
    assert _num_samples(logs) == len(logs) == N
    numbers = np.arange(N)
    part, rows = shuffle(logs, numbers, random_state=0)
    assert_is_part(part, logs, rows)
    assert_is_part(shuffle(logs, random_state=0), logs, rows)
    for options in ({}, {"n_samples": 20, "stratify": logs.action}):
        part, rows = resample(logs, numbers, random_state=0, **options)
        assert_is_part(part, logs, rows)
        assert len(set(rows)) < len(rows)  # rounds drawn twice keep their number
        assert_is_part(resample(logs, random_state=0, **options), logs, rows)
    for options in (
        {"random_state": 0},
        {"random_state": 0, "stratify": logs.action},
        {"shuffle": False},
    ):
        train, test, rows_train, rows_test = train_test_split(logs, numbers, **options)
        assert_is_part(train, logs, rows_train)
        assert_is_part(test, logs, rows_test)
        assert len(train) + len(test) == N


@pytest.mark.parametrize(
    "convert",
    [
        np.asarray,
        np.array,
        lambda logs: np.asarray(logs, dtype=float),
        lambda logs: StandardScaler().fit(logs),
        lambda logs: Ridge().fit(logs, logs.reward),
        lambda logs: make_pipeline(StandardScaler(), IPS()).fit(logs),
    ],
    ids=["asarray", "array", "as floats", "scaler", "Ridge", "scaler before IPS"],
)
def test_arrays_are_refused_quickly(logs, convert):
    start = time.perf_counter()
    with pytest.raises(TypeError, match="cannot be converted to an array"):
        convert(logs)
    assert time.perf_counter() - start < 1  # through __getitem__ it takes ten seconds


# -- splitters ------------------------------------------------------------------------
SPLITTERS = {  # and the fields that they ask for
    "KFold": (KFold(4), None, None),
    "KFold shuffled": (KFold(4, shuffle=True, random_state=0), None, None),
    "RepeatedKFold": (ms.RepeatedKFold(n_splits=3, n_repeats=2, random_state=0), 0, 0),
    "ShuffleSplit": (ms.ShuffleSplit(3, test_size=0.3, random_state=0), None, None),
    "TimeSeriesSplit": (ms.TimeSeriesSplit(4), None, None),
    "GroupKFold": (ms.GroupKFold(3), None, "group"),
    "GroupShuffleSplit": (ms.GroupShuffleSplit(2, random_state=0), None, "group"),
    "LeaveOneGroupOut": (ms.LeaveOneGroupOut(), None, "group"),
    "Stratified": (ms.StratifiedKFold(3), "action", None),
    "StratifiedShuffle": (ms.StratifiedShuffleSplit(2, random_state=0), "action", None),
    "StratifiedGroupKFold": (ms.StratifiedGroupKFold(3), "action", "group"),
    "PredefinedSplit": (ms.PredefinedSplit(np.arange(N) % 3), None, None),
}


@pytest.mark.few_cases(24)
@pytest.mark.parametrize("name", SPLITTERS)
def test_splitters(logs, name):
    splitter, y, groups = SPLITTERS[name]
    y, groups = (getattr(logs, f) if isinstance(f, str) else None for f in (y, groups))
    folds = list(splitter.split(logs, y, groups))
    assert len(folds) > 1
    for train, test in folds:
        assert not set(train) & set(test)
        assert_is_part(_safe_indexing(logs, train), logs, train)
        assert_is_part(_safe_indexing(logs, test), logs, test)


# -- validation and searches ----------------------------------------------------------
def value_of_uniform(evaluator, logs, y=None):
    """Score an evaluator; everything that arrives are logs."""
    if isinstance(evaluator, Pipeline):
        logs, evaluator = evaluator[:-1].transform(logs), evaluator[-1]
    assert type(logs) is BanditLogs
    assert type(evaluator.logs_) is BanditLogs
    assert logs.row_id.origin == evaluator.logs_.row_id.origin
    assert set(logs.columns) == {"pi", "note"}
    return evaluator.score(UniformPolicy(), logs)


class Recorder(BaseEstimator):
    """Keeps what `fit` and `predict` are given."""

    def fit(self, X, y=None):
        self.fitted_ = X
        return self

    def predict(self, X):
        assert type(X) is BanditLogs
        assert type(self.fitted_) is BanditLogs
        assert not set(X.row_id.position) & set(self.fitted_.row_id.position)
        return X.row_id.position


ROUTING = [False, True]


HOW = {"scoring": value_of_uniform, "error_score": "raise"}


@pytest.mark.few_cases(4)
@pytest.mark.parametrize("routing", ROUTING)
def test_cross_validate(logs, routing):
    returned = dict.fromkeys(("estimator", "train_score", "indices"), True)
    returned = {f"return_{name}": value for name, value in returned.items()}
    with config_context(enable_metadata_routing=routing):
        # params=None is a mistake of scikit-learn 1.6 with routing
        found = ms.cross_validate(
            IPS(), logs, cv=KFold(3), params={}, **HOW, **returned
        )
    assert np.isfinite(found["test_score"]).all()
    pairs = zip(found["estimator"], found["indices"]["train"], strict=True)
    for evaluator, train in pairs:
        assert_is_part(evaluator.logs_, logs, train)
    scores = [
        IPS().fit(logs[train]).score(UniformPolicy(), logs[test])
        for train, test in KFold(3).split(logs)
    ]
    assert_array_equal(found["test_score"], scores)


def test_cross_val_score_and_predict(logs):
    folds = list(ms.GroupKFold(3).split(logs, groups=logs.group))
    assert ms.cross_val_score(IPS(), logs, cv=folds, **HOW).shape == (3,)
    for y, cv in ((None, 4), (logs.action, ms.StratifiedKFold(3, shuffle=True))):
        rows = ms.cross_val_predict(Recorder(), logs, y, cv=cv)
        assert_array_equal(rows, np.arange(N))


def test_a_search_without_scoring_says_what_is_missing():
    # `score` is there once an evaluator is fitted: else scores would be NaN
    logs, piped = make_logs(), make_pipeline(PropensityClipper(0.1), IPS())
    for evaluator in (IPS(), piped, clone(IPS().fit(logs))):
        assert not hasattr(evaluator, "score")
        for ask in (ms.cross_validate, ms.cross_val_score):
            with pytest.raises(TypeError, match=r"(?s)no scoring is specified.*IPS"):
                ask(evaluator, logs, cv=3)
        for search in (ms.GridSearchCV, ms.RandomizedSearchCV):
            with pytest.raises(TypeError, match=r"(?s)no scoring is specified.*IPS"):
                search(evaluator, {}).fit(logs)
        assert 0 < clone(evaluator).fit(logs).score(UniformPolicy()) < 1
    with pytest.raises(TypeError, match=r"pass scoring=EvaluatorScorer\(policy\)"):
        ms.cross_validate(IPS().fit(logs), logs, cv=3, error_score="raise")
    with pytest.raises(NotFittedError, match="This IPS instance is not fitted"):
        IPS().score(UniformPolicy())


SEARCHES = {
    "grid": (ms.GridSearchCV, {}),
    "random": (ms.RandomizedSearchCV, {"n_iter": 2, "random_state": 0}),
    "halving": (
        ms.HalvingGridSearchCV,
        {"factor": 2, "min_resources": 20, "random_state": 0},
    ),
}


@pytest.mark.few_cases(2)
def test_searches(logs):
    assert_search_works(logs, "grid")


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("kind", [kind for kind in SEARCHES if kind != "grid"])
def test_other_searches_choose_rows_alike(kind):
    assert_search_works(make_logs("array"), kind)


def assert_search_works(logs, kind):
    search, more = SEARCHES[kind]
    grid = {"cmax": [None, 2.0], "reward_model__alpha": [0.1, 10.0]}
    evaluator = DoublyRobust(reward_model=Ridge(), cv=2)
    search = search(evaluator, grid, cv=KFold(2), **HOW, **more).fit(logs)
    best, scores = search.best_estimator_, search.cv_results_["mean_test_score"]
    if kind != "halving":
        assert_is_part(best.logs_, logs, np.arange(N))
    assert np.isfinite(scores).all()
    assert best.score("pi") == best.evaluate(best.logs_.columns["pi"]).value
    if not isinstance(logs.context, np.ndarray):
        return  # routing does not ask for the kind of the context
    with config_context(enable_metadata_routing=True):
        routed = clone(search).fit(logs)
    assert_array_equal(routed.cv_results_["mean_test_score"], scores)


@pytest.mark.few_cases(4)
@pytest.mark.parametrize("routing", ROUTING)
def test_pipeline_of_steps_from_logs_to_logs(logs, routing):
    with config_context(enable_metadata_routing=routing):
        pipeline = Pipeline([("clip", PropensityClipper(low=0.2)), ("value", IPS())])
        pipeline.fit(logs)
        clipped = pipeline[:-1].transform(logs)
        assert type(clipped) is BanditLogs
        assert clipped.context is logs.context
        assert clipped.row_id == logs.row_id
        expected = IPS().fit(clipped).score(UniformPolicy())
        assert pipeline.score(UniformPolicy()) == expected
        grid = {"clip__low": [0.0, 0.3], "value__cmax": [None, 2.0]}
        search = ms.GridSearchCV(pipeline, grid, cv=3, **HOW).fit(logs)
    assert set(search.best_params_) == {"clip__low", "value__cmax"}


# -- storage and processes ------------------------------------------------------------
@pytest.mark.parametrize(
    "through",
    [lambda x: pickle.loads(pickle.dumps(x)), copy, deepcopy],
    ids=["pickle", "copy", "deepcopy"],
)
def test_copies_are_the_same_rows(logs, through):
    for part, rows in ((logs, np.arange(N)), (logs[ROWS], ROWS)):
        again = through(part)
        assert type(again) is BanditLogs
        assert again.row_id == part.row_id
        assert_array_equal(plain(again.context), plain(part.context))
        for name in ("action", "reward", "propensity", "group", "action_context"):
            assert_array_equal(getattr(again, name), getattr(part, name))
        assert_array_equal(again.columns["pi"], logs.columns["pi"][rows])
        assert_array_equal(again[[1, 0]].reward, part.reward[[1, 0]])
        assert repr(again) == repr(part)


def in_a_worker(logs, rows):
    part = logs[rows]
    writeable = logs.reward.flags.writeable
    return part, writeable, IPS().fit(part).score(UniformPolicy())


@pytest.mark.few_cases(4)
@pytest.mark.parametrize(
    "backend", ["threading", pytest.param("loky", marks=pytest.mark.thorough)]
)
def test_processes(logs, backend):
    parts = [np.arange(0, 30), np.arange(30, N)]
    with parallel_config(backend=backend, max_nbytes=100):
        found = Parallel(n_jobs=2)(delayed(in_a_worker)(logs, rows) for rows in parts)
    for (part, writeable, score), rows in zip(found, parts, strict=True):
        assert type(part) is BanditLogs
        assert part.row_id == logs[rows].row_id
        assert_array_equal(part.reward, logs.reward[rows])
        assert writeable is False or backend != "threading"
        assert score == IPS().fit(logs[rows]).score(UniformPolicy())


# -- memory ---------------------------------------------------------------------------
FIELDS = {BanditLogs: bandit_fields, SlateLogs: slate_fields}  # as a caller holds them
MEMORY = pytest.mark.parametrize("cls", FIELDS)


def arrays_of(logs):
    fields = {name: getattr(logs, name) for name in vars(logs)} | logs.columns
    return {k: v for k, v in fields.items() if isinstance(v, np.ndarray)}


@MEMORY
def test_later_writes_to_one_dimension_change_nothing(cls):
    given = FIELDS[cls](n=4)
    note = np.arange(4.0)
    logs = cls(**given).with_columns(note=note)
    before = deepcopy(logs)
    new = {name: given[name].copy() for name in ("reward", "propensity", "timestamp")}
    replaced = logs.replace(**new)
    for values in (*given.values(), *new.values(), note):
        if isinstance(values, np.ndarray):
            assert values.flags.writeable
            if values.ndim == 1:
                values[:] = values[::-1].copy()
                values[0] = values[1]
    for name, values in arrays_of(before).items():
        if values.ndim == 1:
            assert_array_equal(arrays_of(logs)[name], values, err_msg=name)
            assert_array_equal(arrays_of(replaced)[name], values, err_msg=name)


@MEMORY
def test_tables_are_views(cls):
    given = FIELDS[cls](n=4)
    logs = cls(**given).with_columns(table=given["context"])
    for name, values in given.items():
        # indices have a type of their own
        if np.ndim(values) > 1 and name != "slate":
            assert np.shares_memory(getattr(logs, name), values), name
    assert np.shares_memory(logs.columns["table"], given["context"])
    given["context"][:] = 7.0  # later writes of the caller show through
    assert logs.context.min() == 7.0


@MEMORY
def test_no_array_of_logs_can_be_written_to(cls):
    logs = cls(**FIELDS[cls](n=4)).with_columns(table=np.zeros((4, 2)), note=np.ones(4))
    assert logs.n_groups > 1  # asked once
    pickled = pickle.loads(pickle.dumps(logs))
    for part in (logs, logs[1:], logs[[2, 0]], logs[logs.reward > 0.5], pickled):
        for some in (part, deepcopy(part), copy(part)):
            for name, values in arrays_of(some).items():
                assert not values.flags.writeable, name


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_sparse_contexts_are_read_only_views(layout):
    X = sparse.random(4, 9, 0.5, layout, random_state=0)
    logs = BanditLogs(X, [0, 1, 0, 1], np.ones(4))
    for context in (logs.context, logs[[2, 1]].context, logs[1:].context):
        for values in (context.data, context.indices, context.indptr):
            assert not values.flags.writeable
    assert X.data.flags.writeable and X.indices.flags.writeable
    assert np.shares_memory(logs.context.data, X.data) is (layout == "csr")
    X.data[:] = 7.0
    assert (logs.context.data == 7.0).all() == (layout == "csr")


def test_sparse_contexts_without_order_are_sorted_beside_the_caller():
    X = sparse.csr_array(([1.0, 2.0, 3.0], [2, 0, 0], [0, 2, 3]), shape=(2, 3))
    logs = BanditLogs(X, [0, 1], np.ones(2))
    assert logs.context.has_canonical_format
    assert type(logs.context) is type(X)
    assert_array_equal(logs.context.toarray(), [[2.0, 0, 1.0], [3.0, 0, 0]])
    assert X.indices.tolist() == [2, 0, 0]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_column_that_is_added_to_a_frame_is_not_in_the_logs(kind):
    frame = context_of(kind, np.zeros((4, 2)))
    logs = BanditLogs(frame, [0, 1, 0, 1], np.ones(4))
    if kind == "pandas":
        frame["more"] = 1.0
        logs.context["less"] = 1.0
    else:
        frame.insert_column(0, frame["size"].alias("more"))
        logs.context.insert_column(0, frame["size"].alias("less"))
    assert "more" not in logs.context.columns
    assert "less" not in frame.columns


def test_maps_of_files_stay_maps(tmp_path):
    def mapped(values, mode):
        np.save(tmp_path / f"{mode}{values.shape}.npy", values)
        return np.load(tmp_path / f"{mode}{values.shape}.npy", mmap_mode=mode)

    n = 50
    context, weight = mapped(np.ones((n, 3)), "r+"), mapped(np.ones(n), "r+")
    fields = {"reward": mapped(np.ones(n), "r"), "sample_weight": weight}
    fields["logging_proba"] = mapped(np.full((n, 2), 0.5), "r")
    logs = BanditLogs(context, np.arange(n) % 2, **fields)
    assert np.shares_memory(logs.context, context)
    for name in ("logging_proba", "reward"):  # nobody can write to them
        assert np.shares_memory(getattr(logs, name), fields[name])
    assert not np.shares_memory(logs.sample_weight, weight)
    weight[:] = 3.0
    assert logs.sample_weight.max() == 1.0
    assert context.flags.writeable


# -- row_id ---------------------------------------------------------------------------
def test_row_id_tells_origin_and_position():
    logs = make_logs()
    assert len(logs.row_id) == N
    assert logs.row_id == logs[:].row_id
    assert logs[[4, 2]].row_id == logs[::2][[2, 1]].row_id
    assert logs[[4, 2]].row_id != logs[[2, 4]].row_id
    assert logs.row_id != make_logs().row_id  # equal arrays, but built again
    more = logs.with_columns(more=np.zeros(N))
    for other in (more, logs.replace(sample_weight=None, propensity=np.ones(N))):
        assert other.row_id == logs.row_id
        assert other[5:7].row_id == logs[5:7].row_id
    assert logs.row_id != "row_id"
    text = f"RowId(origin={logs.row_id.origin[:8]!r}, n_rounds=60)"
    assert repr(logs.row_id) == text
    with pytest.raises(TypeError, match="unhashable"):
        hash(logs.row_id)


def test_what_was_asked_of_logs_changes_neither_pickles_nor_parts():
    logs, rows = make_logs(), np.arange(9)
    before = pickle.dumps(logs)
    asked = (logs._action_counts, logs._unseen, logs._logger_counts)
    assert logs.propensities_drift is False and len(asked) == 3
    assert pickle.dumps(logs) == before
    assert logs[rows] is not logs[rows]


# -- columns --------------------------------------------------------------------------
def test_columns_are_carried_and_replaced():
    logs, wide = make_logs(), np.zeros((N, 2, 3))
    more = logs.with_columns(wide=wide, note=np.ones(N))
    assert set(more.columns) == {"pi", "note", "wide"}
    assert more[2:5].columns["wide"].shape == (3, 2, 3)
    assert_array_equal(more.columns["note"], np.ones(N))
    assert set(logs.columns) == {"pi", "note"}  # those one started from are as before
    assert more.reward is logs.reward  # shared, not copied
    assert not any(values.flags.writeable for values in more.columns.values())
    assert wide.flags.writeable
    for columns, match in (
        ({"reward": np.zeros(N)}, "'reward' is a field of BanditLogs"),
        ({"actions": np.zeros(N)}, "'actions' is a field of BanditLogs"),
        ({"x": np.zeros(N - 1)}, r"'x' must have one entry per round \(60\).*\(59,\)"),
        ({"x": 1.0}, r"one entry per round \(60\), got shape \(\)"),
    ):
        with pytest.raises(ValueError, match=match):
            logs.with_columns(**columns)


# -- other containers -----------------------------------------------------------------


@pytest.mark.few_cases(3)
@pytest.mark.parametrize("kind", ["array", "csr", "pandas", "polars", "pyarrow"])
def test_rows_that_stand_one_after_the_other_are_not_copied(kind):
    n = 20_000
    X = np.random.default_rng(0).random((n, 50))
    context = sparse.csr_matrix(X) if kind == "csr" else X
    if kind in ("pandas", "polars", "pyarrow"):
        module = pytest.importorskip(kind)
        columns = {f"x{j}": column.copy() for j, column in enumerate(X.T)}
        make = module.table if kind == "pyarrow" else module.DataFrame
        context = make(columns)
        if kind == "pandas" and int(module.__version__.split(".")[0]) < 3:
            pytest.skip("frames share memory without copy-on-write")
    logs = BanditLogs(context, np.zeros(n, int), np.ones(n))
    logs[1:3]  # imports nothing later
    for key in (slice(10, 19_000), np.arange(10, 19_000), np.arange(n) >= 2):
        tracemalloc.start()
        part = logs[key]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < X.nbytes / 4
        rows = np.arange(n)[key]
        assert_array_equal(plain(part.context), X[rows])
        assert_array_equal(part.row_id.position, rows)
    if kind in ("array", "csr"):
        values = part.context.data if kind == "csr" else part.context
        assert not values.flags.writeable
