# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Traces of a router of language models, as JSON lines would hold them."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch, check_random_state

from skope_ope._types import RandomSeed
from skope_ope.datasets._checked import checked
from skope_ope.datasets._draw import draw_actions

MODELS = np.array(["large", "medium", "small"])
PRICES = np.array([0.05, 0.02, 0.005])  # of a request of 1,000 tokens
# What the router draws with, and how often each model solves a request.
CODE, CHAT = (0.5, 0.3, 0.2), (0.4, 0.3, 0.3)
HARD, EASY = (0.80, 0.76, 0.65), (0.88, 0.87, 0.865)
LONG = 600  # tokens: longer requests for code are hard


@checked
def make_router_traces(
    n_rounds: int = 40_000,
    *,
    random_state: RandomSeed = None,
    return_truth: bool = False,
) -> list[dict] | tuple[list[dict], Bunch]:
    """Generate decision traces of a router of language models, a dict per request.

    The router draws a large, a medium or a small model for each request, and records
    the probabilities of all three. Long requests for code are hard: the large model
    solves more of them. Read more in the :ref:`User Guide <datasets>`.

    Parameters
    ----------
    n_rounds : int, default=40_000
        Number of requests.
    random_state : int, RandomState instance or None, default=None
        Seed of requests, choices and feedback.
    return_truth : bool, default=False
        Also return the true probabilities and prices.

    Returns
    -------
    traces : list of dict, of length n_rounds
        What a line of JSON would hold: `user.id`, `request.task` ("chat" or "code"),
        `request.tokens`, `route.model`, `route.probs` (a probability per model),
        `usage.cost` (in cents) and `feedback.solved` (0 or 1).
    truth : Bunch
        Only if `return_truth`.

        solved : ndarray of shape (n_rounds, 3)
            The probability that each model solves the request, in the order of
            `actions`.
        cost : ndarray of shape (n_rounds, 3)
            What each model would cost.
        logging_proba : ndarray of shape (n_rounds, 3)
            The probabilities of the router.
        actions : ndarray of shape (3,)
            The models, sorted like the actions of `BanditLogs`.

    Examples
    --------
    >>> from skope_ope.datasets import make_router_traces
    >>> make_router_traces(1, random_state=0)[0]["request"]
    {'task': 'chat', 'tokens': 1673}
    """
    rng = check_random_state(random_state)
    user = rng.randint(1 + n_rounds // 10, size=n_rounds)
    is_code = rng.random_sample(n_rounds) < 0.3
    tokens = rng.randint(20, 2000, size=n_rounds)
    hard = is_code & (tokens > LONG)
    solved = np.where(hard[:, None], HARD, EASY)
    cost = PRICES * (tokens[:, None] / 1000)
    proba = np.where(is_code[:, None], CODE, CHAT)
    chosen, _ = draw_actions(proba, rng)
    rows = np.arange(n_rounds)
    feedback = (rng.random_sample(n_rounds) < solved[rows, chosen]).astype(int)
    columns = (user, is_code, tokens, chosen, cost[rows, chosen], feedback)
    traces = [
        {
            "user": {"id": f"u{who}"},
            "request": {"task": "code" if code else "chat", "tokens": length},
            "route": {
                "model": str(MODELS[model]),
                "probs": dict(
                    zip(MODELS.tolist(), CODE if code else CHAT, strict=True)
                ),
            },
            "usage": {"cost": round(paid, 6)},
            "feedback": {"solved": liked},
        }
        for who, code, length, model, paid, liked in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]
    if not return_truth:
        return traces
    return traces, Bunch(
        solved=solved, cost=cost, logging_proba=proba, actions=MODELS.copy()
    )
