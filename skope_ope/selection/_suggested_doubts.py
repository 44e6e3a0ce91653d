# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What to doubt of a log and of a policy on it, before anything is estimated."""

from typing import NamedTuple

import numpy as np

from skope_ope._sklearn import inside
from skope_ope.audit._checks import PolicyOnLogs, PolicyRounds, SlateRounds
from skope_ope.audit._policy_checks import (
    action_findings,
    alike_rounds_findings,
    slate_policy_findings,
    summed_weight_findings,
    unsupported_findings,
    weighted_reward_findings,
)
from skope_ope.evaluators._rules import learns
from skope_ope.evaluators.core._intervals import FEW_EVENTS
from skope_ope.evaluators.static import DoublyRobust
from skope_ope.logs import SlateLogs
from skope_ope.logs._row_container import known_range
from skope_ope.logs.checks._adaptive_logger import adaptive_logger_findings
from skope_ope.logs.checks._log_facts import FactSums, log_facts
from skope_ope.reward_models import ActionRewardModel

TINY_LOG = 100  # rounds
MANY_MODELS = 30  # actions
ROUNDS_PER_MODEL = 50  # of an action, that a model of it would have
SHORT = 10  # rounds of a life
OF_POLICY = (
    unsupported_findings,
    action_findings,
    summed_weight_findings,
    weighted_reward_findings,
)
TOLD_OF_LOG = ("few_rewards", "few_groups", "numeric_action")


def doubts_of(logs, policy, found):
    """Return what to doubt, and why to stop."""
    doubts = found["doubts"] | _of_log(logs)
    if policy is None:
        return doubts, None
    if learns(policy):
        doubts |= _of_lives(logs, found["evaluator"])
    known, checks, stop = PolicyOnLogs(policy, logs), (), None
    findings = known.learned + alike_rounds_findings(known)[1]
    if isinstance(logs, SlateLogs):
        rounds, checks = SlateRounds(policy, logs), (slate_policy_findings,)
    elif not learns(policy):
        weighed = _weighed(logs, found["situation"])
        rounds, checks = PolicyRounds(policy, weighed), OF_POLICY
        if rounds.overlap.sum_w == 0 and rounds.known:
            stop = STOPS["any, with a policy"].text
        elif rounds.known:
            doubts |= _of_events(logs, rounds)
    findings += [one for check in checks for one in check(rounds)[1]]
    doubts |= {one.name: one.text for one in findings}
    return doubts, stop


def _weighed(logs, situation):
    """Return logs whose propensities are those by which rounds will be weighted."""
    if situation != "several_loggers":
        return logs
    share = logs._logger_counts / logs._logger_counts.sum()
    one = dict.fromkeys(("logger_proba", "logging_proba"))
    return logs.replace(propensity=logs.logger_proba @ share, **one)


def _of_log(logs):
    """Return what the log alone makes doubtful."""
    findings = log_facts(FactSums(logs))[1]
    doubts = {one.name: one.text for one in findings if one.name in TOLD_OF_LOG}
    if len(logs) < TINY_LOG:
        doubts["tiny_log"] = (
            f"{len(logs)} rounds are few: expect a wide interval, tune nothing on "
            "them, and ask rounds_needed how many you need."
        )
    if known_range(logs) is None:
        doubts["no_reward_range"] = (
            "The range of the rewards is not known, so the interval cannot allow for "
            "large rewards that were not seen. Give reward_range=(low, high) with "
            "the logs. Leave it out if rewards have no bounds."
        )
    if _has_many_actions(logs) and logs.action_context is None:
        doubts["many_actions"] = (
            f"{logs.n_actions:,} actions share {len(logs):,} rounds, too few for a "
            "model of each. Pass action_context (features of the actions), and use "
            "ActionRewardModel(model, encoding='action_context')."
        )
    return doubts


def _of_lives(logs, evaluator):
    """Return what makes the histories of a policy that learns doubtful."""
    horizon = getattr(inside(evaluator), "horizon", None)
    doubts = {}
    if horizon is not None and horizon < SHORT:
        doubts["short_life"] = (
            f"A policy learns little in horizon={horizon} rounds. These "
            f"{len(logs):,} rounds are too few to value what the policy learns."
        )
    if logs.propensity is not None and adaptive_logger_findings(logs)[1]:
        doubts["logger_learned"] = (
            "The logger learned, too. If the logger stopped taking an action of the "
            "policy, few rounds are accepted: look at n_trajectories."
        )
    return doubts


def _of_events(logs, rounds):
    """Return a doubt where few rounds with a reward, or without, carry the value."""
    limits = known_range(logs)
    reward = rounds.logs.reward
    if limits is None:
        sides = [np.abs(reward)]
    else:
        sides = [reward - limits[0], limits[1] - reward]
    events = min(_effective_number(rounds, side) for side in sides)
    if not 0 <= events < FEW_EVENTS:
        return {}
    return {
        "few_events": f"Only about {events:.1f} rewarded (or unrewarded) rounds "
        f"inform the value. A narrow interval needs {FEW_EVENTS}. If "
        "the interval is the whole range, the log cannot answer. Do "
        "not use Student's interval, the bootstrap or empirical "
        "likelihood."
    }


