# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One page that people can act on."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from skope_ope.audit import VerdictThresholds
from skope_ope.audit._audit import audits
from skope_ope.evaluators._evaluate import quiet_table, warn_once
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._policies_of_call import SINGLE, policies_by_name
from skope_ope.reports._provenance import call_text, fingerprint, versions
from skope_ope.reports._result import Report
from skope_ope.reports._write import checked_path, write_whole
from skope_ope.selection._compare_policies import check_comparison, comparison_of
from skope_ope.selection._policy_comparison import LOGGER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Literal

    from skope_ope._types import (
        Path,
        PolicyLike,
        RandomSeed,
        RewardModelLike,
        SplitterLike,
    )
    from skope_ope.logs._bandit_logs import BanditLogs
    from skope_ope.logs._slate_logs import SlateLogs


def report(
    policies: PolicyLike | Mapping[Any, PolicyLike],
    logs: BanditLogs | SlateLogs,
    path: Path | None = None,
    *,
    title: str | None = None,
    baseline: str = LOGGER,
    level: float = 0.95,
    evaluators: Sequence[Any] | Mapping[Any, Any] | None = None,
    reward_model: RewardModelLike = None,
    cv: SplitterLike | Literal["prefit"] | None = None,
    random_state: RandomSeed = None,
    n_jobs: int | None = None,
    command: str | None = None,
    thresholds: VerdictThresholds | None = None,
) -> Report:
    """Write one page from the question to a recommendation.

    The page says what to do and how large the gain is. Below are gains with intervals,
    values by all evaluators, and the number of effective rounds of each policy. Then
    come the findings of the audit, the assumptions, and how to repeat the page. Alarms
    of the audit are beside the recommendation. If one is an error, the page recommends
    only to correct it. Read more in the :ref:`User Guide <reports>`.

    Parameters
    ----------
    policies : policy, array, str, or dict of them
        The policies to evaluate, as in `evaluate`. A dict gives names. A single policy
        is called "the policy". They must not have learned from `logs`.
    logs : BanditLogs or SlateLogs
        The rounds.
    path : str or os.PathLike, default=None
        The file to write. An existing file is replaced. `None`: nothing is written, and
        the page is `Report.to_html()`.
    title : str, default=None
        Head of the page. `None`: the question.
    baseline : str, default="logger"
        What policies are compared with, as in `compare_policies`.
    level : float, default=0.95
        Coverage of the intervals of all gains together, and of each in the table.
    evaluators : list of names or evaluators, or dict, default=None
        Rows of the table, as in `evaluate`. Gains are by the recommended evaluator or,
        if it is not among them, by the first one.
    reward_model : model, number, array or str, default=None
        Shared by the evaluators whose `reward_model` is None, as in `evaluate`.
    cv : int, splitter, iterable or "prefit", default=None
        How rounds are split for cross-fitting of the shared reward model. `None`: the
        `cv` of each evaluator, which is 5 by default.
    random_state : int, RandomState instance or None, default=None
        Seeds the evaluators and the shared reward model if their own `random_state` is
        None.
    n_jobs : int, default=None
        Number of parallel tasks, as in `evaluate`.
    command : str, default=None
        The command that repeats the page, as shown on the page. `None`: the call.
    thresholds : VerdictThresholds, default=None
        The limits above which numbers are alarms, and the findings that are accepted,
        as in `verdict`. `None`: the default ones.

    Returns
    -------
    report : Report
        `decision`, `choice` and `sentence`, with all that the page shows.

    Raises
    ------
    OSError
        If `path` cannot be written. This is tried before anything is computed, and no
        partial file is left.
    TypeError
        If `policies`, `logs` or `thresholds` have the wrong type.
    ValueError
        If the logs are empty. If the baseline does not exist, or has the name of a
        policy.

    See Also
    --------
    compare_policies : The decision alone.
    evaluate : The table alone.
    audit : The findings alone.

    Examples
    --------
    >>> from skope_ope import report
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(
    ...     20_000, reward="binary", random_state=0, return_truth=True)
    >>> print(report({"new": policy}, logs).headline)
    Deploy new
    """
    target = checked_path(path)
    policies = policies_by_name(
        "report", policies, logs, n_jobs, single=SINGLE, lazy=False
    )
    check_comparison(policies, baseline, level)
    if thresholds is not None and not isinstance(thresholds, VerdictThresholds):
        raise TypeError(
            "thresholds must be VerdictThresholds(...) or None, got "
            f"{type(thresholds).__name__}."
        )
    told = {
        "title": title,
        "baseline": baseline,
        "level": level,
        "evaluators": evaluators,
        "reward_model": reward_model,
        "cv": cv,
        "random_state": random_state,
        "thresholds": thresholds,
    }
    table = quiet_table(
        policies, logs, evaluators, reward_model, cv, None, random_state, n_jobs
    )
    decides = _decides(table)  # the page has the warnings of the other rows
    told_of = [(name, value) for name, value in table.items() if name[1] == decides]
    warn_once(told_of, stacklevel=2, among=table)
    found, warned = report_of(
        table,
        policies,
        logs,
        title=title,
        baseline=baseline,
        level=level,
        command=call_text(policies, path, told) if command is None else str(command),
        thresholds=thresholds,
    )
    for warning in warned:
        warnings.warn(warning, stacklevel=2)
    if target is not None:
        write_whole(target, found.to_html())
        found.path = target
    return found


def report_of(
    table,
    policies,
    logs,
    *,
    title,
    baseline,
    level,
    command,
    thresholds=None,
    about=(),
    audited=None,
):
    """Return the report of values that are known, and what is to be warned of."""
    evaluator = _decides(table)
    values = {name: table[name, evaluator] for name in policies}
    accepted = () if thresholds is None else thresholds.accepted
    comparison, warned = comparison_of(
        values, policies, logs, baseline, level, evaluator, accepted
    )
    fixed = {n: p for n, p in policies.items() if not isinstance(p, AdaptivePolicy)}
    of_log, of_policies = audits(fixed, logs) if audited is None else audited
    found = Report(
        table,
        comparison,
        of_log,
        of_policies,
        logs=logs,
        evaluator=evaluator,
        title=_question(comparison) if title is None else str(title),
        command=command,
        thresholds=thresholds,
        provenance=(dict(about) | fingerprint(logs), versions()),
    )
    return found, warned


def _question(comparison):
    names = list(comparison.differences)
    if len(names) == 1:
        return f"Is {names[0]} better than {comparison._against}?"
    return f"Which of {len(names)} policies is better than {comparison._against}?"


def _decides(table):
    """Return the evaluator on whose values a report decides."""
    return table.recommended or next(name for _, name in table)
