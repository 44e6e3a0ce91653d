# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A table of a shop's visits, as a data base would export it."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch, check_random_state

from skope_ope._types import Frame, RandomSeed
from skope_ope.datasets._checked import checked
from skope_ope.datasets._draw import draw_actions

OFFERS = np.array(["none", "coupon", "shipping"])
# Probabilities of the offers: of most visitors, and of those who come often.
USUAL, LOYAL = (0.5, 0.25, 0.25), (0.2, 0.6, 0.2)
LOYAL_ABOVE = 4  # visits


@checked
def make_shop_frame(
    n_rounds: int = 40_000,
    *,
    random_state: RandomSeed = None,
    return_truth: bool = False,
) -> Frame | tuple[Frame, Bunch]:
    """Generate a table of visits to a shop, with a row per visit.

    The shop draws one of three offers for every visitor, and records the probability
    of the offer that it drew. People younger than 35 like the coupon. Older people
    who come by phone like free shipping. Read more in the
    :ref:`User Guide <datasets>`.

    Parameters
    ----------
    n_rounds : int, default=40_000
        Number of visits.
    random_state : int, RandomState instance or None, default=None
        Seed of visitors, offers and purchases.
    return_truth : bool, default=False
        Also return the true probabilities.

    Returns
    -------
    frame : pandas.DataFrame of shape (n_rounds, 6)
        Its columns are `age`, `visits`, `mobile` (0 or 1), `offer` ("none", "coupon" or
        "shipping"), `p` and `bought` (0 or 1). Visits are those of the last month, and
        p is the probability of the offer.
    truth : Bunch
        Only if `return_truth`.

        expected_rewards : ndarray of shape (n_rounds, 3)
            The probability that the visitor buys, for every offer in the order of
            `actions`.
        logging_proba : ndarray of shape (n_rounds, 3)
            The probabilities of the offers.
        actions : ndarray of shape (3,)
            The offers, sorted like the actions of `BanditLogs`.

    Raises
    ------
    ImportError
        If pandas is not installed.

    Examples
    --------
    >>> from skope_ope.datasets import make_shop_frame
    >>> make_shop_frame(4, random_state=0)
       age  visits  mobile     offer    p  bought
    0   62       4       0  shipping  0.25       0
    1   65       7       1    coupon  0.60       0
    2   71       1       1      none  0.50       0
    3   18       7       1    coupon  0.60       1
    """
    import pandas as pd

    rng = check_random_state(random_state)
    age = rng.randint(18, 75, size=n_rounds)
    visits = rng.poisson(3, size=n_rounds)
    mobile = rng.randint(2, size=n_rounds)
    loyal = visits > LOYAL_ABOVE
    proba = np.where(loyal[:, None], LOYAL, USUAL)
    offer, p = draw_actions(proba, rng)
    young = age < 35
    buys = np.column_stack(
        [
            0.04 + 0.004 * visits,
            0.05 + 0.0015 * visits + 0.035 * young,
            0.045 + 0.004 * visits + 0.035 * ((mobile == 1) & ~young),
        ]
    )
    rows = np.arange(n_rounds)
    bought = (rng.random_sample(n_rounds) < buys[rows, offer]).astype(int)
    frame = pd.DataFrame(
        {
            "age": age,
            "visits": visits,
            "mobile": mobile,
            "offer": OFFERS[offer],
            "p": p,
            "bought": bought,
        }
    )
    if not return_truth:
        return frame
    order = np.argsort(OFFERS)
    return frame, Bunch(
        expected_rewards=buys[:, order],
        logging_proba=proba[:, order],
        actions=OFFERS[order],
    )
