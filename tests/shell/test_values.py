# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""`skope-ope evaluate`: its tables, records, notes, and its progress."""

import io
import json
import re
import sys
from itertools import count

import numpy as np
import pytest

from skope_ope import compare_policies, evaluate
from tests.shell.conftest import COLUMNS, CONTEXT, main

NEW = ("--policy", "columns:pi_book,pi_film,pi_song")
EVEN = ("--policy", "uniform")


def told_by(capsys, path, *words):
    code = main(["evaluate", str(path), *map(str, words)])
    return code, "".join(capsys.readouterr())


def written(path, **columns):
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


# -- values ---------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.ModelErrorWarning")
def test_a_record_says_what_the_values_say(clicks, record):
    _, logs, pi = clicks
    logs = logs.replace(logging_proba=None)
    names = ["IPS", "DirectMethod"]
    found = record(*NEW, "--evaluators", ",".join(names), "--gain", "--level", "0.9")
    expected = evaluate(pi, logs, evaluators=names)
    gain = compare_policies({"new": pi}, logs, evaluator="IPS").differences["new"]
    for one, value in zip(found["values"], expected.values(), strict=True):
        assert one["value"] == pytest.approx(value.value, rel=1e-12)
        ends = value.confidence_interval(0.9)
        assert (one["low"], one["high"]) == pytest.approx(tuple(ends), rel=1e-9)
    told = found["values"][0]["gain"]
    assert told["value"] == pytest.approx(gain.value, abs=1e-12)
    assert told["standard_error"] == pytest.approx(gain.standard_error, rel=1e-12)
    assert "gain" not in record(*NEW, "--evaluators", "IPS")["values"][0]
    # no number stands as NaN in JSON
    assert found["values"][1]["effective_sample_size"] is None
    assert "run" not in found["arguments"] and found["arguments"]["json"] is True


def test_the_text(told):
    _, out = told(*NEW, "--evaluators", "IPS,DirectMethod", "--level", "0.9")
    lines = out.splitlines()
    assert lines[0].startswith("log ") and any(
        one.startswith("policy ") for one in lines
    )
    [header] = [k for k, one in enumerate(lines) if "std. error" in one]
    words = "value std. error 90% low 90% high interval eff. rounds note warnings"
    assert " ".join(lines[header].split()) == words
    ips, model, logger = lines[header + 1 : header + 4]
    assert ips.startswith("IPS ") and logger.startswith("logger ")
    assert model.startswith("DirectMethod ") and model.endswith("biased *  [1]")
    assert "* leaves out the error of the reward model" in lines
    assert any(one.startswith("[1] ModelErrorWarning (Direct") for one in lines)
    _, out = told(*NEW, "--evaluators", "IPS", "--gain")
    values, gains = out.split("in pairs")
    assert "gain  std. error" in gains and "gain  std. error" not in values


def test_models_are_told(told):
    for words, text in (
        ("IPS,DoublyRobust", "mean reward of the action, out of fold"),
        ("DRns,DoublyRobust", "(DRns: of all actions together)"),
        ("DoublyRobust --reward-model 0.5", "0.5 everywhere"),
        ("DoublyRobust --reward-model ridge --folds 3", "out of fold (3 folds)"),
    ):
        code, out = told(*NEW, *CONTEXT, "--evaluators", *words.split())
        assert code == 0 and text in " ".join(out.split()), words


