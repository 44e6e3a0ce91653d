# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of policies by evaluators, computed by the library behind a lazy frame.

Every policy and every model is a column, and the formulas of the evaluators become
expressions: nothing comes to Python but the sums, or one row per group.
"""

from copy import copy

from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._requires import LogFacts
from skope_ope.evaluators.core._summary import (
    SumsByDesign,
    refuse_unstated_model,
    resolved_for_parts,
)
from skope_ope.evaluators.frames._frame_log import FirstRows
from skope_ope.evaluators.frames._frame_pass import About, FramePass
from skope_ope.evaluators.frames._frame_query import INSTEAD, Asking, FrameQuery
from skope_ope.evaluators.parts._part_sums import PartSums, bare_evaluator
from skope_ope.logs import BanditLogs
from skope_ope.logs._validation import plain

NO_WEIGHT = (
    "no round of the lazy frame has a positive sample weight. Check the column of "
    "sample_weight."
)


def frame_sums(policies, evaluators, lazy, *, sources=None, reward_model=None, by=()):
    """Return the sums of policies by evaluators over the rounds of a lazy frame."""
    if lazy._log_type is not BanditLogs:
        raise TypeError(
            f"slates cannot be summed inside a lazy frame. You can {INSTEAD}"
        )
    ready = {
        name: _ready_for_frame(evaluator, (sources or {}).get(name), reward_model)
        for name, evaluator in evaluators.items()
    }
    first, roles, shares = FirstRows(lazy), lazy.roles, None
    about = About(first.offset)
    if roles.get("logger") and roles.get("logger_proba") and len(lazy.loggers) > 1:
        shares = _shares_of_loggers(lazy, about)

    def passed(by=None):
        whole = FramePass(first, policies, about, shares)
        for name, evaluator in ready.items():
            whole.enter(name, checked_for_frame(evaluator, whole.logs))
        return whole.run(by)

    def part_sums(found):
        bare = {name: bare_evaluator(one) for name, one in evaluators.items()}
        about = int(found.answers.total("n")), policies, bare
        if not found.counts.n:
            return PartSums(*about)
        facts = {None: {"logger_proba": bool(roles.get("logger_proba"))}}
        sums = SumsByDesign(found.joints), found.tallies, found.ends, facts, found.log
        return PartSums(*about, found.counts, *sums)

    with beyond_floats():
        found = passed()[None]
        if not found.counts.n:
            raise ValueError(NO_WEIGHT)
        if about.learn(found):
            found = passed()[None]
        out = part_sums(found)
        for name in by:
            parts = passed(_column_of(lazy, name)).items()
            out.by[name] = {label: part_sums(part) for label, part in parts}
    return out.bucketed() if out._has_too_many_groups else out


def _shares_of_loggers(lazy, about):
    """Return the share of every logger in the rounds, a dict."""
    # Weights against the mixture of the loggers need them beforehand.
    query = FrameQuery(lazy.frame)
    asking, weight = Asking(query), lazy.roles.get("sample_weight")
    omega = query.number(weight[0], "sample_weight") if weight else None
    mass = asking.sum(omega)
    answers = asking.run({"logger": query.label(lazy.roles["logger"][0], "logger")})
    about.n_logged, whole = int(answers.total("n")), answers.total(mass)
    if not whole:
        raise ValueError(NO_WEIGHT)
    found = dict.fromkeys(map(plain, lazy.loggers.tolist()), 0.0)
    labels = map(plain, answers.strata("logger")[0].tolist())
    return found | dict(zip(labels, answers.of(mass, "logger") / whole, strict=True))


def _column_of(lazy, name):
    """Return the column of the frame by whose labels sums are wanted."""
    found = lazy.columns.get(name) or lazy.roles.get(name) or name
    found = (found,) if isinstance(found, str) else tuple(found)
    if len(found) > 1:
        raise ValueError(
            f"by={name!r} names {len(found)} columns of the frame. Name one column."
        )
    return found[0]


def checked_for_frame(evaluator, rounds):
    """Return an evaluator that needs nothing that a frame lacks, or raise."""
    name = type(evaluator).__name__
    evaluator = resolved_for_parts(evaluator, LogFacts(None, True, rounds))
    refuse_unstated_model(evaluator)
    if evaluator.requires.weights and rounds.p is None:
        raise ValueError(
            f"{name} needs the propensities of the logged actions. Name their "
            "column: scan_logs(..., propensity=...)."
        )
    mixes = evaluator.requires.mixes(rounds)
    if mixes and rounds.has_several_loggers and rounds.logger_proba is None:
        raise ValueError(
            f"{name} needs the probability of the logged action under each logger. "
            "Name these columns: scan_logs(..., logger_proba=[columns])."
        )
    if evaluator.requires.divergences is not None:
        raise ValueError(
            f"{name} cannot be summed inside a lazy frame: "
            f"divergences={evaluator.requires.divergences!r} are estimated from all "
            "rounds. Pass one number per logger."
        )
    if evaluator.requires.reward_range and rounds.reward_range is None:
        rounds.query.check_number(
            rounds.reward,
            f"{name} needs rewards that are not negative, or reward_range",
            0.0,
        )
    if evaluator.proposal is None and evaluator.sampling.arms is None:
        raise TypeError(
            f"{name} cannot be computed inside a lazy frame, because its terms are "
            "not arithmetic of columns. Write the frame to parquet, and scan the "
            "files: scan_logs(folder, ...)."
        )
    return evaluator


def _ready_for_frame(evaluator, source, reward_model):
    """Return an evaluator that can be asked for its terms, as if it were fitted."""
    out = copy(evaluator)
    if not evaluator.requires.model:
        return out
    if source is None:
        model = evaluator._model_of_fit
        source = evaluator.reward_model if model is None else model
        source = reward_model if source is None else source
    if source is None:
        raise TypeError(
            f"the reward model of {type(evaluator).__name__} is None: the "
            "out-of-fold mean reward of every action, which needs rounds in "
            "memory. Inside a lazy frame pass a number, or the name of columns "
            f"with predictions, one per action. Or {INSTEAD}"
        )
    out.reward_model_ = source
    return out
