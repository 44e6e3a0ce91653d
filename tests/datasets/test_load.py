# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import gzip

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn import datasets

from skope_ope.datasets import load_classification, make_logs_from_classification

SHAPES = {
    "ecoli": (336, 7, 8),
    "glass": (214, 9, 6),
    "letter": (20_000, 16, 26),
    "optdigits": (5620, 64, 10),
    "page_blocks": (5473, 10, 5),
    "pendigits": (10_992, 16, 10),
    "satimage": (6435, 36, 6),
    "vehicle": (846, 18, 4),
    "yeast": (1484, 8, 10),
}


@pytest.fixture
def table(tmp_path):
    """Write a table as the set "toy" and return its folder."""

    def write(text):
        path = tmp_path / "uci_toy.csv.gz"
        path.write_bytes(gzip.compress(text.encode()))
        return tmp_path

    return write


@pytest.mark.parametrize("name", ["digits", "wine", "breast_cancer", "iris"])
def test_sets_of_scikit_learn(name):
    expected = getattr(datasets, f"load_{name}")()
    data = load_classification(name)
    assert_array_equal(data.data, expected.data)
    assert_array_equal(data.target, expected.target)
    assert_array_equal(data.target_names, expected.target_names)
    assert len(data.feature_names) == data.data.shape[1]
    X, y = load_classification(name, return_X_y=True)
    assert_array_equal(X, expected.data)
    assert_array_equal(y, expected.target)


def test_digits_are_the_default():
    assert load_classification().data.shape == (1797, 64)


def test_a_file(table):
    home = table("b,label,a,class\n1,2,0.5,two\n3,0,-1e3,zero\n\n5,2,7,two\n")
    data = load_classification("toy", data_home=home)
    assert_array_equal(data.data, [[1, 0.5], [3, -1000], [5, 7]])
    assert_array_equal(data.target, [2, 0, 2])
    assert data.target.dtype.kind == "i"
    assert_array_equal(data.target_names, ["zero", "two"])
    assert data.feature_names == ["b", "a"]
    again = load_classification("uci_toy", data_home=str(home))
    assert_array_equal(again.data, data.data)


def test_a_file_without_names_of_classes(table):
    home = table("x,label\n1,3\n2,1\n")
    data = load_classification("toy", data_home=home)
    assert_array_equal(data.target_names, ["1", "3"])


def test_the_environment_names_the_folder(table, monkeypatch):
    home = table("x,label\n1,3\n2,1\n")
    monkeypatch.setenv("SKOPE_OPE_DATA", str(home))
    assert load_classification("toy").data.shape == (2, 1)


def test_unknown_names(table, monkeypatch):
    monkeypatch.delenv("SKOPE_OPE_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"digits.*SKOPE_OPE_DATA"):
        load_classification("letters")
    home = table("x,label\n1,3\n")
    with pytest.raises(FileNotFoundError, match=r"uci_letters.*: toy;.*wine"):
        load_classification("letters", data_home=home)
    with pytest.raises(FileNotFoundError, match="none"):
        load_classification("letters", data_home=home / "nowhere")
    with pytest.raises(TypeError, match="name must be a string, got int"):
        load_classification(3)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "lacks the column"),
        ("x,y\n1,2\n", r"lacks the column \"label\".*'x', 'y'"),
        ("x,label\n", "no rows"),
        ("x,label\n1,0\nblue,1\n", "row 2 .*blue"),
        ("x,label\n1,zero\n", "row 1 .*zero"),
        ("x,label\n1,0\n1\n", "row 2 .*1 entries for 2 columns"),
        ("x,label\n1,0,4\n", "row 1 .*3 entries for 2 columns"),
    ],
)
def test_files_that_are_no_sets(table, text, match):
    with pytest.raises(ValueError, match=match):
        load_classification("toy", data_home=table(text))


def test_damaged_files(tmp_path):
    path = tmp_path / "uci_toy.csv.gz"
    whole = gzip.compress(b"x,label\n" + b"1,0\n" * 1000)
    for damaged in (whole[: len(whole) // 2], b"x,label\n1,0\n", b"\x1f\x8b"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"uci_toy.*cannot be read.*again"):
            load_classification("toy", data_home=tmp_path)
    path.write_bytes(gzip.compress(b"\xff\xfe,label\n"))
    with pytest.raises(ValueError, match="cannot be read"):
        load_classification("toy", data_home=tmp_path)


@pytest.mark.parametrize("name", SHAPES)
def test_real_files(name, data_dir):
    n, d, n_classes = SHAPES[name]
    data = load_classification(name, data_home=data_dir)
    assert data.data.shape == (n, d)
    assert_array_equal(np.unique(data.target), np.arange(n_classes))
    assert len(data.target_names) == n_classes
    assert np.isfinite(data.data).all()
    logs, rewards = make_logs_from_classification(
        data.data, data.target, random_state=0
    )
    assert_array_equal(rewards.sum(axis=0), np.bincount(data.target))
    assert logs.n_actions == n_classes
