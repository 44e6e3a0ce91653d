# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
What does an audit cost, and what do the checks in evaluate?
============================================================

- ``audit(logs)`` and ``audit(policy, logs)`` of a million rounds with 20 columns,
  against one pass over the bytes of the log. No more than 250 passes; the aim is 100.
- The checks that `evaluate` runs on its way, against six values without them.
  No more than a fifth for a million rounds. For 1,000 rounds both take about a
  millisecond, and the checks no more than the values.

Times are CPU time (user and system) in one thread, medians over repeats. Logs are built
anew for every call, outside the time: what they remember would be free otherwise. Run
it as ::

    python examples/5_benchmarks/bench_audit.py
"""

import argparse
import sys
import warnings
from pathlib import Path
from statistics import median
from time import process_time
from types import SimpleNamespace

import numpy as np

from skope_ope import BanditLogs, audit, evaluate

AIM, MOST = 100, 250  # passes of an audit: wanted, asserted
SIX = ["IPS", "SNIPS", "DirectMethod", "DoublyRobust", "SwitchDR", "DRos"]

# %%
# The data
# --------
#
# A right log of a softmax logger, so that no check stops early.


def make_arrays(n_rounds, n_columns=20, n_actions=10, seed=0):
    """Contexts, actions, rewards, propensities, a policy and a reward model."""
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n_rounds, n_columns))
    odds = np.exp(context @ rng.normal(scale=n_columns**-0.5, size=(n_columns, 10)))
    logger = odds / odds.sum(axis=1, keepdims=True)
    below = logger.cumsum(axis=1) < rng.random((n_rounds, 1))
    action = np.minimum(below.sum(axis=1), n_actions - 1)
    pi = 0.5 * logger + 0.5 / n_actions
    return SimpleNamespace(
        context=context,
        action=action,
        reward=(rng.random(n_rounds) < 0.1 + 0.02 * action).astype(float),
        propensity=logger[np.arange(n_rounds), action],
        pi=pi,
        q_hat=np.full((n_rounds, n_actions), 0.2),
    )


def build(data):
    return BanditLogs(data.context, data.action, data.reward, data.propensity)


def one_pass(data):
    """Read every byte of the log once, with the fastest loops that numpy calls."""
    columns = data.context.ravel()
    return columns @ columns, data.reward @ data.propensity, data.action.sum()


# %%
# How it is measured
# ------------------


def cpu_time(call, *arguments):
    """Return CPU seconds of one call."""
    start = process_time()
    call(*arguments)
    return process_time() - start


class ChecksClock:
    """Add up the time inside functions of modules that make findings or warnings.

    A function that they call counts with them. The sums that they need and that
    evaluators make anyway do not.
    """

    def __init__(self):
        self.seconds, self.depth, self.start = 0.0, 0, 0.0
        self.counted = {}  # asked for every call of any function: it has to be quick

    def __call__(self, frame, event, argument):
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code not in self.counted:
            name = Path(code.co_filename).stem
            self.counted[code] = name.endswith(("_findings", "_warnings"))
        if not self.counted[code]:
            return
        if event == "call":
            if self.depth == 0:
                self.start = process_time()
            self.depth += 1
        else:
            self.depth -= 1
            if self.depth == 0:
                self.seconds += process_time() - self.start


def six_values(data, logs):
    return evaluate(data.pi, logs, evaluators=SIX, reward_model=data.q_hat)


def cost_of_checks(data):
    """Return CPU seconds of six values with checks, and of the checks alone."""
    clock, total = ChecksClock(), 0.0
    n_calls = max(20_000 // len(data.action), 1)
    for logs in [build(data) for _ in range(n_calls)]:
        sys.setprofile(clock)
        try:
            total += cpu_time(six_values, data, logs)
        finally:
            sys.setprofile(None)
    return total / n_calls, clock.seconds / n_calls


def report_audit(n_rounds, n_repeats, most):
    data = make_arrays(n_rounds)
    limit = median(cpu_time(one_pass, data) for _ in range(5 * n_repeats))
    calls = {
        "audit(logs)": lambda logs: audit(logs),
        "audit(policy, logs)": lambda logs: audit(data.pi, logs),
    }
    print(f"\nAn audit of {n_rounds:,} rounds, {data.context.shape[1]} columns")
    print(f"  {'':32}{'x one pass':>12}{'alarms':>10}")
    print(f"  {'wanted; asserted':32}{f'{AIM}; {most:.0f}':>12}")
    for name, call in calls.items():
        seconds = median(cpu_time(call, build(data)) for _ in range(n_repeats))
        alarms = len(call(build(data)).alarms)
        print(f"  {name:32}{seconds / limit:12.1f}{alarms:10}")
        assert seconds <= most * limit, f"{seconds / limit:.1f} passes"


def report_checks(n_rounds, n_repeats, most):
    data = make_arrays(n_rounds)
    both = [cost_of_checks(data) for _ in range(n_repeats)]
    total, checks = (median(times) for times in zip(*both, strict=True))
    share = checks / (total - checks)
    print(f"\nSix values of {n_rounds:,} rounds")
    print(f"  checks / values{share:27.1%}")
    assert share <= most, f"the checks cost {share:.1%} of six values"


def main():
    parser = argparse.ArgumentParser(description="Time of audits and checks.")
    parser.add_argument("--n-rounds", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--most", type=float, default=MOST, help="passes of an audit")
    parser.add_argument("--most-share", type=float, default=0.2, help="of checks")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # the direct method's, about its standard error
    report_audit(options.n_rounds, options.repeats, options.most)
    shares = {options.n_rounds: options.most_share, 1_000: 5 * options.most_share}
    for n_rounds, most in shares.items():
        report_checks(n_rounds, 3 * options.repeats, most)


if __name__ == "__main__":
    main()
