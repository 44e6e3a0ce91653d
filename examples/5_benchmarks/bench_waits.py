# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
Where does a user wait?
=======================

Every step between a table and an answer, beside the thing that it is measured against:
the same sums with a ready table of the model, `pd.factorize`, the time inside
scikit-learn, `classifier.predict`, `pandas.read_csv`, `json.loads`, one evaluation,
other packages. What is printed is a ratio of processor times (or MiB), so that it says
the same on every machine; each line is asserted. Run it as ::

    python examples/5_benchmarks/bench_waits.py

``--full`` measures a million rounds in place of a tenth, and what two jobs gain (that
is wall time: it needs two idle processors). ``--only labels csv`` measures these steps.
A step whose competitor is not installed is left out with a line that names it. *Not
reached* stands where a step holds less than its aim: what is asserted there is the
bound in brackets.
"""

import argparse
import json
import tempfile
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from _measure import alternate, import_obp, missing, peak_mib, ratio, shell, times_of
from sklearn.linear_model import LogisticRegression, Ridge

from skope_ope import (
    IPS,
    UCB1,
    ActionRewardModel,
    BanditLogs,
    ClassifierPolicy,
    FunctionPolicy,
    LinUCB,
    Replay,
    UniformPolicy,
    compare_policies,
    evaluate,
)
from skope_ope.policies import action_probabilities
from skope_ope.readers import read_vw

K = 10
SIX = ["IPS", "SNIPS", "DirectMethod", "DoublyRobust", "SwitchDR", "DRos"]


@dataclass
class Step:
    """One line of the table.

    Attributes
    ----------
    name : str
    against : str
        What it is measured against.
    reached, aim : float
    unit : str
        "x", "MiB" or "%".
    least : bool
        Whether more is better.
    bound : float or None
        What is asserted; None: the aim.
    """

    name: str
    against: str
    reached: float
    aim: float
    unit: str = "x"
    least: bool = False
    bound: float | None = None

    def holds(self, bound):
        """Tell whether what was reached is on the right side of a bound."""
        return self.reached >= bound if self.least else self.reached <= bound

    def __str__(self):
        sign = ">=" if self.least else "<="
        aim = f"{sign} {self._number(self.aim)}"
        verdict = "reached" if self.holds(self.aim) else "not reached"
        if self.bound is not None:
            verdict += f" ({sign} {self._number(self.bound)} asserted)"
        return (
            f"{self.name:42}{self.against:36}{self._number(self.reached):>10}"
            f"{aim:>12}  {verdict}"
        )

    def _number(self, value):
        if self.unit == "%":
            return f"{value:.0%}"
        return f"{value:.{2 if value < 10 else 0}f} {self.unit}"


# %%
# The data
# --------


def make_arrays(n_rounds, n_actions=K, n_features=5, seed=0):
    """Contexts, actions, rewards and propensities of a logger that looks nowhere."""
    rng = np.random.default_rng(seed)
    logger = 0.5 + rng.random(n_actions)
    logger /= logger.sum()
    action = rng.choice(n_actions, n_rounds, p=logger)
    return {
        "context": rng.normal(size=(n_rounds, n_features)),
        "action": action,
        "reward": (rng.random(n_rounds) < 0.1 + 0.4 * action / n_actions).astype(float),
        "propensity": logger[action],
        "actions": np.arange(n_actions),
    }


def make_logs(n_rounds, *args, **options):
    return BanditLogs(**make_arrays(n_rounds, *args, **options))


def make_table(n_rounds, n_actions=K, seed=1):
    """Probabilities of a policy."""
    table = np.random.default_rng(seed).random((n_rounds, n_actions)) + 0.1
    return table / table.sum(axis=1, keepdims=True)


def linear_policy(n_actions=K, n_features=5, seed=2):
    """A classifier that was fitted to other contexts."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5_000, n_features))
    y = (X @ rng.normal(size=(n_features, n_actions))).argmax(axis=1)
    return ClassifierPolicy(LogisticRegression(), epsilon=0.1).fit(X, y)


# %%
# Evaluating
# ----------


def default_model(n):
    """`evaluate` without a model, and with a table of its predictions."""
    pi, q_hat = make_table(n), np.random.default_rng(3).random((n, K))
    for n_features in (5, 50):
        logs = make_logs(n, n_features=n_features)
        found = times_of(
            lambda logs=logs: evaluate(pi, logs),
            lambda logs=logs: evaluate(pi, logs, reward_model=q_hat),
        )
        yield Step(
            f"evaluate, mean model, {n_features} features", "a given model", found, 2
        )


