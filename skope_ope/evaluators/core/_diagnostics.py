# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Diagnostics of an estimate: numbers by name, computed when they are read."""

from collections.abc import Mapping
from functools import cached_property
from numbers import Real

import numpy as np
from scipy import sparse

from skope_ope._texts import harmless
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import mean
from skope_ope.evaluators.core._overlap import weight_entries
from skope_ope.evaluators.core._sums import sums_of_rounds
from skope_ope.logs._html import card, pairs
from skope_ope.logs._shown_numbers import figure, share
from skope_ope.logs._validation import is_frame
from skope_ope.logs.checks._propensity_sums import action_count_z

ENTRIES_SHOWN = 4  # entries of an array


class Diagnostics(Mapping):
    """Diagnostics of an estimate, by name."""

    # Printing shows the names and the numbers; a pickle holds all of them.

    def __init__(self, entries=()):
        self._given = entries

    @cached_property
    def _entries(self):
        return dict(self._given() if callable(self._given) else self._given)

    def with_entries(self, entries):
        """Return these and more diagnostics."""
        return Diagnostics(lambda: self._entries | entries)

    def __iter__(self):
        return iter(self._entries)

    def __len__(self):
        return len(self._entries)

    def __getitem__(self, name):
        value = self._entries[name]
        if callable(value):
            with beyond_floats():
                value = self._entries[name] = value()
        return value

    def __eq__(self, other):
        if not isinstance(other, Mapping):
            return NotImplemented
        return _equal(self, other)

    __hash__ = None

    def __getstate__(self):
        return {"_entries": dict(self)}  # functions hold the logs: call them now

    def _texts(self):
        return [(name, named_text(name, value)) for name, value in self.items()]

    def __repr__(self):
        if not self:
            return "no diagnostics"
        width = max(map(len, self))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self._texts())

    def _repr_html_(self):
        return card("Diagnostics", self._table())

    def _table(self):
        return pairs(dict(self._texts())) if self else ""


def group_entries(estimate):
    """Return what is known of the groups, by name."""
    buckets = estimate.frame.n_buckets is not None  # which stand for the groups
    return {
        "n_buckets" if buckets else "n_groups": len(estimate.frame.cluster_sizes),
        "effective_groups": estimate.frame.effective_clusters,
        "design_effect": estimate.design_effect,
    }


def named_text(name, value):
    """Return a number as `number_text` does; a share, by its name, in percent."""
    return share(value) if is_share(name) and is_number(value) else number_text(value)


def is_share(name):
    """Whether a name says that it is of a share: "effective_share", "share of a"."""
    return "share" in str(name).replace("_", " ").split()


def is_number(value):
    """Whether something is one number."""
    return isinstance(value, Real) and not isinstance(value, bool)


def number_text(value):
    """Return a number, or the first of several, as a short text."""
    if isinstance(value, (bool, str)) or value is None:
        return harmless(value)
    if isinstance(value, Real):
        return figure(value)
    if isinstance(value, Mapping):
        pairs = [f"{harmless(k)}: {number_text(v)}" for k, v in value.items()]
        return _shortened(pairs, len(pairs))
    if isinstance(value, (np.ndarray, list, tuple)):
        flat = np.asarray(value).ravel()
        texts = [number_text(one) for one in flat[:ENTRIES_SHOWN].tolist()]
        return _shortened(texts, len(flat))
    return harmless(value)


