# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns that were written after the decision: they tell the action, or the reward.

Columns that tell the logged action better than the logger could, and columns, or models
of them, that predict the reward almost perfectly.
"""

from dataclasses import dataclass
from math import log

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._context_columns import (
    ContextColumn,
    binned,
    capital,
    columns_tested,
    context_columns,
    in_words,
    rows_apart,
    thinned,
)
from skope_ope.logs.checks._evidence import (
    EVIDENT,
    LEAST_EFFECT,
    LEAST_RATIO,
    SURE_FORWARD,
    Bets,
    held_out_proba,
    mean_gain,
    misfit_effect,
    probability_ratio,
    quarters_by_time,
)
from skope_ope.logs.checks._finding import (
    UNLOGGED,
    Finding,
    lacks_zeros,
    propensity_alarm,
)
from skope_ope.logs.checks._propensity_sums import (
    estimating_step,
    least_possible,
    rounding_error,
)

IGNORED = "propensity_ignores_context"
ROUNDS_APART = 10_000
FEWEST_APART = 100
DENSE = 1_000_000  # numbers that are counted without sorting
PRIOR_ROUNDS = 5.0  # rounds of every bin that follow the frequencies of the actions
MOST_BINS = 256
ALMOST_ALL = 0.8  # of the surprise about an action, told by a single column
FEWEST_ALONE, MOST_ALONE, ALONE_Z = 20, 20, 3.0  # rounds, actions; standard errors
MOST_OF_IT = 0.5  # of it: more than a column tells that only the logger looks at


def action_leak_findings(logs, random_state=0, most=ROUNDS_APART):
    r"""Return a finding where single columns tell the action better than p does."""
    # Rounds are cut into quarters in time. The frequencies of the actions in the bins
    # of a column, learned from the odd ones, are a bet against the propensities of the
    # even ones, and the other way round: with :math:`f_i = \hat p(a_i \mid x_{ij}) /
    # p_i`, products of :math:`1 + \lambda (f_i - 1)` have a mean of at most one where p
    # is right, however skewed they are. One above 1,000 times the number of columns, of
    # any of them, happens in less than one log of 1,000. That of quarters which their
    # past predicts, bets that a logger that learns does not make unfair, has to exceed
    # 100 times as many.
    #
    # Where propensities are not known, or estimated, a column is found that tells
    # almost all about the action. Where the propensity of an action is the same in
    # every context, a column that tells less than half of the action is no leak: the
    # logger looked at it, and the propensities do not.
    facts = {}
    if (part := columns_tested(logs.context)) is not None:
        facts["columns tested"] = part
    random = check_random_state(random_state)
    # of each group one: its rounds may repeat one choice
    rows = thinned(rows_apart(logs, most, random), logs.sample_weight, random)
    if logs.propensity is not None:  # a placeholder is no column's fault
        rows = rows[logs.propensity[rows] >= least_possible(len(logs), logs.n_actions)]
    action = logs.action_index[rows]
    if len(rows) < FEWEST_APART or (action == action[0]).all():
        return facts, []
    test = _LeakTest(logs, rows, random)
    leaks = test.leaks()
    if not leaks:
        return facts, []
    if not test.known:
        return facts, [_unknown_finding(leaks)]
    if leaks[0].told <= MOST_OF_IT:
        if test.ignores_context(leaks[0]):
            return facts, [_ignored_finding(logs, leaks, len(rows))]
        if test.is_wrong_without(leaks[0].column):
            return facts, [_innocent_finding(leaks)]
    alone = _wrong_alone(action, logs.propensity[rows])
    return facts, [_known_finding(leaks, len(rows), alone)]


class _LeakTest:
    """The columns of some rounds, one by one, against what the logger could tell."""

    def __init__(self, logs, rows, random):
        self.logs, self.rows, self.action = logs, rows, logs.action_index[rows]
        self.known = logs.propensity is not None and not logs.propensity_estimated
        quarter = quarters_by_time(logs._positions_at(rows))
        half = None if self.known else random.permutation(len(rows)) % 2
        self.bets = Bets(quarter, half)
        one_bin = np.zeros(len(rows), dtype=np.intp)
        frequency = self._learned(one_bin, self.bets.plan)
        # none is zero
        self.frequency = np.maximum(frequency, LEAST_RATIO / logs.n_actions)
        self.chance = self.frequency
        if self.known:
            p = logs.propensity[rows]
            self.chance = p + rounding_error(p, logs.n_actions)

    def _learned(self, code, plan):
        return _learned_chance(code, self.action, self.logs.n_actions, plan)

    def _ratio(self, predicted):
        return probability_ratio(predicted, self.chance, self.logs.n_actions)

    def leaks(self):
        """Return the columns that tell more than chance does, the worst first."""
        columns = context_columns(self.logs.context, self.rows)
        n_tests = log(max(len(columns), 1))
        open_to_chance = -float(np.log(self.frequency).mean())
        n_bins = min(max(16, 2 * self.logs.n_actions), MOST_BINS)
        found = []
        for column in columns:
            code = binned(column, n_bins)
            ratio = self._ratio(self._learned(code, self.bets.plan))
            told = mean_gain(self._among_frequencies(ratio)) / open_to_chance
            number, sure = told, told > ALMOST_ALL
            if self.known:
                number = self.bets.evidence(ratio)
                sure = number > EVIDENT + n_tests
            if sure and misfit_effect(ratio) > LEAST_EFFECT:
                ahead = self._ratio(self._learned(code, self.bets.plan_ahead))
                ahead = self.bets.evidence_ahead(ahead) if self.known else np.inf
                if ahead > SURE_FORWARD + n_tests:
                    found.append(_Leak(column, told, number, ratio))
        return sorted(found, key=lambda one: -one.told)

    def _among_frequencies(self, ratio):
        """Return ratios to the propensities as those to the shares of the actions."""
        return ratio * (self.chance / self.frequency)

    def ignores_context(self, leak):
        """Whether the propensities do not look at the context, and the logger did."""
        # not a column that beats wrong frequencies by right ones
        apart = self.bets.evidence(self._among_frequencies(leak.ratio)) > EVIDENT
        return apart and self.logs._propensity_by_action is not None

    def is_wrong_without(self, column):
        """Whether a model without a column beats the propensities, too."""
        rest = held_out_proba(self.logs, self.rows, self.bets.plan, column.name)
        ratio = self._ratio(rest)
        return (
            misfit_effect(ratio) > LEAST_EFFECT and self.bets.evidence(ratio) > EVIDENT
        )


@dataclass(frozen=True)
class _Leak:
    """A column that tells the action."""

    # `told` is the share that it tells of what the frequencies of the actions leave
    # open; `ratio` how much likelier than by the propensities it makes each action.

    column: ContextColumn
    told: float
    number: float
    ratio: np.ndarray


def _learned_chance(code, action, n_actions, plan):
    """Return the probability of each action by the rounds that are learned from."""
    pair = code * n_actions + action
    chance = np.full(len(action), np.nan)
    for learned, told in plan:
        frequency = _counts_of_wanted(action[learned], action[told]) / learned.sum()
        in_bin = _counts_of_wanted(code[learned], code[told])
        of_pair = _counts_of_wanted(pair[learned], pair[told])
        chance[told] = (of_pair + PRIOR_ROUNDS * frequency) / (in_bin + PRIOR_ROUNDS)
    return chance


def _counts_of_wanted(learned, wanted):
    """Return how often each wanted number occurs among the learned ones."""
    size = int(wanted.max()) + 1
    if size <= DENSE:
        return np.bincount(learned, minlength=size)[wanted]
    learned = np.sort(learned)
    return learned.searchsorted(wanted, "right") - learned.searchsorted(wanted)


def _wrong_alone(action, p):
    """Get whether an action is more frequent than its propensities say, by itself."""
    # Under right propensities the mean of 1[a] / p is at most one, whatever columns
    # hold.
    counts = np.bincount(action)
    for k in np.argsort(-counts, kind="stable")[:MOST_ALONE]:
        if counts[k] < FEWEST_ALONE:
            break
        terms = (action == k) / p
        if terms.mean() - 1 > ALONE_Z * terms.std() / np.sqrt(len(terms)):
            return True
    return False


def _leak_finding(leaks, found, advice, effect=None, name="action_leak", **more):
    """Return what is found of columns, the first of which a sentence is about."""
    effect = misfit_effect(leaks[0].ratio) if effect is None else effect
    columns = [one.column.name for one in leaks]
    about = leaks[0].number, effect
    return propensity_alarm(name, found, advice, *about, columns=columns, **more)


def _known_finding(leaks, n_rounds, wrong_alone):
    """Tell of columns that beat propensities which are fine without the first one."""
    better = f"{figure(1 + misfit_effect(leaks[0].ratio))} times as likely as they say"
    label = capital(leaks[0].column.label)
    found = (
        f"{label} tells the logged action far better than the propensities do: "
        f"{better} on average over {n_rounds:,} rounds that were left out."
        f"{_so_do(leaks[1:])}"
    )
    causes = [_written(label), ANOTHER_LOGGER]
    if wrong_alone:  # a column that was written later leaves right ones as they are
        causes = [_other_rule(leaks[0].column.label), _written(label)]
    return _leak_finding(leaks, found, causes)


def _ignored_finding(logs, leaks, n_rounds):
    """Tell of columns that the logger looked at, and its propensities do not."""
    label, effect = leaks[0].column.label, misfit_effect(leaks[0].ratio)
    found = (
        "The propensity of each action is the same in every context, but the logged "
        f"actions depend on {label}: it makes them {1 + effect:.3g} times as likely as "
        f"the propensities say, on average over {n_rounds:,} rounds.{_so_do(leaks[1:])}"
    )
    advice = (
        f"If {label} was known before the action was chosen, the propensities are "
        "wrong: perhaps they are the shares of the actions in the log. Keep the "
        "column. Write down the probability of each draw, by the rule that drew "
        "it, or build the logs without propensities and estimate them with "
        f"{estimating_step(logs)}.",
        f"If {label} was written after the action was chosen, take it out of the "
        "context.",
    )
    return _leak_finding(leaks, found, advice, name=IGNORED)


def _innocent_finding(leaks):
    """Tell of columns that beat propensities which are wrong without them, too."""
    label = leaks[0].column.label
    found = (
        f"{capital(label)} tells the logged action better than the propensities do."
        f"{_so_do(leaks[1:])} But a model without {label} does so, too: the "
        "propensities are wrong, or several columns tell of the decision."
    )
    advice = "Correct the propensities, and audit the log again."
    return _leak_finding(leaks, found, advice, severity="note")


def _unknown_finding(leaks):
    """Tell of columns that leave little open about the action."""
    label, told = capital(leaks[0].column.label), leaks[0].told
    found = (
        f"{label} tells {told:.0%} of what the frequencies of the actions leave "
        f"open about the logged action.{_so_do(leaks[1:])}"
    )
    advice = (
        _written(label),
        "The logger follows this column without exploring: then these rounds "
        "cannot tell what another action would have brought.",
    )
    return _leak_finding(leaks, found, advice, told, severity="warning")


def _so_do(leaks):
    do = "do" if len(leaks) > 1 else "does"
    return f" So {do} {in_words([one.column.label for one in leaks])}." if leaks else ""


ANOTHER_LOGGER = (
    "The propensities are not those of this logger: compare them with the code that "
    "draws the actions."
)


def _other_rule(label):
    return (
        f"The logger looks at {label}, and the propensities come from another rule, or "
        "from other values of it (another unit or time zone): compare them with the "
        "code that draws the actions."
    )


def _written(label):
    return (
        f"{label} was written after the action was chosen, or holds the choice itself: "
        "take it out of the context, which is what was known before."
    )


# -- columns that tell the reward ------------------------------------------------------

MOST_FOR_LEAK = 10_000
FEWEST_FOR_LEAK = 50


def reward_leak_findings(logs, random_state=0):
    """Return a finding where the context foretells the reward almost perfectly."""
    # A single column predicts a reward by the mean of its other rounds with the same
    # value, or, where these are few, by interpolation between the rounds with the next
    # values; so a column is found whatever function of it the reward is. Then come
    # columns of which one value is always rewarded, and models of all columns.
    random = check_random_state(random_state)
    rows = rows_apart(logs, MOST_FOR_LEAK, random)  # none is told by its group
    reward = logs.reward[rows]
    if len(rows) < FEWEST_FOR_LEAK or not varies(reward) or not logs.n_features:
        return {}, []
    reward = reward / np.abs(reward).max()  # squares of huge rewards overflow
    columns = context_columns(logs.context, rows)
    action = getattr(logs, "action_index", None)
    action = None if action is None else action[rows]
    found = _single_columns(columns, reward)
    found = found or sure_rewards(columns, reward, action, len(logs))
    return {}, found or reward_models(columns, reward, action, random)


def _single_columns(columns, reward):
    """Return the finding of columns that foretell the reward by themselves, if any."""
    targets = {"the reward": reward}
    rewarded = (reward != 0).astype(float)
    if varies(rewarded) and len(np.unique(reward)) > 2:
        targets["whether there is a reward"] = rewarded
    told = []
    for column in columns:
        scores = {
            what: r2_of(interpolated(column.coded, target, column.categorical), target)
            for what, target in targets.items()
        }
        what = max(scores, key=scores.get)
        if scores[what] > LEAST_R2:
            told.append((scores[what], what, column))
    if not told:
        return []
    told.sort(key=lambda one: -one[0])
    r2, what, column = told[0]
    label, others = capital(column.label), [one.label for _, _, one in told[1:]]
    more = f" The same holds for {in_words(others)}." if others else ""
    finding = Finding(
        "reward_leak",
        "error",
        f"{label} predicts {what}, whatever the action: R^2 {r2:.4f} on held-out "
        f"rounds.{more}",
        (
            f"{label} was written after the reward, or is computed from it. Leave it "
            "out: the context is what was known before the decision.",
            f"{label} was known before, and the action does not change the reward. "
            "Then all policies have the same value.",
        ),
        number=r2,
        effect=r2,
        columns=[one.name for _, _, one in told],
        category=LogsWarning,
    )
    return [finding]


# -- models of all columns that foretell the reward almost perfectly -------------------

MOST_MODEL_ROUNDS = 4_000
MOST_TERMS = 250  # of the model
MOST_MODEL_LEVELS = 10  # of a column of categories, and actions, that the model knows
MOST_DROPPED = 30  # columns, one after the other, to see which are needed
RIDGE_OF_LEAK = 1e-9


def reward_models(columns, reward, action, random):
    """Return the finding of a model of all columns, if any."""
    # Least squares on the columns, their squares and products as long as these are few,
    # then with the actions and their products with columns; one half of the rounds is
    # predicted from the other.
    some = random.permutation(len(reward))[:MOST_MODEL_ROUNDS]
    reward = reward[some]
    if not varies(reward):
        return []
    half = np.arange(len(reward)) % 2
    X, owner = _column_terms(columns, some)
    for taken in [None] if action is None else [None, _frequent_actions(action[some])]:
        score = _score(_terms(X, taken), reward, half)
        if score > LEAST_R2:
            needed = _needed_columns(X, owner, taken, reward, half)
            return [_model_finding([columns[k] for k in needed], score, taken, reward)]
    return []


def reward_terms(logs, rows):
    """Return the terms of a model of the reward by the context and the action."""
    X, _ = _column_terms(context_columns(logs.context, rows), np.arange(len(rows)))
    return _terms(X, _frequent_actions(logs.action_index[rows]))


def _column_terms(columns, rows):
    """Return the terms of columns that stand by themselves, and whose they are."""
    pieces = [_piece(column, rows) for column in columns]
    X = np.concatenate([np.empty((len(rows), 0)), *pieces], axis=1)
    owner = np.array([k for k, one in enumerate(pieces) for _ in one.T], dtype=np.intp)
    return X[:, :MOST_TERMS], owner[:MOST_TERMS]


def _piece(column, rows):
    """Return the terms of a column."""
    values = column.values[rows]
    if column.categorical:
        codes = np.arange(min(np.nanmax(values, initial=0) + 1, MOST_MODEL_LEVELS))
        terms = (values[:, None] == codes) * 1.0
    else:
        known = np.isfinite(values)
        values = np.where(known, values, 0.0)
        values = values / (np.abs(values).max() or 1.0)
        level = values[known].mean() if known.any() else 0.0
        centred = np.where(known, values - level, 0.0)
        terms = (centred / (centred.std() or 1.0))[:, None]
        if not known.all():
            terms = np.column_stack([terms, known])
    return terms


def _frequent_actions(action):
    counts = np.bincount(action)
    frequent = np.argsort(-counts, kind="stable")[:MOST_MODEL_LEVELS]
    return (action[:, None] == frequent[counts[frequent] > 0]) * 1.0


def _terms(X, taken):
    """Return columns, and products with actions and each other while they are few."""
    parts = [X]
    if taken is not None:
        products = (X[:, :, None] * taken[:, None, :]).reshape(len(X), -1)
        parts += [taken, products]
    first, second = np.triu_indices(X.shape[1])
    if sum(part.shape[1] for part in parts) + len(first) <= MOST_TERMS:
        parts.append(X.take(first, axis=1) * X.take(second, axis=1))
    n_terms = np.cumsum([part.shape[1] for part in parts])
    kept = [part for part, n in zip(parts, n_terms, strict=True) if n <= MOST_TERMS]
    return np.concatenate(kept or parts[:1], axis=1)


def _score(terms, reward, half):
    """Return the R^2 of least squares, each half predicted from the other."""
    predicted = predicted_by_halves(terms, reward, half, ridge=RIDGE_OF_LEAK)
    along = interpolated(np.unique(predicted, return_inverse=True), reward)
    return max(r2_of(predicted, reward), r2_of(along, reward))


def _needed_columns(X, owner, taken, reward, half):
    """Return the columns without which the prediction is worse, or all."""
    columns = np.unique(owner)
    if len(columns) == 1:
        return columns
    gains = {}
    for k in columns[:MOST_DROPPED]:
        rest = _terms(X[:, owner != k], taken)
        gains[k] = LEAST_R2 - _score(rest, reward, half)
    needed = [k for k in sorted(gains, key=gains.get, reverse=True) if gains[k] > 0]
    return needed or list(columns)


def _model_finding(columns, score, taken, reward):
    labels = in_words([column.label for column in columns])
    with_action = "" if taken is None else " and the action"
    written = (
        "One of these columns was written after the reward, or is computed from it: "
        "leave it out, for the context is what was known before the decision. If it "
        "was known before the choice (a price, a length), keep it and accept the "
        "finding by name: VerdictThresholds(accepted=['reward_leak'])."
    )
    world = (
        "All columns were known before, and context and action determine the reward. "
        "Then this is no fault, and a reward model needs no weights."
    )
    found = (
        f"A model of {labels}{with_action} predicts the reward almost perfectly: R^2 "
        f"{score:.4f} on held-out rounds."
    )
    advice = (written, world, *((UNLOGGED,) if lacks_zeros(reward) else ()))
    about = {"number": score, "effect": score}
    about |= {"columns": [column.name for column in columns], "category": LogsWarning}
    return Finding("reward_leak", "warning", found, advice, **about)


# -- values of columns whose rounds are all rewarded, as those of outcomes are ---------

LEAST_CHANCE = 1e-12  # that all rounds of a value are rewarded
FEWEST_OF_VALUE = 30  # rounds of a value
FEWEST_OF_ACTION = 5
MOST_CODES = 64  # of a column: more are numbers, not categories


def sure_rewards(columns, reward, action, n_rounds):
    """Return the finding of values whose rounds all have the rarer kind of reward."""
    # Every buyer has visited: a column may say little about the reward in most rounds,
    # and all in a few. A value counts where chance does not explain it and at least two
    # actions were rewarded without exception. So does the set of all values but the
    # most frequent one, such as amounts above zero.
    rewarded = reward != 0
    rate = rewarded.mean()
    if not 0 < rate < 0.5:
        return []
    least = max(FEWEST_OF_VALUE, log(LEAST_CHANCE / max(len(columns), 1)) / log(rate))
    found = []
    for column in columns:
        for what, rounds in _sets(column, rewarded, least):
            if _of_several_actions(action, rounds):
                found.append((column, what, int(rounds.sum())))
                break
    if not found:
        return []
    column, what, count = found[0]
    label = capital(column.label)
    others = [one.label for one, _, _ in found[1:]]
    more = f" The same is true of values of {in_words(others)}." if others else ""
    looked_at = f"{len(reward):,} rounds"
    if len(reward) < n_rounds:
        looked_at += f" drawn from {n_rounds:,}"
    text = (
        f"All {count:,} rounds in which {column.label} {what} are rewarded, "
        f"whatever the action. Of all {looked_at} {rate:.1%} are.{more}"
    )
    advice = (
        f"{label} is an outcome, or was written after the reward. Leave it "
        "out: the context is what was known before the decision.",
        f"{label} was known before, and these rounds are always rewarded. "
        "Then this is no fault.",
    )
    about = {"number": float(count), "effect": 1 - float(rate)}
    about |= {"columns": [one.name for one, _, _ in found], "category": LogsWarning}
    return [Finding("reward_leak", "warning", text, advice, **about)]


def _sets(column, rewarded, least):
    """Yield sets of at least so many rounds that are all rewarded."""
    distinct, code = column.coded
    counts = np.bincount(code)
    most = int(counts.argmax())
    if len(distinct) < 2:
        return
    rest = code != most
    if 2 * counts[most] >= len(code) and rest.sum() >= least and rewarded[rest].all():
        only = len(distinct) == 2
        yield (
            _rule_text(column, distinct[1 - most] if only else distinct[most], only),
            rest,
        )
    if len(distinct) > MOST_CODES and not column.categorical:
        return
    hits = np.bincount(code, rewarded)
    for k in np.flatnonzero((hits == counts) & (counts >= least)):
        yield _rule_text(column, distinct[k], True), code == k


def _rule_text(column, value, equal):
    if np.isnan(value):
        text = "missing"
    else:
        text = repr(column.labels[int(value)]) if column.categorical else figure(value)
    return f"is {text}" if equal else f"is not {text}"


def _of_several_actions(action, rounds):
    """Whether at least two actions were taken, or all that there are."""
    if action is None or (action == action[0]).all():
        return True
    return np.count_nonzero(np.bincount(action[rounds]) >= FEWEST_OF_ACTION) >= 2


# -- how well one number foretells another, whatever function of it that is ------------

LEAST_R2 = 0.99  # almost perfectly
FEW_REPEATS = 8  # rounds of one value: fewer may be copies of one round


def varies(reward):
    """Tell whether enough rounds differ from the most frequent value."""
    _, counts = np.unique(reward, return_counts=True)
    return len(reward) - counts.max() >= FEW_REPEATS


def interpolated(coded, reward, categorical=False):
    """Predict the reward of each round from others by a column, coded by `unique`."""
    distinct, code = coded
    counts, totals = np.bincount(code), np.bincount(code, reward)
    others = (reward.sum() - reward) / (len(reward) - 1)
    apart = (totals[code] - reward) / np.maximum(counts[code] - 1, 1)
    near = others
    ordered = np.count_nonzero(np.isfinite(distinct))  # what is missing stands last
    if not categorical and ordered > 2:
        x, level = distinct[:ordered], totals[:ordered] / counts[:ordered]
        near = np.append(_interpolate(x, level), np.zeros(len(distinct) - ordered))[
            code
        ]
        near = np.where(code < ordered, near, others)
    return np.where(counts[code] >= FEW_REPEATS, apart, near)


def _interpolate(x, level):
    """Interpolate each level from its two neighbours; the first and last have one."""
    gap = np.diff(x)
    inner = level[:-2] + (level[2:] - level[:-2]) * (gap[:-1] / (gap[:-1] + gap[1:]))
    return np.concatenate([[np.nan], inner, [np.nan]])


def r2_of(predicted, target):
    """Return the share of the variance that predictions (not NaN) explain."""
    told = np.isfinite(predicted)
    target = target[told]
    total = float(((target - target.mean()) ** 2).sum()) if len(target) else 0.0
    if not total:
        return 0.0
    return 1 - float(((target - predicted[told]) ** 2).sum()) / total


def predicted_by_halves(X, targets, half, penalty=0.0, ridge=0.0):
    """Return what least squares predict, each half of the rounds from the other."""
    fitted = np.empty(targets.shape)
    for told in (half == 0, half == 1):
        middle, level = X[~told].mean(axis=0), targets[~told].mean(axis=0)
        A, Y = X[~told] - middle, targets[~told] - level
        gram = A.T @ A
        gram.flat[:: len(gram) + 1] += penalty + ridge * len(A)
        fitted[told] = level + (X[told] - middle) @ np.linalg.solve(gram, A.T @ Y)
    return fitted
