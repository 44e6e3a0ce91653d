# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of evaluators of slate policies, and what is known of the logger."""

import numpy as np

from skope_ope._progress import untold
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._overlap_findings import slate_support_findings
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._rounds import combined_weights
from skope_ope.evaluators.core._slate_target import SlateTarget, check_width, method
from skope_ope.evaluators.core._slates import SlateTerms, slate_shares, value_of_slates
from skope_ope.evaluators.core._warnings import warnings_of
from skope_ope.logs import SlateLogs
from skope_ope.logs._validation import EMPTY, row_of_another_reward
from skope_ope.policies.slate._slate_base import BaseSlatePolicy, offered_slots
from skope_ope.reward_models._slate_reward_models import (
    any_slate_model,
    given_slate_source,
    slate_reward_source,
)

CHUNK_BYTES = 2**22  # of one table
ROUNDS_OF_BLOCK = 8192  # rounds whose arrays fit the cache


class SlateEvaluator(BaseEvaluator):
    """Base class of evaluators of slate policies.

    A subclass states what it `requires` of the logs, and gives the `slate_terms` of all
    rounds at once: weights of slates are solved for many rounds together.
    """

    requires = Requires(weights=False, logs=(SlateLogs,))
    shows = "slates"  # what the logger may never show: "slates" or "slots"
    _fittable = staticmethod(any_slate_model)

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

    def fit_reward_model(self, logs, model, cv=None, target=None, progress=untold):
        """Return what predicts the rewards of slates, out of fold."""
        return slate_reward_source(model, logs, cv, self._fittable, progress)

    def _given_source(self, model, logs):
        return given_slate_source(model, self._fittable)

    def diagnostics_of(self, summary, estimate):
        """Return nothing, and what parts told of slates that are never shown."""
        lost = slate_shares(summary).get("unsupported_share", 0.0)
        return {}, warnings_of(slate_support_findings(lost, self.shows))


def support_of_slots(target, logs):
    """Return what `SupportDisplay` shows of a slate policy on some rounds."""
    logger, n = logs.logging_policy, len(logs)
    known = hasattr(logger, "slot_marginals") and knows_all(logger, target, logs)
    wanted, shown, lost = np.zeros((3, logs.n_slots, logs.max_candidates))
    for _, rounds, pi in chunks(target, logs):
        wanted += pi.sum(axis=0) / n
        if known:
            mu = np.asarray(method(logger, "slot_marginals")(rounds), dtype=float)
            shown += mu.sum(axis=0) / n
            lost += np.where(mu == 0, pi, 0.0).sum(axis=0) / n
        else:
            filled = rounds.slate >= 0
            np.add.at(shown, (np.nonzero(filled)[1], rounds.slate[filled]), 1 / n)
    if not known:
        lost = np.where(shown == 0, wanted, 0.0)
    slot, candidate = np.nonzero((wanted > 0) | (shown > 0))
    return {
        "labels": [f"slot {s}: {k}" for s, k in zip(slot + 1, candidate, strict=True)],
        "policy_share": wanted[slot, candidate],
        "logger_share": shown[slot, candidate],
        "unsupported": lost[slot, candidate],
        "label_name": "slot and candidate",
    }


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


def is_possible(logs):
    """Tell which logged slates are rankings that fill as many slots as they can."""
    kind = np.int16 if logs.max_candidates < 2**15 else np.int32
    n_offered, possible = offered_counts(logs), np.empty(len(logs), dtype=bool)
    for start in range(0, len(logs), ROUNDS_OF_BLOCK):
        rows = slice(start, start + ROUNDS_OF_BLOCK)
        slates = np.ascontiguousarray(logs.slate[rows].T, dtype=kind)
        _, exists = offered_here(n_offered, rows, logs.n_slots)
        shown = slates != EMPTY
        right = (shown == exists).all(axis=0)
        for slot in range(1, logs.n_slots):
            right &= ~((slates[:slot] == slates[slot]) & shown[slot]).any(axis=0)
        possible[rows] = right
    return possible


def offered_counts(logs):
    """Return how many candidates the rounds offer, one number where they all agree."""
    offered = offered_slots(logs, logs.n_slots)
    return offered[:, 0].sum(axis=1).astype(float)


def offered_here(n_offered, rows, n_slots):
    """Return the number of candidates of rounds, and which slots slates fill."""
    m = n_offered[rows] if len(n_offered) > 1 else n_offered[0]
    return m, np.arange(n_slots)[:, None] < np.minimum(m, n_slots)


def form_of(logger, logs):
    """Name the closed form of a logger on logs, or None."""
    return logger.closed_form(logs) if hasattr(logger, "closed_form") else None


def knows_all(logger, target, logs):
    """Tell whether more is known than the probabilities of the logged candidates."""
    return target.logged is None and recorded(logger, logs) is None


def recorded(logger, logs):
    """Return the column with the logger's probabilities of the logged candidates."""
    # None where the logger is known by more than that.
    name = getattr(logger, "slot_proba", None)
    column = logs.columns.get(name) if isinstance(name, str) else None
    return column if np.ndim(column) == 2 else None


def never_shown(target, logs, shows):
    """Return which of a deterministic policy's slots or slates are never shown."""
    # None where the policy draws its slates, or the logger is not known well enough.
    logger = logs.logging_policy
    if target.slates is None or logger is None or not knows_all(logger, target, logs):
        return None
    name = "slate_proba" if shows == "slates" else "marginal_proba"
    return method(logger, name)(logs, target.slates) == 0


def known_support(never, shows):
    """Return what `SlateTerms` say of slots or slates that are never shown."""
    lost = float("nan") if never is None else float(never.mean())
    return {
        "supported": not lost > 0,
        "diagnostics": {"unsupported_share": lost},
        "warnings": warnings_of(slate_support_findings(lost, shows)),
    }


def chunk_rows(logs):
    """Return how many rounds a table is made for at once."""
    return max(1, CHUNK_BYTES // (8 * logs.n_slots * logs.max_candidates))


def chunks(target, logs):
    """Yield (rows, rounds, slot marginals of the target), some rounds at a time."""
    step = chunk_rows(logs)
    for start in range(0, len(logs), step):
        rows = slice(start, min(start + step, len(logs)))
        rounds = logs[rows]
        yield rows, rounds, target.marginals(rounds, start)
