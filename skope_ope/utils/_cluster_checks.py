# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Identities of standard errors where rounds of a group depend on each other.

A group of copies of one round knows what the round knows; a group of one round is an
independent round. Together these leave a clustered standard error little else to be.
They are checked where they are exact: with predictions and parameters that do not
depend on how often a round is there.
"""

import pickle
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from skope_ope.exceptions import FewGroupsWarning
from skope_ope.logs import SlateLogs
from skope_ope.policies import PlackettLuceSlatePolicy
from skope_ope.utils._check_rounds import (
    assert_close,
    assert_fit_keeps_parameters,
    assert_paired,
    assert_same,
    assert_score_is_the_value,
    evaluated,
    fit,
    model_kinds,
    quiet,
    raises,
    random_rounds,
    seeded_clone,
)

N_COPIES = 3  # that every round is there
N_UNEQUAL = 24


class _Worlds:
    """One log of single actions, and how an evaluator is fitted on parts of it."""

    def __init__(self, evaluator, kind, loggers):
        self.evaluator, self.kind = evaluator, kind
        self.rounds = random_rounds(evaluator)
        mu, code = self.rounds.logging_proba, self.rounds.code
        rows = np.arange(len(code))
        self.loggers = {}
        if loggers:  # the second one is the first with its actions renamed
            by_logger = np.stack([mu[rows, code], mu[rows, (code + 1) % mu.shape[1]]])
            self.loggers = {"logger": rows % 2, "logger_proba": by_logger.T}
        self.n_rounds = len(code)

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
        uniform = np.full_like(rounds.pi, 1 / rounds.pi.shape[1])
        return [evaluated(fitted, pi) for pi in (rounds.pi, uniform)]

    def warned(self, group):
        """Return the value of logs with groups, and the warnings it carries."""
        rows = np.arange(self.n_rounds)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value, _ = self.values(rows, group)
        return value, [*value.warnings, *(w.message for w in caught)]


class _Slates(_Worlds):
    """One log of slates."""

    def __init__(self, evaluator):
        self.evaluator = evaluator
        self.logs = example_pages()
        self.n_rounds = len(self.logs)

    def values(self, rows, group=None):
        """Return the values of two policies on some rows, with their groups."""
        target, turned = _target(self.logs)[rows], self.logs.slate[rows, ::-1]
        logs = self.logs[rows].replace(group=group)
        fitted = seeded_clone(self.evaluator)
        if get_tags(fitted).needs_reward_model:
            folds = [np.flatnonzero(rows % 2 == k) for k in (0, 1)]
            fitted.set_params(reward_model=0.3, cv=[folds, folds[::-1]])
        with quiet():
            fitted.fit(logs)
        return [evaluated(fitted, slates) for slates in (target, turned)]


def _worlds(evaluator):
    if get_tags(evaluator).handles == ("slate",):
        return [_Slates(evaluator)]
    several = (False,) if get_tags(evaluator).uniform_logger else (False, True)
    if np.ndim(getattr(evaluator, "divergences", "pooled")):
        several = (False,)  # they are those of one logger
    kinds = model_kinds(evaluator)
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
        carried = [w.value for w in found if isinstance(w, FewGroupsWarning)]
        assert carried, "one group gives no FewGroupsWarning"
        assert_close(carried[0], 1.0, "the FewGroupsWarning carries a wrong number")


def check_few_groups_warn(evaluator):
    """Cut the rounds into few groups: a warning with their effective number."""
    for world in _worlds(evaluator):
        group = _unequal_groups(world.n_rounds)
        sizes = np.bincount(group)
        value, found = world.warned(group)
        effective = sizes.sum() ** 2 / (sizes**2).sum()
        _assert_diagnostic(value, "effective_groups", effective)
        carried = [w.value for w in found if isinstance(w, FewGroupsWarning)]
        assert carried, f"{effective:.1f} groups give no FewGroupsWarning"
        assert_close(carried[0], effective, "the FewGroupsWarning carries another one")


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
        assert_close(one.value, other.value, f"{what} change the value{name}")
        assert_close(
            one.standard_error,
            other.standard_error,
            f"{what} change the standard error{name}",
        )


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


# -- the contract and the laws of evaluators of slate policies -------------------------


def example_pages(n_rounds=120, seed=0, n_slots=2, n_candidates=4):
    """Make pages with clicks, the target being a reordering of what was shown."""
    rng = np.random.RandomState(seed)
    logger = PlackettLuceSlatePolicy([1.5, 1.0, 1.2, 0.8], n_slots)
    context = np.column_stack([np.arange(n_rounds), rng.normal(size=n_rounds)])
    empty = SlateLogs(
        context,
        np.full((n_rounds, n_slots), -1),
        np.zeros(n_rounds),
        n_candidates=n_candidates,
        logging_policy=logger,
    )
    slates = logger.sample(empty, rng)
    clicks = (rng.random_sample(slates.shape) < 0.4).astype(float)
    return _with_rewards(empty, clicks, slates)


def _target(logs):
    """Every other slate as it was shown, the others turned round."""
    target = logs.slate.copy()
    target[::2] = target[::2, ::-1]
    return target


def _fit_slates(evaluator, logs):
    with quiet():
        return seeded_clone(evaluator).fit(logs)


def _with_rewards(logs, slot_reward, slate=None):
    """Return pages with other rewards, and perhaps other slates."""
    return SlateLogs(
        logs.context,
        logs.slate if slate is None else slate,
        None,
        n_candidates=logs.n_candidates,
        slot_reward=slot_reward,
        logging_policy=logs.logging_policy,
    )


def check_slates_unfitted_raises(evaluator):
    """Evaluate and score without fit: both raise NotFittedError."""
    logs = example_pages()
    for name in ("evaluate", "score"):
        with raises(NotFittedError, "fit", f"{name} before fit"):
            getattr(clone(evaluator), name)(_target(logs))


def check_slates_fit(evaluator):
    """Fit: it returns self, takes slate logs only and leaves the parameters alone."""
    logs = example_pages()
    for wrong in (logs.context, None):
        with raises(TypeError, "SlateLogs", "fit(array)"):
            clone(evaluator).fit(wrong)
    assert_fit_keeps_parameters(clone(evaluator), logs)


def check_slates_score_is_the_value(evaluator):
    """Score: a float, the value of evaluate, and never logs in place of a policy."""
    logs = example_pages()
    fitted = _fit_slates(evaluator, logs)
    result = assert_score_is_the_value(fitted, _target(logs), len(logs))
    assert_close(result.round_values.mean(), result.value, "mean of the round values")
    with raises(TypeError, "EvaluatorScorer", "score(logs)"):
        fitted.score(logs)


def check_slates_logs_are_left_alone(evaluator):
    """Compare the arrays of the logs byte by byte."""
    logs = example_pages()
    target = _target(logs)
    arrays = {"policy": target, "slate": logs.slate, "reward": logs.reward}
    arrays |= {"slot_reward": logs.slot_reward, "context": logs.context}
    before = {name: array.tobytes() for name, array in arrays.items()}
    result = evaluated(_fit_slates(evaluator, logs), target)
    assert len(result.round_values) == len(logs)
    dict(result.diagnostics)
    for name, array in arrays.items():
        assert array.tobytes() == before[name], f"{name} of the user was changed"


def check_slates_same_answer(evaluator):
    """Ask twice, clone, pickle, and name a column: the answers are identical."""
    logs = example_pages()
    logs = logs.with_columns(target=_target(logs))
    fitted = _fit_slates(evaluator, logs)
    result = evaluated(fitted, _target(logs))
    others = [
        evaluated(fitted, _target(logs)),
        evaluated(fitted, "target"),
        evaluated(fitted, _target(logs).tolist()),
        evaluated(_fit_slates(clone(fitted), logs), _target(logs)),
        evaluated(pickle.loads(pickle.dumps(fitted)), _target(logs)),
        pickle.loads(pickle.dumps(result)),
    ]
    for other in others:
        assert_same(other, result, "asked again it answers differently")
        assert_close(other.round_values, result.round_values, "round values")


def check_slates_paired_difference(evaluator):
    """Subtract values: those of the same rounds only."""
    logs = example_pages()
    fitted = _fit_slates(evaluator, logs)
    elsewhere = evaluated(_fit_slates(evaluator, example_pages()), logs.slate)
    first, second = evaluated(fitted, _target(logs)), evaluated(fitted, logs.slate)
    assert_paired(first, second, elsewhere)


def check_slates_other_logs(evaluator):
    """Evaluate other logs: a column goes along, an array belongs to its rows."""
    logs, other = example_pages(), example_pages(90, seed=1)
    other = other.with_columns(target=_target(other))
    fitted = _fit_slates(evaluator, logs.with_columns(target=_target(logs)))
    assert evaluated(fitted, "target", other).n_rounds == 90
    with raises(ValueError, "120|90", "an array of other rows"):
        fitted.evaluate(_target(logs), other)
    with raises(ValueError, "slots", "logs with other slots"):
        fitted.evaluate("target", example_pages(n_slots=3))


def check_slates_standard_error(evaluator):
    """Compare the standard error with the spread of the round values."""
    logs = example_pages()
    result = evaluated(_fit_slates(evaluator, logs), _target(logs))
    assert_close(
        result.standard_error,
        result.round_values.std(ddof=1) / np.sqrt(len(logs)),
        "standard error",
    )


def check_slates_scale_of_rewards(evaluator):
    """Double all rewards: the value doubles."""
    logs = example_pages()
    double = _with_rewards(logs, 2 * logs.slot_reward)
    value = evaluated(_fit_slates(evaluator, logs), _target(logs)).value
    doubled = evaluated(_fit_slates(evaluator, double), _target(logs)).value
    assert_close(doubled, 2 * value, "value of doubled rewards", rtol=1e-6)


def check_slates_constant_rewards(evaluator):
    """Reward every slate alike: the value is that reward."""
    logs = example_pages()
    logs = _with_rewards(logs, np.full(logs.slate.shape, 0.75))
    result = evaluated(_fit_slates(evaluator, logs), _target(logs))
    assert_close(result.value, 1.5, "value of constant rewards")


def check_slates_on_policy(evaluator):
    """Evaluate the logger: the value is the mean reward."""
    logs = example_pages()
    result = evaluated(_fit_slates(evaluator, logs), logs.logging_policy)
    assert_close(result.value, logs.reward.mean(), "value of the logger")


def check_slates_order_of_rounds(evaluator):
    """Shuffle the rounds: the value stays."""
    logs = example_pages()
    logs = logs.with_columns(target=_target(logs))
    shuffled = logs[np.random.RandomState(0).permutation(len(logs))]
    expected = evaluated(_fit_slates(evaluator, logs), "target")
    assert_same(
        evaluated(_fit_slates(evaluator, shuffled), "target"), expected, "shuffled"
    )


def slate_checks_of(evaluator):
    """Yield the checks of an evaluator that takes slates only."""
    from skope_ope.evaluators.slate._base import SlateEvaluator

    tags = get_tags(evaluator)
    yield check_slates_unfitted_raises
    yield check_slates_fit
    yield check_slates_score_is_the_value
    yield check_slates_logs_are_left_alone
    yield check_slates_same_answer
    yield check_slates_other_logs
    if tags.scale_equivariant:
        yield check_slates_scale_of_rewards
    if tags.constant_reward:
        yield check_slates_constant_rewards
    if tags.on_policy_mean:
        yield check_slates_on_policy
    if isinstance(evaluator, SlateEvaluator):  # others may take bootstrap samples
        yield check_slates_paired_difference
        yield check_slates_standard_error
    if not tags.needs_reward_model:  # folds are those of the order
        yield check_slates_order_of_rounds
