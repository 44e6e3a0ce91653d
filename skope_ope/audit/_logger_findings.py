# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What every logger of a log did, and faults that only one of them may have."""

from dataclasses import replace

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.evaluators.scavenging._predictability import (
    HIGH_Z,
    LOW_Z,
    predictability,
)
from skope_ope.exceptions import ExplorationWarning, LoggerWarning, PropensityWarning
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._validation import PROBA_TOLERANCE, plain
from skope_ope.logs.checks._context_columns import rows_apart, thinned
from skope_ope.logs.checks._evidence import fitted_regression
from skope_ope.logs.checks._finding import Finding
from skope_ope.logs.checks._leaks import predicted_by_halves, reward_terms, varies
from skope_ope.logs.checks._propensity_findings import quick_propensity_findings
from skope_ope.logs.checks._propensity_fit import fitted_propensity_findings
from skope_ope.logs.checks._propensity_sums import estimating_step, propensity_by_action

FEW_OF_ONE = 30  # rounds of a logger
MOST_OF_LOGGER = 5000  # of a logger, whose propensities are tested
MOST_ASKED = 2000  # of a logger, or of all, whose contexts are asked
MOST_LOGGERS = 20  # the largest ones are tested
FIRST_ONES = 10
ROUNDS_COMPARED = 10_000  # rounds, whose rewards are compared between loggers
OPPOSITE, OPPOSITE_Z = -0.3, -5.0  # slope of rewards on what other loggers tell
OPPOSITE_AGAIN_Z, FEWEST_ALIKE = -3.0, 100  # where contexts and actions are alike
RIDGE = 0.01  # of the model of their rewards, per round
FLAT = 1e-9  # of the largest reward: predictions that vary no more are constant


def logger_findings(logs, random_state=0):
    """Compare the loggers of a log, and test each of them by itself."""
    # The propensities of a logger are tested on its own rounds, where those of the
    # others cannot hide a fault. Its rounds must also be of the contexts of all: pooled
    # by mixtures or by divergences, loggers are taken for samples of the same contexts.
    if logs.loggers is None:
        return {}, []
    random = check_random_state(random_state)
    acting = np.flatnonzero(logs._logger_counts)
    rows = _largest_loggers(logs, MOST_LOGGERS)
    facts = {"loggers": _loggers_table(logs, rows)}
    if len(acting) > len(rows):
        facts["loggers not shown"] = len(acting) - len(rows)
    findings = [*_few_rounds(logs, acting), *_contradicting_logger_proba(logs)]
    if len(acting) > 1:
        findings += [*_other_actions(logs, rows), *_other_contexts(logs, random)]
        findings += _opposite_rewards(logs, rows, random)
        findings += _faults(logs, rows, random)
    return facts, findings


def _loggers_table(logs, rows):
    """Return a row per logger: rounds, actions, rewards, propensities."""
    columns = {"logger": [plain(logs.loggers[k]) for k in rows]}
    columns["rounds"] = [len(mine) for mine in rows.values()]
    columns["actions taken"] = [
        len(np.unique(logs.action_index[mine])) for mine in rows.values()
    ]
    columns["mean reward"] = [float(logs.reward[mine].mean()) for mine in rows.values()]
    if logs.propensity is not None:
        of = [logs.propensity[mine] for mine in rows.values()]
        columns["lowest propensity"] = [float(p.min()) for p in of]
        columns["highest propensity"] = [float(p.max()) for p in of]
        columns["looks at the context"] = [
            "no"
            if propensity_by_action(logs[mine[:MOST_OF_LOGGER]]) is not None
            else "yes"
            for mine in rows.values()
        ]
    return columns


def _logger(logs, k):
    return repr(plain(logs.loggers[k]))


# -- notes ----------------------------------------------------------------------------
def _few_rounds(logs, acting):
    few = [int(k) for k in acting if logs._logger_counts[k] < FEW_OF_ONE]
    if not few or len(acting) < 2:
        return []
    fewest = min(few, key=lambda k: logs._logger_counts[k])
    found = (
        f"{len(few):,} of {len(acting):,} loggers have fewer than {FEW_OF_ONE} rounds "
        f"(logger {_logger(logs, fewest)} has {logs._logger_counts[fewest]:,}). Their "
        "variance, and faults in their rounds, are hard to see."
    )
    advice = "Pool them with pooling='balanced', or leave them out."
    about = {"number": int(logs._logger_counts[fewest])}
    about |= {"effect": float(logs._logger_counts[few].sum() / len(logs))}
    about |= {"actions": [plain(logs.loggers[k]) for k in few[:FIRST_ONES]]}
    return [Finding("few_rounds_of_a_logger", "note", found, advice, **about)]


