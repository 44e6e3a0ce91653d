# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""`logs.audit()`: logs stand above the audit, so it gives them their method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skope_ope.audit._audit import audit
from skope_ope.logs._row_container import RowContainer
from skope_ope.logs.lazy._lazy_logs import LazyLogs

if TYPE_CHECKING:
    from skope_ope._types import PolicyLike, RandomSeed
    from skope_ope.audit._result import Audit


def audit_of_rows(
    self, policy: PolicyLike = None, *, random_state: RandomSeed = 0
) -> Audit:
    """Check the logs, see :func:`~skope_ope.audit`.

    Parameters
    ----------
    policy : policy, array or str, default=None
        The policy to evaluate. `None` checks the logs alone.
    random_state : int, RandomState instance or None, default=0
        Seed of the rounds that are drawn for the checks that fit models.

    Returns
    -------
    audit : Audit
        A summary of the logs and the findings, worst first.
    """
    given = (self,) if policy is None else (policy, self)
    return audit(*given, random_state=random_state)


def audit_of_parts(
    self,
    policy: PolicyLike = None,
    *,
    random_state: RandomSeed = 0,
    n_jobs: int | None = None,
) -> Audit:
    """Check the logs, see :func:`~skope_ope.audit`.

    Parameters
    ----------
    policy : policy or str, default=None
        The policy to evaluate. `None` checks the logs alone.
    random_state : int, RandomState instance or None, default=0
        Seed of the rounds that are drawn for some of the checks.
    n_jobs : int, default=None
        Number of tasks at a time, as in scikit-learn.

    Returns
    -------
    audit : Audit
        A summary of the logs and the findings, worst first.
    """
    given = (self,) if policy is None else (policy, self)
    return audit(*given, random_state=random_state, n_jobs=n_jobs)


for kind, method in ((RowContainer, audit_of_rows), (LazyLogs, audit_of_parts)):
    # its name in messages, and by which pickles find it
    method.__name__, method.__qualname__ = "audit", f"{kind.__name__}.audit"
    kind.audit = method
