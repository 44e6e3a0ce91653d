# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Every public call gives what it gave, wherever the rounds lie.

`python -m tests.judge.make --help` tells how the answers are written anew.
"""

import re
from functools import cache

import pytest

import skope_ope
from tests.judge import _bandit_worlds as bandits
from tests.judge._sources import files_and_frames, memory_and_days
from tests.judge._worlds import KINDS, N_DRAWN, default_names, made, names, traits_of
from tests.judge.make import (
    BY_RULE,
    asked,
    is_interval,
    moved,
    scale_of,
    spellings,
    stored_answers,
    unruled,
)

WORLDS = [
    pytest.param(name, marks=() if name in default_names() else pytest.mark.thorough)
    for name in names()
]


@cache
def stored():
    """What was written of every world, values and intervals."""
    values, intervals = stored_answers(False), stored_answers(True)
    return {name: values[name] | intervals[name] for name in values}


@pytest.mark.parametrize("name", WORLDS)
def test_memory_and_sums_of_days(name):
    world = made(name)
    found = asked(world, memory_and_days(world))
    assert not moved(found, stored()[name], scale_of(world))


@pytest.mark.frames
@pytest.mark.parametrize("name", WORLDS[:N_DRAWN])
def test_files_and_frames(name, tmp_path):
    for package in ("pyarrow", "narwhals", "polars", "duckdb"):
        pytest.importorskip(package)
    world = made(name)
    sources = files_and_frames(world, tmp_path)
    if not sources:
        pytest.skip("columns cannot say all that these logs know")
    found = asked(world, sources)
    assert not moved(found, stored()[name], scale_of(world))


def test_no_source_differs_from_memory_without_a_rule():
    unexcused = {name: unruled(found, name) for name, found in stored().items()}
    assert not {name: keys for name, keys in unexcused.items() if keys}
    differing = {
        spelling
        for name, found in stored().items()
        for key, told in found.items()
        if not key.startswith("memory/") and not str(told).startswith("raises")
        for spelling in spellings(key, name)
    }
    for rule in BY_RULE:  # one that excuses nothing would hide the next difference
        assert any(re.fullmatch(rule, key) for key in differing), rule


def test_the_default_worlds_hold_everything():
    traits = [traits_of(i) for i in range(len(KINDS))]
    everything = {
        "labels": bandits.LABELS,
        "rewards": bandits.REWARDS,
        "groups": bandits.GROUPS,
        "weights": bandits.WEIGHTS,
        "times": bandits.TIMES,
    }
    for trait, kinds in everything.items():
        assert {one[trait] for one in traits} == set(kinds)
    asked_of = {
        type(evaluator).__name__
        for name in default_names()
        for evaluator, _ in made(name).facts["entries"].values()
    }
    public = {
        name
        for name in skope_ope.__all__
        if hasattr(getattr(skope_ope, name), "evaluate")
    }
    assert asked_of == public


def test_a_change_is_seen():
    name = default_names()[0]
    then = stored()[name]
    now = {
        key: told if isinstance(told, str) else list(told) for key, told in then.items()
    }
    value = next(key for key in now if key.startswith("memory/defaults/IPS"))
    limit = next(key for key in now if is_interval(key) and isinstance(now[key], list))
    now[value][0] += 1e-11
    now[limit][0] += 1e-8
    lost = next(key for key in now if now[key] and key not in (value, limit))
    now.pop(lost)
    assert set(moved(now, then, 1.0)) == {value, limit, lost}
