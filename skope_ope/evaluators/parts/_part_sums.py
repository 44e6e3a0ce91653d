# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of several policies by several evaluators over a part of a log.

Parts add up to the whole: `sums_of_part(...) + sums_of_part(...)`.
"""

from collections import Counter
from copy import copy
from math import prod

import numpy as np

from skope_ope._pairs import WithPairs
from skope_ope._parallel import merge_parts, task_count
from skope_ope.evaluators.core._design import kind_of_sums, weight_of
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._engine import Extract, Job, TermStore, run
from skope_ope.evaluators.core._largest_deviation import WeightedRounds
from skope_ope.evaluators.core._part_pass import PartPass
from skope_ope.evaluators.core._part_weights import ROUNDS
from skope_ope.evaluators.core._requires import LogFacts
from skope_ope.evaluators.core._rounds import Part, plain_weights
from skope_ope.evaluators.core._rows import labels_of
from skope_ope.evaluators.core._summary import (
    LOGGER_JOB,
    N_BUCKETS,
    N_GROUPS,
    Summary,
    SumsByDesign,
    refuse_unstated_model,
    resolved_for_parts,
    stated_shares,
    summary_of,
)
from skope_ope.evaluators.core._sums import REWARD, weighted_of
from skope_ope.evaluators.core._tally import RoundCounts
from skope_ope.evaluators.parts._part_tables import (
    bare_evaluator,
    sums_of_tables,
    tables_of,
)
from skope_ope.logs import BanditLogs
from skope_ope.logs._coded_labels import coded_labels
from skope_ope.logs._labels import factorise, rows_of_codes
from skope_ope.logs.lazy._partitions import read_together
from skope_ope.logs.sums._log_sums import LogSums
from skope_ope.policies._learned_rounds import LearnedRounds, has_learned


class PartSums(WithPairs):
    """Sums over parts of a log, of several policies and evaluators."""

    def __init__(
        self,
        n,
        policies,
        evaluators,
        counts=None,
        sums=None,
        tallies=None,
        ends=None,
        facts=None,
        log=None,
        by=None,
        learned=None,
        resolved=(),
    ):
        self.n, self.policies, self.evaluators = n, tuple(policies), evaluators
        self.counts, self.sums = counts, sums or SumsByDesign({})
        self.tallies, self.ends = tallies or {}, ends or {}
        self.facts, self.log, self.by = facts or {}, log, by or {}
        self.learned, self.resolved = learned or {}, dict(resolved)

    @property
    def by_evaluator(self):
        """Of every evaluator its `Summary` by policy; `LOGGER_JOB`: of rewards."""
        if self.counts is None:
            raise ValueError("no round has a positive weight. Check sample_weight.")
        return {name: self._summaries(name) for name in self.evaluators}

    def _summaries(self, name):
        found = {policy: self._summary(name, policy) for policy in self.policies}
        # the logged rewards are in every design but those of rounds that are left out
        used = [self.sums.joint_of((name, policy, None)) for policy in self.policies]
        joints = [one for one in used if REWARD in one.places]
        joint = joints[0] if joints else self.sums.joint_of(REWARD)
        return found | {LOGGER_JOB: Summary(None, joint.of(REWARD), self.counts)}

    def _summary(self, name, policy):
        """Return the `Summary` of an evaluator on a policy."""
        evaluator = self.resolved.get((name, policy), self.evaluators[name])
        out = summary_of(self, evaluator, (name, policy, None))
        weighted = weighted_of(kind_of_sums(evaluator) or name, policy)
        if self.sums.joint_of(weighted) is not None:
            out.weighted = WeightedRounds(None, self.sums, weighted)
        return out

    def __add__(self, other):
        """Return the sums of both parts."""
        if not isinstance(other, PartSums):
            return NotImplemented
        names, policies = list(self.evaluators), self.policies
        if (names, policies) != (list(other.evaluators), other.policies):
            raise ValueError(
                "these sums are of different evaluators or policies, or in another "
                f"order: {names} on {list(policies)}, and {list(other.evaluators)} "
                f"on {list(other.policies)}. Name them in the same order in all "
                "parts."
            )
        n = self.n + other.n
        both = self.log is not None and other.log is not None
        log = self.log + other.log if both else None
        learned = _union(self.learned, other.learned)
        by = {
            name: _union(self.by.get(name, {}), other.by.get(name, {}))
            for name in [*self.by, *(one for one in other.by if one not in self.by)]
        }
        if self.counts is None or other.counts is None:
            out = copy(other if self.counts is None else self)
            out.n, out.log, out.by, out.learned = n, log, by, learned
            return out
        one, two = _apart(self, other), _apart(other, self)
        with beyond_floats():
            joints = {name: joint + two[name] for name, joint in one.items()}
            ends = _union(self.ends, other.ends)
        out = PartSums(
            n,
            policies,
            self.evaluators,
            self.counts + other.counts,
            SumsByDesign(joints),
            _union(self.tallies, other.tallies),
            ends,
            self.facts | other.facts,
            log,
            by,
            learned,
            self.resolved,
        )
        return out.bucketed() if out._has_too_many_groups else out

    def bucketed(self, n_buckets=N_BUCKETS):
        """Return the sums with hash buckets in place of groups."""
        # Clustered errors are right, for a bucket holds whole groups, and the size no
        # longer grows with the groups.
        out = copy(self)
        joints = {
            name: joint.bucketed(n_buckets) if joint.frame.n_buckets is None else joint
            for name, joint in self.sums.joints.items()
        }
        out.sums = SumsByDesign(joints)
        out.by = {
            name: {label: part.bucketed(n_buckets) for label, part in parts.items()}
            for name, parts in self.by.items()
        }
        return out

    @property
    def _has_too_many_groups(self):
        """Whether there are more groups than are told apart."""
        return any(
            joint.frame.clustered
            and joint.frame.n_buckets is None
            and len(joint.frame.clusters) > N_GROUPS
            for joint in self.sums.joints.values()
        )

    def to_table(self):
        """Return the sums as a dict of arrays, for numpy's or pyarrow's files."""
        return tables_of(self)

    @classmethod
    def from_table(cls, table, like):
        """Return the sums that `to_table` wrote."""
        evaluators = like.evaluators if isinstance(like, PartSums) else like
        bare = {name: bare_evaluator(one) for name, one in evaluators.items()}
        return sums_of_tables(table, bare, cls)

    def __radd__(self, other):
        """Return self for the 0 that `sum` begins with."""
        return self if other == 0 else NotImplemented


def _union(one, other):
    """Return the sums of two dicts; what one of them lacks is the other's."""
    out = dict(one)
    for key, part in other.items():
        out[key] = out[key] + part if key in out else part
    return out