def test_loggers_are_listed_where_there_are_a_few(tmp_path, capsys):
    n = 60
    given = {"a": np.arange(n) % 2, "r": (np.arange(n) % 3 > 0) * 1, "p": [0.5] * n}
    words = ("--action", "a", "--reward", "r", "--propensity", "p", "--context", "")
    words += ("--logger", "who", *EVEN, "--json", "--evaluators", "IPS")
    two = np.array(["a", "b", "b"])[np.arange(n) % 3]
    for who, expected in (
        (two, {"logger a": 0.0, "logger b": 1.0}),
        (["one"] * n, {}),
        (np.arange(n) // 2, {}),
    ):
        path = written(tmp_path / "log.csv", **given, who=who)
        _, out = told_by(capsys, path, *words)
        found = json.loads(out[out.index("{") :])["reference_values"]
        values = {one["evaluator"]: one["value"] for one in found}
        assert {name: v for name, v in values.items() if " " in name} == expected


def test_only_epsilon_greedy_explores(told):
    words = ("--epsilon", "0.2", *CONTEXT, "--evaluators", "IPS", "--policy")
    assert "epsilon 0.2" not in told(*words, "greedy")[1]
    assert "epsilon 0.2" in told(*words, "epsilon-greedy")[1]


def test_all_probabilities_of_a_trace(tmp_path, capsys):
    path, probs = tmp_path / "trace.jsonl", {"a": 0.2, "b": 0.3, "c": 0.5}
    with path.open("w") as file:
        for k in range(60):
            route = {"model": "abc"[k % 3], "probs": probs}
            line = {"request": {"tokens": k}, "route": route, "solved": k % 2}
            file.write(f"{json.dumps(line)}\n")
    roles = ("--action", "route.model", "--reward", "solved", *EVEN)
    given = ("route.probs", "route.probs.c,route.probs.b,route.probs.a")
    given += ("c=route.probs.c,b=route.probs.b,a=route.probs.a",)
    answers = {
        told_by(capsys, path, *roles, "--logging-proba", proba, "--context", context)
        for proba in given
        for context in ("request", "request.*")
    }
    assert len(answers) == 1
    code, text = answers.pop()
    assert code != 2
    assert "propensity 0.2 to 0.5" in text
    both = ("--propensity", "estimate", "--logging-proba", "route.probs")
    for words, message in (
        (
            ("--propensity", "route.probs", "--context", "request"),
            "route.probs is an object of a, b, c: use --logging-proba.",
        ),
        (both, "--propensity estimate and --logging-proba are both given"),
    ):
        code, text = told_by(capsys, path, *roles, *words)
        assert code == 2 and message in text


# -- the log of the policy itself -----------------------------------------------------
def compared(capsys, tmp_path, p, r, n=200, share=0.5, policy=EVEN):
    """Return the text and the record beside a log with these numbers."""
    rng = np.random.default_rng(0)
    here = {"a": rng.integers(2, size=n), "p": [0.5] * n}
    here |= {"r": (rng.random(n) < share).astype(int)}
    there = {"a": np.arange(len(p)) % 2, "p": p, "r": r}
    files = [
        written(tmp_path / f"{name}.csv", **data)
        for name, data in (("here", here), ("there", there))
    ]
    words = ("--action", "a", "--reward", "r", "--propensity", "p", "--context", "")
    words += (*policy, "--evaluators", "IPS", "--compare-logs", files[1])
    code, text = told_by(capsys, files[0], *words)
    assert code == 0, text
    _, out = told_by(capsys, files[0], *words, "--json")
    return " ".join(text.split()), json.loads(out)


def test_a_policy_does_not_drift_from_itself(capsys, tmp_path):
    reward = np.arange(4000) % 2
    text, found = compared(capsys, tmp_path, np.full(4000, 0.5), reward, 4000)
    drift = found["on_policy"]["drift"]
    assert drift["low_ratio"] == drift["high_ratio"] == 1
    assert drift["differing_share"] == 0 and drift["correlation"] is None
    assert found["on_policy"]["value"] == reward.mean()
    assert found["on_policy"]["caveat"] == "" and "Caveat" not in text
    [one], other = found["values"], found["on_policy"]
    error = np.hypot(one["standard_error"], other["standard_error"])
    z = (one["value"] - other["value"]) / error
    assert one["z_on_policy"] == pytest.approx(z)
    assert "eff. rounds z on-policy" in text


def test_drift_is_measured_on_the_logged_actions_and_is_a_reason(capsys, tmp_path):
    p = np.linspace(0.1, 0.9, 4000)
    text, found = compared(capsys, tmp_path, p, np.arange(4000) % 2, 4000)
    drift = found["on_policy"]["drift"]
    assert drift["low_ratio"] == pytest.approx(np.quantile(0.5 / p, 0.05), rel=0.05)
    assert drift["high_ratio"] == pytest.approx(np.quantile(0.5 / p, 0.95), rel=0.05)
    assert drift["differing_share"] > 0.9
    told = f"{drift['low_ratio']:.2g} to {drift['high_ratio']:.2g} times the recorded p"
    assert told in text


def test_actions_never_taken_and_logs_without_rewards(capsys, tmp_path):
    policy, half = ("--policy", "always:0"), np.full(60, 0.5)
    _, found = compared(capsys, tmp_path, half, [1, 0] * 30, policy=policy)
    drift = found["on_policy"]["drift"]
    assert drift["low_ratio"] == 0 and drift["correlation"] is None
    text, _ = compared(capsys, tmp_path, half[:9], [0] * 9)
    assert "(inf% of the on-policy value)" in text


def test_few_rewards_and_large_errors_are_counted(capsys, tmp_path):
    reward = (np.arange(200) < 20).astype(int)
    text, found = compared(capsys, tmp_path, np.full(200, 0.5), reward, share=0.1)
    here, there = found["on_policy"]["rewarded_rounds"]
    assert there == 20
    assert f"agreement decides nothing: with {here} rewarded rounds here and" in text
    [one], other = found["values"], found["on_policy"]
    missed = 2.8 * np.hypot(one["standard_error"], other["standard_error"])
    told = re.search(
        r"a true difference of ([\d.]+) \((\d+)% of the on-policy val", text
    )
    assert float(told[1]) == pytest.approx(missed, rel=0.02)
    assert float(told[2]) == pytest.approx(100 * missed / other["value"], rel=0.03)


# -- progress -------------------------------------------------------------------------
class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def progress(clicks, monkeypatch, capsys):
    """Run `evaluate` with such an error stream, and return what that got."""

    def progress(stream, *words, path=clicks[0]):
        monkeypatch.setattr(sys, "stderr", stream)
        words = *COLUMNS, *words, "--evaluators", "IPS"
        main(["evaluate", str(path), *map(str, words)])
        return stream.getvalue()

    return progress


def test_progress_is_silent_or_a_line_per_step(progress):
    assert progress(io.StringIO(), *EVEN) == ""
    assert progress(Terminal(), *EVEN, "--no-progress") == ""
    lines = progress(io.StringIO(), *EVEN, "--progress").splitlines()
    assert len(lines) > 1
    assert all(re.search(r" \(\d+\.\d s\)$", line) for line in lines)
    assert lines[0].startswith("reading")


def test_long_steps_have_a_line_on_a_terminal(progress, monkeypatch):
    seconds = count()  # as if a second went by between two looks at the clock
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    text = progress(Terminal(), *EVEN)
    lines = text.split("\n")
    assert len(lines) > 2 and lines.pop() == ""
    assert all(line.startswith("\r\x1b[K") for line in lines)


def test_errors_end_the_step(progress, tmp_path):
    text = progress(io.StringIO(), *EVEN, "--progress", path=tmp_path / "none.csv")
    assert text.splitlines()[-1].startswith("skope-ope evaluate: error: ")


def test_what_a_file_is_called_is_shown_harmless(progress, clicks, tmp_path):
    path = tmp_path / "\x1b]0;x\x07.csv"
    path.write_text(clicks[0].read_text())
    for stream in (io.StringIO(), Terminal()):
        written = progress(stream, *EVEN, "--progress", path=path)
        assert r"\x1b]0;x\x07.csv" in written
        assert "\x1b" not in written.replace("\r\x1b[K", "")
