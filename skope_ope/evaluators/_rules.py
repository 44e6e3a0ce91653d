# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which evaluators fit which logs: one table of rules.

`evaluate` takes its default rows from it and the one that it recommends, `suggest` its
answers, and the guide prints it. No rule looks at a value: to choose among values would
choose their errors.
"""

from typing import Any, NamedTuple

from skope_ope._sklearn import inside
from skope_ope.evaluators.adaptive_logger import AdaptiveDR
from skope_ope.evaluators.multi_logger import MultiLoggerDR, MultiLoggerIPS
from skope_ope.evaluators.scavenging import (
    AttentionDecay,
    ExplorationScavenging,
    PositionScavenging,
    ReorderingScavenging,
)
from skope_ope.evaluators.sequential import DRns, Replay
from skope_ope.evaluators.slate import (
    IndependentSlotIPS,
    PseudoInverse,
    SlateDirectMethod,
    SlateIPS,
)
from skope_ope.evaluators.static import IPS, SNDR, SNIPS, DirectMethod, DoublyRobust
from skope_ope.exceptions import AdaptiveLoggerWarning, PropensityWarning
from skope_ope.logs._validation import has_slot_rewards
from skope_ope.logs.checks._propensity_sums import acting_loggers
from skope_ope.logs.checks._sample_weights import KEPT_SHARE
from skope_ope.logs.checks._slate_logger import LOST_ROWS
from skope_ope.logs.sums._log_sums import has_field, known_fields
from skope_ope.policies._adaptive import AdaptivePolicy

# -- rows of the table of `evaluate` ---------------------------------------------------
# None of these leaves a bias out of its interval by design; where nothing is known, a
# model is all that there is.

DEFAULTS = {
    "IPS": IPS(),
    "SNIPS": SNIPS(),
    "DoublyRobust": DoublyRobust(),
    "SNDR": SNDR(),
}
BALANCED = {
    "BalancedIPS": MultiLoggerIPS(pooling="balanced"),
    "BalancedDR": MultiLoggerDR(pooling="balanced"),
}
SLATE_IPS = {"SlateIPS": SlateIPS()}
SLATE_RATIO = {"wIPS": SlateIPS(self_normalized=True)}
PSEUDO_INVERSES = {
    "PseudoInverse": PseudoInverse(),
    "wPI": PseudoInverse(self_normalized=True),
    "ControlledPI": PseudoInverse(control_variates="multiple"),
}
SLOT_BY_SLOT = {"IndependentSlotIPS": IndependentSlotIPS()}  # beside those of slates
# What a row is whose name is no name of a class, but of settings of one.
SETTINGS = {
    "BalancedIPS": "MultiLoggerIPS with the mixture of all loggers",
    "BalancedDR": "MultiLoggerDR with the mixture of all loggers",
    "wIPS": "SlateIPS, divided by the sum of the weights",
    "wPI": "PseudoInverse, divided by the sum of the weights",
    "ControlledPI": "PseudoInverse with multiple control variates",
}
FORMS = {
    name: one
    for name, one in (BALANCED | SLATE_RATIO | PSEUDO_INVERSES).items()
    if name in SETTINGS
}
# What an evaluator may be given without becoming another estimator.
INPUT_PARAMETERS = {"reward_model", "cv", "random_state"}
# What rows need beyond actions and rewards.
WITHOUT_PROPENSITIES = dict.fromkeys(DEFAULTS, "propensities")
WITHOUT_MIXTURE = dict.fromkeys(
    BALANCED, "the probabilities of all loggers (logger_proba)"
)
WITHOUT_LOGGING_POLICY = dict.fromkeys(PSEUDO_INVERSES, "a logging policy")
WITHOUT_SLATE_PROPENSITIES = dict.fromkeys(
    SLATE_IPS | SLATE_RATIO, "propensities or a logging policy"
)


# -- the rules -------------------------------------------------------------------------


class Rule(NamedTuple):
    """What fits the logs of a situation, and what is to be said of it."""

    log: str  # what is known of such logs, in words of the guide
    page: str  # the page of the guide to read
    doubt: str  # what to doubt, in words of the guide
    reason: str = ""  # why this evaluator, or why none; without a full stop
    rows: dict = {}  # of the table of `evaluate`, where the fields tell the situation
    left_out: dict = {}  # rows that are left out of it, by what they need
    row: str | None = None  # the recommended one
    # what `suggest` answers, if not that row; a class is given a horizon, None: stop
    use: Any = None
    check: Any = None  # a second evaluator whose value should be about the same
    step: str = ""  # the step that adds what the logs lack, in a Pipeline
    after_step: tuple = ("use", "check")  # what stands behind it
    assumes: tuple = ()  # what no log can show
    doubts: dict = {}  # what to doubt of all such logs, a sentence by its name

    @property
    def evaluator(self):
        """The evaluator that fits, unfitted."""
        return self.use if self.row is None else self.rows[self.row]


UNBIASED = (
    "the propensities make it unbiased even if its reward model is wrong, and the "
    "model lowers its variance"
)
BY_ESTIMATED = (
    "the propensities are estimated: its value is right if they are right or if "
    "its reward model is, and the model lowers its variance"
)
NONE_RECORDED = (
    "without propensities only a reward model can be used, and no interval includes "
    "its error; record propensities, or estimate them with PropensityEstimator"
)
WITHOUT_MODEL = (
    "only the policy's probability of the logged actions is known, and a reward model "
    "needs those of all actions"
)
NOTHING_HIDDEN = (
    "The context holds everything that the logger looked at. Hidden reasons bias every "
    "value; value.sensitivity() shows by how much they could."
)
POOLED = "All loggers saw the same kind of contexts."
SLOT_CLICKS = {
    "reason": "the slots have clicks, and no propensities are known",
    "assumes": (
        "Pages were composed without looking at the context.",
        "A user clicks only items that he or she looks at, and the click then "
        "depends on the item alone.",
    ),
    "page": "guide/scavenging",
}
PROPENSITIES_UNKNOWN = {
    "assumes": (NOTHING_HIDDEN,),
    "doubts": {
        "estimated_propensities": "The interval treats the estimated probabilities as "
        "exact. A warning counts the rounds whose probability was raised to the floor."
    },
    "page": "guide/propensities",
}
RULES = {
    "one_logger": Rule(
        log="One system decided with some chance, and you know how likely each "
        "action was. A trial that drew evenly has ``propensity=1/3``.",
        rows=DEFAULTS,
        row="DoublyRobust",
        check=SNIPS(),
        reason=UNBIASED,
        doubt="Wrong probabilities; actions that were never logged; a policy that "
        "was trained on these rounds.",
        doubts={
            "wrong_propensities": "Wrong probabilities bias every value: run "
            "audit(policy, logs) first."
        },
        page="guide/evaluators",
    ),
    "one_logger_unknown": Rule(
        log="The same, but nobody recorded the probabilities. The columns hold "
        "all that the system used.",
        rows={"DirectMethod": DirectMethod()},
        left_out=WITHOUT_PROPENSITIES,
        reason=NONE_RECORDED,
        use=DoublyRobust(),
        check=SNIPS(),
        step="PropensityEstimator",
        doubt="Hidden reasons; the interval treats estimated probabilities as exact.",
        **PROPENSITIES_UNKNOWN,
    ),
    "deterministic": Rule(
        log="One fixed rule decided. In the same context it always takes the same "
        "action.",
        doubt="The rewards of the other actions are not known. Let the system "
        "explore, or add the rounds of another system.",
        page="guide/propensities",
    ),
    "blind_logger": Rule(
        log="No probabilities, and the system ignored the context: it took turns, "
        "or followed a plan.",
        use=ExplorationScavenging(),
        check=SNIPS(),
        step="PropensityEstimator",
        after_step=("check",),
        reason="no classifier predicts the logged actions from the context. If the "
        "logger ignores the context, no probabilities are needed",
        assumes=(
            "The logger ignored the context. A classifier can disprove this, but "
            "cannot prove it.",
        ),
        doubt="Did it use the context after all? Trends between the turns.",
        doubts={
            "trends": "If the logger took one action at a time, a change over time "
            "looks like an effect of the actions."
        },
        page="guide/scavenging",
    ),
    "several_loggers": Rule(
        log="Several systems decided, and you know what each would have done in "
        "every round (``logger_proba``).",
        rows=DEFAULTS | BALANCED,
        row="BalancedDR",
        check=MultiLoggerIPS(pooling="balanced", self_normalized=True),
        reason="the probabilities of all loggers are known, so the rounds are weighted "
        "by the mixture of all loggers, and a reward model lowers the variance",
        assumes=(POOLED,),
        doubt="Trends between the systems; systems with few rounds.",
        doubts={
            "trends": "Loggers that acted at different times saw different rounds: "
            "logger_overlap(policy, logs) compares them. by('logger') of a "
            "balanced value does not give the value of each logger."
        },
        page="guide/multi_logger",
    ),
    "several_loggers_apart": Rule(
        log="Several systems decided, and you know the probability of the logged "
        "action only.",
        rows=DEFAULTS,
        left_out=WITHOUT_MIXTURE,
        row="DoublyRobust",
        check=SNIPS(),
        reason=UNBIASED,
        doubt="Each system must be able to take what the policy takes.",
        doubts={
            "support_of_each": "Every logger must be able to take all actions of the "
            "policy. With logger_proba (see logs.with_logger_policies) one logger is "
            "enough for each action: MultiLoggerDR(pooling='balanced')."
        },
        page="guide/multi_logger",
    ),
    "several_loggers_unknown": Rule(
        log="Several systems decided, without probabilities.",
        use=MultiLoggerDR(pooling="balanced"),
        check=MultiLoggerIPS(pooling="balanced", self_normalized=True),
        step="LoggerPropensityEstimator",
        doubt="Hidden reasons, and trends between the systems.",
        **PROPENSITIES_UNKNOWN | {"assumes": (NOTHING_HIDDEN, POOLED)},
    ),
    "adaptive_logger": Rule(
        log="The system was a bandit: it learned from rewards while it decided.",
        use=AdaptiveDR(),
        reason="AdaptiveDR stays unbiased while the logger learns. It needs the "
        "recorded probabilities and the order of the rounds in time",
        doubt="Actions that it gave up; probabilities that were estimated from all "
        "rounds.",
        doubts={
            "given_up": "Few rounds have the actions that the logger gave up. For one "
            "fixed action use weighting='two_point'."
        },
        page="guide/adaptive_logs",
    ),
    "learner_uniform": Rule(
        log="Your policy learns while it acts, and the system drew evenly.",
        use=Replay,
        reason="the logger was uniform, so accepted rounds are distributed as in a "
        "live run",
        doubt="Few trajectories; with one, the error is unknown.",
        doubts={
            "few_trajectories": "With few trajectories the standard error is "
            "uncertain. A single trajectory has no standard error."
        },
        page="guide/evaluators",
    ),
    "learner": Rule(
        log="Your policy learns while it acts, and the system drew unevenly.",
        use=DRns,
        reason="the logger was not uniform: DRns accepts rounds by their propensity. "
        "Compare the value with q=0.01 and q=0.1",
        doubt="A ``bias_mass`` above 0.1 in the diagnostics. Try two or three "
        "values of ``q``.",
        doubts={
            "bias_mass": "If the diagnostic bias_mass is above 0.1, the simulated "
            "history differs from a live one."
        },
        page="guide/evaluators",
    ),
    "learner_unknown": Rule(
        log="Your policy learns while it acts, and nobody recorded the probabilities.",
        use=DRns,
        step="PropensityEstimator",
        doubt="Hidden reasons, and a ``bias_mass`` above 0.1.",
        **PROPENSITIES_UNKNOWN,
    ),
    "slates": Rule(
        log="A list was shown together, and you have the policy that composed it.",
        rows=SLATE_IPS | PSEUDO_INVERSES,
        row="ControlledPI",
        check=SlateIPS(),
        reason="the logging policy is known; if the value of a slate is about a sum "
        "over its slots, PseudoInverse with multiple control variates has the "
        "lowest error in most worlds",
        assumes=("The reward of a slate is about a sum over its slots.",),
        doubt="Is the reward roughly a sum over the places? With clicks by place, "
        "the check is IndependentSlotIPS().",
        doubts={
            "sum_over_slots": "If items of a slate compete or help each other, the sum "
            "over slots is wrong: compare with SlateIPS."
        },
        page="guide/slates",
    ),
    "slates_propensities": Rule(
        log="A list was shown together, and you know its probability only.",
        rows=SLATE_IPS | SLATE_RATIO,
        left_out=WITHOUT_LOGGING_POLICY,
        row="wIPS",
        reason="probabilities are known only for whole slates; it stays in the range "
        "of the rewards, and assumes nothing about the slots",
        doubt="Few lists match: the interval is wide.",
        page="guide/slates",
    ),
    "slot_clicks": Rule(
        log="Lists with clicks by place, without probabilities; the "
        "logger ignored the context.",
        use=PositionScavenging(attention=AttentionDecay()),
        doubt="The assumption on how people look at a page.",
        doubts={
            "attention": "If attention is estimated from the same clicks, the error is "
            "larger: pages are resampled."
        },
        **SLOT_CLICKS,
    ),
    "slot_clicks_reordered": Rule(
        log="The same, and your policy only sorts what was shown.",
        use=ReorderingScavenging(attention=AttentionDecay()),
        doubt="Ranks that were learned from the same clicks.",
        doubts={
            "learned_ranks": "Ranks that were learned from the same clicks give too "
            "good a value."
        },
        **SLOT_CLICKS,
    ),
    "slates_unknown": Rule(
        log="A list was shown together, without probabilities and without clicks by "
        "place.",
        rows={"SlateDirectMethod": SlateDirectMethod()},
        left_out=WITHOUT_SLATE_PROPENSITIES | WITHOUT_LOGGING_POLICY,
        reason="without a logging policy or propensities only a reward model can be "
        "used, and no interval includes its error; pass logging_policy=... to "
        "SlateLogs",
        doubt="Only a reward model can be used, and no interval includes its error. "
        "Pass ``logging_policy``.",
        page="guide/slates",
    ),
}


def situation_of(logs, n_loggers=None, more=()):
    """Return the situation that the fields of logs tell, and `more` fields."""
    told = known_fields(logs).union(more)
    if "slate" in told:
        if "logging_policy" in told:
            return "slates"
        return "slates_propensities" if "propensity" in told else "slates_unknown"
    if "propensity" not in told:
        return "one_logger_unknown"
    if (acting_loggers(logs) if n_loggers is None else n_loggers) < 2:
        return "one_logger"
    return "several_loggers" if "logger_proba" in told else "several_loggers_apart"


def default_evaluators(logs, n_loggers=None):
    """Return the rows of the first table by name, and what the others need."""
    situation = situation_of(logs, n_loggers)
    rule = RULES[situation]
    by_slot = situation == "slates" and has_slot_rewards(logs)
    return rule.rows | (SLOT_BY_SLOT if by_slot else {}), dict(rule.left_out)


class Recommendation(NamedTuple):
    """The evaluator that is recommended for some logs."""

    name: str | None  # the name of its row; None: nothing is recommended
    evaluator: object  # an unfitted one, likewise
    reason: str  # why this one, or why none, in a sentence without a full stop


def recommended_evaluator(logs, n_loggers=None, more=(), logged_only=False):
    """Return the evaluator that is recommended for some logs."""
    # The form with the lowest error among those that leave no bias out of their
    # interval. `logged_only`: of the policy only the logged actions' probabilities are
    # known.
    rule = RULES[situation_of(logs, n_loggers, more)]
    plain = plain_name(rule.rows)
    if logged_only and plain:
        return Recommendation(plain, rule.rows[plain], WITHOUT_MODEL)
    estimated = "propensity" in more or getattr(logs, "propensity_estimated", False)
    reason = BY_ESTIMATED if estimated and rule.reason == UNBIASED else rule.reason
    return Recommendation(rule.row, rule.row and rule.evaluator, reason)


def plain_name(rows):
    """Return the row of the first table that decides where no model can be used."""
    return next((one for one in ("BalancedIPS", "SNIPS") if one in rows), None)


def plain_row(rows, otherwise):
    """Return what is known of this row, by its name."""
    return rows.get(plain_name(rows), otherwise)


def is_one_of(evaluator, recommended):
    """Whether an evaluator is a row of the first table, perhaps with another model."""
    if type(evaluator) is not type(recommended):
        return False
    # not by `get_params`, which reads the signature of the class at every call
    return all(
        getattr(evaluator, name) == getattr(recommended, name)
        for name in recommended._parameter_constraints
        if name not in INPUT_PARAMETERS
    )


def row_of(evaluator):
    """Return the name of an evaluator's row, None where that is named by its class."""
    rows = (name for name, one in FORMS.items() if is_one_of(evaluator, one))
    return next(rows, None)


