# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Laws of evaluators: equations between the values of one log and of another."""

import warnings
from dataclasses import replace
from itertools import product
from unittest.mock import patch

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from skope_ope.evaluators import (
    IPS,
    SNDR,
    SNIPS,
    DirectMethod,
    DoublyRobust,
    DRos,
    LogSmoothing,
    MultiLoggerDR,
    MultiLoggerIPS,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
)
from skope_ope.evaluators.core import _engine
from skope_ope.exceptions import FewGroupsWarning, SupportWarning
from skope_ope.policies import PlackettLuceSlatePolicy
from skope_ope.utils._check_rounds import (
    CheckRounds,
    CheckSlates,
    assert_close,
    assert_same,
    evaluated,
    fit,
    model_kinds,
    policy_of,
    quiet,
    raises,
    random_rounds,
    seeded_clone,
    takes_slates,
    value_of,
)

CONSTANT = 0.7
FACTOR = 3.0
SHIFT = 5.0
STEP = 1e-4  # of the weight of a round


def check_on_policy_value_is_the_mean_reward(evaluator):
    """Evaluate the logger: its value is the (weighted) mean of its rewards."""
    rounds = random_rounds(evaluator)
    weight = 0.5 + np.random.RandomState(1).random_sample(len(rounds))
    for kind in model_kinds(evaluator):
        model = "none" if kind == "none" else 0.3
        if kind == "folds":
            continue  # a number is the model with which the law is exact
        for w in (None,) if get_tags(evaluator).order_dependent else (None, weight):
            weighted = replace(rounds, sample_weight=w)
            found = value_of(evaluator, weighted, model, rounds.logger).value
            assert_close(
                found,
                np.average(rounds.logs().reward, weights=w),
                "the value of the logging policy is not the mean reward",
            )


def check_constant_rewards_give_that_constant(evaluator):
    """Pay the same in every round: every policy is worth that, without error."""
    _check_transformed(evaluator, 0.0, CONSTANT, "constant")


def check_order_of_rounds_does_not_matter(evaluator):
    """Shuffle the rounds: same value, and the round values move along."""
    rounds = random_rounds(evaluator)
    order = np.random.RandomState(1).permutation(len(rounds))
    for kind in model_kinds(evaluator):
        expected = value_of(evaluator, rounds, kind)
        found = value_of(evaluator, rounds.take(order), kind)
        assert_same(found, expected, "the order of the rounds matters")
        assert_close(
            found.round_values,
            expected.round_values[order],
            "round values do not follow the rounds",
        )


def check_weight_two_is_the_round_twice(evaluator):
    """Repeat rounds, or weight them: same value; weight 0 leaves a round out."""
    rounds = random_rounds(evaluator)
    times = np.random.RandomState(1).randint(0, 4, len(rounds))
    repeated = rounds.take(np.repeat(np.arange(len(rounds)), times))
    weight = times.astype(float)
    for kind in model_kinds(evaluator):
        expected = value_of(evaluator, repeated, kind).value
        weighted = replace(rounds, sample_weight=weight)
        assert_close(
            value_of(evaluator, weighted, kind).value,
            expected,
            "sample_weight k in the logs is not the round k times",
        )
        if kind == "folds":
            continue  # weights given to evaluate do not reach the model
        fitted = fit(evaluator, rounds, kind)
        assert_close(
            evaluated(fitted, rounds.pi, sample_weight=weight).value,
            expected,
            "sample_weight k in evaluate is not the round k times",
        )
        assert_same(
            evaluated(fitted, rounds.pi, sample_weight=np.full(len(rounds), 2.0)),
            evaluated(fitted, rounds.pi),
            "equal weights change the estimate",
        )