def _apart(one, other):
    """Return the sums by design, of terms that are apart in the other apart, too."""
    # Rounds that an evaluator leaves out of one part alone have no place among the
    # terms of others: in the whole the sums stand apart.
    mine, others = one.sums.joints, other.sums.joints
    if all(
        name in others and joint.places.keys() == others[name].places.keys()
        for name, joint in mine.items()
    ):
        return mine
    place, jobs = {}, {}
    for part in (others, mine):
        for name, joint in part.items():
            for job in joint.places:
                if job != REWARD and place.get(job, ROUNDS) == ROUNDS:
                    place[job] = name
    for job, name in place.items():
        jobs.setdefault(name, []).append(job)
    out = {}
    for name, some in jobs.items():
        joint = one.sums.joint_of(some[0])
        # a frame has sums of the rewards of all rounds, which a part may do without
        theirs = others.get(name), mine.get(name)
        if all(joint and REWARD in joint.places for joint in theirs):
            some = [*some, REWARD]
        out[name] = joint.only(some)
    return out


def sums_of_part(
    policies,
    evaluators,
    logs,
    *,
    sources=None,
    n_total=None,
    shares=None,
    by=None,
    sample_weight=None,
    resolved=(),
):
    """Return the sums of policies by evaluators over a part of a log."""
    given = {"sources": sources, "n_total": n_total, "shares": shares}
    given["resolved"] = dict(resolved)
    if by is not None and len(logs):
        cells = Cells(logs, [by] if isinstance(by, str) else by)
        return _sums_by(cells, policies, evaluators, logs, given, sample_weight)
    return _sums_of_rounds(policies, evaluators, logs, sample_weight, **given)


