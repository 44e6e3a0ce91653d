# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Hash buckets of groups in place of the groups: how sure values are by them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import IPS, SNIPS, BanditLogs, evaluate
from skope_ope.evaluators._counted import Counted
from skope_ope.evaluators._value_summary import ValueSummary
from skope_ope.evaluators.parts._part_sums import sums_of_part

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
POLICIES = {"new": "pi", "other": "other"}
EVALUATORS = {"SNIPS": SNIPS()}
TRUTH = {"new": 0.5, "other": 0.45}


def users(n_users, seed, rounds=3, spread=0.25):
    """Return logs of users whose rewards and habits are their own.

    A policy takes the second of two actions with some probability; the mean reward is
    .4 and .6 for these, over all users.
    """
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_users), rounds)
    n = len(group)
    level = rng.uniform(-spread, spread, n_users)[group]
    p = 0.5
    action = (rng.random(n) < p).astype(int)
    reward = (rng.random(n) < 0.4 + 0.2 * action + level).astype(float)
    pi = {"pi": 0.5 + 0 * level, "other": np.full(n, 0.25)}
    columns = {name: np.column_stack([1 - share, share]) for name, share in pi.items()}
    logs = BanditLogs(np.zeros((n, 1)), action, reward, np.full(n, p), group=group)
    return logs.with_columns(**columns)


def summary(logs, n_buckets=None, policies=POLICIES, evaluators=EVALUATORS):
    sums = sums_of_part(policies, evaluators, logs)
    sums = sums if n_buckets is None else sums.bucketed(n_buckets)
    return ValueSummary.of(sums, policies, evaluators, logs, Counted.of_logs(logs))


def test_buckets_give_the_same_value_with_fewer_degrees_of_freedom():
    logs = users(2000, 0)
    exact, found = summary(logs).values(), summary(logs, 100).values()
    memory = evaluate(POLICIES, logs, evaluators=EVALUATORS)
    for key, value in found.items():
        assert_allclose(value.value, memory[key].value, rtol=1e-12)
        assert_allclose(exact[key].standard_error, memory[key].standard_error)
        assert value.degrees_of_freedom <= 99
        assert abs(value.standard_error / memory[key].standard_error - 1) < 0.4
        assert value.diagnostics["clusters"] == "100 hash buckets"
        assert value.diagnostics["n_buckets"] == 100
        assert value.diagnostics["n_groups"] == logs.n_groups
        assert exact[key].diagnostics["clusters"] == "exact groups"
    assert "100 hash buckets of groups, 100 of them filled" in repr(summary(logs, 100))


def test_buckets_of_parts_are_those_of_the_whole():
    logs = users(500, 1)
    cut = np.random.default_rng(0).permutation(len(logs))
    parts = [summary(logs[rows], 50) for rows in np.split(cut, [200, 900])]
    found, whole = sum(parts).values(), summary(logs, 50).values()
    for key in whole:
        assert_allclose(
            found[key].confidence_interval(method="student"),
            whole[key].confidence_interval(method="student"),
            rtol=1e-10,
        )


def test_differences_of_other_jobs_need_the_same_buckets():
    logs = users(500, 2)
    one, two, other = (
        summary(logs, n, {name: name}).values()[name, "SNIPS"]
        for name, n in (("pi", 50), ("other", 50), ("other", 40))
    )
    together = summary(logs, 50).values()
    expected = together["new", "SNIPS"] - together["other", "SNIPS"]
    assert_allclose((one - two).standard_error, expected.standard_error, rtol=1e-10)
    with pytest.raises(ValueError, match="write both with the same n_buckets"):
        one - other


@pytest.mark.theory
def test_intervals_by_200_buckets_of_4000_users_cover():
    n_logs, methods = 300, {"student": {}, "jackknife": {}, "bootstrap": {}}
    methods["bootstrap"] = {"n_resamples": 400}
    hits = dict.fromkeys(methods, np.zeros(2))
    truth = TRUTH["new"], TRUTH["new"] - TRUTH["other"]
    for seed in range(n_logs):
        logs = users(4000, seed, rounds=2)
        table = summary(logs, 200, evaluators={"IPS": IPS()}).values()
        value = table["new", "IPS"]
        for method, given in methods.items():
            for one, expected in zip(
                (value, value - table["other", "IPS"]), truth, strict=True
            ):
                low, high = one.confidence_interval(method=method, **given)
                place = np.array([one is value, one is not value])
                hits[method] = hits[method] + place * (low <= expected <= high)
    coverage = np.stack(list(hits.values())) / n_logs
    assert_allclose(coverage, 0.95, atol=4 * np.sqrt(0.95 * 0.05 / n_logs))
