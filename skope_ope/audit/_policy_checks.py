# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether a log can answer for a policy: what it learned from, support and weights."""

from dataclasses import replace
from math import isnan, nan

import numpy as np

from skope_ope.evaluators.core._diagnostics import LARGE_WEIGHT, Diagnostics
from skope_ope.evaluators.core._drowned import is_huge
from skope_ope.evaluators.core._jobs import evaluate_jobs
from skope_ope.evaluators.core._overlap_findings import (
    overlap_findings,
    slate_support_findings,
    support_findings,
)
from skope_ope.evaluators.core._rounds import combined_weights
from skope_ope.evaluators.core._slates import of_weights, overlaps_of_weights
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.core._warnings import has_groups
from skope_ope.evaluators.slate._pseudo_inverse import PseudoInverse
from skope_ope.evaluators.slate._slate_ips import SlateIPS
from skope_ope.evaluators.static._snips import SNIPS
from skope_ope.exceptions import TailWarning
from skope_ope.intervals._tail_shape import UNRELIABLE, is_bounded, tail_shape
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._validation import has_slot_rewards, plain
from skope_ope.logs.checks._finding import Finding
from skope_ope.policies._fit_free_policies import ConstantPolicy
from skope_ope.policies._learned_rounds import (
    rounds_in_doubt,
    share_of_learned_groups,
)
from skope_ope.policies.slate._slate_base import BaseSlatePolicy
from skope_ope.policies.slate._slate_policy import GivenMarginals

NO_WEIGHTS = "not possible: no propensities"


# -- whether a log holds what a policy does, by its actions and by its loggers ---------

ONE_ACTION = "one_action"
MOST_TABLE_ACTIONS = 20  # of a table
OUT_OF_REACH = 0.05  # of the policy's probability: then it is worth a note


def unsupported_findings(rounds, random_state=None):
    """Return what the policy wants and the logger never does."""
    mass = {"unsupported mass": float(rounds.overlap.missing_mass)}
    return {} if rounds.target.logged_only else mass, [
        replace(one, actions=rounds.never_logged())
        for one in support_findings(rounds.overlap, rounds.logs)
    ]


def action_findings(rounds, random_state=None):
    """Return what the policy does by action and logger, and what is out of reach."""
    facts, found = {}, []
    if rounds.target.logged_only:
        facts["unsupported mass"] = (
            "not known: the probabilities of the logged actions do not show what "
            "else the policy does"
        )
    if rounds.wanted is not None:
        facts["actions of the policy"] = _by_action(rounds)
        found += _one_action(rounds)
    if rounds.unreached == rounds.unreached:
        facts["mass beyond weight sqrt(n)"] = rounds.unreached
        found += _reach_findings(rounds)
    if rounds.known and rounds.logs.loggers is not None:
        facts["loggers and the policy"] = _by_logger(rounds)
    return facts, found


def _one_action(rounds):
    """Return a note where a rule that may choose takes one action in all rounds."""
    policy, logs = rounds.target.policy, rounds.logs
    constant = isinstance(policy, ConstantPolicy) or rounds.target.array is not None
    if constant or not logs.n_features or logs.n_actions < 2:
        return []
    if rounds.wanted.max() < 1 - 1e-12:
        return []
    label = plain(logs.actions[int(rounds.wanted.argmax())])
    found = f"The policy takes action {label!r} in all rounds."
    advice = (
        "If its rule should tell contexts apart, compare the values that it "
        "names with those of the context: one may be misspelt."
    )
    return [Finding(ONE_ACTION, "note", found, advice, effect=1.0, actions=(label,))]


def _by_action(rounds):
    """Return the policy's most likely actions: its share and the log's."""
    logs, wanted = rounds.logs, rounds.wanted
    order = np.argsort(-wanted, kind="stable")[:MOST_TABLE_ACTIONS]
    counts = np.bincount(logs.action_index, minlength=logs.n_actions)[order]
    table = {
        "action": [plain(logs.actions[k]) for k in order],
        "policy's share": wanted[order].tolist(),
        "logged share": (counts / len(logs)).tolist(),
        "rounds": counts.tolist(),
    }
    if rounds.known:
        largest = np.zeros(logs.n_actions)
        np.maximum.at(largest, logs.action_index, rounds.w)
        table["largest weight"] = largest[order].tolist()
    return table