def _sums_of_rounds(
    policies,
    evaluators,
    logs,
    sample_weight,
    sources,
    n_total,
    shares,
    resolved,
    about=True,
):
    """Return the sums, of the log itself only if it is asked for."""
    bare, bare_ones = (
        {key: bare_evaluator(one) for key, one in some.items()}
        for some in (evaluators, resolved)
    )
    part = Part(logs, plain_weights(logs, sample_weight, True)) if len(logs) else None
    log, learned = _of_the_log(policies, logs, part) if about else (None, {})
    if part is None or not part.n:
        about = {"log": log, "learned": learned, "resolved": bare_ones}
        return PartSums(len(logs), policies, bare, **about)
    whole = PartPass(part, policies, sources or {}, n_total, log)
    whole.resolved = {key: _ready(one, whole, key[0]) for key, one in resolved.items()}
    ready, facts = {}, LogFacts(None, in_parts=True, logs=logs)
    for name, evaluator in evaluators.items():
        evaluator._check_kind(logs)
        ready[name] = _ready(evaluator, whole, name)
        if not any(key[0] == name for key in whole.resolved):
            refuse_unstated_model(ready[name])
            ready[name] = resolved_for_parts(ready[name], facts)
        ready[name].check_logs(logs)
    _state_shares(part, shares, evaluators.values())
    with beyond_floats():
        for name, evaluator in ready.items():
            whole.enter(name, evaluator)
        whole.run()
    found = PartSums(
        len(logs),
        policies,
        bare,
        RoundCounts.of(part),
        whole.sums,
        whole.tallies,
        whole.ends,
        whole.facts,
        log,
        learned=learned,
        resolved=bare_ones,
    )
    whole.release()
    return found.bucketed() if found._has_too_many_groups else found


def _state_shares(part, shares, evaluators):
    """Tell a part the shares of the loggers in the whole log, where they enter."""
    logs = part.all_logs
    mixes = any(one.requires.mixes(logs) for one in evaluators)
    if mixes or (shares is not None and getattr(logs, "loggers", None) is not None):
        by_label = stated_shares(shares, logs)
        if len(by_label) > 1:
            part.shares = np.array(list(by_label.values()))


def numbers_of_part(stated, logs, name, policy):
    """Return w, pi, q and v of all rounds of a part; NaN for what there is not."""
    part = Part(logs, plain_weights(logs, None, True))
    about = stated.sources, stated.n_total, None
    whole = PartPass(part, {policy: stated.policies[policy]}, *about)
    evaluator = _ready(stated.evaluators[name], whole, name)
    _state_shares(part, stated.shares, [evaluator])
    source = evaluator.reward_model_ if evaluator.requires.model else None
    weight, none = weight_of(evaluator), np.full(len(logs), np.nan)

    def numbers(rounds):
        found = weight(rounds), rounds.pi, rounds.q, rounds.v
        return [none[: len(rounds.r)] if one is None else one for one in found]

    target, store = whole.target(policy), TermStore(len(logs))
    observers = [] if logs.loggers is None else [whole.loggers]
    run(logs, [Job(Extract(numbers), target, source, sums=store)], part, observers)
    return store.terms


def _sums_by(cells, policies, evaluators, logs, given, sample_weight):
    """Return the sums, and those by the labels of columns."""
    # Every policy is asked once per round: the sums of the cells, of rounds with the
    # same labels, add up to those of every label and to the whole.
    total, found = 0, {name: {} for name in cells.names}
    for labels, rows in cells:
        some = {name: _rows_of(one, rows, len(logs)) for name, one in policies.items()}
        weight = None if sample_weight is None else sample_weight[rows]
        part = logs[rows]
        part = _sums_of_rounds(some, evaluators, part, weight, about=False, **given)
        total = total + part
        for name, label in zip(cells.names, labels, strict=True):
            known = found[name]
            known[label] = known[label] + part if label in known else part
    part = Part(logs, plain_weights(logs, sample_weight, True))
    total = copy(total)  # of a single cell it is the part itself
    total.log, total.learned = _of_the_log(policies, logs, part)
    total.by = found
    return total


