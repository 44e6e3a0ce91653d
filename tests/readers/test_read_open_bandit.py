# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import gzip
import shutil
import sys
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import PseudoInverse, SlateIPS, SlateLogs, UniformSlatePolicy
from skope_ope.readers import read_open_bandit

HEADER = (
    ",timestamp,item_id,position,click,propensity_score,user_feature_0,"
    "user-item_affinity_0,user-item_affinity_1,user-item_affinity_2"
)
ROWS = [
    "0,2019-11-24 00:00:01+00:00,1,3,0,0.5,young,0,2,0",
    "1,2019-11-24 00:00:02+00:00,0,1,1,0.25,old,1,0,0",
]
ITEMS = [
    ",item_id,item_feature_0,item_feature_1",
    "0,2,-0.5,shoes",
    "1,0,1.5,shirts",
    "2,1,0.25,shoes",
]
FEATURES = [[1.5, 1, 0], [0.25, 0, 1], [-0.5, 0, 1]]


@pytest.fixture(autouse=True, params=["what is installed", "neither"])
def engine(request, monkeypatch):
    if request.param == "neither":
        monkeypatch.setitem(sys.modules, "pyarrow", None)


def text(*lines):
    return "\n".join(lines) + "\n"


@pytest.fixture
def campaign(tmp_path):
    folder = tmp_path / "obd" / "random" / "men"
    folder.mkdir(parents=True)
    (folder / "men.csv").write_text(text(HEADER, *ROWS))
    (folder / "item_context.csv").write_text(text(*ITEMS))
    return folder


def test_rounds_and_slates_of_one_slot(campaign):
    logs = read_open_bandit(campaign / "men.csv")
    assert_array_equal(logs.actions, [0, 1, 2])
    assert_array_equal(logs.action, [1, 0])
    assert_array_equal(logs.reward, [0.0, 1.0])
    assert_array_equal(logs.propensity, [0.5, 0.25])
    assert logs.reward_range == (0.0, 1.0)
    assert str(logs.timestamp[1]) == "2019-11-24T00:00:02.000000"
    assert_array_equal(
        logs.context, [[0, 0, 1, 0, 1, 0, 2, 0], [1, 0, 0, 1, 0, 1, 0, 0]]
    )
    assert_array_equal(logs.action_context, FEATURES)
    assert_array_equal(logs.columns["position"], [3, 1])
    # slates of one slot
    logs = read_open_bandit(campaign, as_slates=True)
    same = read_open_bandit(campaign)
    assert isinstance(logs, SlateLogs)
    assert_array_equal(logs.slate, [[1], [0]])
    assert logs.n_candidates == 3
    assert_array_equal(logs.slot_reward, [[0.0], [1.0]])
    assert_array_equal(logs.item_features, FEATURES)
    for field in ("context", "reward", "propensity", "timestamp", "reward_range"):
        assert_array_equal(getattr(logs, field), getattr(same, field))
    assert_array_equal(logs.columns["position"], [3, 1])


@pytest.mark.parametrize("share", ["0.33333334", "0.5"])
def test_the_probability_of_the_shown_item_is_known(campaign, share):
    rows = [row.replace("0.5", share).replace("0.25", share) for row in ROWS]
    (campaign / "men.csv").write_text(text(HEADER, *rows))
    logs = read_open_bandit(campaign, as_slates=True)
    assert logs.logging_policy is None
    target = np.array([[1], [1]])
    assert SlateIPS().fit(logs).evaluate(target).value == 0
    with pytest.raises(ValueError, match=r"Pass logging_policy=.* or logs\.replace"):
        PseudoInverse().fit(logs)
    known = logs.replace(logging_policy=UniformSlatePolicy(1))
    assert_array_equal(known.columns["position"], [3, 1])
    assert PseudoInverse().fit(known).evaluate(target).value == 0


