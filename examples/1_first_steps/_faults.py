# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
What the example on audits plants: faults in logs of a softmax logger
=====================================================================

A log is a `SimpleNamespace` of arrays of a row each before it becomes `BanditLogs`:
``fields`` (the arguments of `BanditLogs`), ``mu`` and ``logits`` (the logger's), ``q``
(the expected reward of every action) and ``pi`` (a policy that shares its support with
the logger). A fault changes the arrays as broken software or a broken join would.
"""

from types import SimpleNamespace

import numpy as np

from skope_ope import BanditLogs

N_FEATURES, N_ACTIONS = 4, 4
RATES = 0.05, 0.55  # of rewards, of the worst and of the best action


def softmax(logits):
    """Probabilities of every row."""
    proba = np.exp(logits - logits.max(axis=1, keepdims=True))
    return proba / proba.sum(axis=1, keepdims=True)


def drawn(proba, rng):
    """An action of every row."""
    below = proba.cumsum(axis=1) < rng.random((len(proba), 1))
    return np.minimum(below.sum(axis=1), proba.shape[1] - 1)


def taken(table, action):
    """The entry of the action of every row."""
    return table[np.arange(len(table)), action]


def policy_of(logits):
    """A policy a little sharper than the logger: no weight is large."""
    return softmax(1.2 * logits)


def softmax_log(n_rounds, seed, scale=1.0, n_actions=N_ACTIONS):
    """A right log of a softmax logger with continuous contexts.

    Every seed has a logger and rewards of its own. Logits have a standard deviation of
    about `scale`; a reward of 0 or 1 depends on context and action.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rounds, N_FEATURES))
    size = N_FEATURES, n_actions
    logits = scale * x @ rng.normal(scale=N_FEATURES**-0.5, size=size)
    score = x @ rng.normal(scale=0.5 * N_FEATURES**-0.5, size=size)
    rate = rng.permutation(np.linspace(*RATES, n_actions))
    q = 1 / (1 + np.exp(-score - np.log(rate / (1 - rate))))
    return log_of(x, logits, q, rng)


def log_of(x, logits, q, rng, mu=None):
    """Draw actions by `mu` (softmax of the logits), rewards of 0 and 1 by `q`."""
    mu = softmax(logits) if mu is None else mu
    action = drawn(mu, rng)
    reward = (rng.random(len(x)) < taken(q, action)).astype(float)
    fields = {
        "context": x,
        "action": action,
        "reward": reward,
        "propensity": taken(mu, action),
    }
    return SimpleNamespace(
        fields=fields, mu=mu, logits=logits, q=q, pi=policy_of(logits)
    )


def keep(log, rows):
    """Keep some rows, in this order."""
    log.fields = {name: value[rows] for name, value in log.fields.items()}
    for name in ("mu", "logits", "q", "pi"):
        setattr(log, name, getattr(log, name)[rows])


# Faults


def _another_action(log, rng):
    """The propensity of the next action in the list."""
    shifted = (log.fields["action"] + 1) % log.mu.shape[1]
    log.fields["propensity"] = taken(log.mu, shifted)


def _of_the_argmax(log, rng):
    """The largest probability of the round, whatever was drawn."""
    log.fields["propensity"] = log.mu.max(axis=1)


def _shuffled(log, rng):
    """Propensities in another order than the rounds."""
    log.fields["propensity"] = rng.permutation(log.fields["propensity"])


def _stale(log, rng):
    """Propensities of the logger before its last training.

    Its weights have moved since: logits of old and new correlate by .8.
    """
    x = log.fields["context"]
    moved = rng.normal(scale=N_FEATURES**-0.5, size=(N_FEATURES, log.mu.shape[1]))
    before = 0.8 * log.logits + 0.6 * log.logits.std() * (x @ moved)
    log.fields["propensity"] = taken(softmax(before), log.fields["action"])


def _branches_swapped(log, rng):
    """The logger draws by a rule of two columns, whose branches are in another order.

    Propensities are wrong where both conditions hold, in a tenth of the rounds.
    """
    first, second = (log.fields["context"][:, j] > 0.5 for j in (0, 1))
    rule = np.array([[0.1, 0.3, 0.3, 0.3], [0.4, 0.4, 0.1, 0.1], [0.55] + 3 * [0.15]])
    mu = rule[np.where(first, 0, np.where(second, 1, 2))]
    vars(log).update(vars(log_of(log.fields["context"], np.log(mu), log.q, rng, mu)))
    recorded = rule[np.where(second, 1, np.where(first, 0, 2))]
    log.fields["propensity"] = taken(recorded, log.fields["action"])


