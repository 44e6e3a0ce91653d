# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import os
import pickle
import sys

import joblib
import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from skope_ope import ClassifierPolicy, FunctionPolicy, IPSPolicy, UniformPolicy
from skope_ope.datasets import make_bandit_logs
from skope_ope.policies._policy_files import load_policy, read_policy_table
from tests._learned_share import learned_share

ACTIONS = np.array(["a", "b"])


@pytest.fixture(scope="module")
def policy():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    return ClassifierPolicy(LogisticRegression(), epsilon=0.2).fit(X, list("aabb"))


class Touch:
    """An object whose pickle creates a file when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("dump", [joblib.dump, lambda p, f: f.write(pickle.dumps(p))])
def test_pickles_are_loaded_on_trust_only(policy, tmp_path, dump):
    path = tmp_path / "policy.pkl"
    with open(path, "wb") as file:
        dump(policy, file)
    with pytest.raises(PermissionError, match="loading a pickle runs the code in it"):
        load_policy(path)
    loaded = load_policy(path, trust=True)
    np.testing.assert_array_equal(
        loaded.predict_proba([[0.5]]), policy.predict_proba([[0.5]])
    )


def test_nothing_of_a_pickle_runs_without_trust(tmp_path):
    path, mark = tmp_path / "policy.pkl", tmp_path / "mark"
    path.write_bytes(pickle.dumps(Touch(mark)))
    with pytest.raises(PermissionError):
        load_policy(path)
    assert not mark.exists()
    load_policy(path, trust=True)
    assert mark.exists()


@pytest.mark.thorough
def test_skops_files_of_known_types_need_no_trust(policy, tmp_path):
    io = pytest.importorskip("skops.io")
    path = tmp_path / "policy.skops"
    io.dump(policy, path)
    loaded = load_policy(path)
    np.testing.assert_array_equal(
        loaded.predict_proba([[0.5]]), policy.predict_proba([[0.5]])
    )


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("kind", [ClassifierPolicy, IPSPolicy])
def test_what_policies_have_learned_from_comes_along(kind, tmp_path):
    io = pytest.importorskip("skops.io")
    path = tmp_path / "policy.skops"
    logs = make_bandit_logs(100, random_state=0)
    io.dump(kind(DummyClassifier()).fit(logs[:75]), path)
    policy = load_policy(path)
    for other in (logs, make_bandit_logs(100, random_state=0)):
        assert learned_share(policy, other) == 0.75


def test_unknown_types_in_skops_files_need_trust(tmp_path):
    io = pytest.importorskip("skops.io")
    path = tmp_path / "policy.skops"
    io.dump(FunctionPolicy(os.getcwd), path)
    with pytest.raises(PermissionError, match=r"not known to be safe: .*getcwd.*--tru"):
        load_policy(path)
    assert isinstance(load_policy(path, trust=True), FunctionPolicy)


@pytest.mark.parametrize("content", [b"", b"not a pickle", b"\x80\x04\x95"])
def test_files_that_are_no_pickle(tmp_path, content):
    path = tmp_path / "policy.pkl"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"policy\.pkl cannot be unpickled"):
        load_policy(path, trust=True)


def test_a_damaged_pickle(policy, tmp_path):
    path = tmp_path / "policy.pkl"
    path.write_bytes(pickle.dumps(policy)[:-20])
    with pytest.raises(ValueError, match="cannot be unpickled"):
        load_policy(path, trust=True)


def test_files_that_are_no_skops_file(tmp_path):
    pytest.importorskip("skops")
    path = tmp_path / "policy.skops"
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"policy\.skops cannot be read by skops"):
        load_policy(path)


def test_missing_files_and_packages(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"policy\.pkl: no such file"):
        load_policy(tmp_path / "policy.pkl")
    with pytest.raises(FileNotFoundError, match="is a folder"):
        load_policy(tmp_path)
    path = tmp_path / "policy.skops"
    path.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "skops", None)
    with pytest.raises(ImportError, match="needs skops: pip install skops"):
        load_policy(path)


@pytest.fixture
def table(tmp_path):
    def write(text):
        path = tmp_path / "table.csv"
        path.write_text(text)
        return path

    return write


def test_a_table_without_context(table):
    path = table("action,probability,n\nb,0.25,7\na,0.75,8\n")
    np.testing.assert_array_equal(read_policy_table(path, ACTIONS), [0.75, 0.25])
    path = table("action,whatever\na,1\n")
    np.testing.assert_array_equal(read_policy_table(path, ACTIONS), [1, 0])


def test_a_table_by_the_value_of_a_column(table):
    path = table("item,alpha,prob_1,prob_2\n1,9,0.5,1\n0,8,0.5,0\n")
    proba = read_policy_table(path, np.array([0, 1]), np.array([2, 1, 2]))
    np.testing.assert_array_equal(proba, [[0, 1], [0.5, 0.5], [0, 1]])
    path = table("item,phone,web\na,0.5,1\nb,0.5,0\n")
    proba = read_policy_table(path, ACTIONS, np.array(["web", "phone"]))
    np.testing.assert_array_equal(proba, [[1, 0], [0.5, 0.5]])


def test_rounded_probabilities_are_made_to_sum_to_one(table):
    path = table("item,p\n0,0.3333\n1,0.3333\n2,0.3333\n")
    proba = read_policy_table(path, np.arange(3))
    assert proba.sum() == pytest.approx(1, abs=1e-15)
    path = table("item,p\n0,0.33\n1,0.33\n2,0.33\n")  # 0.99 by two digits
    assert read_policy_table(path, np.arange(3)) == pytest.approx(np.full(3, 1 / 3))


def test_labels_may_be_numbers_in_one_of_the_files(table):
    path = table("item,p\n1,0.5\nx,0.5\n")
    with pytest.raises(ValueError, match="to action 'x', which the log does not have"):
        read_policy_table(path, np.array([1, 2]))
    path = table("item,p\n1,1\nx,0\n")
    np.testing.assert_array_equal(read_policy_table(path, np.array([1, 2])), [1, 0])


@pytest.mark.parametrize(
    ("text", "by", "message"),
    [
        ("", None, "is empty"),
        ("item,p\n", None, "is empty"),
        ("item,p\na,1,2\n", None, "line 2: 3 cells under 2 column names"),
        ("item,p\na,0.5\na,0.5\n", None, "an action occurs twice"),
        ("item,p,q\na,1,1\n", None, "'item', 'p', 'q': call the one with the probab"),
        ("item,p\na,x\n", None, "line 2: column 'p' is 'x', expected a probability"),
        ("item,p\na,0_1.0\n", None, "'p' is '0_1.0', expected a probability"),
        ("item,p\na,-1\n", None, "line 2: column 'p' is '-1'"),
        ("item,p\na,0.5\nb,0.4\n", None, "column 'p' sums to 0.9 over the actions"),
        ("item,p\na,0.5\nc,0.5\n", None, "line 3: .* name all actions with --actions"),
        (
            "item,p_1\na,1\n",
            [1, 2],
            "no such column. .* must be called 2, or end in '_2'",
        ),
        ("item,p_1,q_1\na,1,1\n", [1], "2 such columns"),
    ],
)
def test_bad_tables(table, text, by, message):
    by = None if by is None else np.array(by)
    with pytest.raises(ValueError, match=message):
        read_policy_table(table(text), ACTIONS, by)


def test_uniform_policies_need_no_trust_either(tmp_path):
    io = pytest.importorskip("skops.io")
    io.dump(UniformPolicy(), tmp_path / "u.skops")
    assert isinstance(load_policy(tmp_path / "u.skops"), UniformPolicy)
