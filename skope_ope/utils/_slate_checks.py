# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The contract and the laws of evaluators of slate policies."""

import pickle

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from skope_ope.evaluators import PolicyValue
from skope_ope.logs import SlateLogs
from skope_ope.policies import PlackettLuceSlatePolicy
from skope_ope.utils._check_rounds import (
    assert_close,
    assert_same,
    evaluate,
    fresh,
    quiet,
    raises,
)


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
    )
    slates = logger.sample(empty, rng)
    return SlateLogs(
        context,
        slates,
        None,
        n_candidates=n_candidates,
        slot_reward=(rng.random_sample(slates.shape) < 0.4).astype(float),
        logging_policy=logger,
    )


def _target(logs):
    """Every other slate as it was shown, the others turned round."""
    target = logs.slate.copy()
    target[::2] = target[::2, ::-1]
    return target


def _fit(evaluator, logs):
    with quiet():
        return fresh(evaluator).fit(logs)


def _with_rewards(logs, slot_reward):
    """Return the same pages with other rewards."""
    return SlateLogs(
        logs.context,
        logs.slate,
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
    copy = clone(evaluator)
    before = copy.get_params(deep=False)
    with quiet():
        assert copy.fit(logs) is copy, "fit must return self"
    after = copy.get_params(deep=False)
    assert all(after[name] is value for name, value in before.items()), (
        "fit changes the parameters"
    )


def check_slates_score_is_the_value(evaluator):
    """Score: a float, the value of evaluate, and never logs in place of a policy."""
    logs = example_pages()
    fitted = _fit(evaluator, logs)
    result = evaluate(fitted, _target(logs))
    assert isinstance(result, PolicyValue), "evaluate must return a PolicyValue"
    with quiet():
        score = fitted.score(_target(logs))
    assert type(score) is float, f"score must be a float, got {type(score)}"
    assert score == result.value == float(result), "score is not the value"
    assert np.isfinite(score), f"the value is {score}"
    assert result.n_rounds == len(logs)
    low, high = result._interval()
    assert low <= score <= high, "the interval does not hold the value"
    assert all(name in result.diagnostics for name in result.diagnostics)
    assert_close(result.round_values.mean(), score, "mean of the round values")
    with raises(TypeError, "EvaluatorScorer", "score(logs)"):
        fitted.score(logs)


def check_slates_logs_are_left_alone(evaluator):
    """Compare the arrays of the logs byte by byte."""
    logs = example_pages()
    target = _target(logs)
    arrays = {"policy": target, "slate": logs.slate, "reward": logs.reward}
    arrays |= {"slot_reward": logs.slot_reward, "context": logs.context}
    before = {name: array.tobytes() for name, array in arrays.items()}
    result = evaluate(_fit(evaluator, logs), target)
    assert len(result.round_values) == len(logs)
    dict(result.diagnostics)
    for name, array in arrays.items():
        assert array.tobytes() == before[name], f"{name} of the user was changed"


def check_slates_same_answer(evaluator):
    """Ask twice, clone, pickle, and name a column: the answers are identical."""
    logs = example_pages()
    logs = logs.with_columns(target=_target(logs))
    fitted = _fit(evaluator, logs)
    result = evaluate(fitted, _target(logs))
    others = [
        evaluate(fitted, _target(logs)),
        evaluate(fitted, "target"),
        evaluate(fitted, _target(logs).tolist()),
        evaluate(_fit(clone(fitted), logs), _target(logs)),
        evaluate(pickle.loads(pickle.dumps(fitted)), _target(logs)),
        pickle.loads(pickle.dumps(result)),
    ]
    for other in others:
        assert_same(other, result, "asked again it answers differently")
        assert_close(other.round_values, result.round_values, "round values")


def check_slates_paired_difference(evaluator):
    """Subtract values: those of the same rounds only."""
    logs = example_pages()
    fitted = _fit(evaluator, logs)
    first, second = evaluate(fitted, _target(logs)), evaluate(fitted, logs.slate)
    difference = first - second
    assert_close(difference.value, first.value - second.value, "difference: value")
    gap = first.round_values - second.round_values
    assert_close(
        difference.standard_error,
        gap.std(ddof=1) / np.sqrt(len(gap)),
        "difference: the standard error is not that of paired rounds",
    )
    elsewhere = evaluate(_fit(evaluator, example_pages()), logs.slate)
    with raises(ValueError, "different rounds", "a difference of other rounds"):
        first - elsewhere


def check_slates_other_logs(evaluator):
    """Evaluate other logs: a column goes along, an array belongs to its rows."""
    logs, other = example_pages(), example_pages(90, seed=1)
    other = other.with_columns(target=_target(other))
    fitted = _fit(evaluator, logs.with_columns(target=_target(logs)))
    assert evaluate(fitted, "target", other).n_rounds == 90
    with raises(ValueError, "120|90", "an array of other rows"):
        fitted.evaluate(_target(logs), other)
    with raises(ValueError, "slots", "logs with other slots"):
        fitted.evaluate("target", example_pages(n_slots=3))


def check_slates_standard_error(evaluator):
    """Compare the standard error with the spread of the round values."""
    logs = example_pages()
    result = evaluate(_fit(evaluator, logs), _target(logs))
    assert_close(
        result.standard_error,
        result.round_values.std(ddof=1) / np.sqrt(len(logs)),
        "standard error",
    )


def check_slates_scale_of_rewards(evaluator):
    """Double all rewards: the value doubles."""
    logs = example_pages()
    double = _with_rewards(logs, 2 * logs.slot_reward)
    value = evaluate(_fit(evaluator, logs), _target(logs)).value
    doubled = evaluate(_fit(evaluator, double), _target(logs)).value
    assert_close(doubled, 2 * value, "value of doubled rewards", rtol=1e-6)


def check_slates_constant_rewards(evaluator):
    """Reward every slate alike: the value is that reward."""
    logs = example_pages()
    logs = _with_rewards(logs, np.full(logs.slate.shape, 0.75))
    result = evaluate(_fit(evaluator, logs), _target(logs))
    assert_close(result.value, 1.5, "value of constant rewards")


def check_slates_on_policy(evaluator):
    """Evaluate the logger: the value is the mean reward."""
    logs = example_pages()
    result = evaluate(_fit(evaluator, logs), logs.logging_policy)
    assert_close(result.value, logs.reward.mean(), "value of the logger")


def check_slates_order_of_rounds(evaluator):
    """Shuffle the rounds: the value stays."""
    logs = example_pages()
    logs = logs.with_columns(target=_target(logs))
    shuffled = logs[np.random.RandomState(0).permutation(len(logs))]
    expected = evaluate(_fit(evaluator, logs), "target")
    assert_same(evaluate(_fit(evaluator, shuffled), "target"), expected, "shuffled")


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
