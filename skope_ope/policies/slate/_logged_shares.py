# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""How often slates were logged, and whether that refutes that all are alike.

Of the S slates of a list, drawn alike, n rounds with counts :math:`O_s` have the
probability :math:`S^{-n}` (for an order of the rounds). Under shares that are drawn
themselves, from a symmetric Dirichlet distribution, it is

.. math:: \frac{\Gamma(\alpha S)}{\Gamma(\alpha S + n)}
    \prod_s \frac{\Gamma(\alpha + O_s)}{\Gamma(\alpha)}.

The ratio of the two has mean one where all slates are alike, for any S and n, as has
the product over lists, and the mean over several :math:`\alpha`: it exceeds 1,000 with
probability 1/1,000 at most, however few rounds a list has.
"""

import numpy as np
from scipy.special import gammaln, logsumexp

from skope_ope.exceptions import PropensityWarning
from skope_ope.logs._slate_logs import column_weights
from skope_ope.logs._validation import plain

ALPHA = np.array([0.1, 0.3, 1.0, 3.0, 10.0, 100.0])
SURPRISE = np.log(1000)  # of the logarithm of the ratio
MATERIAL = 1e-3  # of it per round: probabilities are off by some 4% at least


def logged_shares(slates, weight=None):
    """Return the distinct slates, and the (weighted) share of each in the rounds."""
    distinct, code = np.unique(slates, axis=0, return_inverse=True)
    count = np.bincount(code.ravel(), weight, len(distinct))
    return distinct, count / count.sum()


def counts_of(known, slates):
    """Return how often each of some distinct slates occurs among others."""
    both = np.concatenate([known, slates])
    code = np.unique(both, axis=0, return_inverse=True)[1].ravel()
    count = np.bincount(code[len(known) :], minlength=int(code.max()) + 1)
    return count[code[: len(known)]]


def alike_ratio(counts):
    """Return the logarithm of the ratio that speaks against equal probabilities."""
    ratio = np.zeros(len(ALPHA))
    alpha = ALPHA[:, None]
    for count in counts:
        n, size = count.sum(), len(count)
        ratio += gammaln(ALPHA * size) - gammaln(ALPHA * size + n) + n * np.log(size)
        ratio += (gammaln(alpha + count) - gammaln(alpha)).sum(axis=1)
    return float(logsumexp(ratio) - np.log(len(ALPHA)))


def independent_rounds(logs):
    """Return rounds that are independent draws of the logger, ndarray of int."""
    # The first of every group; where rounds were kept with probabilities that their
    # weights make up for, as many of the others as all of these leave.
    rows = np.arange(len(logs))
    if logs.group is not None:
        rows = np.unique(logs.group_index, return_index=True)[1]
    weight = column_weights(logs)
    if weight is not None:
        weight = weight[rows]
        drawn = np.random.RandomState(0).random_sample(len(rows))
        rows = rows[drawn * weight.max() < weight]
    return rows


def alike_warnings(name, labels, counts, slates):
    """Return a warning where logged slates are not alike."""
    n = sum(int(count.sum()) for count in counts)
    ratio = alike_ratio(counts)
    if not ratio > max(SURPRISE, MATERIAL * n):
        return []
    far = [np.abs(c - c.mean()).max() / max(c.mean(), 1e-9) ** 0.5 for c in counts]
    worst = int(np.argmax(far))
    count = counts[worst]
    slate = int(np.argmax(np.abs(count - count.mean())))
    label = labels[worst]
    where = "rounds" if label is None else f"rounds of {plain(label)!r}"
    return [
        PropensityWarning(
            f"{name} assumes equally likely slates, but the logged slates are not. "
            f"{slates[worst][slate].tolist()} has {count[slate] / count.sum():.1%} "
            f"of the {int(count.sum()):,} {where}, not 1/{len(count)}. Unequal "
            f"probabilities make the counts of all slates e^{ratio:.0f} times as "
            "likely. Estimates that divide by equal probabilities are biased. Pass "
            "the logger's proba, or use counts: EmpiricalSlatePolicy.seen_in(logs, "
            "by=...).",
            ratio,
        )
    ]
