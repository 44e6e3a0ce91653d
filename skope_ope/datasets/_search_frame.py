# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Tables of a search page, as a data base would export them."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch, check_random_state

from skope_ope._types import Frame, RandomSeed
from skope_ope.datasets._checked import checked

QUERIES = np.array(["boots", "desk", "lamp", "mug", "rug", "sofa"])
SHARES = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.1])  # of the queries
N_RESULTS = 5  # of every query
ATTENTION = np.array([1.0, 0.7, 0.5, 0.4])  # share of readers who look at a position
DEVICES = np.array(["desktop", "phone"])
N_SHOWN = np.array([4, 3])  # results on a page of the two devices
PHONES = 0.4  # share of pages
SHUFFLED = 0.5  # share of pages in random order


@checked
def make_search_frame(
    n_rounds: int = 40_000,
    *,
    random_state: RandomSeed = None,
    return_truth: bool = False,
) -> tuple[Frame, Frame] | tuple[Frame, Frame, Bunch]:
    """Generate the log of a search page, with a row per result shown.

    Each query has five results. A page shows four of them on a desktop and three on a
    phone. One half of the pages, drawn at random, shows them in random order; the other
    half ranks them by `score`. Clicks depend on the result and its position, and on no
    other result. The results are the same for every seed. Read more in the
    :ref:`User Guide <datasets>`.

    Parameters
    ----------
    n_rounds : int, default=40_000
        Number of pages.
    random_state : int, RandomState instance or None, default=None
        Seed of pages and clicks.
    return_truth : bool, default=False
        Also return the true click rates.

    Returns
    -------
    shown : pandas.DataFrame
        A row for every result that a page shows. Its columns are `page`, `user`,
        `query`, `device`, `shuffled` (0 or 1), `position` (from 1), `doc` and `clicked`
        (0 or 1).
    results : pandas.DataFrame of shape (30, 5)
        A row for every query and result. Its columns are `query`, `doc`, `score` (of
        the ranking in use), `new_score` (of another ranking) and `price`.
    truth : Bunch
        Only if `return_truth`.

        click_rate : ndarray of shape (30,)
            The probability that a reader who looks at the result clicks, by row of
            `results`.
        attention : ndarray of shape (4,)
            The probability that a reader looks at a position.
        clicks_per_page : dict of float
            Their expectation in "random" order, and of the rankings by
            "score" and "new_score".

    Raises
    ------
    ImportError
        If pandas is not installed.

    Examples
    --------
    >>> from skope_ope.datasets import make_search_frame
    >>> shown, results = make_search_frame(100, random_state=0)
    >>> list(shown.columns)
    ['page', 'user', 'query', 'device', 'shuffled', 'position', 'doc', 'clicked']
    >>> results.shape
    (30, 5)
    """
    import pandas as pd

    rng = check_random_state(random_state)
    shape = len(QUERIES), N_RESULTS
    world = np.random.RandomState(0)  # the results are the same for every seed
    price = world.randint(10, 100, size=shape)
    match = 0.6 * world.random_sample(shape) + 0.4 * price / 100
    click_rate = 0.03 + 0.8 * match * (1 - price / 110)  # cheap matches are clicked
    score = match.round(3)  # of the ranking in use
    new_score = (click_rate + 0.03 * world.standard_normal(shape)).round(3)
    docs = np.array([[f"{q}-{k + 1}" for k in range(N_RESULTS)] for q in QUERIES])

    query = rng.choice(len(QUERIES), size=n_rounds, p=SHARES)
    phone = (rng.random_sample(n_rounds) < PHONES).astype(int)
    shuffled = rng.random_sample(n_rounds) < SHUFFLED
    key = np.where(shuffled[:, None], rng.random_sample((n_rounds, N_RESULTS)), 0.0)
    key = np.where(shuffled[:, None], key, -score[query])
    order = np.argsort(key, axis=1)[:, : len(ATTENTION)]
    on_page = np.arange(len(ATTENTION)) < N_SHOWN[phone][:, None]
    rates = ATTENTION * click_rate[query[:, None], order]
    clicked = rng.random_sample(rates.shape) < rates
    page, position = np.nonzero(on_page)
    user = rng.randint(max(1, n_rounds // 3), size=n_rounds)
    shown = pd.DataFrame(
        {
            "page": page,
            "user": user[page],
            "query": QUERIES[query[page]],
            "device": DEVICES[phone[page]],
            "shuffled": shuffled[page].astype(int),
            "position": position + 1,
            "doc": docs[query[page], order[page, position]],
            "clicked": clicked[page, position].astype(int),
        }
    )
    results = pd.DataFrame(
        {
            "query": np.repeat(QUERIES, N_RESULTS),
            "doc": docs.ravel(),
            "score": score.ravel(),
            "new_score": new_score.ravel(),
            "price": price.ravel(),
        }
    )
    if not return_truth:
        return shown, results
    clicks = {"random": _clicks(np.tile(click_rate.mean(axis=1), (4, 1)).T)}
    for name, scores in (("score", score), ("new_score", new_score)):
        best = np.argsort(-scores, axis=1)[:, : len(ATTENTION)]
        clicks[name] = _clicks(np.take_along_axis(click_rate, best, axis=1))
    truth = Bunch(
        click_rate=click_rate.ravel(), attention=ATTENTION, clicks_per_page=clicks
    )
    return shown, results, truth


def _clicks(rates):
    """Return the expected clicks per page, from click rates by query and position."""
    seen = rates * ATTENTION
    of_device = [seen[:, :slots].sum(axis=1) for slots in N_SHOWN]
    return float(SHARES @ np.average(of_device, axis=0, weights=[1 - PHONES, PHONES]))
