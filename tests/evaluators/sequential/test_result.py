# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Results of sequential evaluators: stored, printed, subtracted."""

import pickle
import warnings

import numpy as np
import pytest

from skope_ope import DRns, EpsilonGreedy, RejectionSampling, Replay, UniformPolicy
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import OPEWarning, SingleTrajectoryWarning

LOGS = make_bandit_logs(500, logging_temperature=np.inf, random_state=0)
CASES = [
    (Replay(random_state=0), UniformPolicy()),
    (Replay(horizon=10, random_state=0), EpsilonGreedy()),
    (RejectionSampling(random_state=0), UniformPolicy()),
    (DRns(random_state=0), EpsilonGreedy()),
    (DRns(horizon=10, n_splits=2, random_state=0), EpsilonGreedy()),
]


def quiet(function, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return function(*args)


def evaluated(evaluator, policy):
    return quiet(evaluator.fit(LOGS).evaluate, policy)


def by_pickle(result):
    return pickle.loads(pickle.dumps(result))


def by_skops(result):
    io = pytest.importorskip("skops.io")
    stored = io.dumps(result)
    unknown = io.get_untrusted_types(data=stored)
    assert all(name.startswith("skope_ope.") for name in unknown)
    return io.loads(stored, trusted=unknown)


def as_text(policy):
    """Parameters and what was learned."""
    return {name: str(value) for name, value in vars(policy).items()}


@pytest.mark.parametrize("stored", [by_pickle, by_skops])
@pytest.mark.parametrize(("evaluator", "policy"), CASES, ids=str)
def test_a_stored_result_is_the_same(evaluator, policy, stored):
    result = evaluated(evaluator, policy)
    back = stored(result)
    assert repr(back) == repr(result)
    assert dict(back.diagnostics) == pytest.approx(dict(result.diagnostics))
    for name in ("round_values", "accepted", "trajectory_values", "part_values"):
        np.testing.assert_array_equal(getattr(back, name), getattr(result, name))
    assert [str(w) for w in back.warnings] == [str(w) for w in result.warnings]
    assert back.confidence_interval() == result.confidence_interval()
    groups = [quiet(one.by, LOGS.action) for one in (result, back)]
    assert len({repr(values) for values in groups}) == 1
    assert quiet(lambda: back - result).value == 0
    assert as_text(back.learned_policy) == as_text(result.learned_policy)
    assert hasattr(back, "progressive_policy_") == hasattr(
        result, "progressive_policy_"
    )
    for one, other in zip(*(r.running_values() for r in (back, result)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_bounds_are_stored():
    result = evaluated(Replay(random_state=0), UniformPolicy())
    small = {"n_actions": LOGS.n_actions, "value_bound": 1.0}
    for stored in (by_pickle, by_skops):
        back = stored(result)
        assert back.deviation_bound(0.5, **small) == result.deviation_bound(
            0.5, **small
        )


def test_differences_of_single_traces_are_about_another_policy():
    fitted = DRns(random_state=0).fit(LOGS)
    first, second = (quiet(fitted.evaluate, EpsilonGreedy(e)) for e in (0.1, 0.9))
    fixed = quiet(fitted.evaluate, UniformPolicy())
    for one, other in ((first, second), (first, fixed), (fixed, second)):
        with pytest.warns(SingleTrajectoryWarning, match="progressive-validation"):
            gap = one - other
        assert gap.standard_error > 0


def test_differences_of_learners_are_those_of_parts():
    fitted = DRns(horizon=10, n_splits=4, normalize=True, random_state=0).fit(LOGS)
    first, second = (quiet(fitted.evaluate, EpsilonGreedy(e)) for e in (0.1, 0.9))
    gaps = first.part_values - second.part_values
    gap = first - second  # without a warning
    assert gap.standard_error == pytest.approx(gaps.std(ddof=1) / 2, rel=1e-12)
    assert gap.degrees_of_freedom == 3
    same = first - quiet(fitted.evaluate, EpsilonGreedy(0.1))
    assert (same.value, same.standard_error) == (0, 0)
    whole = evaluated(DRns(horizon=10, random_state=0), EpsilonGreedy(0.1))
    with pytest.warns(SingleTrajectoryWarning, match="no standard error"):
        gap = first - whole
    assert np.isnan(gap.standard_error)
