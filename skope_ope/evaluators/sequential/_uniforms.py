# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Uniform numbers of rounds that come part by part: those of all rounds at once."""

from copy import deepcopy

from sklearn.utils import check_random_state

CHUNK = 1 << 20  # numbers drawn at once where they are passed over


class UniformStream:
    """Draw one uniform number per round, in the order of the rounds."""

    def __init__(self, random_state, own=False):
        rng = check_random_state(random_state)
        self._rng = rng if own else deepcopy(rng)

    def take(self, n):
        """Return the numbers of the next rounds."""
        return self._rng.random_sample(n)

    def skip(self, n):
        """Pass over the numbers of some rounds."""
        while n > 0:
            self._rng.random_sample(min(n, CHUNK))
            n -= CHUNK
        return self

    def seed(self):
        """Return the seed that a fit draws after the numbers of all rounds."""
        return self._rng.randint(2**31 - 1)


def stream_state(random_state, n_rounds):
    """Return a random state for streams, and move the given one as a `fit` moves it."""
    rng = check_random_state(random_state)
    if rng is not random_state and random_state is not None:
        return random_state  # an integer starts anew every time
    state = deepcopy(rng)
    UniformStream(rng, own=True).skip(n_rounds).seed()
    return state
