# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What values that a user gives are called."""

import pytest

from skope_ope.displays._given_values import texts_of


@pytest.mark.parametrize(
    "keys, texts",
    [
        (["IPS", "SNIPS"], ["IPS", "SNIPS"]),
        ([("new", "IPS"), ("new", "SNIPS")], ["IPS", "SNIPS"]),
        ([("new", "IPS"), ("old", "IPS")], ["new", "old"]),
        ([("new", "IPS"), ("old", "SNIPS")], ["new, IPS", "old, SNIPS"]),
        ([3], ["3"]),
    ],
)
def test_what_all_keys_share_is_left_out(keys, texts):
    assert texts_of(keys) == texts
