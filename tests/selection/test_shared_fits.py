# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Lasso, Ridge
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from skope_ope import (
    IPS,
    MRDR,
    ClassifierPolicy,
    DirectMethod,
    DoublyRobust,
    DRns,
    DRos,
    EpsilonGreedy,
    MultiLoggerDR,
    PropensityClipper,
    SlateDirectMethod,
    SlateDoublyRobust,
    SubGaussianDR,
    SwitchDR,
)
from skope_ope.selection import _shared_fits
from skope_ope.selection._shared_fits import SharedPolicy, with_keys
from tests.selection._logs import problem

FROZEN = Ridge().fit([[0.0], [1.0]], [0.0, 1.0])


def keys_of(estimator, grid):
    return [one.key for one in with_keys(estimator, list(ParameterGrid(grid)))]


@pytest.mark.parametrize(
    ("estimator", "grid", "n_models"),
    [
        (DRns(), {"q": [0, 0.1], "cmax": [1.0, 2.0], "random_state": [0, 1]}, 1),
        (DRns(), {"q": [0, 0.1], "cv": [2, 3]}, 2),
        (SwitchDR(), {"tau": [1.0, 2.0]}, 1),
        (SubGaussianDR(), {"lam": [0.1, 0.2]}, 1),
        (MultiLoggerDR(), {"pooling": ["naive", "balanced"]}, 1),
        (SlateDoublyRobust(), {"cmax": [None, 1.0]}, 1),
        (SlateDirectMethod(), {"n_samples": [1, 2], "random_state": [0, 1]}, 1),
        (IPS(), {"cmax": [None, 1.0]}, 1),
        (MRDR(), {"cv": [2, 3]}, 2),
        (DirectMethod(reward_model=Ridge()), {"reward_model__alpha": [1, 2]}, 2),
        (Pipeline([("ev", DRos())]), {"ev__lam": [1, 2]}, 1),
        (
            Pipeline([("clip", PropensityClipper()), ("ev", DRos())]),
            {"ev__lam": [1, 2], "clip__low": [0, 0.1]},
            2,
        ),
        # of another step, and of the model: they only bear the same names
        (
            Pipeline([("lam", PropensityClipper()), ("ev", DRos())]),
            {"lam__low": [0, 1]},
            2,
        ),
        (DRns(reward_model=DRos()), {"reward_model__lam": [1, 2]}, 2),
        (DRns(), {"reward_model": [0, 0.0, False, "0"]}, 4),
        (Pipeline([("ev", IPS())]), {"ev": [DRos(), DRos()], "ev__lam": [1, 2]}, 1),
        # all of one class, or of classes that fit their model alike
        (Pipeline([("ev", IPS())]), {"ev": [DRos(), DoublyRobust(), SwitchDR()]}, 1),
        (Pipeline([("ev", IPS())]), {"ev": [DRos(), DRns(), MRDR(), IPS()]}, 4),
        (Pipeline([("ev", IPS())]), {"ev": [DRos(cv=2), DoublyRobust(cv=3)]}, 2),
        (
            Pipeline([("ev", IPS())]),
            {
                "ev": [
                    DRos(reward_model=Ridge(a), lam=b) for a in (1, 2) for b in (1, 2)
                ]
            },
            2,
        ),
        (
            Pipeline([("ev", DRos(reward_model=Ridge()))]),
            {"ev__reward_model__alpha": [1, 2], "ev__lam": [1, 2]},
            2,
        ),
        (DRos(), {"reward_model": [Ridge(), Ridge(1.0), Ridge(2), Lasso()]}, 3),
        (DRos(), {"reward_model": [FrozenEstimator(FROZEN) for _ in range(2)]}, 2),
        (ClassifierPolicy(), {"epsilon": [0, 0.1]}, 2),
    ],
)
def test_what_tells_models_apart(estimator, grid, n_models):
    assert len(set(keys_of(estimator, grid))) == n_models


def test_probabilities_are_kept_for_the_shared_rounds_alone(monkeypatch):
    logs, policy = problem(20)
    shared = SharedPolicy(policy, logs)
    assert shared.on(logs) is shared.on(logs) is not policy
    assert shared.on(logs[:20]) is policy
    for one, rows in ((policy, None), ("pi", logs), (EpsilonGreedy(), logs)):
        assert SharedPolicy(one, rows).on(logs) is one
    monkeypatch.setattr(_shared_fits, "LARGEST_TABLE", 8 * 20 * logs.n_actions - 1)
    assert SharedPolicy(policy, logs).on(logs) is policy