def told_row(name):
    """Return the name of a row and, where that is no name of a class, what it is."""
    return f"{name} ({SETTINGS[name]})" if name in SETTINGS else name


# -- the row to believe of a table, and what makes it doubtful -------------------------

MISFIT = (
    "the propensities do not fit the logged actions: trust no row of this table "
    "until they are corrected"
)
WEIGHTS_MISFIT = (
    "sample_weight seems to hold probabilities of being kept, not their inverses: "
    "trust no row of this table until it is corrected"
)
SLATES_MISFIT = (
    "the candidates or the logging policy do not fit the logged slates: trust no row "
    "of this table until they are corrected"
)
ROWS_LOST = (
    "rows of pages are missing from the logs: trust no row of this table until they "
    "are there"
)
BY_SLOT = (
    "IndependentSlotIPS uses the rewards of the slots and needs fewer rounds, but it "
    "is right only if no slot affects the reward of another"
)
WRONG_WEIGHTS = (
    "the weights are wrong, because of the propensities or of the policy's "
    "probabilities: trust no row with this warning until they are corrected"
)
LOGGER_LEARNED = (
    "the logger learned while it acted, so the intervals of all rows may be too "
    "narrow; AdaptiveDR is made for such logs"
)
LEARNS = (
    "this rule is for policies that do not learn while they act; for those that do, "
    "use DRns, RejectionSampling or Replay"
)