def _other_actions(logs, rows):
    """Return a note where a logger never takes what another one does."""
    loggers, n_actions = list(rows), logs.n_actions
    taken = np.zeros((len(loggers), n_actions), dtype=bool)
    for mine, place in zip(rows.values(), taken, strict=True):
        place[logs.action_index[mine]] = True
    seen, why = taken.any(axis=0), "never took"
    if logs.logger_proba is not None:  # also in rounds of others
        why = "cannot take"
        for k, place in zip(loggers, taken, strict=True):
            place[logs.action_index[logs.logger_proba[:, k] > 0]] = True
    else:  # of few rounds nothing follows
        few = [len(mine) < FEW_OF_ONE * n_actions for mine in rows.values()]
        taken[few] = True
    lost = seen & ~taken
    if not lost.any():
        return []
    place, action = (int(at) for at in np.argwhere(lost)[0])
    n_loggers, n_lost = int(lost.any(axis=1).sum()), int(lost.any(axis=0).sum())
    share = float(np.isin(logs.action_index, np.flatnonzero(lost.any(axis=0))).mean())
    found = (
        f"{n_loggers:,} of {len(loggers):,} loggers never take {n_lost:,} of "
        f"{n_actions:,} actions that others take: logger "
        f"{_logger(logs, loggers[place])} {why} action {plain(logs.actions[action])!r}."
    )
    advice = (
        "If the policy takes these actions, use pooling='balanced': it is "
        "enough that one logger takes an action."
    )
    about = {"number": n_lost, "effect": share}
    about |= {
        "actions": [
            plain(label) for label in logs.actions[lost.any(axis=0)][:FIRST_ONES]
        ]
    }
    return [Finding("loggers_without_overlap", "note", found, advice, **about)]


# -- alarms ---------------------------------------------------------------------------
def _contradicting_logger_proba(logs):
    """Compare propensities with the column of the logger that acted."""
    p, proba = logs.propensity, logs.logger_proba
    if p is None or proba is None:
        return []
    own = proba[np.arange(len(p)), logs.logger_index]
    off = np.flatnonzero(np.abs(p - own) > PROBA_TOLERANCE)
    if not off.size:
        return []
    of = np.unique(logs.logger_index[off])
    row = int(off[0])
    name = logs._called(off)[0]
    clipped = bool((p[off] > own[off]).all() and np.ptp(p[off]) == 0)
    found = (
        f"In {len(off):,} of {len(p):,} rounds the propensity differs from the "
        f"logger_proba of the logger that acted: {figure(p[row])} and "
        f"{figure(own[row])} in row {name}, of logger "
        f"{_logger(logs, logs.logger_index[row])}."
    )
    if clipped:
        found = (
            f"The propensities of {len(off):,} rounds were raised to {figure(p[row])}. "
            "logger_proba holds the original ones, and pooling='balanced' uses these."
        )
    advice = (
        "One of the two is wrong, or belongs to other rounds. "
        "pooling='balanced' uses logger_proba, all else uses the propensity.",
    )[: not clipped]
    about = {"number": len(off)}
    about |= {"effect": float(np.median(np.abs(own[off] / p[off] - 1)))}
    about |= {"rows": off[:FIRST_ONES].tolist()}
    about |= {"actions": [plain(label) for label in logs.loggers[of][:FIRST_ONES]]}
    about |= {"category": PropensityWarning}
    return [
        Finding(
            "propensity_contradicts_logger",
            "note" if clipped else "warning",
            found,
            advice,
            **about,
        )
    ]


