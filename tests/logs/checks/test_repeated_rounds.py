# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Copies of rounds are told from rounds that are alike by chance."""

import numpy as np
import pytest
from scipy import sparse

from skope_ope import (
    BanditLogs,
    PropensityEstimator,
    SlateLogs,
    UniformSlatePolicy,
    audit,
)
from skope_ope.exceptions import LogsWarning
from skope_ope.logs.checks import _joined_rows
from tests.logs.checks._found import softmax

N = 3000
TEST = "repeated choices"
SHARE = "rounds equal to an earlier one in all fields"


def repeated_findings(logs):
    """Facts of an audit, and what it finds of this kind."""
    told = audit(logs)
    return told.facts, [one for one in told.findings if one.name == "repeated_rounds"]


def softmax_rounds(seed, n_rounds=N, scale=1.0, n_actions=4, context=None):
    """Columns of a log: context, action, reward, propensity."""
    rng = np.random.RandomState(seed)
    x = rng.normal(size=(n_rounds, 4)) if context is None else context(rng, n_rounds)
    weights = np.random.RandomState(0).normal(size=(x.shape[1], n_actions))
    return drawn_rounds(x, softmax(x @ weights * scale), rng, 0.2)


def drawn_rounds(x, mu, rng, rate):
    action = (mu.cumsum(axis=1) < rng.random_sample((len(x), 1))).sum(axis=1)
    action = np.minimum(action, mu.shape[1] - 1)
    rate = rate + 0.2 * (action == 0)
    reward = (rng.random_sample(len(x)) < rate).astype(float)
    return x, action, reward, mu[np.arange(len(x)), action]


def logs_of(columns, rows=slice(None), **fields):
    fields = {name: np.asarray(values)[rows] for name, values in fields.items()}
    return BanditLogs(*(column[rows] for column in columns), **fields)


def flags(rng, n_rounds):
    return rng.randint(2, size=(n_rounds, 5)).astype(float)


