# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""Steps of messages that need files, models or a Pipeline: they are followed, too."""

import json
import re
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import skope_ope as ope
from skope_ope import (
    IPS,
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    PolicyScorer,
    audit,
    evaluate,
)
from skope_ope.__main__ import main
from skope_ope.logs import HashKFold
from skope_ope.readers import read_jsonl, read_open_bandit
from tests.readers.test_read_open_bandit import HEADER, ROWS

pandas = pytest.importorskip("pandas")
from tests.test_remedies import (  # noqa: E402
    FRAME,
    HALVES,
    JSON,
    LOGS,
    POLICY,
    ROLES,
    SPREAD,
    TAKE,
    A,
    P,
    X,
    build,
    of_json,
    run,
    value,
    with_entry,
)

pytestmark = [
    pytest.mark.frames,
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning"),
]

# -- files ----------------------------------------------------------------------------
TRACES = [{"a": "ab"[k % 2], "r": k % 3 / 2, "p": 0.5, "x": k} for k in range(9)]
LINES = [json.dumps(one) for one in TRACES]
FIND, FIND_OUT = "Neither drop nor fill these rows", "estimate them with Propensity"
OF_FILES = {**ROLES, "propensity": "p"}


def written(folder, name, *lines):
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def test_lines_that_are_no_json_can_be_skipped(tmp_path):
    broken = written(
        tmp_path, "log.jsonl", *LINES[:3], '{"a": "a", "r', "7", *LINES[3:]
    )
    with pytest.raises(ValueError, match=r"line 4: not valid JSON.*on_error='skip'"):
        read_jsonl(broken, **OF_FILES)
    told = r"skipped 2 malformed line\(s\); 9 remain\. The first: .*line 4: not valid"
    with pytest.warns(ope.exceptions.LogsWarning, match=told) as warned:
        logs = read_jsonl(broken, **OF_FILES, on_error="skip")
    assert warned[0].message.value == 2
    whole = read_jsonl(written(tmp_path, "whole.jsonl", *LINES), **OF_FILES)
    assert value(logs) == value(whole)
    assert logs.context.equals(whole.context)
    # errors after the line that was skipped name the line of the file
    late = written(tmp_path, "late.jsonl", "{", LINES[0], LINES[1].replace("0.5", "7"))
    with (
        pytest.warns(ope.exceptions.LogsWarning, match="skipped 1"),
        pytest.raises(ValueError, match="line 3"),
    ):
        read_jsonl(late, **OF_FILES, on_error="skip")
    with pytest.raises(ValueError, match="every line is malformed"):
        read_jsonl(written(tmp_path, "none.jsonl", "{"), **OF_FILES, on_error="skip")
    with pytest.raises(ValueError, match="on_error must be one of"):
        read_jsonl(broken, **OF_FILES, on_error="ignore")


