# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Which loggers need no propensities?
===================================

Without propensities a log can still answer, if the logger ignored the users. The rounds
of an action are then a random sample of all contexts [1]_. This script draws logs of
seven loggers with the same visitors. It evaluates one policy from these logs by
:class:`~skope_ope.ExplorationScavenging`. It counts how often the answer is right, and
how often a wrong one has a warning.

``--repetitions 500`` takes about three minutes.

.. [1] Langford, J., Strehl, A., & Wortman, J. (2008). Exploration scavenging. ICML.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np

from skope_ope import BanditLogs, ExplorationScavenging
from skope_ope.exceptions import ExplorationWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--repetitions", type=int, default=30)
parser.add_argument("--n-rounds", type=int, default=1_500)
args = parser.parse_known_args()[0]

# %%
# Visitors
# --------
#
# Half of them come by phone, half are young, and those by phone click more. One of
# three teasers suits each visitor, and the policy shows it. It is clicked in .1 + .2 +
# .4 of the visits by phone and in .1 + .4 of the others, .6 on average.

N, TRUTH = args.n_rounds, 0.6
ROWS = np.arange(N)


def visitors(rng, phones=0.5):
    """Return phone and youth of the visitors, the suiting teaser and click rates."""
    phone, young = rng.random(N) < phones, rng.random(N) < 0.5
    suits = phone.astype(int) + young
    rates = 0.1 + 0.2 * phone[:, None] + 0.4 * np.eye(3)[suits]
    return np.column_stack([phone, young]).astype(float), suits, rates


def draw(rng, proba):
    """Return an action of every row of probabilities."""
    return (rng.random((len(proba), 1)) > proba.cumsum(axis=1)[:, :-1]).sum(axis=1)


# %%
# Loggers
# -------
#
# Each takes the visitors' contexts and whether they would click on each teaser.


def in_turn(rng, x, would_click):
    return ROWS % 3


def at_random(rng, x, would_click):
    return draw(rng, np.tile([0.5, 0.3, 0.2], (N, 1)))


def learns(rng, x, would_click):
    """The teaser of the best click rate so far, a random one in 3 of 10 rounds."""
    clicks, shown = np.ones(3), np.full(3, 2.0)
    action, random = rng.integers(3, size=N), rng.random(N) < 0.3
    for t in ROWS:
        if not random[t]:
            action[t] = np.argmax(clicks / shown)
        clicks[action[t]] += would_click[t, action[t]]
        shown[action[t]] += 1
    return action


def by_device(rng, x, would_click):
    return draw(rng, np.array([[0.6, 0.2, 0.2], [0.2, 0.2, 0.6]])[x[:, 0].astype(int)])


def by_everything(rng, x, would_click):
    return draw(rng, (0.3 + np.eye(3)[x.sum(axis=1).astype(int)]) / 1.9)


def one_by_one(rng, x, would_click):
    return 3 * ROWS // N


EVEN, MORE_PHONES = 0.5, np.linspace(0.1, 0.9, N)  # share of phones, over time
LOGGERS = {  # logger, share of phones, strata, whether scavenging is right
    "in turn": (in_turn, EVEN, None, True),
    "at random": (at_random, EVEN, None, True),
    "learns from the past": (learns, EVEN, None, True),
    "by device, strata": (by_device, EVEN, "phone", True),
    "by device": (by_device, EVEN, None, False),
    "by the whole context": (by_everything, EVEN, None, False),
    "one by one, visitors change": (one_by_one, MORE_PHONES, None, False),
}


def repeat(name, seed):
    """Draw one log; return value, error, whether covered, width, whether told."""
    logger, phones, strata, _ = LOGGERS[name]
    rng = np.random.default_rng(seed)
    x, suits, rates = visitors(rng, phones)
    would_click = rng.random((N, 3)) < rates
    action = logger(rng, x, would_click)
    logs = BanditLogs(x, action, would_click[ROWS, action], actions=range(3))
    logs = logs.with_columns(phone=x[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator = ExplorationScavenging(strata=strata).fit(logs)
        value = evaluator.evaluate(np.eye(3)[suits])
        low, high = value.confidence_interval()
    told = any(isinstance(one, ExplorationWarning) for one in value.warnings)
    return value.value, value.standard_error, low <= TRUTH <= high, high - low, told


# %%
# What they say
# -------------

found = {}
columns = ("mean", "spread", "error", "covers", "width", "told")
print(f"{'truth .6':28}" + "".join(f"{column:>8}" for column in columns))
for name in LOGGERS:
    drawn = np.array([repeat(name, seed) for seed in range(args.repetitions)])
    found[name] = drawn
    value, *others = drawn.mean(axis=0)
    cells = value, drawn[:, 0].std(ddof=1), *others
    print(f"{name:28}" + "".join(f"{cell:8.3f}" for cell in cells))

figure, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
for row, (name, drawn) in enumerate(found.items()):
    colour = "C0" if LOGGERS[name][3] else "C3"
    ax.plot(drawn[:, 0], np.full(len(drawn), row), "|", color=colour, markersize=14)
ax.axvline(TRUTH, color="black", linestyle=":")
ax.set_yticks(range(len(found)), list(found))
ax.invert_yaxis()
ax.set(xlabel="estimated value of one log each; dotted: the truth")

# %%
# What to take from it
# --------------------
#
# - A logger may take turns, draw at random or learn from the past. If it ignores the
#   visitor, you need no propensities.
# - If it uses one field that is in the log, ``strata`` compares like with like.
# - If it uses more, the answer is wrong. An
#   :class:`~skope_ope.exceptions.ExplorationWarning` says that the context predicts the
#   actions. Use :class:`~skope_ope.PropensityEstimator` for such logs. For the logger
#   that uses the whole context, the value leaves the range of the rewards, and its
#   interval is that range.
# - If teasers were shown one after the other, nobody used the context, and yet the
#   answer is wrong: the visitors had changed. Take turns often.
#
# The script checks these statements at its end.

for name, drawn in found.items():
    value, error, covers, width, told = drawn.T
    bound = 4 * value.std(ddof=1) / np.sqrt(len(value))
    if LOGGERS[name][3]:
        assert abs(value.mean() - TRUTH) < bound
        assert covers.mean() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / len(covers))
        assert told.mean() < 0.05
    else:
        assert abs(value.mean() - TRUTH) > bound
        assert covers.mean() < 0.6 or width.min() == 1  # the whole range
        assert told.mean() > 0.95
