# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether the members of a user's evaluator are what they must be.

The formula is tried on a few rounds, so that what is wrong is said before a log is
read, and alike for rounds in memory, in files and in lazy frames.
"""

from numbers import Integral

import numpy as np

from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._auto import auto_parameters
from skope_ope.evaluators.core._design import PROPOSAL_WEIGHTS, Sampling
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._rounds import Rounds
from skope_ope.evaluators.core._sums import WEIGHT

KINDS_OF_MEMBERS = {"requires": Requires, "sampling": Sampling}
NEEDS = {"w": "weights=True", "b": "mixture=True"}
NEEDS |= dict.fromkeys(("q", "v", "residual", "correction"), "model=True")
MADE = {"residual": "q", "correction": "q", "gain": "w"}  # of what they are made
N_TRIED = 7  # rounds
KNOWN = "w, b, pi, r, q, v, gain, residual, correction and shift"


def check_members(evaluator):
    """Raise where a member of an evaluator is none that the engine can use."""
    name, combine = type(evaluator).__name__, evaluator.combine
    for member, kind in KINDS_OF_MEMBERS.items():
        if not isinstance(getattr(evaluator, member), kind):
            raise TypeError(f"{name}: {member} must be {kind.__name__}(...).")
    if evaluator.proposal not in PROPOSAL_WEIGHTS:
        raise ValueError(
            f"{name}: proposal must be one of "
            f"{[one for one in PROPOSAL_WEIGHTS if one]}, got {evaluator.proposal!r}."
        )
    if getattr(combine, "__self__", None) is evaluator:
        raise TypeError(
            f"{name}: combine must be a function of the means alone. State it as "
            "combine = staticmethod(function)."
        )
    if evaluator.requires.mixture and evaluator.proposal == "logger":
        raise ValueError(
            f"{name}: requires states mixture, so proposal must be 'mixture', got "
            f"{evaluator.proposal!r}."
        )
    if auto_parameters(evaluator) or _resolves(evaluator):
        return  # the terms are not known before the log is
    with beyond_floats():
        _check_formula(name, evaluator)


def _check_formula(name, evaluator):
    """Raise where a formula, tried on a few rounds, gives no terms."""
    try:
        terms = evaluator.terms(_Tried(evaluator))
    except NotRequired:
        raise
    except Exception:  # it asks more of rounds than these few have: the log will tell
        return
    if not isinstance(terms, tuple) or not all(map(_has_entries, terms)) or not terms:
        raise TypeError(
            f"{name}: terms(rounds) must return a tuple of arrays with an entry per "
            "round, as (rounds.w * rounds.r,)."
        )
    _check_combine(name, evaluator, terms)
    _check_numbers(name, evaluator, len(terms))


class NotRequired(TypeError):
    """The terms read what the evaluator does not require."""


class _Tried(Rounds):
    """A few rounds, which tell what of them was not required."""

    def __init__(self, evaluator):
        self._evaluator, requires = evaluator, evaluator.requires
        w, r = np.linspace(0.5, 2.0, N_TRIED), np.linspace(0.0, 1.0, N_TRIED)
        given = {"w": w, "b": w, "r": r, "q": r / 2, "v": r / 3, "shift": 0.0}
        lacking = {"w", "b"} if not requires.weights else set()
        lacking |= set() if requires.mixture else {"b"}
        lacking |= set() if requires.model else {"q", "v"}
        for name in lacking:
            del given[name]
        super().__init__(pi=w / 4, **given)

    def __getattribute__(self, name):
        mine = object.__getattribute__(self, "__dict__")
        if MADE.get(name, name) in ("w", "b", "q", "v") and (
            MADE.get(name, name) not in mine
        ):
            owner = type(mine["_evaluator"]).__name__
            raise NotRequired(
                f"{owner}: terms reads rounds.{name}, which it does not require. State "
                f"requires = Requires({NEEDS.get(name, NEEDS['w'])})."
            )
        return object.__getattribute__(self, name)

    def __getattr__(self, name):
        owner = type(self._evaluator).__name__
        more = ""
        if name == "n_rounds":
            more = " The number of all rounds is facts.n_rounds of resolved(facts)."
        raise NotRequired(
            f"{owner}: terms reads rounds.{name}. Rounds have {KNOWN}.{more}"
        )


def _resolves(evaluator):
    return type(evaluator).resolved is not BaseEvaluator.resolved


def _has_entries(term):
    return np.shape(term) == (N_TRIED,)


def _check_combine(name, evaluator, terms):
    try:
        found = evaluator.combine([float(np.mean(term)) for term in terms])
    except (ArithmeticError, ValueError):  # it cannot be formed there
        return
    if not isinstance(found, tuple) or len(found) != 2:
        raise TypeError(
            f"{name}: combine must return the estimate and its gradient, got {found!r}."
        )
    if np.shape(found[1]) != (len(terms),):
        raise ValueError(
            f"{name}: combine must return a gradient with a slope per term, "
            f"{len(terms)}, got {found[1]!r}."
        )


def _check_numbers(name, evaluator, n_terms):
    by, smooth = evaluator.shift_with, evaluator.smooth
    if by is not None and (not isinstance(by, Integral) or not WEIGHT <= by < n_terms):
        raise ValueError(
            f"{name}: shift_with must be None, WEIGHT or the number of a term below "
            f"{n_terms}, got {by!r}."
        )
    if not set(smooth) <= set(range(n_terms)):
        raise ValueError(
            f"{name}: smooth must hold numbers of terms below {n_terms}, got {smooth}."
        )
