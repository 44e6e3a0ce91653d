# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skope_ope import BanditLogs
from skope_ope.reward_models._design import design

X = np.array([[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]])
FEATURES = np.array([[10.0, 20.0], [30.0, 40.0], [50.0, 60.0]])
BY_ROUND = np.arange(18.0).reshape(3, 3, 2)
CODES = np.array([2, 0, 1])
LIBRARIES = ["pandas", "polars", "pyarrow"]


def logs_of(context=X, **fields):
    return BanditLogs(context, ["c", "a", "b"], np.ones(3), **fields)


def frame_of(library, names=("u", "v")):
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    return make({name: X[:, j] for j, name in enumerate(names)})


def column_of(frame, name):
    return np.asarray(frame[name]).tolist()


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize(
    ("encoding", "fields", "right"),
    [
        ("one_hot", {}, np.eye(3)[CODES]),
        ("action_context", {"action_context": FEATURES}, FEATURES[CODES]),
        ("action_context", {"action_context": BY_ROUND}, BY_ROUND[[0, 1, 2], CODES]),
    ],
    ids=["one_hot", "action_context", "by round"],
)
def test_arrays_are_joined(container, encoding, fields, right):
    logs = logs_of(container(X), **fields)
    out = design(logs, CODES, encoding)
    assert sparse.issparse(out) == sparse.issparse(logs.context)
    if sparse.issparse(out):
        assert out.format == "csr"
        out = out.toarray()
    assert_array_equal(out, np.hstack([X, right]))


def test_indicators_follow_the_given_order():
    logs = logs_of(actions=["z", "b", "a", "c"])
    out = design(logs, logs.action_index, "one_hot")
    assert_array_equal(out[:, 2:], [[0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]])


@pytest.mark.parametrize("library", LIBRARIES)
def test_frames_get_the_label_as_a_column(library):
    logs = logs_of(frame_of(library))
    out = design(logs, CODES, "one_hot")
    assert type(out) is type(logs.context)
    assert column_of(out, "action") == ["c", "a", "b"]
    assert column_of(out, "u") == X[:, 0].tolist()
    assert logs.context.shape == (3, 2)


@pytest.mark.parametrize("library", LIBRARIES)
def test_frames_get_the_features_of_the_action_as_columns(library):
    logs = logs_of(frame_of(library), action_context=FEATURES)
    out = design(logs, CODES, "action_context")
    assert out.shape == (3, 4)
    assert column_of(out, "action_context_0") == [50, 10, 30]
    assert column_of(out, "action_context_1") == [60, 20, 40]


def test_labels_keep_their_type_in_frames():
    frame = frame_of("pandas")
    for labels in ([7, 8, 9], [0.5, 1.5, 2.5], [True, False, True]):
        logs = BanditLogs(frame, labels, np.ones(3))
        out = design(logs, logs.action_index, "one_hot")
        assert out["action"].tolist() == labels
        assert out["action"].dtype == logs.actions.dtype


def test_rows_of_pandas_stay_together_whatever_the_index():
    frame = frame_of("pandas")
    frame.index = [5, 5, 0]
    out = design(logs_of(frame), CODES, "one_hot")
    assert out["action"].tolist() == ["c", "a", "b"]
    assert out.index.tolist() == [5, 5, 0]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_context_column_of_that_name_is_refused(library):
    logs = logs_of(frame_of(library, ("action", "v")))
    with pytest.raises(ValueError, match=r"already has a column 'action'.*Rename"):
        design(logs, CODES, "one_hot")
    logs = logs_of(
        frame_of(library, ("u", "action_context_1")), action_context=FEATURES
    )
    with pytest.raises(ValueError, match="already has a column 'action_context_1'"):
        design(logs, CODES, "action_context")


def test_features_of_actions_are_needed():
    with pytest.raises(ValueError, match=r"needs logs with action_context.*one_hot"):
        design(logs_of(), CODES, "action_context")