def _times(log, rng):
    """All propensities times .9."""
    log.fields["propensity"] = 0.9 * log.fields["propensity"]


def _clipped(log, rng):
    """Propensities below .2 were written down as .2."""
    log.fields["propensity"] = np.maximum(log.fields["propensity"], 0.2)


def _uniform_claimed(log, rng):
    """1/K written down for a logger that is not uniform."""
    log.fields["propensity"] = np.full(len(log.mu), 1 / log.mu.shape[1])


def _minus_log(log, rng):
    """-log p in the place of p; the constructor refuses values above one."""
    log.fields["propensity"] = -np.log(log.fields["propensity"])


def _argmax_action(log, rng):
    """The most probable action was written down, not the one that was drawn.

    The propensity is that of the action written down; the reward is of the drawn one.
    """
    log.fields["action"] = log.mu.argmax(axis=1)
    log.fields["propensity"] = log.mu.max(axis=1)


def _action_dropped(log, rng):
    """All rounds of the last action are missing; nothing says that there was one."""
    keep(log, np.flatnonzero(log.fields["action"] < log.mu.shape[1] - 1))
    log.pi = policy_of(log.logits[:, :-1])


def _kept_by_reward(log, rng):
    """All rewarded rounds were kept, of the others one in ten."""
    rewarded = log.fields["reward"] > 0
    keep(log, np.flatnonzero(rewarded | (rng.random(len(rewarded)) < 0.1)))


def _temperature(factor):
    def fault(log, rng):
        proba = softmax(log.logits / factor)
        log.fields["propensity"] = taken(proba, log.fields["action"])

    fault.__doc__ = f"Propensities of {factor} times the temperature."
    return fault


def _repeated(share):
    def fault(log, rng):
        n_rounds = len(log.mu)
        again = rng.choice(n_rounds, int(share * n_rounds), replace=False)
        keep(log, rng.permutation(np.append(np.arange(n_rounds), again)))

    fault.__doc__ = f"A share of {share} of the rounds is there twice."
    return fault


def _leaked(name):
    def fault(log, rng):
        column = log.fields[name]
        log.fields["context"] = np.column_stack([log.fields["context"], column])

    fault.__doc__ = f"The {name} is a column of the context."
    return fault


def _rate_doubled(log, rng):
    """The expected reward of every action doubles evenly from first to last round."""
    n_rounds = len(log.mu)
    rate = taken(log.q, log.fields["action"]) * np.linspace(2 / 3, 4 / 3, n_rounds)
    log.fields["reward"] = (rng.random(n_rounds) < rate).astype(float)


def _trailing_zeros(log, rng):
    """The rewards of the last rounds have not come yet: nine are missing or more."""
    n_rounds = len(log.mu)
    reward = log.fields["reward"].copy()
    last = int(np.ceil(max(9 / reward.mean(), n_rounds / 100)))
    reward[-last:] = 0
    log.fields["reward"] = reward


def _shifted_contexts(log, rng):
    """Every round has the context of the round before it."""
    log.fields["context"] = np.roll(log.fields["context"], 1, axis=0)


def _actions_renamed(log, rng):
    """The columns of `logging_proba` are in another order than the labels.

    A renaming of actions and propensities alike leaves no trace, and no harm.
    """
    del log.fields["propensity"]
    log.fields["logging_proba"] = np.roll(log.mu, 1, axis=1)


def _constant_weight(log, rng):
    """The policy's probability of the logged action is .8 of the propensity.

    As if it had been made from the propensities. No policy that looks at the context
    alone does this, unless it is the logger itself.
    """
    own = 0.8 * log.fields["propensity"]
    rest = (1 - own) / (log.mu.shape[1] - 1)
    log.pi = np.repeat(rest[:, None], log.mu.shape[1], axis=1)
    log.pi[np.arange(len(own)), log.fields["action"]] = own


def _copied_action(log, rng):
    """The policy takes the logged action in every round."""
    log.pi = np.eye(log.mu.shape[1])[log.fields["action"]]


# What a log cannot show, or not for long


def _hidden_confounder(log, rng):
    """Logger and rewards depend on something that is not in the log.

    The propensity is right on average over it, as one estimated from the context is.
    """
    n_rounds = len(log.mu)
    hidden = rng.integers(0, 2, n_rounds)
    pull = np.zeros(log.mu.shape[1])
    pull[0] = 1.5
    both = [softmax(log.logits + side * pull) for side in (-1, 1)]
    action = drawn(np.where(hidden[:, None], both[1], both[0]), rng)
    rate = taken(log.q, action) * np.where(hidden, 1.5, 0.5)
    log.fields["action"] = action
    log.fields["reward"] = (rng.random(n_rounds) < rate).astype(float)
    log.fields["propensity"] = taken((both[0] + both[1]) / 2, action)


