# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from scipy import sparse

from skope_ope import (
    BanditLogs,
    ExplorationScavenging,
    PositionScavenging,
    SlateLogs,
)
from skope_ope.evaluators.scavenging._predictability import (
    item_predictability,
    predictability,
)
from skope_ope.exceptions import ExplorationWarning


def ask(X, code, stratum=None, **fields):
    logs = BanditLogs(X, code, np.zeros(len(code)), **fields)
    return predictability(logs, np.asarray(code), stratum)


def test_a_logger_that_ignores_the_context_is_not_accused():
    for seed in range(20):
        rng = np.random.RandomState(seed)
        X, code = rng.randn(400, 3), rng.choice(3, size=400, p=[0.5, 0.3, 0.2])
        assert not ask(X, code).z > 4


def test_a_logger_that_looks_at_the_context_is_found(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.randn(1000, 2)
    code = (rng.random_sample(1000) < np.where(X[:, 0] > 0, 0.7, 0.3)).astype(int)
    found = ask(X, code)
    assert found.z > 4 and found.gain > 0.03
    (warning,) = found.warnings
    assert isinstance(warning, ExplorationWarning)
    assert warning.value == found.z


def looked_at(n, seed):
    rng = np.random.RandomState(seed)
    x = rng.randn(n, 1)
    return x, (rng.random_sample(n) < np.where(x[:, 0] > 0, 0.8, 0.2)).astype(int)


@pytest.mark.parametrize("field", ["action", "logger", "slate", "item"])
def test_the_order_of_the_rows_does_not_matter(field):
    """Logs are often joined arm by arm: no fold may hold an arm out as a whole."""
    X, code = looked_at(2000, 0)
    order = np.argsort(code, kind="stable")
    found = []
    for rows in (np.arange(2000), order):
        if field in ("action", "logger"):
            logs = BanditLogs(X[rows], code[rows], np.zeros(2000), logger=code[rows])
            scavenger = ExplorationScavenging(match=field).fit(logs)
        else:
            slate = np.stack([code, 1 - code], axis=1)[rows]
            logs = SlateLogs(X[rows], slate, None, slot_reward=np.ones((2000, 2)))
            scavenger = ExplorationScavenging()
            if field == "item":
                scavenger = PositionScavenging(attention=[1.0, 1.0])
            scavenger.fit(logs)
        found.append(scavenger.predictability_)
    assert min(f.z for f in found) > 10
    # other folds of the same rounds: the gains differ by much less than their error
    error = found[0].gain / found[0].z
    assert abs(found[1].gain - found[0].gain) < error


def test_the_order_of_groups_does_not_matter():
    X, code = looked_at(2000, 1)
    order = np.argsort(code, kind="stable")
    group = np.repeat(np.arange(200), 10)  # each of them one action, in their order
    assert ask(X[order], code[order], group=group).z > 4


def test_arms_in_turn_are_all_asked():
    """Rows at equal distances would all be of one arm."""
    X, _ = looked_at(20_000, 2)
    logger = np.arange(20_000) % 2
    X = X + logger[:, None]  # the visitors come in turn, too
    assert ask(X, logger).z > 4


def test_what_a_group_shares_is_one_observation(global_random_seed):
    """Half of the groups like one action, whatever the context, which they share."""
    rng = np.random.RandomState(global_random_seed)
    user = np.repeat(np.arange(50), 20)
    high = 0
    for _ in range(40):
        X, code = rng.randn(50, 2)[user], rng.randint(2, size=50)[user]
        high = max(high, ask(X, code, group=user).z)
    assert high < 3  # it reached 3.9 where 1,000 rounds were taken for independent


def test_what_no_straight_line_shows():
    rng = np.random.RandomState(0)
    x = rng.uniform(-1, 1, 2000)
    code = (rng.random_sample(2000) < np.where(np.abs(x) > 0.5, 0.8, 0.2)).astype(int)
    assert ask(x[:, None], code).z > 4


def test_frequencies_within_strata():
    """A logger that looked at a stratum only is innocent within the strata."""
    rng = np.random.RandomState(1)
    stratum = rng.randint(2, size=1000)
    code = (rng.random_sample(1000) < np.where(stratum, 0.8, 0.2)).astype(int)
    assert ask(stratum[:, None], code).z > 4
    assert not ask(stratum[:, None], code, stratum).z > 4


def test_items_of_slots():
    """Of 12 items in 4 slots, at random: nothing; the third by the context: found."""
    for seed in range(4):
        rng = np.random.RandomState(seed)
        X = rng.randn(1000, 2)
        slate = np.argsort(rng.random_sample((1000, 12)), axis=1)[:, :4]
        slate[rng.random_sample(1000) < 0.3, 3] = -1
        assert not item_predictability(SlateLogs(X, slate, np.zeros(1000))).z > 4
        slate[:, 2] = np.where(X[:, 0] > 0, 12, 13)
        found = item_predictability(SlateLogs(X, slate, np.zeros(1000)))
        assert found.z > 4 and found.arm == "item"


def test_one_logged_position_a_row():
    """The context names the position, which says nothing about the item."""
    rng = np.random.RandomState(0)
    slot = rng.randint(3, size=3000)
    slate = np.full((3000, 3), -1)
    slate[np.arange(3000), slot] = rng.randint(5, size=3000)
    X = np.column_stack([np.eye(3)[slot], rng.randn(3000)])
    assert not item_predictability(SlateLogs(X, slate, np.zeros(3000))).z > 4
    slate[slot == 2, 2] = X[slot == 2, 3] > 0
    assert item_predictability(SlateLogs(X, slate, np.zeros(3000))).z > 4
    empty = SlateLogs(X, np.full((3000, 3), -1), np.zeros(3000))
    assert np.isnan(item_predictability(empty).z)


def test_remedies_are_for_these_logs():
    rng = np.random.RandomState(0)
    X = rng.randn(400, 1)
    code = (X[:, 0] > 0).astype(int)
    logs = SlateLogs(X, code[:, None], np.zeros(400))
    texts = {
        arm: str(predictability(logs, code, arm=arm).warnings[0])
        for arm in ("action", "slate", "item")
    }
    for arm, text in texts.items():
        assert f"the logged {arm} can be" in text and f"of the {arm}s" in text
        assert ("SNIPS" in text) == (arm == "action")
        assert ("logging_policy=" in text) == (arm != "action")
        assert ("strata" in text) == (arm != "item")


def test_groups_are_held_out_together():
    """One user's rounds share a context and an action: no news about other users."""
    rng = np.random.RandomState(2)
    user = np.repeat(np.arange(50), 20)
    X, code = rng.randn(50, 2)[user], rng.randint(2, size=50)[user]
    assert not ask(X, code, group=user).z > 4
    assert np.isfinite(ask(X, code, group=np.zeros(1000, int)).z)


def test_many_rare_actions():
    rng = np.random.RandomState(3)
    code = rng.randint(500, size=3000)
    assert not ask(rng.randn(3000, 2), code).z > 4
    x = (code % 25 == 0).astype(float)  # the rare ones count as one
    code = np.where(rng.random_sample(3000) < 0.5, 0, code + 1)
    assert ask(np.column_stack([code == 0, x]), code).z > 4


@pytest.mark.parametrize(
    ("X", "code"),
    [
        (np.zeros((100, 2)), np.arange(100) % 2),
        (np.random.RandomState(0).randn(100, 1), np.zeros(100, int)),
        (np.empty((100, 0)), np.arange(100) % 2),
        (np.random.RandomState(0).randn(5, 1), np.arange(5) % 2),
    ],
    ids=["constant context", "one action", "no context", "few rounds"],
)
def test_nothing_to_ask(X, code):
    found = ask(X, code)
    assert np.isnan(found.z) and found.warnings == []


def test_kinds_of_contexts():
    rng = np.random.RandomState(4)
    x = rng.randint(3, size=600)
    code = (rng.random_sample(600) < np.array([0.9, 0.5, 0.1])[x]).astype(int)
    assert ask(sparse.csr_matrix(np.eye(3)[x]), code).z > 4
    missing = np.where(x == 2, np.nan, x)[:, None]
    assert ask(missing, code).z > 4


@pytest.mark.frames
def test_frames():
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(5)
    x = rng.randint(3, size=600)
    code = (rng.random_sample(600) < np.array([0.9, 0.5, 0.1])[x]).astype(int)
    frame = pandas.DataFrame({"word": np.array(["a", "b", "c"])[x], "number": 1.0})
    assert ask(frame, code).z > 4


def test_the_time_is_bounded():
    n = 200_000
    rng = np.random.RandomState(6)
    X = rng.randn(n, 2)
    code = (rng.random_sample(n) < np.where(X[:, 0] > 0, 0.7, 0.3)).astype(int)
    assert ask(X, code).z > 4  # of ten thousand rounds


def test_hashed_contexts():
    rng = np.random.RandomState(7)
    n = 2000
    x = rng.randint(2, size=n)
    code = (rng.random_sample(n) < np.where(x, 0.8, 0.2)).astype(int)
    columns = np.concatenate([x, rng.randint(2**13, size=n)])
    rows = np.tile(np.arange(n), 2)
    X = sparse.csr_matrix((np.ones(2 * n), (rows, columns)), shape=(n, 2**13))
    assert ask(X, code).z > 4


def test_groups_of_several_types():
    rng = np.random.default_rng(0)
    number = rng.integers(0, 40, 200)
    context, action = rng.normal(size=(200, 2)), rng.integers(0, 3, 200)
    mixed = np.array([k if k % 2 else f"u{k}" for k in number.tolist()], dtype=object)
    logs = BanditLogs(context, action, np.zeros(200), group=mixed)
    assert np.isfinite(predictability(logs, action).z)
