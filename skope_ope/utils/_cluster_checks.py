# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Identities of standard errors where rounds of a group depend on each other.

A group of copies of one round knows what the round knows; a group of one round is an
independent round. Together these leave a clustered standard error little else to be.
They are checked where they are exact: with predictions and parameters that do not
depend on how often a round is there.
"""

import warnings

import numpy as np
from sklearn.utils import get_tags

from skope_ope.exceptions import FewGroupsWarning
from skope_ope.utils._check_rounds import (
    assert_close,
    assert_same,
    evaluated,
    fit,
    model_kinds,
    quiet,
    raises,
    random_rounds,
    seeded_clone,
    takes_slates,
)

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
