# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What breaks the benchmarks, and what stands for the packages they measure."""

from collections import Counter
from itertools import accumulate, count, cycle, repeat
from time import process_time
from types import ModuleType, SimpleNamespace

import numpy as np
from sklearn.model_selection import KFold

from skope_ope import OPESearchCV, PseudoInverse, evaluate
from skope_ope.evaluators import ValueTable
from tests.examples._assertions import row
from tests.examples._stand_ins import says


def modules(**attributes):
    """Return modules by name, "__" for a dot; each is an attribute of its package."""
    found = {}
    for name, given in attributes.items():
        found[name := name.replace("__", ".")] = module = ModuleType(name)
        vars(module).update(given)
        package, _, last = name.rpartition(".")
        if package:
            setattr(found[package], last, module)
    return found


# -- audit: a clock that the calls themselves move ------------------------------------
lost = [0.0]
names = {"lose": lambda: lost.append(1000.0)}
exec(  # a check is known by its file
    compile("def check(): lose()", "slow_findings.py", "exec"), names
)


def audit_slowly(*args):
    names["lose"]()
    return SimpleNamespace(alarms=[])


def check_slowly(*args, **options):
    names["check"]()
    return evaluate(*args, **options)


CLOCK = {"time.process_time": lambda: process_time() + sum(lost)}


# -- import ---------------------------------------------------------------------------
def started(ours, base):
    times = {"pass": [0] * 2, "import sklearn.base": [base] * 2}
    return {
        "example:modules_after": lambda statement: (
            {"numpy", "pandas"} if "skope" in statement else {"numpy"}
        ),
        "example:wheel_bytes": lambda: None,
        "example:start_times": lambda n_repeats: (
            times | {"import skope_ope": [ours] * 2}
        ),
    }


# -- intervals, in place of vw-estimators: a third of a second each -------------------
class Busy:
    def __init__(self, *args, **kwargs):
        pass

    def add_example(self, *args):
        pass

    def get(self):
        start = process_time()
        while process_time() - start < 0.3:
            pass
        return 0.0


BUSY = {"Interval": Busy, "Estimator": Busy}
MADE_BUSY = ("clopper_pearson", "cressieread", "cs", "gaussian", "mle")
MADE_BUSY = {f"estimators__bandits__{name}": BUSY for name in MADE_BUSY}
VW = modules(estimators={}, estimators__bandits={}, **MADE_BUSY)
confidence_intervals = ValueTable.confidence_intervals


def keep_all_draws(table, level=0.95, method="auto", **options):
    waste = np.ones((options.get("n_resamples") or 1, 40_000))
    found = confidence_intervals(table, level, method, **options)
    del waste
    return found


# -- tables that are never touched, but counted ---------------------------------------
def score_with_a_table(self, policy):
    return np.empty((1_000, 50_000))


def fit_with_a_table(logs):
    """Return seconds and steps of a fit."""
    np.empty((1_000, 100_000))
    return 1e12, 1


# -- several loggers and static evaluators, in place of obp: the formulas -------------
class PooledIPS:
    def estimate_policy_value(
        self, *, reward, action, action_dist, pscore=None, pscore_avg=None, **strata
    ):
        proba = pscore_avg if pscore is None else pscore
        return (action_dist[np.arange(len(action)), action, 0] / proba * reward).mean()


def term(weight):
    """Return a stand-in for an estimator of obp, of doubly robust form."""

    class Estimator:
        def __init__(self, *, estimator_name, lambda_=None):
            self.name, self.lam = estimator_name, lambda_

        def estimate_policy_value(
            self, reward, action, pscore, action_dist, estimated_rewards_by_reg_model
        ):
            rows = np.arange(len(action))
            pi, q_hat = action_dist[:, :, 0], estimated_rewards_by_reg_model[:, :, 0]
            if self.name in ("IPS", "SNIPS"):
                q_hat = np.zeros_like(q_hat)
            w = weight(pi[rows, action] / pscore, self.lam)
            direct = (pi * q_hat).sum(axis=1)
            return (direct + w * (reward - q_hat[rows, action])).mean()

    return Estimator


class OffPolicyEvaluation:
    def __init__(self, *, bandit_feedback, ope_estimators):
        self.arrays = {k: bandit_feedback[k] for k in ("reward", "action", "pscore")}
        self.estimators = ope_estimators

    def estimate_policy_values(self, **arrays):
        arrays |= self.arrays
        return {
            one.name: one.estimate_policy_value(**arrays) for one in self.estimators
        }


POOLED = "MultiLoggers{}InverseProbabilityWeighting"
OBP_LOGGERS = SimpleNamespace(
    **{POOLED.format(kind): PooledIPS for kind in ("Naive", "Balanced", "Weighted")}
)
OBP_OPE = {
    "OffPolicyEvaluation": OffPolicyEvaluation,
    "InverseProbabilityWeighting": term(lambda w, _: w),
    "SelfNormalizedInverseProbabilityWeighting": term(lambda w, _: w / w.mean()),
    "DirectMethod": term(lambda w, _: 0 * w),
    "DoublyRobust": term(lambda w, _: w),
    "SwitchDoublyRobust": term(lambda w, lam: w * (w <= lam)),
    "DoublyRobustWithShrinkage": term(lambda w, lam: lam * w / (w**2 + lam)),
}


