# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Worlds whose slates are all logged once, weighted by their probability."""

import warnings
from itertools import permutations, product

import numpy as np

from skope_ope import PlackettLuceSlatePolicy, SlateLogs, UniformSlatePolicy
from skope_ope.exceptions import OPEWarning
from skope_ope.policies import EmpiricalSlatePolicy, ProductSlatePolicy
from tests.policies._slate_worlds import distribution_by_formula, enumerated_moments


def showed(slate, reward=None, **fields):
    """Logs of slates whose contexts tell nothing."""
    return SlateLogs(np.zeros((len(slate), 1)), slate, reward, **fields)


def rankings(n_slots, n_candidates):
    """All slates without repetition, (n_slates, n_slots)."""
    return np.array(list(permutations(range(n_candidates), n_slots)))


def products(n_slots, n_candidates):
    """All slates with repetition, (n_slates, n_slots)."""
    return np.array(list(product(range(n_candidates), repeat=n_slots)))


def world(logger, slates, reward, n_candidates, **fields):
    """Logs of all slates that the logger may show, and their probabilities."""
    reward = np.broadcast_to(reward, len(slates)).astype(float)
    fields |= {"n_candidates": n_candidates, "logging_policy": logger}
    logs = showed(slates, reward, **fields)
    proba = logger.slate_proba(logs)
    known = distribution_by_formula(logger, logs[:1], logs.slate)
    if known is not None:
        np.testing.assert_allclose(proba, known[0], rtol=0, atol=1e-15)
    assert abs(proba.sum() - 1) < 1e-12
    rows = proba > 0
    return logs[rows], proba[rows]


def showing(logs, slates, reward=None, **fields):
    """The same rounds with other slates."""
    given = {"n_candidates": logs.n_candidates, "group": logs.group, **fields}
    if logs.candidates is not None:
        given |= {"candidates": logs.candidates, "n_candidates": None}
    reward = np.zeros(len(logs)) if reward is None else reward
    return SlateLogs(logs.context, slates, reward, **given).with_columns(**logs.columns)


def additive(slates, phi):
    """Values of slates as sums over slots."""
    return np.asarray(phi)[np.arange(slates.shape[1]), slates].sum(axis=1)


def golden_logs(**fields):
    """Five rankings of two of three, of a logger that draws them alike."""
    golden = {"slate": [[2, 0], [2, 1], [0, 2], [1, 0], [0, 1]], "n_candidates": 3}
    golden |= {"reward": [1, 0.5, 0, 1, 0.25], "logging_policy": UniformSlatePolicy(2)}
    return showed(**golden | fields)


def range_logs(n_candidates=3, rows=(0, 1, 2)):
    """Three slates that tell of one more, and of no candidate beside their two."""
    slates, rows = np.array([[0, 0], [1, 0], [0, 1]]), list(rows)
    known = {"logging_policy": EmpiricalSlatePolicy(slates)}
    known["n_candidates"] = n_candidates
    return showed(slates[rows], np.array([1.0, 0.2, 0.4])[rows], **known)


# no slot is always filled: by the logger, or by the policy, a list of slates
EMPTY_WORLDS = {
    "list": (EmpiricalSlatePolicy([[0, -1], [-1, 1], [1, 0]]), [[0, 1]]),
    "constant": (EmpiricalSlatePolicy([[0, -1], [-1, 1]]), [[0, 1]]),
    "weights": (PlackettLuceSlatePolicy([3.0, 1.0], 2), [[-1, -1], [0, 1], [1, 0]]),
    "uniform": (UniformSlatePolicy(2), [[-1, -1], [0, 1], [1, 0]]),
    "product": (ProductSlatePolicy(np.full((2, 2), 0.5)), [[-1, -1], [1, 0]]),
}


def empty_world(name):
    """Logs and their probabilities, a policy, and its value by enumeration."""
    logger, slates = EMPTY_WORLDS[name]
    phi = np.array([[0.3, 0.7], [0.2, 0.4]])

    def value(slates):
        return np.where(slates < 0, 0.0, phi[np.arange(2), slates]).sum(axis=1)

    every = np.array(list(product((-1, 0, 1), repeat=2)))
    logs, proba = world(logger, every, value(every), 2)
    return logs, proba, EmpiricalSlatePolicy(slates), value(np.array(slates)).mean()


def quietly(evaluator, target, logs, sample_weight=None):
    """Value without the warnings that small worlds deserve."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return evaluator.fit(logs).evaluate(target, sample_weight=sample_weight)


def marginals_of(target, logs):
    """Slot marginals of slates, of a table or of a policy."""
    if hasattr(target, "slot_marginals"):
        return target.slot_marginals(logs)
    target = np.asarray(target)
    if target.ndim == 3:
        return target
    return (target[:, :, None] == np.arange(logs.max_candidates)).astype(float)


def solutions(logger, marginals, logs):
    r""":math:`\Gamma^+ q` with the second moments summed over all slates."""
    gamma, shape = enumerated_moments(logger, logs)[1], marginals.shape
    size = shape[1] * shape[2]
    inverse = np.linalg.pinv(gamma.reshape(-1, size, size), rcond=1e-10)
    return (inverse @ marginals.reshape(-1, size, 1)).reshape(shape)


def weights_by_enumeration(logger, marginals, logs):
    r""":math:`q^T \Gamma^+ 1_s`, see `solutions`."""
    shown = logs.slate[:, :, None] == np.arange(logs.max_candidates)
    return (solutions(logger, marginals, logs) * shown).sum(axis=(1, 2))


class Warned(dict):
    """Values of warnings by type and a part of the message."""

    def __getitem__(self, key):
        kind, text = key
        return next(v for (k, t), v in self.items() if k is kind and text in t)

    def __contains__(self, key):
        kind, text = key
        return any(k is kind and text in t for k, t in self.keys())


def warned(evaluator, target):
    """Evaluate, and return the value with all warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = evaluator.evaluate(target)
    messages = [w.message for w in caught]
    return result, Warned({(type(m), str(m)): m.value for m in messages})
