# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
=======
Two logs of shops as csv files: real ones if you have them, otherwise simulated
===============================================================================
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd

E_MAILS = ("Mens E-Mail", "No E-Mail", "Womens E-Mail")
N_ITEMS, N_POSITIONS = 34, 3


def e_mail_file(folder):
    """Return the file of an e-mail test: three e-mails, drawn by lot."""
    real = _data() / "hillstrom_email_part1.csv.gz"
    if real.exists():
        return real
    rng, n = np.random.RandomState(0), 30_000
    frame = pd.DataFrame(
        {
            "recency": rng.randint(1, 13, size=n),
            "history": rng.gamma(1.0, 240.0, size=n).round(2),
            "mens": rng.randint(2, size=n),
            "womens": rng.randint(2, size=n),
            "zip_code": rng.choice(["Rural", "Suburban", "Urban"], size=n),
            "newbie": rng.randint(2, size=n),
            "channel": rng.choice(["Multichannel", "Phone", "Web"], size=n),
            "segment": rng.choice(E_MAILS, size=n),
        }
    )
    rate = 0.16 - 0.006 * frame["recency"]
    rate += 0.075 * (frame["segment"] == "Mens E-Mail")
    rate += 0.08 * (frame["segment"] == "Womens E-Mail") * frame["womens"]
    frame["visit"] = (rng.random_sample(n) < rate).astype(int)
    frame["spend"] = (frame["visit"] * rng.gamma(1.0, 20.0, size=n)).round(2)
    path = Path(folder) / "e_mails.csv"
    frame.to_csv(path, index=False)
    return path


def item_files(folder):
    """Return the files of two buckets of a fashion shop, and of a table of the second.

    Returns
    -------
    random, sampler, table : Path
        Items drawn by lot, items of a Thompson sampler, and its probabilities by
        position when it started.
    """
    names = ("obd_random_men.csv.gz", "obd_bts_men.csv.gz", "obd_bts_men_prior.csv")
    real = tuple(_data() / name for name in names)
    if all(path.exists() for path in real):
        return real
    rng, paths = np.random.RandomState(0), []
    rate = rng.gamma(4.0, 0.00125, size=N_ITEMS)
    proba = np.exp(300 * rate[:, None] + 0.3 * rng.randn(N_ITEMS, N_POSITIONS))
    proba /= proba.sum(axis=0)
    for name, p in (("random", np.full(proba.shape, 1 / N_ITEMS)), ("sampler", proba)):
        position = rng.randint(N_POSITIONS, size=10_000)
        item = np.array([rng.choice(N_ITEMS, p=p[:, k]) for k in position])
        frame = pd.DataFrame({"position": position + 1, "item_id": item})
        frame["user_feature_0"] = rng.choice(["a", "b", "c"], size=len(frame))
        frame["click"] = (rng.random_sample(len(frame)) < rate[item]).astype(int)
        frame["propensity_score"] = p[item, position]
        paths.append(Path(folder) / f"{name}.csv")
        frame.to_csv(paths[-1], index=False)
    columns = {f"prob_position_{k + 1}": proba[:, k] for k in range(N_POSITIONS)}
    paths.append(Path(folder) / "table.csv")
    pd.DataFrame({"item_id": range(N_ITEMS), **columns}).to_csv(paths[-1], index=False)
    return tuple(paths)


def _data():
    return Path(os.environ.get("SKOPE_OPE_DATA", "no data"))
