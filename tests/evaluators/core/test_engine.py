# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import tracemalloc
import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    FunctionPolicy,
    UniformPolicy,
    evaluate,
)
from skope_ope.evaluators.core import _engine
from skope_ope.evaluators.core._engine import WEIGHTS, Job, run, terms_of
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import mean, ratio
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._target import Target
from skope_ope.exceptions import ModelErrorWarning, SupportWarning

pytestmark = pytest.mark.filterwarnings(
    "ignore::skope_ope.exceptions.ModelErrorWarning"
)


def make_arrays(n_rounds, n_actions=4, seed=0):
    rng = np.random.RandomState(seed)
    arrays = {
        "context": rng.rand(n_rounds, 2),
        "action": rng.randint(n_actions, size=n_rounds),
        "reward": rng.rand(n_rounds),
        "propensity": np.full(n_rounds, 1 / n_actions),
    }
    pi = rng.dirichlet(np.ones(n_actions), size=n_rounds)
    return arrays, pi, rng.rand(n_rounds, n_actions)


def values(table):
    return [number for v in table.values() for number in (v.value, v.standard_error)]


@pytest.mark.parametrize("change", ["float32", "fortran", "strided", "lists"])
def test_any_kind_of_table(change):
    arrays, pi, q_hat = make_arrays(300)
    pi, q_hat = (table.astype(np.float32).astype(float) for table in (pi, q_hat))
    logs = BanditLogs(**arrays)
    expected = values(evaluate(pi, logs, reward_model=q_hat))
    as_other = {
        "float32": lambda table: table.astype(np.float32),
        "fortran": np.asfortranarray,
        "strided": lambda table: np.repeat(table, 2, axis=1)[:, ::2],
        "lists": lambda table: table.tolist(),
    }[change]
    found = evaluate(as_other(pi), logs, reward_model=as_other(q_hat))
    assert_allclose(values(found), expected, rtol=1e-12)


def test_a_constant_model_is_not_expanded():
    arrays, pi, _ = make_arrays(300)
    logs = BanditLogs(**arrays)
    expected = evaluate(pi, logs, reward_model=np.full(pi.shape, 0.3))
    found = evaluate(pi, logs, reward_model=0.3)
    assert_allclose(values(found), values(expected), rtol=1e-12, atol=1e-15)


def test_integer_probabilities():
    arrays, _, q_hat = make_arrays(300)
    logs = BanditLogs(**arrays)
    greedy = np.eye(4, dtype=int)[q_hat.argmax(axis=1)]
    found = evaluate(greedy, logs, reward_model=q_hat)
    expected = evaluate(greedy.astype(float), logs, reward_model=q_hat)
    assert values(found) == values(expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_model_values_that_are_not_finite_are_named(bad):
    n_rounds = _engine.BLOCK + 100
    arrays, pi, q_hat = make_arrays(n_rounds)
    row = n_rounds - 3  # in the second block
    q_hat[row, 2] = bad
    with pytest.raises(
        ValueError, match=f"reward_model must be finite, got {bad} at row {row} "
    ):
        evaluate(pi, BanditLogs(**arrays), reward_model=q_hat)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (np.nan, "must sum to 1 over the actions, got nan"),
        (np.inf, "must sum to 1 over the actions, got inf"),
        (-0.5, "must not be negative, got -0.5"),
        (1.5, "must sum to 1 over the actions, got"),
    ],
)
@pytest.mark.parametrize("n_actions", [4, 40])
def test_faulty_probabilities_are_named(entry, message, n_actions):
    n_rounds = _engine.BLOCK + 100
    arrays, pi, _ = make_arrays(n_rounds, n_actions)
    row = n_rounds - 3
    pi[row, 2] = entry
    with pytest.raises(ValueError, match=f"policy {message}.* at row {row}"):
        evaluate(pi, BanditLogs(**arrays), reward_model=0.5)


@pytest.mark.parametrize("entry", [np.nan, -0.1, 1.1])
def test_faulty_probabilities_of_logged_actions_are_named(entry):
    arrays, pi, _ = make_arrays(50)
    logs = BanditLogs(**arrays)
    logged = pi[np.arange(50), arrays["action"]]
    logged[31] = entry
    with pytest.raises(ValueError, match=f"got {entry} at row 31"):
        evaluate(logged, logs, evaluators=["IPS"])


