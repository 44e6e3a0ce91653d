# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Real sets: of scikit-learn, from files and folders."""

import gzip

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn import datasets

from skope_ope import SlateLogs, UniformSlatePolicy
from skope_ope.datasets import (
    fetch_open_bandit,
    load_classification,
    load_ranking,
    make_logs_from_classification,
)
from skope_ope.readers import read_open_bandit

SHAPES = {"ecoli": (336, 7, 8), "glass": (214, 9, 6), "letter": (20_000, 16, 26)}
SHAPES |= {"optdigits": (5620, 64, 10), "page_blocks": (5473, 10, 5)}
SHAPES |= {"pendigits": (10_992, 16, 10), "satimage": (6435, 36, 6)}
SHAPES |= {"vehicle": (846, 18, 4), "yeast": (1484, 8, 10)}


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


def test_a_file(table, monkeypatch):
    assert load_classification().data.shape == (1797, 64)  # digits are the default
    home = table("b,label,a,class\n1,2,0.5,two\n3,0,-1e3,zero\n\n5,2,7,two\n")
    data = load_classification("toy", data_home=home)
    assert_array_equal(data.data, [[1, 0.5], [3, -1000], [5, 7]])
    assert_array_equal(data.target, [2, 0, 2])
    assert data.target.dtype.kind == "i"
    assert_array_equal(data.target_names, ["zero", "two"])
    assert data.feature_names == ["b", "a"]
    again = load_classification("uci_toy", data_home=str(home))
    assert_array_equal(again.data, data.data)
    home = table("x,label\n1,3\n2,1\n")  # without names of classes
    monkeypatch.setenv("SKOPE_OPE_DATA", str(home))
    assert_array_equal(load_classification("toy").target_names, ["1", "3"])


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


def test_files_that_are_no_sets(table, tmp_path):
    for text, match in (
        ("", "lacks the column"),
        ("x,y\n1,2\n", r"lacks the column \"label\".*'x', 'y'"),
        ("x,label\n", "no rows"),
        ("x,label\n1,0\nblue,1\n", "row 2 .*blue"),
        ("x,label\n1,zero\n", "row 1 .*zero"),
        ("x,label\n1,0\n1\n", "row 2 .*1 entries for 2 columns"),
        ("x,label\n1,0,4\n", "row 1 .*3 entries for 2 columns"),
    ):
        with pytest.raises(ValueError, match=match):
            load_classification("toy", data_home=table(text))
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
    X, y = data.data, data.target
    assert X.shape == (n, d)
    assert_array_equal(np.unique(y), np.arange(n_classes))
    assert len(data.target_names) == n_classes
    assert np.isfinite(X).all()
    logs, rewards = make_logs_from_classification(X, y, random_state=0)
    assert_array_equal(rewards.sum(axis=0), np.bincount(y))
    assert logs.n_actions == n_classes


# Rankings


