# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs of the shuffled pages of `make_search_frame`."""

from skope_ope import SlateLogs, UniformSlatePolicy


def search_pages(shown, results):
    return SlateLogs.from_frame(
        shown[shown["shuffled"] == 1],
        round="page",
        slot="position",
        item="doc",
        slot_reward="clicked",
        context=["query", "device"],
        group="user",
        candidates=results,
        candidates_by="query",
        item_features=results,
        item_features_by="query",
        logging_policy=UniformSlatePolicy(4),
    )
