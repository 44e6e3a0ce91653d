# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Transforms of importance weights: the one place where bias is traded for variance."""

import numpy as np


def clip(w, cmax):
    """Bound weights from above: ``min(w, cmax)``; None leaves them as they are."""
    return w if cmax is None else np.minimum(w, cmax)


def switch(w, tau):
    """Drop weights above a threshold: ``w 1[w <= tau]``."""
    return w * (w <= tau)


def shrink(w, lam):
    """Optimistic shrinkage: ``lam w / (w^2 + lam)``; 0 drops all, inf keeps all."""
    if lam == np.inf:
        return w
    if lam == 0:
        return np.zeros_like(w)
    return lam * w / (w * w + lam)


def harmonic(w, lam):
    """Weighted harmonic mean with 1: ``w / (1 - lam + lam w)``, 0 where w = 0."""
    if lam == 0:
        return w
    if lam == 1:
        return (w > 0).astype(float)
    return w / ((1 - lam) + lam * w)
