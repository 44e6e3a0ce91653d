# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The one-call start: several policies and evaluators in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, Literal

from sklearn.base import clone

from skope_ope._parallel import one_call, run_tasks
from skope_ope._types import (
    ArrayLike,
    PolicyLike,
    RandomSeed,
    RewardModelLike,
    SplitterLike,
)
from skope_ope.evaluators._asked import asked, is_of_logged_actions
from skope_ope.evaluators._rules import recommend
from skope_ope.evaluators._value_table import ValueTable, rows_of, warn_once
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.base._question import refuse_weights
from skope_ope.evaluators.base._summed_values import sums_of
from skope_ope.evaluators.core._counted import Counted
from skope_ope.evaluators.core._jobs import evaluate_jobs, prepared_job
from skope_ope.evaluators.core._rounds import PositiveRounds, combined_weights
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.core._warnings import rounds_warnings
from skope_ope.evaluators.sequential._values_on_lazy_logs import (
    check_in_order,
    sequential_values,
)
from skope_ope.evaluators.static._base import StaticEvaluator
from skope_ope.evaluators.static._direct_simulation import simulates
from skope_ope.logs import BanditLogs
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs.lazy._lazy_logs import LazyLogs
from skope_ope.reward_models._sources import model_and_folds, reward_source


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
    question = asked(
        "evaluate",
        policies,
        logs,
        evaluators,
        reward_model,
        cv,
        random_state=random_state,
        n_jobs=n_jobs,
        sample_weight=sample_weight,
        verbose=verbose,
    )
    table = answered(question)
    warn_once(rows_of(table, isinstance(policies, Mapping)), stacklevel=2)
    return table


def quiet_table(policies, logs, evaluators=None, reward_model=None, cv=None, **how):
    """Return what `evaluate` does; the warnings of the values are in them alone."""
    keep = how.pop("keep", False)
    question = asked("evaluate", policies, logs, evaluators, reward_model, cv, **how)
    return answered(question, keep)


def answered(question, keep=False):
    """Return the values of what is asked in a table, whatever the source."""
    if question.lazy:
        found, log = _over_parts(question)
    else:
        found, log = _in_memory(question, keep), question.logs
    rows, learners = question.on_its_rounds, question.policies.values()
    if log is None:  # where all evaluators walk, only a few rounds are known
        about = question.head, rows, (), None, learners, question.n_loggers
    else:
        about = log, rows, question.left_out, found.values(), learners
    logged_only = any(is_of_logged_actions(one, question.head) for one in learners)
    row, reason = recommend(*about, logged_only=logged_only)
    results, single = {}, question.single
    for job in product(question.policies, question.evaluators):
        results[job[1] if single else job] = found[job]
    return ValueTable(results, question.left_out, recommended=row, reason=reason)


# -- lazy logs: sums of all parts, and walks through them ------------------------------
def _over_parts(question):
    """Return values by (policy, evaluator), and what sums tell of the log, or None."""
    refuse_weights(question.sample_weight)
    for evaluator in question.evaluators.values():
        evaluator._check_lazy()
    found, log = {}, None
    in_order = question.some(_walks)
    if in_order.evaluators:
        check_in_order(", ".join(in_order.evaluators), question.logs)
        question = question.some(lambda one: not _walks(one))
    if question.evaluators:
        question.check_sums()
        values = sums_of(question)
        found, log = values._by_job(), values._log
    if in_order.evaluators:
        found |= _values_in_order(in_order)
    return found, log


def _walks(evaluator):
    """Whether an evaluator walks through the rounds in their order."""
    return evaluator.__sklearn_tags__().order_dependent


def _values_in_order(question):
    """Return the values of evaluators that walk through the rounds."""
    model, logs = question.reward_model, question.logs
    found = sequential_values(
        question.policies,
        question.evaluators,
        logs,
        sources=question.some(lambda one: not one._takes_earlier(model)).sources(),
        n_jobs=question.n_jobs,
        verbose=question.verbose,
        counted=Counted.of_partitions(logs.partitions),
    )
    return {(p, name): v for name, values in found.items() for p, v in values.items()}


