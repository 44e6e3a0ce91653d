# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""An audit of any legal log tells what it can; other input gets a clear error."""

import json
import time
import warnings

import numpy as np
import pytest
from scipy import sparse

from skope_ope import (
    BanditLogs,
    LinUCB,
    PropensityEstimator,
    SlateLogs,
    UniformPolicy,
    UniformSlatePolicy,
    audit,
)
from skope_ope.datasets import make_bandit_logs, make_slate_logs

N = 300
RNG = np.random.RandomState(0)
X = RNG.standard_normal((N, 3))
CODES = RNG.randint(3, size=N)
ITEMS = np.array(["a", "b", "c"])[CODES]
REWARD = (RNG.uniform(size=N) < 0.3).astype(float)
THIRD = np.full(N, 1 / 3)
SERVER = np.array(["x", "y"])[RNG.randint(2, size=N)]
DAYS = np.datetime64("2026-01-01") + np.arange(N) // 30
THIRDS = np.full((N, 3), 1 / 3)
FIELDS = {"group": np.arange(N) // 5, "timestamp": DAYS, "logger": SERVER}
FIELDS["logging_proba"] = THIRDS


def logs_of(context=X, action=ITEMS, reward=REWARD, propensity=THIRD, **fields):
    return BanditLogs(context, action, reward, propensity, **fields)


def of_frame(library):
    frames = pytest.importorskip(library)
    pytest.importorskip("narwhals")
    columns = {
        "age": [None if i % 7 == 0 else float(i % 50) for i in range(N)],
        "city": [None if i % 11 == 0 else f"city {i % 5}" for i in range(N)],
        "id": [f"user {i}" for i in range(N)],
        "new": [i % 2 == 0 for i in range(N)],
        "day": DAYS.astype("M8[us]"),
    }
    make = frames.table if library == "pyarrow" else frames.DataFrame
    return logs_of(make(columns))


def categories():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    cities = pandas.Categorical([f"city {i % 5}" for i in range(N)])
    return logs_of(pandas.DataFrame({"city": cities, "mixed": [1, "x", None] * 100}))


LEGAL = {
    "one row": lambda: logs_of()[:1],
    "one row without features": lambda: BanditLogs(np.empty((1, 0)), [0], [0.0]),
    "two rows": lambda: logs_of()[:2],
    "no rewards": lambda: logs_of(reward=np.zeros(N)),
    "one reward": lambda: logs_of(reward=np.eye(N)[0]),
    "equal rewards": lambda: logs_of(reward=np.full(N, 3.5)),
    "huge rewards": lambda: logs_of(reward=1e300 * (REWARD - 0.5)),
    "tiny rewards": lambda: logs_of(reward=1e-310 * REWARD),
    "one action": lambda: logs_of(action=["a"] * N, propensity=np.ones(N)),
    "one action, p below 1": lambda: logs_of(action=["a"] * N, propensity=[0.5] * N),
    "unseen actions": lambda: logs_of(actions=list("abcdefg")),
    "an action per row": lambda: logs_of(action=np.arange(N), propensity=[1 / N] * N),
    "numbers as actions": lambda: logs_of(action=CODES * 0.5),
    "tuples as actions": lambda: logs_of(action=tuples(CODES), propensity=THIRD),
    "no features": lambda: logs_of(np.empty((N, 0))),
    "constant features": lambda: logs_of(np.ones((N, 4))),
    "missing features": lambda: logs_of(np.where(X > 1, np.nan, X)),
    "only missing features": lambda: logs_of(np.full((N, 2), np.nan)),
    "infinite features": lambda: logs_of(np.where(X > 1, np.inf, X)),
    "huge features": lambda: logs_of(X * 1e300),
    "whole numbers": lambda: logs_of(RNG.randint(5, size=(N, 3)).astype(np.int8)),
    "booleans": lambda: logs_of(X > 0),
    "more columns than rows": lambda: logs_of(RNG.standard_normal((N, 500))),
    "sparse": lambda: logs_of(sparse.random(N, 40, 0.1, "csr", random_state=0)),
    "sparse and wide": lambda: logs_of(hashed(30_000)),
    "sparse and empty": lambda: logs_of(sparse.csr_matrix((N, 7))),
    "sparse whole numbers": lambda: logs_of(sparse.csr_matrix(X > 1).astype(np.int64)),
    "pandas": lambda: of_frame("pandas"),
    "polars": lambda: of_frame("polars"),
    "pyarrow": lambda: of_frame("pyarrow"),
    "categories": categories,
    "without propensities": lambda: logs_of(propensity=None),
    "estimated propensities": lambda: PropensityEstimator().fit_transform(logs_of()),
    "least propensities": lambda: logs_of(propensity=[2.3e-308] * N),
    "certain propensities": lambda: logs_of(propensity=np.ones(N)),
    "whole distributions": lambda: logs_of(logging_proba=THIRDS, propensity=None),
    "loggers": lambda: logs_of(logger=SERVER),
    "loggers of one row each": lambda: logs_of(logger=np.arange(N)),
    "known loggers": lambda: logs_of(logger=SERVER, logger_proba=THIRDS[:, :2]),
    "groups": lambda: logs_of(group=np.arange(N) // 5),
    "one group": lambda: logs_of(group=["u"] * N),
    "groups of tuples": lambda: logs_of(group=tuples(np.arange(N) // 5)),
    "weights": lambda: logs_of(sample_weight=RNG.uniform(0, 2, N)),
    "one weight": lambda: logs_of(sample_weight=np.eye(N)[3]),
    "times": lambda: logs_of(timestamp=DAYS),
    "one time": lambda: logs_of(timestamp=np.zeros(N)),
    "times backwards": lambda: logs_of(timestamp=-np.arange(N)),
    "offered actions": lambda: logs_of(available=THIRDS > 0, action_context=np.eye(3)),
    "a known range": lambda: logs_of(reward_range=(0, 5)),
    "everything": lambda: logs_of(sample_weight=RNG.uniform(1, 2, N), **FIELDS),
    "repeated rows": lambda: logs_of()[np.zeros(N, dtype=int)],
    "shuffled rows": lambda: logs_of()[RNG.permutation(N)],
}


def hashed(n_columns):
    """Return 20 entries a row, somewhere."""
    places = (np.repeat(np.arange(N), 20), RNG.randint(n_columns, size=20 * N))
    return sparse.csr_matrix((np.ones(20 * N), places), shape=(N, n_columns))


def tuples(codes):
    labels = np.empty(len(codes), dtype=object)
    labels[:] = [("k", int(code)) for code in codes]
    return labels


def check_tells(found):
    """Raise unless all forms of an audit can be shown, and hold plain numbers."""
    text, page = str(found), found._repr_html_()
    assert text.startswith("Audit: ")
    assert "nan" not in text.split()
    assert page.startswith('<div class="skope-ope">')
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["ok"] == found.ok
    for one in found.findings:
        numbers = one.text.split()
        assert not {"nan", "inf", "-inf", "+inf", "nan%", "inf%"} & set(numbers)


QUIET = (
    "one row|two rows|one reward|unseen actions|numbers as actions|tuples as actions|"
    "no features|constant features|missing features|whole numbers|booleans|sparse|"
    "sparse and wide|pandas|polars|pyarrow|without propensities|estimated propensities|"
    "whole distributions|loggers|known loggers|groups|weights|offered actions"
)


@pytest.mark.few_cases(16)
@pytest.mark.parametrize("name", LEGAL)
def test_legal_logs_are_audited_and_raise_no_alarm_where_they_are_right(name):
    logs = LEGAL[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what there is to say is in the findings
        alone, found = audit(logs), audit(UniformPolicy(), logs)
    for one in (alone, found):
        assert one.facts["rounds"] == len(logs)
        check_tells(one)
    assert not (name in QUIET.split("|") and alone.alarms)


def test_the_logs_are_left_as_they_were():
    logs = LEGAL["everything"]()
    fields = "action", "reward", "propensity", "sample_weight", "timestamp"
    before = {name: np.copy(getattr(logs, name)) for name in ("context", *fields)}
    audit(UniformPolicy(), logs)
    for name, values in before.items():
        np.testing.assert_array_equal(getattr(logs, name), values)
    # the same seed tells the same
    one, other = (audit(UniformPolicy(), logs, random_state=3) for _ in range(2))
    assert one.to_dict() == other.to_dict()
    with pytest.raises(ValueError, match="seed"):
        audit(logs, random_state="x")


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("kind", ["codes", "texts", "without propensities"])
def test_a_hundred_thousand_actions_take_seconds(kind):
    n_actions, n_rounds = 100_000, 20_000
    codes, reward = RNG.randint(n_actions, size=n_rounds), RNG.uniform(size=n_rounds)
    labels = np.arange(n_actions).astype(str if kind == "texts" else int)
    p = None if kind == "without propensities" else np.full(n_rounds, 1 / n_actions)
    context = RNG.standard_normal((n_rounds, 3))
    logs = BanditLogs(context, labels[codes], reward < 0.1, p, actions=labels)
    start = time.process_time()
    found = audit(logs)
    assert time.process_time() - start < 5
    assert found.facts["number of actions"] == n_actions
    assert found.alarms == ()
    check_tells(found)
    assert len(str(found)) < 20_000  # nobody reads a hundred thousand lines


SLATES = {
    "slates": lambda: make_slate_logs(n_rounds=N, random_state=0),
    "one slate": lambda: make_slate_logs(n_rounds=N, random_state=0)[:1],
    "without a logger": lambda: SlateLogs(X, RNG.randint(5, size=(N, 2)), REWARD),
    "no features": lambda: SlateLogs(np.empty((N, 0)), [[0, 1]] * N, np.zeros(N)),
    "groups": lambda: SlateLogs(X, [[0, 1]] * N, REWARD, group=np.arange(N) // 5),
}


@pytest.mark.parametrize("build", SLATES.values(), ids=SLATES)
def test_slates_are_audited(build):
    logs = build()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        audits = audit(logs), audit(UniformSlatePolicy(logs.n_slots), logs)
    for found in audits:
        assert found.facts["rounds"] == len(logs)
        check_tells(found)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ((logs_of(), UniformPolicy()), TypeError, "Policies come before"),
        ((logs_of(), logs_of()), TypeError, "Policies come before logs"),
        ((UniformPolicy(),), TypeError, r"SlateLogs or Lazy.*or audit\(logs\) without"),
        ((UniformPolicy(), X), TypeError, "logs must be .* got ndarray"),
        ((None,), TypeError, "logs must be BanditLogs, SlateLogs or Lazy"),
        (("log.csv",), TypeError, "logs must be .* got str"),
        ((logs_of()[:0],), ValueError, "are empty: audit needs at least one round"),
        ((np.full((5, 3), 1 / 3), logs_of()), ValueError, r"shape \(5, 3\)"),
        ((np.ones((N, 2)) / 2, logs_of()), ValueError, r"\(300, 2\)"),
        ((np.ones((N, 3)), logs_of()), ValueError, "must sum to 1"),
        ((-np.ones((N, 3)), logs_of()), ValueError, "must not be negative"),
        ((np.full((N, 3), np.nan), logs_of()), ValueError, "got nan"),
        (("nope", logs_of()), ValueError, "nope"),
        ((LinUCB(), logs_of()), TypeError, "LinUCB learns while it acts"),
        ((3, logs_of()), TypeError, "int"),
        ((UniformSlatePolicy(2), logs_of()), TypeError, "UniformSlatePolicy"),
    ],
)
def test_bad_arguments_say_what_is_wrong(asked, error, message):
    with pytest.raises(error, match=message):
        audit(*asked)


def test_the_two_calls_and_the_method_agree():
    policy, logs = UniformPolicy(), make_bandit_logs(N, random_state=0)
    alone, both = audit(logs), audit(policy, logs)
    assert alone.to_dict() == logs.audit().to_dict()
    assert alone.to_dict() == audit(logs, random_state=0).to_dict()
    assert both.to_dict() == logs.audit(policy).to_dict()
    assert alone.facts.keys() < both.facts.keys()
    with pytest.raises(TypeError, match="Policies come before logs"):
        logs.audit(logs)