def check_names_of_actions_do_not_matter(evaluator):
    """Rename and reorder the actions, everywhere at once: same value."""
    rounds = random_rounds(evaluator)
    n_actions = rounds.pi.shape[1]
    labels = np.array([f"action {k}" for k in range(n_actions)])
    order = np.roll(np.arange(n_actions), 1)  # no action keeps its code
    moved = replace(
        rounds,
        code=np.argsort(order)[rounds.code],
        **{k: getattr(rounds, k)[:, order] for k in ("logging_proba", "pi", "q_hat")},
    )
    for kind in model_kinds(evaluator):
        expected = value_of(evaluator, rounds, kind)
        for what, same, names in (
            ("strings as labels", rounds, labels),
            ("other codes", moved, np.arange(n_actions)),
            ("reordered labels", moved, labels[order]),
        ):
            found = value_of(
                evaluator, same, kind, action=names[same.code], actions=names
            )
            assert_same(found, expected, f"{what} change the estimate")
        # a policy object is aligned by label, whatever the order of its columns
        logs = moved.logs(action=labels[order][moved.code], actions=labels[order])
        found = evaluated(fit(evaluator, moved, kind, logs), policy_of(rounds, labels))
        assert_same(found, expected, "a policy is not aligned by the labels of actions")


def check_scale_of_rewards(evaluator):
    """Multiply rewards and model: the value and its error are multiplied, too."""
    _check_transformed(evaluator, FACTOR, 0.0, "scaled")


def check_shift_of_rewards(evaluator):
    """Shift rewards and model: the value is shifted, its error is not."""
    _check_transformed(evaluator, 1.0, SHIFT, "shifted")


def _check_transformed(evaluator, factor, shift, what):
    rounds = random_rounds(evaluator)
    other = rounds.transformed(factor, shift)
    for kind in model_kinds(evaluator):
        expected = value_of(evaluator, rounds, kind)
        found = value_of(evaluator, other, kind)
        assert_close(
            found.value,
            factor * expected.value + shift,
            f"{what} rewards do not give the {what} value",
        )
        assert_close(
            found.standard_error,
            factor * expected.standard_error,
            f"{what} rewards give a wrong standard error",
        )


def check_one_action(evaluator):
    """Offer a single action: the policy is the logger, its value the mean reward."""
    tags = get_tags(evaluator)
    rounds = random_rounds(evaluator, n_actions=1)
    mean = rounds.reward.mean()
    for kind in model_kinds(evaluator):
        result = value_of(evaluator, rounds, float(mean) if kind == "array" else kind)
        if tags.on_policy_mean or tags.constant_reward:
            assert_close(result.value, mean, "one action: not the mean reward")
        assert np.isfinite(result.value), "one action: the value is not finite"


def check_standard_error_is_that_of_the_round_values(evaluator):
    """Compare with sd(round_values, ddof=1) / sqrt(n), and value with their mean."""
    rounds = random_rounds(evaluator)
    weight = 0.5 + np.random.RandomState(1).random_sample(len(rounds))
    for kind in model_kinds(evaluator):
        for w in (None, weight):
            result = value_of(evaluator, replace(rounds, sample_weight=w), kind)
            values = result.round_values
            assert values.shape == (len(rounds),), (
                f"round_values have shape {values.shape}, not ({len(rounds)},)"
            )
            assert_close(
                values.mean(), result.value, "round_values do not average to the value"
            )
            assert_close(
                result.standard_error,
                values.std(ddof=1) / np.sqrt(len(values)),
                "standard_error is not sd(round_values, ddof=1) / sqrt(n)",
            )


