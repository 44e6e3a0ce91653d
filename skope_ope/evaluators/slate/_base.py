# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The base class of evaluators of slate policies."""

import numpy as np

from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._overlap_findings import slate_support_findings
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._rounds import combined_weights
from skope_ope.evaluators.core._slate_target import SlateTarget, check_width, method
from skope_ope.evaluators.core._slates import SlateTerms, shares_of, value_of_slates
from skope_ope.evaluators.core._warnings import warnings_of
from skope_ope.evaluators.slate._support import form_of, support_of_slots
from skope_ope.evaluators.slate._uniform_rankings import is_possible
from skope_ope.logs import SlateLogs
from skope_ope.logs._validation import EMPTY, row_of_another_reward
from skope_ope.policies.slate._slate_base import BaseSlatePolicy


class SlateEvaluator(BaseEvaluator):
    """Base class of evaluators of slate policies.

    A subclass states what it `requires` of the logs, and gives the `slate_terms` of all
    rounds at once: weights of slates are solved for many rounds together.
    """

    requires = Requires(weights=False, logs=(SlateLogs,))
    shows = "slates"  # what the logger may never show: "slates" or "slots"

    def slate_terms(self, target: SlateTarget, logs: SlateLogs) -> SlateTerms:
        """Return the terms of a policy on some rounds.

        Parameters
        ----------
        target : SlateTarget
            The policy, with its probabilities over the slates of these rounds.
        logs : SlateLogs
            The rounds.

        Returns
        -------
        terms : SlateTerms
            The terms, their weights, and what is known of them.
        """
        raise TypeError(
            f"{type(self).__name__} does not define slate_terms(target, logs)."
        )

    def check_logs(self, logs):
        super().check_logs(logs)
        name, needs = type(self).__name__, self.requires.slates
        if "slot_reward" in needs and logs.slot_reward is None:
            raise ValueError(
                f"{name} needs the rewards of the slots. Pass slot_reward=... of shape "
                "(n_rounds, n_slots) to SlateLogs."
            )
        other = row_of_another_reward(logs) if "slot_reward" in needs else None
        if other is not None:  # a value of clicks beside a baseline of purchases
            raise ValueError(
                f"{name} adds the rewards of slots, but reward is not their sum: "
                f"at row {other} it is {logs.reward[other]:.6g}, and the slot "
                f"rewards add to {logs.slot_reward[other].sum():.6g}. To value the "
                "slot rewards, build the logs without reward. To value reward, use "
                "PseudoInverse."
            )
        if logs.logging_policy is None:
            whole = "propensity" in needs and logs.propensity is None
            if "logger" in needs or whole:
                instead = " or propensity=..., the probability of every logged slate,"
                at_hand = (
                    " If slots were filled independently, these logs have the "
                    "column for it: "
                    "logs.replace(logging_policy=ProductSlatePolicy('slot_propensity'))."
                )
                raise ValueError(
                    f"{name} needs the logging policy, which these logs do not have. "
                    f"Pass logging_policy=...{instead if whole else ''} to SlateLogs "
                    "or logs.replace: UniformSlatePolicy, ProductSlatePolicy, "
                    "PlackettLuceSlatePolicy, or EmpiricalSlatePolicy.seen_in(logs, "
                    "by=...) for one that drew from the slates it shows."
                    f"{at_hand * ('slot_propensity' in logs.columns)}"
                )
        elif self.requires.asks_logger(logs):
            check_logged_slates(logs)

    def _support_on(self, policy, logs=None):
        """Return what `SupportDisplay` shows of a policy on the rounds."""
        logs = self.logs_ if logs is None else logs
        self._check_kind(logs)
        target = SlateTarget(policy, logs)
        return support_of_slots(target, target.logs)

    def _evaluate(self, policy, logs, sample_weight):
        omega = combined_weights(logs, sample_weight)
        return value_of_slates(self, policy, logs, omega)

    def resolved(self, facts, rows=None):
        """Return the evaluator; raise where it draws slates of parts of a log."""
        logger = facts.logs.logging_policy
        if facts.in_parts and not getattr(logger, "exact", True):
            raise ValueError(
                f"the pair probabilities of {type(logger).__name__} "
                "are means over draws. Use the exact logging policy."
            )
        return self

    def diagnostics_of(self, summary, estimate):
        """Return nothing, and what parts told of slates that are never shown."""
        lost = shares_of(summary).get("unsupported_share", 0.0)
        return {}, warnings_of(slate_support_findings(lost, self.shows))


def logged_proba(logs):
    """Probability of the logged slates under the logger."""
    if logs.propensity is not None:
        return logs.propensity
    return method(logs.logging_policy, "slate_proba")(logs, logs.slate)


def check_logged_slates(logs):
    """Raise where the logging policy could not have composed a logged slate."""
    logger = logs.logging_policy
    if isinstance(logger, BaseSlatePolicy):
        logger._check_logs(logs)
        check_width(logger._slots_of(logs), logs, "the logging policy")
    if form_of(logger, logs) == "uniform":
        proba = is_possible(logs).astype(float)
    else:
        proba = method(logger, "slate_proba")(logs, logs.slate)
    wrong = ~(proba > 0)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"the logging policy {type(logger).__name__} gives probability "
            f"{proba[row]:.6g} to the logged slate {logs.slate[row].tolist()} at "
            f"row {row} ({int(wrong.sum())} such rows), so it did not choose this "
            "slate. Correct the policy, the candidates or the slates."
            f"{_of_short_slates(logs, row)}"
        )


def _of_short_slates(logs, row):
    """Return what to do where a slate may be of a page with fewer slots."""
    slate = logs.slate[row]
    empty = np.flatnonzero(slate == EMPTY)
    if not len(empty) or (slate == EMPTY).all():
        return ""
    if (slate[empty[0] :] != EMPTY).any():
        return " A slot before its last item is empty: was an item not logged?"
    return (
        f" Did this page have {empty[0]} slots only? Then let its last slots offer "
        "nothing: SlateLogs.from_frame(..., logging_policy=...) does so, or set "
        f"candidates[{row}, {empty[0]}:] to False, with candidates of shape (n_rounds, "
        "n_slots, n_candidates). A policy that you evaluate leaves them empty, too."
    )
