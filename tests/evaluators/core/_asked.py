# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What several tests ask of public calls."""

import pickle
import warnings

import numpy as np

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    UniformPolicy,
    UniformSlatePolicy,
    compare_policies,
)
from tests._worlds import d8, d8_logs

D8 = d8()
D8_LOGS = d8_logs().with_columns(half=np.repeat(["early", "late"], 4))
EVALUATORS = [
    IPS(),
    IPS(cmax=2.0),
    SNIPS(),
    SNDR(reward_model="q_hat"),
    DoublyRobust(reward_model="q_hat"),
    DirectMethod(reward_model="q_hat"),
]


def bare_logs(action, reward, propensity=None, **fields):
    """Logs without a context that could matter; a number stands for all rounds."""
    n = len(action)
    given = reward, propensity
    reward, p = ([one] * n if isinstance(one, float) else one for one in given)
    return BanditLogs(np.zeros((n, 1)), action, reward, p, **fields)


# nobody ever took the third of the actions
NEVER = bare_logs(
    np.arange(400) % 2, np.random.RandomState(0).rand(400), 0.5, actions=[0, 1, 2]
)


def world(n=300, offset=0.0, weighted=False, **fields):
    """Rounds of four groups, with a policy and predictions as columns."""
    rng = np.random.RandomState(0)
    mu = 0.6 * rng.dirichlet(np.ones(3), n) + 0.4 / 3
    pi = 0.6 * rng.dirichlet(np.ones(3), n) + 0.4 / 3
    action = rng.randint(3, size=n)
    about = rng.normal(size=(n, 2)), action, offset + rng.normal(size=n)
    omega = rng.random_sample(n) + 0.5 if weighted else None
    fields = {"sample_weight": omega, "group": rng.randint(4, size=n)} | fields
    logs = BanditLogs(*about, mu[np.arange(n), action], **fields)
    return logs.with_columns(pi=pi, q_hat=offset + rng.normal(size=(n, 3)))


def quietly(call, *args, **given):
    """The answer of a call, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **given)


def value_of(evaluator, logs, policy="pi", **given):
    """The value of a policy, in silence."""
    return quietly(lambda: evaluator.fit(logs).evaluate(policy, **given))


def interval_of(value, *args, **given):
    """Its confidence interval, in silence."""
    return quietly(value.confidence_interval, *args, **given)


def by_pickle(one):
    """What comes back from a pickle."""
    return pickle.loads(pickle.dumps(one))


def logged_value(logs):
    """The mean reward of the logs, which comparisons with the logger subtract."""
    policy, evaluator = UniformPolicy(), IPS()
    if hasattr(logs, "n_slots"):
        policy, evaluator = UniformSlatePolicy(logs.n_slots), None
    found = quietly(compare_policies, {"one": policy}, logs, evaluator=evaluator)
    return found.reference
