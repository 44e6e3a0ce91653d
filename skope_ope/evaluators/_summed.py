# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of a prepared call, in memory or over partitions."""

from dataclasses import replace

from skope_ope.evaluators._counted import Counted
from skope_ope.evaluators._model_facts import model_facts
from skope_ope.evaluators._prepared import check_policies, refuse_learning
from skope_ope.evaluators._summary_facts import facts
from skope_ope.evaluators._value_summary import ValueSummary
from skope_ope.evaluators.frames._frame_sums import frame_sums
from skope_ope.evaluators.parts._partition_sums import logger_shares, partition_sums
from skope_ope.evaluators.parts._rows_of_files import Reading, resolved
from skope_ope.evaluators.parts._stated import Stated


def summed(asked, sample_weight=None, *, sources=None, kept=True, verbose=0):
    """Return the sums that a call asks for."""
    logs, policies, evaluators = asked.logs, asked.policies, asked.evaluators
    if asked.lazy:
        refuse_weights(sample_weight)
    refuse_learning(policies)
    if not asked.lazy or logs.frame is None:  # a few rows of a frame lack some actions
        check_policies(policies, asked.head)
    about = policies, evaluators, logs, asked.reward_model
    told = facts(*about) if kept else {}  # raises before long work
    if asked.lazy and logs.frame is not None:
        sums = frame_sums(
            policies,
            evaluators,
            logs,
            sources=sources,
            reward_model=asked.reward_model,
            by=asked.by,
        )
        return _summary(asked, sums, told, Counted.of_frame(), {})
    if sources is None:
        sources = asked.sources(verbose)
    shares = None
    if any(one.requires.mixes(asked.head) for one in evaluators.values()):
        shares = logger_shares(logs, asked.n_jobs)
    about = policies, evaluators, sources, asked.n_rounds, not kept, shares, asked.by
    stated = Stated(*about).checked(asked.head)
    asked = replace(asked, evaluators=stated.evaluators)
    reading = None
    if asked.lazy:
        stated = replace(stated, resolved=resolved(stated, logs, asked.whole))
        sums = partition_sums(stated, logs, asked.n_jobs, verbose)
        counted = Counted.of_partitions(logs.partitions)
        reading = Reading(stated, logs, asked.whole, sums.n)
    else:
        sums = stated.sums_of(logs, sample_weight)
        counted = Counted.of_logs(logs)
    return _summary(asked, sums, told, counted, model_facts(sources), reading)


def _summary(asked, sums, told, counted, models, reading=None):
    return ValueSummary(
        sums,
        evaluators=asked.evaluators,
        facts=told,
        counted=counted,
        single=list(asked.policies) == [None],
        left_out=asked.left_out,
        models=models,
        reading=reading,
    )


def walks(evaluator):
    """Whether an evaluator walks through the rounds in their order."""
    return evaluator.__sklearn_tags__().order_dependent


def refuse_weights(sample_weight):
    """Raise where weights of rounds are given beside lazy logs."""
    if sample_weight is not None:
        raise TypeError(
            "sample_weight is an array for the rows of logs in memory. For lazy "
            "logs name its column: scan_logs(..., sample_weight='weight')."
        )


def refuse_walks(evaluators):
    """Raise where an evaluator is no function of sums of parts."""
    for name, evaluator in evaluators.items():
        if walks(evaluator):
            raise ValueError(
                f"{name} reads the rounds in order, so it has no sums over parts. "
                "Estimate the value instead: evaluate(policies, logs, "
                f"evaluators=[{name!r}])."
            )