def check_round_values_are_slopes_of_the_value(evaluator):
    """Count a round a little more: the value moves as its round value says."""
    # Nothing else sees a wrong gradient of the function of the means.
    rounds = random_rounds(evaluator)
    n = len(rounds)
    for kind in model_kinds(evaluator):
        if kind == "folds":
            continue  # the fit of the model moves, too
        result = value_of(evaluator, rounds, kind)
        for i in (0, n // 2, n - 1):
            up, down = (
                value_of(evaluator, rounds, kind, sample_weight=weight).value
                for weight in np.ones((2, n))
                + np.outer((STEP, -STEP), np.arange(n) == i)
            )
            assert_close(
                n * (up - down) / (2 * STEP),
                result.round_values[i] - result.value,
                "round_values are not how much a round moves the value; compare the "
                "gradient of combine with its value",
                rtol=1e-4,
                atol=1e-5,
            )


def check_blocks_do_not_matter(evaluator):
    """Take the rounds in blocks of other sizes: the same sums."""
    rounds = random_rounds(evaluator)
    for kind in model_kinds(evaluator):
        expected = value_of(evaluator, rounds, kind)
        for block, chunk_entries in ((1, 1), (7, 1), (16, 150), (50, 1 << 20)):
            sizes = {"BLOCK": block, "BLOCK_ENTRIES": chunk_entries}
            with patch.multiple(_engine, **sizes):
                found = value_of(evaluator, rounds, kind)
                values = found.round_values
            what = f"blocks of {block} rounds change the estimate"
            assert_same(found, expected, what, rtol=1e-12)
            assert_close(values, expected.round_values, what, rtol=1e-12)


def check_impossible_action_warns(evaluator):
    """Want what the logger never does: a SupportWarning with the mass wanted."""
    # Without a reward model nothing is known about a policy that wants nothing else:
    # its value is NaN.
    rounds = random_rounds(evaluator)
    # the logger's last action becomes impossible; nobody ever took it
    last = rounds.pi.shape[1] - 1
    mu = rounds.logging_proba.copy()
    mu[:, 0] += mu[:, last]
    mu[:, last] = 0
    code = np.where(rounds.code == last, 0, rounds.code)
    rounds = replace(rounds, logging_proba=mu, code=code)
    never = np.eye(last + 1)[np.full(len(rounds), last)]
    for kind in model_kinds(evaluator):
        fitted = fit(evaluator, rounds, kind)
        for pi in (rounds.pi, never):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                value = fitted.evaluate(pi).value
            found = [w.message for w in caught if w.category is SupportWarning]
            assert found, "an impossible action gives no SupportWarning"
            assert_close(
                found[0].value,
                pi[:, last].mean(),
                "the SupportWarning carries a wrong mass",
            )
        if not get_tags(evaluator).needs_reward_model:
            assert np.isnan(value), (
                f"a policy of impossible actions has the value {value}, not NaN"
            )


# -- limits: parameters at which an evaluator is another one ---------------------------

INF = float("inf")
LARGE_CLIP = 1e12  # above every weight

# class: (parameters, what it then is, whether the model is 0)
SPECIAL_CASES = {
    IPS: [({"cmax": LARGE_CLIP}, IPS(), False)],
    SNIPS: [({"cmax": LARGE_CLIP}, SNIPS(), False)],
    DoublyRobust: [
        ({"cmax": 0}, DirectMethod(), False),
        ({"cmax": LARGE_CLIP}, DoublyRobust(), False),
        ({"cmax": None}, IPS(), True),
        ({"cmax": 2.0}, IPS(cmax=2.0), True),
    ],
    SNDR: [({}, SNIPS(), True)],
    SwitchDR: [
        ({"tau": 0}, DirectMethod(), False),
        ({"tau": INF}, DoublyRobust(), False),
        ({"tau": INF}, IPS(), True),
    ],
    DRos: [
        ({"lam": 0}, DirectMethod(), False),
        ({"lam": INF}, DoublyRobust(), False),
        ({"lam": INF}, IPS(), True),
    ],
    SubGaussianIPS: [({"lam": 0}, IPS(), False)],
    SubGaussianDR: [
        ({"lam": 0}, DoublyRobust(), False),
        ({"lam": 0.4}, SubGaussianIPS(lam=0.4), True),
    ],
    LogSmoothing: [({"lam": 0}, IPS(), False)],
    MultiLoggerIPS: [  # of a single logger
        ({"self_normalized": False}, IPS(), False),
        ({"self_normalized": True}, SNIPS(), False),
    ],
    MultiLoggerDR: [
        ({"self_normalized": False}, DoublyRobust(), False),
        ({"self_normalized": True}, SNDR(), False),
        ({"self_normalized": False}, IPS(), True),
    ],
}


def check_limits(evaluator):
    """Set the parameters to their limits: the estimate is that of the limit."""
    rounds = random_rounds(evaluator)
    zero = np.zeros_like(rounds.q_hat)
    for params, limit, model_is_zero in SPECIAL_CASES[type(evaluator)]:
        there = clone(evaluator).set_params(**params)
        kind = zero if model_is_zero else "array"
        found, expected = (
            value_of(e, rounds, kind if e.requires.model else "none")
            for e in (there, limit)
        )
        model = " and a model of 0" if model_is_zero else ""
        assert_same(found, expected, f"with {params}{model} it is not {limit!r}")


# -- logs that hold every cell of a world once: estimates must be the true value -------
# Invariances do not tell an estimator of the value from one of something else: both the
# squared weight and none at all keep most of them. A log of all cells (context, action,
# reward), weighted by their probabilities, is the world itself. What estimates the
# value of a policy gives it there exactly.

CONTEXT = np.array([0.3, 0.7])  # probabilities of the two contexts
TWO_REWARDS = np.array([0.5, 3.0])  # neither 0 nor 1: their squares are others
HIGH = np.array([[0.2, 0.5, 0.7], [0.8, 0.4, 0.1]])  # P(second reward | x, a)
WORLD_POLICY = np.array([[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]])
WORLD_LOGGERS = np.array(
    [[[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]], [[0.2, 0.2, 0.6], [0.7, 0.2, 0.1]]]
)
OF_LOGGERS = np.array([0.25, 0.75])  # of the loggers
WRONG_MODEL = np.array([[0.9, 1.4, 2.0], [1.7, 0.6, 0.2]])  # wrong on purpose
SLOT_HIGH = np.array([[[0.6, 0.3, 0.1], [0.2, 0.5, 0.4]], [[0.1, 0.7, 0.2]] * 2])
TARGET = np.array([[2, 0], [1, 2]])  # the policy's slate in each context


def check_log_of_all_cells_gives_the_value(evaluator):
    """Weight every (context, action, reward) by its probability: the true value."""
    kinds = model_kinds(evaluator)
    kinds += (0.4,) if "array" in kinds else ()  # a number is a model, too
    if takes_slates(evaluator):
        worlds = [_all_slates()]
    elif get_tags(evaluator).uniform_logger:
        worlds = [_all_cells(np.full((1, 2, 3), 1 / 3))]
    else:
        worlds = [_all_cells(WORLD_LOGGERS[:1]), _all_cells(WORLD_LOGGERS)]
    for rounds, truth, loggers in worlds:
        for kind in kinds:
            found = value_of(evaluator, rounds, kind, **loggers)
            assert_close(
                found.value,
                truth,
                "a log of all cells, weighted by their probabilities, does not give "
                f"the true value ({'several' if loggers else 'one'} loggers, "
                f"model {kind!r})",
            )


def _all_cells(mu):
    """Return rounds of all cells, the true value, and who logged them."""
    shares = OF_LOGGERS if len(mu) > 1 else np.ones(1)
    cells = product(range(len(mu)), range(2), range(3), range(2))
    g, x, a, k = np.array(list(cells)).T
    proba = shares[g] * CONTEXT[x] * mu[g, x, a]
    rounds = CheckRounds(
        context=x[:, None],
        code=a,
        reward=TWO_REWARDS[k],
        logging_proba=mu[g, x],
        pi=WORLD_POLICY[x],
        q_hat=WRONG_MODEL[x],
        fold=x,  # the model of a context is the same for all of its cells
        sample_weight=proba * np.where(k == 1, HIGH[x, a], 1 - HIGH[x, a]),
    )
    reward = TWO_REWARDS[0] + HIGH * (TWO_REWARDS[1] - TWO_REWARDS[0])
    truth = CONTEXT @ (WORLD_POLICY * reward).sum(axis=1)
    several = {"logger": g, "logger_proba": mu[:, x, a].T}
    return rounds, truth, several if len(mu) > 1 else {}


def _all_slates():
    """Return rounds of all slates of two slots, the true value, and no loggers."""
    logger = PlackettLuceSlatePolicy([1.5, 1.0, 0.5], 2)
    slates = [s for s in product(range(3), repeat=2) if s[0] != s[1]]
    cells = product(range(2), range(len(slates)), range(2), range(2))
    x, s, *high = np.array(list(cells)).T
    shown, high = np.array(slates)[s], np.column_stack(high)
    rounds = CheckSlates(
        context=x[:, None],
        slate=shown,
        slot_reward=TWO_REWARDS[high],
        pi=TARGET[x],
        logger=logger,
        fold=x,  # each context by a model of the other
    )
    chance = SLOT_HIGH[x[:, None], np.arange(2), shown]
    weight = CONTEXT[x] * logger.slate_proba(rounds.logs(), shown)
    weight *= np.where(high, chance, 1 - chance).prod(axis=1)
    mean = TWO_REWARDS[0] + SLOT_HIGH * (TWO_REWARDS[1] - TWO_REWARDS[0])
    truth = CONTEXT @ mean[[[0], [1]], [[0, 1]], TARGET].sum(axis=1)
    return replace(rounds, sample_weight=weight), truth, {}


# -- standard errors where rounds of a group depend on each other ----------------------
# A group of copies of one round knows what the round knows; a group of one round is an
# independent round. Together these leave a clustered standard error little else to be.
# They are checked where they are exact: with predictions and parameters that do not
# depend on how often a round is there.

N_COPIES = 3  # that every round is there
N_UNEQUAL = 24


class _Worlds:
    """One log, and how an evaluator is fitted on parts of it."""

    def __init__(self, evaluator, kind, loggers):
        self.evaluator, self.kind = evaluator, kind
        self.rounds = random_rounds(evaluator)
        self.n_rounds = len(self.rounds)
        self.loggers = {}
        if loggers:  # the second one is the first with its actions renamed
            mu, code = self.rounds.logging_proba, self.rounds.code
            rows = np.arange(len(code))
            by_logger = np.stack([mu[rows, code], mu[rows, (code + 1) % mu.shape[1]]])
            self.loggers = {"logger": rows % 2, "logger_proba": by_logger.T}

    def values(self, rows, group=None):
        """Return the values of two policies on some rows, with their groups."""
        rounds = self.rounds.take(rows)
        fields = {name: array[rows] for name, array in self.loggers.items()}
        if fields:
            acting = np.arange(len(rows)), fields["logger"]
            fields["propensity"] = fields["logger_proba"][acting]
            fields["logging_proba"] = None
        logs = rounds.logs(group=group, **fields)
        fitted = fit(self.evaluator, rounds, self.kind, logs)
        other = np.roll(rounds.pi, 1, axis=1)
        return [evaluated(fitted, pi) for pi in (rounds.pi, other)]

    def warned(self, group):
        """Return the value of logs with groups, and the warnings it carries."""
        rows = np.arange(self.n_rounds)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value, _ = self.values(rows, group)
        return value, [*value.warnings, *(w.message for w in caught)]


def _worlds(evaluator):
    one_logger = get_tags(evaluator).uniform_logger or takes_slates(evaluator)
    if one_logger or np.ndim(getattr(evaluator, "divergences", "pooled")):
        several = (False,)  # the divergences are those of one logger
    else:
        several = (False, True)
    kinds = model_kinds(evaluator)
    if takes_slates(evaluator) and get_tags(evaluator).needs_reward_model:
        kinds = (0.3,)  # other models of slates count rounds
    return [_Worlds(evaluator, kind, some) for kind in kinds for some in several]


def check_copies_in_a_group_are_one_round(evaluator):
    """Repeat every round inside a group of its own: value and error stay."""
    for world in _worlds(evaluator):
        n_rounds = world.n_rounds
        group = np.repeat(np.arange(n_rounds), N_COPIES)
        expected = world.values(np.arange(n_rounds))
        found = world.values(group, group)
        _assert_alike(found, expected, "copies of a round, in a group of its own")
        _assert_diagnostic(found[0], "n_groups", n_rounds)
        _assert_diagnostic(found[0], "effective_groups", n_rounds)
        if found[0].standard_error > 0:  # G / (G - 1) counts groups, then rounds
            _assert_diagnostic(found[0], "design_effect", N_COPIES, rtol=0.1)


def check_groups_of_one_round_are_independent_rounds(evaluator):
    """Give every round a group of its own: the standard error is that without."""
    for world in _worlds(evaluator):
        rows = np.arange(world.n_rounds)
        expected = world.values(rows)
        found = world.values(rows, rows[::-1] + 7)
        _assert_alike(found, expected, "groups of one round")
        _assert_diagnostic(found[0], "n_groups", world.n_rounds)
        if found[0].standard_error > 0:
            _assert_diagnostic(found[0], "design_effect", 1.0)


def check_one_group_has_no_standard_error(evaluator):
    """Put all rounds into one group: a value, the error NaN, a FewGroupsWarning."""
    for world in _worlds(evaluator):
        value, found = world.warned(np.zeros(world.n_rounds, dtype=int))
        assert np.isfinite(value.value), "one group: the value is lost"
        assert np.isnan(value.standard_error), (
            f"one group has the standard error {value.standard_error}, not NaN"
        )
        _assert_warned(found, 1.0)


def check_few_groups_warn(evaluator):
    """Cut the rounds into few groups: a warning with their effective number."""
    for world in _worlds(evaluator):
        group = _unequal_groups(world.n_rounds)
        sizes = np.bincount(group)
        value, found = world.warned(group)
        effective = sizes.sum() ** 2 / (sizes**2).sum()
        _assert_diagnostic(value, "effective_groups", effective)
        _assert_warned(found, effective)


def _assert_warned(found, effective):
    carried = [w.value for w in found if isinstance(w, FewGroupsWarning)]
    assert carried, f"{effective:.1f} groups give no FewGroupsWarning"
    assert_close(carried[0], effective, "the FewGroupsWarning carries a wrong number")


def check_labels_of_groups_do_not_matter(evaluator):
    """Rename and reorder the groups: the same value and standard error."""
    for world in _worlds(evaluator):
        rows = np.arange(world.n_rounds)
        group = _unequal_groups(world.n_rounds)
        expected = world.values(rows, group)
        names = np.random.RandomState(1).permutation(group.max() + 1)
        for labels in (names[group], np.array([f"user {k}" for k in names])[group]):
            found = world.values(rows, labels)
            _assert_alike(found, expected, "other labels of the groups")
            for name in ("n_groups", "effective_groups", "design_effect"):
                there = expected[0].diagnostics.get(name)
                _assert_diagnostic(found[0], name, there)


def check_groups_are_refused(evaluator):
    """Give groups to an evaluator that takes none: an error says so."""
    rounds = random_rounds(evaluator)
    with raises(ValueError, "group", "fit on logs with groups"):
        seeded_clone(evaluator).fit(rounds.logs(group=_unequal_groups(len(rounds))))


def _unequal_groups(n_rounds):
    """Return groups of unequal sizes, whose rounds do not lie together."""
    rng = np.random.RandomState(2)
    group = rng.choice(N_UNEQUAL, n_rounds, p=rng.dirichlet(np.full(N_UNEQUAL, 8.0)))
    return np.unique(group, return_inverse=True)[1]


def _assert_alike(found, expected, what):
    pairs = [*zip(found, expected, strict=True)]
    with quiet():
        pairs.append((found[0] - found[1], expected[0] - expected[1]))
    for name, (one, other) in zip(("", "", " (difference)"), pairs, strict=True):
        assert_same(one, other, f"{what} change the estimate{name}")


def _assert_diagnostic(value, name, expected, rtol=1e-9):
    assert name in value.diagnostics, f"the diagnostics have no {name!r}"
    assert_close(
        value.diagnostics[name], expected, f"{name} in the diagnostics", rtol=rtol
    )


def cluster_checks_of(evaluator):
    """Yield the identities that an evaluator's standard error has to keep."""
    # Histories of several trajectories or parts, and bootstrap samples of pages, have
    # standard errors that no sum over groups gives; copies of rounds lengthen a
    # history.
    if not get_tags(evaluator).takes_groups:
        yield check_groups_are_refused
        return
    params = evaluator.get_params(deep=False)
    if params.get("horizon") is not None or params.get("n_splits", 1) > 1:
        return
    if params.get("n_bootstrap") is not None or hasattr(params.get("attention"), "fit"):
        return
    if not get_tags(evaluator).order_dependent:
        yield check_copies_in_a_group_are_one_round
    yield check_groups_of_one_round_are_independent_rounds
    yield check_one_group_has_no_standard_error
    yield check_few_groups_warn
    yield check_labels_of_groups_do_not_matter
