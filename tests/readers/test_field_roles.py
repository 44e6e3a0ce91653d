# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest

from skope_ope.readers._table_logs import check_propensity_field, check_reward_field

NAMES = ["feedback.solved", "usage.cost", "a-b", "probs.x", "probs.y"]


def test_a_computed_reward_is_told_how():
    for reward in ("feedback.solved - 3*usage.cost", "1-usage.cost"):
        with pytest.raises(
            ValueError, match=r"must be the name of one field.*json_nor"
        ):
            check_reward_field("log.jsonl", reward, NAMES)
    with pytest.raises(TypeError, match=r"json\.loads.*open\('log\.jsonl'\)"):
        check_reward_field("log.jsonl", lambda event: 1, NAMES)
    for reward in ("a-b", "usage.cots"):  # a name; a misspelt one, told elsewhere
        check_reward_field("log.jsonl", reward, NAMES)


def test_an_object_of_probabilities():
    with pytest.raises(ValueError, match=r"^probs is an object of x, y: use --all"):
        check_propensity_field("probs", NAMES, "--all")
    for propensity in ("probs.x", "prob", 0.5, None):
        check_propensity_field(propensity, NAMES, "--all")
