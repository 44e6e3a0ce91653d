# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Queries as an analyst writes them: IPS and SNIPS of a recorded policy, with errors.

They know their table: nothing is checked, and nothing beside the two values is asked.
"""

from functools import partial
from math import sqrt

SUMS = """
SELECT count(*) AS n, sum(w) AS w, sum(g) AS g,
       sum(w * w) AS ww, sum(w * g) AS wg, sum(g * g) AS gg
FROM (SELECT pi / propensity AS w, pi / propensity * reward AS g FROM {source})
"""
CLUSTERS = """
SELECT sum(n) AS n, sum(w) AS w, sum(g) AS g, sum(n * n) AS nn, sum(n * w) AS nw,
       sum(n * g) AS ng, sum(w * w) AS ww, sum(w * g) AS wg, sum(g * g) AS gg,
       count(*) AS clusters
FROM (SELECT count(*)::DOUBLE AS n, sum(pi / propensity) AS w,
             sum(pi / propensity * reward) AS g
      FROM {source} GROUP BY "user")
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
            by_hand = partial(_by_duckdb, connection, query, _values_of(kind))
            yield "duckdb", kind, connection.read_parquet(names), by_hand
    try:
        import polars
    except ImportError:
        return
    frame = polars.scan_parquet(files)
    yield "polars", "sums", frame, partial(_polars_sums, frame)
    yield "polars", "groups", frame, partial(_polars_clusters, frame)


def _values_of(kind):
    return sums_values if kind == "sums" else cluster_values


def _by_duckdb(connection, query, values):
    result = connection.cursor().execute(query)
    names = [column[0] for column in result.description]
    return values(dict(zip(names, map(float, result.fetchone()), strict=True)))


def _polars_sums(frame):
    import polars as pl

    w, g = pl.col("w"), pl.col("g")
    found = frame.select(
        w=pl.col("pi") / pl.col("propensity"),
        g=pl.col("pi") / pl.col("propensity") * pl.col("reward"),
    ).select(
        n=pl.len(),
        w=w.sum(),
        g=g.sum(),
        ww=(w * w).sum(),
        wg=(w * g).sum(),
        gg=(g * g).sum(),
    )
    return sums_values(found.collect(engine="streaming").row(0, named=True))


def _polars_clusters(frame):
    import polars as pl

    n, w, g = pl.col("n").cast(pl.Float64), pl.col("w"), pl.col("g")
    by_user = frame.group_by("user").agg(
        n=pl.len(),
        w=(pl.col("pi") / pl.col("propensity")).sum(),
        g=(pl.col("pi") / pl.col("propensity") * pl.col("reward")).sum(),
    )
    found = by_user.select(
        n=n.sum(),
        w=w.sum(),
        g=g.sum(),
        nn=(n * n).sum(),
        nw=(n * w).sum(),
        ng=(n * g).sum(),
        ww=(w * w).sum(),
        wg=(w * g).sum(),
        gg=(g * g).sum(),
        clusters=pl.len(),
    )
    return cluster_values(found.collect(engine="streaming").row(0, named=True))


def sums_values(s):
    """Return value and standard error of IPS, and of SNIPS, from sums over rounds."""
    n, ips, snips = s["n"], s["g"] / s["n"], s["g"] / s["w"]
    square = s["gg"] - n * ips * ips
    ratio = s["gg"] - 2 * snips * s["wg"] + snips * snips * s["ww"]
    return (
        (ips, sqrt(square / n / (n - 1))),
        (snips, sqrt(ratio * n / (n - 1)) / s["w"]),
    )


def cluster_values(s):
    """Return the same from sums over clusters of rounds."""
    n, groups = s["n"], s["clusters"]
    ips, snips, small = s["g"] / n, s["g"] / s["w"], groups / (groups - 1)
    square = s["gg"] - 2 * ips * s["ng"] + ips * ips * s["nn"]
    ratio = s["gg"] - 2 * snips * s["wg"] + snips * snips * s["ww"]
    return (
        (ips, sqrt(square * small) / n),
        (snips, sqrt(ratio * small) / s["w"]),
    )
