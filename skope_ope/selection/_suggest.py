# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which evaluator fits a log, why, and what to doubt; never from a value."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any, Literal

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils import check_random_state

from skope_ope._parallel import run_tasks
from skope_ope._types import PolicyLike, RandomSeed, RewardModelLike, SplitterLike
from skope_ope.evaluators._asked import is_of_logged_actions
from skope_ope.evaluators._rules import (
    RULES,
    WITHOUT_MODEL,
    learns,
    misfit_reason,
    misfits,
    recommended_evaluator,
    situation_of,
)
from skope_ope.evaluators.adaptive_logger import AdaptiveDR, AdaptiveIPS
from skope_ope.evaluators.base._question import policies_by_name, several_times
from skope_ope.evaluators.core._rounds import combined_weights
from skope_ope.evaluators.core._wrapped import with_seed
from skope_ope.evaluators.scavenging import (
    ReorderingPolicy,
)
from skope_ope.evaluators.scavenging._arms import strata_of
from skope_ope.evaluators.scavenging._predictability import (
    HIGH_Z,
    LOW_Z,
    item_predictability,
    predictability,
)
from skope_ope.evaluators.sequential import DRns
from skope_ope.evaluators.sequential._acceptance import n_offered
from skope_ope.evaluators.sequential._replay import UNIFORM_TOLERANCE
from skope_ope.evaluators.slate import IndependentSlotIPS
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._folds import folds_of
from skope_ope.logs._html import Markup, bullets, card, element, joined, pairs
from skope_ope.logs._shown_numbers import wrapped
from skope_ope.logs._validation import has_slot_rewards
from skope_ope.logs.checks._adaptive_logger import adaptive_logger_findings
from skope_ope.logs.checks._propensity_sums import acting_loggers, estimating_step
from skope_ope.propensities import LoggerPropensityEstimator, PropensityEstimator
from skope_ope.reward_models._sources import check_prefit
from skope_ope.selection._suggested_doubts import (
    LATER_ROUNDS,
    NO_RECORDS,
    QUESTIONS,
    ROUNDS_PER_MODEL,
    STOPS,
    USERS_ASKED,
    doubts_of,
    with_model_of_actions,
)


