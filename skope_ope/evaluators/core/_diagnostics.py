# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a static estimate rests on, each entry computed when it is read."""

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from scipy import sparse

from skope_ope.evaluators.core._engine import Extract, terms_of
from skope_ope.logs._propensity_audit import action_count_z
from skope_ope.logs._validation import is_frame

LARGE_WEIGHT = 20
PARAMETERS = ("cmax", "lam", "tau")  # named where they were chosen for the policy


class StaticDiagnostics(Mapping):
    """Diagnostics of one evaluator on one policy, by name.

    Which names there are depends on what is known: `overlap_tv` and `calibration_z`
    need the whole logging distribution, `action_count_z` that or propensities that
    are the same wherever an action was taken, `model_*` and `correction*` a reward
    model, `covariate_imbalance` numeric contexts.
    """

    def __init__(self, evaluator, entering, target, source, overlap):
        self._evaluator = evaluator
        self._entering = entering
        self._target = target
        self._source = source
        self._overlap = overlap
        self._cache = {}

    @property
    def _logs(self):
        return self._entering.logs

    @cached_property
    def _names(self):
        names = ["n_rounds"]
        if self._evaluator._was_auto:
            names.append(self._evaluator._auto.name)
        if self._overlap is not None:
            names += [
                "effective_sample_size",
                "effective_share",
                "max_weight",
                "max_weight_share",
                "mean_weight",
                "mean_weight_z",
                "unsupported_mass",
                "overlap_chi2",
                "large_weight_mass",
                "altered_rows",
                "altered_mass",
                "inverse_propensity_z",
                "action_frequency",
            ]
            if _numeric(self._logs.context):
                names.append("covariate_imbalance")
            if self._logs.action_count_law is not None:
                names.append("action_count_z")
            if self._logs.logging_proba is not None:
                names.append("calibration_z")
                if not self._target.logged_only:
                    names.append("overlap_tv")
        if self._source is not None:
            names += ["model_error_included", "uncovered_rounds", "model_r2"]
            if self._overlap is not None:
                names += ["correction", "correction_z"]
        return names

    def __reduce__(self):
        # What is computed on access holds the logs and the policy: compute it now.
        return dict, (dict(self),)

    def __iter__(self):
        return iter(self._names)

    def __len__(self):
        return len(self._names)

    def __getitem__(self, name):
        if name not in self._names:
            raise KeyError(name)
        if name in PARAMETERS:
            return getattr(self._evaluator, name)
        if name not in self._cache:
            self._cache[name] = getattr(self, f"_{name}")()
        return self._cache[name]

    def __repr__(self):
        return f"StaticDiagnostics({', '.join(self._names)})"

    # -- sums of the evaluation itself -------------------------------------------
    def _n_rounds(self):
        return len(self._logs)

    def _effective_sample_size(self):
        return self._overlap.effective_sample_size

    def _effective_share(self):
        return self._overlap.effective_sample_size / len(self._logs)

    def _max_weight(self):
        return float(self._overlap.max_w)

    def _max_weight_share(self):
        total = self._overlap.sum_w
        return float(self._overlap.max_w / total) if total else float("nan")

    def _mean_weight(self):
        return self._overlap.mean_weight

    def _mean_weight_z(self):
        return self._overlap.mean_weight_z

    def _unsupported_mass(self):
        return self._overlap.missing_mass

    def _overlap_chi2(self):
        return float(self._overlap.sum_w2 / self._overlap.n - 1)

    # -- one more pass over the rounds -------------------------------------------
    @cached_property
    def _parts(self):
        logs = self._entering.all_logs  # an array belongs to the rows of all of them
        return self._entering.of(terms_of(PARTS, logs, self._target, self._source))

    @property
    def _w(self):
        return self._parts[0]

    def _large_weight_mass(self):
        return float((self._w * (self._w > LARGE_WEIGHT)).mean())

    def _altered_rows(self):
        return float((self._evaluator._weights(self._w) != self._w).mean())

    def _altered_mass(self):
        change = np.abs(self._evaluator._weights(self._w) - self._w)
        total = self._overlap.sum_w
        return float(change.sum() / total) if total else float("nan")

    def _model_error_included(self):
        # The correction term of all but the direct method carries the model's error.
        return bool(self._evaluator._uses_weights)

    def _uncovered_rounds(self):
        return int(self._source.n_uncovered_)

    def _model_r2(self):
        reward, q = self._logs.reward, self._parts[-1]
        spread = ((reward - reward.mean()) ** 2).sum()
        return float(1 - ((reward - q) ** 2).sum() / spread) if spread else float("nan")

    @cached_property
    def _corrections(self):
        weights = self._evaluator._weights(self._w)
        return weights * (self._logs.reward - self._parts[-1])

    def _correction(self):
        return float(self._corrections.mean())

    def _correction_z(self):
        return _z(self._corrections)

    # -- the logs alone -----------------------------------------------------------
    def _inverse_propensity_z(self):
        return self._logs.inverse_propensity_z

    def _action_frequency(self):
        # Mean of 1[a]/p: one for every action that was always offered.
        logs = self._logs
        sums = np.bincount(
            logs.action_index, 1 / logs.propensity, minlength=logs.n_actions
        )
        return sums / len(logs)

    def _action_count_z(self):
        return action_count_z(self._logs)

    def _calibration_z(self):
        # Spiegelhalter: sum (y - p)(1 - 2p) / sqrt(sum (1 - 2p)^2 p (1 - p))
        total = variance = 0.0
        for rows, mu in self._logging_blocks():
            y = np.zeros_like(mu)
            y[np.arange(len(mu)), self._logs.action_index[rows]] = 1
            total += ((y - mu) * (1 - 2 * mu)).sum()
            variance += ((1 - 2 * mu) ** 2 * mu * (1 - mu)).sum()
        return float(total / np.sqrt(variance)) if variance else float("nan")

    def _overlap_tv(self):
        total, target = 0.0, self._target.of(self._entering)
        for rows, mu in self._logging_blocks():
            rounds = self._logs[rows]
            pi = target.chunk(rounds, rows.start, rows.stop)
            total += np.abs(pi - mu).sum() / 2
        return float(total / len(self._logs))

    def _logging_blocks(self):
        mu = self._logs.logging_proba
        for start in range(0, len(mu), 1 << 16):
            rows = slice(start, min(start + (1 << 16), len(mu)))
            yield rows, mu[rows]

    def _covariate_imbalance(self):
        # |weighted mean - mean| / sd of every feature
        X, w = self._logs.context, self._w
        if sparse.issparse(X):
            mean = np.asarray(X.mean(axis=0)).ravel()
            square = np.asarray(X.multiply(X).mean(axis=0)).ravel()
            n = max(X.shape[0] - 1, 1)
            sd = np.sqrt(np.maximum(square - mean**2, 0) * X.shape[0] / n)
            weighted = np.asarray(X.T @ w).ravel()
        else:
            X = np.asarray(X, dtype=float)
            mean, weighted = X.mean(axis=0), w @ X
            sd = X.std(axis=0, ddof=min(len(X) - 1, 1))
        if not self._overlap.sum_w:
            return np.full(len(mean), np.nan)
        distance = np.abs(weighted / w.sum() - mean)
        return np.divide(distance, sd, out=np.zeros_like(distance), where=sd > 0)


# Weights, and model values of the logged actions where there is a model.
PARTS = Extract(lambda rounds: [x for x in (rounds.w, rounds.q) if x is not None])


def _numeric(context):
    if sparse.issparse(context):
        return True
    return not is_frame(context) and context.dtype.kind in "biuf"


def _z(values):
    if len(values) < 2:
        return float("nan")
    error = values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() / error) if error > 0 else float("nan")