def _other_contexts(logs, random):
    """Ask whether the context tells who acted."""
    rows = thinned(np.arange(len(logs)), logs.sample_weight, random)
    rows = _drawn(random, rows, MOST_ASKED)
    part = logs[rows]
    found = predictability(part, part.logger_index, arm="logger")
    if not found.z > HIGH_Z:
        return []
    mixes = logs.logger_proba is not None
    text = (
        "The context predicts which logger acted: a classifier beats the shares "
        f"of the loggers by {figure(found.gain)} in log-loss per round "
        f"({found.z:,.1f} standard errors) on held-out rounds. Balanced and "
        "weighted pooling assume that all loggers saw the same kind of contexts."
    )
    advice = (
        "The loggers had different users, or acted at different times with "
        "different contexts. Use pooling='naive', IPS or DoublyRobust, which "
        "do not assume equal contexts, or compare with them.",
        "The logger writes a column of the context (its name, its version, "
        "its score): leave this column out.",
    )
    about = {"number": found.z, "effect": found.gain, "category": LoggerWarning}
    return [
        Finding(
            "loggers_of_other_contexts",
            "warning" if mixes else "note",
            text,
            advice,
            **about,
        )
    ]


def _opposite_rewards(logs, loggers, random):
    """Ask whether the rewards of a logger fall where those of the others rise."""
    # What least squares predict from the rounds of the others has a slope near one in
    # the rounds of a logger, near -1 where its reward has the opposite sign. Where
    # contexts differ a curve rises for one and falls for another: so a slope counts if
    # rounds of like contexts and actions have it, too.
    rows = rows_apart(logs, ROUNDS_COMPARED, random)
    omega = np.ones(len(logs)) if logs.sample_weight is None else logs.sample_weight
    rows = rows[omega[rows] > 0]
    if len(rows) < FEW_OF_ONE or not varies(logs.reward[rows]):
        return []
    reward = logs.reward[rows] / np.abs(logs.reward[rows]).max()
    rounds = reward_terms(logs, rows), reward, omega[rows]
    found = []
    for k in loggers:
        mine = logs.logger_index[rows] == k
        if np.bincount(mine, minlength=2).min() < FEW_OF_ONE:
            continue
        slope, z = _slope_on_others(*rounds, mine)
        if slope < OPPOSITE and z < OPPOSITE_Z:
            alike = _alike_rounds(rounds[0], mine, random)
            if np.bincount(mine[alike], minlength=2).min() < FEWEST_ALIKE:
                continue
            again = _slope_on_others(*(one[alike] for one in (*rounds, mine)))
            if again[0] < OPPOSITE and again[1] < OPPOSITE_AGAIN_Z:
                found.append((z, slope, k))
    if not found:
        return []
    z, slope, k = min(found)
    label = _logger(logs, k)
    text = (
        f"The rewards of logger {label} go against those of the others: on what a "
        "model of context and action predicts from the rounds of the others, they have "
        f"a slope of {figure(slope)} ({z:,.1f} standard errors). One of both may have "
        "the opposite sign."
    )
    advice = (
        "Look up how each logger writes the reward: as a gain or as a cost, success "
        f"or failure as 1. Turn one of both round: np.where(logger == {label}, "
        "-reward, reward), or 1 - reward where it is 0 or 1.",
        "If the signs are right, actions work otherwise for one logger (other users, "
        "another time): evaluate the rounds of each by themselves.",
    )
    about = {"number": z, "effect": -slope, "category": LoggerWarning}
    about["actions"] = [plain(logs.loggers[k]) for *_, k in sorted(found)[:FIRST_ONES]]
    return [Finding("opposite_rewards", "error", text, advice, **about)]


def _slope_on_others(terms, reward, omega, mine):
    """Return the slope of rewards on what others' rounds tell of them, and its z."""
    x = predicted_by_halves(terms, reward, mine, ridge=RIDGE)[mine]
    y, w = reward[mine], omega[mine]
    x, y = x - np.average(x, weights=w), y - np.average(y, weights=w)
    square = w @ x**2
    if square <= FLAT**2 * w.sum():
        return 0.0, 0.0
    slope = w @ (x * y) / square
    error = np.linalg.norm(w * x * (y - slope * x)) / square
    return float(slope), float(slope / max(error, FLAT))


def _alike_rounds(terms, mine, random):
    """Return rounds of a logger and of the others, thinned to the same law of terms."""
    chance = fitted_regression(terms, mine).predict_proba(terms)
    others = np.where(mine, chance[:, 0], chance[:, 1])
    halves = np.flatnonzero(mine), np.flatnonzero(~mine)
    return np.concatenate([thinned(half, others, random) for half in halves])


