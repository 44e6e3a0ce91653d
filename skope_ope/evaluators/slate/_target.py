# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The slate policy under evaluation, on the rounds of some logs."""

import numpy as np

from skope_ope.logs._validation import PROBABILITY_TOLERANCE, as_numbers
from skope_ope.policies.slate._deterministic_slates import slate_policy
from skope_ope.policies.slate._slate_base import entries

COLUMN = "policy under evaluation"  # carries an array along where rounds are taken


class TargetOfSlates:
    """What evaluators ask of a policy over slates.

    Parameters
    ----------
    policy : slate policy, array-like or str
        Anything that `slate_policy` takes, or floats of shape (n_rounds, n_slots):
        the probability of what each slot of the logs shows, which is all that the
        pseudoinverse needs of a target where slots were filled independently;
        booleans, where all of them are 0 or 1. A column's name may stand for an array.
    logs : SlateLogs
        The rounds.

    Attributes
    ----------
    policy : slate policy or None
        None where only `logged` is known.
    logs : SlateLogs
        The rounds, an array that stands for the policy among their columns.
    slates : ndarray of int of shape (n_rounds, n_slots) or None
        The slates of a deterministic policy.
    is_array : bool
        Whether an array stands for the policy, which knows these rounds only.
    logged : ndarray of shape (n_rounds, n_slots) or None
        Probability of the logged candidates, where no more is known.
    """

    def __init__(self, policy, logs):
        self.policy = self.slates = self.logged = None
        self.is_array = False
        given = logs.columns.get(policy) if isinstance(policy, str) else policy
        if isinstance(given, (list, tuple, np.ndarray)):
            array = _as_array(given)
            if array.ndim == 2 and array.dtype.kind in "fb":
                if not isinstance(policy, str):  # part of a column may be anything
                    _refuse_ambiguous(array)
                self.logs, self.logged = logs, _check_logged(array, logs)
                return
            if not isinstance(policy, str) and len(array) == len(logs):
                logs, policy = logs.with_columns(**{COLUMN: array}), COLUMN
                self.is_array = True
        self.logs = logs
        self.policy = slate_policy(policy, logs)
        if hasattr(self.policy, "deterministic_slates"):
            self.slates = self.policy.deterministic_slates(logs)
            if self.slates is not None:
                check_width(self.slates.shape[1], logs)

    @property
    def _known(self):
        if self.policy is None:
            raise TypeError(
                "an array of shape (n_rounds, n_slots) with the policy's probabilities "
                "of the logged candidates serves IndependentSlotIPS, and PseudoInverse "
                "where the logger fills slots independently. Pass a slate policy, "
                "integer slates, or slot marginals of shape (n_rounds, n_slots, "
                "n_candidates)."
            )
        return self.policy

    def marginals(self, logs):
        """Probability of every candidate in every slot of rounds of the logs."""
        table = np.asarray(self._known.slot_marginals(logs), dtype=float)
        check_width(table.shape[1], logs)
        return table

    def marginal_proba(self, logs):
        """Probability that each slot, taken alone, is filled as in the logs."""
        if self.logged is not None:
            return self.logged
        if self.slates is not None and logs is self.logs:
            return (self.slates == logs.slate).astype(float)
        if hasattr(self.policy, "marginal_proba"):
            return self.policy.marginal_proba(logs)
        table = self.marginals(logs)
        return entries(table, logs.slate, 1 - table.sum(axis=2))

    def slate_proba(self, logs):
        """Probability of the logged slates."""
        if self.slates is not None and logs is self.logs:
            return (self.slates == logs.slate).all(axis=1).astype(float)
        proba = np.asarray(self._known.slate_proba(logs, logs.slate), dtype=float)
        if not (proba.min() >= 0 and proba.max() <= 1 + PROBABILITY_TOLERANCE):
            raise ValueError(
                "slate_proba must lie in [0, 1], got "
                f"{proba.min():.6g} to {proba.max():.6g}."
            )
        return proba

    def prefix_proba(self, logs, slates=None):
        """Probability that the first slots are filled as in slates."""
        return method(self._known, "prefix_proba")(logs, slates)


def method(policy, name):
    """Return a method of a slate policy that not every one has."""
    if hasattr(policy, name):
        return getattr(policy, name)
    raise TypeError(
        f"{type(policy).__name__} has no {name}(logs, slates), which this evaluator "
        "needs. Derive the policy from BaseSlatePolicy."
    )


def check_width(n_slots, logs, whose="the policy"):
    """Raise unless a policy fills as many slots as the logs have."""
    if n_slots != logs.n_slots:
        raise ValueError(
            f"{whose} fills {n_slots} slots, the logs have {logs.n_slots}. Fill "
            "shorter slates with -1, an empty slot."
        )


def _as_array(given):
    try:
        return np.asarray(given)
    except ValueError as error:  # ragged
        raise ValueError(
            f"the slates are no rectangular array: {error}. Fill empty slots with -1."
        ) from error


def _refuse_ambiguous(array):
    """Raise where floats may be slates or probabilities."""
    if array.dtype.kind == "f" and array.size and np.isin(array, (0, 1)).all():
        raise TypeError(
            "floats that are all 0 or 1 may be slates or probabilities of the logged "
            "candidates. Pass slates as integers, policy.astype(int); and such "
            "probabilities as booleans, policy == 1."
        )


def _check_logged(array, logs):
    array = as_numbers("policy", array, 2)
    if array.shape != logs.slate.shape:
        raise ValueError(
            "probabilities of the logged candidates must have shape (n_rounds, "
            f"n_slots) = {logs.slate.shape}, got {array.shape}."
        )
    if not (array.min() >= 0 and array.max() <= 1 + PROBABILITY_TOLERANCE):
        raise ValueError(
            "policy must hold probabilities of the logged candidates in [0, 1], got "
            f"{array.min():.6g} to {array.max():.6g}. Slates are integers."
        )
    return array
