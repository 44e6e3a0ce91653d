# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Example logs; for most of them the true values of policies are known."""

from skope_ope.datasets._load import load_classification, load_ranking
from skope_ope.datasets._ranking_measures import dcg, err, ndcg, reciprocal_rank
from skope_ope.datasets._ranking_world import RankingWorld, make_slate_logs_from_ranking
from skope_ope.datasets._synthetic import (
    make_adaptive_logs,
    make_bandit_logs,
    make_logs_from_classification,
)
from skope_ope.datasets._synthetic_slates import make_slate_logs
from skope_ope.datasets._user_tables import (
    fetch_open_bandit,
    make_router_traces,
    make_search_frame,
    make_shop_frame,
)

__all__ = [
    "RankingWorld",
    "dcg",
    "err",
    "fetch_open_bandit",
    "load_classification",
    "load_ranking",
    "make_adaptive_logs",
    "make_bandit_logs",
    "make_logs_from_classification",
    "make_router_traces",
    "make_search_frame",
    "make_shop_frame",
    "make_slate_logs",
    "make_slate_logs_from_ranking",
    "ndcg",
    "reciprocal_rank",
]