def _faults(logs, rows, random):
    """Return what the propensity tests find in the rounds of single loggers."""
    # A fault that several have is told once, of the logger that shows it most.
    if logs.propensity is None:
        return []
    found, of = {}, {}
    for k, mine in rows.items():
        if len(mine) >= FEW_OF_ONE:
            for one in _faults_of_one(
                logs, _drawn(random, mine, MOST_OF_LOGGER), random
            ):
                of.setdefault(one.name, []).append(k)
                if one.name not in found or one.number > found[one.name][1].number:
                    found[one.name] = k, one
    return [_of_logger_alone(logs, *pair, of[name]) for name, pair in found.items()]


def _faults_of_one(logs, rows, random):
    part, found = logs[rows], []
    steps = estimating_step(part), estimating_step(logs)  # of one logger, of several
    for one in (
        *quick_propensity_findings(part)[1],
        *fitted_propensity_findings(part, random)[1],
    ):
        if one.is_alarm:
            places = rows[list(one.rows)].tolist()
            advice = [step.replace(*steps) for step in one.advice]
            found.append(replace(one, rows=places, advice=advice))
    return found


def _of_logger_alone(logs, k, one, loggers):
    """Return what was found in the rounds of logger k, and in those of others."""
    others = [_logger(logs, other) for other in loggers if other != k]
    more = ""
    if others:
        more = f" (and of {len(others):,} more: {', '.join(others[:FIRST_ONES])})"
    text = f"{one.found[0].lower()}{one.found[1:]}"
    return replace(one, found=f"Rounds of logger {_logger(logs, k)}{more}: {text}")


def _drawn(random, rows, most):
    """Return some of the rows, in order."""
    if len(rows) <= most:
        return rows
    return np.sort(random.choice(rows, most, replace=False))


# -- whether loggers looked at the context, where no propensities tell -----------------

MOST_EXPLORED = 2000  # of a logger
MOST_EXPLORERS = 3  # the largest ones
ACTION_FACT = "actions against the context"


def exploration_findings(logs, random_state=0):
    """Ask whether the context tells the actions of logs without propensities."""
    # Where it does not, `ExplorationScavenging` needs no propensities; where it does,
    # they are to be estimated. Several loggers are asked one by one.
    if logs.propensity is not None:
        return {}, []
    random, facts, found = check_random_state(random_state), {}, []
    loggers = {None: np.arange(len(logs))}
    if logs.loggers is not None:
        loggers = _largest_loggers(logs, MOST_EXPLORERS)
    for k, rows in loggers.items():
        part = logs[_drawn(random, rows, MOST_EXPLORED)]
        one = predictability(part, part.action_index)
        whose = "" if k is None else f" of logger {_logger(logs, k)}"
        facts[ACTION_FACT + whose] = _exploration_text(one.z)
        if one.z > LOW_Z:
            found.append(_exploration_finding(one, logs, whose))
    return facts, found


def _largest_loggers(logs, most):
    """Return the rounds of the largest loggers, by their code."""
    count = logs._logger_counts
    order = np.argsort(-count, kind="stable")[:most]
    return {int(k): np.flatnonzero(logs.logger_index == k) for k in order if count[k]}


def _exploration_text(z):
    if np.isnan(z):
        return "nothing to test: one action, a constant context or few rounds"
    if z > LOW_Z:
        return f"the context predicts the actions (z = {z:,.1f})"
    return f"no classifier predicts the actions (z = {z:,.1f})"


def _exploration_finding(one, logs, whose):
    predicts = "predicts" if one.z > HIGH_Z else "seems to predict"
    found = (
        f"The context {predicts} the logged actions{whose}: a classifier beats their "
        f"frequencies by {figure(one.gain)} in log-loss per round ({one.z:,.1f} "
        "standard errors) on held-out rounds."
    )
    advice = (
        f"Estimate the propensities with {estimating_step(logs)}. Scavenging "
        "would be biased."
    )
    about = {"number": one.z, "effect": one.gain, "category": ExplorationWarning}
    return Finding("context_tells_actions", "note", found, advice, **about)
