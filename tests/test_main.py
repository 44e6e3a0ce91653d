# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""Every option of the command line, and every way to get it wrong."""

import gzip
import json
import pickle
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils import get_tags

import skope_ope
from skope_ope import ClassifierPolicy, DRns, LinUCB, RejectionSampling, evaluate
from skope_ope.__main__ import main
from skope_ope.datasets import make_bandit_logs
from skope_ope.evaluators import PolicyValue, static
from tests.test_common import DEFAULTS as EVALUATORS

DEFAULTS = ["IPS", "SNIPS", "DoublyRobust", "SNDR"]
N_ROUNDS = 300
ITEMS = np.array(["book", "film", "song"])
STATIC = set(static.__all__) & {type(one).__name__ for one in EVALUATORS}
FIELDS = ("--action", "item", "--reward", "click", "--propensity", "p")
NO_CONTEXT = ("--context", "")
COLUMNS = (*FIELDS, *NO_CONTEXT)
UNIFORM = ("--policy", "uniform")
CONTEXT = ("--context", "x0,x1,x2,x3,x4")  # the last one counts
OPEN_BANDIT = """timestamp,item_id,position,click,propensity_score,user_feature_0
2019-11-24 00:00:01+00:00,1,3,0,0.5,young
2019-11-24 00:00:02+00:00,0,1,1,0.5,old
2019-11-24 00:00:03+00:00,1,1,1,0.5,old
2019-11-24 00:00:04+00:00,0,3,0,0.5,old
"""


@pytest.fixture(scope="module")
def world():
    """Logs, the policy that their world knows, and its probabilities."""
    logs, policy, _ = make_bandit_logs(
        N_ROUNDS, logging_temperature=3, random_state=0, return_truth=True
    )
    return logs, policy, policy.predict_proba(logs.context)


@pytest.fixture(scope="module")
def frame(world):
    logs, _, pi = world
    rng = np.random.RandomState(0)
    columns = {f"x{j}": logs.context[:, j] for j in range(5)}
    columns |= {f"pi_{item}": pi[:, k] for k, item in enumerate(ITEMS)}
    columns |= {
        "item": ITEMS[logs.action_index],
        "click": logs.reward.astype(int),
        "p": logs.propensity,
        "pi_logged": pi[np.arange(N_ROUNDS), logs.action_index],
        "city": np.array(["Oslo", "Rome"])[rng.randint(2, size=N_ROUNDS)],
        "user": np.arange(N_ROUNDS) // 3,
        "w": rng.uniform(1, 2, N_ROUNDS),
        "day": np.arange(N_ROUNDS),
    }
    return columns


