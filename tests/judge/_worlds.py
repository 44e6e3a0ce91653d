# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The 300 worlds by name: 278 that are drawn, and the reference worlds.

The first world of every kind is one of the 20 of the default run; together they hold
every trait. Reference worlds are asked about every evaluator, in memory; the others
about a few, wherever their rounds may lie.
"""

import numpy as np

from tests.evaluators._reference_worlds import WORLDS
from tests.judge import _bandit_worlds as bandits
from tests.judge import _slates_and_sequences as others
from tests.judge._evaluators import FAMILIES

KINDS = {
    **dict.fromkeys(bandits.KINDS, bandits.bandit_world),
    **dict.fromkeys(("context_free", "lottery"), bandits.scavenging_world),
    **dict.fromkeys(others.SLATES, others.slate_world),
    **dict.fromkeys(("uniform_log", "unlike_log"), others.sequence_world),
}
N_DRAWN = 278
N_ENTRIES = 8  # evaluators of a drawn world
MODELS = {"multi_logger": ("MultiLoggerDR",), "slate": ("SlateDoublyRobust",)}


def traits_of(i):
    """What is odd in world i, so that all kinds meet all traits."""
    again = i // len(KINDS)
    return {
        "labels": list(bandits.LABELS)[(i + again) % 5],
        "rewards": bandits.REWARDS[(i + 3 * again) % 7],
        "groups": bandits.GROUPS[(i + again) % 3],
        "weights": bandits.WEIGHTS[(i // 3 + again) % 3],
        "times": bandits.TIMES[(i // 2 + 2 * again) % 3],
    }


def names():
    """Names of all worlds: those of the default run first."""
    kinds = list(KINDS)
    drawn = [f"{i:03} {kinds[i % len(kinds)]}" for i in range(N_DRAWN)]
    return [*drawn, *(f"reference {name}" for name in WORLDS)]


def default_names():
    """Names of the worlds of the default run."""
    return names()[: len(KINDS)]


def made(name):
    """The world of a name, with the evaluators that it is asked about."""
    number, kind = name.split()
    if number == "reference":
        family, make = WORLDS[kind]
        world = make()
        world.facts |= {"family": family, "calls": ("named",)}
        entries = FAMILIES[family](world)
    else:
        i = int(number)
        world = KINDS[kind](kind, traits_of(i), 1000 + i)
        entries = FAMILIES[world.facts["family"]](world)
        chosen = np.random.RandomState(10 + i).permutation(len(entries))[:N_ENTRIES]
        entries = {
            key: entries[key] for key in np.array(list(entries))[np.sort(chosen)]
        }
    world.facts["entries"] = entries
    world.facts["models"] = MODELS.get(
        world.facts["family"], ("DoublyRobust", "DirectMethod")
    )
    return world