def test_folders_and_parts_of_the_context(campaign):
    logs = read_open_bandit(str(campaign))
    assert_array_equal(logs.action, [1, 0])
    packed = gzip.compress((campaign / "men.csv").read_bytes())
    (campaign / "men.csv").unlink()
    (campaign / "men.csv.gz").write_bytes(packed)
    assert_array_equal(read_open_bandit(campaign).action, [1, 0])
    with pytest.raises(ValueError, match=r"is a folder without random\.csv\. Name"):
        read_open_bandit(campaign.parent)
    # parts of the context
    assert read_open_bandit(campaign, affinity=False).context.shape == (2, 5)
    assert read_open_bandit(campaign, user_features=False).context.shape == (2, 6)
    bare = read_open_bandit(campaign, user_features=False, affinity=False)
    assert_array_equal(bare.context, [[0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize(
    "name", ["item_context.csv", "men_item_context.csv", "men_item_context.csv.gz"]
)
def test_items_are_looked_for_beside_the_log(campaign, name):
    (campaign / "item_context.csv").unlink()
    assert read_open_bandit(campaign).action_context is None
    data = text(*ITEMS).encode()
    (campaign / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert_array_equal(read_open_bandit(campaign).action_context, FEATURES)


def test_items_may_be_named(campaign, tmp_path):
    other = tmp_path / "items.csv"
    other.write_text(text("item_id,item_feature_0", "0,4", "1,5", "2,6"))
    logs = read_open_bandit(campaign, item_context=other)
    assert_array_equal(logs.action_context, [[4], [5], [6]])
    assert logs.n_actions == 3
    (campaign / "item_context.csv").unlink()
    assert read_open_bandit(campaign, affinity=False).n_actions == 3
    (campaign / "men.csv").write_text(
        text(*(",".join(line.split(",")[:7]) for line in (HEADER, *ROWS)))
    )
    assert read_open_bandit(campaign).n_actions == 2
    other.write_text(text("item_id,item_feature_0", "0,4", "1,5", "2,6", "3,7"))
    assert read_open_bandit(campaign, item_context=other).n_actions == 4


def test_logs_that_are_read_with_each_other_share_columns(campaign, tmp_path):
    other = tmp_path / "bts.csv"
    other.write_text(text(HEADER, ROWS[0].replace("young", "middle"), ROWS[1]))
    assert read_open_bandit(campaign).context.shape[1] == 8
    one = read_open_bandit(campaign, align_with=other)
    two = read_open_bandit(other, align_with=campaign)
    # middle old young
    assert_array_equal(one.context[:, 3:6], [[0, 0, 1], [0, 1, 0]])
    assert_array_equal(two.context[:, 3:6], [[1, 0, 0], [0, 1, 0]])
    assert one.context.shape == two.context.shape == (2, 9)
    other.write_text(text(HEADER.replace("user_feature_0", "user"), *ROWS))
    with pytest.raises(ValueError, match=r"bts\.csv has no column 'user_feature_0'"):
        read_open_bandit(campaign, align_with=other)
    other.write_text(text(HEADER, "0,1"))
    with pytest.raises(ValueError, match=r"bts\.csv, line 2: 2 cells under 10"):
        read_open_bandit(campaign, align_with=other)


@pytest.mark.frames
def test_frame(campaign, monkeypatch):
    pytest.importorskip("pandas")
    logs = read_open_bandit(campaign, as_frame=True)
    affinities = [f"user_item_affinity_{k}" for k in range(3)]
    assert list(logs.context.columns) == ["position", "user_feature_0", *affinities]
    assert logs.context["user_feature_0"].tolist() == ["young", "old"]
    assert len(logs[:1].context) == 1
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="as_frame=True needs pandas: pip install"):
        read_open_bandit(campaign, as_frame=True)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["item_id,item_feature_0", "0,1", "2,1"], r"item_id must be 0\.\.1, each onc"),
        (["item_id,item_feature_0", "0,1", "0,1"], r"got \[0, 0\]"),
        (["item_id,item_feature_0", "0,1", "a,1"], "line 3: item_id is 'a', not a wh"),
        (["item_id,item_feature_0", "0,1", "1"], "line 3: 1 cells under 2 column"),
        (["item_id,item_feature_0"], "is empty"),
        ([""], "is empty"),
        (["id,item_feature_0", "0,1"], "has no column 'item_id'"),
        (["item_id,price", "0,1"], "has no column 'item_feature_0'"),
        (
            ["item_id,item_feature_0", "0,1"],
            r"men\.csv: item_id 1 at line 2 is not among the items 0\.\.0 that .*lists",
        ),
    ],
)
def test_malformed_items(campaign, lines, message):
    (campaign / "item_context.csv").write_text(text(*lines))
    with pytest.raises(ValueError, match=message):
        read_open_bandit(campaign)


