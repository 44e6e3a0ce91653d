# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Work that is shared out: same results, and errors that say where they are from."""

import _thread
import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_array_equal
from sklearn import config_context, get_config
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

from skope_ope import (
    ActionRewardModel,
    BanditLogs,
    DirectMethod,
    FunctionPolicy,
    UniformPolicy,
    evaluate,
    scan_logs,
)
from skope_ope.exceptions import RowError

N = 60
LOGS = BanditLogs(
    np.arange(N)[:, None] / 1.0, np.arange(N) % 2, np.arange(N) % 3 / 2, np.full(N, 0.5)
)
THREADS = {"backend": "threading", "n_jobs": 2}


# -- models of folds ------------------------------------------------------------------
class Watched(Ridge):
    """Does something where the first round is left out: in the first of the folds."""

    def fit(self, X, y, sample_weight=None):
        self.act(first_fold=not (np.asarray(X)[:, 0] == 0).any())
        return super().fit(X, y, sample_weight)


class Warns(Watched):
    def act(self, first_fold):
        if first_fold:
            warnings.warn("three is odd", UserWarning, stacklevel=2)


class Fails(Watched):
    def act(self, first_fold):
        time.sleep(0.2 * first_fold)
        raise ValueError(f"after {0.2 * first_fold} s")


class PredictsItsProcess(Watched):
    def act(self, first_fold):
        self.process_ = os.getpid()

    def predict(self, X):
        return np.full(len(X), float(self.process_))


class HoldsALock(Watched):
    def act(self, first_fold):
        self.lock_ = threading.Lock()


def values_of(model):
    """Values of rounds by a model that is fitted once in every fold."""
    model = ActionRewardModel(model, encoding="one_hot")
    fitted = DirectMethod(reward_model=model, cv=KFold(5)).fit(LOGS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fitted.evaluate(UniformPolicy()).round_values


@pytest.mark.parametrize("engine", [{"n_jobs": 2}, THREADS])
def test_results_and_warnings_do_not_depend_on_the_workers(engine):
    with pytest.warns(UserWarning, match="three is odd") as told:
        alone = values_of(Warns())
    assert len(told) == 1
    with (
        parallel_config(**engine),
        pytest.warns(UserWarning, match="three is odd") as told,
    ):
        assert_array_equal(values_of(Warns()), alone)
    assert len(told) == 1


def test_processes_are_asked_for():
    assert set(values_of(PredictsItsProcess())) == {os.getpid()}
    with parallel_config(n_jobs=2):
        assert os.getpid() not in values_of(PredictsItsProcess())


@pytest.mark.parametrize("engine", [{}, {"n_jobs": 2}, THREADS])
def test_the_error_is_that_of_the_first_task_whoever_is_first_in_time(engine):
    with parallel_config(**engine), pytest.raises(ValueError, match=r"after 0\.2 s"):
        values_of(Fails())


# -- parts of files -------------------------------------------------------------------
class TwoWords(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


@pytest.fixture(scope="module")
def lazy(tmp_path_factory):
    """Five days of three row groups, of four rounds each."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder = tmp_path_factory.mktemp("days")
    columns = {"a": LOGS.action, "r": LOGS.reward, "x": LOGS.context[:, 0]}
    for day in range(5):
        rows = slice(12 * day, 12 * day + 12)
        table = pyarrow.table({name: values[rows] for name, values in columns.items()})
        parquet.write_table(table, folder / f"day{day}.parquet", row_group_size=4)
    roles = {"action": "a", "reward": "r", "context": ["x"], "propensity": 0.5}
    return scan_logs(folder, **roles, actions=[0, 1])


def ips(lazy, act, evaluators=("IPS",)):
    """Value by a policy that does something with the first round of a part."""

    def func(X):
        act(int(np.asarray(X)[0, 0]))
        return np.full((len(X), 2), 0.5)

    policy = FunctionPolicy(func).fit(lazy)
    return evaluate(policy, lazy, evaluators=evaluators)["IPS"]


@pytest.fixture(params=[{}, THREADS], ids=["alone", "threads"])
def engine(request):
    with parallel_config(**request.param):
        yield


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        *((kind("bad weights"), kind) for kind in (ValueError, TypeError, KeyError)),
        (FileNotFoundError(2, "bad weights"), FileNotFoundError),
        (RowError("bad weights", 3, ": drop it."), ValueError),
        (UnicodeDecodeError("a", b"", 0, 1, "bad weights"), UnicodeError),
        (TwoWords("bad weights", "here"), RuntimeError),
    ],
)
def test_errors_keep_their_type_and_name_the_part(lazy, engine, error, kind):
    def act(row):
        if row == 28:
            raise error

    with pytest.raises(kind) as told:
        ips(lazy, act)
    assert str(told.value).count("day2.parquet, row group 1: ") == 1
    assert "bad weights" in str(told.value)
    cause = told.value.__cause__  # where it came from
    assert (type(cause), str(cause)) == (type(error), str(error))


def test_the_first_part_that_fails_is_told_whoever_is_first_in_time(lazy, engine):
    def act(row):
        if row in (8, 36):
            time.sleep(0.2 * (row == 8))
            raise ValueError("late")

    with pytest.raises(ValueError, match=r"day0\.parquet, row group 2: late"):
        ips(lazy, act)


def test_parts_are_added_in_their_order(lazy):
    alone = ips(lazy, lambda row: None)
    with parallel_config(**THREADS):
        shared = ips(lazy, lambda row: time.sleep(0.01 * (row % 8 == 0)))
    assert shared.value == alone.value
    assert shared.standard_error == alone.standard_error


@pytest.fixture
def interruptible():
    """Ctrl-C raises, which runners of tests in several processes may turn off."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_errors_and_interrupts_end_the_rest(lazy, engine, interruptible, error):
    done = []

    def act(row):
        if row == 8 and error is KeyboardInterrupt:
            _thread.interrupt_main()
        elif row == 8:
            raise error("at once")
        time.sleep(0.05)
        done.append(row)

    with pytest.raises(error):
        ips(lazy, act)
    time.sleep(0.2)  # threads that were at work have seen it
    assert len(done) < 10


def test_settings_of_the_caller_hold_and_are_left_alone(lazy, engine):
    seen = []
    filters = list(warnings.filters)
    with config_context(assume_finite=True):
        ips(lazy, lambda row: seen.append(get_config()["assume_finite"]))
    assert seen and all(seen)
    assert warnings.filters == filters


def test_models_and_policies_that_cannot_travel_are_explained(lazy):
    lock = threading.Lock()
    match = r"cannot be sent to the workers.*lock.*n_jobs=1"
    for call in (lambda: values_of(HoldsALock()), lambda: ips(lazy, lambda row: lock)):
        with parallel_config(n_jobs=2), pytest.raises(TypeError, match=match):
            call()
    with parallel_config(**THREADS):
        assert len(values_of(HoldsALock())) == ips(lazy, lambda row: lock).n_rounds == N