def test_dense_and_sparse_files(tmp_path, monkeypatch):
    monkeypatch.delenv("SKOPE_OPE_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="pass data_home, or set"):
        load_ranking("one")
    X, y, qid = np.eye(3), np.array([0, 1, 2]), np.array([1, 1, 2])
    np.savez(tmp_path / "ltr_one.npz", X=X, y=y, qid=qid, feature_names=[*"abc"])
    S = sparse.csr_matrix(X)
    parts = {"X_data": S.data.astype(np.uint8), "X_indices": S.indices}
    parts |= {"X_indptr": S.indptr, "X_shape": S.shape}
    np.savez(tmp_path / "ltr_two.npz", y=y, qid=qid, **parts)
    data = load_ranking("one", data_home=tmp_path)
    assert_array_equal(data.data, X)
    assert data.feature_names == [*"abc"]
    monkeypatch.setenv("SKOPE_OPE_DATA", str(tmp_path))
    data, target, query = load_ranking("two", return_X_y=True)
    assert_array_equal(data.toarray(), X)
    assert_array_equal(target, y)
    assert_array_equal(query, qid)
    with pytest.raises(FileNotFoundError, match=r"Sets found in .*: one, two"):
        load_ranking("three")


def test_real_rankings(data_dir):
    cranfield = load_ranking("cranfield", data_home=data_dir)
    assert cranfield.data.shape == (11_250, 23)
    assert len(np.unique(cranfield.qid)) == 225
    X, y, qid = load_ranking("lightgbm_rank_train", data_home=data_dir, return_X_y=True)
    assert X.shape == (3005, 301)
    assert y.max() == 4
    assert len(np.unique(qid)) == 201


# Open Bandit
HEADER = "timestamp,item_id,position,click,propensity_score,user_feature_0\n"
ROWS = "2019-11-24 00:00:01+00:00,1,3,0,0.5,{}\n"
ROWS += "2019-11-24 00:00:02+00:00,0,1,1,0.5,old\n"


def write(folder, logger, user="young", campaign="men", packed=False):
    path = folder / logger / campaign / f"{campaign}.csv{'.gz' * packed}"
    path.parent.mkdir(parents=True)
    text = (HEADER + ROWS.format(user)).encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    return path


@pytest.mark.parametrize("inner", ["", "obd", "open_bandit_dataset", "obp/dataset/obd"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_log_is_found(tmp_path, inner, packed):
    path = write(tmp_path / inner, "random", packed=packed)
    logs = fetch_open_bandit("men", data_home=tmp_path)
    assert_array_equal(logs.context, read_open_bandit(path).context)
    assert logs.reward.tolist() == [0, 1]


def test_both_loggers_have_the_same_columns(tmp_path):
    write(tmp_path, "random", "young")
    path = write(tmp_path, "bts", "ancient")
    for logger in ("random", "bts"):
        assert fetch_open_bandit(logger=logger, data_home=tmp_path).n_features == 6
    alone = fetch_open_bandit(logger="bts", data_home=tmp_path, align=False)
    assert_array_equal(alone.context, read_open_bandit(path).context)


def test_the_environment_names_the_open_bandit_folder(tmp_path, monkeypatch):
    write(tmp_path, "random", campaign="women")
    monkeypatch.setenv("SKOPE_OPE_DATA", str(tmp_path))
    slates = fetch_open_bandit("women", as_slates=True)
    assert isinstance(slates, SlateLogs)


def test_slates_of_a_random_logger_have_its_policy(tmp_path):
    for logger, policy in ("random", "UniformSlatePolicy(n_slots=1)"), ("bts", "None"):
        write(tmp_path, logger)
        logs = fetch_open_bandit(logger=logger, data_home=tmp_path, as_slates=True)
        assert repr(logs.logging_policy) == policy
        assert logs.columns["position"].tolist() == [3, 1]
        assert_array_equal(UniformSlatePolicy(1).slate_proba(logs), logs.propensity)


def test_a_flat_folder(data_dir):
    logs = fetch_open_bandit("men", logger="bts", data_home=data_dir)
    assert len(logs) == 10_000
    assert logs.action_context is not None


def test_missing_data_are_explained(tmp_path, monkeypatch):
    monkeypatch.delenv("SKOPE_OPE_DATA", raising=False)
    with pytest.raises(FileNotFoundError) as found:
        fetch_open_bandit()
    for words in (
        "pass data_home, or set SKOPE_OPE_DATA",
        "Nothing is downloaded",
        "licence Apache-2.0",
        "git clone --depth 1 https://github.com/st-tech/zr-obp",
        "https://research.zozo.com/data.html",
        "arXiv:2008.07146",
    ):
        assert words in str(found.value)
    with pytest.raises(FileNotFoundError, match=r"holds no bts/all/all\.csv"):
        fetch_open_bandit("all", logger="bts", data_home=tmp_path)
    with pytest.raises(ValueError, match=r"'campaign' parameter .* str among"):
        fetch_open_bandit("kids")
    with pytest.raises(ValueError, match="'logger' parameter"):
        fetch_open_bandit(logger="ucb")
