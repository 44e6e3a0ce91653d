# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""`skope-ope audit`: what it says, and its exit code."""

import gzip
import json
import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import skope_ope
from skope_ope import BanditLogs, ClassifierPolicy, LinUCB, UniformPolicy, audit
from tests.shell.conftest import main

N = 1200
ITEMS = np.array(["book", "film", "song"])
COLUMNS = ("--action", "item", "--reward", "click", "--propensity", "p")
CONTEXT = ("--context", "age,city")


@pytest.fixture(scope="module")
def columns():
    """A right log of a confounded logger, and columns that came later."""
    rng = np.random.RandomState(0)
    age = rng.standard_normal(N)
    proba = np.exp(np.outer(age, [0.5, 0.0, -0.5]))
    proba /= proba.sum(axis=1, keepdims=True)
    codes = (proba.cumsum(axis=1) < rng.uniform(size=(N, 1))).sum(axis=1)
    click = (rng.uniform(size=N) < 0.3 + 0.1 * (codes == 1)).astype(int)
    return {
        "item": ITEMS[codes],
        "click": click,
        "p": proba[np.arange(N), codes],
        "age": age,
        "city": np.array(["Oslo", "Rome"])[rng.randint(2, size=N)],
        "shown": np.array(["B-1", "F-2", "S-3"])[codes],
        **{f"pi_{item}": np.full(N, 1 / 3) for item in ITEMS},
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory, columns):
    path = tmp_path_factory.mktemp("audit") / "clicks.csv"
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def run(capsys):
    """Run `audit` and return its exit code and what it printed."""

    def run(*argv):
        code = main(["audit", *map(str, argv)])
        out, err = capsys.readouterr()
        assert (err == "") == (code != 2)
        return code, err if code == 2 else out

    return run


def test_a_right_log_raises_no_alarm(path, columns, run):
    code, text = run(path, *COLUMNS, *CONTEXT)
    assert code == 0
    lines = text.splitlines()
    told = f"log {path} (csv): 1,200 rounds, 3 actions, 2 features (as 3 "
    assert " ".join(text.split()).startswith(told)
    assert any(line.startswith("Audit: ") for line in lines)
    assert not text.endswith("\n\n")
    for item in ITEMS:
        count = int((columns["item"] == item).sum())
        [row] = [line.split() for line in lines if line.split()[:1] == [item]]
        assert row[1] == str(count)


def test_faults_are_alarms_that_name_the_column(path, run):
    """With pandas by the name in the file, also where texts are encoded for models."""
    pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    words = (path, *COLUMNS, "--exclude", "pi_book,pi_film,pi_song")
    code, text = run(*words)
    assert code == 1
    assert "action_leak" in text
    assert "'shown'" in text
    code, out = run(*words, "--json")
    record = json.loads(out)
    assert (code, record["ok"]) == (1, False)
    [leak] = [one for one in record["findings"] if one["finding"] == "action_leak"]
    assert leak["columns"] == ["shown"]
    assert run(path, *COLUMNS, *CONTEXT)[0] == 0


class Absent:
    """Stands for frames that cannot be made."""

    def __init__(self, *args, **kwargs):
        raise ImportError("pandas")


