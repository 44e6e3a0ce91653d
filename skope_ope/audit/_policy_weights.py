# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the importance weights of a policy tell, and what their size alone misses."""

from math import isnan

import numpy as np

from skope_ope.audit._tail_index import tail_findings, weighted_tail
from skope_ope.evaluators.core._drowned import huge_weight_finding, is_huge
from skope_ope.evaluators.core._weight_findings import overlap_findings

LARGE_WEIGHT = 20
TOP = 0.01  # of the rounds


def weights_of_policy(rounds):
    """Return facts and findings about the weights of a policy."""
    overlap = rounds.overlap
    if is_huge(overlap.max_w):
        found = huge_weight_finding(rounds.logs, rounds.w)
        return {"largest weight": overlap.max_w}, [found]
    found = [
        one
        for one in overlap_findings(overlap, rounds.logs, rounds.target)
        if one.name != "unsupported_mass"
    ]
    facts = weight_facts(overlap) | {
        "policy's mass on weights above 20": float(
            (rounds.counted * (rounds.w > LARGE_WEIGHT)).mean()
        ),
    }
    if overlap.sum_w == 0:
        return facts, found
    size = np.abs(rounds.counted * rounds.logs.reward)
    facts["share of the largest 1% of weighted rewards"] = _top_share(size)
    shape, error = weighted_tail(rounds.counted, rounds.logs.reward)
    facts["tail shape of weighted rewards"] = (
        "not estimated: too few rounds, or sizes without a tail"
        if isnan(shape)
        else shape
    )
    return facts, found + tail_findings(shape, error)


def weight_facts(overlap):
    """Return what sums of the weights tell, by name."""
    return {
        "effective sample size": overlap.effective_sample_size,
        "effective share": overlap.effective_sample_size / overlap.n,
        "largest weight": float(overlap.max_w),
        "mean weight": overlap.mean_weight,
        "mean weight, standard errors from 1": overlap.mean_weight_z,
    }


def _top_share(size):
    """Return the share of the largest 1% of terms in their sum, at least of one."""
    total = float(size.sum())
    if not total:
        return float("nan")
    positive = size[size > 0]  # partitions of equal terms are slow
    k = min(max(round(TOP * len(size)), 1), len(positive))
    return float(np.partition(positive, -k)[-k:].sum()) / total
