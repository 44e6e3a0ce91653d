# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""`logs.audit()`: logs stand above the audit, so it gives them their method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skope_ope.audit._audit import audit
from skope_ope.logs._row_container import RowContainer
from skope_ope.logs.lazy._lazy_logs import LazyLogs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal

    from skope_ope._types import PolicyLike, RandomSeed, RewardModelLike, SplitterLike
    from skope_ope.audit._result import Audit


def audit_of_logs(
    self,
    policies: PolicyLike | Mapping[Any, PolicyLike] = None,
    *,
    reward_model: RewardModelLike = None,
    cv: SplitterLike | Literal["prefit"] | None = None,
    random_state: RandomSeed = 0,
    n_jobs: int | None = None,
) -> Audit | Any:
    """Check the logs, see :func:`~skope_ope.audit`.

    Parameters
    ----------
    policies : policy, array, str, or dict of them, default=None
        The policies to evaluate. `None` checks the logs alone.
    reward_model : model, number, array or str, default=None
        The reward model to evaluate with. `None`: none is checked.
    cv : int, splitter, iterable or "prefit", default=None
        How rounds are split for cross-fitting of the reward model. `None`: 5 folds.
    random_state : int, RandomState instance or None, default=0
        Seed of the rounds that are drawn for the checks that fit models.
    n_jobs : int, default=None
        Number of parallel tasks, as in `evaluate`.

    Returns
    -------
    audit : Audit, or dict of Audit
        A summary of the logs and the findings, worst first. For a dict of policies, an
        audit by name of the policy.
    """
    how = {"cv": cv, "random_state": random_state, "n_jobs": n_jobs}
    return audit(policies, self, reward_model=reward_model, **how)


# its name in messages, and by which pickles find it
audit_of_logs.__name__, audit_of_logs.__qualname__ = "audit", "RowContainer.audit"
RowContainer.audit = LazyLogs.audit = audit_of_logs
