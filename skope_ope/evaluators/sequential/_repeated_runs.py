# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One evaluation many times: on segments, or on subsamples, of the same log."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from skope_ope._parallel import merge_parts, run_tasks
from skope_ope._sklearn import HasMethods, Interval, StrOptions, validate_params
from skope_ope._types import AnyEvaluator, PolicyLike, RandomSeed
from skope_ope.evaluators.core._wrapped import with_seed
from skope_ope.evaluators.sequential._acceptance import UniformStream
from skope_ope.evaluators.sequential._base import SequentialEvaluator
from skope_ope.evaluators.sequential._values_on_lazy_logs import (
    check_in_order,
    even_parts,
    sequential_values,
)
from skope_ope.exceptions import SingleTrajectoryWarning
from skope_ope.intervals import student_interval
from skope_ope.intervals._confidence_interval import check_level
from skope_ope.logs import BanditLogs
from skope_ope.logs._shown_numbers import called, decimals
from skope_ope.logs.lazy._lazy_logs import LazyLogs, kept_sizes
from skope_ope.logs.lazy._partitions import read_partitions
from skope_ope.policies._action_probabilities import unwrap
from skope_ope.policies._adaptive import (
    AdaptivePolicy,
    fresh_copy,
    repeated_draws_warnings,
    seeds_of_start,
)


class RepeatedRuns:
    """Values of the same policy on several parts of a log."""

    # `repeated_runs` makes it.

    def __init__(self, values, n_accepted, how, row_id=None):
        self.values = values
        self.n_accepted = n_accepted
        self.how = how
        self.row_id = row_id
        formed = values[np.isfinite(values)]
        self.n_formed = len(formed)
        self.mean = float(formed.mean()) if len(formed) else float("nan")
        self.standard_deviation = (
            float(formed.std(ddof=1)) if len(formed) > 1 else float("nan")
        )

    def confidence_interval(self, level=0.95):
        """Student's interval for the expected value of a run."""
        if self.how == "subsamples":
            raise ValueError(
                "runs on subsamples share rounds, so they give no confidence "
                "interval: their spread is not the error of the estimate. Use "
                "how='segments'."
            )
        check_level(level)
        if self.n_formed < 2:
            return float("nan"), float("nan")
        error = self.standard_deviation / np.sqrt(self.n_formed)
        return student_interval(self.mean, error, self.n_formed - 1, level)

    def __sub__(self, other):
        """Paired differences of two policies' runs on the same segments."""
        if not isinstance(other, RepeatedRuns):
            return NotImplemented
        same = self.how == other.how == "segments" and self.row_id == other.row_id
        if not same or self.row_id is None or len(self.values) != len(other.values):
            raise ValueError(
                "a difference needs pairs of runs. Make both with how='segments', "
                "the same n_runs and the same logs."
            )
        accepted = np.minimum(self.n_accepted, other.n_accepted)
        return RepeatedRuns(self.values - other.values, accepted, self.how, self.row_id)

    def __repr__(self):
        places = decimals([self.standard_deviation])
        return (
            f"RepeatedRuns(mean={called(self.mean, places)}, standard_deviation="
            f"{called(self.standard_deviation, places)}, n_runs={len(self.values)}, "
            f"how={self.how!r})"
        )


