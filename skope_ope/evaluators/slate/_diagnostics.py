# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What an estimate from slates rests on, and when that deserves a warning."""

from collections.abc import Mapping

from skope_ope.evaluators.core._warnings import (
    HIGH_WEIGHT_SHARE,
    HIGH_Z,
    LOW_SHARE,
    LOW_SIZE,
)
from skope_ope.exceptions import LowOverlapWarning, PropensityWarning


class LazyDiagnostics(Mapping):
    """Numbers by name; those given as functions are computed when they are read.

    Those that nobody has read are left out of a pickle: the functions hold the logs,
    and may take long.

    Parameters
    ----------
    entries : dict
        Numbers, or functions without arguments.
    """

    def __init__(self, entries):
        self._entries = dict(entries)

    def __iter__(self):
        return iter(self._entries)

    def __len__(self):
        return len(self._entries)

    def __getitem__(self, name):
        if callable(self._entries[name]):
            self._entries[name] = self._entries[name]()
        return self._entries[name]

    def __getstate__(self):
        read = {k: v for k, v in self._entries.items() if not callable(v)}
        return {"_entries": read}

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(self)})"


def weight_diagnostics(overlap, balance):
    """Return what the weights of the rounds tell, by name."""
    size, total = overlap.effective_sample_size, overlap.sum_w
    found = {} if balance is overlap else {"expected_weight": _mean(overlap, balance)}
    return found | {
        "effective_sample_size": size,
        "effective_share": size / overlap.n,
        "max_weight": float(overlap.max_w),
        "max_weight_share": float(overlap.max_w / total) if total else float("nan"),
        "mean_weight": overlap.mean_weight,
        "mean_weight_z": balance.mean_weight_z,
    }


def _mean(overlap, balance):
    """Mean that the weights should have."""
    if balance is overlap:
        return 1.0
    return 1 + overlap.mean_weight - balance.mean_weight


def weight_warnings(overlap, balance, supported):
    """Return warnings about the weights of slates.

    Parameters
    ----------
    overlap : Overlap
        Sums of the weights.
    balance : Overlap
        Sums of the weights less the means that they should have, plus one; `overlap`
        where these are one.
    supported : bool
        Whether these means are known.
    """
    size, n_rounds = overlap.effective_sample_size, overlap.n
    found = []
    if size < LOW_SHARE * n_rounds or size < min(LOW_SIZE, n_rounds / 2):
        found.append(
            LowOverlapWarning(
                f"the estimate rests on {size:.1f} effective rounds of {n_rounds} "
                f"(largest weight {overlap.max_w:.4g}). Compare several evaluators, "
                "or collect logs closer to the policy.",
                size,
            )
        )
    elif overlap.max_w > max(HIGH_WEIGHT_SHARE, 5 / n_rounds) * overlap.sum_w > 0:
        share = overlap.max_w / overlap.sum_w
        found.append(
            LowOverlapWarning(
                f"one round carries {share:.1%} of all weight (weight "
                f"{overlap.max_w:.4g}). Compare several evaluators.",
                share,
            )
        )
    z = balance.mean_weight_z
    if supported and abs(z) > HIGH_Z:
        found.append(
            PropensityWarning(
                f"the mean weight is {overlap.mean_weight:.4g}, {z:+.1f} standard "
                f"errors from {_mean(overlap, balance):.4g}: either the logging policy "
                "is not the one that composed the slates, or rare slates with large "
                "weights are missing from the logs.",
                z,
            )
        )
    return found
