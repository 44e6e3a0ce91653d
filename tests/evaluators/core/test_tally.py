# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import IPS, BanditLogs, MultiLoggerIPS
from skope_ope.evaluators.core._positive_rounds import Part, PositiveRounds
from skope_ope.evaluators.core._tally import RoundCounts, Tally
from skope_ope.evaluators.parts._part_sums import sums_of_part

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


@pytest.fixture
def logs():
    rng = np.random.RandomState(0)
    n = 600
    mu = rng.dirichlet(np.ones(3), n) * 0.7 + 0.1
    action = (mu.cumsum(axis=1) > rng.rand(n, 1)).argmax(axis=1)
    logs = BanditLogs(
        np.zeros((n, 1)),
        np.array(["a", "b", "c"])[action],
        rng.randint(3, size=n) - 0.5,
        mu[np.arange(n), action],
        logger=rng.choice(["x", "y"], n),
        sample_weight=rng.choice([0.0, 1.0, 2.0], n),
    )
    return logs.with_columns(pi=rng.dirichlet(np.ones(3), n))


def summary_of(logs, evaluator=None):
    evaluator = IPS() if evaluator is None else evaluator
    found = sums_of_part({"pi": "pi"}, {"one": evaluator}, logs)
    return found.by_evaluator["one"].summary("pi")


def test_counts_are_those_of_rounds_of_positive_weight(logs):
    found = RoundCounts.of(PositiveRounds(logs, logs.sample_weight))
    enter = logs.sample_weight > 0
    assert found.n == enter.sum()
    for i, logger in enumerate("xy"):
        for j, action in enumerate("abc"):
            rows = (logs.logger == logger) & (logs.action == action) & enter
            assert found.counts[i, j] == rows.sum()
    reward = logs.reward[enter]
    assert found.reward_range == (reward.min(), reward.max())
    assert not found.unseen.any()


def test_counts_of_parts_meet_by_label(logs):
    first = RoundCounts.of(Part(logs))
    other = BanditLogs(np.zeros((2, 1)), ["b", "d"], [0, 9], actions=["b", "d"])
    found = first + RoundCounts.of(Part(other))
    assert found.actions == list("abcd")
    assert found.loggers == ["x", "y", None]
    assert found.counts[2].tolist() == [0, 1, 0, 1]
    assert found.counts[:2, :3].tolist() == first.counts.tolist()
    assert found.reward_range == (-0.5, 9.0)
    again = RoundCounts.from_table(found.to_table())
    assert again.to_table().keys() == found.to_table().keys()
    assert (again.n, again.mass, again.loggers) == (602, 602, ["x", "y", None])
    assert again.counts.tolist() == found.counts.tolist()
    by_logger = found.of_loggers()
    assert by_logger.actions == ["x", "y", None]
    assert by_logger.counts.sum() == 602


def test_a_tally_has_the_extremes_of_the_weights(logs):
    found = summary_of(logs).tally
    pi = logs.columns["pi"][np.arange(len(logs)), logs.action_index]
    enter = logs.sample_weight > 0
    w, omega = (pi / logs.propensity)[enter], logs.sample_weight[enter]
    assert_allclose(found.largest, [(omega * w).max()])
    assert found.lowest == 0
    reward = logs.reward[enter]
    assert found.reward_range == (reward.min(), reward.max())


def test_tallies_of_parts_add_up(logs):
    evaluator = MultiLoggerIPS()
    parts = [logs[logs.logger == "y"], logs[logs.logger == "x"]]
    parts = [summary_of(part, evaluator).tally for part in parts]
    found, whole = parts[0] + parts[1], summary_of(logs, evaluator).tally
    assert found.loggers == whole.loggers == ["x", "y"]
    assert_allclose(found.largest, whole.largest)
    assert (found.lowest, found.reward_range) == (whole.lowest, whole.reward_range)


def test_a_table_holds_all_of_it(logs, tmp_path):
    found = summary_of(logs[logs.action != "b"], MultiLoggerIPS()).tally
    np.savez(tmp_path / "tally.npz", **found.to_table())
    with np.load(tmp_path / "tally.npz", allow_pickle=False) as table:
        read = Tally.from_table(table)
    assert vars(read).keys() == vars(found).keys()
    for name, value in vars(found).items():
        one, other = (np.asarray(v).tolist() for v in (getattr(read, name), value))
        assert one == other, name
    assert_allclose((read + found).told, 2 * found.told)


def missing_of(parts, evaluator):
    found = sum(sums_of_part({"pi": "pi"}, {"one": evaluator}, p) for p in parts)
    return found.by_evaluator["one"].summary("pi").overlap.missing_mass


@pytest.mark.parametrize("evaluator", [IPS(), MultiLoggerIPS()])
def test_missing_mass_of_actions_that_were_never_logged(logs, evaluator):
    rare = logs[logs.action != "b"]
    result = evaluator.fit(rare).evaluate("pi")
    lacking = [rare.action == "a", rare.action == "c"]  # each lacks another one
    for parts in ([rare], [rare[rows] for rows in lacking]):
        found = missing_of(parts, evaluator)
        assert found > 0.1
        assert_allclose(found, result.diagnostics["unsupported_mass"])


def test_missing_mass_of_known_loggers(logs):
    n = len(logs)
    mu = np.full((n, 3), 0.5)
    mu[np.arange(n), (logs.action_index + 1) % 3] = 0.0
    certain = logs.propensity.copy()
    certain[::2] = 1.0
    for some in (
        logs.replace(propensity=np.full(n, 0.5), logging_proba=mu),
        logs.replace(propensity=certain),
    ):
        result = IPS().fit(some).evaluate("pi")
        found = missing_of([some[:100], some[100:]], IPS())
        assert found > 0.1
        assert_allclose(found, result.diagnostics["unsupported_mass"])