# -- rounds in memory: what evaluators can share is computed once ----------------------
def _in_memory(question, keep=False):
    """Return values by (policy, evaluator)."""
    found, own = {}, question.own_rounds
    of_own = [(one, {name: question.evaluators[name]}) for name, one in own.items()]
    for logs, evaluators in [(question.logs, question.on_its_rounds), *of_own]:
        with one_call():
            found |= _values_on(logs, evaluators, question, keep)
    return found


def _values_on(logs, evaluators, question, keep):
    """Return the values of all policies by some evaluators on some rounds."""
    # Evaluators that take part in one pass over the rounds share it; the others are
    # fitted once each, so that all policies meet the same random numbers.
    policies, weight = question.policies, question.sample_weight
    model = SharedModel(question, logs)
    positive = PositiveRounds(logs, combined_weights(logs, weight))
    together, apart = {}, {False: [], True: []}
    for policy, given in policies.items():
        # slates have targets of their own
        target = Target(given, logs) if isinstance(logs, BanditLogs) else None
        for name, evaluator in evaluators.items():
            if target is not None and _takes_part(evaluator, target):
                together[policy, name] = target, evaluator
            else:
                apart[_walks(evaluator)].append((policy, name))
    jobs = [
        prepared_job(one, target, positive, model) for target, one in together.values()
    ]
    values = evaluate_jobs(jobs, positive, question.n_jobs, keep)
    warned = dict.fromkeys(policy for policy, _ in together)
    warned = {policy: rounds_warnings(policies[policy], logs) for policy in warned}
    found = {
        job: value._with_warnings(warned[job[0]])
        for job, value in zip(together, values, strict=True)
    }
    for walks, pairs in apart.items() if any(apart.values()) else ():
        # walks through a log are loops of the interpreter: they need processes
        how = {"n_jobs": question.n_jobs, "prefer": "processes" if walks else "threads"}
        names = list(dict.fromkeys(name for _, name in pairs))
        fits = [partial(model.fitted, evaluators[name]) for name in names]
        fitted = dict(zip(names, run_tasks(fits, **how), strict=True))
        # on the rounds of fit, which are those of the table
        calls = [
            partial(fitted[name]._result, policies[policy], None, weight)
            for policy, name in pairs
        ]
        values = (value._at(logs) for value in run_tasks(calls, **how))
        found |= zip(pairs, values, strict=True)
    return found


def _takes_part(evaluator, target):
    """Whether a pass that is shared with other evaluators can value a policy."""
    return isinstance(evaluator, StaticEvaluator) and not simulates(evaluator, target)


class SharedModel:
    """One reward model for all evaluators that were given none."""

    # Predictions are made once for every distinct model and folds.

    def __init__(self, question, logs):
        self.reward_model, self.cv, self.logs = question.reward_model, question.cv, logs
        self.n_jobs = question.n_jobs
        self._sources = []  # (model, cv, source)

    def model_of(self, evaluator):
        """Return the model that an evaluator uses, and its folds."""
        return model_and_folds(evaluator, self.reward_model, self.cv)

    def source_for(self, evaluator):
        """Return the predictions that an evaluator uses."""
        model, cv = self.model_of(evaluator)
        if type(evaluator).fit_reward_model is not BaseEvaluator.fit_reward_model:
            return evaluator.fit_reward_model(self.logs, model, cv)
        for known, folds, source in self._sources:
            if known is model and _same_folds(folds, cv):
                return source
        source = reward_source(model, self.logs, cv, n_jobs=self.n_jobs)
        self._sources.append((model, cv, source))
        return source

    def fitted(self, evaluator):
        """Fit a clone of an evaluator that makes a pass of its own over the rounds."""
        evaluator = clone(evaluator)
        params = evaluator.get_params(deep=False)
        if params.get("reward_model") is not None:
            return evaluator.fit(self.logs)
        if evaluator.requires.model and "cv" in params and self.cv is not None:
            evaluator.set_params(cv=self.cv)  # they come with the model
        return evaluator.fit(self.logs, self.reward_model)


def _same_folds(one, other):
    """Whether two `cv` give the same folds: the same number, word or object."""
    if isinstance(one, (int, str)):
        return type(one) is type(other) and one == other
    return one is other