def _by_logger(rounds):
    """Return how well the rounds of every logger serve the policy."""
    logs, w = rounds.logs, rounds.counted
    who, n = logs.logger_index, len(logs.loggers)
    count = np.bincount(who, minlength=n)
    used = np.flatnonzero(count)
    first, second = np.bincount(who, w, n), np.bincount(who, w * w, n)
    size = np.divide(first**2, second, out=np.zeros(n), where=second > 0)
    return {
        "logger": [plain(label) for label in logs.loggers[used]],
        "rounds": count[used].tolist(),
        "effective rounds": size[used].tolist(),
        "mean weight": (first[used] / count[used]).tolist(),
    }


def _reach_findings(rounds):
    beyond = rounds.unreached
    if beyond <= OUT_OF_REACH:
        return []
    n = rounds.positive.n
    found = (
        f"{beyond:.1%} of the policy's probability is on actions with a weight "
        f"above sqrt(n) = {figure(n**0.5, 3)} in their context. The logger "
        "takes them so rarely that hardly any round shows their reward."
    )
    advice = (
        "Compare clipped values: their bias is at most this share of the "
        "range of the rewards. Or collect logs closer to the policy."
    )
    return [Finding("out_of_reach", "note", found, advice, beyond, beyond)]


# -- what the importance weights of a policy tell, and what their size alone misses

TOP_SHARE = 0.01  # of the rounds


def summed_weight_findings(rounds, random_state=None):
    """Return facts and findings about the sums of the weights of a policy."""
    if not rounds.known:
        return {"weights of the policy": NO_WEIGHTS}, []
    overlap = rounds.overlap
    if is_huge(overlap.max_w):
        return {"largest weight": overlap.max_w}, [rounds.huge_weight()]
    facts = {
        "effective sample size": overlap.effective_sample_size,
        "effective share": overlap.effective_sample_size / overlap.n,
        "largest weight": float(overlap.max_w),
        "mean weight": overlap.mean_weight,
        "mean weight, standard errors from 1": overlap.mean_weight_z,
    }
    found = overlap_findings(overlap, rounds.logs, rounds.target)
    return facts, [one for one in found if one.name != "unsupported_mass"]


def weighted_reward_findings(rounds, random_state=None):
    """Return facts and findings about large weights and the tail they give rewards."""
    if not rounds.has_weights:
        return {}, []
    large = rounds.counted * (rounds.w > LARGE_WEIGHT)
    facts = {"policy's mass on weights above 20": float(large.mean())}
    if rounds.overlap.sum_w == 0:
        return facts, []
    size = np.abs(rounds.counted * rounds.logs.reward)
    facts["share of the largest 1% of weighted rewards"] = _top_share(size)
    shape, error = weighted_tail(rounds.counted, rounds.logs.reward)
    facts["tail shape of weighted rewards"] = (
        "not estimated: too few rounds, or sizes without a tail"
        if isnan(shape)
        else shape
    )
    return facts, tail_findings(shape, error)


def _top_share(size):
    """Return the share of the largest 1% of terms in their sum, at least of one."""
    total = float(size.sum())
    if not total:
        return float("nan")
    positive = size[size > 0]  # partitions of equal terms are slow
    k = min(max(round(TOP_SHARE * len(size)), 1), len(positive))
    return float(np.partition(positive, -k)[-k:].sum()) / total


# -- what a heavy tail of the weighted rewards means for their mean --------------------


def weighted_tail(weight, reward):
    """Return the shape of the tail of weighted rewards, and its standard error."""
    # Where the weights reach a bound, as those of a few recorded propensities do, the
    # tail is that of the rewards: a constant factor changes no shape. Products would
    # come in lumps, one for each size of the weights.
    factor = weight > 0 if is_bounded(weight) else weight
    return tail_shape(factor * np.abs(reward))


