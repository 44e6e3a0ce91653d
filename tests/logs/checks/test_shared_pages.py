# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from skope_ope import (
    PlackettLuceSlatePolicy,
    RankingPolicy,
    SlateLogs,
    UniformSlatePolicy,
    audit,
    compare_policies,
)
from skope_ope.exceptions import PropensityWarning
from tests.logs.checks._found import blank_slates
from tests.logs.checks._found import quick as found


def pages(n, n_items, n_shown, n_lists, per_list, seed=0, passed=False, **fields):
    """Pages of queries with `per_list` of all items each, in a uniform order.

    Items have a worth by query; the reward is the sum of what is shown.
    """
    rng = np.random.RandomState(seed)
    lists = np.array([rng.permutation(n_items)[:per_list] for _ in range(n_lists)])
    query = rng.randint(n_lists, size=n)
    order = np.argsort(rng.random_sample((n, per_list)), axis=1)[:, :n_shown]
    slate = lists[query[:, None], order]
    offered = np.zeros((n_lists, n_items), dtype=bool)
    offered[np.arange(n_lists)[:, None], lists] = True
    worth = np.arange(n_items) / n_items
    slot_reward = (rng.random_sample(slate.shape) < worth[slate] / 2).astype(float)
    return SlateLogs(
        query[:, None].astype(float),
        slate,
        slot_reward=slot_reward,
        n_candidates=n_items,
        candidates=offered[query] if passed else None,
        item_features=worth[:, None],
        logging_policy=UniformSlatePolicy(n_shown),
        **fields,
    )


WORLDS = {
    "two lists of three of five": (500, 5, 2, 2, 3),
    "ten of forty": (500, 40, 4, 4, 10),
    "twenty of forty, fifty lists": (8000, 40, 4, 50, 20),
    "ten of five hundred": (500, 500, 4, 50, 10),
    "long pages": (8000, 500, 10, 50, 20),
    "more than are counted": (4000, 1500, 4, 100, 15),
}


@pytest.mark.parametrize("world", WORLDS)
def test_forgotten_candidates_are_proven(world):
    (one,) = found(pages(*WORLDS[world]))
    assert (one.name, one.severity) == ("slate_pairs", "error")
    assert one.category is PropensityWarning
    assert one.number > 2 * np.log(10_000) and one.effect > 0.1
    assert "candidates were not passed" in one.advice[0]
    assert "logging_policy is not the policy" in one.advice[1]
    assert not found(pages(*WORLDS[world], passed=True))


def test_what_is_found_is_said():
    """Two lists of two of four: pairs of different lists never meet."""
    (one,) = found(pages(1200, 4, 2, 1, 2))
    assert "are together on 1,200 of 1,200 pages" in one.found
    assert "the logging policy expects 200" in one.found
    slate = np.tile([[0, 1], [1, 0], [2, 3], [3, 2]], (100, 1))
    labels = np.tile(["a", "b", "c", "d"], (400, 1))
    logs = blank_slates(slate, item_id=labels, logging_policy=UniformSlatePolicy(2))
    (one,) = found(logs)
    assert one.found.startswith("Items 'a' and 'b' are together on 200 of 400 pages")


def test_the_candidates_of_another_query():
    """Every page is said to offer twice as many items as it does."""
    logs = pages(4000, 40, 4, 4, 10)
    wide = np.zeros((4, 40), dtype=bool)
    query = logs.context[:, 0].astype(int)
    for k in range(4):
        wide[k, logs.slate[(query == k) | (query == (k + 1) % 4)]] = True
    fields = {"candidates": wide[query], "logging_policy": UniformSlatePolicy(4)}
    [one] = found(blank_slates(logs.slate, **fields))
    assert one.name == "slate_pairs"