def timed(model, book):
    """Return a model of the same kind that notes the time inside scikit-learn."""

    class Timed(type(model)):
        def _timed(self, name, *args, **options):
            start = process_time()
            try:
                return getattr(super(), name)(*args, **options)
            finally:
                book.append(process_time() - start)

        def fit(self, X, y, sample_weight=None):
            return self._timed("fit", X, y, sample_weight=sample_weight)

        def predict(self, X):
            return self._timed("predict", X)

    if hasattr(model, "predict_proba"):
        Timed.predict_proba = lambda self, X: self._timed("predict_proba", X)
    return Timed(**model.get_params())


def models(n):
    """The share of scikit-learn in an evaluation with a model of it."""
    pi, logs = make_table(n), make_logs(n)
    for model, aim in ((Ridge(), 0.7), (LogisticRegression(), 0.85)):
        book, shares = [], []
        for _ in range(4):
            book.clear()
            start = process_time()
            evaluate(pi, logs, reward_model=timed(model, book))
            shares.append(sum(book) / (process_time() - start))
        name = f"{type(model).__name__} as reward model"
        share = float(np.median(shares[1:]))
        yield Step(name, "inside scikit-learn", share, aim, "%", least=True)


def classifier(n):
    """Probabilities of a policy that acts greedily on a classifier."""
    logs, policy = make_logs(n), linear_policy()
    found = times_of(
        lambda: action_probabilities(policy, logs),
        lambda: policy.classifier_.predict(logs.context),
    )
    yield Step("ClassifierPolicy, probabilities", "classifier.predict", found, 1.4)


def comparison(n):
    """Five policies compared, and valued by the same evaluators."""
    logs = make_logs(n)
    policies = {f"policy {k}": linear_policy(seed=k) for k in range(5)}
    found = times_of(
        lambda: compare_policies(policies, logs),
        lambda: evaluate(policies, logs, evaluators=["DoublyRobust"]),
    )
    yield Step("compare_policies, 5 policies", "evaluate of the same", found, 1.1)


