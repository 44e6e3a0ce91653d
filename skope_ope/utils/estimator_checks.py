# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that every evaluator passes, yours included.

scikit-learn's own checks feed arrays to `fit`; these feed logs, and hold an evaluator
to the laws that its tags promise. Each check is a function `check_*(evaluator)` that
raises where the evaluator fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal
from unittest import SkipTest

from sklearn import config_context
from sklearn.utils import get_tags

from skope_ope._types import AnyEvaluator
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.slate._base import SlateEvaluator
from skope_ope.evaluators.static._base import StaticEvaluator
from skope_ope.utils import _contract_checks as contract
from skope_ope.utils import _law_checks as law
from skope_ope.utils._adaptive_policy_checks import check_adaptive_policy
from skope_ope.utils._check_rounds import takes_slates

__all__ = [
    "check_adaptive_policy",
    "check_evaluator",
    "parametrize_with_evaluator_checks",
]


def _checks_of(evaluator):
    """Yield the checks that the tags of an evaluator switch on."""
    yield contract.check_tags
    yield contract.check_parameters_are_keywords
    tags = get_tags(evaluator)
    slates = takes_slates(evaluator)
    if not slates and "bandit" not in getattr(tags, "handles", ()):
        return  # the rounds below are single actions or slates
    yield contract.check_unfitted_raises
    yield contract.check_fit
    yield contract.check_score_is_the_value
    yield contract.check_score_refuses_logs
    yield contract.check_sample_weight_is_checked
    yield contract.check_logs_are_left_alone
    yield contract.check_same_answer_each_time
    yield contract.check_clone
    yield contract.check_pickle
    yield contract.check_skops
    yield contract.check_other_logs
    yield contract.check_logs_must_match_those_of_fit
    yield contract.check_array_column_and_object_are_one_policy
    if tags.on_policy_mean:
        yield law.check_on_policy_value_is_the_mean_reward
    if tags.constant_reward:
        yield law.check_constant_rewards_give_that_constant
    if tags.scale_equivariant:
        yield law.check_scale_of_rewards
    if tags.shift_equivariant:
        yield law.check_shift_of_rewards
    if tags.consistent:
        yield law.check_log_of_all_cells_gives_the_value
    if not tags.order_dependent:
        yield contract.check_rounds_of_fit_are_recognised
        yield law.check_order_of_rounds_does_not_matter
    # others of slates may take bootstrap samples
    if not slates or isinstance(evaluator, SlateEvaluator):
        yield contract.check_paired_difference
        if not tags.order_dependent:
            yield law.check_standard_error_is_that_of_the_round_values
    yield from law.cluster_checks_of(evaluator)
    if not slates:
        yield from _checks_of_single_actions(evaluator, tags)


def _checks_of_single_actions(evaluator, tags):
    yield contract.check_classifier_is_refused
    yield contract.check_reward_model_is_given_once
    yield contract.check_propensity_is_needed
    yield contract.check_one_round
    if tags.needs_propensity:
        yield law.check_impossible_action_warns
    yield law.check_names_of_actions_do_not_matter
    yield law.check_one_action
    if not tags.order_dependent:
        yield law.check_weight_two_is_the_round_twice
    if tags.needs_reward_model:
        yield contract.check_no_round_is_predicted_by_a_model_that_saw_it
    if isinstance(evaluator, StaticEvaluator):
        yield law.check_blocks_do_not_matter
        yield law.check_round_values_are_slopes_of_the_value
    if type(evaluator) in law.SPECIAL_CASES:
        yield law.check_limits


def _all_checks(evaluator):
    if isinstance(evaluator, type) or not isinstance(evaluator, BaseEvaluator):
        kind = "the class " if isinstance(evaluator, type) else ""
        name = getattr(evaluator, "__name__", type(evaluator).__name__)
        raise TypeError(
            f"an instance of an evaluator is expected, got {kind}{name}. Policies and "
            "other estimators pass scikit-learn's parametrize_with_checks."
        )
    return list(_checks_of(evaluator))


def _known_names():
    return {
        name
        for module in (contract, law)
        for name, value in vars(module).items()
        if name.startswith("check_")
        and getattr(value, "__module__", None) == module.__name__
    }


