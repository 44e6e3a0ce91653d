# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from ast import literal_eval
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.core._weight_bound import WeightBound
from skope_ope.evaluators.core._weight_limits import (
    LimitsInPass,
    WeightLimits,
    by_action_alone,
)
from tests.evaluators._summing import cut, world


def limits_of(logs, rows):
    part = logs[rows]
    seen = LimitsInPass(part, by_action_alone(part))
    block = SimpleNamespace(rows=slice(0, len(part)))
    seen.see(SimpleNamespace(table=part.columns["pi"], block=block))
    return seen.limits()


def bound_of(logs, spare):
    bound = WeightBound(logs, Target("pi", logs))
    block = SimpleNamespace(rows=slice(0, len(logs)))
    bound.see(None, SimpleNamespace(table=logs.columns["pi"], block=block))
    w = logs.columns["pi"][np.arange(len(logs)), logs.action_index] / logs.propensity
    (found,), source = bound.largest(w, Design(len(logs)), spare)
    return found, source, w.max()


@pytest.mark.parametrize("spare", [0.0, 0.01, 0.2])
@pytest.mark.parametrize("kind", [{"full": True}, {"free": True}])
def test_parts_tell_what_the_whole_log_does(kind, spare):
    logs = world(400, **kind)
    parts = [limits_of(logs, rows) for rows in cut(400) if len(rows) > 30]
    rows = np.concatenate([rows for rows in cut(400) if len(rows) > 30])
    whole = sum(parts[1:], parts[0])
    found, source, logged = bound_of(logs[rows], spare)
    assert whole.source == source
    assert_allclose(max(whole.largest(spare), logged), found, rtol=1e-12)
    again = WeightLimits.from_table(whole.to_table(), literal_eval)
    assert again.largest(spare) == whole.largest(spare)


def test_parts_that_lack_an_action_tell_no_less():
    logs = world(400, free=True)
    few = logs.action_index != 2
    parts = [limits_of(logs, few), limits_of(logs, ~few)]
    for spare in (0.0, 0.1):
        found = bound_of(logs, spare)[0]
        assert found <= (parts[0] + parts[1]).largest(spare) * (1 + 1e-12)
    assert_allclose((parts[0] + parts[1]).largest(), bound_of(logs, 0.0)[0])


def test_what_parts_do_not_share_is_not_known():
    free, other, full = (
        limits_of(world(200, seed, **kind), np.arange(200))
        for seed, kind in (
            (0, {"free": True}),
            (1, {"free": True}),
            (0, {"full": True}),
        )
    )
    assert (free + other).source is None  # each action has two propensities
    assert (free + full).source is None
    assert (free + WeightLimits(None, 5)).largest() == 0.0
    contextual = limits_of(world(200), np.arange(200))
    assert contextual.source is None and contextual.n == 200
