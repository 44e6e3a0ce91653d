# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Samples of per-round terms, and their estimates by loops."""

from dataclasses import dataclass
from math import fsum, nan, sqrt

import numpy as np

from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._functions import mean, mean_plus_ratio, ratio
from skope_ope.evaluators.core._sums import Sums

N_TERMS = {mean: 1, ratio: 2, mean_plus_ratio: 3}


@dataclass
class Sample:
    """Terms of rounds, with their weights, strata and clusters."""

    terms: np.ndarray
    omega: object = None
    stratum: object = None
    cluster: object = None

    @property
    def n_rounds(self):
        """Number of rounds."""
        return self.terms.shape[1]

    def design(self, rows=None):
        """Return the design of some rounds, with the labels that they have."""
        rows = np.arange(self.n_rounds) if rows is None else rows
        omega = None if self.omega is None else self.omega[rows]
        stratum = strata = cluster = clusters = None
        if self.stratum is not None:
            strata, stratum = np.unique(self.stratum[rows], return_inverse=True)
            strata = strata.tolist()
        if self.cluster is not None:
            clusters, cluster = np.unique(self.cluster[rows], return_inverse=True)
        return Design(len(rows), omega, stratum, strata, cluster, clusters)


def summed(design, terms, step=None, **about):
    """Return the sums of terms that are added in blocks."""
    sums, n = Sums(design, **about), design.n_rounds
    step = n if step is None else step
    for low in range(0, n, step):
        high = min(low + step, n)
        sums.add(design.block(low, high), tuple(np.array(terms)[:, low:high]))
    return sums


def drawn_sample(rng, combine, *, weighted, strata, clusters, n=60):
    """Draw a sample.

    Parameters
    ----------
    strata : int
        Their number.
    clusters : {None, "nested", "crossing"}
        Nested ones lie within a stratum.
    """
    terms = rng.gamma(2.0, size=(N_TERMS[combine], n)) + 0.1
    omega = stratum = cluster = None
    if weighted:
        omega = rng.choice([0.0, 0.5, 1.0, 3.0], n)
        omega[:2] = 1.0, 0.0  # some rounds are none
    if strata > 1:
        stratum = rng.randint(strata, size=n)
        stratum[:strata] = np.arange(strata)
        terms = terms + stratum
    if clusters:
        cluster = rng.randint(max(n // 5, 2), size=n) ** 2 // 7  # unequal ones
        terms = terms + rng.normal(size=int(cluster.max()) + 1)[cluster] ** 2
    if clusters == "nested" and stratum is not None:
        cluster = cluster * strata + stratum
    return Sample(terms, omega, stratum, cluster)


def by_loops(sample, combine, weights=None):
    """Value, standard error and degrees of freedom, one round at a time.

    Parameters
    ----------
    weights : list of float, default=None
        What a round of every stratum counts, each with its own mean; `None`: all
        rounds alike, about one mean.
    """
    n, k = sample.n_rounds, len(sample.terms)
    omega = [1.0] * n if sample.omega is None else sample.omega.tolist()
    stratum = [0] * n if sample.stratum is None else sample.stratum.tolist()
    unit = range(n) if sample.cluster is None else sample.cluster.tolist()
    count = [1.0 if weights is None else weights[s] for s in stratum]
    rounds = [i for i in range(n) if omega[i] > 0 and count[i] > 0]
    total = fsum(count[i] * omega[i] for i in rounds)
    share = [count[i] * omega[i] / total for i in range(n)]
    means = [fsum(share[i] * sample.terms[j][i] for i in rounds) for j in range(k)]
    value, slope = combine(means)
    line = [fsum(slope[j] * sample.terms[j][i] for j in range(k)) for i in range(n)]
    centre_of = [0 if weights is None else s for s in stratum]
    influence = {}
    for i in rounds:
        own = [j for j in rounds if centre_of[j] == centre_of[i]]
        mass = fsum(share[j] for j in own)
        centre = fsum(share[j] * line[j] for j in own) / mass
        influence[i] = share[i] * (line[i] - centre)
    square = freedom = 0.0
    for sample_rounds in _linked_rounds(rounds, centre_of, unit):
        units = {unit[i] for i in sample_rounds}
        if len(units) < 2:
            return value, nan, freedom
        squares = [
            fsum(influence[i] for i in sample_rounds if unit[i] == u) ** 2
            for u in units
        ]
        square += len(units) / (len(units) - 1) * fsum(squares)
        freedom += len(units) - 1
    return value, sqrt(square), freedom


def _linked_rounds(rounds, centre, unit):
    """Split rounds into samples: those that share a mean or a cluster belong to one."""
    parts = []
    for i in rounds:
        linked = [
            part
            for part in parts
            if any(centre[j] == centre[i] or unit[j] == unit[i] for j in part)
        ]
        parts = [part for part in parts if part not in linked]
        parts.append([i, *(j for part in linked for j in part)])
    return parts
