# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
How fast are intervals?
=======================

Intervals of six static values (IPS, SNIPS, direct method, doubly robust, SwitchDR and
DRos) at one level, against the Open Bandit Pipeline (obp) 0.5.7:

- closed forms and ``method="auto"``, against obp's default, a bootstrap of 10,000
  resamples for each estimator. It takes minutes: it is measured with fewer resamples
  and scaled, for its time is proportional to their number. A closed form is no
  bootstrap: what is compared is what both packages do when asked for intervals.
- the studentised bootstrap of all six at the same number of resamples, with the peak of
  the memory for two of them.

Intervals of one value against vw-estimators 0.2.2, which adds rounds one by one, with
the differences of both where the constructions agree: the normal interval, Clopper and
Pearson's for weights of one, Cressie-Read's, the value of the empirical likelihood, and
the confidence sequence after all rounds.

What is printed and asserted are ratios of processor times. Run it as ::

    python examples/5_benchmarks/bench_intervals.py --n-rounds 1000000

How obp is installed says
``bench_static.py``; vw-estimators comes with ``pip install vw-estimators``. Without
them nothing is compared.
"""

import argparse
import warnings
from functools import partial
from statistics import median
from time import process_time

import numpy as np
from _measure import alternate, import_obp, missing, peak_mib
from bench_static import (
    SIX,
    build,
    make_arrays,
    obp_arrays,
    obp_estimators,
)

from skope_ope import IPS, SNIPS, BanditLogs, evaluate
from skope_ope.intervals import (
    cressie_read_interval,
    empirical_bernstein_sequence,
    empirical_likelihood_value,
)

OBP_RESAMPLES = 10_000  # its default
MEMORY = 16  # MiB, whatever the number of resamples
# times by which we are to be faster
TARGETS = {
    "closed forms": 5000,
    "bootstrap": 10,
    "normal": 10,
    "Clopper-Pearson": 10,
    "Cressie-Read": 25,
    "empirical likelihood": 25,
    "confidence sequence": 30,
}

# %%
# Six values against obp
# ----------------------


def seconds(call, n_repeats):
    """Return the median time of a call."""
    return median(alternate({"": call}, n_repeats)[""])


def six_values(data, logs):
    return evaluate(data.pi, logs, evaluators=SIX, reward_model=data.q_hat)


def of_six(data, logs, method, **options):
    """Values and intervals of the six evaluators, from the logs."""
    return six_values(data, logs).confidence_intervals(method=method, **options)


def resample_six(data, logs, n_resamples):
    """The same by the bootstrap, at a level that few resamples allow."""
    return of_six(data, logs, "bootstrap", level=0.8, n_resamples=n_resamples)


def obp_seconds(data, ope, n_resamples):
    """CPU seconds of obp's bootstraps of all six estimators."""
    arrays, start = obp_arrays(data), process_time()
    for estimator in obp_estimators(ope).values():
        estimator.estimate_interval(
            **arrays, n_bootstrap_samples=n_resamples, random_state=0
        )
    return process_time() - start


def report_six(n_rounds, ope, n_resamples, n_repeats):
    """Print the times of intervals of six values, and return what was gained."""
    data, gained = make_arrays(n_rounds), {}
    logs = build(data)
    calls = {
        "normal": lambda: of_six(data, logs, "normal"),
        "student": lambda: of_six(data, logs, "student"),
        "auto": lambda: of_six(data, logs, "auto"),
    }
    times = {name: seconds(call, n_repeats) for name, call in calls.items()}
    # values included, and twice as many resamples, to tell the resamples from the rest
    once, twice = (
        seconds(partial(resample_six, data, logs, b), 1)
        for b in (n_resamples, 2 * n_resamples)
    )
    each = (twice - once) / n_resamples
    theirs = None
    print(f"\nIntervals of six values, n = {n_rounds:,}, K = 10, with the values")
    print(f"  {'':44}{'obp / it':>12}")
    if ope is not None:
        theirs = obp_seconds(data, ope, n_resamples) / n_resamples
        whole = theirs * OBP_RESAMPLES
        text = f"obp, {OBP_RESAMPLES:,} resamples (scaled from {n_resamples})"
        print(f"  {text:44}{1:12.1f}")
        gained["closed forms"] = whole / times["student"]
        gained["bootstrap"] = theirs / each
    for name, spent in times.items():
        versus = f"{whole / spent:12.0f}" if theirs else f"{'-':>12}"
        print(f"  {name:44}{versus}")
    versus = f"{theirs / each:12.1f}" if theirs else f"{'-':>12}"
    print(f"  {'bootstrap, a resample of all six':44}{versus}")
    return gained