# -- replay, in place of mabwiser: a learner that takes long --------------------------
class MAB:
    def __init__(self, *args):
        pass

    def fit(self, **arrays):
        pass

    def predict(self):
        return sum(range(20_000)) % 20  # so that a busy machine changes nothing

    def partial_fit(self, *arrays):
        pass


UCB1 = SimpleNamespace(UCB1=lambda alpha: None)
OF_MABWISER = {"MAB": MAB, "LearningPolicy": UCB1}


# -- searches, slates and others ------------------------------------------------------
def even(call, *arguments):
    """The naive loop takes a second, a thousandth of all others."""
    return (1.0 if call.__name__ == "naive" else 1000.0,) * 4, []


def other_folds(*args, cv, **options):
    folds = KFold(cv.n_splits, shuffle=True, random_state=0)
    return OPESearchCV(*args, cv=folds, **options)


# what is measured second takes a thousand times as long
moments = accumulate(repeat(1000.0), lambda now, times: now * times)
peaks_of_files = cycle([1.0, 1e9])
peaks = count(100, -50)  # the first call of a pair needs more than the second
evaluate_slates = PseudoInverse.evaluate


def fill_memory(evaluator, *args, **kwargs):
    """Evaluate, beside 72 MiB that nobody needs."""
    waste = np.ones(9 * 2**20)
    value = evaluate_slates(evaluator, *args, **kwargs)
    del waste
    return value


def slow_slates(call, repeats=3):
    """The pseudoinverse takes two seconds, everything else a tenth of one."""
    return 2.0 if call.__qualname__.startswith("value_and_interval") else 0.1


def ratio(value):
    return {"example:ratio": lambda *_: value}


ROWS = {
    "bench_adaptive_classifier": row(
        {"example:measured": even}, args="--n-rounds 1000 --repeats 1 --share 0.01"
    ),
    "bench_audit": row(
        CLOCK | {"audit": audit_slowly},
        CLOCK | {"evaluate": check_slowly},
        args="--n-rounds 5000 --repeats 1 --most 1e6 --most-share 100",
    ),
    "bench_drns": row(
        {"DRns.evaluate": lambda self, policy: SimpleNamespace(value=0.0, accepted=())},
        *(ratio(1e12), ratio(0.0)),
        {"example:peak_mib": lambda _: 1e6},
        args="--n-rounds 2000 --peer-rounds 1000 --repeats 1 --share 1e-3",
    ),
    "bench_import": row(started(99, 1), started(1, 1), args="--repeats 1 --most 9"),
    "bench_intervals": row(
        {"evaluators.ValueTable.confidence_intervals": keep_all_draws},
        {"example:seconds": lambda *_: 1e12},
        args="--n-rounds 2000 --repeats 1 --share 1e-9",
        modules=VW,
    ),
    "bench_memory": row(
        {
            "IPS.score": score_with_a_table,
            "example:evaluation": lambda n_rounds, n_actions: 1e4 * n_rounds,
        },
        args="--n-rounds 500 9000 --n-actions 3 --many 1000 50000",
    ),
    "bench_multi_logger": row(
        *(says(0.0), ratio(1e12), ratio(0.0)),
        args="--n-rounds 1000 --repeats 1 --settled 1 --share 1e-6",
        modules=modules(obp={}, obp__ope={"estimators_multi": OBP_LOGGERS}),
    ),
    "bench_partitions": row(
        {
            "example:beside_its_parts": lambda *about: 1e9,
            "example:two_jobs": lambda *about: 0.0,
            "example:peak": lambda folder, n_files, groups=False: next(peaks_of_files),
            "example:pushed_down": lambda *about: {("duckdb", "sums"): 1e9},
        },
        args="--files 1 --repeats 1 --slack 30",
        needs="pyarrow",
    ),
    "bench_replay": row(
        {"example:alternate": lambda calls, n_repeats: {name: [1.0] for name in calls}},
        args="--n-rounds 2000 --repeats 1 --settled 1000",
        modules=modules(mabwiser={}, mabwiser__mab=OF_MABWISER),
    ),
    "bench_scavenging": row(
        ratio(1000.0),
        {"example:ratio": lambda times, name, base: 1000.0 if base == "short" else 1.0},
        ratio(1.0) | {"example:peak_mib": lambda _: 1e4},
        args="--n-impressions 1000000",
    ),
    "bench_search": row(
        {"OPESearchCV": other_folds},
        {"example:process_time": lambda: next(moments)},
        args="--cases C --n-rounds 500 --repeats 1 --settled 1 --most 100",
    ),
    "bench_slates": row(
        {"PseudoInverse.evaluate": fill_memory, "example:seconds": slow_slates},
        args="--rounds 20000",
    ),
    "bench_softmax_policy": row(
        {"example:fit": fit_with_a_table},
        args="--n-rounds 500 --n-actions 3 5 --most 1e9",
    ),
    "bench_static": row(
        *(says(0.0), ratio(1e12), ratio(0.0)),
        {"example:peak_mib": lambda _: 100.0},
        args="--n-rounds 2000 --repeats 1 --settled 1 --share 1e-6",
        modules=modules(obp={}, obp__ope=OBP_OPE),
    ),
    "bench_stories": row(
        {
            "example:looked_at": lambda make, n_rounds: SimpleNamespace(
                shares=Counter(ours=1.0), functions=Counter()
            )
        },
        args="--only 'csv to report' --scale 0.05",
    ),
    "bench_waits": row(
        {"example:peak_mib": lambda call: next(peaks)},
        args="--only tables --n-rounds 5000",
    ),
}