def _rewards_permuted(log, rng):
    """Rewards of other rounds."""
    log.fields["reward"] = rng.permutation(log.fields["reward"])


def _wrong_labels(log, rng):
    """A uniform logger's actions, some other label written down for each."""
    n_rounds, n_actions = log.mu.shape
    log.fields["action"] = rng.integers(0, n_actions, n_rounds)
    log.fields["propensity"] = np.full(n_rounds, 1 / n_actions)


def _rewarded_dropped(log, rng):
    """Half of the rewarded rounds are missing, whatever their action; rates are even.

    Every action is rewarded as often as every other, so the actions tell nothing.
    """
    rewarded = rng.random(len(log.mu)) < np.mean(RATES)
    log.fields["reward"] = rewarded.astype(float)
    keep(log, np.flatnonzero(~rewarded | (rng.random(len(rewarded)) < 0.5)))


def _discrete_repeats(log, rng):
    """20% of the rounds are there twice; contexts are four binary columns."""
    x = (log.fields["context"] > 0).astype(float)
    rebuilt = log_of(x, 2 * (x - 0.5) @ rng.normal(size=(N_FEATURES, 4)), log.q, rng)
    vars(log).update(vars(rebuilt))
    _repeated(0.2)(log, rng)


def _slow_drift(log, rng):
    """Reward rates rise from 7% below their mean to 7% above it."""
    n_rounds = len(log.mu)
    rate = taken(log.q, log.fields["action"]) * np.linspace(0.93, 1.07, n_rounds)
    log.fields["reward"] = (rng.random(n_rounds) < rate).astype(float)


def _few_percent(log, rng):
    """All propensities times .97: less than what counts as an effect."""
    log.fields["propensity"] = 0.97 * log.fields["propensity"]


FAULTS = {
    "propensity of another action": _another_action,
    "propensity of the argmax": _of_the_argmax,
    "propensities shuffled": _shuffled,
    "propensities stale": _stale,
    "branches of a rule swapped": _branches_swapped,
    "propensities times .9": _times,
    "propensities clipped at .2": _clipped,
    "1/K claimed": _uniform_claimed,
    "-log p": _minus_log,
    "argmax action": _argmax_action,
    "an action dropped": _action_dropped,
    "rounds kept by reward": _kept_by_reward,
    "temperature halved": _temperature(0.5),
    "temperature doubled": _temperature(2),
    "all rounds repeated": _repeated(1.0),
    "20% of the rounds repeated": _repeated(0.2),
    "reward in the context": _leaked("reward"),
    "action in the context": _leaked("action"),
    "reward rate doubled": _rate_doubled,
    "trailing zeros": _trailing_zeros,
    "contexts shifted by a row": _shifted_contexts,
    "actions renamed": _actions_renamed,
    "constant weight": _constant_weight,
    "policy copied the action": _copied_action,
}

# The cheapest call that tells of a fault in at least 95% of the logs, whatever the
# policy is, for `evaluate` sees much by the weights of a policy.
SEEN_BY = dict.fromkeys(FAULTS, "audit") | {
    "-log p": "BanditLogs",
    "propensity of another action": "evaluate",
    "propensity of the argmax": "evaluate",
    "propensities clipped at .2": "evaluate",
    "argmax action": "evaluate",
    "temperature halved": "evaluate",
    "actions renamed": "evaluate",
    "constant weight": "evaluate",
    "policy copied the action": "evaluate",
}

UNSEEN = {
    "hidden confounder": _hidden_confounder,
    "rewards permuted": _rewards_permuted,
    "uniform logger, wrong labels": _wrong_labels,
    "rewarded rounds dropped": _rewarded_dropped,
    "repeats of discrete contexts": _discrete_repeats,
    "slow drift of 15%": _slow_drift,
    "propensities times .97": _few_percent,
}


def faulty(name, n_rounds, seed, scale=1.0):
    """Return logs with a fault, and a policy as an array of a row each.

    Raises
    ------
    ValueError
        Where the constructor sees the fault.
    """
    log = softmax_log(n_rounds, seed, scale)
    {**FAULTS, **UNSEEN}[name](log, np.random.default_rng([seed, 1]))
    return BanditLogs(**log.fields), log.pi