def test_the_shell_skips_lines_that_are_no_json(tmp_path, capsys):
    from skope_ope.__main__ import main

    broken = written(tmp_path, "log.jsonl", *LINES, "{", *LINES)
    words = ["evaluate", str(broken), "--policy", "uniform", "--context", "x"]
    words += ["--action", "a", "--reward", "r", "--propensity", "p"]
    assert main(words) == 2
    told = capsys.readouterr().err
    assert "line 10: not valid JSON" in told
    assert "skip such lines with --skip-bad-lines." in told
    assert main([*words, "--skip-bad-lines"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "skipped 1 malformed line(s); 18 remain" in told


@pytest.mark.parametrize(
    ("field", "words"), [("a", FIND), ("p", FIND_OUT), ("r", "never fill all with 0")]
)
@pytest.mark.parametrize("source", ["array", "frame", "jsonl", "csv", "shell"])
def test_all_sources_say_the_same_of_what_is_missing(
    field, words, source, tmp_path, capsys
):
    traces = [*TRACES, {**TRACES[0], field: None}]
    frame = pandas.DataFrame(traces)
    if source == "shell":
        from skope_ope.__main__ import main

        frame.to_csv(tmp_path / "log.csv", index=False)
        told = ["evaluate", str(tmp_path / "log.csv"), "--policy", "uniform"]
        told += ["--action", "a", "--reward", "r", "--propensity", "p"]
        told += ["--context", "x"]
        assert main(told) == 2
        steps = {FIND_OUT: "estimate them with --propensity estimate, from a context"}
        assert steps.get(words, words) in capsys.readouterr().err
        if words == FIND_OUT:  # the last --propensity counts
            assert main([*told, "--propensity", "estimate"]) == 0
        return
    with pytest.raises(ValueError, match=words) as info:
        if source == "array":
            BanditLogs(frame[["x"]], frame["a"], frame["r"], frame["p"])
        elif source == "frame":
            BanditLogs.from_frame(frame, **OF_FILES)
        elif source == "jsonl":
            lines = map(json.dumps, traces)
            read_jsonl(written(tmp_path, "log.jsonl", *lines), **OF_FILES)
        else:
            frame.to_csv(tmp_path / "log.csv", index=False)
            value(ope.scan_logs(tmp_path / "log.csv", **OF_FILES))
    assert not re.search("drop the (row|line)|Drop (or|these)", str(info.value))


def test_the_items_of_another_campaign(tmp_path):
    (tmp_path / "men").mkdir()
    log = written(tmp_path / "men", "men.csv", HEADER, *ROWS)
    women = [f"{k},{k}" for k in range(5)]
    items = written(tmp_path, "women.csv", "item_id,item_feature_0", *women)
    with pytest.raises(
        ValueError, match=r"lists 5 items.*affinities to 3.*pass that of"
    ):
        read_open_bandit(log, item_context=items)
    own = written(tmp_path, "items.csv", "item_id,item_feature_0", *women[:3])
    assert read_open_bandit(log, item_context=own).n_actions == 3


def test_files_that_hold_too_much_for_a_call(tmp_path):
    pytest.importorskip("pyarrow")
    FRAME.to_parquet(tmp_path / "log.parquet")
    lazy = ope.scan_logs(tmp_path, **OF_FILES)
    with pytest.raises(TypeError, match=r"lazy\.sample\(100_000, random_state=0\)"):
        ope.ClassifierPolicy().fit(lazy)
    ope.ClassifierPolicy().fit(lazy.sample(100_000, random_state=0))
    evaluator = ope.DirectMethod(reward_model=Ridge(), cv=GroupKFold(3))
    with pytest.raises(TypeError, match=r"Pass cv=HashKFold\(5\)"):
        evaluator.fit(lazy)
    value(lazy, POLICY, evaluator.set_params(cv=HashKFold(5)))
    with pytest.raises(
        TypeError, match=r"columns=\{'pi': \[...\]\}\) and pass the name"
    ):
        ope.evaluate(HALVES, lazy)
    FRAME.assign(pa=0.5, pb=0.5).to_parquet(tmp_path / "log.parquet")
    columns = {"pi": ["pa", "pb"]}
    ope.evaluate("pi", ope.scan_logs(tmp_path, **OF_FILES, columns=columns))


# -- an export of orders: the rounds that came to nothing were dropped ----------------
@pytest.mark.parametrize("lazy", [False, True])
def test_rounds_that_were_dropped_are_the_first_cause(lazy, tmp_path):
    """The mean weight is above one, as the policy's action earns more often."""
    n, rng = 4000, np.random.RandomState(1)
    action = (rng.random_sample(n) < 0.2).astype(int)
    earned = rng.random_sample(n) < np.where(action == 1, 0.7, 0.3)
    amount = np.where(earned, rng.gamma(2, 10, n), 0)
    p = np.where(action == 1, 0.2, 0.8)
    frame = pandas.DataFrame(
        {"x": rng.normal(size=n), "a": action, "r": amount, "p": p}
    )
    first, zeros = [], "No reward of the log is 0. Rounds were dropped"
    for number, part in enumerate((frame[earned], frame.assign(p=p**2))):
        logs = BanditLogs.from_frame(part, **OF_FILES)
        if lazy:
            pytest.importorskip("pyarrow")
            part.to_parquet(tmp_path / f"{number}.parquet")
            logs = ope.scan_logs(tmp_path / f"{number}.parquet", **OF_FILES)
        warned = IPS().fit(logs).evaluate(ope.ConstantPolicy(1)).warnings
        [told] = [str(one) for one in warned if one.name == "mean_weight"]
        first.append(told.partition("(1) ")[2].startswith(zeros))
    assert first == [True, False]  # the second log has all rounds, and wrong numbers


# -- missing values, and samplers -----------------------------------------------------
def test_missing_values_of_arrays_and_frames_are_treated_alike():
    gaps = with_entry(X, (slice(None, None, 7), 0), np.nan)
    table = build(context=pandas.DataFrame(gaps, columns=["u", "v"]))
    array = build(context=gaps)
    for make in (
        lambda: ope.DoublyRobust(reward_model=Ridge()),
        lambda: ope.ClassifierPolicy(LogisticRegression()),
        lambda: ope.SoftmaxPolicy(max_iter=20),
        lambda: ope.PropensityEstimator(LogisticRegression()),
    ):
        found, told = [], []
        for logs in (array, table):
            with pytest.warns() as warned:
                one = make().fit(logs)
                ope.exceptions.warn_user([ope.exceptions.OPEWarning("none")])
            told.append({str(one.message)[:60] for one in warned})
            if hasattr(one, "predict_proba"):
                found.append(one.predict_proba(logs.context))
            elif hasattr(one, "evaluate"):
                found.append([one.score(POLICY)])
            else:
                found.append(one.transform(logs).propensity)
        np.testing.assert_allclose(*found)
        assert told[0] == told[1]
    # a Pipeline of the user's is left alone in both, and the columns are named
    pipeline = make_pipeline(MaxAbsScaler(), Ridge())
    for logs, name in ((array, "(0)"), (table, "('u')")):
        with pytest.raises(ValueError, match="contains NaN") as info:
            ope.DoublyRobust(reward_model=pipeline).fit(logs)
        assert any(name in note for note in info.value.__notes__)
        assert any(
            "make_pipeline(SimpleImputer()" in one for one in info.value.__notes__
        )
    filled = make_pipeline(SimpleImputer(), MaxAbsScaler(), Ridge())
    value(array, POLICY, ope.DoublyRobust(reward_model=filled))


class Doubling(BaseEstimator):
    """A sampler: fits see rows twice, predictions as they are."""

    def fit_resample(self, X, y):
        if y is None:
            raise ValueError("a sampler needs y")
        return np.concatenate([X, X]), np.concatenate([y, y])


class SamplingPipeline(Pipeline):
    """What imbalanced-learn's Pipeline does with one sampler before the last step."""

    def fit(self, X, y=None):
        self.steps[-1][1].fit(*self.steps[0][1].fit_resample(X, y))
        return self

    def predict(self, X):
        return self.steps[-1][1].predict(X)

    def predict_proba(self, X):
        return self.steps[-1][1].predict_proba(X)

    @property
    def classes_(self):
        return self.steps[-1][1].classes_

    def __sklearn_is_fitted__(self):
        return hasattr(self.steps[-1][1], "classes_")


def test_samplers_before_a_policy_and_inside():
    policy = ope.ClassifierPolicy(LogisticRegression(C=0.1))
    before = SamplingPipeline([("double", Doubling()), ("policy", policy)])
    before.fit(X, A)  # evaluating it asked the sampler for `transform`
    twice = ope.ClassifierPolicy(LogisticRegression(C=0.1))
    twice.fit(np.concatenate([X, X]), np.concatenate([A, A]))
    assert value(LOGS, before) == value(LOGS, twice)
    ope.evaluate(before, LOGS)
    assert LOGS.audit(before) is not None
    # logs have no rows to add: the sampler goes inside
    with pytest.raises(
        TypeError, match=r"samplers inside the reward model or inside the"
    ):
        SamplingPipeline([("double", Doubling()), ("policy", policy)]).fit(LOGS, A)
    steps = [("double", Doubling()), ("model", LogisticRegression())]
    value(LOGS, ope.ClassifierPolicy(SamplingPipeline(steps)).fit(LOGS))


# -- the options of a parameter: none of scikit-learn's words are read ----------------
def test_hints_of_options_follow_the_parameter_that_is_wrong(monkeypatch):
    from skope_ope import _sklearn

    validate = _sklearn.scikit_learns_validation

    def reworded(*given):
        try:
            validate(*given)
        except _sklearn.InvalidParameterError:
            raise _sklearn.InvalidParameterError("wrong") from None

    monkeypatch.setattr(_sklearn, "scikit_learns_validation", reworded)
    with pytest.raises(ValueError, match=r"wrong Did you mean 'balanced'"):
        ope.MultiLoggerDR(pooling="balnced").fit(LOGS)


def test_yes_and_no_are_written_as_numbers(tmp_path, capsys):
    path = tmp_path / "yes.csv"
    rows = [f"a,{'yes' if k % 3 else 'no'},0.5" for k in range(30)]
    path.write_text("\n".join(["action,clicked,p", *rows]))
    given = ["--action", "action", "--reward", "clicked", "--propensity", "p"]
    assert main(["evaluate", str(path), *given, "--policy", "uniform"]) != 0
    told = capsys.readouterr().err
    assert "Write 1 for yes and 0 for no" in told and "drop the row" not in told


def test_the_name_of_an_action_is_no_policy():
    logs = BanditLogs(np.zeros((4, 1)), ["a", "b", "a", "b"], [1, 0, 1, 0], 0.5)
    with pytest.raises(ValueError, match=r"ConstantPolicy\('b'\)"):
        evaluate("b", logs)
    evaluate(ConstantPolicy("b"), logs, evaluators=["IPS"])


def test_a_search_without_scores_chose_nothing():
    random = np.random.default_rng(0)
    x, action = random.random((90, 2)), random.integers(0, 2, 90)
    logs = BanditLogs(x, action, random.integers(0, 2, 90), 0.5)
    grid = {"epsilon": [0.1, 0.2]}
    search = GridSearchCV(ClassifierPolicy(LogisticRegression()), grid, cv=2)
    with pytest.raises(TypeError, match="no scoring is specified"):
        search.fit(logs)
    search.set_params(scoring="accuracy")  # scores of logs are NaN
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(logs)
    with pytest.raises(ValueError, match="scoring=PolicyScorer"):
        evaluate(search, logs)
    search.set_params(scoring=PolicyScorer(IPS())).fit(logs)
    evaluate(search, logs, evaluators=["IPS"])


def test_lists_in_a_column_are_audited():
    random = np.random.default_rng(0)
    lists = [[k % 3] * (1 + k % 2) for k in range(200)]
    frame = pandas.DataFrame({"x": random.random(200), "lists": lists})
    logs = BanditLogs(frame, random.integers(0, 2, 200), random.random(200), 0.5)
    assert audit(logs).findings is not None
    assert audit(ConstantPolicy(1), logs).findings is not None


# -- the shell: what it advises is followed as it stands ------------------------------
def told_by_shell(capsys, frame, *words, code=2):
    """Return what `evaluate` says of a file with these columns, in one line."""
    frame.to_csv("log.csv", index=False)
    given = ["evaluate", "log.csv", "--action", "a", "--reward", "r", *words]
    told = {"--policy", "--policy-columns"} & {*words}
    assert main([*given, *([] if told else ["--policy", "uniform"])]) == code
    return " ".join("".join(capsys.readouterr()).split())


def test_the_shell_says_what_to_make_of_json(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = FRAME.assign(probs=JSON)
    told = told_by_shell(capsys, log, "--context", "x", "--logging-proba", "probs")
    assert SPREAD in told and "--logging-proba p_a,p_b," in told
    made = run(SPREAD, values=JSON).add_prefix("p_")
    whole = pandas.concat([FRAME, made], axis=1)
    words = "--context", "x", "--logging-proba", "p_a,p_b"
    told_by_shell(capsys, whole, *words, code=0)
    told = told_by_shell(capsys, log, "--context", "x", "--propensity", "probs")
    assert TAKE in told
    words = "--context", "x", "--propensity", "one"
    log["one"] = of_json(TAKE, actions=A)
    told_by_shell(capsys, log, *words, code=0)


def test_propensities_are_estimated_without_the_old_ones(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = FRAME.assign(p=with_entry(P, 3, np.nan))
    told = told_by_shell(capsys, log, "--propensity", "p", "--exclude", "")
    assert "from a context without the old ones (as by --exclude)" in told
    words = "--propensity", "estimate", "--exclude", "p"
    assert ", 1 features," in told_by_shell(capsys, log, *words, code=0)


@pytest.mark.parametrize("learner", ["logistic", "hist"])
@pytest.mark.parametrize("first", [0, 110])  # from which row on there are gaps
def test_models_of_the_shell_take_gaps(first, learner, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = FRAME.assign(x=with_entry(X[:, 0], slice(first, None, 3), np.nan))
    model = {"logistic": "ridge", "hist": "hist"}[learner]
    words = ["--context", "x", "--policy", "greedy", "--learner", learner]
    words += ["--propensity", "estimate", "--reward-model", model]
    told = told_by_shell(capsys, log, *words, code=0)
    assert "Regress" in told and "Pipeline" not in told and "ContextEnc" not in told


def test_a_policy_known_at_logged_actions_has_a_recommended_row(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    pi = with_entry(P, slice(None, None, 2), 0.4)
    words = ["--context", "x", "--propensity", "p", "--policy-columns", "pi"]
    told = told_by_shell(capsys, FRAME.assign(pi=pi), *words, code=0)
    assert "Recommended: SNIPS; only the policy's probability of the logged" in told
    words += ["--evaluators", "DoublyRobust"]
    told = told_by_shell(capsys, FRAME.assign(pi=pi), *words)
    assert "evaluate: error: " in told and "--evaluators IPS,SNIPS" in told
    for evaluators in (None, ["IPS", "SNIPS"]):
        assert evaluate(pi, LOGS, evaluators=evaluators).recommended == "SNIPS"
        summary = ope.summarize("pi", LOGS.with_columns(pi=pi), evaluators=evaluators)
        assert summary.values().recommended == "SNIPS"
    assert "SNIPS" in str(ope.suggest(pi, LOGS))
