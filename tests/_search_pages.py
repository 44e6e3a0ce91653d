# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs of the shuffled pages of `make_search_frame`."""

from skope_ope import SlateLogs, UniformSlatePolicy


def search_pages(shown, results):
    roles = {"round": "page", "slot": "position", "item": "doc", "group": "user"}
    roles |= {"slot_reward": "clicked", "context": ["query", "device"]}
    roles |= {"candidates": results, "candidates_by": "query"}
    roles |= {"item_features": results, "item_features_by": "query"}
    shuffled = shown[shown["shuffled"] == 1]
    return SlateLogs.from_frame(shuffled, **roles, logging_policy=UniformSlatePolicy(4))