def test_mass_on_actions_that_were_never_logged():
    arrays, pi, q_hat = make_arrays(200)
    arrays["action"] = arrays["action"] % 3
    arrays["propensity"] = np.full(200, 1 / 3)
    logs = BanditLogs(**arrays, actions=[0, 1, 2, 3])
    with pytest.warns(SupportWarning) as caught:
        result = evaluate(pi, logs, reward_model=q_hat)["IPS"]
    assert_allclose(result.diagnostics["unsupported_mass"], pi[:, 3].mean())
    assert_allclose(caught[0].message.value, pi[:, 3].mean())
    assert logs._unseen.tolist() == [3]
    assert logs[:5]._unseen.tolist() == np.setdiff1d(range(4), logs.action[:5]).tolist()


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LowOverlapWarning")
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.PropensityWarning")
def test_missing_mass_is_weighted():
    """In all three ways in which it is known."""
    arrays, pi, _ = make_arrays(90)
    arrays["action"] = arrays["action"] % 3
    omega = np.random.RandomState(1).random_sample(90)
    rare = np.arange(90) % 3 == 0
    omega[rare] = 0
    arrays["action"][rare] = 3  # logged by rounds of weight zero alone
    mu = np.tile([0.3, 0.3, 0.4, 0.0], (90, 1))
    mu[rare] = 0.25
    own = mu[np.arange(90), arrays["action"]]
    certain = np.where(np.arange(90) % 3 == 1, 1.0, 0.5)
    logged = pi[np.arange(90), arrays["action"]]
    for fields, lost in (
        ({"propensity": np.full(90, 0.25)}, pi[:, 3]),
        ({"propensity": own, "logging_proba": mu}, pi[:, 3]),
        ({"propensity": certain}, np.where(certain == 1, 1 - logged, pi[:, 3])),
    ):
        logs = BanditLogs(**{**arrays, **fields}, actions=range(4))
        with pytest.warns(SupportWarning) as caught:
            result = IPS().fit(logs).evaluate(pi, sample_weight=omega)
        mass = omega @ lost / omega.sum()
        assert_allclose(result.diagnostics["unsupported_mass"], mass)
        assert_allclose(caught[0].message.value, mass)
        rows = np.flatnonzero(omega)
        with pytest.warns(SupportWarning):
            kept = IPS().fit(logs[rows]).evaluate(pi[rows], sample_weight=omega[rows])
        assert_allclose(kept.diagnostics["unsupported_mass"], mass)
        assert_allclose(result.effective_sample_size, kept.effective_sample_size)
    # rows of weight zero alone want what was never logged
    pi = np.where(rare[:, None], [0, 0, 0, 1.0], [0.5, 0.5, 0, 0])
    result = IPS().fit(logs).evaluate(pi, sample_weight=omega * (certain < 1))
    assert result.diagnostics["unsupported_mass"] == 0
    assert not any(isinstance(w, SupportWarning) for w in result.warnings)


class Recorder:
    """Observes which policies did what, and when."""

    def __init__(self):
        self.seen = []

    def begin(self, block):
        self.seen.append(("begin", block.low, block.high))

    def see(self, key, target):
        self.seen.append((key, target.block.low, target.table is not None))


class Watched(IPS):
    """Says when it is handed a block."""

    def __init__(self, seen):
        self.seen = seen

    cmax = None

    def _terms(self, rounds):
        self.seen.append("terms")
        return super()._terms(rounds)


@pytest.mark.parametrize("tables", [True, False])
def test_observers_see_every_block_before_the_jobs_do(monkeypatch, tables):
    monkeypatch.setattr(_engine, "BLOCK", 20)
    arrays, pi, _ = make_arrays(50)
    logs = BanditLogs(**arrays)
    recorder = Recorder()
    evaluator = Watched(recorder.seen)
    targets = Target(pi, logs), Target(UniformPolicy(), logs)
    jobs = [Job(evaluator, target, None) for target in targets]
    run(logs, jobs, PositiveRounds(logs), [recorder], tables=tables)
    a, b = map(id, targets)
    expected = []
    for low, high in ((0, 20), (20, 40), (40, 50)):
        # the second policy can tell what it does without a table
        of_second = (b, low, tables)
        expected += [("begin", low, high), (a, low, True), "terms", of_second, "terms"]
    assert recorder.seen == expected
    w = 4 * pi[np.arange(50), arrays["action"]]
    assert_allclose(Estimate(jobs[0].sums, mean).value, (w * arrays["reward"]).mean())


def test_offsets_are_for_terms_that_follow():
    arrays, pi, _ = make_arrays(50)
    arrays["reward"] = arrays["reward"] + 1e6
    logs = BanditLogs(**arrays)
    target = Target(pi, logs)
    jobs = [Job(one, target, None) for one in (IPS(), SNIPS())]
    run(logs, jobs, PositiveRounds(logs))
    assert jobs[0].sums.offset == jobs[0].offset == 0
    assert jobs[1].sums.offset == pytest.approx(1e6 + 0.5, abs=0.5)
    run(logs, [again := Job(SNIPS(), target, None)], PositiveRounds(logs), offset=7.0)
    assert again.sums.offset == 7
    found, expected = (Estimate(job.sums, ratio) for job in (jobs[1], again))
    assert found.value == pytest.approx(expected.value, rel=1e-13)


