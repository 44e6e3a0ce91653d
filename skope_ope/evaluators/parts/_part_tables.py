# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of parts of a log as arrays of numbers and texts, which files hold."""

import json
from copy import copy
from functools import partial

import numpy as np

from skope_ope.evaluators.core import _functions
from skope_ope.evaluators.core._divergence_sums import PooledDivergences
from skope_ope.evaluators.core._functions import Regression
from skope_ope.evaluators.core._largest_deviation import Extremes
from skope_ope.evaluators.core._slate_deviation import SlateExtremes
from skope_ope.evaluators.core._slates import Estimable
from skope_ope.evaluators.core._summary import SumsByDesign
from skope_ope.evaluators.core._sums import JointSums
from skope_ope.evaluators.core._tally import RoundCounts, Tally
from skope_ope.evaluators.core._weight_bound import WeightBound
from skope_ope.logs._labels import arrays_of_labels, label_of_text, text_of_label
from skope_ope.logs.sums._log_sums import LogSums
from skope_ope.policies._learned_rounds import LearnedRounds

COUNTS = "count", "counts", "cell_cluster", "cell_stratum", "cell_count", "n_buckets"
SAMPLE = 1000  # rows of a log that a file keeps, for the tests of its propensities
COMBINING_FUNCTIONS = (
    _functions.mean,
    _functions.sum_of_two,
    _functions.ratio,
    _functions.mean_plus_ratio,
)


def tables_of(sums):
    """Return the arrays of `PartSums`, by name."""
    header = {
        "n": sums.n,
        "policies": list(sums.policies),
        "designs": [
            [name, _listed_jobs(joint.places), _listed_jobs(joint.moves)]
            for name, joint in sums.sums.joints.items()
        ],
        "tallies": [_listed(owner) for owner in sums.tallies],
        "ends": [_listed(owner) for owner in sums.ends],
        "facts": [[_listed(o), _fact_texts(f)] for o, f in sums.facts.items()],
        "by": {
            name: [text_of_label(k, name) for k in parts]
            for name, parts in sums.by.items()
        },
        "learned": {
            name: [one.n, one.count, list(one.rows)]
            for name, one in sums.learned.items()
        },
        "known": [sums.counts is not None, _is_stored(sums.log)],
    }
    out = {"header": np.array(json.dumps(header))}
    parts = {"design": list(map(_small, sums.sums.joints.values()))}
    parts |= {"tally": sums.tallies.values(), "ends": sums.ends.values()}
    parts["counts"] = [] if sums.counts is None else [sums.counts]
    parts["log"] = [sums.log] if _is_stored(sums.log) else []
    for column, labels in sums.by.items():
        parts[f"by {column}"] = labels.values()
    for name, some in parts.items():
        for k, one in enumerate(some):
            given = {} if name != "log" else {"n_rows": SAMPLE}
            out |= {f"{name} {k}: {key}": v for key, v in one.to_table(**given).items()}
    return out


def sums_of_tables(table, evaluators, make):
    """Return the `PartSums` that `tables_of` wrote."""
    by_prefix = {}
    for key in table:
        prefix, _, name = key.partition(": ")
        if name:
            by_prefix.setdefault(prefix, {})[name] = table[key]
        if name in COUNTS and not np.all((table[key] >= 0) & (table[key] < 2**53)):
            raise ValueError(f"{key} are no numbers of rounds")
    header = json.loads(str(table["header"]))

    def read(name, keys, how):
        return {key: how(by_prefix[f"{name} {k}"]) for k, key in enumerate(keys)}

    counts, log = header["known"]
    like = partial(sums_of_tables, evaluators=evaluators, make=make)
    out = make(
        int(header["n"]),
        header["policies"],
        evaluators,
        RoundCounts.from_table(by_prefix["counts 0"]) if counts else None,
        SumsByDesign(
            {
                name: JointSums.from_table(
                    by_prefix[f"design {k}"], *map(_jobs_of, how)
                )
                for k, (name, *how) in enumerate(header["designs"])
            }
        ),
        read("tally", map(_owner, header["tallies"]), Tally.from_table),
        read("ends", map(_owner, header["ends"]), _ends_of),
        {_owner(o): _facts_of(f) for o, f in header["facts"]},
        LogSums.from_table(by_prefix["log 0"]) if log else None,
        {
            column: _nested(by_prefix, column, map(label_of_text, labels), like)
            for column, labels in header["by"].items()
        },
        {
            name: LearnedRounds(n, count, tuple(rows))
            for name, (n, count, rows) in header["learned"].items()
        },
    )
    for name in evaluators if counts else ():
        out._summaries(name)  # raises where a part is missing
    return out


def _is_stored(log):
    return hasattr(log, "to_table")


def _nested(by_prefix, column, labels, like):
    """Return the sums by the labels of a column."""
    return {
        label: like(by_prefix[f"by {column} {k}"]) for k, label in enumerate(labels)
    }


def _small(sums):
    """Return sums whose clusters have labels that a file may hold."""
    clusters = sums.frame.clusters
    if clusters is None or clusters.dtype != object:
        return sums
    try:
        arrays_of_labels("group", clusters)
    except TypeError:
        return sums.bucketed()
    return sums


def _ends_of(table):
    kinds = {
        "extremes_numbers": Extremes,
        "bound_source": WeightBound,
        "divergences_mass": PooledDivergences,
        "slates_weights": SlateExtremes,
    }
    kind = next(kinds[name] for name in kinds if name in table)
    return kind.from_table(table, label_of_text)


def _listed(owner):
    return [*map(_listed, owner)] if isinstance(owner, tuple) else owner


def _listed_jobs(by_job):
    return [[_listed(job), list(some)] for job, some in by_job.items()]


def _jobs_of(listed):
    return {_owner(job): tuple(some) for job, some in listed}


def _owner(listed):
    return tuple(map(_owner, listed)) if isinstance(listed, list) else listed


def _fact_texts(facts):
    """Return facts as JSON holds them: functions of means by their names."""
    out = dict(facts)
    if "combine" in out:
        found = out["combine"]
        if isinstance(found.combine, Regression):
            known = found.combine
            name = [known.k, known.rows.tolist(), known.cols.tolist()]
        else:
            name = found.combine.__name__
        out["combine"] = [name, found.weighed]
    return out


def _facts_of(texts):
    """Return the facts that `_fact_texts` wrote."""
    out = dict(texts)
    if "combine" in out:
        name, weighed = out["combine"]
        if isinstance(name, list):
            k, rows, cols = name
            found = Regression(k, np.array(rows), np.array(cols))
        else:
            found = next(one for one in COMBINING_FUNCTIONS if one.__name__ == name)
        out["combine"] = Estimable(found, weighed)
    return out


def bare_evaluator(evaluator):
    """Return an evaluator that forms estimates of sums, without model and rounds."""
    out = copy(evaluator)
    for name in list(vars(out)):
        if name.endswith("_") or name == "_model_of_fit":
            del out.__dict__[name]
    if hasattr(out, "reward_model"):
        out.reward_model = None
    return out
