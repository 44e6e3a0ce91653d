# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import gc
import pickle
import threading

import numpy as np
import pytest
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold

from skope_ope import BanditLogs, DRos, EvaluatorScorer
from skope_ope.logs import _shelf
from skope_ope.logs._shelf import (
    Identity,
    Shelf,
    any_shelf,
    find_rows,
    give_shelf,
    has_room,
    in_stored_order,
)
from tests.selection._logs import problem


@pytest.fixture
def logs():
    return BanditLogs(np.arange(20.0)[:, None], [0, 1] * 10, np.ones(20), [0.5] * 20)


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    gc.collect()
    assert not _shelf._rows_of
    yield
    gc.collect()
    assert not _shelf._rows_of


def test_rows_with_a_shelf_are_found_again(logs):
    rows, same = np.arange(5, 10), np.arange(5, 10)
    part = logs[rows]
    assert give_shelf(part) is give_shelf(part) is part._shelf
    assert logs[rows] is logs[same] is logs[same.tolist()] is logs[rows, ...] is part
    assert logs[5:10] is not part
    assert logs[rows[::-1]] is not part
    assert logs[rows[:4]] is not part


def test_a_shelf_lives_as_long_as_the_row_numbers(logs):
    rows = np.arange(5)
    part = logs[rows]
    part_shelf = give_shelf(part)
    part_shelf.put("key", np.zeros(3), 24)
    assert any_shelf(logs._contents)
    del rows
    assert part._shelf is None and not any_shelf(logs._contents)


def test_nothing_tells_how_long_to_keep_it(logs):
    assert give_shelf(logs) is None
    assert give_shelf(logs[:5]) is None
    assert give_shelf(logs[[0, 1, 2]]) is None
    assert give_shelf(logs[np.arange(3)]) is None


def test_other_contents_are_other_rows(logs):
    rows = np.arange(5)
    part = logs[rows]
    give_shelf(part)
    for other in (
        logs.replace(reward=np.zeros(20)),
        logs.replace(propensity=logs.propensity),
        logs.with_columns(extra=np.zeros(20)),
        pickle.loads(pickle.dumps(logs)).replace(reward=np.zeros(20)),
        BanditLogs(logs.context, logs.action, logs.reward, logs.propensity),
    ):
        assert other[rows] is not part
        assert other[rows]._shelf is None
    # the same rows in another process are the same
    assert pickle.loads(pickle.dumps(logs))[rows] is part


def test_shelves_stay_at_home(logs):
    rows = np.arange(5)
    part = logs[rows]
    give_shelf(part)
    copy = pickle.loads(pickle.dumps(part))
    assert copy._shelf is None and copy._taken_by is None
    assert copy.row_id == part.row_id
    assert part.replace(reward=part.reward)._shelf is None


