# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Facts of a log from its parts."""

from itertools import pairwise

import numpy as np
import pytest

from skope_ope.datasets import make_bandit_logs
from skope_ope.logs._log_sums import LogSums


def cut(logs, n_parts, seed):
    """Return the logs in random parts of rows that follow each other."""
    rng = np.random.RandomState(seed)
    edges = np.sort(rng.choice(np.arange(1, len(logs)), n_parts - 1, replace=False))
    edges = [0, *edges, len(logs)]
    parts = [logs[a:b] for a, b in pairwise(edges)]
    return [parts[k] for k in rng.permutation(n_parts)]


@pytest.mark.parametrize("seed", range(5))
def test_parts_add_up_to_the_whole(seed):
    logs = make_bandit_logs(n_rounds=500, random_state=seed)
    whole = LogSums.of(logs)
    merged = sum(LogSums.of(part) for part in cut(logs, 7, seed))
    assert len(merged) == merged.n_logged == 500
    assert merged.action_counts.tolist() == logs.action_counts.tolist()
    assert merged.lowest_propensity == logs.propensity.min()
    assert merged.reward_low == logs.reward.min()
    assert merged.n_rewarded == np.count_nonzero(logs.reward)
    np.testing.assert_allclose(
        [merged.reward_sum, merged.propensities.log_sum],
        [whole.reward_sum, np.log(logs.propensity).sum()],
    )
