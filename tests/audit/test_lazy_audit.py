# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Audits of logs that are read part by part."""

import numpy as np
import pytest

from skope_ope import (
    SNIPS,
    BanditLogs,
    SlateLogs,
    SoftmaxPolicy,
    audit,
    compare_policies,
    scan_logs,
)

pytestmark = pytest.mark.frames
pytest.importorskip("pyarrow")
nw = pytest.importorskip("narwhals")
N = 3_000
FIELDS = {"action": "act", "reward": "r", "propensity": "p", "context": ["x0", "x1"]}
FIELDS |= {"group": "g", "timestamp": "t"}


def by_parts(lazy):
    """Return the same logs without their number of rounds: they are read by parts."""
    return lazy.filter(nw.col("r") > -9)


def columns(seed=0, **faults):
    """Return the columns of a log, some of them changed."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 2))
    p_b = np.where(x[:, 0] > 0, 0.3, 0.7)
    act = np.where(rng.random(N) < p_b, "b", "a")
    found = {"x0": x[:, 0], "x1": x[:, 1], "act": act}
    found |= {"r": (rng.random(N) < 0.2).astype(float)}
    found |= {"p": np.where(act == "b", p_b, 1 - p_b), "g": rng.integers(0, 800, N)}
    found |= {"t": np.arange(N), "pi": np.full(N, 0.5)}
    return {**found, **{name: fault(found) for name, fault in faults.items()}}


def written(folder, data, n_files=3):
    """Write columns to parquet files and return their lazy logs."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(data)
    size = -(-len(table) // n_files)
    for k in range(n_files):
        part = table.slice(k * size, size)
        pq.write_table(part, folder / f"part{k}.parquet", row_group_size=450)
    return scan_logs(folder, columns=["pi"], **FIELDS)


def in_memory(data):
    """Return the same as ordinary logs."""
    import pyarrow as pa

    context = pa.table({name: data[name] for name in FIELDS["context"]})
    fields = {"group": data["g"], "timestamp": data["t"]}
    logs = BanditLogs(context, data["act"], data["r"], data["p"], **fields)
    return logs.with_columns(pi=data["pi"])


def check_facts(found, expected, names):
    """Raise unless some facts are equal, tables included."""
    for name in names.split("|"):
        one, other = found.facts[name], expected.facts[name]
        if isinstance(other, dict):
            assert one.keys() == other.keys()
            for column in other:
                if isinstance(other[column][0], str):
                    assert one[column] == other[column]
                else:
                    np.testing.assert_allclose(one[column], other[column])
        elif isinstance(other, str):
            assert one == other
        else:
            np.testing.assert_allclose(one, other, rtol=1e-10, err_msg=name)


OF_THE_LOG = (
    "rounds|features|number of actions|actions logged|actions|reward, lowest|"
    "reward, highest|reward, mean|reward, share not zero|reward, distinct values|"
    "propensity, mean|groups|rounds of a group, median|rounds of a group, most|"
    "effective groups|first time|last time"
)
OF_THE_WEIGHTS = (
    "|effective sample size|effective share|largest weight|mean weight|"
    "mean weight, standard errors from 1"
)


def findings_of(lazy, name, policy=None):
    """Return the findings of this name, of the log or beside a policy."""
    found = audit(lazy) if policy is None else audit(policy, lazy)
    return [one for one in found.findings if one.name == name]


def test_a_small_log_is_audited_in_memory(tmp_path):
    data = columns()
    found, expected = audit(written(tmp_path, data)), audit(in_memory(data))
    assert found.facts.keys() == expected.facts.keys()
    names = [[one.name for one in each.findings] for each in (found, expected)]
    assert names[0] == names[1]
    check_facts(found, expected, OF_THE_LOG)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_counts_are_those_of_all_rounds(tmp_path, n_jobs):
    data = columns()
    with_threads = by_parts(written(tmp_path, data))
    import joblib

    with joblib.parallel_config("threading"):
        found = audit(with_threads, n_jobs=n_jobs)
    check_facts(found, audit(in_memory(data)), OF_THE_LOG)
    assert found.facts["propensity tests"] == "passed"
    assert "3,000 rounds drawn at random" in found.facts["looked at one by one"]
    assert found.ok, found


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("policy", ["pi", "model"])
def test_weights_are_those_of_all_rounds(tmp_path, policy):
    data = columns()
    lazy, logs = by_parts(written(tmp_path, data)), in_memory(data)
    if policy == "model":
        policy = SoftmaxPolicy(alpha=1.0).fit(in_memory(columns(1)))
    found, expected = lazy.audit(policy), audit(policy, logs)
    support = "" if policy == "pi" else "|unsupported mass"
    check_facts(found, expected, OF_THE_LOG + OF_THE_WEIGHTS + support)
    assert found.about_policy
    assert "balance of the context" in found.facts
    alarms = [{one.name for one in each.alarms} for each in (found, expected)]
    assert alarms[0] == alarms[1]


@pytest.mark.few_cases(3)
@pytest.mark.parametrize(
    ("name", "fault", "expected"),
    [
        ("p", lambda c: 0.6 * c["p"], "propensity_too_small"),
        ("r", lambda c: np.where(c["t"] < 2_500, c["r"], 0.0), "trailing_zeros"),
        ("t", lambda c: c["t"] % 1_000, "time_disorder"),
        ("x1", lambda c: (c["act"] == "b").astype(float), "action_leak"),
        ("x1", lambda c: c["r"] + 0.01 * c["x1"], "reward_leak"),
        ("x1", lambda c: np.zeros(N), "constant_column"),
        ("r", lambda c: np.sort(c["r"] + 1.0), None),
        ("r", lambda c: np.where(c["t"] % 350 == 0, 1.0, 0.0), "few_rewards"),
        ("g", lambda c: c["t"] % 20, "few_groups"),
    ],
)
def test_faults_are_found(tmp_path, name, fault, expected):
    data = columns(**{name: fault})
    found, in_whole = audit(by_parts(written(tmp_path, data))), audit(in_memory(data))
    names = [one.name for one in found.findings]
    if expected is not None:
        assert expected in names
        assert expected in [one.name for one in in_whole.findings]
    for one in found.findings:
        assert all(0 <= row < N for row in one.rows)


def test_rows_are_those_of_the_log(tmp_path):
    late = columns(r=lambda c: np.where(c["t"] < 2_500, c["r"], 0.0))
    [found] = audit(by_parts(written(tmp_path, late))).alarms
    [expected] = audit(in_memory(late)).alarms
    assert (found.rows, found.found) == (expected.rows, expected.found)
    assert found.number == pytest.approx(expected.number)


def test_repeated_rounds_are_called_by_their_places(tmp_path):
    twice = {name: np.repeat(v[: N // 2], 2) for name, v in columns().items()}
    [found] = findings_of(by_parts(written(tmp_path, twice)), "repeated_rounds")
    first, again = found.rows[:2]
    assert again == first + 1 and first % 2 == 0
    assert f"row {again} equals row {first}" in found.found


def test_rounds_that_a_policy_has_learned_from(tmp_path):
    lazy = by_parts(written(tmp_path, columns()))
    policy = SoftmaxPolicy(alpha=1.0).fit(lazy.head(300))
    [found] = findings_of(lazy, "learned_rounds", policy)
    assert found.number == pytest.approx(300 / N)
    assert found.rows == tuple(range(10))


def test_many_rounds_are_drawn_from(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    many = {name: np.tile(values, 70) for name, values in columns().items()}
    many |= {"t": np.arange(70 * N), "x1": many["r"]}
    pq.write_table(pa.table(many), tmp_path / "all.parquet", row_group_size=30_000)
    found = audit("pi", scan_logs(tmp_path, columns=["pi"], **FIELDS))
    assert found.facts["rounds"] == 210_000
    assert "balance of the context, of the sample" in found.facts
    assert "200,000 rounds drawn at random" in found.facts["looked at one by one"]
    assert found.facts["reward, mean"] == pytest.approx(many["r"].mean())
    [leak] = [one for one in found.findings if one.name == "reward_leak"]
    assert leak.columns == ("x1",)


def test_what_cannot_be_audited(tmp_path):
    lazy = written(tmp_path, columns())
    with pytest.raises(TypeError, match="Policies come before logs"):
        audit(lazy, lazy)
    polars = pytest.importorskip("polars")
    frame = scan_logs(polars.scan_parquet(tmp_path / "*.parquet"), **FIELDS)
    with pytest.raises(TypeError, match=r"an audit needs the order .* parquet"):
        audit(frame)


def test_bad_probabilities_are_called_by_file_and_row(tmp_path):
    wrong = columns(pi=lambda c: np.where(c["t"] == 1_500, 1.5, c["pi"]))
    lazy = written(tmp_path, wrong)
    place = r"part1.parquet, row group 1: .* at row 50[ .]"
    with pytest.raises(ValueError, match=place):
        audit("pi", lazy)
    with pytest.raises(ValueError, match=place):
        compare_policies({"new": "pi"}, lazy, evaluator=SNIPS())


def test_slates(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    slate = np.array([rng.permutation(4)[:2] for _ in range(N)])
    reward = (rng.random(N) < 0.2).astype(float)
    data = {"s0": slate[:, 0], "s1": slate[:, 1], "r": reward, "x": rng.normal(size=N)}
    pq.write_table(pa.table(data), tmp_path / "slates.parquet", row_group_size=500)
    roles = {"slate": ["s0", "s1"], "reward": "r", "context": ["x"]}
    lazy = scan_logs(tmp_path, n_candidates=4, **roles)
    logs = SlateLogs(data["x"][:, None], slate, reward, n_candidates=4)
    found, expected = audit(by_parts(lazy)), audit(logs)
    names = "rounds|empty slots, share|candidates, most|slots|reward, mean"
    check_facts(found, expected, names)
    assert found.ok == expected.ok