def test_values_are_made_once(logs):
    shelf, made = Shelf(100), []

    def make():
        made.append(1)
        return "value"

    threads = [threading.Thread(target=shelf.get, args=("a", make)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1] and shelf.get("a", make) == "value" and "a" in shelf
    shelf.put("a", "other", 5)
    assert shelf.get("a", make) == "value" and shelf.n_bytes == 100
    shelf.put("b", "other", 5)
    assert shelf.n_bytes == 105


def test_budget(logs, monkeypatch):
    rows, more = np.arange(10), np.arange(10, 20)
    shelf = give_shelf(logs[rows])
    size = shelf.n_bytes
    assert size >= 10 * (8 + 8 + 8 + 8)
    monkeypatch.setattr(_shelf, "BUDGET", size + 10)
    assert has_room(10) and not has_room(11)
    assert give_shelf(logs[more]) is None
    assert give_shelf(logs[rows]) is shelf  # what is there stays


def test_searches_go_on_without_room(monkeypatch):
    logs, policy = problem()
    search = GridSearchCV(
        DRos(reward_model=Ridge(), cv=2),
        {"lam": [1.0, 10.0]},
        scoring=EvaluatorScorer(policy),
        cv=3,
    )
    expected = search.fit(logs).cv_results_["mean_test_score"]
    part = logs[np.arange(200)]
    rows_only = 3 * sum(_shelf._size(part[:n]) for n in (200, 100))
    for budget in (0, 1 << 14, rows_only, rows_only + (1 << 13)):
        monkeypatch.setattr(_shelf, "BUDGET", budget)
        found = search.fit(logs).cv_results_["mean_test_score"]
        np.testing.assert_array_equal(found, expected)


def test_nothing_is_kept_after_a_search():
    logs, policy = problem()
    search = GridSearchCV(
        DRos(cv=2), {"lam": [1.0, 10.0]}, scoring=EvaluatorScorer(policy), cv=3
    ).fit(logs)
    assert not _shelf._rows_of  # while the search and its scorer are still here
    assert search.best_estimator_.logs_ is logs


def test_nothing_is_kept_without_the_scorer():
    logs, policy = problem()
    folds = list(KFold(3).split(logs))  # they outlive the search
    search = GridSearchCV(
        DRos(cv=2), {"lam": [1.0, 10.0]}, scoring=EvaluatorScorer(policy), cv=folds
    ).fit(logs)
    assert len(_shelf._rows_of[logs._contents]) == 6
    del search
    gc.collect()
    assert not _shelf._rows_of


def test_workers_make_room_for_other_logs(logs, monkeypatch):
    class Worker:
        name = "LokyProcess-1"

    rows, again = np.arange(5), np.arange(5)
    monkeypatch.setattr(_shelf.multiprocessing, "current_process", lambda: Worker)
    part = logs[rows]
    give_shelf(part)
    del rows
    assert logs[again] is part  # for the next task
    other = logs.replace(reward=np.zeros(20))
    part_of_other = other[again]
    give_shelf(part_of_other)
    assert part._shelf is None and not any_shelf(logs._contents)
    for contents in list(_shelf._rows_of):
        for name in list(_shelf._rows_of[contents]):
            _shelf._release(contents, name)


def test_stored_order(logs):
    rows = np.array([3, 1, 2])
    part = logs[rows]
    assert not part._in_order and logs[np.sort(rows)]._in_order and logs[2:]._in_order
    ordered = in_stored_order(part)
    assert ordered.row_id.position.tolist() == [1, 2, 3]
    assert in_stored_order(part) is not ordered
    assert in_stored_order(ordered) is ordered
    shelf = give_shelf(part)
    ordered, before = in_stored_order(part), shelf.n_bytes
    assert in_stored_order(part) is ordered
    ordered._shelf.put("model", 1, 7)  # what lies on its shelf counts
    assert shelf.n_bytes == before + 7
    permuted = logs[np.arange(20)[::-1]]
    assert permuted[np.arange(5)]._in_order
    assert not permuted.with_columns(a=np.zeros(20))._in_order


def test_find_rows_compares_positions(logs):
    rows = np.arange(5)
    part = logs[rows]
    give_shelf(part)
    assert find_rows(logs._contents, np.arange(5)) is part
    assert find_rows(logs._contents, np.arange(1, 6)) is None
    assert find_rows("other", np.arange(5)) is None


def test_sizes_of_fields():
    X = sparse.random(30, 4, density=0.5, format="csr", random_state=0)
    logs = BanditLogs(X, [0, 1] * 15, np.ones(30), [0.5] * 30)
    assert _shelf._size(logs) > X.data.nbytes
    pd = pytest.importorskip("pandas")
    logs = BanditLogs(pd.DataFrame({"a": range(30)}), [0, 1] * 15, np.ones(30))
    assert _shelf._size(logs) > 30 * 8


def test_folds_of_a_search_over_a_part(logs):
    part = logs[np.arange(4, 20)]
    [(train, _), *_] = KFold(2).split(part)
    inner = part[train]
    give_shelf(inner)
    assert part[train] is inner and logs[train] is not inner


def test_identity_changes_with_a_fit():
    model, identity = Ridge(), Identity()
    token = identity.token(model, None)
    assert identity.token(model, None) == token
    model.fit([[0.0], [1.0]], [0.0, 1.0])
    fitted = identity.token(model, None)
    assert fitted != token
    assert identity.token(Ridge(), None) != fitted
    assert Identity("known").token(model) == "known"


@pytest.mark.parametrize(
    "holder",
    [
        lambda model: [{"inside": (model,)}],
        FrozenEstimator,
        lambda model: GridSearchCV(model, {}),
    ],
)
def test_identity_changes_with_a_fit_deep_inside(holder):
    model, identity = Ridge(), Identity()
    outer = holder(model)
    token = identity.token(outer)
    model.fit([[0.0], [1.0]], [0.0, 1.0])
    fitted = identity.token(outer)
    assert fitted != token and identity.token(outer) == fitted
    model.set_params(alpha=2.0)
    assert identity.token(outer) != fitted


def test_long_containers_are_not_looked_into():
    words = {str(k): k for k in range(5000)}
    assert len(_shelf.parts_of(({"vocabulary": words},))) == 2


def test_identity_of_what_holds_itself():
    ring = []
    ring.append(ring)
    identity = Identity()
    assert identity.token(ring) == identity.token(ring)
