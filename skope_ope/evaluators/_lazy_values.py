# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What evaluators do with lazy logs: fits, values and tables."""

from skope_ope._progress import untold
from skope_ope.evaluators._counted import Counted
from skope_ope.evaluators._prepared import prepared
from skope_ope.evaluators._recommended import LEARNS, learns, recommended_row
from skope_ope.evaluators._summed import refuse_weights, summed, walks
from skope_ope.evaluators._value_table import ValueTable
from skope_ope.evaluators.adaptive_logger._base import (
    NO_PARTS,
    AdaptiveLoggerEvaluator,
)
from skope_ope.evaluators.parts._partition_sums import head_of
from skope_ope.evaluators.sequential._earlier_rewards import takes_earlier
from skope_ope.evaluators.sequential._sequential_values import (
    check_walk,
    sequential_values,
)
from skope_ope.reward_models._part_models import part_models, source_on

ONE = "evaluator"  # the name of one by itself


def lazy_table(asked, sample_weight=None, verbose=0):
    """Return the table of values of a prepared call."""
    refuse_weights(sample_weight)
    refuse_adaptive(asked.evaluators)
    in_parts, in_order = asked.some(lambda one: not walks(one)), asked.some(walks)
    if in_order.evaluators:
        check_walk(", ".join(in_order.evaluators), asked.logs)
    else:
        return summed(asked, kept=False, verbose=verbose)._table()
    found = {}
    if in_parts.evaluators:
        table = summed(in_parts, kept=False, verbose=verbose)._table()
        found |= table
    fitted = in_order.some(lambda one: not takes_earlier(one, asked.reward_model))
    found |= _walked(in_order, fitted.sources(verbose), verbose)
    single = list(asked.policies) == [None]
    keys = [
        name if single else (policy, name)
        for policy in asked.policies
        for name in asked.evaluators
    ]
    if in_parts.evaluators:  # the rule knows all rounds, and names none that walks
        row, reason = table.recommended, table.reason
    else:
        row, reason = recommended_row(asked.head, asked.evaluators, asked.n_loggers)
    if row is None and any(map(learns, asked.policies.values())):
        reason = LEARNS
    values = {key: found[key] for key in keys}
    return ValueTable(values, asked.left_out, recommended=row, reason=reason)


def _walked(asked, sources, verbose=0, states=None):
    """Return the values of evaluators that walk through the rounds, by key."""
    # `states` are what their uniform numbers come from, where a fit has drawn them.
    refuse_adaptive(asked.evaluators)
    found = sequential_values(
        asked.policies,
        asked.evaluators,
        asked.logs,
        sources=sources,
        n_jobs=asked.n_jobs,
        verbose=verbose,
        states=states,
        counted=Counted.of_partitions(asked.logs.partitions or ()),
    )
    return {
        name if policy is None else (policy, name): value
        for name, values in found.items()
        for policy, value in values.items()
    }


def refuse_adaptive(evaluators):
    """Raise where weights follow from what all earlier rounds tell of later ones."""
    for evaluator in evaluators.values():
        if isinstance(evaluator, AdaptiveLoggerEvaluator):
            raise ValueError(f"{type(evaluator).__name__} {NO_PARTS}")


def fitted_on_lazy(evaluator, lazy, reward_model, progress=untold):
    """Return the fitted attributes of an evaluator on lazy logs."""
    lazy = lazy.labelled()
    head = head_of(lazy)
    evaluator._check_kind(head)
    evaluator.check_logs(head)
    refuse_adaptive({ONE: evaluator})
    source = reward_model
    if evaluator.requires.model and not takes_earlier(evaluator, reward_model):
        model, source = evaluator._one_model(reward_model), None
        if lazy.frame is not None:  # columns and numbers need no fit
            source = evaluator._given_source(model, head)
        if source is None:
            source = part_models(
                {ONE: evaluator}, model, None, lazy, progress=progress
            )[ONE]
    found = evaluator._fitted_in_parts(head, source, lazy.n_rounds)
    return found | {"logs_": lazy, "_model_of_fit": reward_model}


def value_on_lazy(evaluator, policy, lazy, sample_weight=None):
    """Return the value of a policy by a fitted evaluator on lazy logs."""
    refuse_weights(sample_weight)
    refuse_adaptive({ONE: evaluator})
    model = evaluator._model_of_fit if evaluator.requires.model else None
    asked = prepared({None: policy}, lazy, {ONE: evaluator}, model)
    if lazy is not evaluator.logs_:
        evaluator._match_those_of_fit(asked.head)
        if lazy.frame is None:  # columns and numbers need no features
            evaluator._match_features(asked.head)
    sources = {}
    if evaluator.requires.model and not takes_earlier(evaluator, model):
        if not hasattr(evaluator, "reward_model_"):  # a fit in memory made none
            evaluator._fittable(model)  # says why
        sources = {ONE: source_on(evaluator.reward_model_, asked.logs)}
    if walks(evaluator):
        own = lazy is evaluator.logs_
        state = evaluator._uniform_state if own else evaluator.seed_
        return _walked(asked, sources, states={ONE: state})[ONE]
    found = summed(asked, sources=sources, kept=False)
    return found._table()[ONE]