def _expected_failures(table):
    """Return the table; a name that no check has would hide a typing error."""
    table = dict(table or {})
    unknown = sorted(set(table) - _known_names())
    if unknown:
        raise ValueError(
            f"expected_failed_checks names {unknown[0]!r}, which is not a check. There "
            f"are {', '.join(sorted(_known_names()))}."
        )
    return table


def check_evaluator(
    evaluator: AnyEvaluator,
    *,
    expected_failed_checks: Mapping[Any, Any] | None = None,
    on_fail: Literal["raise"] | None = "raise",
) -> list[dict[str, Any]]:
    """Run all checks that apply to an evaluator.

    Parameters
    ----------
    evaluator : evaluator
        An instance; it is cloned.
    expected_failed_checks : dict, default=None
        Names of checks that are known to fail, with the reasons.
    on_fail : {"raise", None}, default="raise"
        Raise the first failure, or collect all of them.

    Returns
    -------
    results : list of dict
        For every check `check_name`, `status` ("passed", "failed", "skipped" or
        "xfail"), `exception` and `expected_to_fail_reason`.

    Raises
    ------
    AssertionError
        If a check that was expected to fail passes. Other checks raise their errors.

    See Also
    --------
    parametrize_with_evaluator_checks : The same as tests of pytest.

    Examples
    --------
    >>> from skope_ope import IPS
    >>> from skope_ope.utils.estimator_checks import check_evaluator
    >>> results = check_evaluator(IPS(cmax=5.0))
    >>> {result["status"] for result in results} <= {"passed", "skipped"}
    True
    """
    if on_fail not in ("raise", None):
        raise ValueError(f"on_fail must be 'raise' or None, got {on_fail!r}.")
    expected = _expected_failures(expected_failed_checks)
    results = []
    for check in _all_checks(evaluator):
        reason = expected.get(check.__name__)
        status, found = _run_check(check, evaluator, reason)
        if status == "failed" and on_fail == "raise":
            raise found
        results.append(
            {
                "check_name": check.__name__,
                "status": status,
                "exception": found,
                "expected_to_fail_reason": reason,
            }
        )
    return results


def _run_check(check, evaluator, reason):
    try:
        check(evaluator)
    except SkipTest as error:
        return "skipped", error
    except Exception as error:
        return ("failed" if reason is None else "xfail"), error
    if reason is None:
        return "passed", None
    return "failed", AssertionError(
        f"{check.__name__} passes, though it was expected to fail: {reason}"
    )


def parametrize_with_evaluator_checks(
    evaluators: Sequence[AnyEvaluator],
    *,
    expected_failed_checks: Callable[..., Any] | None = None,
) -> Any:
    """Decorate a test of pytest to run once per evaluator and check.

    Parameters
    ----------
    evaluators : list of evaluators
        Instances, in as many settings as there are to check.
    expected_failed_checks : callable, default=None
        `expected_failed_checks(evaluator)` gives a dict of check names and the
        reasons why they fail; these are marked as xfail.

    Returns
    -------
    decorator : pytest.mark.parametrize
        Over the arguments `evaluator` and `check`.

    See Also
    --------
    check_evaluator : The same without pytest.

    Examples
    --------
    >>> from skope_ope import IPS, SNIPS
    >>> from skope_ope.utils.estimator_checks import parametrize_with_evaluator_checks
    >>> @parametrize_with_evaluator_checks([IPS(), SNIPS(cmax=5.0)])
    ... def test_contract(evaluator, check):
    ...     check(evaluator)
    """
    import pytest

    parameters = []
    for evaluator in evaluators:
        table = expected_failed_checks(evaluator) if expected_failed_checks else None
        expected = _expected_failures(table)
        for check in _all_checks(evaluator):
            reason = expected.get(check.__name__)
            marks = () if reason is None else (pytest.mark.xfail(reason=reason),)
            parameters.append(
                pytest.param(
                    evaluator,
                    check,
                    marks=marks,
                    id=f"{_short_name(evaluator)}-{check.__name__}",
                )
            )
    return pytest.mark.parametrize(("evaluator", "check"), parameters)


def _short_name(evaluator):
    with config_context(print_changed_only=True):
        return "".join(repr(evaluator).split())
