# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Literal loops of the sequential evaluators, to compare the engine with.

Written from the papers' algorithms and from nothing else: plain Python, one round at a
time, a sorted list, no blocks. A target is a function ``target(history, x)`` that gives
a list of action probabilities; ``history`` is a list of ``(x, a, r)``.

x, a, r, p, u : lists of contexts, codes, rewards, propensities, uniform numbers;
q_hat : lists of K predicted rewards.
"""

from bisect import insort
from math import ceil, fsum, inf, nan
from types import SimpleNamespace


def quantile(ratios, q):
    """Smallest v with #{ratios <= v} / n >= q; `ratios` are sorted."""
    return ratios[max(ceil(q * len(ratios) * (1 - 1e-12)), 1) - 1]


def drns(
    target,
    x,
    a,
    r,
    p,
    q_hat,
    u,
    *,
    q=0.05,
    cmax=1.0,
    fixed=None,
    horizon=None,
    c_init=None,
    normalize="pooled",
):
    """Algorithm 1 of Dudik et al. (2012); `fixed` holds c where it does not move."""
    out = SimpleNamespace(accepted=[], c=[], pi=[], rk=[], values=[], sums=[])
    out.sums_of_c, history, ratios = [], [], []
    c = (cmax if c_init is None else c_init) if fixed is None else fixed
    start = 0
    for k in range(len(a)):
        pi = target(history, x[k])
        dm = fsum(pi[b] * q_hat[k][b] for b in range(len(pi)))
        out.rk.append(dm + pi[a[k]] / p[k] * (r[k] - q_hat[k][a[k]]))
        out.c.append(c)
        out.pi.append(pi[a[k]])
        insort(ratios, p[k] / pi[a[k]] if pi[a[k]] > 0 else inf)
        if pi[a[k]] > 0 and u[k] <= c * pi[a[k]] / p[k]:
            out.accepted.append(k)
            history.append((x[k], a[k], r[k]))
            if fixed is None:
                c = min(cmax, quantile(ratios, q))
            if len(history) == horizon:  # a new history; c and the ratios go on
                _close(out, start, k + 1)
                history, start = [], k + 1
    if horizon is None:
        _close(out, 0, len(a))
    out.history = history
    if not out.values:
        out.value = nan
    elif normalize == "pooled":
        out.value = fsum(out.sums) / fsum(out.sums_of_c)
    else:
        out.value = fsum(out.values) / len(out.values)
    return out


def _close(out, start, stop):
    sum_cr = fsum(out.c[k] * out.rk[k] for k in range(start, stop))
    out.sums_of_c.append(fsum(out.c[start:stop]))
    out.values.append(sum_cr / out.sums_of_c[-1])
    out.sums.append(sum_cr)


def accepted_mean(target, x, a, r, accepts, horizon=None):
    """Replay: the mean of the rewards that ``accepts(k, pi)`` lets in."""
    out = SimpleNamespace(accepted=[], values=[])
    history = []
    for k in range(len(a)):
        pi = target(history, x[k])[a[k]]
        if accepts(k, pi):
            out.accepted.append(k)
            history.append((x[k], a[k], r[k]))
            if len(history) == horizon:
                out.values.append(fsum(r_t for _, _, r_t in history) / horizon)
                history = []
    if horizon is None and history:
        out.values.append(fsum(r_t for _, _, r_t in history) / len(history))
    out.value = fsum(out.values) / len(out.values) if out.values else nan
    return out


def replay(target, x, a, r, u, *, offered=None, horizon=None):
    """Algorithms 1 and 2 of Li et al. (2011), corrected where offers vary."""
    most = max(offered) if offered else 1

    def accepts(k, pi):
        return u[k] < pi * (offered[k] / most if offered else 1.0)

    return accepted_mean(target, x, a, r, accepts, horizon)


def rejection_sampling(target, x, a, r, p, u, *, c, horizon=None):
    """Accept with probability c pi / p."""

    def accepts(k, pi):
        return pi > 0 and u[k] <= c * pi / p[k]

    return accepted_mean(target, x, a, r, accepts, horizon)


def direct_method(target, x, q_hat, u, *, binary):
    """Act by the target, learn from the model: the mean model value on the way."""
    history, values = [], []
    for k in range(len(x)):
        pi = target(history, x[k])
        values.append(fsum(pi[b] * q_hat[k][b] for b in range(len(pi))))
        a, below = 0, pi[0]
        while below <= u[k][0]:
            a += 1
            below += pi[a]
        q = q_hat[k][a]
        history.append((x[k], a, (1.0 if u[k][1] < q else 0.0) if binary else q))
    return fsum(values) / len(values), history
