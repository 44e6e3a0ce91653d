# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Textbook loops of the static evaluators, to compare the package with.

Plain Python over lists, one round at a time, written from the formulas and from
nothing else: no numpy, no chunks, no shared code with the package. Every loop has
the signature ``loop(pi, a, r, p, q, s=None, **parameters)`` and returns
``(value, standard_error)``.

pi : n lists of K target probabilities; a : n codes; r : n rewards;
p : n propensities; q : n lists of K predicted rewards; s : n sample weights.
"""

from math import fsum, inf, log1p, nan, sqrt


def standard_error(rounds):
    """Standard deviation (ddof=1) of the round values over the root of n."""
    n, centre = len(rounds), fsum(rounds) / len(rounds)
    if n == 1:
        return nan
    return sqrt(fsum((u - centre) ** 2 for u in rounds) / (n - 1) / n)


def positive(s, *lists):
    """Return weights and lists without the rounds of weight zero, which are none."""
    s = [1.0] * len(lists[0]) if s is None else s
    kept = [i for i in range(len(s)) if s[i] > 0]
    return [[values[i] for i in kept] for values in (s, *lists)]


def mean(terms, s=None):
    """Weighted mean, and the standard error of its linearised round values."""
    s, terms = positive(s, terms)
    n = len(terms)
    value = fsum(si * z for si, z in zip(s, terms, strict=True)) / fsum(s)
    mass = fsum(s) / n
    rounds = [value + si * (z - value) / mass for si, z in zip(s, terms, strict=True)]
    return value, standard_error(rounds)


def weights(pi, a, p):
    """Importance weight of every logged action."""
    return [pi[i][a[i]] / p[i] for i in range(len(a))]


def direct(pi, q):
    """Value the model gives to the policy, round by round."""
    return [
        fsum(x * y for x, y in zip(pi_i, q_i, strict=True) if x > 0)
        for pi_i, q_i in zip(pi, q, strict=True)
    ]


def corrected(pi, a, r, p, q, s, transform):
    """Mean of ``dm + transform(w) * (r - q)``: every DR of a transformed weight."""
    w, dm = weights(pi, a, p), direct(pi, q)
    terms = [dm[i] + transform(w[i]) * (r[i] - q[i][a[i]]) for i in range(len(r))]
    return mean(terms, s)


def ips(pi, a, r, p, q=None, s=None, *, cmax=inf):
    """Mean of ``min(w, cmax) * r``."""
    w = weights(pi, a, p)
    return mean([min(w[i], cmax) * r[i] for i in range(len(r))], s)


def snips(pi, a, r, p, q=None, s=None, *, cmax=inf):
    """Sum of ``w r`` over sum of ``w``, linearised."""
    s, w, r = positive(s, weights(pi, a, p), r)
    n, w = len(r), [si * min(wi, cmax) for si, wi in zip(s, w, strict=True)]
    total = fsum(w)
    value = fsum(w[i] * r[i] for i in range(n)) / total
    rounds = [value + n * w[i] * (r[i] - value) / total for i in range(n)]
    return value, standard_error(rounds)


def direct_method(pi, a, r, p, q, s=None):
    """Mean of ``sum_a pi q``."""
    return mean(direct(pi, q), s)


def doubly_robust(pi, a, r, p, q, s=None, *, cmax=inf):
    """Mean of ``dm + min(w, cmax) (r - q)``."""
    return corrected(pi, a, r, p, q, s, lambda w: min(w, cmax))


def sndr(pi, a, r, p, q, s=None):
    """Mean of ``dm`` plus the self-normalised correction, linearised."""
    e = [r[i] - q[i][a[i]] for i in range(len(r))]
    s, w, dm, e = positive(s, weights(pi, a, p), direct(pi, q), e)
    n, w = len(s), [si * wi for si, wi in zip(s, w, strict=True)]
    total_s, total_w = fsum(s), fsum(w)
    base = fsum(s[i] * dm[i] for i in range(n)) / total_s
    correction = fsum(w[i] * e[i] for i in range(n)) / total_w
    value = base + correction
    rounds = [
        value
        + n * s[i] * (dm[i] - base) / total_s
        + n * w[i] * (e[i] - correction) / total_w
        for i in range(n)
    ]
    return value, standard_error(rounds)


def switch_dr(pi, a, r, p, q, s=None, *, tau=10.0):
    """Mean of ``dm + w 1(w <= tau) (r - q)``."""
    return corrected(pi, a, r, p, q, s, lambda w: w if w <= tau else 0.0)


def dros(pi, a, r, p, q, s=None, *, lam=10.0):
    """Mean of ``dm + lam w / (w^2 + lam) (r - q)``; DR at lam = inf, DM at 0."""

    def shrink(w):
        if lam == inf:
            return w
        return lam * w / (w * w + lam) if lam > 0 else 0.0

    return corrected(pi, a, r, p, q, s, shrink)


def harmonic(w, lam):
    """Sub-Gaussian weight ``w / (1 - lam + lam w)``, 0 where w is 0."""
    return w / (1 - lam + lam * w) if w > 0 else 0.0


def sub_gaussian_ips(pi, a, r, p, q=None, s=None, *, lam=0.1):
    """Mean of ``w / (1 - lam + lam w) r``."""
    w = weights(pi, a, p)
    return mean([harmonic(w[i], lam) * r[i] for i in range(len(r))], s)


def sub_gaussian_dr(pi, a, r, p, q, s=None, *, lam=0.1):
    """Mean of ``dm + w / (1 - lam + lam w) (r - q)``."""
    return corrected(pi, a, r, p, q, s, lambda w: harmonic(w, lam))


def log_smoothing(pi, a, r, p, q=None, s=None, *, lam=None):
    """Mean of ``log(1 + lam w r) / lam``, lam = 1 / sqrt(n) by default."""
    w, lam = weights(pi, a, p), 1 / sqrt(len(r)) if lam is None else lam
    return mean([log1p(lam * w[i] * r[i]) / lam for i in range(len(r))], s)


def mrdr_weights(pi, a, p):
    """Regression weight ``pi (1 - p) / p^2`` of every logged action."""
    return [pi[i][a[i]] * (1 - p[i]) / p[i] ** 2 for i in range(len(a))]


def fold_means(a, r, folds, n_actions, m=None, cells=None):
    """Out-of-fold (weighted) mean reward of every action: n lists of K values.

    It minimises the (weighted) squared error over one constant per (cell, action).
    Where `cells` is None there is one cell, so one constant per action; where cells
    are the contexts of a finite world the table is saturated.
    """
    n = len(r)
    m = [1.0] * n if m is None else m
    cells = [0] * n if cells is None else cells
    q = [None] * n
    for train, test in folds:
        for i in test:
            q[i] = []
            for b in range(n_actions):
                rows = [j for j in train if a[j] == b and cells[j] == cells[i]]
                top = fsum(m[j] * r[j] for j in rows)
                q[i].append(top / fsum(m[j] for j in rows))
    return q


def mrdr_table(pi, a, r, p, folds, cells=None, s=None):
    """Fold means with the regression weights of MRDR.

    In a saturated table these weights are constant within a cell and cancel: its
    cell means are the exact minimiser of the variance of DR.
    """
    m = mrdr_weights(pi, a, p)
    m = m if s is None else [si * mi for si, mi in zip(s, m, strict=True)]
    return fold_means(a, r, folds, len(pi[0]), m, cells)


def mrdr(pi, a, r, p, q=None, s=None, *, folds, cells=None):
    """DR with the table that the weights of MRDR give."""
    q = mrdr_table(pi, a, r, p, folds, cells, s)
    return doubly_robust(pi, a, r, p, q, s)
