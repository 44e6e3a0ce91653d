# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The tests of the logger that every value of slates makes."""

from skope_ope.logs.checks._lost_rows import ended_by_reward_findings
from skope_ope.logs.checks._shared_pages import uniform_pair_findings
from skope_ope.logs.checks._slate_order import uniform_order_findings


def quick_slate_findings(logs, uniform):
    """Return facts and findings of lost rows, and of which items stand where."""
    facts, findings = {}, ended_by_reward_findings(logs)[1]
    for check in (uniform_pair_findings, uniform_order_findings) if uniform else ():
        told, found = check(logs)
        facts, findings = facts | told, findings + found
    return facts, findings