def test_terms_of_all_rounds():
    arrays, pi, _ = make_arrays(50)
    logs = BanditLogs(**arrays)
    found = terms_of(SNIPS(), logs, Target(pi, logs), None, PositiveRounds(logs))
    w = 4 * pi[np.arange(50), arrays["action"]]
    assert_allclose(found, [w * arrays["reward"], w])
    [weights] = terms_of(WEIGHTS, logs, Target(pi, logs), None, PositiveRounds(logs))
    assert_allclose(weights, w)


@pytest.mark.thorough
def test_many_actions_take_bounded_memory():
    """Nothing of rounds times actions is made where it is not needed."""
    n_rounds, n_actions = 1_000, 20_000
    logs = BanditLogs(
        np.zeros((n_rounds, 1)),
        np.arange(n_rounds),
        np.arange(n_rounds) % 2,
        np.full(n_rounds, 1 / n_actions),
        actions=np.arange(n_actions),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = IPS().fit(logs)
        alone = peak_mib(lambda: fitted.evaluate(UniformPolicy()))
        function = FunctionPolicy(
            lambda X: np.full((len(X), n_actions), 1 / n_actions)
        ).fit(logs)
        asked = peak_mib(lambda: fitted.evaluate(function))
    assert alone < 2
    assert asked < 8 * n_rounds * n_actions / 2**20 / 3  # a third of one table


def peak_mib(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_rounds():
    def evaluate_arrays(n_rounds):
        arrays, pi, q_hat = make_arrays(n_rounds, n_actions=10)
        first, second = BanditLogs(**arrays), BanditLogs(**arrays)
        evaluate(pi, first, reward_model=q_hat)
        return peak_mib(lambda: evaluate(pi, second, reward_model=q_hat))

    small, large = evaluate_arrays(200_000), evaluate_arrays(600_000)
    assert large < 8
    assert large < small + 0.5


@pytest.mark.parametrize("n_actions", [3, 500])
def test_a_policy_is_asked_for_chunks(n_actions):
    asked = []

    def uniform(X):
        asked.append(len(X))
        return np.full((len(X), n_actions), 1 / n_actions)

    n_rounds = 2 * _engine.BLOCK + 100
    arrays, _, _ = make_arrays(n_rounds, 3)
    logs = BanditLogs(**arrays, actions=np.arange(n_actions))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluate(FunctionPolicy(uniform), logs, reward_model=0.5)
    assert sum(asked) == n_rounds
    assert max(asked) <= max(_engine.BLOCK_ENTRIES // n_actions, _engine.BLOCK)


def test_the_direct_method_says_what_its_error_leaves_out():
    arrays, pi, q_hat = make_arrays(50)
    with pytest.warns(ModelErrorWarning):
        logs = BanditLogs(**arrays)
        evaluate(pi, logs, evaluators="DirectMethod", reward_model=q_hat)


few_rounds_of_many_actions = pytest.mark.filterwarnings(
    "ignore::skope_ope.exceptions.OPEWarning"
)


def _peak(call):
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def _logs_of_many_actions(n_rounds, n_actions):
    rng = np.random.default_rng(0)
    action = rng.integers(0, n_actions, n_rounds)
    p = np.full(n_rounds, 1 / n_actions)
    reward, actions = rng.random(n_rounds), np.arange(n_actions)
    return BanditLogs(np.zeros((n_rounds, 1)), action, reward, p, actions=actions)


@few_rounds_of_many_actions
def test_memory_does_not_follow_the_number_of_actions():
    logs = _logs_of_many_actions(3_000, 10_000)
    evaluator, action = IPS().fit(logs), int(logs.action[0])
    for policy in (ConstantPolicy(action), UniformPolicy()):
        assert _peak(partial(evaluator.score, policy)) < 8e6  # a table has 240e6 bytes


@few_rounds_of_many_actions
def test_a_block_has_a_bounded_number_of_entries():
    asked, n_actions = [], 10_000

    def uniform(X):
        asked.append(len(X))
        return np.full((len(X), n_actions), 1 / n_actions)

    logs = _logs_of_many_actions(1_000, n_actions)
    peak = _peak(lambda: IPS().fit(logs).score(FunctionPolicy(uniform)))
    assert sum(asked) == 1_000
    assert max(asked) * n_actions <= _engine.BLOCK_ENTRIES
    assert peak < 6 * 8 * _engine.BLOCK_ENTRIES


@few_rounds_of_many_actions
def test_many_actions_without_tables_take_blocks_of_many_rows():
    class Counting(ConstantPolicy):
        calls = 0

        def logged_proba(self, logs):
            type(self).calls += 1
            return super().logged_proba(logs)

        def mass_on(self, logs, codes):
            return super().mass_on(logs, codes)

    logs = _logs_of_many_actions(2_000, 10_000)
    IPS().fit(logs).score(Counting(int(logs.action[0])))
    assert Counting.calls == 1