def many_actions(n):
    """What an entry of rounds and actions costs, and the peak."""
    times, peaks = {}, {}
    for n_actions in (100, 10_000):  # the same number of entries
        logs = make_logs(200 * n // n_actions, n_actions)
        row = np.full(n_actions, 1 / n_actions)
        policy = FunctionPolicy(lambda X, row=row: np.tile(row, (len(X), 1)))
        times[n_actions] = partial(evaluate, policy, logs)
        peaks[n_actions] = peak_mib(times[n_actions])
    found = ratio(alternate(times), 10_000, 100)
    yield Step(
        "an entry at K = 10,000, policy objects", "an entry at K = 100", found, 2
    )
    yield Step("peak at K = 10,000", "beside the logs", peaks[10_000], 100, "MiB")


def one_hot(n):
    """Models on one-hot actions: four times the actions, four times the time."""
    calls = {}
    for n_actions in (100, 400):
        logs = make_logs(n // 50, n_actions)
        model = ActionRewardModel(Ridge(), encoding="one_hot")
        calls[n_actions] = lambda logs=logs, model=model: evaluate(
            UniformPolicy(), logs, reward_model=model
        )
    found = ratio(alternate(calls, 3), 400, 100)
    yield Step("encoding='one_hot', K = 400", "4 times K = 100", found / 4, 1.2)


def tables(n):
    """Tables that are not float64 in rows."""
    logs, pi = make_logs(n), make_table(n)
    others = {"float32": pi.astype(np.float32), "Fortran order": np.asfortranarray(pi)}
    for name, other in others.items():
        call = partial(evaluate, other, logs)
        plain = partial(evaluate, pi, logs)
        extra = peak_mib(call) - peak_mib(plain)
        yield Step(f"{name} table, extra peak", "a float64 table", extra, 4, "MiB")


def by_labels(n):
    """Values by a text label."""
    logs, pi = make_logs(n), make_table(n)
    names = np.array([f"region {k}" for k in range(8)])
    key = names[np.random.default_rng(4).integers(0, 8, n)]
    evaluator = IPS().fit(logs)
    value = evaluator.evaluate(pi)
    found = times_of(lambda: value.by(key), lambda: evaluator.evaluate(pi).value)
    yield Step("by(texts)", "one evaluation", found, 1.5)


def small(n):
    """The fixed cost of a call."""
    logs, pi = make_logs(100), make_table(100)
    arrays = make_arrays(100)
    ope = import_obp()
    if ope is None:
        return

    def theirs():
        estimators = [ope.InverseProbabilityWeighting()]
        feedback = arrays | {"n_rounds": 100, "n_actions": K, "position": None}
        feedback["pscore"] = feedback["propensity"]
        return ope.OffPolicyEvaluation(
            bandit_feedback=feedback, ope_estimators=estimators
        ).estimate_policy_values(action_dist=pi[:, :, None])

    found = times_of(lambda: IPS().fit(logs).score(pi), theirs, 9)
    yield Step("IPS().fit(logs).score(pi), n = 100", "obp, value only", found, 50 / 32)


# %%
# Policies that learn
# -------------------


def replay(n_rounds, policy, n_actions, n_features):
    """Return a call that replays uniform choices."""
    rng = np.random.default_rng(0)
    action = rng.integers(0, n_actions, n_rounds)
    context = rng.random((n_rounds, n_features))
    context /= np.linalg.norm(context, axis=1, keepdims=True)
    logs = BanditLogs(
        context,
        action,
        rng.integers(0, 2, n_rounds).astype(float),
        np.full(n_rounds, 1 / n_actions),
        actions=np.arange(n_actions),
    )
    evaluator = Replay(random_state=0).fit(logs)
    return lambda: evaluator.evaluate(policy)


def lin_ucb(n):
    """An event of LinUCB with many actions."""
    n_rounds = max(n // 5, 20_000)
    calls = {n_arms: replay(n_rounds, LinUCB(), n_arms, 6) for n_arms in (20, 1_000)}
    found = ratio(alternate(calls, 3), 1_000, 20)
    yield Step("LinUCB replay, K = 1,000", "K = 20", found, 2.5)


def ucb1(n):
    """UCB1 beside mabwiser."""
    from bench_replay import mabwiser_ucb1, make_arrays

    data = make_arrays(20_000)
    theirs = mabwiser_ucb1(data)
    if theirs is None:
        missing("mabwiser", "pip install mabwiser")
        return
    ours = replay(100_000, UCB1(), 20, 6)
    found = 5 * times_of(theirs, ours, 3)
    yield Step("UCB1 replay", "mabwiser, times faster", found, 20, least=True)


# %%
# Reading
# -------


def labels(n):
    """Labels of a frame, beside what pandas needs to tell them apart."""
    try:
        import pandas as pd
    except ImportError:
        return missing("pandas")
    arrays = make_arrays(n)
    columns = {f"x{k}": arrays["context"][:, k] for k in range(5)}
    names = np.array([f"offer {k}" for k in range(K)])
    texts = pd.Series(names[arrays["action"]])
    items = {
        "str": texts.astype(str),
        "object": texts.astype(object),
        "category": texts.astype("category"),
        "int": pd.Series(arrays["action"]),
    }
    calls = {}
    for name, item in items.items():
        frame = pd.DataFrame(
            columns
            | {"click": arrays["reward"], "p": arrays["propensity"], "item": item}
        )
        calls[name] = partial(
            BanditLogs.from_frame,
            frame,
            action="item",
            reward="click",
            propensity="p",
            context=list(columns),
        )
        calls[f"factorize {name}"] = partial(pd.factorize, item)
    times = alternate(calls)
    for name in ("str", "object"):
        found = ratio(times, name, f"factorize {name}")
        yield Step(f"from_frame, actions of dtype {name}", "pd.factorize", found, 3)
    found = ratio(times, "category", "int")
    yield Step("from_frame, categorical actions", "actions of ints", found, 1.5)


def csv(n):
    """csv files, from the shell and with a first value, beside pandas."""
    try:
        import pandas as pd
    except ImportError:
        return missing("pandas")
    arrays = make_arrays(n)
    frame = pd.DataFrame({f"x{k}": arrays["context"][:, k] for k in range(5)})
    frame["item"] = np.array([f"offer {k}" for k in range(K)])[arrays["action"]]
    frame["click"] = arrays["reward"].astype(int)
    frame["p"] = arrays["propensity"]
    roles = ["--action", "item", "--reward", "click", "--propensity", "p"]
    roles += ["--context", ",".join(f"x{k}" for k in range(5))]
    value = ["--policy", "uniform", "--evaluators", "IPS", "--no-baseline"]
    logs = BanditLogs(**arrays)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("csv", "csv.gz"):
            path = Path(folder) / f"log.{name}"
            frame.to_csv(path, index=False)
            words = ["evaluate", str(path), *roles, *value, "--no-audit"]

            def theirs(path=path):
                pd.read_csv(path)
                evaluate(UniformPolicy(), logs, evaluators=["IPS"])

            found = times_of(partial(shell, *words), theirs, 3)
            yield Step(f"{name} to a value", "pandas.read_csv, evaluate", found, 1.5)


def dsjson(n):
    """Events of Vowpal Wabbit, beside the JSON parser."""
    rng = np.random.default_rng(0)
    lines = []
    for k in range(max(n // 20, 2_000)):
        p = rng.dirichlet(np.ones(K)).round(6).tolist()
        order = rng.permutation(K)
        event = {
            "_label_cost": -float(rng.integers(2)),
            "_label_probability": p[0],
            "_label_Action": int(order[0]) + 1,
            "_labelIndex": int(order[0]),
            "Timestamp": "2026-01-01T00:00:00.0000000Z",
            "EventId": str(k),
            "a": (order + 1).tolist(),
            "p": p,
            "c": {
                "user": {"id": f"u{k % 1000}", "age": int(rng.integers(90))},
                "_multi": [
                    {"item": {"id": f"i{b}", "price": b / 2, "kind": f"k{b % 3}"}}
                    for b in range(K)
                ],
            },
        }
        lines.append(json.dumps(event))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.dsjson"
        path.write_text("\n".join(lines) + "\n")

        def parsed():
            with open(path) as file:
                return sum(1 for line in file if json.loads(line))

        found = times_of(partial(read_vw, path, format="dsjson"), parsed, 3)
    yield Step("logs from dsjson", "json.loads of the lines", found, 1.5)


# %%
# Two jobs
# --------


def jobs(n):
    """Six values by two jobs; wall time, beside one job."""
    n = 10 * n
    arrays = make_arrays(n)
    logs, q_hat, policy = BanditLogs(**arrays), np.full((n, K), 0.3), linear_policy()
    cases = {"policy objects": ({"a": policy, "b": policy}, 1.6)}
    cases["ready tables"] = ({"a": make_table(n), "b": make_table(n)}, 1.0)
    for name, (policies, aim) in cases.items():
        call = partial(evaluate, policies, logs, evaluators=SIX, reward_model=q_hat)
        found = times_of(
            partial(call, n_jobs=1), partial(call, n_jobs=2), 3, perf_counter
        )
        yield Step(f"two jobs, {name}", "one job, times faster", found, aim, least=True)


# %%
# The table
# ---------

STEPS = {
    step.__name__: step
    for step in (
        default_model,
        labels,
        models,
        classifier,
        comparison,
        many_actions,
        one_hot,
        lin_ucb,
        ucb1,
        csv,
        dsjson,
        tables,
        by_labels,
        small,
        jobs,
    )
}
# What is asserted, by name of the line, where it is not the aim. First: aims that are
# reached, or nearly so, with what two runs differ by.
BOUNDS = {
    "ClassifierPolicy, probabilities": 1.65,
    "compare_policies, 5 policies": 1.3,
    "encoding='one_hot', K = 400": 1.4,
    # not reached at every size: what is, with a margin
    "from_frame, actions of dtype str": 4.7,
    "from_frame, categorical actions": 2.1,
    "Ridge as reward model": 0.47,
    "LogisticRegression as reward model": 0.65,
    "csv to a value": 2.4,
    "logs from dsjson": 5,
    "by(texts)": 2.1,
    "IPS().fit(logs).score(pi), n = 100": 9,
}


def main():
    parser = argparse.ArgumentParser(description="Where a user waits, as ratios.")
    parser.add_argument("--only", nargs="+", choices=STEPS, help="these steps")
    parser.add_argument("--n-rounds", type=int, default=100_000)
    parser.add_argument("--full", action="store_true", help="a million rounds, jobs")
    parser.add_argument("--show", action="store_true", help="assert nothing")
    options = parser.parse_args()
    n = 1_000_000 if options.full else options.n_rounds
    wanted = options.only or [s for s in STEPS if options.full or s != "jobs"]
    warnings.simplefilter("ignore")
    print(f"{'step':42}{'against':36}{'reached':>10}{'to reach':>12}  verdict")
    for name in wanted:
        start = process_time()
        for step in STEPS[name](n) or ():
            step.bound = BOUNDS.get(step.name)
            print(step, flush=True)
            bound = step.aim if step.bound is None else step.bound
            assert options.show or step.holds(bound), f"{step.name}: {step.reached:.2f}"
        if options.show:
            print(f"    [{process_time() - start:.1f} s]")


if __name__ == "__main__":
    main()