def tail_findings(shape, error):
    """Return a finding where a tail is heavy: an alarm where that is beyond doubt."""
    if isnan(shape) or shape <= UNRELIABLE:
        return []
    certain = shape - 2 * error > UNRELIABLE
    found = (
        f"The weighted rewards have a heavy tail: shape k = {shape:.2f} (tail "
        f"index {figure(1 / shape)}). From k = 0.5 on the variance is infinite. "
        "From k = 0.7 on no practical number of rounds makes a mean reliable. "
        "Standard errors and effective sizes are too optimistic."
    )
    advice = (
        "Compare clipped values (cmax=...) and DRos, which limit the effect "
        "of a single round. Or collect logs closer to the policy."
    )
    about = {"number": shape, "effect": shape, "category": TailWarning}
    return [
        Finding("heavy_tail", "warning" if certain else "note", found, advice, **about)
    ]


# -- the answer under other bounds on the weights --------------------------------------

HALF_WIDTH = 1.96  # half an interval, in standard errors
LEVELS = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0)
# rounds that are altered: a bound that alters more asks another question
ALTERED = 0.05


def clipping_findings(rounds, random_state=None):
    """Return a table of self-normalised values, and a note where they differ."""
    if not rounds.has_weights:
        return {}, []
    # The self-normalised estimate does not sink just because weights are cut: what
    # moves it are the rounds that have large ones.
    top = float(rounds.w.max())
    levels = [level for level in LEVELS if level < top]
    if not levels or not rounds.overlap.sum_w:
        return {}, []
    # the logged actions' probabilities are known: no policy is asked again
    target = Target(rounds.pi, rounds.all_logs)
    jobs = [(SNIPS(cmax=level), target, None) for level in (*levels, None)]
    values = evaluate_jobs(jobs, rounds.positive)
    *clipped, own = values
    altered = [float((rounds.w > level).mean()) for level in levels]
    facts = {
        "values by clipping (SNIPS)": {
            "cmax": [*levels, "none"],
            "value": [one.value for one in values],
            "standard error": [one.standard_error for one in values],
            "altered rounds": [*altered, 0.0],
        }
    }
    half = HALF_WIDTH * own.standard_error
    moved = [
        (abs(one.value - own.value), level, one, share)
        for level, one, share in zip(levels, clipped, altered, strict=True)
        if share <= ALTERED and abs(one.value - own.value) > half
    ]
    if not moved:
        return facts, []
    gap, level, one, share = max(moved, key=lambda entry: entry[0])
    found = (
        f"The answer depends on {share:.2%} of the rounds. The self-normalised value "
        f"is {figure(own.value)} ± {half:.2g}. With weights clipped at {figure(level)} "
        f"it is {figure(one.value)}."
    )
    advice = (
        "Do not take the value with clipped weights for the answer: it is biased "
        "towards the logger. A few rounds of large weight decide the other one. Its "
        "interval allows for that. A good reward model (DoublyRobust) needs large "
        "weights less."
    )
    effect = gap / abs(own.value) if own.value else nan
    return facts, [Finding("clipping_matters", "note", found, advice, gap, effect)]


# -- whether a policy has learned from the rounds, and whether anybody can tell --------


def no_weight_facts(random_state=None):
    """Return the fact that no round counts."""
    return {"checks of the policy": "not possible: all sample weights are 0"}, []


def learned_rounds_findings(rounds, random_state=None):
    """Return the finding that a policy has learned from the rounds."""
    return {}, rounds.learned


def alike_rounds_findings(rounds, random_state=None):
    """Return a note where a policy may have learned from rounds like these."""
    policy, logs = rounds.policy, rounds.all_logs
    if rounds.learned:
        return {}, []
    found = _learned_groups(policy, logs)
    share, repeats = (0.0, 0.0) if found else rounds_in_doubt(policy, logs)
    if share == 0:
        return {}, found
    copies = f" ({repeats:.1%} repeat an earlier one)" if repeats else ""
    alike = (
        f"{share:.1%} of these rounds have the same content as a round that it "
        "learned from"
    )
    if isnan(share):
        alike = "these rounds lack columns or fields of the rounds that it learned from"
    text = (
        "The policy learned from another log object, and the content of its "
        f"rounds does not identify them{copies}: {alike}. Whether the policy has "
        "learned from these rounds is not known."
    )
    advice = (
        "If both logs come from one table, the value may be too good. Build "
        f"the logs once and split them{_split_remedy(logs)}. "
        "Parts of one log object are always recognised, and so are rows of "
        "scanned files. If the logs hold different rounds, do nothing."
    )
    return {}, [Finding("rows_not_recognised", "note", text, advice, repeats, share)]


