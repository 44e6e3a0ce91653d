# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Queries as a careful analyst writes them, for what `evaluate` shows of IPS and SNIPS.

Values and errors of a recorded policy, of the logged rewards and of the lift over
them, the effective number of rounds, the largest weight, whether 1 / propensity has
the mean that it should have (it tests the propensities), and the number of rows that
are not what they should be: nulls, NaN and propensities outside (0, 1].
"""

from functools import partial

import numpy as np

BAD = """CASE WHEN propensity > 0 AND propensity <= 1 AND pi >= 0 AND pi <= 1
         AND isfinite(reward) THEN 0 ELSE 1 END"""
ROUNDS = f"""(SELECT *, pi / propensity AS w, pi / propensity * reward AS g,
                     1 / propensity AS v, {BAD} AS bad FROM {{source}})"""
PRODUCTS = ", ".join(
    f"sum({a} * {b}) AS {a}_{b}"
    for i, a in enumerate(("n", "w", "g", "r"))
    for b in ("n", "w", "g", "r")[: i + 1]
)
SUMS = f"""
SELECT count(*) AS n, sum(w) AS w, sum(g) AS g, sum(reward) AS r, sum(w * w) AS w_w,
       sum(g * w) AS g_w, sum(g * g) AS g_g, sum(reward * w) AS r_w,
       sum(reward * g) AS r_g, sum(reward * reward) AS r_r,
       max(w) AS largest, min(propensity) AS smallest, sum(v) AS v, sum(v * v) AS v_v,
       sum(bad) AS bad
FROM {ROUNDS}
"""
CLUSTERS = f"""
SELECT sum(n) AS n, sum(w) AS w, sum(g) AS g, sum(r) AS r, {PRODUCTS},
       sum(square) AS square, max(largest) AS largest, min(smallest) AS smallest,
       sum(v) AS v, sum(v * v) AS v_v, sum(n * v) AS v_n, sum(bad) AS bad,
       count(*) AS clusters
FROM (SELECT count(*)::DOUBLE AS n, sum(w) AS w, sum(g) AS g, sum(reward) AS r,
             sum(w * w) AS square, max(w) AS largest, min(propensity) AS smallest,
             sum(v) AS v, sum(bad) AS bad
      FROM {ROUNDS} GROUP BY "user")
"""


def hand_queries(files):
    """Yield engine, kind ("sums" or "groups"), frame and a query written by hand.

    Parameters
    ----------
    files : list of Path
        Parquet files with the columns user, propensity, pi and reward.
    """
    try:
        import duckdb
    except ImportError:
        pass
    else:
        names = [str(file) for file in files]
        for kind, text in (("sums", SUMS), ("groups", CLUSTERS)):
            connection = duckdb.connect()
            query = text.format(source=f"read_parquet({names})")
            by_hand = partial(_by_duckdb, connection, query)
            yield "duckdb", kind, connection.read_parquet(names), by_hand
    try:
        import polars
    except ImportError:
        return
    frame = polars.scan_parquet(files)
    yield "polars", "sums", frame, partial(_by_polars, frame, False)
    yield "polars", "groups", frame, partial(_by_polars, frame, True)


def _by_duckdb(connection, query):
    result = connection.cursor().execute(query)
    names = [column[0] for column in result.description]
    return answers(dict(zip(names, map(float, result.fetchone()), strict=True)))


def _by_polars(frame, groups):
    import polars as pl

    p, pi, reward = pl.col("propensity"), pl.col("pi"), pl.col("reward")
    good = (p > 0) & (p <= 1) & (pi >= 0) & (pi <= 1) & reward.is_finite()
    bad = pl.when(good).then(0).otherwise(1)
    rounds = frame.with_columns(w=pi / p, g=pi / p * reward, r=reward, v=1 / p, bad=bad)
    w, v = pl.col("w"), pl.col("v")
    more = {"largest": w.max(), "smallest": p.min(), "bad": pl.col("bad").sum()}
    more["v"] = v.sum()
    if groups:
        sums = {name: pl.col(name).sum() for name in "wgr"}
        square = (w * w).sum()
        rounds = rounds.group_by("user").agg(
            n=pl.len().cast(pl.Float64), **sums, square=square, **more
        )
        more = {name: pl.col(name).sum() for name in ("v", "bad", "square")}
        more |= {"largest": pl.col("largest").max(), "clusters": pl.len()}
        more |= {"smallest": pl.col("smallest").min(), "v_n": (v * pl.col("n")).sum()}
    more["v_v"] = (v * v).sum()
    names = "nwgr" if groups else "wgr"
    found = rounds.select(
        **({} if groups else {"n": pl.len()}),
        **{name: pl.col(name).sum() for name in names},
        **{
            f"{a}_{b}": (pl.col(a) * pl.col(b)).sum()
            for i, a in enumerate(names)
            for b in names[: i + 1]
        },
        **more,
    )
    return answers(found.collect(engine="streaming").row(0, named=True))


def answers(s):
    """Return what the table shows, from the sums of a query.

    Parameters
    ----------
    s : dict
        Sums of the rounds n, of the weights w, of the weighted rewards g and of the
        rewards r, and of their products: over rounds, or over clusters of them.

    Returns
    -------
    answers : dict
        (value, standard error) of "IPS", "SNIPS", "logged" and of both lifts, and what
        is shown beside them.
    """
    n, units = s["n"], s.get("clusters", s["n"])
    names = ("n", "w", "g", "r")
    products = np.empty((4, 4))
    for i, a in enumerate(names):
        for j, b in enumerate(names[: i + 1]):
            whole = s[b] if a == "n" else s[a]  # a round counts one
            products[i, j] = products[j, i] = s.get(f"{a}_{b}", whole)
    if "clusters" not in s:
        products[0] = products[:, 0] = [s[name] for name in names]
    ips, snips, logged = s["g"] / n, s["g"] / s["w"], s["r"] / n
    slopes = {
        "IPS": np.array([-ips, 0, 1, 0]) / n,
        "SNIPS": np.array([0, -snips, 1, 0]) / s["w"],
        "logged": np.array([-logged, 0, 0, 1]) / n,
    }
    values = {"IPS": ips, "SNIPS": snips, "logged": logged}
    for name in ("IPS", "SNIPS"):
        values[f"lift of {name}"] = values[name] - logged
        slopes[f"lift of {name}"] = slopes[name] - slopes["logged"]
    small = units / (units - 1)
    out = {
        name: (value, float(np.sqrt(small * slopes[name] @ products @ slopes[name])))
        for name, value in values.items()
    }
    square = s.get("square", s.get("w_w"))
    beside = {"effective rounds": s["w"] ** 2 / square, "largest weight": s["largest"]}
    mean = s["v"] / n
    square = s["v_v"] - 2 * mean * s.get("v_n", s["v"]) + mean**2 * products[0, 0]
    error = float(np.sqrt(small * square)) / n
    beside |= {"mean of 1 / propensity": (mean, error), "smallest": s["smallest"]}
    return out | beside | {"bad rows": s["bad"]}
