# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How well one number foretells another, whatever function of it that is."""

import numpy as np

LEAST_R2 = 0.99  # almost perfectly
FEW_REPEATS = 8  # rounds of one value: fewer may be copies of one round


def varies(reward):
    """Tell whether enough rounds differ from the most frequent value."""
    _, counts = np.unique(reward, return_counts=True)
    return len(reward) - counts.max() >= FEW_REPEATS


def interpolated(values, reward, categorical=False):
    """Predict the reward of each round from other rounds by one column."""
    distinct, code = np.unique(values, return_inverse=True)
    code = code.ravel()
    counts, totals = np.bincount(code), np.bincount(code, reward)
    others = (reward.sum() - reward) / (len(reward) - 1)
    apart = (totals[code] - reward) / np.maximum(counts[code] - 1, 1)
    near = others
    ordered = np.count_nonzero(np.isfinite(distinct))  # what is missing stands last
    if not categorical and ordered > 2:
        x, level = distinct[:ordered], totals[:ordered] / counts[:ordered]
        near = np.append(_between(x, level), np.zeros(len(distinct) - ordered))[code]
        near = np.where(code < ordered, near, others)
    return np.where(counts[code] >= FEW_REPEATS, apart, near)


def _between(x, level):
    """Interpolate each level from its two neighbours; the first and last have one."""
    gap = np.diff(x)
    inner = level[:-2] + (level[2:] - level[:-2]) * (gap[:-1] / (gap[:-1] + gap[1:]))
    return np.concatenate([[np.nan], inner, [np.nan]])


def r2_of(predicted, target):
    """Return the share of the variance that predictions (not NaN) explain."""
    told = np.isfinite(predicted)
    target = target[told]
    total = float(((target - target.mean()) ** 2).sum()) if len(target) else 0.0
    if not total:
        return 0.0
    return 1 - float(((target - predicted[told]) ** 2).sum()) / total