def right_logs(seed):
    """A right log of some size, with what a user may have: groups, weights, offers."""
    rng = np.random.RandomState(seed)
    n_items, n_shown = [(5, 2), (5, 3), (12, 4), (40, 4), (500, 4)][seed % 5]
    n = int(rng.choice([60, 500, 2000]))
    logs = pages(n, n_items, n_shown, 6, max(n_shown, n_items // 3), seed, passed=True)
    if seed % 3 == 0:
        logger = UniformSlatePolicy(n_shown)
        logs = sampled(logger, logs.slate, seed, n_candidates=n_items)
    if seed % 4 == 1:
        again = np.repeat(np.arange(n), 5)
        return logs[again].replace(group=again)
    if seed % 4 == 2:  # pages that show item 0 are kept, a third of the others
        common = (logs.slate == 0).any(axis=1)
        kept = np.flatnonzero(common | (rng.random_sample(n) < 1 / 3))
        weight = np.where(common[kept], 1.0, 3.0)
        return logs[kept].with_columns(sample_weight=weight)
    return logs


def sampled(logger, empty, seed, **fields):
    """Pages whose slates a logger draws."""
    slate = logger.sample(blank_slates(empty, **fields), seed)
    return blank_slates(slate, logging_policy=logger, **fields)


def test_right_logs_are_quiet():
    # evidence above 10,000 has a chance of at most 1 in 10,000 in each of them
    assert not any(found(right_logs(seed)) for seed in range(40))
    logs = pages(20, 12, 3, 1, 12)
    again = np.repeat(np.arange(20), 50)  # a group that repeats its page is no proof
    assert not found(logs[again].replace(group=again))
    assert found(logs[again])
    # what is skipped is said
    facts = pages(4000, 1500, 4, 100, 15)._quick_propensity_findings[0]
    assert "the 1,000 most frequent of 1,500" in facts["candidates on the same page"]
    assert facts["order of the items on a page"] == "4,000 pages compared"
    facts, none = pages(20, 5, 2, 2, 3)._quick_propensity_findings
    assert none == [] and "few pages" in facts["candidates on the same page"]


def test_short_and_empty_pages():
    """Pages of two, three or ten candidates have four slots."""
    size = np.random.RandomState(0).choice([0, 2, 3, 10], 3000)
    empty = np.full((3000, 4), -1)
    assert not found(sampled(UniformSlatePolicy(4), empty, 0, n_candidates=size))


def short_pages(n=4000, passed=False, n_items=40, seed=0, mask="short"):
    """Pages of four slots, some of which offer less; lists of ten of all items.

    "short": the last slots of some pages are closed. "gap": any slots are. "by slot":
    every slot offers other candidates, some of them the same.
    """
    rng = np.random.RandomState(seed)
    lists = np.zeros((6, n_items), dtype=bool)
    for one in lists:
        one[rng.permutation(n_items)[:10]] = True
    query = rng.randint(6, size=n)
    by_slot = np.ones((n, 4, n_items), dtype=bool)
    if mask == "short":
        by_slot &= (np.arange(4) < rng.choice([0, 2, 3, 4], n)[:, None])[:, :, None]
    elif mask == "gap":
        by_slot &= (rng.random_sample((n, 4)) < 0.7)[:, :, None]
    else:
        by_slot &= (rng.random_sample((3, 4, n_items)) < 0.6)[rng.randint(3, size=n)]
    offered, empty = by_slot & lists[query][:, None], np.full((n, 4), -1)
    logs = sampled(UniformSlatePolicy(4), empty, seed, candidates=offered)
    fields = {"context": query[:, None].astype(float), "reward": rng.random_sample(n)}
    fields |= {"candidates": offered if passed else by_slot}
    return blank_slates(logs.slate, logging_policy=logs.logging_policy, **fields)


MASKS = "short", "gap", "by slot"


@pytest.mark.parametrize("mask", MASKS)
def test_forgotten_candidates_of_short_pages_are_proven(mask):
    wrong = short_pages(mask=mask)
    (one,) = found(wrong)
    assert (one.name, one.severity) == ("slate_pairs", "error")
    assert "candidates were not passed" in one.advice[0]
    assert not found(short_pages(mask=mask, passed=True))


@pytest.mark.parametrize("n_items", [10, 12, 40])
@pytest.mark.parametrize("mask", MASKS)
def test_right_logs_of_short_pages_are_quiet(mask, n_items):
    for seed in range(9):
        n = (60, 400, 1500)[seed % 3]
        logs = short_pages(n, True, n_items, seed, mask)
        if seed % 5 == 1:
            again = np.repeat(np.arange(n), 3)
            logs = logs[again].replace(group=again)
        assert not found(logs)


def test_loggers_that_are_not_uniform_are_compared_by_an_audit():
    rng = np.random.RandomState(0)
    right = pages(400, 40, 4, 20, 12, passed=True)
    logger = PlackettLuceSlatePolicy(rng.random_sample(40) + 0.1, n_slots=4)
    slate, told = logger.sample(right, 0), []
    fields = {"n_candidates": 40, "logging_policy": logger, "reward": right.reward}
    for offered in (right.candidates, None):
        logs = blank_slates(slate, candidates=offered, context=right.context, **fields)
        assert logs._quick_propensity_findings == ({}, [])
        told.append([one.name for one in audit(logs).alarms])
    assert told == [[], ["slate_pairs"]]


def pages_without(n, *pairs, seed=0, **fields):
    """Uniform pages of four of forty items, but for those with one of some pairs."""
    rng = np.random.RandomState(seed)
    slate = np.argsort(rng.random_sample((2 * n + 100, 40)), axis=1)[:, :4]
    for pair in pairs:
        slate = slate[np.isin(slate, pair).sum(axis=1) < 2]
    slate = slate[:n]
    worth = np.where(np.isin(slate, (3, 7)), 1.0, slate / 40) / 2
    reward = (rng.random_sample(slate.shape) < worth).sum(axis=1).astype(float)
    fields |= {"n_candidates": 40, "logging_policy": UniformSlatePolicy(4)}
    return blank_slates(slate, reward=reward, **fields)


def test_a_pair_that_is_never_seen():
    (one,) = found(pages_without(3000, (3, 7)))
    assert (one.name, one.severity, one.effect) == ("slate_pairs", "warning", 1.0)
    assert one.found.startswith(
        "Candidates 3 and 7 are never on one page of 3,000, and the logging policy "
        "expects 23.08 (probability below 1e-7 if the log is right). The log does not"
    )
    assert "A rule keeps them apart" in one.advice[0]
    (two,) = found(pages_without(5000, (3, 7), (1, 2)))
    assert "There are 2 such pairs." in two.found
    # of 780 pairs some are often expected 15 times and not seen
    assert not found(pages_without(1900, (3, 7)))
    # pairs of groups and weighted pages
    few, again = pages_without(400, (3, 7)), np.repeat(np.arange(400), 10)
    assert not found(few[again].replace(group=again))
    for n, seen in ((4000, False), (8000, True)):
        logs = pages_without(n, (3, 7), group=np.arange(n) // 2)
        assert bool(found(logs)) == seen
    logs = pages_without(8000, (3, 7))
    weight = np.where(np.arange(8000) % 2, 1.0, 3.0)
    assert not found(logs.with_columns(sample_weight=weight))
    assert found(logs.with_columns(sample_weight=np.full(8000, 2.0)))


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LowOverlapWarning")
def test_a_pair_that_is_never_seen_stops_decisions():
    """Both are best: the value of the page with both is 10% too small."""
    logs = pages_without(100_000, (3, 7))
    new = np.tile([3, 7, 39, 38], (len(logs), 1))
    with pytest.warns(PropensityWarning, match="are never on one page"):
        compared = compare_policies({"new": new}, logs)
    assert compared.decision == "undecided"


# -- decisions ------------------------------------------------------------------------
def best(logs):
    """Policy that ranks by worth."""
    ranking = RankingPolicy(LinearRegression(), n_slots=logs.n_slots)
    return ranking.fit([[0.0], [1.0]], [0.0, 1.0])