def test_malformed_logs(campaign):
    path = campaign / "men.csv"
    for found, by, message in (
        (",3,0,", ",3,2,", r"men\.csv: reward 2 at line 2 lies outside"),
        ("0.5", "0", r"propensity must lie in \(0, 1\]"),
        (",1,3,", ",-1,3,", r"line 2: item_id is .-1., not a whole"),
    ):
        path.write_text(text(HEADER, ROWS[0].replace(found, by)))
        with pytest.raises(ValueError, match=message):
            read_open_bandit(path)
    path.write_text("1:0:0.5 a,b\n")
    with pytest.raises(ValueError, match="Is it a log of the Open Bandit Dataset"):
        read_open_bandit(path)
    with pytest.raises(FileNotFoundError, match=r"women\.csv: no such file"):
        read_open_bandit(campaign / "women.csv")
    path.write_text(text(HEADER, *ROWS))
    with pytest.raises(FileNotFoundError, match=r"items\.csv: no such file"):
        read_open_bandit(campaign, item_context="items.csv")


# -- the table ------------------------------------------------------------------------
def test_columns_and_arguments(campaign):
    expected = read_open_bandit(campaign)
    order = [8, 3, 6, 2, 0, 5, 1, 9, 4, 7]
    cells = [line.split(",") for line in (HEADER, *ROWS)]
    lines = [",".join(["i", *(line[k] for k in order), "more"]) for line in cells]
    (campaign / "men.csv").write_text(text(*lines))
    assert_array_equal(read_open_bandit(campaign).context, expected.context)
    # affinities are ordered by number
    header = HEADER.replace("affinity_0", "affinity_10")
    (campaign / "men.csv").write_text(text(header, *ROWS))
    found = read_open_bandit(campaign, user_features=False).context
    assert_array_equal(found[:, -3:], [[2, 0, 0], [0, 0, 1]])
    # missing columns
    for name in ("timestamp", "item_id", "click", "propensity_score"):
        (campaign / "men.csv").write_text(text(HEADER.replace(name, "other"), *ROWS))
        message = rf"men\.csv has no column '{name}'; it has"
        with pytest.raises(ValueError, match=message):
            read_open_bandit(campaign)
    # arguments are checked
    for name in ("path", "item_context", "user_features", "affinity", "align_with"):
        with pytest.raises(ValueError, match=f"The '{name}' parameter"):
            read_open_bandit(**{"path": campaign, name: 3})


@pytest.mark.parametrize(
    ("found", "by", "message"),
    [
        (",3,0,", ",4,0,", "position is '4', not 1, 2 or 3"),
        (",3,0,", ",left,0,", "position is 'left', not 1, 2 or 3"),
        (",1,3,", ",1.5,3,", "item_id is '1.5', not a whole number"),
        (",1,3,", f",{2**63},3,", "item_id is '9223372036854775808', not a whole"),
        ("2019-11-24", "yesterday", "timestamp is 'yesterday .* not a moment like"),
        ("3,0,0.5", "3,no,0.5", "click' is 'no', expected a number"),
        ("0,0.5", "0,", "propensity_score' is missing, exp"),
        ("x,0,2", "x,0,two", "user_item_affinity_1' is 'two', expected a number"),
        ("3,0,0.5", "3,0_1,0.5", "click' is '0_1', expected a number"),
        ("3,0,0.5", "3,nan,0.5", "click' is missing, exp"),
        ("x,0,2", "x,0,inf", "user_item_affinity_1' is inf, expected a finite number"),
        (",1,3,", ",1000000,3,", "item_id is '1000000', not a who.* below 1,000,000"),
        (",1,3,", ",\u0661,3,", "item_id is '.', not a whole number"),
        (",x,0,2", ",x,0", "9 cells under 10 column names"),
    ],
)
def test_malformed_rows(campaign, found, by, message):
    path = campaign / "men.csv"
    row = "0,2019-11-24 00:00:01.5+00:00,1,3,0,0.5,young,x,0,2"
    assert found in row
    header = HEADER.replace(
        "user-item_affinity_0,user-item_affinity_1,user-item_affinity_2",
        "user_feature_1,user_item_affinity_0,user_item_affinity_1",
    )
    good = "1,2019-11-24 00:00:02+00:00,0,1,1,0.25,old,x,1.5,0"
    path.write_text(text(header, good, "", row.replace(found, by, 1)))
    with pytest.raises(ValueError, match=rf"men\.csv, line 4: .*{message}"):
        read_open_bandit(path)


