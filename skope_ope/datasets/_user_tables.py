# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Files that users have: of a shop, of a router, of the Open Bandit Dataset."""

from __future__ import annotations

import os
from numbers import Integral
from pathlib import Path as Folder

import numpy as np
from sklearn.utils import Bunch, check_random_state

from skope_ope._sklearn import Interval, StrOptions, validate_params
from skope_ope._types import Frame, Path, RandomSeed
from skope_ope.datasets._load import DATA_HOME_VARIABLE
from skope_ope.datasets._synthetic import draw_actions
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.policies import UniformSlatePolicy
from skope_ope.readers._read_open_bandit import read_open_bandit

# -- the parameters of the functions that simulate a file of a user --------------------

# Of a function with n_rounds, random_state and return_truth.
checked = validate_params(
    {
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "return_truth": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)


# --------------------------------------------------------------------------------------

QUERIES = np.array(["boots", "desk", "lamp", "mug", "rug", "sofa"])
OF_QUERIES = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.1])  # of the queries
N_RESULTS = 5  # of every query
SLOT_ATTENTION = np.array([1.0, 0.7, 0.5, 0.4])  # of readers look at it
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

    query = rng.choice(len(QUERIES), size=n_rounds, p=OF_QUERIES)
    phone = (rng.random_sample(n_rounds) < PHONES).astype(int)
    shuffled = rng.random_sample(n_rounds) < SHUFFLED
    key = np.where(shuffled[:, None], rng.random_sample((n_rounds, N_RESULTS)), 0.0)
    key = np.where(shuffled[:, None], key, -score[query])
    order = np.argsort(key, axis=1)[:, : len(SLOT_ATTENTION)]
    on_page = np.arange(len(SLOT_ATTENTION)) < N_SHOWN[phone][:, None]
    rates = SLOT_ATTENTION * click_rate[query[:, None], order]
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
        best = np.argsort(-scores, axis=1)[:, : len(SLOT_ATTENTION)]
        clicks[name] = _clicks(np.take_along_axis(click_rate, best, axis=1))
    truth = Bunch(
        click_rate=click_rate.ravel(), attention=SLOT_ATTENTION, clicks_per_page=clicks
    )
    return shown, results, truth


def _clicks(rates):
    """Return the expected clicks per page, from click rates by query and position."""
    seen = rates * SLOT_ATTENTION
    of_device = [seen[:, :slots].sum(axis=1) for slots in N_SHOWN]
    return float(
        OF_QUERIES @ np.average(of_device, axis=0, weights=[1 - PHONES, PHONES])
    )


# -- A table of a shop's visits, as a data base would export it ------------------------

OFFERS = np.array(["none", "coupon", "shipping"])
# Probabilities of the offers: of most visitors, and of those who come often.
USUAL_OFFERS, LOYAL_OFFERS = (0.5, 0.25, 0.25), (0.2, 0.6, 0.2)
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
    proba = np.where(loyal[:, None], LOYAL_OFFERS, USUAL_OFFERS)
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


# -- traces of a router of language models, as JSON lines would hold them --------------

ROUTER_MODELS = np.array(["large", "medium", "small"])
PRICES = np.array([0.05, 0.02, 0.005])  # of a request of 1,000 tokens
# What the router draws with, and how often each model solves a request.
CODE, CHAT = (0.5, 0.3, 0.2), (0.4, 0.3, 0.3)
HARD, EASY = (0.80, 0.76, 0.65), (0.88, 0.87, 0.865)
LONG_REQUEST = 600  # tokens: longer requests for code are hard


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
    hard = is_code & (tokens > LONG_REQUEST)
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
                "model": str(ROUTER_MODELS[model]),
                "probs": dict(
                    zip(ROUTER_MODELS.tolist(), CODE if code else CHAT, strict=True)
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
        solved=solved, cost=cost, logging_proba=proba, actions=ROUTER_MODELS.copy()
    )


# -- the Open Bandit Dataset, from a folder where it lies ------------------------------

LOGGER_NAMES, CAMPAIGNS = ("random", "bts"), ("all", "men", "women")
FOLDERS_OF_DATA = "", "obd", "open_bandit_dataset", "obp/dataset/obd"  # of a clone
SMALL_VERSION = "https://github.com/st-tech/zr-obp"
FULL_VERSION = "https://research.zozo.com/data.html"