def learns(policy):
    """Whether a policy, or what a search or Pipeline around it uses, learns."""
    return isinstance(policy, AdaptivePolicy) or isinstance(
        inside(policy), AdaptivePolicy
    )


def recommended_row(logs, evaluators, n_loggers=None, left_out=(), logged_only=False):
    """Return which of some evaluators is recommended, and why it or none."""
    found = recommended_evaluator(logs, n_loggers, logged_only=logged_only)
    if found.name is None:
        return None, found.reason
    alike = [
        name for name, one in evaluators.items() if is_one_of(one, found.evaluator)
    ]
    if found.name in alike:
        return found.name, found.reason + _also(evaluators)
    if len(alike) == 1:
        return alike[0], found.reason + _also(evaluators)
    if alike:
        names = ", ".join(map(str, alike))
        return None, f"{names} differ only in their reward models"
    if found.name in left_out:
        lacking = left_out[found.name]
        return None, f"{found.name} would be recommended, but the logs lack {lacking}"
    return None, f"these logs allow {found.name}, which was not asked for"


def _also(evaluators):
    """Return what is said of a row that assumes more than the recommended one."""
    by_slot = any(isinstance(e, IndependentSlotIPS) for e in evaluators.values())
    return f"; {BY_SLOT}" if by_slot else ""


