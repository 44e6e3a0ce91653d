# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Tables of a shop, of search pages and of requests, whose truth is known."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import (
    BanditLogs,
    ConstantPolicy,
    DoublyRobust,
    IndependentSlotIPS,
    RankingPolicy,
)
from skope_ope.datasets import make_router_traces, make_search_frame, make_shop_frame
from skope_ope.readers import read_jsonl
from tests._search_pages import search_pages


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas")


frames = pytest.mark.frames


# Search pages


@frames
def test_pages_are_those_that_the_words_describe(pandas):
    shown, results = make_search_frame(2000, random_state=0)
    by_page = shown.groupby("page")
    assert len(by_page) == 2000
    assert not by_page["doc"].apply(lambda docs: docs.duplicated().any()).any()
    slots = by_page["position"].max()
    assert (slots == by_page["device"].first().map({"desktop": 4, "phone": 3})).all()
    ranked = shown[shown["shuffled"] == 0].merge(results, on=["query", "doc"])
    falls = ranked.sort_values("position").groupby("page")["score"].diff().dropna()
    assert (falls <= 0).all()
    assert len(shown.merge(results, on=["query", "doc"])) == len(shown)


@frames
def test_truth_is_that_of_the_pages(pandas):
    shown, results, truth = make_search_frame(50_000, random_state=1, return_truth=True)
    clicks = shown.groupby("page")["clicked"].sum()
    shuffled = shown.groupby("page")["shuffled"].first() == 1
    random, ranked = clicks[shuffled], clicks[~shuffled]
    for name, some in {"random": random, "score": ranked}.items():
        error = some.std() / np.sqrt(len(some))
        assert some.mean() == pytest.approx(truth.clicks_per_page[name], abs=4 * error)
    rates = results.assign(rate=truth.click_rate)
    seen = shown.merge(rates, on=["query", "doc"])
    expected = seen["rate"] * truth.attention[seen["position"] - 1]
    assert seen["clicked"].sum() == pytest.approx(expected.sum(), rel=0.02)


@frames
def test_intervals_cover_the_clicks_of_pages(pandas):
    covered = 0
    for seed in range(20):
        made = make_search_frame(1000, random_state=seed, return_truth=True)
        *pages, truth = made
        evaluator = IndependentSlotIPS().fit(search_pages(*pages))
        value = evaluator.evaluate(RankingPolicy("new_score", n_slots=4))
        low, high = value.confidence_interval()
        covered += low <= truth.clicks_per_page["new_score"] <= high
    assert covered >= 17


# A shop
COLUMNS = {"action": "offer", "reward": "bought", "propensity": "p"}


def logs_of(frame):
    context = ["age", "visits", "mobile"]
    return BanditLogs.from_frame(frame, context=context, reward_range=(0, 1), **COLUMNS)


@frames
def test_columns_and_truth_agree(pandas):
    frame, truth = make_shop_frame(3000, random_state=0, return_truth=True)
    logs = logs_of(frame)
    assert_array_equal(logs.actions, truth.actions)
    assert truth.expected_rewards.shape == truth.logging_proba.shape == (3000, 3)
    rows = np.arange(3000)
    assert_array_equal(truth.logging_proba[rows, logs.action_index], logs.propensity)
    loyal = (frame["visits"] > 4).to_numpy()
    coupon = list(truth.actions).index("coupon")
    assert_allclose(truth.logging_proba[:, coupon], np.where(loyal, 0.6, 0.25))


@frames
def test_rewards_are_those_of_the_world(pandas):
    row = {"age": 30, "visits": 5, "mobile": 1}
    frame, truth = make_shop_frame(20_000, random_state=1, return_truth=True)
    same = (frame[list(row)] == list(row.values())).all(axis=1).to_numpy()
    assert same.any()
    expected = {"none": 0.04 + 0.004 * 5, "coupon": 0.05 + 0.0015 * 5 + 0.035}
    expected["shipping"] = 0.045 + 0.004 * 5
    wanted = [expected[one] for one in truth.actions]
    assert_allclose(truth.expected_rewards[same][0], wanted)
    mean = (truth.logging_proba * truth.expected_rewards).sum(axis=1).mean()
    assert frame["bought"].mean() == pytest.approx(mean, abs=0.005)


@frames
def test_intervals_cover_the_value_of_a_coupon(pandas):
    covered = 0
    for seed in range(20):
        frame, truth = make_shop_frame(4000, random_state=seed, return_truth=True)
        value = DoublyRobust().fit(logs_of(frame)).evaluate(ConstantPolicy("coupon"))
        low, high = value.confidence_interval()
        coupon = list(truth.actions).index("coupon")
        covered += low <= truth.expected_rewards[:, coupon].mean() <= high
    assert covered >= 17


# Requests
FIELDS = {"action": "route.model", "reward": "feedback.solved"}
FIELDS["context"] = ["request.task", "request.tokens"]
MODELS = ("large", "medium", "small")
FIELDS["logging_proba"] = {model: f"route.probs.{model}" for model in MODELS}


@frames
def test_lines_of_json_are_read(pandas, tmp_path):
    traces, truth = make_router_traces(300, random_state=0, return_truth=True)
    path = tmp_path / "router.jsonl"
    path.write_text("\n".join(map(json.dumps, traces)))
    logs = read_jsonl(path, columns={"cost": "usage.cost"}, group="user.id", **FIELDS)
    assert list(logs.actions) == list(truth.actions)
    assert_allclose(logs.logging_proba, truth.logging_proba)
    cost = truth.cost[np.arange(300), logs.action_index]
    assert_allclose(logs.columns["cost"], cost, atol=1e-6)


def test_long_requests_for_code_are_hard():
    traces, truth = make_router_traces(20_000, random_state=1, return_truth=True)
    asked = [one["request"] for one in traces]
    hard = np.array([one["task"] == "code" and one["tokens"] > 600 for one in asked])
    assert_allclose(truth.solved[hard][0], [0.80, 0.76, 0.65])
    assert_allclose(truth.solved[~hard][0], [0.88, 0.87, 0.865])
    mean = (truth.logging_proba * truth.solved).sum(axis=1).mean()
    solved = np.mean([one["feedback"]["solved"] for one in traces])
    assert solved == pytest.approx(mean, abs=0.011)  # 4 standard errors


@frames
def test_intervals_cover_what_a_small_model_solves(pandas):
    covered = 0
    for seed in range(20):
        traces, truth = make_router_traces(500, random_state=seed, return_truth=True)
        frame = pandas.json_normalize(traces)
        logs = BanditLogs.from_frame(frame, reward_range=(0, 1), **FIELDS)
        value = DoublyRobust().fit(logs).evaluate(ConstantPolicy("small"))
        low, high = value.confidence_interval()
        covered += low <= truth.solved[:, 2].mean() <= high
    assert covered >= 17


MAKERS = [pytest.param(m, marks=frames) for m in (make_search_frame, make_shop_frame)]


@pytest.mark.parametrize("make", [*MAKERS, make_router_traces])
def test_seeds_and_sizes(make):
    if make is not make_router_traces:
        pytest.importorskip("pandas")

    def table(seed):
        made = make(50, random_state=seed)
        return [str(one) for one in (made if make is make_search_frame else [made])]

    one, same, other = map(table, (3, 3, 4))
    assert one == same and one[0] != other[0]
    assert one[1:] == other[1:]  # the results of a query are those of the world
    with pytest.raises(ValueError, match="n_rounds"):
        make(0)
