# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The one-call start: several policies and evaluators in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from skope_ope._parallel import one_call
from skope_ope._types import (
    ArrayLike,
    PolicyLike,
    RandomSeed,
    RewardModelLike,
    SplitterLike,
)
from skope_ope.evaluators._chosen import named_evaluators, seeded
from skope_ope.evaluators._lazy_values import lazy_table
from skope_ope.evaluators._passes import values_of
from skope_ope.evaluators._policies_of_call import policies_by_name
from skope_ope.evaluators._prepared import for_recorded, prepared
from skope_ope.evaluators._recommended import (
    LEARNS,
    doubted_reason,
    learns,
    recommended_row,
)
from skope_ope.evaluators._shared_model import SharedModel
from skope_ope.evaluators._value_table import ValueTable
from skope_ope.evaluators._warn_once import rows_of, warn_once
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs.lazy._lazy_logs import LazyLogs


def evaluate(
    policies: PolicyLike | Mapping[Any, PolicyLike],
    logs: BanditLogs | SlateLogs | LazyLogs,
    *,
    evaluators: Sequence[Any] | Mapping[Any, Any] | None = None,
    reward_model: RewardModelLike = None,
    cv: SplitterLike | Literal["prefit"] | None = None,
    random_state: RandomSeed = None,
    n_jobs: int | None = None,
    sample_weight: ArrayLike | None = None,
    verbose: int = 0,
) -> ValueTable:
    """Estimate the values of policies by several evaluators, in one pass.

    Probabilities of the policies and cross-fitted predictions of the reward model are
    computed once and shared by all evaluators. One row is recommended. The rule uses
    the fields of the logs, never the values. Read more in the :ref:`User Guide
    <evaluators>`.

    Parameters
    ----------
    policies : policy, array, str, or dict of them
        The policy to evaluate, or a dict of several policies by name. A policy that
        learns needs one of these evaluators: DRns, RejectionSampling, Replay,
        DirectMethod.
    logs : BanditLogs, SlateLogs or LazyLogs
        The logged rounds. The policies must not have learned from them. Lazy logs, of
        `scan_logs`, are read part by part: `evaluate(policies, lazy)` is
        `summarize(policies, lazy).values()`.
    evaluators : list of names or evaluators, or dict, default=None
        They are fitted again, to `logs`. For a fitted search the best evaluator is
        used. The logs -> logs steps of a Pipeline are applied to `logs` for its row.
        Steps that are not fitted yet are fitted to `logs`. `None`: IPS, SNIPS,
        DoublyRobust and SNDR. With several loggers and `logger_proba` also their
        balanced mixture, "BalancedIPS" and "BalancedDR" (`MultiLoggerIPS` and
        `MultiLoggerDR`, pooling="balanced"). Without propensities DirectMethod. For
        slates SlateIPS. If the logging policy is known, also PseudoInverse, its
        self-normalised form "wPI", and "ControlledPI" with multiple control variates.
        If slot rewards add to the reward, also IndependentSlotIPS. If only propensities
        are known, also the self-normalised SlateIPS, "wIPS". If neither is known,
        SlateDirectMethod. The text of the table names those that are left out.
        Evaluators whose interval leaves out a bias are used only if you name them, and
        their rows are marked.
    reward_model : model, number, array or str, default=None
        Shared by the evaluators whose own is None. `None`: the out-of-fold mean
        reward per action, or of all slates.
    cv : int, splitter, iterable or "prefit", default=None
        How rounds are split for cross-fitting of the shared reward model. `None`: the
        `cv` of each evaluator, which is 5 by default.
    random_state : int, RandomState instance or None, default=None
        Seeds the evaluators and the shared reward model if their own `random_state` is
        None.
    n_jobs : int, default=None
        Number of parallel tasks, as in scikit-learn. Folds of the reward model run in
        processes. Policies and models predict for chunks of rounds in threads, so a
        policy gets several calls at once. Evaluators that loop over the rounds run in
        processes. Partitions of lazy logs run in processes, or on a cluster with
        `joblib.parallel_config("dask")`, which can also change the other choices. The
        values do not depend on `n_jobs` if everything random has a `random_state`.
    sample_weight : array-like of shape (n_rounds,), default=None
        Weights of the rounds, multiplied by those of the logs. Lazy logs have their
        weights as a column.
    verbose : int, default=0
        For lazy logs: lines of progress, as in joblib.

    Returns
    -------
    table : ValueTable
        `PolicyValue` by name of the evaluator; by (policy, evaluator) for a dict.
        `table.recommended` is the name of the recommended evaluator or None.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from skope_ope import evaluate
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> table = evaluate(policy, logs, reward_model=Ridge())
    >>> list(table), table.recommended
    (['IPS', 'SNIPS', 'DoublyRobust', 'SNDR'], 'DoublyRobust')
    >>> low, high = table["DoublyRobust"].confidence_interval()
    >>> bool(low < truth.value < high)
    True
    """
    table = quiet_table(
        policies,
        logs,
        evaluators,
        reward_model,
        cv,
        sample_weight,
        random_state,
        n_jobs,
        verbose=verbose,
    )
    several = isinstance(policies, Mapping)
    warn_once(rows_of(table, several), stacklevel=2)
    return table


def quiet_table(
    policies,
    logs,
    evaluators=None,
    reward_model=None,
    cv=None,
    sample_weight=None,
    random_state=None,
    n_jobs=None,
    keep=False,
    verbose=0,
):
    """Return what `evaluate` does; the warnings of the values are in them alone."""
    wanted = policies_by_name("evaluate", policies, logs, reward_model, cv, n_jobs)
    if isinstance(logs, LazyLogs):
        how = {"random_state": random_state, "n_jobs": n_jobs}
        asked = prepared(policies, logs, evaluators, reward_model, cv, **how)
        return lazy_table(asked, sample_weight, verbose)
    if isinstance(cv, Iterator):  # used by more than one fit
        cv = list(cv)
    asked = evaluators
    evaluators, left_out, made = named_evaluators(evaluators, logs)
    single = not isinstance(policies, Mapping)
    if asked is None and reward_model is None:
        evaluators, left_out = for_recorded(wanted, logs, evaluators, left_out)
    # the rule knows these rounds, not those that the steps of a Pipeline made of them
    plain = _without(evaluators, made)
    recommended, reason = recommended_row(logs, plain, left_out=left_out)
    if recommended is None and any(map(learns, wanted.values())):
        reason = LEARNS
    if random_state is not None:
        evaluators, reward_model = seeded(evaluators, reward_model, random_state, cv)
    found = {}
    groups = [({name: evaluators[name]}, rounds) for name, rounds in made.items()]
    for some, rounds in [(_without(evaluators, made), logs), *groups]:
        shared = SharedModel(reward_model, cv, rounds, n_jobs)
        with one_call():
            found |= values_of(wanted, some, shared, sample_weight, n_jobs, keep)
    reason = doubted_reason(recommended, reason, logs, found.values())
    results = {
        name if single else (policy, name): found[policy, name]
        for policy in wanted
        for name in evaluators
    }
    return ValueTable(results, left_out, recommended=recommended, reason=reason)


def _without(evaluators, names):
    return {name: one for name, one in evaluators.items() if name not in names}
