# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums inside the library behind a lazy frame: the numbers of memory, and no row lost.

polars and duckdb answer here; Spark and Dask in tests/engines.
"""

from decimal import Decimal

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    MRDR,
    SNDR,
    SNIPS,
    DirectMethod,
    DoublyRobust,
    LogSmoothing,
    MultiLoggerIPS,
    Replay,
    SwitchDR,
    UniformPolicy,
    UniformSlatePolicy,
    evaluate,
    scan_logs,
    summarize,
)
from tests.evaluators._frame_worlds import (
    LABELS,
    LOGGERS,
    ONE_LOGGER,
    POLICIES,
    columns,
    in_memory,
    roles,
)
from tests.evaluators.core._asked import bare_logs

pytestmark = [
    pytest.mark.frames,
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning"),
]


def polars_frame(data):
    return pytest.importorskip("polars").DataFrame(data).lazy()


def duckdb_frame(data):
    pa = pytest.importorskip("pyarrow")
    return pytest.importorskip("duckdb").from_arrow(pa.table(data))


def ibis_frame(data):
    ibis = pytest.importorskip("ibis")
    pytest.importorskip("duckdb")
    return ibis.memtable(pytest.importorskip("pyarrow").table(data))


LOGGED = {"one": "one_logged"}
OWN_DIVERGENCES = {"pooling": "weighted", "divergences": "per_logger"}
N_FIRST = 20_000  # rows that are asked for before all others
ROWS = {"action": "a", "reward": "r", "propensity": "p"}  # of frames made here


def lazy_of(frame_of, data, stated=None, **which):
    return scan_logs(frame_of(data), **roles(**which) | (stated or {}))


def evaluated(policies, evaluators, lazy):
    return evaluate(policies, lazy, evaluators=evaluators)


def found_lazy(data, **which):
    return lazy_of(polars_frame, data, **which)


def lists(n=60):
    """Columns of which a row can be made anything."""
    return {name: values.tolist() for name, values in columns(n).items()}


def refused(said, lazy, evaluators=None, policies=LOGGED, error=ValueError):
    evaluators = {"IPS": IPS()} if evaluators is None else evaluators
    with pytest.raises(error, match=said):
        evaluated(policies, evaluators, lazy)


BACKENDS = {"polars": polars_frame, "duckdb": duckdb_frame}
backends = pytest.mark.parametrize("frame_of", BACKENDS.values(), ids=BACKENDS)


def check_same(found, expected, rtol=1e-12):
    """Two tables tell the same of every evaluator and policy."""
    assert (found.recommended, found.reason) == (expected.recommended, expected.reason)
    for key, theirs in expected.items():
        check_value(found[key], theirs, rtol)
        if key[0] == "one":
            other = ("two", key[1])
            a, b = (one[key] - one[other] for one in (found, expected))
            assert_allclose(a.value, b.value, rtol=rtol, atol=rtol)
            assert_allclose(a.standard_error, b.standard_error, rtol=1e-9)


OF_ROUNDS = "skewness", "merged sums do not show", "predicts the logged arms"


def check_value(mine, theirs, rtol=1e-12):
    assert_allclose(mine.value, theirs.value, rtol=rtol)
    assert_allclose(mine.standard_error, theirs.standard_error, rtol=rtol)
    assert mine.degrees_of_freedom == theirs.degrees_of_freedom
    assert_allclose(mine.effective_sample_size, theirs.effective_sample_size, rtol=1e-9)
    texts = [
        {str(w) for w in one.warnings if not any(word in str(w) for word in OF_ROUNDS)}
        for one in (mine, theirs)
    ]
    assert texts[0] == texts[1]
    for name in mine.diagnostics.keys() & theirs.diagnostics.keys():
        numbers = [
            list(one.values()) if isinstance(one, dict) else one
            for one in (mine.diagnostics[name], theirs.diagnostics[name])
        ]
        assert_allclose(*numbers, rtol=1e-9, atol=1e-11, err_msg=name)


@pytest.mark.few_cases(3)
@backends
@pytest.mark.parametrize("which", ["plain", "weighted groups", "weighted loggers"])
@pytest.mark.parametrize("power", [1.0, 0.5])  # too large: a reason to warn
def test_numbers_of_memory(frame_of, power, which):
    """Diagnostics and warnings, too, which the judge does not compare."""
    loggers = "loggers" in which
    which = {"groups": which != "plain", "weights": which != "plain"}
    which["loggers"], evaluators = loggers, LOGGERS if loggers else ONE_LOGGER
    data = columns(seed=int(loggers))
    if not loggers:
        data["p"] = data["p"] ** power
    found = evaluated(POLICIES, evaluators, lazy_of(frame_of, data, **which))
    logs = in_memory(data, roles(**which))
    check_same(found, evaluated(POLICIES, evaluators, logs))


@pytest.mark.parametrize("loggers", [False, True])
def test_sums_of_frames_and_of_memory_add_up(loggers):
    data, which = columns(seed=2), {"groups": True, "loggers": loggers}
    evaluators = {"naive": LOGGERS["naive"]} if loggers else ONE_LOGGER
    stated = {"actions": np.array(["x", "y", "z"]), "reward_range": (0, 1)}
    parts = np.split(range(400), [150])
    days = [{k: v[rows] for k, v in data.items()} for rows in parts]
    some = lazy_of(polars_frame, days[0], stated, **which)
    logs = in_memory(days[1], roles(**which), **stated)
    one, other = (summarize(POLICIES, x, evaluators=evaluators) for x in (some, logs))
    whole = evaluated(POLICIES, evaluators, in_memory(data, roles(**which), **stated))
    for table in ((one + other).values(), (other + one).values()):
        for key, mine in table.items():
            assert_allclose(mine.value, whole[key].value, rtol=1e-11)
            error = whole[key].standard_error
            assert_allclose(mine.standard_error, error, rtol=1e-9)


@pytest.mark.thorough
def test_ibis():
    data, names = columns(), ("SNIPS", "DR", "LogSmoothing", "scavenging")
    some = {name: ONE_LOGGER[name] for name in names}
    found = evaluated(POLICIES, some, lazy_of(ibis_frame, data, groups=True))
    logs = in_memory(data, roles(groups=True))
    check_same(found, evaluated(POLICIES, some, logs))


@backends
def test_only_logged_probabilities(frame_of):
    data, names = columns(), ("IPS", "SNIPS")
    policies = {"one": "one_logged", "two": "two_logged"}
    evaluators = {name: ONE_LOGGER[name] for name in names}
    lazy = lazy_of(frame_of, data)
    found = evaluated(policies, evaluators, lazy)
    check_same(found, evaluated(policies, evaluators, in_memory(data, roles())))
    model = {"DM": DirectMethod(reward_model=0.5)}
    refused("DirectMethod needs the policy's probab", lazy, model, policies)
    same = lazy_of(frame_of, data, {"propensity": 0.5})  # for all rounds
    value = evaluated(LOGGED, {"IPS": IPS()}, same)["one", "IPS"].value
    assert_allclose(value, np.mean(data["one_logged"] / 0.5 * data["reward"]))


@pytest.mark.few_cases(1)
@backends
def test_actions_that_were_never_logged(frame_of):
    data = columns()
    keep = data["action"] != "y"
    data = {name: values[keep] for name, values in data.items()}
    given = roles() | {"actions": np.array(["w", *"xyz"])}
    for name in ("one", "two", "q"):
        # the column of w comes first, and takes half of what the policy gives to x
        data[f"{name}_3"] = np.zeros(keep.sum())
        if name != "q":
            data[f"{name}_3"] = data[f"{name}_0"] = data[f"{name}_0"] / 2
        given["columns"][name] = [f"{name}_{a}" for a in (3, 0, 1, 2)]
    found = evaluated(POLICIES, ONE_LOGGER, scan_logs(frame_of(data), **given))
    labels = {"actions": given.pop("actions")}
    logs = in_memory(data, given, **labels)
    check_same(found, evaluated(POLICIES, ONE_LOGGER, logs))
    assert found["one", "IPS"].diagnostics["unsupported_mass"] > 0.3


@backends
def test_terms_that_are_all_equal_have_no_error(frame_of):
    data = columns()
    data["reward"] = np.full(len(data["p"]), 0.1)
    evaluators = {"SNIPS": SNIPS(), "DM": DirectMethod(reward_model=0.7)}
    lazy = lazy_of(frame_of, data)
    summary = summarize({"one": "one"}, lazy, evaluators=evaluators)
    for (_, name), value in summary.values().items():
        assert_allclose(value.value, {"SNIPS": 0.1, "DM": 0.7}[name], rtol=1e-12)
        assert value.standard_error < 1e-15
    logged = summary.logged_value("SNIPS")
    assert (logged.value, logged.standard_error) == (0.1, 0.0)


@backends
def test_the_mean_reward_has_its_interval(frame_of):
    data = columns()
    data["reward"] = (np.arange(len(data["p"])) % 50 == 7).astype(float)
    given = {"policies": {"one": "one"}, "evaluators": {"SNIPS": SNIPS()}}
    limits = [
        (logged.confidence_interval(), (value - logged).confidence_interval())
        for summary in (
            summarize(logs=lazy_of(frame_of, data), **given),
            summarize(logs=in_memory(data, roles()), **given),
        )
        for value in summary.values().values()
        for logged in [summary.logged_value("SNIPS")]
    ]
    assert_allclose(*np.reshape(limits, (2, 4)), rtol=1e-9)


def test_sums_by_a_name_of_several_columns_are_refused():
    lazy = found_lazy(columns(30))
    with pytest.raises(ValueError, match="by='q' names 3 columns"):
        summarize(LOGGED, lazy, evaluators=["IPS"], by="q")
    found = summarize(LOGGED, lazy, evaluators=["IPS"], by="action").values()
    assert list(found["one", "IPS"].by("action")) == ["x", "y", "z"]


@pytest.mark.few_cases(1)
@backends
@pytest.mark.parametrize("texts", [False, True])
def test_more_groups_than_are_told_apart_are_hash_buckets(frame_of, texts):
    data = columns(101_000, shift=0.5)
    data["group"] = np.arange(101_000) - 50_000
    if texts:
        data["group"] = np.array([f"user {g}" for g in data["group"]])
    lazy = lazy_of(frame_of, data, groups=True)
    logs = in_memory(data, roles(groups=True))

    def value_of(*parts):
        total = sum(summarize(LOGGED, one, evaluators=["SNIPS"]) for one in parts)
        return total.values()["one", "SNIPS"]

    found, expected = value_of(lazy), value_of(logs[:60_000], logs[60_000:])
    assert found.diagnostics["clusters"] == expected.diagnostics["clusters"]
    assert "buckets" in found.diagnostics["clusters"]
    assert_allclose(found.value, expected.value, rtol=1e-12)
    assert_allclose(found.standard_error, expected.standard_error, rtol=1e-9)
    assert found.degrees_of_freedom == expected.degrees_of_freedom


@pytest.fixture
def queries(monkeypatch):
    """A list that grows with every query that a lazy frame answers."""
    narwhals, found = pytest.importorskip("narwhals"), []
    collect = narwhals.LazyFrame.collect

    def counted(frame, *args, **kwargs):
        found.append(frame)
        return collect(frame, *args, **kwargs)

    monkeypatch.setattr(narwhals.LazyFrame, "collect", counted)
    return found


@pytest.mark.few_cases(4)
@backends
@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("log", ["plain", "far from zero", "one p per action"])
def test_evaluate_asks_for_first_rows_and_sums(frame_of, log, groups, queries):
    data = columns(shift=1e6 if log == "far from zero" else 0.0)
    data["p"] = np.maximum(data["p"], 0.2)  # no weight is so large that it is bounded
    if log == "one p per action":
        data["p"] = np.where(data["action"] == "x", 0.2, 0.5)
    given = {"columns": {"pi": "one_logged"}, "context": ["one_0", "two_0"]}
    lazy = scan_logs(frame_of(data), **roles(groups=groups) | given)
    evaluate("pi", lazy, evaluators=["IPS", "SNIPS"])
    # and the sums by group, and the mass of implied weights beyond the logged ones
    assert len(queries) == 2 + groups + (log != "one p per action")


@pytest.mark.few_cases(2)
@backends
@pytest.mark.parametrize("by", [None, ["day", "action"]])
@pytest.mark.parametrize("loggers", [False, True])
def test_labels_and_shares_are_asked_for_where_they_enter(
    frame_of, loggers, by, queries
):
    data = columns()
    for name in ("p", "under_A", "under_B"):
        data[name] = np.maximum(data[name], 0.2)
    lazy = lazy_of(frame_of, data, groups=True, loggers=loggers)
    evaluators = {"it": LOGGERS["naive"] if loggers else IPS()}
    summarize({"one": "one"}, lazy, evaluators=evaluators, by=by)
    n_labels = 1 + loggers  # of the actions, and of the loggers
    n_first, n_shares = 1, loggers
    # and those by group, and of implied weights; the same for every column
    n_sums = (2 + (not loggers)) * (1 + len(by or ()))
    assert len(queries) == n_labels + n_first + n_shares + n_sums


def test_many_actions_are_counted_by_a_query_of_their_own(queries):
    data = columns(4000, seed=3)
    data["action"] = np.arange(4000) % 1500
    given = {**roles(weights=True), "columns": {"pi": "one_logged"}}
    lazy, logs = scan_logs(polars_frame(data), **given), in_memory(data, given)
    found = evaluate("pi", lazy, evaluators=["IPS", "SNIPS"])
    assert len(queries) == 5  # of implied weights, and of sample weights by reward
    expected = evaluate("pi", logs, evaluators=["IPS", "SNIPS"])
    for name, value in expected.items():
        check_value(found[name], value)


@backends
@pytest.mark.parametrize("rewards", [(0, 1), (0, 1, 5), range(12), None], ids=str)
def test_sample_weights_bound_rounds_by_their_reward(frame_of, rewards):
    """Of twelve rewards, or many, all may be as heavy as the heaviest."""
    data, rng = columns(), np.random.default_rng(0)
    data["reward"] = rng.uniform(0, 11, 400)
    if rewards is not None:
        data["reward"] = rng.choice(rewards, 400).astype(float)
    data["weight"] *= np.where(data["reward"] > 0, 1.0, 20.0)
    given = {"reward_range": (0, max(rewards or [11])), "actions": LABELS}
    lazy = lazy_of(frame_of, data, given, weights=True)
    logs = in_memory(data, roles(weights=True), **given)
    found, expected = (evaluated(POLICIES, ONE_LOGGER, one) for one in (lazy, logs))
    for key, theirs in expected.items():
        mine, other = found[key], ("two", key[1])
        assert_allclose(numbers_of(mine), numbers_of(theirs), rtol=1e-9)
        a, b = (one["one", key[1]] - one[other] for one in (found, expected))
        assert_allclose(numbers_of(a), numbers_of(b), rtol=1e-9, atol=1e-12)


def numbers_of(value):
    return value.value, value.standard_error, *value.confidence_interval()


@pytest.mark.few_cases(1)
@backends
@pytest.mark.parametrize("first", [0.0, 1e6])
def test_rewards_that_do_not_lie_where_the_first_ones_do(frame_of, first):
    data, n = columns(N_FIRST + 400, shift=1e6 - first), N_FIRST
    data["reward"][:n] += first - (1e6 - first)
    evaluators = {"SNIPS": SNIPS(), "DR": DoublyRobust(reward_model=1e6)}
    sources = lazy_of(frame_of, data), in_memory(data, roles())
    mine, theirs = (evaluated(POLICIES, evaluators, one) for one in sources)
    for key, value in theirs.items():
        assert_allclose(*map(numbers_of, (mine[key], value)), rtol=1e-9)


BAD = {
    "reward": [(None, "reward"), (np.nan, "reward"), (np.inf, "reward")],
    "p": [(v, "propensity must lie in") for v in (None, np.nan, 0.0, 1e-310, 1.5)],
    "one_logged": [(v, "policy 'one'") for v in (None, np.nan, -0.1, 1.1)],
    "weight": [(v, "sample_weight") for v in (None, np.nan, -1.0, np.inf)],
    "group": [(None, "group is missing"), (np.nan, "group is missing")],
    "action": [(None, "the action is missing")],
    "one_1": [(v, "must be 0 or more and sum to 1") for v in (0.9, None)],
    "q_2": [(v, "model values must be finite") for v in (np.nan, None)],
}
BAD_CASES = [(name, *case) for name, cases in BAD.items() for case in cases]


@pytest.mark.few_cases(10)
@backends
@pytest.mark.parametrize(("name", "value", "said"), BAD_CASES)
def test_bad_rows_are_counted_and_refused(frame_of, name, value, said):
    data = lists()
    data["group"] = [float(g) for g in data["group"]]
    data[name][52] = data[name][57] = value  # not among the first rows
    which = ""
    if name in ("reward", "p", "one_logged", "weight"):
        found = value is not None and np.isfinite(value)
        which = f", the least is {value:.9g}" if found else ", missing or not finite"
    counted = "" if name == "action" else rf".*\(2 of 60 rows{which}\)"
    evaluators, policies = {"SNIPS": SNIPS()}, LOGGED
    if name in ("one_1", "q_2"):
        evaluators, policies = {"DR": ONE_LOGGER["DR"]}, {"one": "one"}
        counted = r" \(2 of 60 rows"
    lazy = lazy_of(frame_of, data, groups=True, weights=True)
    refused(f"{said}{counted}", lazy, evaluators, policies)


def file_of(data, folder):
    duckdb, pa = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    path = str(folder / "log.parquet")
    pytest.importorskip("pyarrow.parquet").write_table(pa.table(data), path)
    return duckdb.read_parquet(path)


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("name", ["reward", "p", "one_logged", "weight", "group"])
def test_statistics_of_files_do_not_hide_what_is_no_number(name, tmp_path):
    data = lists()
    data[name] = [float(one) for one in data[name]]
    data[name][52] = data[name][57] = np.nan
    lazy = scan_logs(file_of(data, tmp_path), **roles(groups=True, weights=True))
    drop = r"Drop (or correct these rows|them only if)"
    step = "Neither drop nor fill" if name == "p" else drop
    said = rf"\(2 of 60 rows.*\)\. {step}"
    refused(said, lazy)
    if name != "one_logged":  # a policy, which describe() does not read
        with pytest.raises(ValueError, match=said):
            lazy.describe()


@pytest.mark.few_cases(4)
@pytest.mark.parametrize("name", ["reward", "p", "one_1", "q_2"])
@pytest.mark.parametrize("evaluator", [DirectMethod, DoublyRobust, SwitchDR])
def test_nan_that_statistics_hide_in_tables(evaluator, name, tmp_path):
    data = lists()
    data[name][57] = np.nan
    lazy = scan_logs(file_of(data, tmp_path), **roles())
    one = evaluator(reward_model="q")
    refused(r"\(1 of 60 rows", lazy, {"it": one}, {"one": "one"})


def test_numbers_so_large_that_sums_are_nan_are_no_bad_rows():
    data = columns(60)
    data["reward"] = np.tile([1e200, -1e200], 30)
    found = evaluated(LOGGED, {"IPS": IPS()}, lazy_of(duckdb_frame, data))
    assert np.isnan(found["one", "IPS"].standard_error)


@backends
def test_several_kinds_of_bad_rows_are_all_told(frame_of):
    data = lists()
    data["reward"][56], data["p"][57], data["p"][58] = None, 0.0, np.nan
    said = r"reward.*\(1 of 60.*; .*propens.*\(2 of"
    refused(said, lazy_of(frame_of, data), policies={"one": "one"})


@backends
@pytest.mark.parametrize("row", [1, 57])  # among the first ones, or not
def test_labels_and_rewards_that_are_not_among_what_was_stated(frame_of, row):
    data = columns(60)
    data["action"][row] = "w"
    lazy = lazy_of(frame_of, data, {"actions": np.array(["x", "y", "z"])})
    said = "action 'w' (at row 1 is not among actions|is not among the 3 actions)"
    refused(said, lazy)
    with pytest.raises(ValueError, match=said):
        lazy.describe()
    data = columns(60)
    data["reward"][row] = 7.0
    lazy = lazy_of(frame_of, data, {"reward_range": (0, 1)})
    refused(r"reward_range.\(0, 1\)", lazy)


@pytest.mark.few_cases(2)
@backends
@pytest.mark.parametrize("value", [None, np.nan, np.inf])
def test_what_is_no_number_is_not_said_to_lie_outside_the_range(frame_of, value):
    data, stated = lists(), {"reward_range": (0, 1)}
    data["reward"][57] = value
    said = r"^column 'reward': reward must be a finite number \(1 of 60 rows, missing"
    refused(said, lazy_of(frame_of, data, stated))
    data["reward"][58] = 7.0
    said = r"finite .*\(1 of 60.*; .*\(0, 1\) \(1 of 60"
    refused(said, lazy_of(frame_of, data, stated))


@backends
def test_log_smoothing_needs_rewards_that_are_not_negative(frame_of):
    data, evaluators = columns(60), {"it": LogSmoothing(lam=0.1)}
    data["reward"][57] = -1.0
    refused("rewards that are not negative", lazy_of(frame_of, data), evaluators)
    stated = {"reward_range": (-1, 1)}
    sources = lazy_of(frame_of, data, stated), in_memory(data, roles(), **stated)
    tables = (evaluated(LOGGED, evaluators, one) for one in sources)
    assert_allclose(*(table["one", "it"].value for table in tables), rtol=1e-12)


@backends
def test_columns_of_other_types(frame_of):
    data = columns(60)
    other = dict(data, reward=data["reward"] > 0)
    other["p"] = [Decimal(float(p)).quantize(Decimal("1e-15")) for p in data["p"]]
    sources = (lazy_of(frame_of, one) for one in (data, other))
    tables = (evaluated(LOGGED, {"IPS": IPS()}, one) for one in sources)
    assert_allclose(*(table["one", "IPS"].value for table in tables), rtol=1e-12)
    for codes, kind in ((data["one_logged"] > 0, "Bool"), ([1] * 60, "Int")):
        coded = dict(data, one_logged=codes)
        with pytest.raises(TypeError, match=f"one_logged.* holds (?i:{kind})"):
            evaluated(LOGGED, {"IPS": IPS()}, lazy_of(frame_of, coded))
    other["reward"] = ["none"] * 60
    with pytest.raises(TypeError, match="column 'reward' must hold numbers"):
        evaluated(LOGGED, {"IPS": IPS()}, lazy_of(frame_of, other))


def test_empty_frames_and_weights_of_zero():
    data = {name: values[:0] for name, values in columns(10).items()}
    given = {"action": "action", "reward": "reward", "propensity": "p"}
    lazy = scan_logs(polars_frame(data), columns={"one": "one_logged"}, **given)
    refused("there is no round in LazyLogs", lazy, policies={"one": "one"})
    data = columns(10)
    data["weight"] = np.zeros(10)
    said = r"no round .* has a positive sample weight"
    refused(said, found_lazy(data, weights=True))


@pytest.mark.parametrize(
    ("policy", "evaluator", "error", "said"),
    [
        (UniformPolicy(), IPS(), TypeError, "Add it to the frame, or write"),
        ("one", DoublyRobust(), TypeError, "is None: the out-of-fold mean reward"),
        ("one", IPS(cmax="auto"), ValueError, "cmax='auto' is chosen from all rounds"),
        ("one", LogSmoothing(), ValueError, "Pass that number"),
        ("one", Replay(), (TypeError, ValueError), "Replay"),
        ("one", MRDR(), (TypeError, ValueError), "MRDR"),
        ("one", MultiLoggerIPS(pooling="balanced"), ValueError, "logger_proba="),
        ("one", MultiLoggerIPS(**OWN_DIVERGENCES), ValueError, "one number per logger"),
    ],
)
def test_what_cannot_be_pushed_down_is_refused(policy, evaluator, error, said):
    lazy = lazy_of(polars_frame, columns(30), {"logger": "logger"})
    refused(said, lazy, {"it": evaluator}, {"one": policy}, error)
    with pytest.raises(TypeError, match="cannot be fitted to a lazy frame"):
        DoublyRobust(reward_model=Ridge()).fit(lazy)


@pytest.mark.few_cases(1)
@backends
@pytest.mark.parametrize("whole", [True, False])
def test_intervals_reach_as_far_as_what_the_logger_might_have_done(frame_of, whole):
    """A frame took the largest logged weight where memory knows a larger one."""
    rng, n = np.random.default_rng(0), 400
    rare = rng.uniform(0.01, 0.04, n) if whole else np.full(n, 0.02)
    mu, new = np.stack([1 - rare, rare], axis=1), np.full((n, 2), 0.5)
    new[1:5] = [[0.01, 0.99]]
    action = (np.arange(n) % 40 == 0).astype(int)
    rows = action, (rng.random(n) < 0.3).astype(float), mu[np.arange(n), action]
    data = dict(zip("arp", rows, strict=True))
    data |= {f"mu{a}": mu[:, a] for a in (0, 1)}
    data |= {f"new{a}": new[:, a] for a in (0, 1)}
    named = {"logging_proba": ["mu0", "mu1"]} if whole else {}
    lazy = scan_logs(frame_of(data), **ROWS, **named, columns={"new": ["new0", "new1"]})
    memory = bare_logs(*rows, logging_proba=mu if whole else None)
    pair = (lazy, memory.with_columns(new=new))
    pair = (evaluate("new", logs, evaluators=["IPS"])["IPS"] for logs in pair)
    found, expected = (value.confidence_interval() for value in pair)
    assert found.max_weight >= expected.max_weight * (1 - 1e-12)
    assert found.max_weight_from == expected.max_weight_from != "largest logged weight"
    assert found.low <= expected.low + 1e-12 and found.high >= expected.high - 1e-12


def test_a_frame_that_changes_while_it_is_read(monkeypatch):
    narwhals, duckdb = (pytest.importorskip(one) for one in ("narwhals", "duckdb"))
    rows = pytest.importorskip("pyarrow").table(columns(30))
    base = duckdb.connect()
    base.execute("create table log as select * from rows")
    lazy = scan_logs(base.table("log"), **roles(groups=True))
    collect, asked = narwhals.LazyFrame.collect, []

    def counted(frame, *args, **kwargs):
        answer = collect(frame, *args, **kwargs)
        asked.append(frame)
        if len(asked) == 3:  # the sums, before those by group
            base.execute("insert into log select * from log limit 1")
        return answer

    monkeypatch.setattr(narwhals.LazyFrame, "collect", counted)
    with pytest.raises(RuntimeError, match="had 30 rows, and then 31: it changed"):
        evaluated(LOGGED, {"IPS": IPS()}, lazy)
    assert rows.num_rows == 30


def test_slates_and_groups_of_several_columns_are_refused():
    data = columns(30) | {"first": np.zeros(30, int), "second": np.ones(30, int)}
    lazy = lazy_of(polars_frame, data, {"group": ["group", "day"]})
    refused("group is labelled by several columns", lazy, error=TypeError)
    given = {"slate": ["first", "second"], "reward": "reward", "propensity": "p"}
    slates = scan_logs(polars_frame(data), n_candidates=3, **given)
    with pytest.raises(TypeError, match="slates cannot be summed inside a lazy frame"):
        evaluate(UniformSlatePolicy(2), slates)


def test_a_library_that_lacks_a_function_is_named(monkeypatch):
    narwhals = pytest.importorskip("narwhals")

    def lacking():
        raise NotImplementedError("'log' is not implemented for: polars.")

    lazy = found_lazy(columns(30))
    monkeypatch.setattr(narwhals, "len", lacking)
    with pytest.raises(TypeError, match=r"polars cannot .*'log' is not .* parquet"):
        evaluated({"one": "one"}, {"IPS": IPS()}, lazy)


@pytest.mark.parametrize("lam", [1e-12, 1e-3, 1.0])
def test_logarithms_keep_the_digits_of_small_numbers(lam):
    data, evaluators = columns(60), {"it": LogSmoothing(lam=lam)}
    lazy, logs = found_lazy(data), in_memory(data, roles())
    found, expected = (evaluated(LOGGED, evaluators, one) for one in (lazy, logs))
    assert_allclose(found["one", "it"].value, expected["one", "it"].value, rtol=1e-14)


@pytest.mark.few_cases(1)
@backends
@pytest.mark.parametrize("spread", [1.0, 1e-3])
def test_rewards_far_from_the_model_keep_their_spread(frame_of, spread):
    rng, n = np.random.default_rng(0), 1000
    action, pi = rng.integers(0, 2, n), rng.uniform(0.1, 0.9, n)
    rows = action, 1e6 + spread * rng.normal(size=n), np.full(n, 0.5)
    frame = dict(zip("arp", rows, strict=True)) | {"new_0": 1 - pi, "new_1": pi}
    lazy = scan_logs(frame_of(frame), **ROWS, columns={"new": ["new_0", "new_1"]})
    evaluators = {"SNDR": SNDR(reward_model=0.3), "SNIPS": SNIPS()}
    found = evaluate("new", lazy, evaluators=evaluators)
    policy = np.stack([1 - pi, pi], axis=1)
    exact = evaluate(policy, bare_logs(*rows), evaluators=evaluators)
    for name in evaluators:  # of a number the model changes nothing
        assert_allclose(found[name].value, exact["SNIPS"].value, rtol=1e-14)
        error = exact["SNIPS"].standard_error
        for one in (found[name], exact[name]):
            assert_allclose(one.standard_error, error, rtol=1e-10 / spread)


@backends
def test_models_of_one_call_have_their_own_extremes(frame_of):
    """How far a round may lie from an estimate is not that of another model."""
    lazy = lazy_of(frame_of, columns(40), {"reward_range": (0, 1)})
    models = {"column": "q", "low": 0.4, "high": 5.0}
    evaluators = {name: DoublyRobust(reward_model=m) for name, m in models.items()}
    together = evaluated({"one": "one"}, evaluators, lazy)
    for name, evaluator in evaluators.items():
        alone = evaluated({"one": "one"}, {name: evaluator}, lazy)
        pair = (table["one", name] for table in (together, alone))
        found, expected = (value.confidence_interval() for value in pair)
        assert_allclose((found.low, found.high), (expected.low, expected.high))


@backends
def test_a_list_of_one_column_is_a_table_of_one_action(frame_of):
    frame = {"a": ["x"] * 8, "r": [0.0, 1.0] * 4, "p": [1.0] * 8, "new_0": [1.0] * 8}
    named = {"new": ["new_0"], "pi": "new_0"}
    lazy = scan_logs(frame_of(frame), **ROWS, columns=named)
    evaluators = {"DR": DoublyRobust(reward_model=0.3)}
    found = evaluate("new", lazy, evaluators=evaluators)["DR"]
    assert_allclose(found.value, 0.5, rtol=1e-12)
    with pytest.raises(ValueError, match="all actions"):
        evaluate("pi", lazy, evaluators=evaluators)


@backends
def test_actions_that_are_moments_in_a_time_zone(frame_of):
    pa = pytest.importorskip("pyarrow")
    moments = np.array(["2026-01-01T23", "2026-01-02T00"], "datetime64[us]")[[0, 1] * 4]
    frame = {"r": [0.0, 1.0] * 4, "p": [0.5] * 8, "one": [0.8] * 8, "two": [0.2] * 8}
    table = pa.table(frame).append_column(
        "a", pa.array(moments).cast(pa.timestamp("us", "Europe/Berlin"))
    )
    if frame_of is polars_frame:
        data = pytest.importorskip("polars").from_arrow(table).lazy()
    else:
        data = pytest.importorskip("duckdb").from_arrow(table)
    lazy = scan_logs(data, **ROWS, columns={"new": ["one", "two"]})
    found = evaluate("new", lazy, evaluators=["IPS"])["IPS"]
    assert_allclose(found.value, 0.2, rtol=1e-12)