def recommend(
    logs,
    evaluators,
    left_out,
    values,
    policies=(),
    n_loggers=None,
    logged_only=False,
):
    """Return the recommended row and why it or none; `values` may raise doubts."""
    row, reason = recommended_row(logs, evaluators, n_loggers, left_out, logged_only)
    if row is None and any(map(learns, policies)):
        reason = LEARNS
    return row, reason if values is None else doubted_reason(row, reason, logs, values)


def doubted_reason(name, reason, logs, values):
    """Get the reason for a row, unless propensities or weights are wrong: then that."""
    values = list(values)
    doubt = _doubt(logs, values)
    if doubt:
        return f"{doubt}; {reason}" if name is None else doubt
    # the values know it from their pass over the rounds
    told = (type(warning) for value in values for warning in value.warnings)
    return f"{reason}; {LOGGER_LEARNED}" if AdaptiveLoggerWarning in told else reason


def _doubt(logs, values):
    """Return what is wrong with the weights of all rows, or of some; or nothing."""
    if misfits(logs):
        return misfit_reason(logs)
    if has_field(logs, "slate") or not has_field(logs, "propensity"):
        return ""
    # not its subclass, which tells of a bias by design
    kinds = {type(warning) for value in values for warning in value.warnings}
    return WRONG_WEIGHTS if PropensityWarning in kinds else ""


def misfits(logs):
    """Return the alarms of a logger that does not fit the logged actions or slates."""
    if not (has_field(logs, "slate") or has_field(logs, "propensity")):
        return []
    return [one for one in logs._quick_propensity_findings[1] if one.is_alarm]


def misfit_reason(logs):
    """Return why no row is to be trusted where `misfits` finds something."""
    if not has_field(logs, "slate"):
        inverted = any(one.name == KEPT_SHARE for one in misfits(logs))
        return WEIGHTS_MISFIT if inverted else MISFIT
    return ROWS_LOST if misfits(logs)[0].name == LOST_ROWS else SLATES_MISFIT
