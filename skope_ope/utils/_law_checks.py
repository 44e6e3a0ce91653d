# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Laws of evaluators: equations between the values of one log and of another."""

import warnings
from contextlib import ExitStack
from dataclasses import replace
from unittest.mock import patch

import numpy as np
from sklearn.utils import get_tags

from skope_ope.evaluators.core import _engine
from skope_ope.exceptions import SupportWarning
from skope_ope.utils._check_rounds import (
    assert_close,
    assert_same,
    check_rounds,
    evaluate,
    fit,
    model_kinds,
    policy_of,
    value_of,
)

CONSTANT = 0.7
FACTOR = 3.0
SHIFT = 5.0


def check_on_policy_value_is_the_mean_reward(evaluator):
    """Evaluate the logger: its value is the (weighted) mean of its rewards."""
    rounds = check_rounds(evaluator)
    weight = 0.5 + np.random.RandomState(1).random_sample(len(rounds))
    for kind in model_kinds(evaluator):
        model = "none" if kind == "none" else 0.3
        if kind == "folds":
            continue  # a number is the model with which the law is exact
        for w in (None,) if get_tags(evaluator).order_dependent else (None, weight):
            weighted = replace(rounds, pi=rounds.logging_proba, sample_weight=w)
            found = value_of(evaluator, weighted, model).value
            assert_close(
                found,
                np.average(rounds.reward, weights=w),
                "the value of the logging policy is not the mean reward",
            )


def check_constant_rewards_give_that_constant(evaluator):
    """Pay the same in every round: every policy is worth that, without error."""
    rounds = check_rounds(evaluator)
    rounds = replace(rounds, reward=np.full(len(rounds), CONSTANT))
    for kind in model_kinds(evaluator):
        result = value_of(evaluator, rounds, CONSTANT if kind == "array" else kind)
        assert_close(
            result.value, CONSTANT, "constant rewards do not give that constant"
        )
        assert_close(result.standard_error, 0, "constant rewards have a standard error")


def check_order_of_rounds_does_not_matter(evaluator):
    """Shuffle the rounds: same value, and the round values move along."""
    rounds = check_rounds(evaluator)
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
    rounds = check_rounds(evaluator)
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
            evaluate(fitted, rounds.pi, sample_weight=weight).value,
            expected,
            "sample_weight k in evaluate is not the round k times",
        )
        assert_same(
            evaluate(fitted, rounds.pi, sample_weight=np.full(len(rounds), 2.0)),
            evaluate(fitted, rounds.pi),
            "equal weights change the estimate",
        )


def check_names_of_actions_do_not_matter(evaluator):
    """Rename and reorder the actions, everywhere at once: same value."""
    rounds = check_rounds(evaluator)
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
        found = evaluate(fit(evaluator, moved, kind, logs), policy_of(rounds, labels))
        assert_same(found, expected, "a policy is not aligned by the labels of actions")


def check_scale_of_rewards(evaluator):
    """Multiply rewards and model: the value and its error are multiplied, too."""
    _check_transformed(evaluator, FACTOR, 0.0, "scaled")


def check_shift_of_rewards(evaluator):
    """Shift rewards and model: the value is shifted, its error is not."""
    _check_transformed(evaluator, 1.0, SHIFT, "shifted")


def _check_transformed(evaluator, factor, shift, what):
    rounds = check_rounds(evaluator)
    other = replace(
        rounds,
        reward=factor * rounds.reward + shift,
        q_hat=factor * rounds.q_hat + shift,
    )
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
    rounds = check_rounds(evaluator, n_actions=1)
    mean = rounds.reward.mean()
    for kind in model_kinds(evaluator):
        result = value_of(evaluator, rounds, float(mean) if kind == "array" else kind)
        if tags.on_policy_mean or tags.constant_reward:
            assert_close(result.value, mean, "one action: not the mean reward")
        assert np.isfinite(result.value), "one action: the value is not finite"


def check_standard_error_is_that_of_the_round_values(evaluator):
    """Compare with sd(round_values, ddof=1) / sqrt(n), and value with their mean."""
    rounds = check_rounds(evaluator)
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


def check_blocks_do_not_matter(evaluator):
    """Take the rounds in blocks of other sizes: the same sums."""
    rounds = check_rounds(evaluator)
    for kind in model_kinds(evaluator):
        expected = value_of(evaluator, rounds, kind)
        for block, chunk_entries in ((1, 1), (7, 1), (16, 150), (50, 1 << 20)):
            with ExitStack() as stack:
                for name, size in (("BLOCK", block), ("BLOCK_ENTRIES", chunk_entries)):
                    stack.enter_context(patch.object(_engine, name, size))
                found = value_of(evaluator, rounds, kind)
                values = found.round_values
            what = f"blocks of {block} rounds change the estimate"
            assert_same(found, expected, what, rtol=1e-12)
            assert_close(values, expected.round_values, what, rtol=1e-12)


def check_impossible_action_warns(evaluator):
    """Want what the logger never does: a SupportWarning with the mass wanted."""
    # Without a reward model nothing is known about a policy that wants nothing else:
    # its value is NaN.
    rounds = check_rounds(evaluator)
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
