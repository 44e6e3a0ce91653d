# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums by group over parts of a log."""

from types import SimpleNamespace

import numpy as np
import pytest

from skope_ope.logs._factorise import objects
from skope_ope.logs.sums._group_sums import FEW, WordsOfGroups, sums_of_groups

LONG = "a" * 100


def words(labels):
    """Return the words of some labels."""
    return WordsOfGroups(SimpleNamespace(groups=labels)).words.tolist()


def part(groups, values, limits=FEW):
    """Return the sums of values by group, and the largest."""
    labels, codes = np.unique(groups, return_inverse=True)
    sizes = np.bincount(codes)
    logs = SimpleNamespace(groups=labels, group_index=codes, _group_sizes=sizes)
    words = WordsOfGroups(logs, limits)
    last = np.full(len(labels), -1)
    np.maximum.at(last, codes, values)
    found = sums_of_groups(logs, words, {"v": values})
    return found.with_sums(last=last[words.order])


@pytest.mark.parametrize("few", [False, True])
def test_any_parts_give_the_sums_of_the_whole(few):
    limits = (200, 50) if few else FEW
    rng = np.random.default_rng(0)
    groups, values = rng.integers(0, 400, 5_000), rng.integers(0, 100, 5_000)
    whole = part(groups, values, limits)
    cuts = np.split(rng.permutation(5_000), [10, 11, 300, 4_000])
    parts = [part(groups[rows], values[rows], limits) for rows in cuts]
    merged = parts[2] + (parts[0] + parts[1]) + parts[4] + parts[3]
    assert merged.complete == whole.complete == (not few)
    np.testing.assert_array_equal(merged.words, whole.words)
    for name in ("n", "v", "last"):
        np.testing.assert_array_equal(merged[name], whole[name])
    n = len(np.unique(groups))
    if few:
        assert len(merged.words) == 50
        assert merged.n_groups == pytest.approx(n, rel=0.5)
        assert merged.per_kept == merged.n_groups / 50
    else:
        assert merged.n_groups == n and merged.per_kept == 1


def test_parts_that_kept_unlike_many():
    rng = np.random.default_rng(1)
    groups = rng.permutation(1_000)
    one, other = (part(some, some) for some in (groups[:500], groups[500:]))
    merged = one.reduced((100, 100)) + other
    assert not merged.complete
    expected = (one + other).reduced((100, 100))
    np.testing.assert_array_equal(merged.words, expected.words)
    np.testing.assert_array_equal(merged["v"], expected["v"])
    empty = part(groups[:0], groups[:0])
    assert (empty + one).n_groups == (one + empty).n_groups == 500


def test_a_label_has_one_word_whatever_holds_it():
    texts = ["ann", "bo", "", "ann's", LONG, "üñí"]
    expected = words(np.array(texts))
    assert len(set(expected)) == 6
    assert words(objects(texts)) == expected
    assert words(np.array(texts[:2])) == expected[:2]  # of another width
    assert words(objects([3, *texts]))[1:] == expected
    numbers = [0, 1, -5, 2**40]
    expected = words(np.array(numbers))
    assert words(np.array(numbers, dtype=float)) == expected
    assert words(objects(numbers)) == expected
    assert words(objects([*numbers, "x"]))[:4] == expected
    assert words(np.array(numbers[:2], dtype=np.int8)) == expected[:2]
    assert words(np.array([False, True])) == expected[:2]
    halves = words(np.array([0.5, 1.0]))
    assert halves[1] == expected[1] and halves[0] not in expected
    pairs = words(objects([("a", 1), ("a", 2), ("b", 1), (1, "a")]))
    assert len(set(pairs)) == 4
    assert words(objects([("a", 1.0)])) == pairs[:1]


def test_words_are_uniform():
    for labels in (np.arange(5_000), np.array([f"user-{k}" for k in range(5_000)])):
        found = np.array(words(labels), dtype=np.uint64)
        assert len(np.unique(found)) == 5_000
        counts = np.bincount((found >> np.uint64(60)).astype(int), minlength=16)
        assert np.abs(counts - 312.5).max() < 100


def words_of(labels):
    return WordsOfGroups(SimpleNamespace(groups=labels)).words


def test_words_of_tuples_do_not_depend_on_their_company():
    given = [(1, "a"), (1.0, "a"), ("a", 1), (), (1, ("b", None)), (2**70,), "a", 1]
    labels = np.empty(len(given), dtype=object)
    labels[:] = given
    words = words_of(labels)
    assert words[0] == words[1] and len(set(words.tolist())) == len(given) - 1
    for k, word in enumerate(words):
        assert words_of(labels[k : k + 1])[0] == word