@validate_params(
    {
        "campaign": [StrOptions(set(CAMPAIGNS))],
        "logger": [StrOptions(set(LOGGER_NAMES))],
        "data_home": [str, os.PathLike, None],
        "align": ["boolean"],
        "as_frame": ["boolean"],
        "as_slates": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def fetch_open_bandit(
    campaign: str = "men",
    *,
    logger: str = "random",
    data_home: Path | None = None,
    align: bool = True,
    as_frame: bool = False,
    as_slates: bool = False,
) -> BanditLogs | SlateLogs:
    r"""Read a log of the Open Bandit Dataset from a folder.

    Nothing is downloaded. If the data are missing, the error says where to get them
    and by which command. Read more in the :ref:`User Guide <datasets>`.

    Parameters
    ----------
    campaign : {"all", "men", "women"}, default="men"
        The campaign.
    logger : {"random", "bts"}, default="random"
        The logger: uniformly random, or Bernoulli Thompson sampling.
    data_home : str or path-like, default=None
        Folder with `<logger>/<campaign>/<campaign>.csv`, directly or in a folder `obd`
        or `open_bandit_dataset`; or a clone of the repository [1]_. `None`: the
        environment variable SKOPE_OPE_DATA.
    align : bool, default=True
        Whether the context also has columns for the users of the other logger, if that
        log exists. Logs of both loggers then have the same columns.
    as_frame : bool, default=False
        Whether the context is a pandas frame.
    as_slates : bool, default=False
        Whether to return slates of one slot, see `read_open_bandit`.

    Returns
    -------
    logs : BanditLogs or SlateLogs
        As `read_open_bandit` returns them. Slates of the logger
        "random" come with their `logging_policy`.

    Raises
    ------
    FileNotFoundError
        If the file does not exist. The message says where to get it.

    See Also
    --------
    skope_ope.readers.read_open_bandit : Reads one file by its path.

    Notes
    -----
    The small version has 10,000 rows a log. It is part of the repository of the Open
    Bandit Pipeline [1]_, whose licence is Apache-2.0. The full version has 26 million
    rows; its page [2]_ states the terms of use.

    References
    ----------
    .. [1] https://github.com/st-tech/zr-obp
    .. [2] https://research.zozo.com/data.html

    Examples
    --------
    >>> import os, tempfile
    >>> from skope_ope.datasets import fetch_open_bandit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     os.makedirs(os.path.join(folder, "random", "men"))
    ...     with open(os.path.join(folder, "random", "men", "men.csv"), "w") as file:
    ...         _ = file.write(
    ...             "timestamp,item_id,position,click,propensity_score\n"
    ...             "2019-11-24 00:00:01+00:00,1,3,0,0.5\n"
    ...             "2019-11-24 00:00:02+00:00,0,1,1,0.5\n"
    ...         )
    ...     logs = fetch_open_bandit("men", logger="random", data_home=folder)
    >>> logs
    BanditLogs(n_rounds=2, n_features=3, n_actions=2)
    """
    home = os.environ.get(DATA_HOME_VARIABLE) if data_home is None else data_home
    path = _find_log(home, logger, campaign) if home else None
    if path is None:
        raise FileNotFoundError(_where_to_get(home, logger, campaign))
    other = None
    if align:
        other = _find_log(
            home, next(one for one in LOGGER_NAMES if one != logger), campaign
        )
    logs = read_open_bandit(
        path, align_with=other, as_frame=as_frame, as_slates=as_slates
    )
    if as_slates and logger == "random":
        return logs.replace(logging_policy=UniformSlatePolicy(1))
    return logs


def _find_log(home, logger, campaign):
    """Return the file of a log, or None."""
    home = Folder(home).expanduser()
    folders = [home / inner / logger / campaign for inner in FOLDERS_OF_DATA]
    paths = [one / f"{campaign}{end}" for one in folders for end in (".csv", ".csv.gz")]
    # a flat folder that keeps one file a log
    paths.append(home / f"obd_{logger}_{campaign}.csv.gz")
    return next(filter(Folder.is_file, paths), None)


def _where_to_get(home, logger, campaign):
    name = f"{logger}/{campaign}/{campaign}.csv"
    if home:
        found = f"the folder {os.fspath(home)} holds no {name}"
    else:
        found = f"no folder is named: pass data_home, or set {DATA_HOME_VARIABLE}"
    return (
        f"the Open Bandit Dataset is missing: {found}. Nothing is downloaded for you. "
        "The small version, 10,000 rows a log, is part of the Open Bandit Pipeline "
        f"(licence Apache-2.0): git clone --depth 1 {SMALL_VERSION}, then data_home="
        f"'zr-obp'. The full version, 26 million rows, is at {FULL_VERSION}, where its "
        "terms are stated. Cite Saito et al., arXiv:2008.07146."
    )