@pytest.mark.parametrize("lines", [[], [""], [HEADER]])
def test_empty_and_damaged_files(campaign, lines):
    path = campaign / "men.csv"
    path.write_text(text(*lines) if lines else "")
    with pytest.raises(ValueError, match=r"men\.csv is empty"):
        read_open_bandit(path)
    path.unlink()
    packed = campaign / "men.csv.gz"
    packed.write_bytes(gzip.compress(text(HEADER, *ROWS * 500).encode())[:-9])
    with pytest.raises(ValueError, match="the gzip data are damaged or cut off"):
        read_open_bandit(packed)


# -- the data set itself --------------------------------------------------------------
def test_real_logs(data_dir):
    path = data_dir / "obd_random_men.csv.gz"
    start = time.process_time()
    logs = read_open_bandit(path)
    assert time.process_time() - start < 2.0  # 0.15 s; a loaded machine may be slow
    assert (len(logs), logs.n_actions, logs.context.shape[1]) == (10_000, 34, 62)
    assert logs.reward.sum() == 46
    assert_allclose(logs.propensity, 1 / 34, rtol=1e-15)
    assert_array_equal(logs.actions, np.arange(34))
    assert_array_equal(logs.context[:, :3].sum(axis=0), [3284, 3388, 3328])
    # three, five, nine and eight categories, one each per row
    for start, width in ((3, 3), (6, 5), (11, 9), (20, 8)):
        block = logs.context[:, start : start + width]
        assert_array_equal(block.sum(axis=1), 1)
        assert block.any(axis=0).all()
    assert logs.context[:, 28:].sum() == 642
    assert logs.action_context.shape == (34, 1 + 7 + 16 + 4)
    assert_array_equal(logs.action_context[:, 1:].sum(axis=1), 3)
    assert logs.action_context[0, 0] == -0.6771831139635117
    assert str(logs.timestamp[0]) == "2019-11-24T00:03:13.442536"
    assert (np.diff(logs.timestamp) >= np.timedelta64(0)).all()


def test_real_logs_of_both_loggers_and_slates(data_dir):
    uniform, adaptive = (
        data_dir / f"obd_{name}_men.csv.gz" for name in ("random", "bts")
    )
    one = read_open_bandit(uniform, align_with=adaptive)
    two = read_open_bandit(adaptive, align_with=uniform)
    assert one.context.shape == two.context.shape == (10_000, 63)
    assert two.reward.sum() == 69
    assert two.propensity.min() == pytest.approx(0.000165)
    # the category that the uniform logger never met has a column of zeros
    assert (~one.context[:, :29].any(axis=0)).sum() == 1
    assert two.context[:, :29].any(axis=0).all()
    logs = read_open_bandit(data_dir / "obd_random_men.csv.gz", as_slates=True)
    assert logs.slate.shape == (10_000, 1)
    assert logs.n_candidates == 34
    counts = np.bincount(logs.columns["position"], weights=logs.reward)
    assert_array_equal(counts, [0, 10, 22, 14])
    assert logs.item_features.shape == (34, 28)


def test_real_logs_in_the_layout_of_the_dataset(data_dir, tmp_path):
    folder = tmp_path / "men"
    folder.mkdir()
    with gzip.open(data_dir / "obd_random_men.csv.gz", "rt") as file:
        header, *rows = file.read().splitlines()[:101]
    header = header.replace("user_item_affinity", "user-item_affinity")
    lines = [f",{header}", *(f"{i},{row}" for i, row in enumerate(rows))]
    (folder / "men.csv").write_text(text(*lines))
    items = data_dir / "obd_random_men_item_context.csv"
    shutil.copy(items, folder / "item_context.csv")
    logs = read_open_bandit(folder)
    same = read_open_bandit(data_dir / "obd_random_men.csv.gz")[:100]
    for field in ("action", "timestamp", "action_context"):
        assert_array_equal(getattr(logs, field), getattr(same, field))
    assert_array_equal(logs.context[:, -34:], same.context[:, -34:])