def report_memory(n_rounds, n_resamples):
    """Print the peak of what two bootstraps need beside the values."""
    data = make_arrays(n_rounds)
    table = six_values(data, build(data))
    intervals = partial(table.confidence_intervals, 0.8, "bootstrap")
    peaks = [
        peak_mib(partial(intervals, n_resamples=b))
        for b in (n_resamples, 4 * n_resamples)
    ]
    print(
        f"\nPeak of the extra memory of the bootstrap, MiB: {peaks[0]:.1f} with "
        f"{n_resamples} resamples, {peaks[1]:.1f} with {4 * n_resamples}"
    )
    assert max(peaks) <= MEMORY
    assert peaks[1] < peaks[0] + 1


# %%
# One value against vw-estimators
# -------------------------------


def import_vw():
    """Return the modules of vw-estimators by name, or None where it is missing."""
    try:
        from estimators.bandits import clopper_pearson, cressieread, cs, gaussian, mle
    except ImportError:
        return None
    return {
        "normal": lambda w: gaussian.Interval(),
        "Clopper-Pearson": lambda w: clopper_pearson.Interval(),
        "Cressie-Read": lambda w: cressieread.Interval(wmax=w),
        "empirical likelihood": lambda w: mle.Estimator(wmax=w),
        "confidence sequence": lambda w: cs.Interval(),
    }


def one_by_one(make, max_weight, rows):
    """Add the rounds to an estimator of vw-estimators, and ask it."""
    found = make(max_weight)
    for p_log, reward, p_pred in rows:
        found.add_example(p_log, reward, p_pred)
    return found.get()


def value_pairs(n_rounds):
    """Our calls and the rows for theirs, by name, and the largest weight."""
    data = make_arrays(n_rounds)
    pi = data.pi[np.arange(n_rounds), data.action]
    most = float(4 * np.ceil((data.pi / data.propensity.min()).max() / 4))
    arrays = data.context, data.action, data.reward, data.propensity
    logs = BanditLogs(*arrays, reward_range=(0, 1))
    on_policy = BanditLogs(*arrays[:3], np.ones(n_rounds), reward_range=(0, 1))
    w, r = pi / data.propensity, data.reward
    given = {"max_weight": most, "reward_range": (0, 1)}
    rows = list(zip(data.propensity.tolist(), r.tolist(), pi.tolist(), strict=True))
    ones = [(1.0, reward, 1.0) for reward in r.tolist()]

    def of_logs(evaluator, some, policy, method):
        value = evaluator.fit(some).evaluate(policy)
        return tuple(value.confidence_interval(method=method))

    def sequence():
        low, high = empirical_bernstein_sequence(
            w, r, reward_range=(0, 1), after=[n_rounds], rho=1.0
        )
        return float(low[0]), float(high[0])

    ours = {
        "normal": lambda: of_logs(IPS(), logs, pi, "normal"),
        "Clopper-Pearson": lambda: of_logs(
            SNIPS(), on_policy, np.ones(n_rounds), "clopper_pearson"
        ),
        "Cressie-Read": lambda: cressie_read_interval(w, r, **given),
        "empirical likelihood": lambda: empirical_likelihood_value(w, r, **given),
        "confidence sequence": sequence,
    }
    theirs = dict.fromkeys(ours, rows) | {"Clopper-Pearson": ones}
    return ours, theirs, most


def report_one(n_rounds, vw, n_repeats):
    """Print the times of intervals of one value, and return what was gained."""
    ours, rows, most = value_pairs(n_rounds)
    gained = {}
    print(f"\nIntervals of one value, n = {n_rounds:,}")
    print(f"  {'':24}{'vw / ours':>12}{'difference':>14}")
    for name, call in ours.items():
        own = seconds(call, n_repeats)
        line = f"  {name:24}"
        if vw is not None:
            start = process_time()
            found = one_by_one(vw[name], most, rows[name])
            spent = process_time() - start
            gap = np.abs(np.subtract(call(), found)).max()
            gained[name] = spent / own
            line += f"{gained[name]:12.1f}{gap:14.1e}"
        print(line)
    return gained


def main():
    parser = argparse.ArgumentParser(description="Time of intervals.")
    parser.add_argument("--n-rounds", type=int, default=100_000)
    parser.add_argument("--resamples", type=int, default=64, help="of each bootstrap")
    parser.add_argument("--repeats", type=int, default=3, help="alternating rounds")
    parser.add_argument("--share", type=float, default=1.0, help="of the targets")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # the direct method's, about its standard error
    ope, vw = import_obp(), import_vw()
    if vw is None:
        missing("vw-estimators", "pip install vw-estimators")
    n = options.n_rounds
    gained = report_six(n, ope, options.resamples, options.repeats)
    report_memory(n, options.resamples)
    gained |= report_one(n, vw, options.repeats)
    for name, found in gained.items():
        assert found >= options.share * TARGETS[name], f"{name}: {found:.1f} times"


if __name__ == "__main__":
    main()
