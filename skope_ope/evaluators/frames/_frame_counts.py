# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How many rounds a lazy frame has, by logger and action."""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from skope_ope.evaluators.frames._frame_query import FrameQuery
from skope_ope.logs._validation import plain
from skope_ope.logs.lazy._lazy_labels import refuse_missing


@dataclass
class FrameCounts:
    """Numbers of rounds, by logger and action."""

    n_logged: int  # number of rounds, and of those that weigh something
    n: int  # number of rounds, and of those that weigh something
    actions: list  # labels
    loggers: list | None  # labels; None where the frame tells none
    counts: np.ndarray  # numbers of rounds that weigh something, and their weights
    mass: np.ndarray  # numbers of rounds that weigh something, and their weights
    # Smallest and largest propensities; None where none are recorded
    lowest: np.ndarray | None = None
    # Smallest and largest propensities; None where none are recorded
    highest: np.ndarray | None = None

    @property
    def _propensity_by_action(self):
        """The propensity of every action where it belongs to the action alone."""
        if self.lowest is None:
            return None
        seen = self.counts.sum(axis=0) > 0
        low, high = self.lowest.min(axis=0), self.highest.max(axis=0)
        if not (low[seen] == high[seen]).all():
            return None
        return np.where(seen, low, 0.0)

    @property
    def shares(self):
        """Share of every logger in the rounds, a dict."""
        mass = self.mass.sum(axis=1)
        return dict(zip(self.loggers or [None], mass / mass.sum(), strict=True))

    def lacking(self, each=False):
        """Return the codes of actions that nobody took, or that some logger did not."""
        never = self.counts == 0
        return np.flatnonzero((never.any if each else never.all)(axis=0)).tolist()


def counts_of(lazy, by=None, with_propensity=False):
    """Return the `FrameCounts` of lazy logs that are a frame."""
    query, roles = FrameQuery(lazy.frame), lazy.roles
    names = {role: roles[role][0] for role in ("logger", "action") if roles.get(role)}
    keys = [query.label(name, role) for role, name in names.items()]
    asking, weight = query.asking(), None
    if roles.get("sample_weight"):
        omega = query.number(roles["sample_weight"][0], "sample_weight")
        weight = asking.sum((omega > 0).astype(float)), asking.sum(omega)
    ends = None
    if with_propensity and roles.get("propensity"):
        p = query.number(roles["propensity"][0], "propensity")
        ends = asking.least(p), asking.largest(p)
    first = [] if by is None else [query.label(by, f"by={by!r}", again=True)]
    answers = asking.run([*first, *keys])
    for role, found in zip([*first, *names], answers.keys, strict=True):
        n = answers.n.astype(np.int64)
        refuse_missing(role, names.get(role, by), found.tolist(), n)
    parts = {None: answers} if by is None else answers.by_first_key()
    labels = {
        role: _labels(found, getattr(lazy, f"{role}s"), names[role], role)
        for role, found in zip(names, answers.keys[len(first) :], strict=True)
    }
    out = {label: _counts(part, labels, weight, ends) for label, part in parts.items()}
    if by is not None:
        return out
    stated = lazy._reading.stated.get("propensity")
    if stated is not None:
        shape = out[None].counts.shape
        out[None].lowest = out[None].highest = np.full(shape, stated)
    return out[None]


def _counts(answers, labels, weight, ends):
    """Return the `FrameCounts` of answers by logger, if any, and action."""
    place = np.zeros(len(answers), dtype=np.intp)
    for known, found in zip(labels.values(), answers.keys, strict=True):
        position = {label: k for k, label in enumerate(known)}
        codes = [position[plain(label)] for label in found.tolist()]
        place = place * len(known) + np.array(codes, dtype=np.intp)
    loggers, actions = labels.get("logger"), labels["action"]
    shape = len(loggers or [None]), len(actions)
    n, mass = (answers.n, answers.n) if weight is None else map(answers.of, weight)
    tables = [
        np.bincount(place, values, shape[0] * shape[1]).reshape(shape)
        for values in (n, mass)
    ]
    about = int(answers.n.sum()), int(n.sum())
    if ends is not None:
        low, high = np.full((2, shape[0] * shape[1]), [[np.inf], [-np.inf]])
        np.fmin.at(low, place, answers.of(ends[0]))
        np.fmax.at(high, place, answers.of(ends[1]))
        tables += [low.reshape(shape), high.reshape(shape)]
    return FrameCounts(*about, actions, loggers, *tables)


def _labels(found, stated, name, role):
    """Return the labels that were stated, or found, a list."""
    found = list(dict.fromkeys(plain(label) for label in found.tolist()))
    if stated is None:
        with suppress(TypeError):  # labels of several kinds stay as they appear
            found = sorted(found)
        return found
    labels = [plain(label) for label in stated.tolist()]
    unknown = [label for label in found if label not in set(labels)]
    if unknown:
        raise ValueError(
            f"column {name!r}: {role} {unknown[0]!r} is not among the "
            f"{len(labels)} {role}s that you "
            f"named{f', nor are {len(unknown) - 1} others' * (len(unknown) > 1)}. "
            "Name all of them, or none."
        )
    return labels