def _equal(one, other):
    """Whether entries are the same; NaN is NaN."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_equal(one[k], other[k]) for k in one)
    one, other = np.asarray(one), np.asarray(other)
    same = (one == other) | ((one != one) & (other != other))
    return one.shape == other.shape and bool(same.all())


def _shortened(texts, n):
    more = f", ... ({n} in all)" if n > ENTRIES_SHOWN else ""
    return ", ".join(texts[:ENTRIES_SHOWN]) + more


LARGE_WEIGHT = 20


class DiagnosticEntries:
    """Diagnostics of one evaluator on one policy."""

    # Which there are depends on what is known: merged sums have no rounds;
    # `overlap_tv` and `calibration_z` need the whole logging distribution,
    # `action_count_z` that or propensities that are the same wherever an action was
    # taken, `model_*` and `correction*` a reward model, `covariate_imbalance` numeric
    # contexts.

    def __init__(self, evaluator, summary, logs, estimate, more):
        self.evaluator, self.summary, self.logs = evaluator, summary, logs
        self.estimate, self.more = estimate, more  # entries of the family alone
        self.job = job = summary.job  # None: the rounds are not in memory
        self.positive = None if job is None else job.kept.positive
        self.overlap = summary.overlap if evaluator.requires.weights else None

    def by_name(self):
        """Return numbers and functions by name, for `Diagnostics`."""
        found = {"n_rounds": self.summary.n, **self.evaluator._chosen}
        if self.overlap is not None:
            found |= self._of_weights()
            found |= {} if self.job is None else self._of_weighted_rounds()
        if self.evaluator.requires.model:
            # the correction of all but the direct method carries its error
            found["model_error_included"] = self.overlap is not None
            found |= {} if self.job is None else self._of_model()
        frame = self.summary.sums.frame
        if self.job is None and frame.clustered:
            exact = frame.n_buckets is None
            words = "exact groups" if exact else f"{frame.n_buckets} hash buckets"
            found["clusters"] = words
        return found | self.more

    def _of_weights(self):
        overlap, logs = self.overlap, self.logs
        # what only the logged actions tell, nobody knows
        missing = overlap.missing_mass if self.summary.tally.table else np.nan
        found = weight_entries(overlap) | {
            "unsupported_mass": missing,
            "overlap_chi2": overlap.sum_w2 / overlap.n - 1,
        }
        if logs is not None:
            found["inverse_propensity_z"] = lambda: logs._inverse_propensity_z
            if logs._action_count_law is not None:
                found["action_count_z"] = lambda: action_count_z(logs)
        return found

    def _of_weighted_rounds(self):
        found = {
            "large_weight_mass": self.large_weight_mass,
            "altered_rows": self.altered_rows,
            "altered_mass": self.altered_mass,
            "action_frequency": self.action_frequency,
        }
        if _numeric(self.logs.context):
            found["covariate_imbalance"] = self.covariate_imbalance
        if self.logs.logging_proba is not None:
            found["calibration_z"] = self.calibration_z
            if not self.job.target.logged_only:
                found["overlap_tv"] = self.overlap_tv
        return found

    def _of_model(self):
        found = {
            "uncovered_rounds": lambda: int(self.job.source.n_uncovered_),
            "model_r2": self.model_r2,
        }
        if self.overlap is not None:
            found["correction"] = lambda: float(self.corrections.mean())
            found["correction_z"] = self.correction_z
        return found

    # -- numbers of every round -----------------------------------------------------
    @cached_property
    def parts(self):
        """Weights and model values of the logged actions of the rounds that enter."""
        w, _, q, _ = self.summary.rows.numbers
        weight = self.estimate.shares.weight
        if w is not None and np.ptp(weight) > 0:  # as they enter: by their strata
            w = w * (self.summary.n * weight)[self.job.design.stratum]
        return [self.positive.of(one) for one in (w, q) if one is not None]

    @property
    def w(self):
        """Importance weights."""
        return self.parts[0]

    def large_weight_mass(self):
        """Mean weight of the rounds with large weights."""
        return float((self.w * (self.w > LARGE_WEIGHT)).mean())

    def altered_rows(self):
        """Share of the rounds whose weight the evaluator changes."""
        return float((self.evaluator.weights(self.w) != self.w).mean())

    def altered_mass(self):
        """Share of the weight that the evaluator takes away or adds."""
        change = np.abs(self.evaluator.weights(self.w) - self.w)
        total = self.overlap.sum_w
        return float(change.sum() / total) if total else float("nan")

    def model_r2(self):
        """Share of the spread of the rewards that the model explains."""
        reward, q = self.logs.reward, self.parts[-1]
        spread = ((reward - reward.mean()) ** 2).sum()
        return float(1 - ((reward - q) ** 2).sum() / spread) if spread else float("nan")

    @cached_property
    def corrections(self):
        """Weighted residuals of the model."""
        weights = self.evaluator.weights(self.w)
        return weights * (self.logs.reward - self.parts[-1])

    def correction_z(self):
        """Mean of the corrections in standard errors, NaN where they do not vary."""
        design = self.positive.design
        if self.positive.mask is not None:
            design = design.take(np.flatnonzero(self.positive.mask))
        found = Estimate(sums_of_rounds(design.unweighted(), [self.corrections]), mean)
        error = found.standard_error
        return found.value / error if error > 0 else float("nan")

    # -- the logs alone -----------------------------------------------------------
    def action_frequency(self):
        """Mean of 1[a]/p: one for every action that was always offered."""
        logs = self.logs
        sums = np.bincount(
            logs.action_index, 1 / logs.propensity, minlength=logs.n_actions
        )
        return sums / len(logs)

    def calibration_z(self):
        r"""Spiegelhalter's z of the logging distribution."""
        # :math:`\sum (y - p)(1 - 2p) / \sqrt{\sum (1 - 2p)^2 p (1 - p)}`.
        total = variance = 0.0
        for rows, mu in self._logging_blocks():
            y = np.zeros_like(mu)
            y[np.arange(len(mu)), self.logs.action_index[rows]] = 1
            total += ((y - mu) * (1 - 2 * mu)).sum()
            variance += ((1 - 2 * mu) ** 2 * mu * (1 - mu)).sum()
        return float(total / np.sqrt(variance)) if variance else float("nan")

    def overlap_tv(self):
        """Mean total variation distance of the policy from the logger."""
        total, target = 0.0, self.job.target.of(self.positive)
        for rows, mu in self._logging_blocks():
            pi = target.chunk(self.logs[rows], rows.start)
            total += np.abs(pi - mu).sum() / 2
        return float(total / len(self.logs))

    def _logging_blocks(self):
        mu = self.logs.logging_proba
        for start in range(0, len(mu), 1 << 16):
            rows = slice(start, min(start + (1 << 16), len(mu)))
            yield rows, mu[rows]

    def covariate_imbalance(self):
        """|weighted mean - mean| / sd of every feature."""
        X, w = self.logs.context, self.w
        if sparse.issparse(X):
            mean_, spread = _sparse_moments(X)
            weighted = np.asarray(X.T @ w).ravel()
        else:
            X = np.asarray(X, dtype=float)
            mean_, weighted = X.mean(axis=0), w @ X
            spread = X.std(axis=0, ddof=min(len(X) - 1, 1))
        if not self.overlap.sum_w:
            return np.full(len(mean_), np.nan)
        distance = np.abs(weighted / w.sum() - mean_)
        return np.divide(
            distance, spread, out=np.zeros_like(distance), where=spread > 0
        )


def _sparse_moments(X):
    """Return mean and standard deviation of the columns of a sparse matrix."""
    average = np.asarray(X.mean(axis=0)).ravel()
    square = np.asarray(X.multiply(X).mean(axis=0)).ravel()
    n = max(X.shape[0] - 1, 1)
    return average, np.sqrt(np.maximum(square - average**2, 0) * X.shape[0] / n)


def _numeric(context):
    if sparse.issparse(context):
        return True
    return not is_frame(context) and context.dtype.kind in "biuf"
