# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The estimators as loops over rounds, written from the formulas.

A logger is a function of (t, x) that returns a list of probabilities; logs are lists
of contexts x, actions a, rewards r and propensities p; pi and q are lists of rows.
"""

from math import sqrt


def scores(logs, pi, q):
    """G_t of every round."""
    found = []
    for t in range(len(logs.r)):
        v = sum(pi[t][k] * q[t][k] for k in range(len(pi[t])))
        k = logs.a[t]
        found.append(v + pi[t][k] / logs.p[t] * (logs.r[t] - q[t][k]))
    return found


def earlier_means(logs, n_actions, first=0.0):
    """Mean reward per action of earlier rounds; of all actions; `first`."""
    found = []
    for t in range(len(logs.r)):
        row = []
        for k in range(n_actions):
            mine = [logs.r[s] for s in range(t) if logs.a[s] == k] or logs.r[:t]
            row.append(sum(mine) / len(mine) if mine else first)
        found.append(row)
    return found


def weighted_value(h, g):
    """Sum h G / sum h, and its standard error without n / (n - 1)."""
    total = sum(h)
    value = sum(a * b for a, b in zip(h, g, strict=True)) / total
    square = sum((a * (b - value)) ** 2 for a, b in zip(h, g, strict=True))
    return value, sqrt(square) / total


def two_point_weights(e, decay):
    """h_t of one arm with the probabilities e_t."""
    n, spent, h = len(e), 0.0, []
    for t in range(1, n + 1):
        a = decay
        bad = (1 - a) / ((1 - a) + n * (t / n) ** a - t)
        share = (1 - e[t - 1]) * bad + e[t - 1] / (1 + n - t)
        share = min(max(share, 0.0), 1.0)
        spends = share * (1 - spent)
        h.append(sqrt(spends * e[t - 1]))
        spent += spends
    return h


def contextual_value(logs, logger, pi, g, power):
    """Value and standard error with h_t(x) = v_t(x)^-power."""
    n = len(g)
    h = []
    for t in range(n):
        row = []
        for s in range(n):
            e = logger(t, logs.x[s])
            v = sum(pi[s][k] ** 2 / e[k] for k in range(len(e)) if pi[s][k])
            row.append(v**-power)
        h.append(row)
    z = [sum(h[t][s] for t in range(n)) for s in range(n)]
    b = [h[t][t] / z[t] * g[t] for t in range(n)]
    psi = [b[t] - sum(h[t][s] / z[s] * b[s] for s in range(n)) for t in range(n)]
    return sum(b), sqrt(sum(one**2 for one in psi))


def cadr_weights(logs, logger, pi, q):
    """One over the standard deviation that earlier rounds tell; 0 without one."""
    h = []
    for t in range(len(logs.r)):
        first = second = 0.0
        for s in range(t):
            k = logs.a[s]
            g = logger(t, logs.x[s])[k]
            v = sum(pi[s][j] * q[s][j] for j in range(len(pi[s])))
            d = v + pi[s][k] / g * (logs.r[s] - q[s][k])
            first += g / logs.p[s] * d / t
            second += g / logs.p[s] * d**2 / t
        variance = second - first**2
        h.append(variance**-0.5 if t and variance > 0 else 0.0)
    return h
