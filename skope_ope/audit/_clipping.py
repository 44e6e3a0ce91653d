# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The answer under other bounds on the weights."""

from skope_ope.evaluators.core._jobs import evaluate_jobs
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.static._snips import SNIPS
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._finding import Finding

WIDTH = 1.96  # half an interval, in standard errors
LEVELS = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0)
FEW = 0.05  # rounds that are altered: a bound that alters more asks another question


def clipping_of(rounds):
    """Return a table of self-normalised values, and a note where they differ."""
    # The self-normalised estimate does not sink just because weights are cut: what
    # moves it are the rounds that have large ones.
    top = float(rounds.w.max())
    levels = [level for level in LEVELS if level < top]
    if not levels or not rounds.overlap.sum_w:
        return {}, []
    # the logged actions' probabilities are known: no policy is asked again
    target = Target(rounds.pi, rounds.all_logs)
    jobs = [SNIPS(cmax=level)._job(target, None) for level in (*levels, None)]
    values = evaluate_jobs(jobs, rounds.positive)
    *clipped, own = values
    altered = [float((rounds.w > level).mean()) for level in levels]
    facts = {
        "values by clipping (SNIPS)": {
            "cmax": [*levels, "none"],
            "value": [one.value for one in values],
            "standard error": [one.standard_error for one in values],
            "altered rounds": [*altered, 0.0],
        }
    }
    half = WIDTH * own.standard_error
    moved = [
        (abs(one.value - own.value), level, one, share)
        for level, one, share in zip(levels, clipped, altered, strict=True)
        if share <= FEW and abs(one.value - own.value) > half
    ]
    if not moved:
        return facts, []
    gap, level, one, share = max(moved, key=lambda entry: entry[0])
    return facts, [
        Finding(
            "clipping_matters",
            "note",
            f"The answer depends on {share:.2%} of the rounds. The self-normalised "
            f"value is {figure(own.value)} ± {half:.2g}. With weights clipped at "
            f"{figure(level)} it is {figure(one.value)}.",
            (
                "Do not take the value with clipped weights for the answer: it is "
                "biased towards the logger. A few rounds of large weight decide the "
                "other one. Its interval allows for that. A good reward model "
                "(DoublyRobust) needs large weights less.",
            ),
            number=gap,
            effect=gap / abs(own.value) if own.value else float("nan"),
        )
    ]
