# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a user is told where files, columns or calls do not fit."""

import datetime
import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import skope_ope as ope
from skope_ope.logs import HashKFold

pytestmark = pytest.mark.frames
pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyarrow.compute")
ROLES = {"action": "a", "reward": "r", "propensity": "p", "columns": ["pi"]}
FIRST = "day 0.parquet, row group 0"


def write(folder, **changed):
    from pyarrow import parquet

    for day in range(2):
        rng = np.random.default_rng(day)
        action = rng.integers(0, 2, 60)
        columns = {
            "a": action,
            "r": (rng.random(60) < 0.3 + 0.3 * action).astype(float),
            "p": np.full(60, 0.5),
            "pi": np.where(action == 1, 0.9, 0.1),
            "x": rng.normal(size=60),
            "first": np.arange(60) % 3,
            "second": (np.arange(60) + 1) % 3,
        }
        table = pyarrow.table(columns | changed)
        parquet.write_table(table, folder / f"day {day}.parquet", row_group_size=30)
    return folder


@pytest.mark.parametrize(
    ("changed", "roles", "told"),
    [
        ({"p": [None, 0.5] * 30}, {}, "column 'p' has a missing value at row 0 (15 "),
        ({"p": ["0.5"] * 60}, {}, "propensity must hold numbers"),
        ({}, {"actions": [0]}, "is not among actions [0]"),
        ({}, {"reward_range": (0, 0.5)}, "lies outside reward_range (0, 0.5)"),
    ],
)
def test_bad_first_rows_name_file_and_row_group(tmp_path, changed, roles, told):
    logs = ope.scan_logs(write(tmp_path, **changed), **ROLES, **roles)
    calls = (
        lambda: ope.evaluate("pi", logs, evaluators=["IPS"]),
        logs.head,
        lambda: logs.sample(119, random_state=0),
    )
    for call in calls:
        with pytest.raises((ValueError, TypeError), match=re.escape(told)) as error:
            call()
        assert str(error.value).startswith(FIRST)


def test_other_files_of_a_folder_do_not_count(tmp_path):
    logs = ope.scan_logs(write(tmp_path), **ROLES)
    for name in ("_SUCCESS", "day 0.parquet.crc", ".day 0.parquet.crc", "README.txt"):
        (tmp_path / name).write_text("no log")
    for name in ("_temporary", ".hidden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.parquet").write_text("no log")
    found = ope.scan_logs(tmp_path, **ROLES)
    assert [part.key for part in found.partitions] == [p.key for p in logs.partitions]
    (tmp_path / "empty.parquet").touch()
    with pytest.raises(ValueError, match=r"empty\.parquet cannot be read as parquet"):
        ope.scan_logs(tmp_path, **ROLES)


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ({"action": "a"}, {"action": "first"}, "action column (a, and first)"),
        (
            {"sample_weight": "p"},
            {"sample_weight": "pi"},
            "sample_weight column (p, and",
        ),
        (
            {"slot_reward": ["r", "p"]},
            {"slot_reward": ["r", "pi"]},
            "(r, p, and r, pi)",
        ),
        (
            {"slate": ["first", "second"], "reward": "r"},
            {"slate": ["second", "first"], "reward": "r"},
            "slate column (first, second, and second, first)",
        ),
    ],
)
def test_summaries_of_other_columns_do_not_mix(tmp_path, first, second, what):
    write(tmp_path)
    slates = {"slate", "slot_reward"} & set(first)
    policy = ope.UniformSlatePolicy(2) if slates else "pi"
    parts = []
    for day, roles in enumerate((first, second)):
        roles = {"propensity": 1 / 6, "columns": ["pi"], **roles}
        if slates:
            roles = {"slate": ["first", "second"], **roles}
        else:
            roles = {"action": "a", "reward": "r", "actions": range(3), **roles}
        logs = ope.scan_logs(tmp_path / f"day {day}.parquet", **roles)
        names = ["SlateIPS" if slates else "IPS"]
        parts.append(ope.summarize({"new": policy}, logs, evaluators=names))
    with pytest.raises(ValueError, match=re.escape(what)):
        sum(parts)