def _of_the_log(policies, logs, part):
    """Return what is known of the rounds themselves, and of what policies learned."""
    learned = {
        name: LearnedRounds.of(policy, logs, by_position=True)
        for name, policy in policies.items()
        if has_learned(policy)
    }
    if part is None or part.mask is None:
        return LogSums.of_all(logs), learned
    return LogSums.of(logs, part.logs), learned


def _rows_of(policy, rows, n):
    """Return the rows of a policy that is an array; another one as it is."""
    is_array = isinstance(policy, (np.ndarray, list, tuple))
    return np.asarray(policy)[rows] if is_array and len(policy) == n else policy


def _ready(evaluator, whole, name):
    """Return an evaluator that can be asked for its terms, as if it were fitted."""
    out, logs = copy(evaluator), whole.logs
    out.logs_ = logs
    if isinstance(logs, BanditLogs):
        out.actions_ = logs.actions
    else:
        out.n_slots_ = logs.n_slots
    if evaluator.requires.model:
        out._take_source(whole.source(name, evaluator))
    return out


# -- rounds with the same labels ------------------------------------------------------
class Cells:
    """Rounds that have the same labels in some columns."""

    def __init__(self, logs, names):
        self.names, self.labels, code = list(names), [], np.zeros(len(logs), np.intp)
        for name in self.names:
            labels, own = _labels_of(logs, name)
            self.labels.append(labels)
            code = code * len(labels) + own
        n_cells = prod(map(len, self.labels))
        self.found = np.arange(n_cells)
        if n_cells > 2 * len(code):
            self.found, code = np.unique(code, return_inverse=True)
        self.rows = rows_of_codes(code, len(self.found))

    def __iter__(self):
        for number, rows in zip(self.found.tolist(), self.rows, strict=True):
            if not len(rows):
                continue
            labels = []
            for some in reversed(self.labels):
                number, own = divmod(number, len(some))
                labels.append(some[own])
            yield labels[::-1], rows


def _labels_of(logs, name):
    """Return the distinct labels of a field or a column, and the code of each round."""
    values = labels_of(logs, name)
    if len(getattr(values, "shape", ())) > 1:
        raise ValueError(
            f"by={name!r} has {values.shape[1]} entries per round, and a part "
            "needs one label. Name a single column: scan_logs(..., "
            "columns=['day'])."
        )
    _, distinct, codes = coded_labels("by", values, copy=False)
    labels, place = factorise(distinct)
    return labels.tolist(), place[codes]


def partition_sums(stated, lazy, n_jobs=None, verbose=0):
    """Return the sums over all partitions of lazy logs."""
    found = sum_over(lazy, _sums_of, stated, n_jobs, verbose)
    if found is None:
        raise ValueError("the logs are empty: an estimate needs at least one round.")
    return found


def head_of(lazy):
    """Return a few rounds of lazy logs, with all that will be read."""
    head = lazy.head() if hasattr(lazy, "head") else None
    for _, logs in lazy.read() if head is None else ():
        if logs is not None:
            head = logs[:5]
            break
    if head is None or not len(head):
        raise ValueError("the logs are empty: an estimate needs at least one round.")
    return head


def sum_over(lazy, work, given=None, n_jobs=None, verbose=0):
    """Add up what `work(logs, given)` finds in all partitions that have rounds."""
    tasks = lazy._tasks(task_count(len(lazy.partitions)))
    return merge_parts(
        work, tasks, given, read=read_together, n_jobs=n_jobs, verbose=verbose
    )


def _sums_of(logs, stated):
    """Return the sums of a partition; None where it has no rounds."""
    return stated.sums_of(logs) if len(logs) else None


def logger_shares(logs, n_jobs=None):
    """Return the share of every logger in the sample weights of a log."""
    if logs.loggers is None or len(logs.loggers) == 1:
        return None
    if hasattr(logs, "partitions"):
        narrow = logs._needing(context=False, columns=[])
        masses = sum_over(narrow, _masses, n_jobs=n_jobs)
    else:
        masses = _masses(logs)
    total = sum(masses.values())
    return {label: masses[label] / total for label in logs.loggers.tolist()}


def _masses(logs, given=None):
    """Return the sample weight of every logger."""
    masses = np.bincount(logs.logger_index, logs.sample_weight, len(logs.loggers))
    return Counter(dict(zip(logs.loggers.tolist(), masses.tolist(), strict=True)))