@validate_params(
    {
        "evaluator": [HasMethods(["fit"])],
        "logs": [BanditLogs, LazyLogs],
        "n_runs": [Interval(Integral, 2, None, closed="left")],
        "how": [StrOptions({"segments", "subsamples"})],
        "share": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    },
    prefer_skip_nested_validation=True,
)
def repeated_runs(
    evaluator: AnyEvaluator,
    policy: PolicyLike,
    logs: BanditLogs | LazyLogs,
    *,
    n_runs: int = 10,
    how: Literal["segments", "subsamples"] = "segments",
    share: float = 0.5,
    random_state: RandomSeed = None,
    n_jobs: int | None = None,
) -> RepeatedRuns:
    r"""Evaluate a policy many times, each time on another part of the logs.

    A single run is one sample of what a policy learns, so it has no standard error.
    Runs on m consecutive disjoint *segments* are independent. Their mean, with :math:`s
    / \sqrt m` and Student's interval, is the value of a history as long as a segment
    allows. Runs on random *subsamples* of the same log (the experiment of [1]_) share
    rounds. They keep long histories and show how stable the algorithm is, but not the
    error of their mean. Read more in the :ref:`User Guide <repeated_runs>`.

    Parameters
    ----------
    evaluator : evaluator
        It is cloned for every run, and may be the last step of a Pipeline. Leave its
        `random_state` None: then every run gets another seed.
    policy : policy or str
        The policy to evaluate. An array is refused, because runs have other rows.
    logs : BanditLogs or LazyLogs
        The rounds; their order is kept. Lazy logs are read part by part, once for every
        run.
    n_runs : int, default=10
        Number of runs.
    how : {"segments", "subsamples"}, default="segments"
        Consecutive disjoint parts, or a random draw of rounds for every run.
    share : float, default=0.5
        Probability with which a subsample keeps a round.
    random_state : int, RandomState instance or None, default=None
        Seeds the subsamples and the evaluators.
    n_jobs : int, default=None
        Runs at a time, see scikit-learn's glossary. Results do not depend on it.

    Returns
    -------
    runs : RepeatedRuns
        With `values`, `mean`, `standard_deviation`, `n_accepted` and
        `confidence_interval(level)`.

    References
    ----------
    .. [1] Li, L., Chu, W., Langford, J., & Wang, X. (2011). Unbiased offline
       evaluation of contextual-bandit-based news article recommendation algorithms.
       WSDM.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import EpsilonGreedy, Replay
    >>> from skope_ope.evaluators import repeated_runs
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(5000, logging_temperature=np.inf, random_state=0)
    >>> runs = repeated_runs(Replay(), EpsilonGreedy(), logs, random_state=0)
    >>> low, high = runs.confidence_interval()
    >>> bool(low < runs.mean < high), len(runs.values)
    (True, 10)
    """
    sizes = None
    if isinstance(logs, LazyLogs):
        if not isinstance(evaluator, SequentialEvaluator):
            raise TypeError(
                f"repeated runs of {type(evaluator).__name__} on lazy logs are not "
                "possible. Pass Replay, RejectionSampling or DRns, or load rounds "
                "into memory: lazy.sample(n)."
            )
        check_in_order(type(evaluator).__name__, logs)
        logs = logs.labelled(n_jobs=n_jobs)
        sizes = kept_sizes(logs, n_jobs)
    n_rounds = len(logs) if sizes is None else int(sizes.sum())
    if n_runs > n_rounds:
        raise ValueError(
            f"n_runs={n_runs} runs on {n_rounds} rounds leave some "
            "runs empty. Lower n_runs."
        )
    if hasattr(policy, "__array__") or isinstance(policy, (list, tuple)):
        raise TypeError(
            "an array fits the rows of the whole log, and each run has other rows. "
            "Add the array with logs.with_columns(name=...) and pass the column's "
            "name."
        )
    seeds = check_random_state(random_state).randint(2**31 - 1, size=n_runs)
    parts = even_parts(n_rounds, n_runs) if how == "segments" else [share] * n_runs
    runs = [
        (_with_own_seeds(policy, number), part, seed)
        for number, (part, seed) in enumerate(zip(parts, seeds.tolist(), strict=True))
    ]
    if sizes is None:
        done = run_tasks([partial(_run, evaluator, logs, *run) for run in runs], n_jobs)
        head, rows = logs, logs.row_id
    else:
        given = evaluator, logs, sizes
        tasks = [(LazyRun(number, *run),) for number, run in enumerate(runs)]
        done = merge_parts(_lazy_run, tasks, given, n_jobs=n_jobs)
        head, rows = logs.head(1), logs._origin
    values, n_accepted, caught = zip(*done, strict=True)
    _report(caught)
    for warning in _warned_of_draws(policy, head):
        warnings.warn(warning, stacklevel=2)
    return RepeatedRuns(np.array(values), np.array(n_accepted), how, rows)


def _with_own_seeds(policy, number):
    """Return the policy with seeds of its own for a run, if it learns."""
    policy = policy if isinstance(policy, str) else unwrap(policy)
    if not isinstance(policy, AdaptivePolicy):
        return policy
    return clone(policy).set_params(**seeds_of_start(policy, number))


def _warned_of_draws(policy, logs):
    """Return a warning where two runs of a policy that learns draw the same numbers."""
    if not isinstance(_with_own_seeds(policy, 0), AdaptivePolicy):
        return []
    return repeated_draws_warnings(
        lambda number: fresh_copy(_with_own_seeds(policy, number), logs)
    )


@dataclass(frozen=True)
class LazyRun:
    """A run on a part of a lazy log."""

    number: int  # which of the runs it is
    policy: object  # what is evaluated
    part: object  # rows of the log; or the share of them that is drawn
    seed: int  # of the draw, and of the evaluator

    @property
    def name(self):
        """What messages call it."""
        return f"run {self.number}"


