# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import BanditLogs, ConstantPolicy, DoublyRobust
from skope_ope.datasets import make_router_traces
from skope_ope.readers import read_jsonl

FIELDS = {
    "action": "route.model",
    "reward": "feedback.solved",
    "context": ["request.task", "request.tokens"],
    "logging_proba": {
        model: f"route.probs.{model}" for model in ("large", "medium", "small")
    },
}


@pytest.mark.frames
def test_lines_of_json_are_read(tmp_path):
    pytest.importorskip("pandas")
    traces, truth = make_router_traces(300, random_state=0, return_truth=True)
    path = tmp_path / "router.jsonl"
    path.write_text("\n".join(map(json.dumps, traces)))
    logs = read_jsonl(path, columns={"cost": "usage.cost"}, group="user.id", **FIELDS)
    assert list(logs.actions) == list(truth.actions)
    assert_allclose(logs.logging_proba, truth.logging_proba)
    rows = np.arange(300)
    assert_allclose(
        logs.columns["cost"], truth.cost[rows, logs.action_index], atol=1e-6
    )


def test_long_requests_for_code_are_hard():
    traces, truth = make_router_traces(20_000, random_state=1, return_truth=True)
    hard = np.array(
        [
            one["request"]["task"] == "code" and one["request"]["tokens"] > 600
            for one in traces
        ]
    )
    assert_allclose(truth.solved[hard][0], [0.80, 0.76, 0.65])
    assert_allclose(truth.solved[~hard][0], [0.88, 0.87, 0.865])
    mean = (truth.logging_proba * truth.solved).sum(axis=1).mean()
    solved = np.mean([one["feedback"]["solved"] for one in traces])
    assert solved == pytest.approx(mean, abs=0.011)  # 4 standard errors


def test_seeds():
    one, two, other = (make_router_traces(50, random_state=seed) for seed in (3, 3, 4))
    assert one == two != other


@pytest.mark.frames
def test_intervals_cover_the_truth():
    pandas = pytest.importorskip("pandas")
    covered = 0
    for seed in range(20):
        traces, truth = make_router_traces(1000, random_state=seed, return_truth=True)
        frame = pandas.json_normalize(traces)
        logs = BanditLogs.from_frame(frame, reward_range=(0, 1), **FIELDS)
        value = DoublyRobust().fit(logs).evaluate(ConstantPolicy("small"))
        low, high = value.confidence_interval()
        covered += low <= truth.solved[:, 2].mean() <= high
    assert covered >= 17


def test_a_round_is_needed():
    with pytest.raises(ValueError, match="n_rounds"):
        make_router_traces(0)
