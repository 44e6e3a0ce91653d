# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
Who spends the time that a user waits?
======================================

Five stories from beginning to end, and the share of the processor time that each
package has in them:

- **frame to comparison**: a pandas frame with an action of texts, two classifiers, a
  logistic reward model, `compare_policies`;
- **csv to report**: a gzipped csv file, the shell's ``evaluate --report``;
- **search over q**: `OPESearchCV` of `DRns` around a boosted model;
- **policy search**: `OPESearchCV` of `ClassifierPolicy`, valued by doubly robust;
- **slates**: pages of a Plackett-Luce logger, a fitted reward model, `evaluate`.

A timer looks where the program is, once in a millisecond. The time since it looked
before goes to the innermost function of ours, unless that has called scikit-learn or a
reader of frames and files: then it is theirs. What numpy and scipy do for us is *ours*,
beside our own Python. Run it as ::

    python examples/5_benchmarks/bench_stories.py

At most 30% should be ours. What is asserted of each story leaves room for machines on
which scikit-learn or the disk is faster. ``--top 10`` lists our functions that take
most of the time, with their share.
"""

import argparse
import contextlib
import io
import signal
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from time import process_time

import numpy as np
from _measure import shell
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from skope_ope import (
    BanditLogs,
    ClassifierPolicy,
    DoublyRobust,
    DRns,
    EvaluatorScorer,
    OPESearchCV,
    PlackettLuceSlatePolicy,
    PolicyScorer,
    SlateLogs,
    UniformSlatePolicy,
    compare_policies,
    evaluate,
)
from skope_ope.reward_models import AdditiveSlateModel

# %%
# Where the program is
# --------------------

PACKAGES = {
    "skope_ope": "ours",
    "sklearn": "scikit-learn",
    "pandas": "frames and files",
    "pyarrow": "frames and files",
    "narwhals": "frames and files",
    "gzip": "frames and files",
    "csv": "frames and files",
    "json": "frames and files",
}
SHARES = ("scikit-learn", "frames and files", "ours")
AIM = 0.3  # of the time is ours, at most
LOOK = 0.001  # seconds of processor time between two looks
TIMER, SIGNAL = signal.ITIMER_PROF, signal.SIGPROF  # not on Windows


class Looks:
    """Processor time by who spends it, while the block runs.

    Attributes
    ----------
    shares : Counter
        Seconds by share; "the script" is what this script itself does.
    functions : Counter
        Seconds of ours by function.
    """

    def __init__(self):
        self.shares, self.functions = Counter(), Counter()

    def __enter__(self):
        self.before, self.handler = process_time(), signal.signal(SIGNAL, self._look)
        signal.setitimer(TIMER, LOOK, LOOK)
        return self

    def __exit__(self, *_):
        signal.setitimer(TIMER, 0)
        signal.signal(SIGNAL, self.handler)

    def _look(self, _, frame):
        now = process_time()
        self._note(frame, now - self.before)
        self.before = now

    def _note(self, frame, seconds):
        share, entered = "the script", "ours"
        while frame is not None:
            name = frame.f_globals.get("__name__", "")
            package = PACKAGES.get(name.partition(".")[0])
            if package == "ours":
                share = entered
                break
            entered, frame = package or entered, frame.f_back
        if frame is None:
            share = "the script" if entered == "ours" else entered
        self.shares[share] += seconds
        if share == "ours":
            self.functions[f"{name}.{frame.f_code.co_qualname}"] += seconds


# %%
# The stories
# -----------
# Each returns what is measured: data are made before.


def make_frame(n_rounds, n_features=10, n_actions=10, seed=0):
    """A frame as a user brings it: numbers, and the action as a text."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rounds, n_features))
    theta = rng.normal(size=(n_features, n_actions)) / np.sqrt(n_features)
    odds = np.exp(X @ theta)
    odds /= odds.sum(axis=1, keepdims=True)
    below = odds.cumsum(axis=1) < rng.random((n_rounds, 1))
    action = np.minimum(below.sum(axis=1), n_actions - 1)
    chance = 1 / (1 + np.exp(1 - (X * theta[:, ::-1].T[action]).sum(axis=1)))
    names = np.array([f"offer {k}" for k in range(n_actions)])
    return pd.DataFrame(
        {f"x{k}": X[:, k] for k in range(n_features)}
        | {
            "item": names[action],
            "click": (rng.random(n_rounds) < chance).astype(int),
            "p": odds[np.arange(n_rounds), action],
        }
    )


def from_frame(frame):
    """Return the logs of the frame."""
    context = [name for name in frame if name.startswith("x")]
    return BanditLogs.from_frame(
        frame, action="item", reward="click", propensity="p", context=context
    )


def frame_to_comparison(n_rounds, folder):
    frame = make_frame(n_rounds)

    def story():
        train, test = train_test_split(from_frame(frame), random_state=0)
        policies = {
            f"C={c}": ClassifierPolicy(LogisticRegression(C=c), epsilon=0.1).fit(train)
            for c in (0.01, 1.0)
        }
        evaluator = DoublyRobust(reward_model=LogisticRegression())
        print(compare_policies(policies, test, evaluator=evaluator))

    return story