def _effective_number(rounds, size):
    """Return how many equally large terms are worth as much as these."""
    terms = rounds.counted * size
    if rounds.logs.group is not None:
        terms = np.bincount(rounds.logs.group_index, terms)
    largest = float(np.abs(terms).max(initial=0))
    if not largest:
        return 0.0
    terms = terms / largest  # whose squares are floats
    return float(terms.sum()) ** 2 / float(terms @ terms)


def _has_many_actions(logs):
    if isinstance(logs, SlateLogs):
        return False
    return (
        logs.n_actions > MANY_MODELS and len(logs) < ROUNDS_PER_MODEL * logs.n_actions
    )


def with_model_of_actions(evaluator, logs):
    """Return the evaluator with a model that shares rounds among actions, and why."""
    # A reward model is an input of an evaluator: it does not make it another one.
    plain = isinstance(evaluator, DoublyRobust) and not isinstance(logs, SlateLogs)
    if not plain or not _has_many_actions(logs) or logs.action_context is None:
        return evaluator, ()
    from sklearn.linear_model import Ridge

    model = ActionRewardModel(Ridge(), encoding="action_context")
    return evaluator.set_params(reward_model=model), (
        f"{logs.n_actions:,} actions share {len(logs):,} rounds. One model uses the "
        "features of the actions, so it learns about an action from similar ones.",
    )


# -- sentences of `suggest`: what no log shows, and what only its owner knows ----------

LATER_ROUNDS = (
    "An action does not change the later contexts or rewards of the same user. If it "
    "does, stop: that is reinforcement learning, which this package does not do."
)
USERS_ASKED = "Do users come back? Then pass group=user, so that errors count users."
QUESTIONS = (
    "Is the reward what you are paid for, and has it arrived for every round?",
    USERS_ASKED,
    "Will the system work as it did when these rounds were logged?",
)
NO_RECORDS = (
    "No probabilities were recorded, so they are estimated. If you can, compute them "
    "from the logger's code instead: this is exact."
)


class Stop(NamedTuple):
    """Why `suggest` names no evaluator."""

    log: str  # what is known of the log, in words of the guide
    do: str  # what helps, likewise
    text: str  # what is said, or how it begins
    page: str  # the page of the guide to read


# The first names are those of the situation.
STOPS = {
    "deterministic": Stop(
        log="The system always takes the same action in the same context.",
        do="Let the system explore, or add the rounds of another system.",
        text="The logger seems to have no choice: whenever the context is the same, it "
        "takes the same action. So the log has no information on the other actions. "
        "Let the logger explore, or add the rounds of another logger that decides "
        "otherwise.",
        page="guide/propensities",
    ),
    "deterministic, several loggers": Stop(
        log="Several fixed rules decided, and your policy learns while it acts.",
        do="Evaluate the policy as it is now: ``policy.frozen()``.",
        text="Each logger had no choice. To evaluate a policy that learns, the logger "
        "of each round must be able to take several actions. Evaluate the policy as "
        "it is now, policy.frozen().",
        page="guide/multi_logger",
    ),
    "misfit": Stop(
        log="The propensities do not fit the logged actions.",
        do="Correct the propensities. ``logs.audit()`` shows the rounds.",
        text="The propensities do not fit the logged actions",
        page="guide/audit",
    ),
    "learner_weighted": Stop(
        log="Your policy learns while it acts, and the sample weights of the rounds "
        "differ.",
        do="Use rounds that were not subsampled, or ``policy.frozen()``.",
        text="The policy learns from a history of whole rounds, but the sample weights "
        "of these rounds differ. Use rounds that were not subsampled, or evaluate the "
        "policy as it is now, policy.frozen().",
        page="guide/evaluators",
    ),
    "slates_unknown": Stop(
        log="A list was shown together, without probabilities and without clicks by "
        "place.",
        do="Pass ``logging_policy`` to ``SlateLogs``.",
        text="The log has no logging policy, no propensities and no rewards of slots. "
        "Only a reward model can be used, and no interval includes its error. Pass "
        "logging_policy=... to SlateLogs.",
        page="guide/slates",
    ),
    "slates_unknown, clicks by place": Stop(
        log="Lists with clicks by place, without probabilities, and the context "
        "predicts the items.",
        do="Pass ``logging_policy`` to ``SlateLogs``.",
        text="The context predicts which items are shown, and no propensities are "
        "known. So the log cannot separate the effect of an item from that of its "
        "audience. Pass logging_policy=... to SlateLogs.",
        page="guide/scavenging",
    ),
    "any, with a policy": Stop(
        log="The policy takes none of the logged actions.",
        do="Collect rounds with a system closer to the policy.",
        text="The policy takes none of the logged actions, so the logged rewards have "
        "no information on it. Collect logs closer to the policy.",
        page="guide/evaluators",
    ),
}
