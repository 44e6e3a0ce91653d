# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What an audit reads of a log: all of it in memory, or sums and a sample of files."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.audit._checks import ACTIONS, SLATES
from skope_ope.audit._policy_rounds import (
    PolicyRounds,
    PolicySums,
    SlateRounds,
    learned_of_files,
)
from skope_ope.evaluators.core._warnings import has_groups
from skope_ope.evaluators.parts._partition_sums import sum_over
from skope_ope.logs import SlateLogs
from skope_ope.logs.checks._log_facts import FactSums
from skope_ope.logs.lazy._lazy_rows import all_rows
from skope_ope.logs.sums._group_sums import ALL

MOST_SAMPLED = 200_000  # that are looked at one by one


@dataclass
class Part:
    """What is read of a log at a time."""

    given: dict  # the arguments of checks by what they need
    sample: object = None  # the logs, where these are some rounds of a log
    apart: bool = False  # whether the names of all facts say that they are of some

    def named(self, facts, earlier):
        """Return facts; what a part before has told is here that of a sample."""
        if self.sample is None:
            return facts
        return {
            f"{name}, of the sample" if self.apart or name in earlier else name: fact
            for name, fact in facts.items()
        }

    def placed(self, finding):
        """Return a finding whose rows are those of the log."""
        if self.sample is None:
            return finding
        rows = self.sample.row_id.position[np.array(finding.rows, dtype=np.intp)]
        return replace(finding, rows=rows.tolist())


class MemorySource:
    """Logs in memory: checks get what they need in one part."""

    facts = ()

    def __init__(self, logs, random_state):
        self.rows, self.random = logs, random_state
        self.kind = SLATES if isinstance(logs, SlateLogs) else ACTIONS

    def parts(self):
        """Return what checks of the log read."""
        names = "rows", "first", "all rows"
        given = dict.fromkeys(names, (self.rows,))
        given |= {"sums": (FactSums(self.rows, ALL),), "log": (self.rows, self.rows)}
        return [Part(given)]

    def parts_of(self, policy):
        """Return what checks of a policy read."""
        weight = getattr(self.rows, "sample_weight", None)
        if weight is not None and not weight.any():
            return [Part({"no weight": ()})]
        rounds = rounds_of(policy, self.rows)
        return [Part(dict.fromkeys(("learned", "weights", "policy"), (rounds,)))]


class FileSource:
    """Lazy logs: sums of all rounds, rounds drawn at random, and the first ones."""

    # Counts, ranges, groups, propensities, times and rewards that are missing at the
    # end are those of all rounds, from one pass. What fits models, looks for copies or
    # asks a policy looks at 200,000 rounds drawn at random; what compares neighbours,
    # at as many from the start on.

    def __init__(self, lazy, random_state, n_jobs=None):
        self.random, self._n_jobs = check_random_state(random_state), n_jobs
        self._lazy = lazy = lazy.labelled(n_jobs)
        weight = [name for name in lazy.columns if name == "sample_weight"]  # of slates
        fields = lazy._needing(context=False, columns=weight)
        self._sums = sums = sum_over(fields, _sums_of_part, None, n_jobs)
        if sums is None:
            raise ValueError("the logs are empty: an audit needs at least one round.")
        n = sums.log.n
        self.rows = lazy.sample(min(MOST_SAMPLED, n), self.random, n_jobs)._sampled()
        self._first = lazy.head(MOST_SAMPLED)
        sums.n_features = self.rows.n_features
        self.kind = SLATES if isinstance(self.rows, SlateLogs) else ACTIONS
        looked_at = (
            f"{len(self.rows):,} rounds drawn at random (columns, copies, leaks, "
            f"models, the policy), and the first {len(self._first):,} (learning, "
            "shifted rows)"
        )
        self.facts = {"rounds": n, "looked at one by one": looked_at}

    def parts(self):
        """Return what checks of the log read."""
        return [
            Part({"sums": (self._sums,), "log": (self._sums.log, self.rows)}),
            Part({"rows": (self.rows,)}, self.rows),
            Part({"first": (self._first,)}),
        ]

    def parts_of(self, policy):
        """Return what checks of a policy read."""
        rows, lazy = self.rows, self._lazy
        whole = len(rows) == self._sums.log.n
        given = {"policy": (rounds_of(policy, rows),)}
        if self.kind == SLATES or rows.propensity is None:
            grouped = has_groups(rows)
            learned = learned_of_files(policy, lazy, grouped, self._n_jobs)
            sums = {"learned": (SimpleNamespace(learned=learned),)}
            given |= {"weights": given["policy"]}
        else:
            found = PolicySums(policy, lazy, self._n_jobs)
            sums = {"learned": (found,), "weights": (found,)}
        return [Part(sums), Part(given, rows, apart=not whole)]


def rounds_of(policy, logs):
    """Return what checks of a policy read of logs in memory."""
    slates = isinstance(logs, SlateLogs)
    return SlateRounds(policy, logs) if slates else PolicyRounds(policy, logs)


def _sums_of_part(logs, _):
    return FactSums(logs) if len(logs) else None


def refuse_frame(lazy):
    """Raise where lazy logs are a frame, whose rounds are nowhere in order."""
    if lazy.partitions is None:
        raise TypeError(
            "an audit needs the order of the rounds, and single rounds. A lazy frame "
            "has neither. Write it to parquet files and scan these, "
            "scan_logs('folder', ...), or audit a sample: "
            "audit(logs.sample(200_000))."
        )


def small_logs(lazy, n_jobs=None):
    """Return lazy logs as ordinary ones where they are few, else None."""
    if lazy.n_rounds == 0:
        raise ValueError("the logs are empty: an audit needs at least one round.")
    # how many a filter keeps the audit itself will tell
    return None if lazy.n_rounds is None else all_rows(lazy, MOST_SAMPLED, n_jobs)
