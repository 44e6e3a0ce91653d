# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether a policy that learns draws new numbers in every history.

What a policy draws is a part of the chance in its value. Evaluators change the
parameters called `random_state` before every history but the first. A policy that
seeds its draws from something else repeats them: the mean over its histories keeps the
chance of these numbers, and their spread does not show it.
"""

import random
from collections.abc import Mapping

import numpy as np

from skope_ope.exceptions import OPEWarning

DEPTH, WIDTH = 4, 100  # of objects in objects, and of lists
GENERATORS = (
    np.random.RandomState,
    np.random.Generator,
    np.random.BitGenerator,
    random.Random,
)


def generator_states(policy):
    """Return the states of all random generators that a policy holds."""
    found = {}
    _collect(policy, "", found, set(), DEPTH)
    return found


def repeated_draws(one, other):
    """Return the names of generators that are in the same state in both."""
    return [name for name, state in one.items() if other.get(name) == state]


def repeated_draws_warnings(start):
    """Return a warning where two starts of a policy would draw the same numbers."""
    policy = start(1)
    states = generator_states(policy)
    same = repeated_draws(states, generator_states(start(2))) if states else []
    if not same:
        return []
    return [
        OPEWarning(
            f"the random numbers of {type(policy).__name__} are the same in every "
            f"history: {same[0]!r} does not follow random_state, an integer that "
            "evaluators change. So the standard error leaves out the variance of these "
            "numbers. Seed them from random_state in reset; check_adaptive_policy "
            "tests it.",
            len(same),
        )
    ]


def _collect(value, name, found, seen, depth):
    if isinstance(value, GENERATORS):
        found[name] = _state_of(value)
        return
    if id(value) in seen or depth < 0:
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        parts = [
            (f"{name}[{key!r}]", part) for key, part in list(value.items())[:WIDTH]
        ]
    elif isinstance(value, (list, tuple)):
        parts = [(f"{name}[{place}]", part) for place, part in enumerate(value[:WIDTH])]
    else:
        before = f"{name}." if name else ""
        own = getattr(value, "__dict__", None)
        if isinstance(value, type) or not isinstance(own, dict):
            return
        parts = [(before + key, part) for key, part in own.items()]
    for part_name, part in parts:
        _collect(part, part_name, found, seen, depth - 1)


def _state_of(generator):
    """Return the state of a generator as a text."""
    if isinstance(generator, random.Random):
        return repr(generator.getstate())
    if isinstance(generator, np.random.RandomState):
        kind, keys, *rest = generator.get_state()
        return repr((kind, keys.tobytes(), rest))
    return _digits_of(getattr(generator, "bit_generator", generator).state)


def _digits_of(state):
    """Return a text of numbers and arrays in dicts, of all of their digits."""
    if isinstance(state, dict):
        return repr([(key, _digits_of(part)) for key, part in state.items()])
    return repr(state.tobytes() if isinstance(state, np.ndarray) else state)
