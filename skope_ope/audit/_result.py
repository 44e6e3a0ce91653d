# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What an audit tells: facts about a log, and findings, the worst first."""

from skope_ope.logs._finding import SEVERITIES


class Audit:
    """What a log holds, and what was found in it.

    Parameters
    ----------
    facts : dict
        Numbers, texts, arrays and dicts of them by name, in the order in which they
        are told. A dict of columns of equal length is a table.
    findings : iterable of Finding
        What the checks have found, in the order of the checks.

    Attributes
    ----------
    facts : dict
        What the log holds.
    findings : tuple of Finding
        Errors, then warnings, then notes; see its `name`, `severity`, `found`,
        `advice`, `number`, `effect`, `rows`, `columns` and `text`.

    Examples
    --------
    >>> from skope_ope import audit
    >>> from skope_ope.datasets import make_bandit_logs
    >>> found = audit(make_bandit_logs(random_state=0))
    >>> found.ok, found.facts["rounds"]
    (True, 1000)
    """

    def __init__(self, facts, findings):
        self.facts = dict(facts)
        self.findings = tuple(
            sorted(findings, key=lambda one: SEVERITIES.index(one.severity))
        )

    @property
    def alarms(self):
        """The errors and warnings among the findings."""
        return tuple(one for one in self.findings if one.is_alarm)

    @property
    def ok(self):
        """Whether nothing was found that somebody should act on."""
        return not self.alarms
