# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope.evaluators.sequential import _uniforms
from skope_ope.evaluators.sequential._uniforms import UniformStream, stream_state


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_parts_draw_what_the_whole_draws(chunk, monkeypatch):
    monkeypatch.setattr(_uniforms, "CHUNK", chunk)
    rng = np.random.RandomState(5)
    whole, seed = rng.random_sample(100), rng.randint(2**31 - 1)
    for state in (5, np.random.RandomState(5)):
        stream = UniformStream(state)
        parts = [stream.take(n) for n in (0, 30, 1, 69)]
        assert np.concatenate(parts).tolist() == whole.tolist()
        assert stream.seed() == seed
        assert UniformStream(state).skip(31).take(69).tolist() == whole[31:].tolist()


def test_an_instance_moves_as_a_fit_moves_it():
    mine, other = np.random.RandomState(5), np.random.RandomState(5)
    state = stream_state(mine, 100)
    assert (
        UniformStream(state).take(9).tolist()
        == np.random.RandomState(5).random_sample(9).tolist()
    )
    other.random_sample(100)
    other.randint(2**31 - 1)
    assert mine.random_sample() == other.random_sample()
    assert stream_state(3, 100) == 3