def evaluated(pi, logs):
    """Values by evaluator, without the warnings of the direct method."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return evaluate(pi, logs)


def csv_text(columns):
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    return "\n".join(
        [",".join(columns), *(",".join(map(str, row)) for row in rows), ""]
    )


@pytest.fixture(scope="module")
def log(tmp_path_factory, frame):
    path = tmp_path_factory.mktemp("logs") / "clicks.csv"
    path.write_text(csv_text(frame))
    return path


@pytest.fixture
def run(capsys):
    """Run the command line and return what it printed; it must not fail."""

    def run(*argv):
        code = main([str(word) for word in argv])
        out, err = capsys.readouterr()
        assert (code, err) == (0, "")
        return out

    return run


@pytest.fixture
def told(run):
    return lambda *argv: " ".join(run("evaluate", *argv).split())


@pytest.fixture
def record(run):
    return lambda *argv: json.loads(run("evaluate", *argv, "--json"))


def values_of(report):
    return {one["evaluator"]: one for one in report["values"]}


@pytest.fixture
def values(record):
    return lambda *argv: values_of(record(*argv))


@pytest.fixture
def fails(capsys):
    """Run the command line, which must fail with code 2 and one line."""

    def fails(*argv):
        code = main([str(word) for word in argv])
        out, err = capsys.readouterr()
        assert (code, out, err.count("\n"), err[-1]) == (2, "", 1, "\n")
        assert err.startswith("skope-ope") and "Traceback" not in err
        return err

    return fails


@pytest.fixture
def pickled(tmp_path):
    """Write a policy, and return the words that name it."""

    def pickled(policy):
        path = tmp_path / "policy.pkl"
        path.write_bytes(pickle.dumps(policy))
        return "--policy", path, "--trust"

    return pickled


# -- the whole ----------------------------------------------------------------------
def test_the_table_holds_what_evaluate_finds(log, world, values):
    logs, _, pi = world
    # the file holds the propensities of the logged actions alone
    expected = evaluated(pi, logs.replace(logging_proba=None))
    found = values(log, *COLUMNS, "--policy-columns", "pi_book,pi_film,pi_song")
    assert list(found) == DEFAULTS
    for name, value in expected.items():
        low, high = value.confidence_interval()
        assert found[name]["value"] == pytest.approx(value.value, rel=1e-12)
        numbers = {"standard_error": value.standard_error, "low": low, "high": high}
        for key, number in numbers.items():
            assert found[name][key] == pytest.approx(number, rel=1e-9)


def test_text_says_what_was_read_and_found(log, run):
    text = run("evaluate", log, *COLUMNS, *UNIFORM)
    lines = text.splitlines()
    joined = " ".join(text.split())
    told = "300 rounds, 3 actions, 0 features, reward click, 0 to 1"
    assert f"{log} (csv): {told}" in joined
    assert "uniform over the actions" in joined
    assert "mean reward of the action, out of fold" in joined
    (header,) = (line for line in lines if "std. error" in line)
    assert "95% low" in header and "eff. rounds" in header
    first = [line.split(" ")[0] for line in lines]
    for name in (*DEFAULTS, "logger"):
        assert first.count(name) == 1
    [row] = [line for line in lines if line.endswith("  recommended")]
    assert row.startswith("DoublyRobust ")
    assert "Recommended: DoublyRobust; the propensities make it unbiased" in joined


def test_intervals_that_leave_a_bias_out_are_marked(log, run):
    words = ("evaluate", log, *COLUMNS, *UNIFORM, "--evaluators")
    text = run(*words, "IPS:cmax=2,DirectMethod,SNIPS")
    joined = " ".join(text.split())
    lines = text.splitlines()
    for name, mark in (("IPS:cmax=2", "biased *"), ("DirectMethod", "biased **")):
        [row] = [line for line in lines if line.startswith(f"{name} ")]
        assert mark in row.split("  ")[-2:] or row.endswith(mark)
    assert "* leaves out the bias of clipped weights" in lines
    assert "** leaves out the error of the reward model" in lines
    assert "These intervals leave out a bias of their evaluators." in joined
    assert "Recommended: none of these; these logs allow DoublyRobust" in joined
    assert joined.count("ModelErrorWarning (DirectMethod)") == 1


def test_json_holds_arguments_and_marks_what_intervals_leave_out(log, record):
    report = record(log, *COLUMNS, *UNIFORM)
    assert report["version"] == skope_ope.__version__
    assert report["command"] == "evaluate"
    assert report["arguments"]["policy"] == "uniform"
    assert report["arguments"]["logs"] == str(log)
    assert "run" not in report["arguments"]
    assert (report["n_rounds"], report["n_actions"]) == (300, 3)
    assert report["warnings"] == []
    assert report["recommendation"]["evaluator"] == "DoublyRobust"
    reason = report["recommendation"]["reason"]
    assert reason.startswith("the propensities make it unbiased")
    marked = {one["evaluator"]: one["recommended"] for one in report["values"]}
    assert marked == dict.fromkeys(DEFAULTS, False) | {"DoublyRobust": True}
    words = (log, *COLUMNS, *UNIFORM, "--gain")
    report = record(*words, "--evaluators", "DirectMethod,DRos,IPS")
    (warning,) = report["warnings"]
    assert warning["type"] == "ModelErrorWarning"
    assert warning["evaluators"] == ["DirectMethod"]
    by_name = values_of(report)
    assert by_name["DirectMethod"]["effective_sample_size"] is None
    left_out = {name: one["leaves_bias_out"] for name, one in by_name.items()}
    assert left_out == {
        "DirectMethod": "the error of the reward model",
        "DRos": "the bias of shrunk weights",
        "IPS": False,
    }
    for name, one in by_name.items():
        assert one["gain"]["leaves_bias_out"] == left_out[name]
        assert one["interval"] in ("gamma", "student")
    assert report["recommendation"]["evaluator"] is None


def test_demo(run):
    text = run("demo")
    for name in (*DEFAULTS, "DirectMethod", "DRos", "true value"):
        assert f"\n{name} " in text
    assert text.count("leaves\n    out the error of the reward model") == 1
    assert "covers" in text
    assert "The logger used the\nlabel" in text
    report = json.loads(run("demo", "--json", "--random-state", 3))
    assert report["arguments"]["random_state"] == 3
    for record in report["values"]:
        assert record["error"] == pytest.approx(record["value"] - report["truth"])
        covers = record["low"] <= report["truth"] <= record["high"]
        assert record["covers"] == covers


def test_module_runs_as_a_program_without_optional_packages(log):
    """Reading csv, texts and learned policies included; asked wrongly, it fails."""
    wrong = ["evaluate", "missing.csv", *UNIFORM]
    words = ["evaluate", str(log), *COLUMNS, "--context", "x*,city"]
    words += ["--policy", "greedy", "--reward-model", "ridge"]
    program = f"""
