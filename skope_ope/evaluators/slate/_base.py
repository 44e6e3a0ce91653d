# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of evaluators of slate policies: one formula of per-round arrays."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from skope_ope.evaluators.core import _functions
from skope_ope.evaluators.core._base import BaseEvaluator
from skope_ope.evaluators.core._overlap import Overlap
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._slate_target import SlateTarget, check_width
from skope_ope.evaluators.slate._bearing import Bearing
from skope_ope.evaluators.slate._diagnostics import (
    LazyDiagnostics,
    weight_diagnostics,
    weight_warnings,
)
from skope_ope.evaluators.slate._support import form_of
from skope_ope.evaluators.slate._uniform_rankings import is_possible
from skope_ope.logs import SlateLogs
from skope_ope.policies.slate._slate_base import BaseSlatePolicy


@dataclass
class Findings:
    """What an evaluator makes of the rounds.

    Attributes
    ----------
    terms : tuple of ndarray of shape (n_rounds,)
        Per-round terms.
    combine : callable
        The function of their means that is the estimate, see `_moments`.
    weight : ndarray of shape (n_rounds,) or None
        Importance weights of the rounds.
    used : ndarray of bool of shape (n_rounds,) or None
        Rounds that bear on the policy; None: all of them.
    expected : ndarray of shape (n_rounds,) or None
        Means of the weights under the logger; None: one.
    supported : bool
        Whether the means of the weights are known.
    diagnostics : dict
        Numbers, or functions that give them.
    warnings : list of OPEWarning
    bound : callable or None
        See `PolicyValue.deviation_bound`.
    """

    terms: tuple
    combine: object = _functions.mean
    weight: object = None
    used: object = None
    expected: object = None
    supported: bool = True
    diagnostics: dict = field(default_factory=dict)
    warnings: list = field(default_factory=list)
    bound: object = None


class SlateEvaluator(BaseEvaluator):
    """Base class of evaluators of slate policies.

    A subclass implements `_findings(target, logs)`, and names in `_needs` what the
    logs must hold: "logger", "propensity" (either it or the logger), "slot_reward".
    """

    _takes = (SlateLogs,)
    _needs = ()

    def _findings(self, target, logs):
        """Return the `Findings` for a policy on logs."""
        raise TypeError(f"{type(self).__name__} does not define _findings.")

    def _check_logs(self, logs):
        super()._check_logs(logs)
        name, needs = type(self).__name__, self._needs
        if "slot_reward" in needs and logs.slot_reward is None:
            raise ValueError(
                f"{name} needs the rewards of the slots. Pass slot_reward=... of shape "
                "(n_rounds, n_slots) to SlateLogs."
            )
        if logs.logging_policy is None:
            whole = "propensity" in needs and logs.propensity is None
            if "logger" in needs or whole:
                instead = " or propensity=..., the probability of every logged slate,"
                at_hand = (
                    " Where slots were filled independently, the column that these "
                    "logs carry will do: logs.replace(logging_policy="
                    "ProductSlatePolicy('slot_propensity'))."
                )
                raise ValueError(
                    f"{name} needs the logging policy, which these logs do not have. "
                    f"Pass logging_policy=...{instead if whole else ''} to SlateLogs: "
                    "UniformSlatePolicy, ProductSlatePolicy, PlackettLuceSlatePolicy, "
                    "or EmpiricalSlatePolicy.seen_in(logs, by=...) for one that "
                    "drew from the slates it shows."
                    f"{at_hand * ('slot_propensity' in logs.columns)}"
                )
        elif "logger" in needs or ("propensity" in needs and logs.propensity is None):
            check_logged_slates(logs)

    def _evaluate(self, policy, logs, sample_weight):
        target = SlateTarget(policy, logs)
        found = self._findings(target, target.logs)
        omega, n_used, bound = combined_weights(logs, sample_weight), len(logs), None
        if omega is None:
            bound = found.bound
        elif found.bound is not None:
            bound = refuse_unequal_weights
        if found.used is not None and not found.used.all():
            omega = found.used * (1.0 if omega is None else omega)
            n_used = int(found.used.sum())
            omega = omega / omega.mean() if omega.any() else omega
        moments = _moments.Moments()
        moments.add(0, found.terms, omega)
        value, error, linearise = moments.estimate(found.combine)
        if n_used == 1:
            error = float("nan")  # one round among those left out has no spread
        name, ratio = type(self).__name__, len(found.terms) == 2
        bearing = Bearing(
            name,
            len(logs),
            found.weight,
            found.terms[1] if ratio else None,
            found.used,
            omega,
        )
        diagnostics, warned = {"n_rounds": len(logs)}, list(found.warnings)
        size = float("nan")
        if found.weight is not None and n_used:
            overlap = _overlap(found, found.weight, omega)
            balance = overlap
            if found.expected is not None:
                balance = _overlap(found, found.weight + 1 - found.expected, omega)
            if overlap.sum_w2:
                warned += weight_warnings(overlap, balance, found.supported)
            diagnostics |= weight_diagnostics(overlap, balance)
            size = overlap.effective_sample_size
        unformed = bearing.warnings()
        if unformed:
            value = error = float("nan")
            warned += unformed
        return PolicyValue(
            value,
            error,
            len(logs),
            estimator=name,
            logs=logs,
            terms=partial(np.stack, found.terms),
            linearise=linearise,
            combine=found.combine,
            sample_weight=omega,
            effective_sample_size=size,
            diagnostics=LazyDiagnostics(diagnostics | found.diagnostics),
            warnings=warned,
            bound=bound,
            bearing=bearing,
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.handles = ("slate",)
        tags.needs_propensity = False
        return tags


def _overlap(found, weight, omega):
    overlap, used = Overlap(), found.used
    if used is not None:
        weight, omega = weight[used], None if omega is None else omega[used]
        omega = None if omega is None or not omega.any() else omega / omega.mean()
    overlap.add(weight, 0.0, omega)
    return overlap


def refuse_unequal_weights(result, delta, **assumptions):
    """Stand for the bound of rounds that do not weigh the same."""
    raise ValueError(
        f"the theorem that bounds the deviation of {result.estimator} is one for "
        "rounds that weigh the same, and these have sample weights that differ. Use "
        "confidence_interval, or evaluate without sample weights."
    )


def logged_proba(logs):
    """Probability of the logged slates under the logger."""
    if logs.propensity is not None:
        return logs.propensity
    return logs.logging_policy.slate_proba(logs, logs.slate)


def check_logged_slates(logs):
    """Raise where the logging policy could not have composed a logged slate."""
    logger = logs.logging_policy
    if isinstance(logger, BaseSlatePolicy):
        logger._check_logs(logs)
        check_width(logger._slots_of(logs), logs, "the logging policy")
    if form_of(logger, logs) == "uniform":
        proba = is_possible(logs).astype(float)
    else:
        proba = logger.slate_proba(logs, logs.slate)
    wrong = ~(proba > 0)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"the logging policy {type(logger).__name__} gives the logged slate "
            f"{logs.slate[row].tolist()} at row {row} probability {proba[row]:.6g} "
            f"({int(wrong.sum())} such rows): it cannot have composed it. Correct the "
            "policy, the candidates or the slates."
        )
