# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from skope_ope import BanditLogs, ClassifierPolicy, EpsilonGreedy, LinUCB, UniformPolicy
from skope_ope.logs._texts import Texts
from skope_ope.policies._policy_files import logs_on_columns, policy_on_columns
from skope_ope.readers._table_logs import LogFile

AGE = np.array([20.0, 60.0, 40.0])
CITY = Texts(np.array([0, 1, 0]), ["Rome", "Oslo"])


def source_of(features, extra=None):
    encoded = np.zeros((3, 7))  # policies must not look at it
    logs = BanditLogs(encoded, ["a", "b", "a"], [1.0, 0.0, 1.0], actions=["b", "a"])
    return LogFile(logs, "csv", features, extra or {})


def test_columns_in_their_order():
    policy = ClassifierPolicy(DecisionTreeClassifier()).fit(
        [[20.0], [60.0]], ["a", "b"]
    )
    proba = policy_on_columns(policy, source_of({"age": AGE}))
    np.testing.assert_array_equal(proba, [[0, 1], [1, 0], [0, 1]])


@pytest.mark.frames
def test_columns_by_name():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pandas.DataFrame({"city": ["Rome", "Oslo"], "age": [20, 60]})
    pipeline = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["city"]), ("passthrough", ["age"])),
        DecisionTreeClassifier(random_state=0),
    )
    policy = ClassifierPolicy(pipeline).fit(frame, ["a", "b"])
    extra = {("age", "feature"): AGE, ("city", "feature"): CITY}
    proba = policy_on_columns(policy, source_of({}, extra))
    assert proba.shape == (3, 2)
    np.testing.assert_array_equal(proba[:2], [[0, 1], [1, 0]])


def test_frames_need_pandas(monkeypatch):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [20, 60]})
    policy = ClassifierPolicy(LogisticRegression()).fit(frame, ["a", "b"])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        ImportError,
        match="needs pandas",
    ):
        policy_on_columns(policy, source_of({}, {("age", "feature"): AGE}))


def test_the_number_of_columns_is_checked():
    policy = ClassifierPolicy(LogisticRegression()).fit(np.eye(2), ["a", "b"])
    with pytest.raises(ValueError, match=r"on 2 numbers .* but 1 are named"):
        policy_on_columns(policy, source_of({"age": AGE}))
    with pytest.raises(ValueError, match="column 'city' holds texts"):
        policy_on_columns(policy, source_of({"age": AGE, "city": CITY}))


def test_policies_that_look_at_nothing_need_no_columns():
    policy = UniformPolicy().fit(np.zeros((2, 3)), ["a", "b"])
    proba = policy_on_columns(policy, source_of({}))
    np.testing.assert_array_equal(proba, np.full((3, 2), 0.5))


def test_arrays_and_logs_of_other_formats_pass_through():
    array = np.full((3, 2), 0.5)
    assert policy_on_columns(array, source_of({})) is array
    logs = source_of({}).logs
    policy = UniformPolicy()
    assert policy_on_columns(policy, LogFile(logs, "vw")) is policy


@pytest.mark.parametrize("thing", [LogisticRegression(), {"p": 1}, LogisticRegression])
def test_other_things_are_refused(thing):
    with pytest.raises(TypeError, match=r"policy|class"):
        policy_on_columns(thing, source_of({"age": AGE}))


def test_a_policy_that_learns_acts_on_the_columns_as_they_are():
    source = source_of({"age": AGE})
    logs = logs_on_columns(LinUCB(), source)
    np.testing.assert_array_equal(logs.context, AGE[:, None])
    np.testing.assert_array_equal(logs.actions, ["b", "a"])
    np.testing.assert_array_equal(logs.reward, source.logs.reward)
    # who looks at no context needs none of them
    assert logs_on_columns(EpsilonGreedy(), source) is source.logs
    known = LogFile(source.logs, "vw")
    assert logs_on_columns(LinUCB(), known) is source.logs


@pytest.mark.frames
def test_a_policy_that_learns_sees_texts_in_a_frame():
    pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    logs = logs_on_columns(LinUCB(), source_of({"age": AGE, "city": CITY}))
    assert logs.context["city"].tolist() == ["Rome", "Oslo", "Rome"]
