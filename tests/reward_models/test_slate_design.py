# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Features of slates and slots."""

from contextlib import nullcontext

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

from skope_ope import (
    CascadeDR,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.exceptions import OPEWarning
from skope_ope.reward_models._additive_slate_model import (
    candidate_features,
    slate_design,
    slot_design,
)

SLATES = [[0, -1], [2, 1]]
CONTEXT = np.array([[5.0], [6.0]])


def logs_with(context=CONTEXT, **fields):
    return SlateLogs(context, SLATES, [1.0, 2.0], n_candidates=3, **fields)


def test_indicators_of_candidates():
    logs = logs_with()
    np.testing.assert_array_equal(
        slate_design(logs, logs.slate),
        [[5, 1, 0, 0, 0, 0, 0], [6, 0, 0, 1, 0, 1, 0]],
    )


FEATURES = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


@pytest.mark.parametrize(
    "fields",
    [
        {"item_features": FEATURES},
        {"item_features": np.stack([FEATURES, FEATURES])},
        {
            "item_features": np.concatenate([[[9.0, 9.0]], FEATURES]),
            "item_id": [[1, 2, 3], [1, 2, 3]],
        },
    ],
    ids=["candidates", "rounds", "catalogue"],
)
def test_features_of_candidates(fields):
    logs = logs_with(**fields)
    np.testing.assert_array_equal(
        slate_design(logs, logs.slate), [[5, 1, 2, 0, 0], [6, 5, 6, 3, 4]]
    )
    entries = np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([0, 2, 1])
    np.testing.assert_array_equal(
        slot_design(logs, *entries),
        [[5, 1, 2, 1, 0], [6, 5, 6, 1, 0], [6, 3, 4, 0, 1]],
    )
    empty = candidate_features(logs, np.array([0]), np.array([-1]))
    np.testing.assert_array_equal(empty, [[0, 0]])


def test_sparse_contexts():
    logs = logs_with(sparse.csr_matrix(CONTEXT))
    X = slate_design(logs, logs.slate)
    assert sparse.issparse(X)
    np.testing.assert_array_equal(
        X.toarray(), slate_design(logs_with(), np.array(SLATES))
    )


def test_frames():
    pandas = pytest.importorskip("pandas")
    logs = logs_with(pandas.DataFrame({"age": [5.0, 6.0]}))
    X = slate_design(logs, logs.slate)
    assert list(X.columns)[:3] == ["age", "slot_0_0", "slot_0_1"]
    one = slot_design(logs, np.array([1]), np.array([1]), np.array([2]))
    assert list(one.columns) == [
        "age",
        "item_0",
        "item_1",
        "item_2",
        "slot_0",
        "slot_1",
    ]
    np.testing.assert_array_equal(one, [[6, 0, 0, 1, 0, 1]])


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.ModelErrorWarning")
@pytest.mark.frames
@pytest.mark.parametrize(
    "evaluator",
    [
        SlateDoublyRobust(),
        SlateDirectMethod(reward_model=Ridge()),
        CascadeDR(reward_model=Ridge()),
    ],
)
def test_models_of_slates_take_contexts_of_texts(evaluator):
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    slates = np.argsort(rng.random_sample((60, 3)), axis=1)[:, :2]
    device = rng.randint(2, size=60)
    slot_reward = (rng.random_sample((60, 2)) < 0.2 + 0.5 * device[:, None]).astype(int)
    policy = UniformSlatePolicy(2)

    def value(context):
        logs = SlateLogs(
            context,
            slates,
            slot_reward=slot_reward,
            n_candidates=3,
            logging_policy=policy,
        )
        return evaluator.fit(logs).score(policy)

    texts = pandas.DataFrame({"device": np.array(["phone", "desk"])[device]})
    codes = pandas.DataFrame({"phone": 1 - device, "desk": device})
    own = not isinstance(evaluator, SlateDoublyRobust)  # whose model is the default
    warned = pytest.warns(OPEWarning, match="Ridge was fitted behind a ContextEncoder")
    with warned if own else nullcontext():
        found = value(texts)
    assert found == pytest.approx(value(codes), rel=0.02)
