# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of policies by evaluators, computed by the library behind a lazy frame.

Every policy and every model is a column, and the formulas of the evaluators become
expressions: nothing comes to Python but the sums, or one row per group.
"""

from copy import copy

import numpy as np

from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._engine import offset_of
from skope_ope.evaluators.core._extremes import Extremes
from skope_ope.evaluators.core._requires import LogFacts
from skope_ope.evaluators.core._summary import (
    N_BUCKETS,
    SumsByDesign,
    refuse_unstated_model,
    resolved_for_parts,
)
from skope_ope.evaluators.core._tally import RoundCounts
from skope_ope.evaluators.frames._frame_counts import counts_of
from skope_ope.evaluators.frames._frame_log import FIRST
from skope_ope.evaluators.frames._frame_pass import N_GROUPS, About, FramePass
from skope_ope.evaluators.frames._frame_query import INSTEAD
from skope_ope.evaluators.frames._frame_sums import best_origin
from skope_ope.evaluators.parts._part_sums import PartSums, bare_evaluator
from skope_ope.logs import BanditLogs
from skope_ope.logs.lazy._lazy_rows import first_table, seeing_first


def frame_sums(
    policies,
    evaluators,
    lazy,
    *,
    sources=None,
    reward_model=None,
    shares=None,
    by=None,
    n_groups=N_GROUPS,
    n_buckets=N_BUCKETS,
):
    """Return the sums of policies by evaluators over the rounds of a lazy frame."""
    if lazy._log_type is not BanditLogs:
        raise TypeError(
            f"slates cannot be summed inside a lazy frame. You can {INSTEAD}"
        )
    ready = {
        name: _ready(evaluator, (sources or {}).get(name), reward_model)
        for name, evaluator in evaluators.items()
    }
    lazy = seeing_first(lazy._needing(context=False), FIRST)
    counts = counts_of(lazy, None, _may_belong_to_actions(lazy))
    if not counts.n:
        raise ValueError(
            "no round of the lazy frame has a positive sample weight. "
            "Check the column of sample_weight."
        )
    if shares is None and lazy.roles.get("logger_proba"):
        shares = counts.shares
    how = {"n_groups": n_groups, "n_buckets": n_buckets, "shares": shares}
    asked = Asked(policies, ready, lazy, counts, how)
    with beyond_floats():
        whole, about = asked.found()
    out = asked.part_sums(whole[None], counts, evaluators)
    for name in [by] if isinstance(by, str) else by or ():
        column = _column_of(lazy, name)
        parts, tallied = asked.passed(about, column), counts_of(lazy, column)
        out.by[name] = {
            label: asked.part_sums(part, tallied[label], evaluators)
            for label, part in parts.items()
        }
    return out


def _may_belong_to_actions(lazy):
    """Whether in the first rows every action has a propensity of its own."""
    names = [*lazy.roles["action"], *(lazy.roles.get("propensity") or ())]
    if len(names) != 2 or names[0] == names[1]:
        return False
    table = first_table(lazy, FIRST, names)
    pairs = table.group_by(names).aggregate([])
    return len(pairs) == len(pairs.group_by(names[:1]).aggregate([]))


def _column_of(lazy, name):
    """Return the column of the frame by whose labels sums are wanted."""
    found = lazy.columns.get(name) or lazy.roles.get(name) or name
    found = (found,) if isinstance(found, str) else tuple(found)
    if len(found) > 1:
        raise ValueError(
            f"by={name!r} names {len(found)} columns of the frame. Name one column."
        )
    return found[0]


class Asked:
    """What is asked of a lazy frame."""

    def __init__(self, policies, evaluators, lazy, counts, how):
        self.policies, self.evaluators, self.lazy = policies, evaluators, lazy
        self.counts, self.how = counts, how

    def found(self):
        """Return what the frame answers, and from where sums were taken."""
        # Sums of squares of what lies far from zero lose the digits that tell it apart.
        # The first rows tell where rewards lie; where the others lie elsewhere the same
        # is asked once more, about what was found.
        about = self._told_by_first_rows()
        whole = self.passed(about)
        limits, offset = np.array(whole[None].reward_limits), about.offset
        if offset_of(limits - offset):
            offset = offset_of(limits)
        origins = {
            name: best_origin(joint, offset)
            for name, joint in whole[None].joints.items()
        }
        moved = offset != about.offset or any(
            slants or any(near != 0.0 for near in one)
            for one, slants in origins.values()
        )
        bound = self.counts.n**0.5
        large = any(
            weight > bound
            for one in whole[None].ends.values()
            if isinstance(one, Extremes)
            for weight in one.weights.values()
        )
        if moved or large:
            about = About(offset, origins, large)
            whole = self.passed(about)
        return whole, about

    def _told_by_first_rows(self):
        """Return from where sums are taken, as far as a few rewards tell."""
        table = first_table(self.lazy, FIRST, list(self.lazy.roles["reward"]))
        try:
            reward = np.asarray(table.column(0).drop_null().to_numpy(), dtype=float)
        except (TypeError, ValueError):  # the query says what is wrong
            return About()
        reward = reward[np.isfinite(reward)]
        about = About()
        if len(reward) and reward.min() < reward.max():  # not those of one odd day
            about.offset = offset_of(np.array([reward.min(), reward.max()]))
        return about

    def passed(self, about, by=None):
        """Return what one pass finds, a dict of `Taken` by label."""
        self.whole = whole = FramePass(
            self.lazy, self.policies, self.counts, about=about, **self.how
        )
        for name, evaluator in self.evaluators.items():
            check_fields(evaluator, whole.rounds)
            evaluator._enter_frame(whole, name)
        return self._check_unchanged(whole.run(by))

    def _check_unchanged(self, found):
        """Raise where another query has met other rounds."""
        n = sum(one.n_logged for one in found.values())
        if n != self.counts.n_logged:
            raise RuntimeError(
                f"the lazy frame had {self.counts.n_logged:,} rows, and then "
                f"{n:,}: it changed while it was read. Scan a copy that does not "
                "change."
            )
        return found

    def part_sums(self, taken, counts, evaluators):
        """Return the `PartSums` of all rounds, or of those of one label."""
        bare = {name: bare_evaluator(one) for name, one in evaluators.items()}
        loggers = [None] if counts.loggers is None else counts.loggers
        if not counts.n:
            return PartSums(counts.n_logged, self.policies, bare)
        return PartSums(
            counts.n_logged,
            self.policies,
            bare,
            RoundCounts(
                counts.n,
                float(counts.mass.sum()),
                counts.actions,
                loggers,
                counts.counts,
                taken.reward_limits,
            ),
            SumsByDesign(taken.joints),
            taken.tallies,
            taken.ends,
            {None: {"logger_proba": self.whole.rounds.logger_proba is not None}},
            taken.log,
        )


def check_fields(evaluator, rounds):
    """Raise where the frame lacks what an evaluator needs."""
    name = type(evaluator).__name__
    resolved_for_parts(evaluator, LogFacts(None, in_parts=True, logs=rounds))
    refuse_unstated_model(evaluator)
    if evaluator.requires.weights and rounds.p is None:
        raise ValueError(
            f"{name} needs the propensities of the logged actions. Name their "
            "column: scan_logs(..., propensity=...)."
        )
    several = rounds.loggers is not None and len(rounds.loggers) > 1
    if evaluator.requires.mixes(rounds) and several and rounds.logger_proba is None:
        raise ValueError(
            f"{name} needs the probability of the logged action under each logger. "
            "Name these columns: scan_logs(..., logger_proba=[columns])."
        )
    if evaluator.requires.reward_range and rounds.reward_range is None:
        rounds.query.check_number(
            rounds.reward,
            f"{name} needs rewards that are not negative, or reward_range",
            0.0,
        )


def _ready(evaluator, source, reward_model):
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
