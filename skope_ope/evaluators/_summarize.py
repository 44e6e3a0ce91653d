# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values as sums that add up: over files, days and machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from skope_ope._types import ArrayLike, PolicyLike, RandomSeed, RewardModelLike
from skope_ope.evaluators._lazy_values import refuse_adaptive
from skope_ope.evaluators._prepared import prepared
from skope_ope.evaluators._summed import refuse_walks, summed
from skope_ope.evaluators._value_summary import ValueSummary
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._folds import HashKFold
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs.lazy._lazy_logs import LazyLogs


def summarize(
    policies: PolicyLike | Mapping[Any, PolicyLike],
    logs: LazyLogs | BanditLogs | SlateLogs,
    *,
    evaluators: Sequence[Any] | Mapping[Any, Any] | None = None,
    reward_model: RewardModelLike = None,
    cv: int | HashKFold | Literal["prefit"] | None = None,
    by: str | Sequence[str] | None = None,
    random_state: RandomSeed = None,
    n_jobs: int | None = None,
    sample_weight: ArrayLike | None = None,
    n_sample: int | Literal["auto"] | None = "auto",
    verbose: int = 0,
) -> ValueSummary:
    """Sum what the values of policies are made of; sums of parts of a log add up.

    `evaluate(policies, lazy)` is `summarize(policies, lazy).values()`. A summary is
    small, holds no rounds, and can be saved. So you can add the sums of each day to
    those of earlier days. Read more in the :ref:`User Guide <large_logs>`.

    Parameters
    ----------
    policies : policy, str, or dict of them
        The policies to evaluate, as in `evaluate`. A dict gives names, which identify
        the policies in other parts. Without names a hash of the policy is used. A
        policy without a hash, such as a function, needs a name.
    logs : LazyLogs, BanditLogs or SlateLogs
        The rounds: see `scan_logs`. Partitions are read one by one by the workers.
    evaluators : list of names or evaluators, or dict, default=None
        As in `evaluate`. An evaluator whose value cannot be computed from sums raises
        an error. A Pipeline with steps must be the only evaluator, on logs in memory.
    reward_model : model, number or str, default=None
        Shared by the evaluators whose `reward_model` is None.
    cv : int, HashKFold or "prefit", default=None
        How rounds are split for cross-fitting of the shared reward model. A number
        means `HashKFold`. `None`: the `cv` of each evaluator, which is 5 by default.
    by : str or list of str, default=None
        Columns for which sums by value are kept, too. They allow `value.by(column)`.
    random_state : int, RandomState instance or None, default=None
        Seeds everything random without a seed, and the sample for reward models.
    n_jobs : int, default=None
        Number of parallel tasks, as in scikit-learn. `joblib.parallel_config` says
        where they run. The sums do not depend on it.
    sample_weight : array-like of shape (n_rounds,), default=None
        Weights of the rounds, multiplied by those of the logs. Lazy logs have their
        weights as a column: `scan_logs(..., sample_weight="column")`.
    n_sample : int, None or "auto", default="auto"
        Number of rounds of lazy logs that are drawn to fit reward models. `None`: all
        rounds, with `partial_fit` if the model has it. "auto": all rounds if the model
        has `partial_fit`, else 2,000,000.
    verbose : int, default=0
        As in joblib: lines of progress.

    Returns
    -------
    summary : ValueSummary
        `summary + summary`, `.save(path)`, `.values()`.

    Raises
    ------
    TypeError
        If `logs` are not logs, or a policy cannot be evaluated part by part.
    ValueError
        If an evaluator cannot be computed from sums, or a partition cannot be read. The
        message names file and row group.

    See Also
    --------
    ValueSummary.load : A summary from its file.
    evaluate : Values at once.

    Examples
    --------
    >>> from skope_ope import UniformPolicy, summarize
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy = make_bandit_logs(random_state=0), UniformPolicy()
    >>> first = summarize({"new": policy}, logs[:400], evaluators=["SNIPS"])
    >>> rest = summarize({"new": policy}, logs[400:], evaluators=["SNIPS"])
    >>> (first + rest).values()["new", "SNIPS"].n_rounds == len(logs)
    True
    """
    found = prepared(
        policies,
        logs,
        evaluators,
        reward_model,
        cv,
        by=by,
        random_state=random_state,
        n_jobs=n_jobs,
        n_sample=n_sample,
    )
    if found.lazy:
        refuse_adaptive(found.evaluators)
    refuse_walks(found.evaluators)
    return summed(found, sample_weight, verbose=verbose)