def test_pages_and_names_of_slates(tmp_path):
    policy = ope.UniformSlatePolicy(2)
    roles = {"slate": ["first", "second"], "slot_reward": ["p", "p"]}
    logs = ope.scan_logs(write(tmp_path), **roles, logging_policy=policy)
    one = ope.PositionScavenging(attention=[1, 0.5])
    with pytest.raises(ValueError, match=r"in memory: lazy\.sample\(1_000_000\)"):
        ope.evaluate(policy, logs, evaluators=[one])
    names = np.array(["ad", "news", "video"])[np.arange(60) % 3]
    folder = write(tmp_path, first=names)
    logs = ope.scan_logs(
        folder, slate=["first", "second"], reward="r", propensity=1 / 6
    )
    for call in (logs.describe, lambda: ope.evaluate(ope.UniformSlatePolicy(2), logs)):
        with pytest.raises(TypeError, match="Candidates are numbered 0, 1") as error:
            call()
        assert str(error.value).startswith(FIRST)


def test_the_first_table_of_slates_has_what_can_be_summed(tmp_path):
    policy = ope.UniformSlatePolicy(2)
    roles = {"slate": ["first", "second"], "reward": "r", "logging_policy": policy}
    logs = ope.scan_logs(write(tmp_path), **roles)
    table = ope.evaluate(policy, logs)
    assert list(table) == ["SlateIPS", "PseudoInverse", "wPI"]
    assert "products of its terms" in str(table)
    assert "ControlledPI" in str(table)
    with pytest.raises(ValueError, match="Use control_variates='single'"):
        ope.evaluate(policy, logs, evaluators=["ControlledPI"])


@pytest.mark.parametrize("memory", [False, True])
def test_the_first_table_of_a_recorded_probability_has_no_model(tmp_path, memory):
    logs = ope.scan_logs(write(tmp_path), **ROLES)
    logs = logs.sample(len(logs)) if memory else logs
    table = ope.evaluate("pi", logs)
    assert list(table) == ["IPS", "SNIPS"]
    assert table.left_out == ("DoublyRobust", "SNDR")
    assert "probabilities of all actions" in str(table)
    with pytest.raises(ValueError, match=re.escape("evaluators=['IPS', 'SNIPS']")):
        ope.evaluate("pi", logs, reward_model=0.3)


def test_calls_and_attributes_of_something_else(tmp_path):
    logs = ope.scan_logs(write(tmp_path), **ROLES)
    in_memory = r"no 'n_groups'.*not in memory\. describe"
    with pytest.raises(AttributeError, match=in_memory):
        logs.n_groups  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'bogus'"):
        logs.bogus  # noqa: B018
    for model in (None, 0.3):  # a number is no way out
        learns = {"AdaptiveDR": ope.AdaptiveDR(reward_model=model)}
        with pytest.raises(ValueError, match=r"into memory.* ConfidenceSequence"):
            ope.evaluate(ope.UniformPolicy(), logs, evaluators=learns)
    with pytest.raises(TypeError, match=r"got str.*files become logs by scan_logs"):
        ope.evaluate("pi", str(tmp_path))
    with pytest.raises(TypeError, match="by must be the name of a column or a list"):
        ope.summarize("pi", logs, by=3)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .* Make it first"):
        ope.summarize("pi", logs).save(tmp_path / "none" / "total.npz")


def test_policies_and_models_of_features_that_are_not_named(tmp_path):
    named = ope.scan_logs(write(tmp_path), **ROLES, context=["x"])
    policy = ope.ClassifierPolicy(LogisticRegression()).fit(named.sample(50))
    logs = ope.scan_logs(tmp_path, **ROLES)
    with pytest.raises(ValueError, match=r"name their columns, context=\[\.\.\.\]"):
        ope.evaluate(policy, logs, evaluators=["IPS"])
    with pytest.raises(ValueError, match="0 feature") as error:
        ope.evaluate(ope.UniformPolicy(), logs, reward_model=Ridge())
    assert "context=[...]" in "".join(error.value.__notes__)


