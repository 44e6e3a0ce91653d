# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values as sums that add up: over files, days and machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skope_ope.evaluators._lazy_values import refuse_adaptive
from skope_ope.evaluators._prepared import prepared
from skope_ope.evaluators._summed import refuse_walks, summed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Literal

    from skope_ope._types import ArrayLike, PolicyLike, RandomSeed, RewardModelLike
    from skope_ope.evaluators._value_summary import ValueSummary
    from skope_ope.logs._bandit_logs import BanditLogs
    from skope_ope.logs._hash_folds import HashKFold
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
    small, holds no round, and can be saved, so that each day adds its sums to those
    of the days before. Read more in the :ref:`User Guide <large_logs>`.

    Parameters
    ----------
    policies : policy, str, or dict of them
        What to evaluate, as `evaluate` takes it. A dict gives names, by which parts
        know each other; without, policies are told apart by what they hold, and those
        that have no hash, functions say, need a name.
    logs : LazyLogs, BanditLogs or SlateLogs
        The rounds: see `scan_logs`. Partitions are read one by one by the workers.
    evaluators : list of names or evaluators, or dict, default=None
        As `evaluate` takes it. Those whose value is no function of sums raise. A
        Pipeline with steps is summarized by itself, in memory.
    reward_model : model, number or str, default=None
        Shared by the evaluators whose own is None.
    cv : int, HashKFold or "prefit", default=None
        How rounds are held out of the fits of the shared reward model; a number is
        that of `HashKFold`. `None`: as each evaluator says, which is 5.
    by : str or list of str, default=None
        Columns by whose values the same sums are kept, too: what `value.by(column)`
        will be asked for.
    random_state : int, RandomState instance or None, default=None
        Seeds what is random and has no seed, and the sample for reward models.
    n_jobs : int, default=None
        Tasks at a time, as in scikit-learn; `joblib.parallel_config` says where they
        run. The sums do not depend on it.
    sample_weight : array-like of shape (n_rounds,), default=None
        Weights of the rounds, multiplied with those of the logs. Lazy logs carry
        theirs: `scan_logs(..., sample_weight="column")`.
    n_sample : int, None or "auto", default="auto"
        Rounds of lazy logs, drawn at random, that reward models are fitted to. `None`:
        all, by `partial_fit` where a model has it. "auto": 2,000,000, and all where
        the model has `partial_fit`.
    verbose : int, default=0
        As in joblib: lines of progress.

    Returns
    -------
    summary : ValueSummary
        `summary + summary`, `.save(path)`, `.values()`.

    Raises
    ------
    TypeError
        If `logs` are no logs, or a policy cannot be asked part by part.
    ValueError
        If an evaluator is no function of sums, or a partition cannot be read; the
        message names file and row group.

    See Also
    --------
    load_summary : A summary from its file.
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