def _lazy_run(run, given):
    """Return value, accepted rounds and warnings of a run, in a list."""
    evaluator, lazy, sizes = given
    rng = np.random.RandomState(run.seed)
    if not isinstance(run.part, slice):  # the draw comes before the evaluator's seed
        UniformStream(rng, own=True).skip(int(sizes.sum()))
    evaluator = with_seed(clone(evaluator), rng)
    rows = RowsOfLog(lazy, sizes, run.part, run.seed)
    policies, evaluators = {None: run.policy}, {"one": evaluator}
    return [_outcome(sequential_values(policies, evaluators, rows)["one"][None])]


def _run(evaluator, logs, policy, part, seed):
    rng = np.random.RandomState(seed)
    if not isinstance(part, slice):
        part = np.flatnonzero(rng.random_sample(len(logs)) < part)
        if not len(part):
            raise ValueError(
                f"a subsample of {len(logs)} rounds is empty. Use a larger share."
            )
    evaluator = with_seed(clone(evaluator), rng)
    evaluator.fit(logs[part])
    last = evaluator[-1] if hasattr(evaluator, "steps") else evaluator
    return _outcome(last._result(policy, None, None))  # without its warnings


def _outcome(result):
    """Return value, accepted rounds and warnings of a run."""
    length = result.diagnostics.get("n_accepted", np.nan)
    return result.value, float(length), result.warnings


def _report(caught):
    """Warn once of every kind, and say in how many runs."""
    first, count = {}, {}
    for of_run in caught:
        for kind in {type(warning) for warning in of_run}:
            count[kind] = count.get(kind, 0) + 1
        for warning in of_run:
            first.setdefault(type(warning), warning)
    for kind, warning in first.items():
        if kind is SingleTrajectoryWarning:
            continue  # several runs are what it asks for
        text = f"{warning} (in {count[kind]} of {len(caught)} runs)"
        warnings.warn(kind(text, warning.value), stacklevel=4)


@dataclass(frozen=True)
class RowsOfPartition:
    """Some rounds of a partition, ready to travel to another process."""

    partition: object  # where they lie
    rows: slice  # the rows that are taken
    # Seed, rounds of the log before the partition, and the share of the rounds that is
    # kept by a uniform number each; None: all are
    draw: tuple | None = None

    @property
    def name(self):
        """What messages call it."""
        return self.partition.name

    def logs(self, reader):
        """Return the rounds, None where there are none."""
        logs = self.partition.logs(reader)
        if logs is None:
            return None
        if self.draw is None:
            found = logs[self.rows]
        else:
            seed, before, share = self.draw
            u = UniformStream(seed).skip(before).take(len(logs))
            found = logs[np.flatnonzero(u < share)]
        return found if len(found) else None

    def read(self):
        """Return the rounds as ordinary logs, None where there are none."""
        return next(read_partitions([self]))[1]


class RowsOfLog:
    """Some rounds of a lazy log, as if they were all."""

    frame = n_rounds = None

    def __init__(self, lazy, sizes, rows, seed=None):
        self._lazy, self._about = lazy, (sizes, rows, seed)
        self._log_type, self._origin = lazy._log_type, lazy._origin
        self.columns, self.roles = lazy.columns, lazy.roles
        found, start = [], 0
        for partition, size in zip(lazy.partitions, sizes.tolist(), strict=True):
            if not isinstance(rows, slice):
                draw = seed, start, rows
                found.append(RowsOfPartition(partition, slice(0, size), draw))
            else:
                low, high = max(rows.start - start, 0), min(rows.stop - start, size)
                if low < high:
                    found.append(RowsOfPartition(partition, slice(low, high)))
            start += size
        self.partitions = tuple(found)

    def labelled(self, n_jobs=None):
        """Return self: its labels are known."""
        return self

    def _needing(self, context=True, columns=None):
        """Return the same rounds, of which less is read."""
        return RowsOfLog(self._lazy._needing(context, columns), *self._about)

    def _tasks(self, n_tasks):
        """Return the partitions as one task: runs are what is done at a time."""
        return [self.partitions]

    def sample(self, n, random_state=None, n_jobs=None):
        """Raise: no model is fitted to a part of the log."""
        raise ValueError(
            "repeated runs on lazy logs fit no reward model. Fit one to earlier "
            "rounds: FrozenEstimator(ActionRewardModel(model).fit(logs)). Or pass "
            "a number, the name of a column, or None, the mean reward."
        )