def csv_to_report(n_rounds, folder):
    frame = make_frame(n_rounds)
    path = Path(folder) / "clicks.csv.gz"
    frame.to_csv(path, index=False)
    context = ",".join(name for name in frame if name.startswith("x"))
    roles = ["--action", "item", "--reward", "click", "--propensity", "p"]
    policies = ["--policy", "even=uniform", "--policy", "one=always:offer 1"]
    page = ["--report", str(Path(folder) / "report.html")]
    words = ["evaluate", str(path), *roles, "--context", context, *policies, *page]

    return lambda: shell(*words)


def search_over_q(n_rounds, folder):
    train, test = train_test_split(from_frame(make_frame(n_rounds)), random_state=0)
    policy = ClassifierPolicy(LogisticRegression(), epsilon=0.1).fit(train)

    def story():
        model = HistGradientBoostingRegressor(max_iter=10)
        OPESearchCV(
            DRns(reward_model=model),
            {"q": [0, 0.01, 0.05, 0.1], "cmax": [0.5, 1]},
            scoring=EvaluatorScorer(policy),
        ).fit(test)

    return story


def policy_search(n_rounds, folder):
    logs = from_frame(make_frame(n_rounds))

    def story():
        model = LogisticRegression()
        OPESearchCV(
            ClassifierPolicy(LogisticRegression()),
            {"epsilon": [0, 0.1], "classifier__C": [0.1, 1, 10]},
            scoring=PolicyScorer(DoublyRobust(reward_model=model)),
        ).fit(logs)

    return story


def slates(n_rounds, folder, n_candidates=10, n_slots=4, n_features=10):
    rng = np.random.default_rng(0)
    weights = np.linspace(0.5, 2, n_candidates)
    noise = rng.gumbel(size=(n_rounds, n_candidates))
    slate = np.argsort(-(np.log(weights) + noise), axis=1)[:, :n_slots]
    context = rng.normal(size=(n_rounds, n_features))
    clicks = rng.random(slate.shape) < 0.05 + 0.02 * slate

    def story():
        logs = SlateLogs(
            context,
            slate,
            slot_reward=clicks.astype(float),
            reward=None,
            n_candidates=n_candidates,
            logging_policy=PlackettLuceSlatePolicy(weights, n_slots),
        )
        names = ["PseudoInverse", "SlateIPS", "SlateDoublyRobust"]
        policies = {
            "uniform": UniformSlatePolicy(n_slots),
            "reversed": PlackettLuceSlatePolicy(weights[::-1].copy(), n_slots),
        }
        model = AdditiveSlateModel(Ridge())
        print(evaluate(policies, logs, evaluators=names, reward_model=model))

    return story


STORIES = {
    "frame to comparison": (frame_to_comparison, 100_000),
    "csv to report": (csv_to_report, 200_000),
    "search over q": (search_over_q, 5_000),
    "policy search": (policy_search, 50_000),
    "slates": (slates, 50_000),
}


# The share of ours that is asserted; larger than `AIM` where that is not reached.
MOST = {
    "frame to comparison": 0.3,
    "csv to report": 0.9,
    "search over q": 0.3,
    "policy search": 0.3,
    "slates": 0.5,
}


def looked_at(make, n_rounds):
    """Return the looks at a story, told twice: the first time imports what it needs."""
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        story, words = make(n_rounds, folder), io.StringIO()
        with contextlib.redirect_stdout(words), contextlib.redirect_stderr(words):
            make(max(n_rounds // 20, 1_000), folder)()
            story = make(n_rounds, folder)
            with Looks() as looks:
                story()
    return looks


def main():
    parser = argparse.ArgumentParser(description="Shares of the time of five stories.")
    parser.add_argument("--only", choices=STORIES, nargs="+", default=list(STORIES))
    parser.add_argument("--scale", type=float, default=1.0, help="of the rounds")
    parser.add_argument("--top", type=int, default=0, help="our slowest functions")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = "".join(f"{share:>18}" for share in SHARES)
    print(f"{'':24}{'rounds':>10}{heads}  at most {AIM:.0%} ours")
    for name in options.only:
        make, n_rounds = STORIES[name]
        n_rounds = int(n_rounds * options.scale)
        looks = looked_at(make, n_rounds)
        total = sum(looks.shares.values())
        shown = "".join(f"{looks.shares[share] / total:18.1%}" for share in SHARES)
        ours = looks.shares["ours"] / total
        verdict = "reached" if ours <= AIM else "not reached"
        verdict += f" (<= {MOST[name]:.0%} asserted)"
        print(f"{name:24}{n_rounds:10,}{shown}  {verdict}", flush=True)
        for function, seconds in looks.functions.most_common(options.top):
            print(f"    {seconds / total:6.1%} {function}")
        assert ours <= MOST[name], f"{name}: {ours:.0%} of the time is ours"


if __name__ == "__main__":
    main()