@dataclass(frozen=True)
class Suggestion:
    """The evaluator that fits a log, why, and what to doubt.

    Made by `suggest`.

    Parameters
    ----------
    situation : str
        Short name of the kind of log, as in the table of the guide.
    evaluator : evaluator, Pipeline or None
        Unfitted. A Pipeline has a step that adds what the logs lack. `None`: no
        evaluator can answer.
    check : evaluator, Pipeline or None
        A second evaluator, unfitted. Its value should be about the same.
    interval : str
        The `method` that ``value.confidence_interval`` takes.
    stop : str or None
        Why this log cannot answer, and what would help; `None` if it can.
    reasons : tuple of str
        Why this evaluator and this interval.
    doubts : dict of str
        What to doubt, a sentence by the name of each doubt.
    assumptions : tuple of str
        Assumptions that no log can show.
    questions : tuple of str
        Questions that only you can answer, and what follows from the answer.
    link : str
        The page of the guide to read, such as "guide/evaluators".
    code : str
        Code that runs with your `logs` and `policy`.

    Examples
    --------
    >>> from skope_ope import suggest
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> found = suggest(policy, logs)
    >>> found.evaluator, found.check, found.interval, found.stop
    (DoublyRobust(), SNIPS(), 'auto', None)
    """

    situation: str
    evaluator: Any = None
    check: Any = None
    interval: str = "auto"
    stop: str | None = None
    reasons: tuple[str, ...] = ()
    doubts: dict[str, str] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    link: str = "which_evaluator"
    code: str = ""

    def _lines(self):
        """Return pairs of a heading and a text, in the order in which they are told."""
        if self.stop is not None:
            lines = [("stop", self.stop)]
        else:
            lines = [("evaluator", code_of(self.evaluator))]
            if self.check is not None:
                lines.append(("check", code_of(self.check)))
            lines.append(("interval", self.interval))
        many = (
            ("because", self.reasons),
            ("doubt", self.doubts.values()),
            ("assumes", self.assumptions),
            ("ask", self.questions),
        )
        lines += [(name, text) for name, texts in many for text in texts]
        return [*lines, ("read", self.link)]

    def __repr__(self) -> str:
        lines, last = [], None
        for name, text in self._lines():
            lines += wrapped(text, f"{'' if name == last else name:<11}", " " * 11)
            last = name
        if self.code:
            lines += ["", *self.code.splitlines()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        told = {}
        for name, text in self._lines():
            told.setdefault(name, []).append(text)
        rows = {
            name: texts[0] if len(texts) == 1 else bullets(texts)
            for name, texts in told.items()
        }
        lines = [joined(line, Markup("\n")) for line in self.code.splitlines()]
        code = element("pre", *lines) if lines else ""
        return card("Suggestion", pairs(rows), code)


ESTIMATORS = {
    "PropensityEstimator": PropensityEstimator,
    "LoggerPropensityEstimator": LoggerPropensityEstimator,
}
CERTAIN_PROPENSITY = 1 - 1e-9  # a propensity that leaves no choice


def suggest(
    policies: PolicyLike | Mapping[Any, PolicyLike],
    logs: BanditLogs | SlateLogs | None = None,
    *,
    reward_model: RewardModelLike = None,
    cv: SplitterLike | Literal["prefit"] | None = None,
    random_state: RandomSeed = None,
    n_jobs: int | None = None,
) -> Suggestion | Any:
    """Suggest an evaluator for a log, say why, and say what to doubt.

    The answer depends on the fields of the log, on the weights of the policy and on
    how many rounds were rewarded. No value is estimated, so the choice cannot follow
    the answer that you would like. For logs that `evaluate` knows it is the row that
    `evaluate` recommends. Read more in :ref:`which_evaluator`.

    Parameters
    ----------
    policies : policy, array, str, or dict of them, or None
        The policies to evaluate, as in `evaluate`. `None`: only the log is used, and a
        policy that does not learn is assumed.
    logs : BanditLogs or SlateLogs
        The rounds on which the policies are to be evaluated.
    reward_model : model, number, array or str, default=None
        The reward model of the suggested evaluator, if it uses one. `None`: one is
        suggested.
    cv : int, splitter, iterable or "prefit", default=None
        How the suggested evaluator splits rounds for cross-fitting of the reward model.
        `None`: its default, 5 folds.
    random_state : int, RandomState instance or None, default=None
        Seeds the suggested evaluator, its steps and the reward model. `None`: 0 for an
        evaluator that draws rounds, and no seed for others.
    n_jobs : int, default=None
        Number of parallel tasks, one for each policy.

    Returns
    -------
    suggestion : Suggestion, or dict of Suggestion
        `evaluator`, `check`, `interval`, `stop`, `reasons`, `doubts`, `assumptions`,
        `questions`, `link` and `code`. For a dict of policies, a suggestion by name of
        the policy.

    Raises
    ------
    TypeError
        If `logs` are not logs in memory, or `policies` is a list.
    ValueError
        If the logs are empty.

    See Also
    --------
    evaluate : Estimates values, and marks the recommended row.
    audit : Runs all checks of a log.

    Examples
    --------
    >>> from skope_ope import suggest
    >>> from skope_ope.datasets import make_adaptive_logs, make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> suggest(policy, logs).evaluator
    DoublyRobust()
    >>> logs = make_adaptive_logs(5000, means=(0.6, 0.4), random_state=0)
    >>> suggest(None, logs).evaluator  # what the log alone tells
    AdaptiveDR()
    """
    alone = "suggest(None, logs)"
    asked = policies, logs, reward_model, cv, n_jobs
    named = policies_by_name("suggest", *asked, lazy=False, alone=alone)
    cv = several_times(cv)
    fitted = isinstance(cv, str)  # "prefit": a clone would have to be fitted
    if fitted:
        check_prefit(reward_model, cv)
    elif cv is not None:
        folds_of(cv, logs)
    model = reward_model if fitted else clone(reward_model, safe=False)
    given = {"reward_model": model, "cv": cv}
    given = {name: one for name, one in given.items() if one is not None}
    if random_state is not None:  # the same for all policies, whoever works on them
        random_state = check_random_state(random_state).randint(2**31 - 1)
    tasks = [partial(_one, one, logs, given, random_state) for one in named.values()]
    found = dict(zip(named, run_tasks(tasks, n_jobs), strict=True))
    return found if isinstance(policies, Mapping) else found[None]


def _one(policy, logs, given, seed):
    """Return the suggestion for one policy, or for the log alone."""
    found = (_for_pages if isinstance(logs, SlateLogs) else _for)(logs, policy)
    if logs.group is not None:
        asked = found["questions"]
        found["questions"] = tuple(one for one in asked if one != USERS_ASKED)
    if found["stop"] is None:
        told, stop = doubts_of(logs, policy, found)
        found["doubts"] |= told
        found["stop"] = stop
    if found["stop"] is not None:
        found |= {"evaluator": None, "check": None}
        return Suggestion(**found)
    if is_of_logged_actions(policy, logs) and _last(found["evaluator"]).requires.model:
        adaptive = isinstance(found["evaluator"], AdaptiveDR)
        found["evaluator"] = AdaptiveIPS() if adaptive else found["check"]
        found |= {"check": None, "reasons": _without_model(found["reasons"])}
    if "reward_model" not in given:
        found["evaluator"], told = with_model_of_actions(found["evaluator"], logs)
        found["reasons"] += told
    for place in ("evaluator", "check"):
        if found[place] is not None:
            found[place] = _with_given(found[place], given, seed)
    return Suggestion(**found, code=code_for(found, given))


def _without_model(reasons):
    """Return the reasons for an evaluator that is the same without a model."""
    kept = [one for one in reasons if "its reward model" not in one]
    kept = [one.replace(", and a reward model lowers the variance", "") for one in kept]
    kept = [one.replace("AdaptiveDR", "AdaptiveIPS") for one in kept]
    return (_as_sentence(WITHOUT_MODEL), *kept)


def _last(evaluator):
    """Return an evaluator, without the steps before it."""
    return evaluator[-1] if hasattr(evaluator, "steps") else evaluator


def _with_given(evaluator, given, seed):
    """Return an evaluator with the model, the folds and the seed of the call."""
    last = _last(evaluator)
    if seed is not None:
        given = given | {"random_state": None}  # in place of the suggested seed
    names = last.get_params(deep=False)
    last.set_params(**{name: one for name, one in given.items() if name in names})
    return evaluator if seed is None else with_seed(evaluator, check_random_state(seed))


def _answer(situation, logs, *reasons, **given):
    """Return the arguments of a `Suggestion` by a rule, to which doubts are added."""
    rule = RULES[situation]
    evaluator, check = estimators_of(rule, estimating_step(logs), **given)
    return {
        "situation": situation,
        "evaluator": evaluator,
        "check": check,
        "stop": None,
        "reasons": reasons,
        "doubts": dict(rule.doubts),
        "assumptions": (LATER_ROUNDS, *rule.assumes),
        "questions": QUESTIONS,
        "link": rule.page,
    }


def estimators_of(rule, step, **given):
    """Return what a rule takes and its check; what needs the step comes behind it."""
    # `given` are parameters of what the rule names by its class.
    from sklearn.pipeline import make_pipeline

    parts = {"use": rule.evaluator, "check": rule.check}
    if isinstance(rule.use, type):
        parts["use"] = rule.use(**given)
    parts = {name: one if one is None else clone(one) for name, one in parts.items()}
    for name in rule.after_step if rule.step else ():
        if parts[name] is not None:
            parts[name] = make_pipeline(ESTIMATORS[step](), parts[name])
    return parts.values()


def _stopped(name, text=None):
    """Return the arguments of a `Suggestion` of no evaluator."""
    return {
        "situation": name.split(",")[0],
        "stop": text or STOPS[name].text,
        "doubts": {},
        "assumptions": (LATER_ROUNDS,),
        "questions": QUESTIONS,
        "link": STOPS[name].page,
    }


def _because(situation):
    """Return the reason of a rule as a sentence."""
    return _as_sentence(RULES[situation].reason)


def _for(logs, policy):
    """Return the answer for logs of single actions."""
    if logs.propensity is None:
        return _without_propensities(logs, policy)
    if logs.propensity.min() >= CERTAIN_PROPENSITY and logs.n_actions > 1:
        return _of_certain_actions(logs, policy)
    alarms = misfits(logs)
    if logs.propensity_estimated:  # what it says of the same log without them
        if predictability(logs, logs.action_index).certain:
            return _stopped("deterministic")
        found = logs._estimated_propensity_findings[1]
        alarms = [one for one in found if one.severity == "error"]
    if alarms:
        return _of_misfits(logs, alarms)
    if learns(policy):
        return _of_learner(logs)
    learned = adaptive_logger_findings(logs)[1]
    if learned:
        reasons = learned[0].found, _because("adaptive_logger")
        return _answer("adaptive_logger", logs, *reasons)
    return _of_known(logs)


def _of_misfits(logs, alarms):
    """Return the answer where the logger does not fit what was logged."""
    text = f"{_as_sentence(misfit_reason(logs))} {alarms[0].text}"
    return _stopped("misfit", text)


def _of_known(logs, more=(), reasons=()):
    """Return the answer of the rule of `evaluate`, where `more` is estimated."""
    situation = situation_of(logs, more=more)
    if more:
        situation, reasons = f"{situation}_unknown", (*reasons, NO_RECORDS)
    reason = _as_sentence(recommended_evaluator(logs, more=more).reason)
    return _answer(situation, logs, *reasons, reason)


def _of_certain_actions(logs, policy):
    """Return the answer where every propensity is 1: only several loggers explore."""
    if acting_loggers(logs) < 2:
        return _stopped("deterministic")
    if learns(policy):
        return _stopped("deterministic, several loggers")
    if logs.logger_proba is not None:
        return _of_known(logs)
    return _without_propensities(logs, policy)


def _without_propensities(logs, policy):
    """Return the answer where nobody wrote down how likely the actions were."""
    more = {"propensity"}
    asked = predictability(logs, logs.action_index)
    if asked.certain:  # several loggers that act alike have no choice, either
        return _stopped("deterministic")
    if learns(policy):
        return _of_learner(logs, known=False)
    if acting_loggers(logs) > 1:
        return _of_known(logs, more | {"logger_proba"})
    if asked.z > LOW_Z:
        reason = (
            "The context predicts the logged actions "
            f"({asked.z:.1f} standard errors), so the logger looked at it."
        )
        return _of_known(logs, more, (reason,))
    strata = _offer_strata(logs)
    n_sets = 0 if strata is None else strata.max() + 1
    if len(logs) < ROUNDS_PER_MODEL * logs.n_actions * n_sets:
        return _of_known(logs, more)  # too few rounds in each set of offers
    found = _answer("blind_logger", logs, _because("blind_logger"))
    if strata is not None:
        found["evaluator"].set_params(strata="available")
    return found


def _offer_strata(logs):
    """Return codes of the sets of offered actions, None: all rounds had the same."""
    if logs.available is None:
        return None
    strata = strata_of(logs, "available")
    return strata if strata.max() else None


TRAJECTORIES = 20  # of a policy that learns, of which a standard error can be formed


def _of_learner(logs, known=True):
    """Return the answer for a policy that learns while it acts, with a horizon."""
    if combined_weights(logs, None) is not None:
        return _stopped("learner_weighted")
    if not known and acting_loggers(logs) > 1 and _all_certain(logs):
        return _stopped("deterministic, several loggers")
    even = np.broadcast_to(1 / n_offered(logs), len(logs))
    p = logs.propensity if known else even
    uniform = known and not (np.abs(p - even) > UNIFORM_TOLERANCE).any()
    accepted = len(logs) * (p.mean() if uniform else np.quantile(p, DRns().q))
    horizon = max(1, int(accepted / TRAJECTORIES))
    situation = "learner_uniform" if uniform else "learner"
    reasons = (
        *(() if known else (NO_RECORDS,)),
        "The policy learns while it acts, so its value depends on how many rounds it "
        "acts.",
        f"With horizon={horizon:,} about {TRAJECTORIES} trajectories fit into this "
        "log. Set it to the number of rounds that your policy will act.",
        _because(situation),
    )
    situation = situation if known else "learner_unknown"
    return _answer(situation, logs, *reasons, horizon=horizon, random_state=0)


def _all_certain(logs):
    """Tell whether none of several loggers seems to have had a choice."""
    rounds_of = (logs[logs.logger_index == k] for k in np.unique(logs.logger_index))
    return all(predictability(one, one.action_index).certain for one in rounds_of)


def _for_pages(logs, policy):
    """Return the answer for logs of slates."""
    if alarms := misfits(logs):
        return _of_misfits(logs, alarms)
    situation = situation_of(logs)
    if situation == "slates_unknown":
        return _slates_without_propensities(logs, policy)
    found = _answer(situation, logs, _because(situation))
    if situation == "slates" and has_slot_rewards(logs):
        found["check"] = IndependentSlotIPS()
        found["reasons"] += (
            "Each slot has its own reward, and IndependentSlotIPS uses these "
            "rewards. If early slots change what follows, use CascadeDR.",
        )
    return found


def _slates_without_propensities(logs, policy):
    if logs.slot_reward is None:
        return _stopped("slates_unknown")
    if item_predictability(logs).z > HIGH_Z:
        return _stopped("slates_unknown, clicks by place")
    reorders = isinstance(policy, ReorderingPolicy)
    situation = "slot_clicks_reordered" if reorders else "slot_clicks"
    return _answer(situation, logs, _because(situation))


def _as_sentence(text):
    """Return a text without a full stop as a sentence."""
    return f"{text[0].upper()}{text[1:]}."


# -- the lines that `suggest` gives: they run where `logs` and `policy` are ------------


def code_for(found, given=()):
    """Return lines of Python that do what is suggested."""
    evaluators = [one for one in (found["evaluator"], found["check"]) if one]
    names = {name: Named(name) for name in _without_code(dict(given))}
    if names:  # a copy, since what is fitted or an array is not written in code
        evaluators = [_with_given(clone(one), names, None) for one in evaluators]
    steps = [one[0] for one in evaluators if hasattr(one, "steps")]
    about = [f"# {' and '.join(names)}: as in this call"] if names else []
    with config_context(print_changed_only=True):
        return "\n".join(about + _code_lines(evaluators, steps))


class Named(str):
    """Stands in code for what the caller gave, by its name."""

    __slots__ = ()
    __repr__ = str.__str__


def _without_code(given):
    """Yield the names of what was given and is no number, word or unfitted model."""
    for name, value in given.items():
        plain = isinstance(value, (Real, str))
        fitted = (
            given.get("cv") == "prefit" or type(value).__name__ == "FrozenEstimator"
        )
        if not (plain or (hasattr(value, "fit") and not fitted)):
            yield name


def _code_lines(evaluators, steps):
    last = list(map(_last, evaluators))
    names = {}
    for where, name in sorted(
        {name for one in [*last, *steps] for name in _classes(one)}
    ):
        names.setdefault(where, []).append(name)
    lines = [f"from {where} import {', '.join(own)}" for where, own in names.items()]
    lines.append("")
    if steps:
        lines.append(f"known = {code_of(steps[0])}.fit_transform(logs)")
    for place, one in enumerate(last):
        name = "check" if place else "value"
        # a check of a log that needs a step is one on the log with it
        logs = "known" if steps and hasattr(evaluators[place], "steps") else "logs"
        lines.append(f"{name} = {code_of(one)}.fit({logs}).evaluate(policy)")
    lines.append("print(value.value, value.confidence_interval())")
    if len(last) > 1:
        lines.append("print(check.value)  # about the same, or look for the reason")
    return lines


def _classes(evaluator):
    """Return module and name of the classes that the line of an evaluator names."""
    found = {_place(type(evaluator))}
    for value in evaluator.get_params(deep=True).values():
        if hasattr(value, "get_params"):
            found.add(_place(type(value)))
    return found


def _place(kind):
    package, *rest = kind.__module__.split(".")
    if kind.__name__ in getattr(sys.modules[package], "__all__", ()):
        return package, kind.__name__
    public = [one for one in rest if one[0] != "_"]
    return ".".join([package, *public]), kind.__name__


def code_of(evaluator):
    """Return an evaluator as it is written in code; None: "none"."""
    if evaluator is None:
        return "none"
    if hasattr(evaluator, "steps"):
        steps = ", ".join(code_of(step) for _, step in evaluator.steps)
        return f"make_pipeline({steps})"
    return " ".join(repr(evaluator).split())