def test_the_folder_stands_before_a_column_of_its_name(tmp_path):
    (tmp_path / "x=7").mkdir()
    write(tmp_path / "x=7")
    head = ope.scan_logs(tmp_path, **ROLES, context=["x"]).head(3)
    assert np.asarray(head.context).ravel().tolist() == [7, 7, 7]


def test_frames_name_the_way_at_once(tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.scan_parquet(write(tmp_path) / "*.parquet")
    with pytest.raises(TypeError, match=r"^the policy is a UniformPolicy. Inside a l"):
        ope.evaluate(
            ope.UniformPolicy(), ope.scan_logs(frame, **ROLES), evaluators=["IPS"]
        )
    columns = {"pi": ["pi", "no_pi"]}
    frame = frame.with_columns(no_pi=1 - polars.col("pi"))
    logs = ope.scan_logs(frame, **(ROLES | {"columns": columns}), actions=[1, 0])
    with pytest.raises(TypeError, match=r"a column of its predictions"):
        ope.evaluate("pi", logs, evaluators=["DoublyRobust"], reward_model=Ridge())
    with pytest.raises(TypeError, match=r"^DoublyRobust needs a reward model"):
        ope.DoublyRobust(reward_model=Ridge()).fit(logs)
    with pytest.raises(TypeError, match=r"^DRns takes rounds in the order of time"):
        ope.evaluate("pi", logs, evaluators=["DRns"])


LINE = "1,1,0.5,0.9\n0,0,0.5,0.1\n"


@pytest.fixture
def days(tmp_path):
    for day in range(2):
        (tmp_path / f"day{day}.csv").write_text("a,r,p,pi\n" + 20 * LINE)
    return tmp_path


def test_csv_days(days, monkeypatch):
    value = ope.evaluate("pi", ope.scan_logs(days, **ROLES), evaluators=["IPS"])["IPS"]
    (days / "day2.csv").write_text("a,r,p,pi\n")
    again = ope.evaluate("pi", ope.scan_logs(days, **ROLES), evaluators=["IPS"])["IPS"]
    assert (again.value, again.n_rounds) == (value.value, 80)
    (days / "day2.csv").write_text("a,r,q,pi\n")
    with pytest.raises(ValueError, match=r"day2\.csv has no column 'p', which day0"):
        ope.scan_logs(days, **ROLES)
    packed = days / "day2.csv.gz"
    packed.write_bytes(b"packed")
    for source in (packed, days):
        with pytest.raises(
            ValueError, match=r"day2\.csv\.gz is compressed.*Decompress"
        ):
            ope.scan_logs(source, **ROLES)
    monkeypatch.setenv("HOME", str(days))
    monkeypatch.setenv("USERPROFILE", str(days))
    assert len(ope.scan_logs("~/day0.csv", **ROLES).head(9)) == 9


def test_columns_that_are_misspelt_listed_or_too_many(tmp_path):
    columns = {"new": ["pi", "x", "p"]}
    logs = ope.scan_logs(write(tmp_path), **(ROLES | {"columns": columns}))
    with pytest.raises(ValueError, match=r"which names 3 columns for 2 act"):
        ope.evaluate("new", logs)
    with pytest.raises(ValueError, match=r"policy 'a' is 'new', which names 3 col"):
        ope.evaluate({"a": "new"}, logs, evaluators=["IPS"])
    logs = ope.scan_logs(write(tmp_path), **ROLES | {"columns": ["pi", "first"]})
    for rounds in (logs, logs.head(50)):
        with pytest.raises(ValueError, match=r"'fiirst'.* Did you mean 'first'\?"):
            ope.evaluate("fiirst", rounds, evaluators=["SNIPS"])
    with pytest.raises(ValueError, match=r"'seconnd' is not.* Did you mean 'second'\?"):
        ope.scan_logs(tmp_path, **ROLES | {"columns": ["seconnd"]})
    told = re.escape("a dict by name: evaluate({'pi': 'pi', 'first':")
    with pytest.raises(TypeError, match=told):
        ope.evaluate(["pi", "first"], logs)


ORDER = re.escape(
    "columns['new'] names ['new_tent', 'new_bike', 'new_car'], but the actions are "
    "['bike', 'car', 'tent']. Name the columns in this order, or pass a dict"
)
RIGHT = {"bike": "new_bike", "car": "new_car", "tent": "new_tent"}


def offers():
    """Names of columns and what they hold: a policy that likes tents."""
    action = np.arange(90) % 3
    columns = {"a": np.array(list(RIGHT))[action], "r": (action == 2) * 1.0}
    shares = zip(RIGHT.values(), (0.1, 0.2, 0.7), strict=True)
    columns |= {name: np.full(90, share) for name, share in shares}
    return columns | {"p": np.full(90, 1 / 3)}


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("kind", ["files", "duckdb", "frame"])
def test_columns_in_another_order_than_the_actions(tmp_path, kind):
    table, roles = pyarrow.table(offers()), {"action": "a", "reward": "r"}
    if kind == "files":
        pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    elif kind == "duckdb":
        duckdb = pytest.importorskip("duckdb")

    def read(columns, **stated):
        given = roles | {"propensity": "p", "context": [], "columns": columns} | stated
        if kind == "frame":
            return ope.BanditLogs.from_frame(table, **given)
        if kind == "files":
            return ope.scan_logs(tmp_path, **given)
        connection = duckdb.connect()
        return ope.scan_logs(connection.from_arrow(table), **given)

    wrong = {"new": ["new_tent", "new_bike", "new_car"]}
    with pytest.raises(ValueError, match=ORDER):
        ope.evaluate("new", read(wrong), evaluators=["SNIPS"])
    if kind == "files":
        with pytest.raises(ValueError, match=ORDER):
            read(wrong).sample(50, random_state=0)
    with pytest.raises(ValueError, match=ORDER):
        read(wrong, actions=["bike", "car", "tent"])
    right = (
        read({"new": list(RIGHT.values())}),
        read(wrong, actions=["tent", "bike", "car"]),
        read({"new": dict(reversed(RIGHT.items()))}),
        read({"new": RIGHT}, actions=["tent", "bike", "car"]),
    )
    for logs in right:
        found = ope.evaluate("new", logs, evaluators=["SNIPS"])["SNIPS"]
        assert found.value == pytest.approx(0.7)
    recorded = read([], logging_proba=RIGHT, propensity=None)
    first = recorded if kind == "frame" else recorded.head(3)
    assert first.logging_proba[0].tolist() == [0.1, 0.2, 0.7]
    with pytest.raises(ValueError, match=r"names columns for \['bike'\], but the"):
        read({"new": {"bike": "new_bike"}}, actions=["bike", "car"])
    with pytest.raises(ValueError, match="logging_proba names"):
        read([], logging_proba=wrong["new"], propensity=None, actions=list(RIGHT))


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("kind", ["files", "duckdb", "loggers"])
def test_a_comparison_leaves_out_models_as_a_table_does(tmp_path, kind):
    source, roles = write(tmp_path), dict(ROLES)
    if kind != "files":
        duckdb = pytest.importorskip("duckdb").connect()
        source = duckdb.read_parquet(f"{source}/*.parquet")
    if kind == "loggers":
        source = source.project("*, first % 2 AS server, 0.5 AS one, 0.5 AS other")
        roles |= {"logger": "server", "logger_proba": ["one", "other"]}
    logs = ope.scan_logs(source, **roles, actions=[0, 1], reward_range=(0, 1))
    policies = {"new": "pi"}
    name = "BalancedIPS" if kind == "loggers" else "SNIPS"
    found = ope.compare_policies(policies, logs)
    value = ope.evaluate("pi", logs, evaluators=[name])[name].value
    assert found["new"].value == pytest.approx(value, rel=1e-12)
    assert repr(ope.compare_policies(policies, logs, evaluator=name)) == repr(found)
    with pytest.raises(ValueError, match="Did you mean SNIPS"):
        ope.compare_policies(policies, logs, evaluator="SNIP")


def test_texts_in_a_frame_of_duckdb(tmp_path):
    duckdb = pytest.importorskip("duckdb").connect()
    logs = ope.scan_logs(duckdb.read_parquet(f"{write(tmp_path)}/*.parquet"), **ROLES)
    assert logs.filter("first = 0").describe().n_rounds == 40
    log = duckdb.read_parquet(f"{write(tmp_path, p=['0.5'] * 60)}/*.parquet")
    with pytest.raises(TypeError, match=r"'p' must hold.*CAST\(p AS DOUBLE\)"):
        ope.scan_logs(log, **ROLES)


def test_filters_of_folders_and_of_misspelt_columns(tmp_path):
    for day in ("2026-11-01", "2026-11-02"):
        (tmp_path / f"day={day}").mkdir()
        write(tmp_path / f"day={day}")
    logs = ope.scan_logs(tmp_path, **ROLES)
    field = pyarrow.compute.field
    when = datetime.date(2026, 11, 2)
    with pytest.raises(ValueError, match=r"day: string.*day'\) >= '2026-11-01'"):
        logs.filter(field("day") >= when)
    with pytest.raises(ValueError, match=r"dya.*They are a: int64") as error:
        logs.filter(field("dya") >= "2026-11-02")
    assert "__row__" not in str(error.value) and "\n" not in str(error.value)
    assert logs.filter(field("day") >= "2026-11-02").n_rounds == 120


@pytest.mark.filterwarnings("ignore:merged sums do not show")
def test_a_policy_over_loggers_has_a_column_for_each(tmp_path):
    servers = np.array(list("xyz") * 20)
    columns = {"who": ["p", "pi", "x"], "new": ["pi", "p"]}
    shares = {name: np.full(60, 1 / 3) for name in ("p", "pi", "x")}
    folder = write(tmp_path, server=servers, **shares)
    logs = ope.scan_logs(folder, **(ROLES | {"columns": columns}), logger="server")
    scavenging = ope.ExplorationScavenging(match="logger").fit(logs)
    memory = logs.sample(120)
    whole = ope.ExplorationScavenging(match="logger").fit(memory).score("who")
    assert abs(scavenging.score("who") - whole) < 1e-12
    with pytest.raises(ValueError, match=r"which names 2 columns for 3 logg"):
        scavenging.score("new")
    with pytest.raises(ValueError, match=r"which names 3 columns for 2 act"):
        ope.evaluate("who", logs, evaluators=["IPS"])
    with pytest.raises(ValueError, match=r"its strata=.* logs.filter"):
        ope.ExplorationScavenging(strata="new").fit(logs).score("new")


def test_a_row_group_of_slates_may_weigh_nothing(tmp_path):
    folder = write(tmp_path, w=np.repeat([0.0, 2.0], 30))
    roles = {"slate": ["first", "second"], "reward": "r", "n_candidates": 3}
    roles["logging_policy"] = ope.UniformSlatePolicy(2)
    logs = ope.scan_logs(folder, **roles, sample_weight="w")
    model, policy = ope.SlateDoublyRobust(cv=HashKFold(3)), ope.UniformSlatePolicy(2)
    whole = model.fit(logs.sample(120)).score(policy)
    assert abs(model.fit(logs).score(policy) - whole) < 1e-12
    found = [[f.name for f in one.audit().findings] for one in (logs, logs.sample(120))]
    assert found[0] == found[1]
