# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How many rounds a lazy frame has, by logger and action."""

from dataclasses import dataclass

import numpy as np

from skope_ope.evaluators._columns import label_known
from skope_ope.evaluators._frame_query import FrameQuery
from skope_ope.logs._validation import plain


@dataclass
class FrameCounts:
    """Numbers of rounds, by logger and action.

    Attributes
    ----------
    n_logged, n : int
        Number of rounds, and of those that weigh something.
    actions : list
        Labels.
    loggers : list or None
        Labels; None where the frame tells none.
    counts, mass : ndarray of shape (n_loggers, n_actions)
        Numbers of rounds that weigh something, and their weights.
    """

    n_logged: int
    n: int
    actions: list
    loggers: list | None
    counts: np.ndarray
    mass: np.ndarray

    @property
    def shares(self):
        """Share of every logger in the rounds, a dict."""
        mass = self.mass.sum(axis=1)
        return dict(zip(self.loggers or [None], mass / mass.sum(), strict=True))

    def lacking(self, each=False):
        """Return the codes of actions that nobody took, or that some logger did not."""
        never = self.counts == 0
        return np.flatnonzero((never.any if each else never.all)(axis=0)).tolist()


def counts_of(lazy):
    """Return the `FrameCounts` of lazy logs that are a frame."""
    query, roles = FrameQuery(lazy.frame), lazy.roles
    names = {role: roles[role][0] for role in ("logger", "action") if roles.get(role)}
    keys = []
    for role, name in names.items():
        keys.append(query.label(name, role))
        query.check(label_known(keys[-1]), f"column {name!r}: {role} is missing")
    asking, weight = query.asking(), None
    if roles.get("sample_weight"):
        omega = query.number(roles["sample_weight"][0], "sample_weight")
        weight = asking.sum(omega), asking.sum((omega > 0).astype(float))
    answers = asking.run(keys)
    codes, labels = [], {}
    for role, found in zip(names, answers.keys, strict=True):
        codes.append(_codes(found, getattr(lazy, f"{role}s"), names[role], role))
        labels[role] = codes[-1].labels
    loggers = labels.get("logger")
    shape = len(loggers or [None]), len(labels["action"])
    place = codes[-1].codes
    if loggers:
        place = codes[0].codes * shape[1] + place
    mass, n = (answers.n, answers.n) if weight is None else map(answers.of, weight)
    by = [
        np.bincount(place, values, shape[0] * shape[1]).reshape(shape)
        for values in (n, mass)
    ]
    if not n.sum() > 0:
        raise ValueError("no round of the lazy frame has a positive sample weight.")
    return FrameCounts(
        int(answers.n.sum()), int(n.sum()), labels["action"], loggers, *by
    )


@dataclass
class _Codes:
    labels: list
    codes: np.ndarray


def _codes(found, stated, name, role):
    """Return the codes of labels among those that were stated, or found."""
    found = [plain(label) for label in found.tolist()]
    if stated is None:
        try:
            labels = sorted(set(found))
        except TypeError:
            labels = list(dict.fromkeys(found))
    else:
        labels = [plain(label) for label in stated.tolist()]
        unknown = [label for label in found if label not in labels]
        if unknown:
            raise ValueError(
                f"column {name!r}: {role} {unknown[0]!r} is none of the {len(labels)} "
                f"{role}s that were stated"
                f"{f', nor are {len(unknown) - 1} others' * (len(unknown) > 1)}."
            )
    place = {label: k for k, label in enumerate(labels)}
    return _Codes(labels, np.array([place[label] for label in found], dtype=np.intp))
