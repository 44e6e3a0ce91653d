# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import gzip

import pytest
from numpy.testing import assert_array_equal

from skope_ope import SlateLogs, UniformSlatePolicy
from skope_ope.datasets import fetch_open_bandit
from skope_ope.readers import read_open_bandit

HEADER = "timestamp,item_id,position,click,propensity_score,user_feature_0\n"
ROWS = (
    "2019-11-24 00:00:01+00:00,1,3,0,0.5,{}\n2019-11-24 00:00:02+00:00,0,1,1,0.5,old\n"
)


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
    left, right = (
        fetch_open_bandit(logger=logger, data_home=tmp_path)
        for logger in ("random", "bts")
    )
    assert left.n_features == right.n_features == 6
    alone = fetch_open_bandit(logger="bts", data_home=tmp_path, align=False)
    assert_array_equal(alone.context, read_open_bandit(path).context)


def test_the_environment_names_the_folder(tmp_path, monkeypatch):
    write(tmp_path, "random", campaign="women")
    monkeypatch.setenv("SKOPE_OPE_DATA", str(tmp_path))
    slates = fetch_open_bandit("women", as_slates=True)
    assert isinstance(slates, SlateLogs)


@pytest.mark.parametrize(
    ("logger", "policy"), [("random", "UniformSlatePolicy(n_slots=1)"), ("bts", "None")]
)
def test_slates_of_a_random_logger_have_its_policy(tmp_path, logger, policy):
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


def test_parameters_are_validated():
    with pytest.raises(ValueError, match=r"'campaign' parameter .* str among"):
        fetch_open_bandit("kids")
    with pytest.raises(ValueError, match="'logger' parameter"):
        fetch_open_bandit(logger="ucb")