def _split_remedy(logs):
    if has_groups(logs):
        return " by group, with GroupShuffleSplit and groups=logs.group"
    return ": train, test = train_test_split(logs)"


def _learned_groups(policy, logs):
    """Return a note where a policy has learned from other rounds of these groups."""
    share = share_of_learned_groups(policy, logs)
    if not share:
        return []
    found = (
        f"{share:.1%} of these rounds are of groups, such as users, of whom the "
        "policy has learned from other rounds. A model can know single groups by "
        "heart, and its value for new ones is then lower."
    )
    advice = (
        "Split by group: GroupShuffleSplit of scikit-learn takes groups=logs.group. If "
        "the policy will serve the same groups, nothing is to be done."
    )
    return [Finding("learned_groups", "note", found, advice, effect=share)]


# -- the weights of a slate policy ----------------------------------------------------

NO_LOGGER = "not possible: neither the logging policy nor propensities are known"
# Evaluators that take other weights, or none.
SPARED = {
    "slates": ("PseudoInverse", "SlateDoublyRobust", "mean reward"),
    "slots": ("SlateIPS", "mean reward"),
}
FACT_NAMES = {
    "effective_sample_size": "effective sample size",
    "effective_share": "effective share",
    "max_weight": "largest weight",
    "mean_weight": "mean weight",
    "expected_weight": "mean weight expected",
}


def slate_policy_findings(rounds, random_state=None):
    """Return facts and findings about the weights of a slate policy."""
    # The weights are those of whole slates (`SlateIPS`) and, where the logging policy
    # is known, those of slots (`PseudoInverse`).
    target, logs = rounds.target, rounds.all_logs
    if target.only_moves:
        told = "not possible: the policy moves what was shown, it has no weights"
        return {"weights of the policy": told}, []
    if logs.logging_policy is None and logs.propensity is None:
        return {"weights of the policy": NO_LOGGER}, []
    facts, found = {}, []
    for what, evaluator in _evaluators(target, logs).items():
        told, more = _weight_findings_of(evaluator.fit(logs), target, logs, what)
        facts |= told
        found += more
    return facts, found


def _evaluators(target, logs):
    """Return whose weights are looked at, by what they compare."""
    logger, found = logs.logging_policy, {}
    told = logs.propensity is not None or hasattr(logger, "slate_proba")
    whole = not isinstance(target.policy, GivenMarginals)
    if told and whole and hasattr(target.policy, "slate_proba"):
        found["slates"] = SlateIPS()
    if isinstance(logger, BaseSlatePolicy):
        found["slots"] = PseudoInverse(outside_range="exclude")
    return found


def _weight_findings_of(evaluator, target, logs, what):
    terms = evaluator.slate_terms(target, target.logs)
    positive = terms.positive(logs, combined_weights(logs, None))
    pair = overlaps_of_weights(terms.weight, terms.expected, positive.design)
    entries, found, _ = of_weights(*pair, terms.supported, has_slot_rewards(logs))
    entries = Diagnostics(entries | terms.diagnostics)
    facts = {
        f"{name} ({what})": entries[key]
        for key, name in FACT_NAMES.items()
        if key in entries
    }
    lost = entries.get("unsupported_share", entries.get("outside_range_share", nan))
    if not isnan(lost):
        facts[f"share never shown ({what})"] = lost
    support = [
        replace(one, spares=SPARED[what]) for one in slate_support_findings(lost, what)
    ]
    found = support + [_about_weights(what, one) for one in found]
    if terms.weight is None or not entries.get("effective_sample_size", 0) > 0:
        return facts, found
    counted = np.abs(positive.of(terms.weight))
    shape, error = weighted_tail(counted, positive.of(logs.reward))
    if not isnan(shape):
        name = f"tail shape of weighted rewards ({what}), heavy above {UNRELIABLE}"
        facts[name] = shape
    return facts, found + [
        _about_weights(what, one) for one in tail_findings(shape, error)
    ]


def _about_weights(what, finding):
    """Return a finding that says whose weights it is about: both kinds are checked."""
    text = f"Weights of {what}: {finding.found}"
    return replace(finding, found=text, spares=SPARED[what])