def users(rng, n_rounds):
    return rng.normal(size=(n_rounds // 5, 4))[rng.randint(n_rounds // 5, size=N)]


@pytest.mark.few_cases
@pytest.mark.parametrize("scale", [1, 3])
@pytest.mark.parametrize("fault", ["a fifth", "all"])
def test_copies_are_seen(fault, scale):
    for seed in range(2):
        m = N // 2 if fault == "all" else N * 5 // 6
        columns = softmax_rounds(seed, m, scale)
        more = np.arange(m)
        if fault == "a fifth":
            more = np.random.RandomState(seed).choice(m, N - m, replace=False)
        facts, [found] = repeated_findings(logs_of(columns, np.append(range(m), more)))
        assert found.name == "repeated_rounds"
        assert found.is_alarm
        assert found.effect == pytest.approx((N - m) / N, rel=0.02)
        assert facts[SHARE] == pytest.approx((N - m) / N)


def test_many_copies_are_an_error_and_few_a_warning():
    columns = softmax_rounds(0, N // 2)
    for share, severity in ((1.0, "error"), (0.15, "error"), (0.05, "warning")):
        more = np.arange(int(share * N // 2))
        logs = logs_of(columns, np.append(range(N // 2), more))
        assert repeated_findings(logs)[1][0].severity == severity
    # one draw that served several rounds: their rewards differ
    twice = logs_of(columns, np.tile(np.arange(N // 2), 2))
    other = twice.replace(reward=np.random.default_rng(0).normal(size=len(twice)))
    assert repeated_findings(other)[1][0].severity == "warning"


def n_alarms(context, scale, n_actions, n_logs):
    logs = (
        logs_of(softmax_rounds(s, N, scale, n_actions, context)) for s in range(n_logs)
    )
    return sum(len(_joined_rows.repeated_findings(one)[1]) for one in logs)


@pytest.mark.parametrize("context", [None, flags, users], ids=["new", "flags", "users"])
def test_right_logs_are_quiet(context):
    assert n_alarms(context, 1, 4, 4) == n_alarms(context, 3, 40, 2) == 0


@pytest.mark.theory
@pytest.mark.parametrize("n_actions", [2, 4, 300])
@pytest.mark.parametrize("scale", [0, 1, 3])
@pytest.mark.parametrize("context", [None, flags, users], ids=["new", "flags", "users"])
def test_right_logs_are_quiet_in_many_worlds(context, scale, n_actions):
    assert n_alarms(context, scale, n_actions, 100) == 0


def test_what_the_finding_says():
    columns = softmax_rounds(0, 1000)
    logs = logs_of(columns, np.append(np.arange(1000), np.arange(500)))
    _, [found] = repeated_findings(logs)
    assert found.rows == (0, 1000, 1, 1001, 2, 1002, 3, 1003, 4, 1004)
    assert "500 of 1,500 rounds looked at repeat" in found.found
    assert "as if 33% of all rounds were copies" in found.found
    assert "500 of them equal an earlier round in all fields" in found.found
    assert "joined twice" in found.advice[0]
    assert found.advice[-1].endswith("use SlateLogs.")
    assert found.category is LogsWarning
    # one draw for three rounds of a visit, whose rewards differ
    visits = np.repeat(np.arange(1000), 3)
    spent = np.random.RandomState(0).gamma(1, size=3000)
    x, action, _, p = (column[visits] for column in columns)
    _, [found] = repeated_findings(BanditLogs(x, action, spent, p))
    assert "None of them equals an earlier round" in found.found
    assert "group=" in found.advice[0]


def test_rounds_of_a_user_may_repeat_a_choice():
    user = np.repeat(np.arange(600), 5)
    columns = [column[user] for column in softmax_rounds(0, 600)]
    facts, found = repeated_findings(logs_of(columns, group=user))
    assert not any(one.is_alarm for one in found)
    assert facts[TEST].startswith("not possible: rounds of a group")
    told = "copies look alike; pass timestamp=... if you have it"
    assert facts[TEST].endswith(told)
    # at other times they are other rounds, at the same time they are copies
    time = np.arange(3000)
    facts, found = repeated_findings(logs_of(columns, group=user, timestamp=time))
    assert found == []
    assert facts[TEST] == "no context occurs twice in a group at one time"
    rows = np.append(time, time[:800])
    logs = logs_of(columns, rows, group=user, timestamp=time)
    _, [found] = repeated_findings(logs)
    assert found.is_alarm
    assert found.effect == pytest.approx(800 / 3800, rel=0.02)


def of_another_action(seed, n_rounds=N):
    """Rounds of a logger of three actions with the propensities of another action."""
    rng = np.random.RandomState(seed)
    x = np.column_stack([rng.randint(18, 70, n_rounds), rng.randint(24, size=n_rounds)])
    logits = (x - x.mean(axis=0)) / x.std(axis=0) @ [[1.0, -0.5, 0.2], [0.3, 0.8, -1]]
    mu = softmax(logits)
    x, action, reward, right = drawn_rounds(x.astype(float), mu, rng, 0.1)
    wrong = mu[np.arange(n_rounds), (action + 1) % 3]
    return (x, action, reward, right), (x, action, reward, wrong)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_wrong_propensities_are_no_copies():
    for seed in range(2):
        right, wrong = of_another_action(seed)
        assert repeated_findings(logs_of(right))[1] == []
        [found] = repeated_findings(logs_of(wrong))[1]
        assert not found.is_alarm
        assert "do not fit the logged actions" in found.found
        assert found.number > 5
        again = np.append(np.arange(N), np.random.RandomState(seed).choice(N, N // 4))
        [found] = repeated_findings(logs_of(right, again))[1]
        assert found.is_alarm


def test_loggers_that_are_tested_and_that_are_not():
    rng = np.random.RandomState(0)
    x = rng.normal(size=(1500, 2))[rng.randint(1500, size=2000)]
    logger = rng.randint(2, size=2000)
    chance = np.where(logger == 0, 0.7, 0.3)
    action = (rng.random_sample(2000) < chance).astype(int)
    p = np.where(action == 1, chance, 1 - chance)
    facts, found = repeated_findings(BanditLogs(x, action, action, p, logger=logger))
    assert found == []
    assert "expected" in facts[TEST]
    facts, found = repeated_findings(BanditLogs(x, action, action, p))
    assert found == []
    assert facts[TEST].startswith("not possible: the propensities of the same action")
    # a logger that learns is not tested
    # probabilities of a context without features move from even to sharp
    rng = np.random.RandomState(0)
    sharp = np.linspace(0.01, 0.9, 40)
    action = (rng.random_sample(40) < sharp).astype(int)
    p = np.where(action == 1, sharp, 1 - sharp)
    facts, found = repeated_findings(BanditLogs(np.zeros((40, 1)), action, action, p))
    assert found == []
    assert "a logger that learns" in facts[TEST]
    # few discrete contexts tell nothing and the facts say so
    columns = softmax_rounds(0, 2500, 1, 4, flags)
    copies = np.random.RandomState(0).choice(2500, 500, replace=False)
    for rows in (np.arange(2500), np.append(np.arange(2500), copies)):
        facts, found = repeated_findings(logs_of(columns, rows))
        assert found == []
        assert facts[TEST].startswith("not possible: the contexts are few")


def test_without_known_propensities_copies_are_noted():
    columns = softmax_rounds(0, 800)
    rows = np.append(np.arange(800), np.arange(200))
    bare = logs_of(columns[:3], rows)
    estimated = PropensityEstimator().fit_transform(bare)
    for logs, why in ((bare, "there are no propensities"), (estimated, "estimates")):
        facts, [found] = repeated_findings(logs)
        assert not found.is_alarm
        assert why in facts[TEST]
        assert found.found.startswith("20.0% of the rounds equal an earlier one")
        assert found.rows[:2] == (0, 800)
    certain = bare.replace(propensity=np.ones(1000))
    facts, [found] = repeated_findings(certain)
    assert not found.is_alarm
    assert facts[TEST].startswith("not possible: no choice was left")
    # contexts that come back with other actions are no copies
    for context in (flags, lambda rng, n: users(rng, N)[:n]):
        logs = logs_of(softmax_rounds(0, N, 1, 4, context)[:3])
        assert repeated_findings(logs)[1] == []


def test_slates():
    rng = np.random.RandomState(0)
    slate = rng.rand(2000, 30).argsort(axis=1)[:, :3]
    rows = np.append(np.arange(2000), np.arange(200))
    for context in (np.zeros((2000, 1)), rng.normal(size=(2000, 2))):
        recorded = {"propensity": 1 / (30 * 29 * 28)}
        for fields in (recorded, {"logging_policy": UniformSlatePolicy(3)}):
            right, wrong = (
                SlateLogs(context[k], slate[k], 0 * k + 1.0, n_candidates=30, **fields)
                for k in (rows[:2000], rows)
            )
            assert repeated_findings(right)[1] == []
            _, [found] = repeated_findings(wrong)
            assert found.effect == pytest.approx(200 / 2200, rel=0.1)
            assert not any("SlateLogs" in one for one in found.advice)
    facts, found = repeated_findings(SlateLogs(np.zeros((2000, 1)), slate, slate[:, 0]))
    assert found == []
    assert facts[TEST] == "not possible: there are no propensities"


@pytest.mark.parametrize(
    "logs",
    [
        BanditLogs([[0.0]], [0], [1.0], [1.0]),
        BanditLogs(np.zeros((50, 1)), np.zeros(50), np.zeros(50), np.ones(50)),
        BanditLogs(np.zeros((50, 0)), np.arange(50), np.zeros(50), np.full(50, 0.02)),
        BanditLogs(np.full((50, 2), np.nan), ["a", "b"] * 25, np.zeros(50), [0.5] * 50),
        BanditLogs(sparse.eye(50, format="csr"), [0] * 50, np.zeros(50), [1.0] * 50),
        BanditLogs(np.eye(50), np.arange(50), np.ones(50), actions=np.arange(10**5)),
        SlateLogs(np.zeros((1, 0)), [[-1]], [0.0], n_candidates=1),
    ],
    ids=str,
)
def test_any_legal_log(logs):
    facts, found = repeated_findings(logs)
    assert found == []
    assert 0 <= facts[SHARE] < 1
    assert facts[TEST]


# -- copies with their timestamps, and of rounds with a reward -------------------------
def appended(columns, more, times=None, **fields):
    """Logs with copies of some rows at the end, times included."""
    rows = np.append(np.arange(len(columns[0])), more).astype(int)
    if times is not None:
        fields["timestamp"] = times
    return logs_of(columns, rows, **fields)


def copies_found(logs):
    return _joined_rows.repeated_findings(logs)[1]


@pytest.mark.few_cases
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    ("share", "severity"), [(0.01, "warning"), (0.06, "error"), (0.001, None)]
)
def test_copies_with_their_timestamps_are_seen(share, severity, grouped):
    for seed in range(5):
        for context in (None, flags, users):
            columns = softmax_rounds(seed, N, 1, 4, context)
            rng = np.random.default_rng(seed)
            more = rng.choice(N, int(share * N), replace=False)
            times = np.sort(rng.uniform(0, 86_400, N))
            about = {"group": np.arange(N) // 5} if grouped else {}
            found = copies_found(appended(columns, more, times, **about))
            assert [one.severity for one in found] == ([severity] if severity else [])
            assert copies_found(appended(columns, [], times, **about)) == []


@pytest.mark.few_cases
@pytest.mark.parametrize("share", [0.05, 0.2])
def test_copies_of_rewarded_rounds_are_an_error(share):
    for seed in range(5):
        columns = softmax_rounds(seed)
        rewarded = np.flatnonzero(columns[2])
        rng = np.random.default_rng(seed)
        more = rng.choice(rewarded, min(int(share * N), len(rewarded)), replace=False)
        for times in (None, np.arange(N) * 1.5):
            [found] = copies_found(appended(columns, more, times))
            assert found.severity == "error"
            assert "rounds with a reward are counted twice" in found.found


def second_times(rng, per_second):
    return np.sort(rng.integers(0, int(N / per_second), N))


@pytest.mark.few_cases
@pytest.mark.parametrize("context", [None, flags, users, "blank"])
@pytest.mark.parametrize("rate", [0.02, 0.8])
def test_right_logs_have_no_copies(context, rate):
    blank = context == "blank"
    for seed in range(20):
        rng = np.random.default_rng(seed)
        given = (lambda rng, n: np.zeros((n, 1))) if blank else context
        x, action, _, p = softmax_rounds(seed, N, 1, 4, given)
        reward = (rng.random(N) < rate).astype(float)
        columns = x, action, reward, p
        for times in (None, second_times(rng, 0.5), second_times(rng, 1.4)):
            found = copies_found(appended(columns, [], times))
            assert not any(one.is_alarm for one in found)