def test_without_pandas_columns_of_the_context_are_told(path, run, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.setattr("pandas.DataFrame", Absent)
    code, text = run(path, *COLUMNS, "--context", "age,shown")
    assert code == 1
    told = "context  0: age, 1: shown = B-1, 2: shown = F-2, 3: shown = S-3"
    assert told in " ".join(line.strip() for line in text.splitlines()[:4])
    assert "action_leak" in text


@pytest.fixture
def open_bandit(tmp_path):
    """A log of the Open Bandit Dataset, which names its columns itself."""
    rng = np.random.RandomState(0)
    rows = rng.randint([0, 1, 0], [3, 4, 2], size=(300, 3)).tolist()
    lines = ["timestamp,item_id,position,click,propensity_score,user_feature_0"]
    for i, (item, position, click) in enumerate(rows):
        time, age = f"00:{i // 60:02}:{i % 60:02}", "old" if (i + item) % 2 else "young"
        lines.append(f"2019-11-24 {time}+00:00,{item},{position},{click},{1 / 3},{age}")
    path = tmp_path / "men.csv"
    path.write_text("\n".join([*lines, ""]))
    return path


def balanced(run, *words):
    record = json.loads(run(*words, "--json")[1])
    return set(record["facts"]["balance of the context"]["column"])


def test_columns_of_the_open_bandit_dataset_have_names(open_bandit, run, monkeypatch):
    pytest.importorskip("pandas")
    users = {f"user_feature_0 = {age!r}" for age in ("old", "young")}
    always = (open_bandit, "--policy", "always:1")
    assert balanced(run, *always) == {"position", *users}
    encoded = set("01234")  # as a policy knows them that was learned from these
    assert balanced(run, open_bandit, "--policy", "greedy") == encoded
    monkeypatch.setattr("pandas.DataFrame", Absent)
    assert balanced(run, *always) == encoded


def test_a_column_that_the_log_does_not_have_is_refused(open_bandit, run, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("action,1,2,3\n0,1,0,0\n1,0,1,1\n2,0,0,0\n")
    words = (open_bandit, "--policy-table", table, "--policy-table-by")
    assert run(*words, "position")[0] != 2
    code, text = run(*words, "x")
    assert code == 2 and "open-bandit has no column 'x'; it has posit" in text


def test_json_holds_all_of_it(path, columns, run):
    code, out = run(path, *COLUMNS, *CONTEXT, "--json", "--random-state", 3)
    record = json.loads(out)
    assert (code, record["ok"], record["version"]) == (0, True, skope_ope.__version__)
    assert record["arguments"]["random_state"] == 3
    assert (record["n_rounds"], record["n_actions"]) == (N, 3)
    assert record["facts"]["rounds"] == N
    assert record["warnings"] == []
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    roles = {"action": "item", "reward": "click", "propensity": "p"}
    roles["context"] = ["age", "city"]
    logs = BanditLogs.from_frame(pandas.DataFrame(columns), **roles)
    assert record["findings"] == audit(logs, random_state=3).to_records()
    # features are counted as the file has them
    told = "2 features (as 3 columns where texts are encoded), reward"
    assert told in record["about"]["log"]
    assert record["facts"]["features"] == 2
    record = json.loads(run(path, *COLUMNS, "--context", "age", "--json")[1])
    assert "1 features, reward" in record["about"]["log"]


POLICIES = {
    "uniform": ["--policy", "uniform"],
    "always": ["--policy", "always:film"],
    "columns": ["--policy-columns", "pi_book,pi_film,pi_song"],
    "of the logged action": ["--policy-columns", "pi_book"],
    "learned": ["--policy", "greedy", *CONTEXT],
    "learned by trees": ["--policy", "epsilon-greedy", "--learner", "hist", *CONTEXT],
    "table": ["--policy-table", "TABLE"],
    "saved": ["--policy", "SAVED", "--trust", "--context", "age"],
}


@pytest.mark.few_cases(3)
@pytest.mark.parametrize("words", POLICIES.values(), ids=POLICIES)
def test_a_policy_is_audited_too(path, columns, run, tmp_path, words):
    table, saved = tmp_path / "table.csv", tmp_path / "policy.pkl"
    table.write_text("item,probability\nsong,0.2\nbook,0.5\nfilm,0.3\n")
    saved.write_bytes(pickle.dumps(UniformPolicy()))
    files = {"TABLE": str(table), "SAVED": str(saved)}
    words = [files.get(word, word) for word in words]
    columns = (*COLUMNS, "--context", "")
    code, out = run(path, *columns, *words, "--json")
    record = json.loads(out)
    assert code == (0 if record["ok"] else 1)
    assert "policy" in record["about"]
    alone = json.loads(run(path, *columns, "--json")[1])
    assert len(record["facts"]) > len(alone["facts"])


def test_a_learned_policy_is_audited_on_rounds_that_it_has_not_seen(path, run):
    words = (path, *COLUMNS, *CONTEXT, "--policy", "greedy", "--train-share", "0.25")
    record = json.loads(run(*words, "--json")[1])
    assert record["n_rounds"] == 900
    assert "all numbers below are about the 900 others" in record["about"]["policy"]
    names = [one["finding"] for one in record["findings"]]
    assert "learned_rounds" not in names


def test_propensities_that_are_estimated_or_wrong(path, run):
    words = ("--action", "item", "--reward", "click", *CONTEXT, "--propensity")
    code, text = run(path, *words, "estimate")
    assert code == 0
    assert "propensity_too" not in text
    assert run(path, *words[:-1])[0] == 0
    code, text = run(path, *words, "0.2")
    assert code == 1
    assert "[error] propensity_too_small" in text


def test_warnings_of_the_reader_are_told(tmp_path, run):
    path = tmp_path / "log.txt"
    lines = [f"{1 + i % 2}:{-(i % 3)}:0.5 | x{i % 5}\n" for i in range(40)]
    path.write_text("".join(lines) + "2:x:0.5 | a\n")
    assert run(path)[0] == 2
    code, text = run(path, "--skip-bad-lines")
    assert code in (0, 1)
    *_, told = " ".join(text.split()).partition("Warnings")
    assert told.startswith(" [1] LogsWarning: ")
    assert "skipped 1 malformed event(s)" in told


def test_bad_input_is_no_alarm(path, run, tmp_path):
    learns, other = tmp_path / "learns.pkl", tmp_path / "other.pkl"
    learns.write_bytes(pickle.dumps(LinUCB()))
    policy = ClassifierPolicy(LogisticRegression()).fit(np.eye(3), ITEMS)
    other.write_bytes(pickle.dumps(policy))
    unused, both = "Columns that are not used yet: 'age', 'ci", "--context age,city"
    for words, message in (
        ("--policy uniform --policy-table t.csv", "name one policy to audit"),
        ("--context *", unused),
        ("--context age --exclude city", "--context and --exclude are both"),
        ("--exclude spend", "no column 'spend'"),
        (f"--policy always:opera {both}", "'opera' is not among 'book', 'film', 'song"),
        (f"--policy {learns} --trust {both}", "LinUCB learns while it acts"),
        (f"--policy {other} --trust {both}", "column 'city' holds texts"),
        ("--evaluators IPS", "unrecognized arguments: --evaluators IPS"),
        ("--folds 1", "--folds must be at least 2"),
    ):
        code, err = run(path, *COLUMNS, *words.split())
        assert code == 2
        assert message in err
        assert err.count("\n") == 1
    code, err = run("missing.csv", *COLUMNS)
    assert (code, "missing.csv: no such file" in err) == (2, True)


def test_help_tells_the_exit_codes(capsys):
    assert main(["audit", "--help"]) == 0
    out = capsys.readouterr().out
    assert "  0  no alarm\n  1  alarms" in out


def test_a_real_trial_and_one_that_lost_rows_of_one_arm(data_dir, run, tmp_path):
    """Hillstrom's e-mails were drawn at random."""
    path = data_dir / "hillstrom_email_part1.csv.gz"
    words = ("--action", "segment", "--reward", "visit", "--propensity", "1/3")
    words += ("--exclude", "spend,conversion")
    assert run(path, *words)[0] == 0
    assert run(path, *words, "--policy", "greedy")[0] == 0
    with gzip.open(path, "rt") as file:
        header, *rows = file.read().splitlines()
    kept = [row for i, row in enumerate(rows) if "No E-Mail" not in row or i % 4]
    (tmp_path / "log.csv").write_text("\n".join([header, *kept]) + "\n")
    assert run(tmp_path / "log.csv", *words)[0] == 1


def test_patterns_of_columns_to_exclude_and_files_that_are_many(path, capsys):
    def told(name, exclude):
        code = main(["audit", str(name), *COLUMNS, "--exclude", exclude, "--json"])
        out, err = capsys.readouterr()
        return err if code == 2 else json.loads(out)["facts"]

    by_name = told(path, "pi_book,pi_film,pi_song")
    assert told(path, "pi_*") == by_name and "features" in by_name
    assert "no column for --exclude matches 'new_*'" in told(path, "new_*")
    for many in (path.parent, path.parent / "*.csv"):
        assert "are for scan_logs, in Python" in told(many, "pi_*")