import runpy, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in ("pandas", "pyarrow", "polars", "skops", "matplotlib"):
            raise ImportError(name)

sys.meta_path.insert(0, Absent())

def run(words):
    sys.argv[1:] = words
    try:
        runpy.run_module("skope_ope", run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        return stop.code

assert run({wrong!r}) == 2
sys.exit(run({words!r}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r".*missing\.csv.*\n", done.stderr)  # of the wrong one only
    assert "\nDoublyRobust " in done.stdout


@pytest.mark.thorough
def test_a_reader_that_has_seen_enough_is_no_error(log):
    words = ["evaluate", str(log), *COLUMNS, "--policy", "uniform"]
    process = subprocess.Popen(
        [sys.executable, "-m", "skope_ope", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0
    process.stderr.close()


def test_help_and_version(capsys):
    for words in (["--help"], ["demo", "-h"], ["evaluate", "-h"]):
        assert main(words) == 0
        out = capsys.readouterr().out
        assert "skope-ope" in out
    assert "RUNS CODE" in out
    bandit = [one for one in EVALUATORS if "bandit" in get_tags(one).handles]
    assert all(type(one).__name__ in out for one in bandit)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"skope-ope {skope_ope.__version__}\n"


# -- formats of logs ----------------------------------------------------------------
def test_gzip_and_parquet_are_read_as_csv_is(log, frame, tmp_path, values, run):
    options = (*COLUMNS, *CONTEXT, *UNIFORM, "--reward-model", "ridge")
    expected = values(log, *options)
    packed = tmp_path / "clicks.csv.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert values(packed, *options) == expected
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for name in ("clicks.parquet", "clicks"):
        parquet.write_table(pyarrow.table(frame), tmp_path / name)
        found = values(tmp_path / name, *options)
        for key, record in expected.items():
            assert found[key]["value"] == pytest.approx(record["value"], rel=1e-12)
    assert "(parquet)" in run("evaluate", tmp_path / "clicks", *options)


@pytest.fixture
def vw(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(
        "".join(f"{1 + i % 2}:{-(i % 3)}:0.5 | x{i % 5}\n" for i in range(40))
    )
    return path


def test_vowpal_wabbit(vw, values, run, fails, told):
    found = values(vw, "--policy", "always:2", "--evaluators", "IPS")
    assert found["IPS"]["value"] == pytest.approx(1 * 0.95)
    assert list(values(vw, "--policy", "always:2", "--format", "vw-cb")) == DEFAULTS
    text = run("evaluate", vw, "--policy", "epsilon-greedy", "--reward-model", "ridge")
    assert "LogisticRegression" in text
    vw.write_text(vw.read_text() + "2:x:0.5 | a\n")
    assert "line 41" in fails("evaluate", vw, *UNIFORM)
    assert "skipped 1 malformed event(s)" in told(vw, *UNIFORM, "--skip-bad-lines")
    vw.write_text("1 1:-1:0.5 | a\n2 1:-5:0.5 | a\n2 2:-3:0.5 | b\n")
    words = ("--format", "vw-cb-eval", "--policy", "evaluated", "--evaluators", "IPS")
    assert values(vw, *words)["IPS"]["value"] == pytest.approx((2 + 0 + 6) / 3)


def test_open_bandit(tmp_path, values, told, fails):
    log, table = tmp_path / "men.csv", tmp_path / "prior.csv"
    log.write_text(OPEN_BANDIT)
    table.write_text("item_id,a,prob_position_1,prob_position_3\n0,1,1,0\n1,1,0,1\n")
    options = ("--policy-table", table, "--policy-table-by", "position")
    # items 1, 0, 1, 0 at positions 3, 1, 1, 3: the first two are the policy's
    found = values(log, *options, "--evaluators", "IPS")
    assert found["IPS"]["value"] == pytest.approx((0 + 2) / 4)
    assert "(open-bandit)" in told(log, *options)
    words = ("--action", "item_id", "--reward", "click", "--propensity", "0.5")
    as_csv = (log, *UNIFORM, "--format", "csv")
    assert values(*as_csv, *words, *NO_CONTEXT)["IPS"]["value"] == pytest.approx(0.5)
    assert "read as csv" in fails("evaluate", *as_csv)
    folder = tmp_path / "men"
    folder.mkdir()
    log.rename(folder / "men.csv")
    assert values(folder, *options, "--evaluators", "IPS") == found


# -- columns ------------------------------------------------------------------------
@pytest.mark.parametrize("command", ["audit", "evaluate"])
@pytest.mark.parametrize("policy", ["uniform", "greedy"])
def test_a_context_that_is_not_said_ends_with_the_columns(log, fails, command, policy):
    told = fails(command, log, *FIELDS, "--policy", policy)
    assert "name the columns of the context" in told
    assert "--context '' is for logs without features" in told
    missing = fails(command, log, *CONTEXT, "--policy", policy)
    assert "is read as csv: name the columns of the action and the reward" in missing
    listed = "'x0', 'x1', 'x2', 'x3', 'x4', 'pi_book', 'pi_film', 'pi_song', 'pi_logged"
    assert told.endswith(f"{listed}', 'city', 'user', 'w', 'day'.\n")


def test_propensities_may_be_one_number_estimated_or_unknown(log, values, told):
    options = (log, "--action", "item", "--reward", "click", *UNIFORM)
    for text in ("0.25", "1/4", ".25"):
        words = (*NO_CONTEXT, "--propensity", text, "--evaluators", "IPS,SNIPS")
        found = values(*options, *words)
        # 1/3 over 1/4 is a weight of 4/3 on every reward
        mean = found["SNIPS"]["value"]
        assert found["IPS"]["value"] == pytest.approx(4 / 3 * mean, rel=1e-12)
    found = values(*options, *CONTEXT, "--propensity", "estimate")
    known = values(*options, *CONTEXT, "--propensity", "p")
    assert list(found) == DEFAULTS
    error = known["SNIPS"]["standard_error"]
    assert found["SNIPS"]["value"] != known["SNIPS"]["value"]
    assert abs(found["SNIPS"]["value"] - known["SNIPS"]["value"]) < 4 * error
    options += NO_CONTEXT
    alone = values(*options)
    assert list(alone) == ["DirectMethod"]
    assert alone["DirectMethod"]["leaves_bias_out"]
    assert not alone["DirectMethod"]["recommended"]
    text = told(*options)
    assert "Recommended: none of these; without propensities only a reward" in text
    assert "propensities are unknown: only evaluators" in text


def test_context_feeds_the_reward_model(log, values, frame):
    others = [name for name in frame if name not in ("item", "click", "p")]
    words = (log, *FIELDS, *UNIFORM, "--evaluators", "DirectMethod")
    plain = values(*words, *NO_CONTEXT)
    assert values(*words, "--exclude", ",".join(others)) == plain
    assert values(*words, *CONTEXT, "--reward-model", "ridge") != plain
    options = (*words, "--reward-model", "ridge")
    plain = values(*options, *CONTEXT)["DirectMethod"]["value"]
    more = values(*options, "--context", "x*,city")["DirectMethod"]["value"]
    assert more != plain
    assert values(*options, "--context", "x*")["DirectMethod"]["value"] == plain


def test_actions_set_the_order_of_the_columns(log, values, fails):
    options = (log, *COLUMNS, "--evaluators", "IPS")
    plain = values(*options, "--policy-columns", "pi_book,pi_film,pi_song")
    columns = ("--policy-columns", "pi_song,pi_book,pi_film")
    turned = values(*options, *columns, "--actions", "song,book,film")
    assert turned["IPS"]["value"] == pytest.approx(plain["IPS"]["value"], rel=1e-12)
    message = fails("evaluate", *options, *UNIFORM, "--actions", "song")
    assert "'book'" in message or "'film'" in message
    wider = values(*options, *UNIFORM, "--actions", "song,book,film,new")
    assert wider["IPS"]["value"] < plain["IPS"]["value"] * 2


def test_loggers_timestamps_groups_weights_and_names_with_commas(
    log, run, world, frame, values, tmp_path
):
    words = ("evaluate", log, *COLUMNS, *UNIFORM, "--logger", "city")
    text = run(*words).splitlines()
    assert sum(line.startswith("logger ") for line in text) == 3
    assert any(line.startswith("logger Oslo ") for line in text)
    logs, _, pi = world
    words = (*COLUMNS, "--timestamp", "day", "--group", "user", "--weight", "w")
    found = values(log, *words, "--policy-columns", "pi_book,pi_film,pi_song")
    heavy = logs.replace(sample_weight=frame["w"], group=frame["user"])
    for name, value in evaluated(pi, heavy).items():
        assert found[name]["value"] == pytest.approx(value.value, rel=1e-9)
    path = tmp_path / "log.csv"
    path.write_text('"what, exactly",r,"a, b"\n0,1,0.5\n1,0,0.5\n0,1,0.5\n1,1,0.5\n')
    found = values(
        path,
        *("--action", "what, exactly", "--reward", "r", "--propensity", "0.5"),
        *(*UNIFORM, "--context", '"a, b"', "--evaluators", "IPS"),
    )
    assert found["IPS"]["value"] == pytest.approx(0.75)


# -- policies -----------------------------------------------------------------------
def test_policies_of_columns_tables_and_one_action(log, values, frame, tmp_path):
    several = values(log, *COLUMNS, "--policy-columns", "pi_book,pi_film,pi_song")
    one = values(log, *COLUMNS, "--policy-columns", "pi_logged")
    assert list(one) == ["IPS", "SNIPS"]
    for name, record in one.items():
        assert record["value"] == pytest.approx(several[name]["value"], rel=1e-12)
    found = values(log, *COLUMNS, "--policy", "always:film", "--evaluators", "IPS")
    chosen = frame["item"] == "film"
    expected = (chosen * frame["click"] / frame["p"]).mean()
    assert found["IPS"]["value"] == pytest.approx(expected, rel=1e-12)
    table = tmp_path / "table.csv"
    table.write_text("item,probability\nsong,0\nbook,0\nfilm,1\n")
    found = values(log, *COLUMNS, "--policy-table", table)
    for name, record in values(log, *COLUMNS, "--policy", "always:film").items():
        assert found[name]["value"] == pytest.approx(record["value"], rel=1e-12)
    table = tmp_path / "table.csv"
    table.write_text("item,Oslo,Rome\nsong,0,1\nbook,1,0\nfilm,0,0\n")
    options = ("--policy-table", table, "--policy-table-by", "city")
    found = values(log, *COLUMNS, *options, "--evaluators", "IPS")
    wanted = np.where(frame["city"] == "Oslo", "book", "song")
    expected = ((frame["item"] == wanted) * frame["click"] / frame["p"]).mean()
    assert found["IPS"]["value"] == pytest.approx(expected, rel=1e-12)


@pytest.fixture(scope="module")
def fitted(world):
    logs, _, _ = world
    labels = ITEMS[logs.context[:, :3].argmax(axis=1)]
    classifier = LogisticRegression(max_iter=1000)
    return ClassifierPolicy(classifier, epsilon=0.2).fit(logs.context, labels)


@pytest.mark.parametrize("kind", ["pkl", "skops"])
def test_a_saved_policy(log, fitted, world, tmp_path, pickled, values, fails, kind):
    words = pickled(fitted)
    if kind == "pkl":
        assert "Pass --trust" in fails("evaluate", log, *COLUMNS, *CONTEXT, *words[:2])
    else:
        words = "--policy", tmp_path / "policy.skops"
        pytest.importorskip("skops.io").dump(fitted, words[1])
    found = values(log, *COLUMNS, *CONTEXT, *words)
    logs, _, _ = world
    for name, value in evaluated(fitted.predict_proba(logs.context), logs).items():
        assert found[name]["value"] == pytest.approx(value.value, rel=1e-9)


@pytest.mark.parametrize("is_fitted", [False, True])
def test_a_policy_that_learns_keeps_learning(
    log, world, pickled, values, fails, is_fitted
):
    logs, _, _ = world
    policy = LinUCB(alpha=0.5)
    if is_fitted:
        policy.fit(logs)
    options = (log, *COLUMNS, *CONTEXT, *pickled(policy))
    named = "DRns:horizon=20,RejectionSampling"
    found = values(*options, "--evaluators", named, "--reward-model", "ridge")
    walks = {"DRns": DRns(horizon=20), "RejectionSampling": RejectionSampling()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = evaluate(LinUCB(alpha=0.5), logs, evaluators=walks, random_state=0)
    same = found["RejectionSampling"]["value"]
    assert same == pytest.approx(expected["RejectionSampling"].value, rel=1e-9)
    # the model sees standardised columns: only the history is the same
    assert found["DRns:horizon=20"]["value"] == pytest.approx(
        expected["DRns"].value, abs=4 * expected["DRns"].standard_error
    )
    message = fails("evaluate", *options, "--evaluators", "IPS")
    assert "LinUCB learns while it acts, and IPS" in message
    assert "--evaluators DRns:horizon=100" in fails("evaluate", *options)


@pytest.mark.frames
def test_a_policy_of_named_columns_finds_them(log, world, pickled, values):
    """Without --context, in any order, whatever else stands in the file."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    logs, _, _ = world
    names = ["x3", "x0"]
    frame = pandas.DataFrame(logs.context[:, [3, 0]], columns=names)
    labels = ITEMS[logs.context[:, :3].argmax(axis=1)]
    policy = ClassifierPolicy(LogisticRegression()).fit(frame, labels)
    found = values(log, *COLUMNS, *pickled(policy))
    for name, value in evaluated(policy.predict_proba(frame), logs).items():
        assert found[name]["value"] == pytest.approx(value.value, rel=1e-9)


def test_learned_policies_seeds_and_other_rows(log, told, record, values):
    options = (log, *COLUMNS, *CONTEXT, "--policy", "greedy")
    where = "learned on 75 rounds; all numbers below are about the 225 others"
    assert where in told(*options, "--train-share", "0.25")
    assert record(*options, "--train-share", "0.25")["n_rounds"] == 225
    text = told(*options, "--learner", "hist")
    assert "HistGradientBoostingClassifier" in text
    options = (log, *COLUMNS, *CONTEXT, "--evaluators", "IPS", "--policy")
    greedy = values(*options, "greedy")
    assert values(*options, "greedy") == greedy
    assert values(*options, "greedy", "--random-state", "1") != greedy
    assert values(*options, "epsilon-greedy", "--epsilon", "0") == greedy
    uniform = values(*options, "epsilon-greedy", "--epsilon", "1")
    assert uniform["IPS"]["value"] < greedy["IPS"]["value"]


# -- the evaluation -----------------------------------------------------------------
def test_evaluators_folds_and_level(log, values, run):
    options = (log, *COLUMNS, *UNIFORM, "--evaluators")
    assert list(values(*options, "snips,IPS:cmax=1")) == ["SNIPS", "IPS:cmax=1"]
    assert set(values(*options, "all")) == STATIC
    options = (log, *COLUMNS, *UNIFORM)
    model = (*options, "--evaluators", "DirectMethod", "--folds")
    two, ten = (values(*model, folds)["DirectMethod"]["value"] for folds in (2, 10))
    assert two != ten
    wide, narrow = (values(*options, "--level", level)["IPS"] for level in (0.99, 0.5))
    assert wide["high"] - wide["low"] > 3 * (narrow["high"] - narrow["low"])
    assert "99.9% low" in run("evaluate", *options, "--level", "0.999")


@pytest.mark.parametrize("model", ["ridge", "logistic", "hist", "0.5"])
def test_reward_models(log, values, model):
    options = (log, *COLUMNS, *CONTEXT, *UNIFORM, "--reward-model", model)
    found = values(*options)
    assert found["DoublyRobust"] != values(*options[:-2])["DoublyRobust"]
    if model == "0.5":
        found = values(*options, "--evaluators", "DirectMethod")
        assert found["DirectMethod"]["value"] == 0.5


def test_baseline(log, run, record, frame):
    options = (log, *COLUMNS, *UNIFORM)
    baseline, clicks = record(*options)["baseline"], frame["click"]
    assert baseline["value"] == pytest.approx(clicks.mean())
    error = clicks.std(ddof=1) / N_ROUNDS**0.5
    assert baseline["standard_error"] == pytest.approx(error)
    assert "\nlogger " not in run("evaluate", *options, "--no-baseline")
    assert "baseline" not in record(*options, "--no-baseline")
    found = values_of(record(*options, "--gain"))["DoublyRobust"]
    gain = found["value"] - baseline["value"]
    assert found["gain"]["value"] == pytest.approx(gain)
    assert "gain" in run("evaluate", *options, "--gain")
    assert "gain" not in values_of(record(*options))["DoublyRobust"]


def test_another_log_stands_beside(log, told, record, fitted, pickled):
    options = (log, *COLUMNS, "--compare-logs", log, "--policy")
    report = record(*options, "uniform")
    on_policy, one = report["on_policy"], report["values"][0]
    assert on_policy["value"] == report["baseline"]["value"]
    gap = one["value"] - on_policy["value"]
    error = np.hypot(one["standard_error"], on_policy["standard_error"])
    assert one["z_on_policy"] == pytest.approx(gap / error)
    assert "differs from the one that acted there" in on_policy["caveat"]
    here, there = on_policy["rewarded_rounds"]
    assert here == there > 0
    text = told(*options, "uniform")
    assert " on-policy " in text and "z on-policy" in text
    assert "Caveat: agreement decides nothing" in text
    for policy in (["greedy"], pickled(fitted)[1:], ["always:film"]):
        report = record(*options, *policy, *CONTEXT)
        assert report["on_policy"]["drift"]["differing_share"] > 0
    report = record(*options[:-1], "--policy-columns", "pi_book,pi_film,pi_song")
    assert report["on_policy"]["drift"] is None


def test_progress(log, capsys):
    options = ["evaluate", str(log), *COLUMNS, *CONTEXT, "--policy", "greedy"]
    assert main([*options, "--progress"]) == 0
    out, err = capsys.readouterr()
    steps = err.splitlines()
    assert steps[0].startswith(f"reading {log}: 300 rows (")
    assert steps[1].startswith("learning a policy on 150 rounds (")
    assert steps[2].startswith("evaluating on 150 rounds (")
    assert len(steps) == 3
    assert main([*options, "--no-progress"]) == 0
    assert capsys.readouterr() == (out, "")


# -- what can go wrong --------------------------------------------------------------
CSV = ["evaluate", "x.csv"]
TABLE, BY = ["--policy-table", "t.csv"], ["--policy-table-by", "x"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a command: evaluate, audit or demo"),
        (["nonsense"], "invalid choice: 'nonsense'"),
        (["evaluate"], "required: LOGS"),
        ([*CSV, "--nonsense"], "unrecognized arguments: --nonsense"),
        ([*CSV, "--level", "95"], "--level: must lie in (0, 1), got 95"),
        ([*CSV, "--level", "x"], "invalid number value: 'x'"),
        ([*CSV, "--epsilon", "2"], "--epsilon: must lie in [0, 1]"),
        ([*CSV, "--propensity", "2"], "must lie in (0, 1], got 2"),
        ([*CSV, "--propensity", "0"], "must lie in (0, 1], got 0"),
        ([*CSV, "--propensity", "33%"], "such as 0.25 or 1/3, or a col"),
        ([*CSV, "--format", "xml"], "invalid choice: 'xml'"),
        (CSV, "name one policy to evaluate: --policy,"),
        ([*CSV, *UNIFORM, "--folds", "1"], "--folds must be at least 2"),
        ([*CSV, *UNIFORM, "--evaluators", "I"], "evaluator 'I' is unk"),
        (["evaluate", "missing.csv", *UNIFORM], "missing.csv: no such file"),
        ([*CSV, *UNIFORM, *TABLE], "name one policy to evaluate"),
        ([*CSV, *UNIFORM, *BY], "--policy-table-by chooses a column of --policy-table"),
        ([*CSV, "--policy", "unif"], "'unif' is neither a file nor one of uniform, gr"),
        (["demo", "--random-state", "x"], "invalid integer value: 'x'"),
        (["demo", "--random-state", "1_0"], "invalid integer value: '1_0'"),
        ([*CSV, "--level", "0_0.9"], "invalid number value: '0_0.9'"),
    ],
)
def test_wrong_options(fails, words, message):
    assert message in fails(*words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--reward", "clicks"], "no column 'clicks'. Did you mean 'click'? It has 'x"),
        (["--reward", "item"], "line 2: column 'item' is"),
        (["--propensity", "x0"], "propensity must lie in (0, 1], got"),
        (["--context", "x0,nope"], "no column 'nope'"),
        (["--context", "z*"], "no column for the context matches 'z*'"),
        (["--weight", "x0"], "sample_weight must be a finite number >= 0"),
        (["--timestamp", "city"], "expected a number or a datetime"),
        (["--reward-model", "ridge"], "the reward model 'ridge' needs features"),
        (["--reward-model", "forest"], "the reward model 'forest' is unknown"),
        (["--propensity", "estimate"], "'--propensity estimate' needs features"),
        (["--compare-logs", "missing.csv"], "missing.csv: no such file"),
        (["--evaluators", "IPS:cmax=-1"], "cmax"),
        (["--format", "open-bandit"], "is read as open-bandit, whose columns are kn"),
        (["--format", "vw"], "is read as vw, whose columns are known"),
    ],
)
def test_wrong_columns_and_models(log, fails, words, message):
    assert message in fails("evaluate", log, *COLUMNS, *UNIFORM, *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policy-columns", "pi_book,p"], "names 2 columns, but there are 3 actions"),
        (["--policy", "always:opera"], "'opera' is not among 'book', 'film', 'song'"),
        (["--policy", "greedy"], "the learner 'logistic' needs features"),
        (["--policy", "evaluated"], "has no column 'evaluated'"),
        (["--policy-columns", "pi_book,nope,x0"], "no column 'nope'"),
        (["--policy-columns", "x0,x1,x2"], "policy must not be negative"),
        (["--policy-columns", "p,p,p"], "policy must sum to 1"),
        (["--policy-columns", "pi_logged", "--evaluators", "SNDR"], "all action"),
        (["--policy-table", "missing.csv"], "missing.csv: no such file"),
        (["--policy", "FILE", "--trust"], "policy.pkl cannot be unpickled"),
        (["--policy", "FILE"], "loading a pickle runs the code in it"),
    ],
)
def test_wrong_policies(log, tmp_path, fails, words, message):
    path = tmp_path / "policy.pkl"
    path.write_bytes(b"nonsense")
    words = [path if word == "FILE" else word for word in words]
    assert message in fails("evaluate", log, *COLUMNS, *words)


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (LogisticRegression(), "LogisticRegression is a classifier, not a policy. Wr"),
        (ClassifierPolicy(LogisticRegression()), "not fitted"),
        ({"a": 1}, "a policy needs predict_proba and classes_"),
        (np.full((3, 3), 1 / 3), "policy has shape (3, 3), but the logs have 300"),
    ],
)
def test_pickles_of_other_things(log, pickled, fails, thing, message):
    assert message in fails("evaluate", log, *COLUMNS, *CONTEXT, *pickled(thing))


def test_a_policy_of_other_columns_or_actions(log, world, fitted, pickled, fails):
    words = ("evaluate", log, *COLUMNS, *pickled(fitted), "--context")
    assert "on 5 numbers without column names, but 2" in fails(*words, "x0,x1")
    assert "column 'city' holds texts" in fails(*words, "x0,x1,x2,x3,city")
    other = ClassifierPolicy(LogisticRegression(), epsilon=0.5)
    pickled(other.fit(world[0].context, np.resize(["book", "opera"], N_ROUNDS)))
    message = fails(*words, CONTEXT[1])
    assert "actions that the logs do not know: ['opera']" in message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.csv", b"item,click,p\n", "log.csv is empty"),
        ("log.csv.gz", gzip.compress(b"", mtime=0), "log.csv.gz is empty"),
        ("log.csv", b"item,click,p\na,1,\n", "line 2: column 'p' is missing"),
        ("log.csv", b"item,click,p\na,1,0.5\nb,1,-1\n", "got -1 at line 3"),
        ("log.csv", b"item,click,click,p\na,1,1,1\n", "several columns 'click'"),
        ("log.csv", bytes(range(256)), "error: "),
        ("log.parquet", b"PAR1nonsensePAR1", "error: "),
    ],
)
def test_files_that_cannot_be_read(tmp_path, fails, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    assert message in fails("evaluate", path, *COLUMNS, *UNIFORM)


def test_surprises_are_one_line_too_unless_wanted(log, monkeypatch, fails):
    def fail(*args, **kwargs):
        raise KeyError("no\nsuch thing")

    monkeypatch.setattr(PolicyValue, "standard_error", property(fail))
    words = ("evaluate", log, *COLUMNS, *UNIFORM)
    assert "error: KeyError: " in fails(*words)
    with pytest.raises(KeyError):
        main([*map(str, words), "--traceback"])


# -- real logs ----------------------------------------------------------------------
def test_open_bandit_men(data_dir, told, record):
    options = (
        data_dir / "obd_random_men.csv.gz",
        *("--policy-table", data_dir / "obd_bts_men_prior.csv"),
        *("--policy-table-by", "position"),
        *("--compare-logs", data_dir / "obd_bts_men.csv.gz"),
    )
    report = record(*options)
    assert report["baseline"]["value"] == pytest.approx(0.0046)
    assert report["on_policy"]["value"] == pytest.approx(0.0069)
    assert report["on_policy"]["standard_error"] == pytest.approx(8.3e-4, rel=0.01)
    assert report["on_policy"]["rewarded_rounds"] == [46, 69]
    assert report["on_policy"]["drift"]["correlation"] == pytest.approx(0.61, abs=0.01)
    by_name = values_of(report)
    assert list(by_name) == DEFAULTS
    assert by_name["IPS"]["value"] == pytest.approx(0.004542, rel=1e-3)
    text = told(*options)
    assert "with 46 rewarded rounds here and 69 there" in text
    assert "the policy differs from the one that acted there" in text


def test_hillstrom(data_dir, record):
    options = (
        data_dir / "hillstrom_email_part1.csv.gz",
        *("--action", "segment", "--reward", "visit", "--propensity", "1/3"),
        *("--context", "recency,history,*mens,zip_code,newbie,channel"),
        *("--reward-model", "ridge", "--gain", "--policy"),
    )
    report = record(*options, "greedy")
    assert report["n_rounds"] == 24_000
    by_name = values_of(report)
    for name in ("IPS", "SNIPS", "DoublyRobust"):
        gain = by_name[name]["gain"]
        assert gain["low"] > 0  # better than a letter drawn at random
        assert gain["standard_error"] < by_name[name]["standard_error"]
    report = record(*options, "always:Mens E-Mail")
    by_name = values_of(report)
    assert by_name["SNIPS"]["value"] == pytest.approx(0.183, abs=5e-4)


def test_vowpal_wabbit_files(data_dir, run):
    folder = data_dir / "vw"
    for name in ("rcv1_raw_cb_small_p1.vw.gz", "cb_load.dat", "dsjson_cb.json"):
        assert "DoublyRobust" in run("evaluate", folder / name, *UNIFORM)
