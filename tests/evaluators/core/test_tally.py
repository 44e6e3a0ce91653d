# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import IPS, SNIPS, BanditLogs, MultiLoggerIPS
from skope_ope.evaluators.core._positive_rounds import Part
from skope_ope.evaluators.core._tally import NAMES, Tally, bins_of, edges_of

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


def arrays(logs):
    """Weights, rewards and sample weights of the rounds that count."""
    pi = logs.columns["pi"][np.arange(len(logs)), logs.action_index]
    enter = logs.sample_weight > 0
    w = pi / logs.propensity
    return w[enter], logs.reward[enter], logs.sample_weight[enter]


def tally_of(logs, evaluator=None):
    evaluator = IPS() if evaluator is None else evaluator
    return evaluator.fit(logs)._summary("pi", logs).tally


def test_counts_events_and_largest_terms_by_hand():
    logs = BanditLogs(
        np.zeros((4, 1)), [0, 1, 1, 0], [3.0, 0, 2, 0], [0.5, 0.25, 0.5, 0.5]
    )
    found = tally_of(logs.with_columns(pi=np.tile([0.5, 0.5], (4, 1))))
    assert (found.n, found.loggers, found.actions) == (4, [None], [0, 1])
    assert found.counts.tolist() == [[2, 2]]
    assert found.largest == {"weights": 2.0, "weighted_rewards": 3.0}
    assert_allclose(found.rewarded_events, 5**2 / (3**2 + 2**2))
    assert_allclose(found.unrewarded_events, 3**2 / (2**2 + 1**2))
    assert found.reward_range == (0.0, 3.0)


def test_a_tally_is_that_of_the_arrays(logs):
    found = tally_of(logs)
    w, r, omega = arrays(logs)
    enter = logs.sample_weight > 0
    assert (found.n, found.mass) == (enter.sum(), omega.sum())
    for i, logger in enumerate("xy"):
        for j, action in enumerate("abc"):
            rows = (logs.logger == logger) & (logs.action == action) & enter
            assert found.counts[i, j] == rows.sum()
    assert_allclose(found.largest["weights"], w.max())
    assert_allclose(found.largest["weighted_rewards"], abs(w * r).max())
    gain = omega * abs(w * r)
    assert_allclose(found.rewarded_events, gain.sum() ** 2 / (gain @ gain))
    assert_allclose(found.wanted, omega @ logs.columns["pi"][enter])


def test_quantiles_are_right_within_a_bin(logs):
    found = tally_of(logs)
    w, r, omega = arrays(logs)
    for name, values in zip(NAMES, (w, abs(w * r)), strict=True):
        order = np.argsort(values)
        total = omega[order].cumsum() / omega.sum()
        for q in (0.0, 0.1, 0.5, 0.9, 0.99, 1.0):
            exact = values[order][np.searchsorted(total, q - 1e-12)]
            near = found.quantile(name, q)
            assert near <= exact <= near * (1 + 1 / 64)
    assert np.isnan(Tally(Part(logs)).quantile("weights", 0.5))


def test_bins_are_narrow_and_rise():
    size = np.sort(np.random.RandomState(1).lognormal(sigma=8, size=1000))
    bins = bins_of(np.append(0.0, size))
    assert (np.diff(bins) >= 0).all()
    low, high = edges_of(bins[1:]), edges_of(bins[1:] + 1)
    assert (low <= size).all() and (size < high).all()
    assert (high / low).max() <= 1 + 1 / 64
    assert edges_of(bins[:1]) == 0


def test_tallies_add_up(logs):
    evaluator = MultiLoggerIPS().fit(logs)
    parts = [logs[logs.logger == "y"], logs[logs.logger == "x"]]
    parts = [evaluator._summary("pi", part).tally for part in parts]
    found, whole = parts[0] + parts[1], evaluator._summary("pi", logs).tally
    with pytest.raises(TypeError, match="unsupported operand"):
        whole + 1
    assert (found.n, found.loggers, found.actions) == (whole.n, ["x", "y"], list("abc"))
    assert_allclose(found.counts, whole.counts)
    assert_allclose(found.wanted, whole.wanted)
    assert_allclose(found.rewarded_events, whole.rewarded_events)
    assert_allclose(found.unrewarded_events, whole.unrewarded_events)
    assert (found.largest, found.reward_range) == (whole.largest, whole.reward_range)
    for name in NAMES:
        for one, other in zip(
            found.histograms[name], whole.histograms[name], strict=True
        ):
            assert_allclose(one, other)


def test_logs_with_other_actions_meet_by_label(logs):
    first = Tally(Part(logs))
    other = BanditLogs(np.zeros((2, 1)), ["b", "d"], [0, 1], actions=["b", "d"])
    found = first + Tally(Part(other))
    assert found.actions == list("abcd")
    assert found.loggers == ["x", "y", None]
    assert found.counts[2].tolist() == [0, 1, 0, 1]
    assert found.counts[:2, :3].tolist() == first.counts.tolist()


def test_a_table_holds_all_of_it(logs, tmp_path):
    found = tally_of(logs, SNIPS())
    np.savez(tmp_path / "tally.npz", **found.to_table())
    with np.load(tmp_path / "tally.npz", allow_pickle=False) as table:
        read = Tally.from_table(table)
    assert vars(read).keys() == vars(found).keys()
    for name in ("n", "mass", "lost", "actions", "loggers", "largest", "reward_range"):
        assert getattr(read, name) == getattr(found, name), name
    assert read.counts.tolist() == found.counts.tolist()
    assert read.quantile("weights", 0.5) == found.quantile("weights", 0.5)
    assert read.rewarded_events == found.rewarded_events
    total = read + found
    assert total.n == 2 * found.n


def test_missing_mass_of_actions_that_were_never_logged(logs):
    rare = logs[logs.action != "b"]
    result = IPS().fit(rare).evaluate("pi")
    found = tally_of(rare).missing_mass
    assert found > 0.1
    assert_allclose(found, result.diagnostics["unsupported_mass"])


def test_missing_mass_of_known_loggers(logs):
    n = len(logs)
    mu = np.full((n, 3), 0.5)
    mu[np.arange(n), (logs.action_index + 1) % 3] = 0.0
    some = logs.replace(propensity=np.full(n, 0.5), logging_proba=mu)
    result = IPS().fit(some).evaluate("pi")
    found = tally_of(some).missing_mass
    assert found > 0.1
    assert_allclose(found, result.diagnostics["unsupported_mass"])
    certain = logs.propensity.copy()
    certain[::2] = 1.0
    some = logs.replace(propensity=certain)
    result = IPS().fit(some).evaluate("pi")
    assert_allclose(tally_of(some).missing_mass, result.diagnostics["unsupported_mass"])
