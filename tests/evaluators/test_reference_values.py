# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values and standard errors stay what they were, on logs without groups."""

import json
from fnmatch import fnmatchcase

import numpy as np
import pytest
from sklearn.base import clone

from skope_ope import DRns
from tests.evaluators._reference_values import FOLDER, reference_numbers
from tests.evaluators._reference_worlds import WORLDS

# Numbers that were changed on purpose: "world/entry/quantity" (as fnmatch has it), and
# the reason.
ERRORS = (
    "standard_error",
    "degrees_of_freedom",
    "squares",
    "round_values",
    "by_errors",
    "difference_error",
    "difference_freedom",
)
CHANGED = {
    # The rule of all families: a difference has the freedom of the surer of its two
    # values at most; it was n - 1 for any two values.
    "uniform_log/*/difference_freedom": "the freedom of accepted rounds, or of parts",
    "unlike_log/*/difference_freedom": "the freedom of accepted rounds, or of parts",
    "logger*/MultiLogger*/difference_freedom": "the freedom of the loggers' rounds",
    # A logger of weight 0 tells nothing of the error: its rounds give no freedom.
    "loggers*/MultiLogger* left out/degrees_of_freedom": "a logger of weight 0",
    "logger_left_out/MultiLogger* weighted*/degrees_of_freedom": "a logger of weight 0",
    # Rewards r + 1e6: the squares had no digits left for the spread. Now the terms are
    # of rewards less a constant, and the divergences of the rewards themselves.
    "loggers_far/MultiLoggerIPS self-normalised weighted*/standard_error": "it was 0",
    "loggers_far/MultiLoggerIPS self-normalised weighted*/by_errors": "they were 0",
    "loggers_far/MultiLoggerIPS self-normalised weighted*/squares": "1e-9 of rounding",
    # Means of folds are sums over cells: rewards r + 1e6 are added in another order.
    "far/MRDR/squares": "1e-10 of rounding",
    # The rule of all families: n - 1 for every sample, here for every arm.
    "context_free*/*freedom": "the freedom of the arms' rounds",
    "lottery/*freedom": "the freedom of the arms' rounds",
    "slates_*/ExplorationScavenging/*freedom": "the freedom of the arms' rounds",
    # A difference has no error where one of its two values has none.
    "slates_uniform/ExplorationScavenging/difference_error": "one value has no error",
    "slates_weighted/ExplorationScavenging/difference_error": "one value has no error",
    "slates_plackett_luce/ExplorationScavenging/difference_error": "as before",
    # A value that is NaN says nothing of any group of rounds.
    "slates_product/ExplorationScavenging/by": "they were 0 without any matching round",
    "slates_product/ExplorationScavenging/by_errors": "they were 0, too",
    # One weight is 1e12: round values of 3e11 are rounded by 1e-5.
    "tiny/*/round_values": "rounding",
    # "auto" weighs errors, and those have changed.
    "zero_weights/DoublyRobust auto/value": "another bound on the weights",
    "zero_weights/DoublyRobust auto/by": "another bound on the weights",
    "zero_weights/DoublyRobust auto/difference": "another bound on the weights",
}
# One round has all the weight that a ratio is divided by: nothing tells its spread.
CHANGED |= {
    f"{entry}/{quantity}": "one round has all the weight: it was 0, or nearly so"
    for entry in (
        "tiny/SNIPS",
        "tiny/SNIPS None",
        "tiny/SNDR",
        "tiny/SNDR q_hat",
        "slates_plackett_luce/SlateIPS self-normalised",
    )
    for quantity in ("standard_error", "by_errors", "difference_error")
}
CHANGED["slates_uniform/SlateIPS self-normalised/by_errors"] = "as before: they were 0"
ZERO = {
    ("zero_weights", "*"),
    ("slates_left_out", "PseudoInverse*"),
    ("slates_left_out", "SlateDoublyRobust*"),
}
# The defaults of DRns: the mean reward of other rounds for a model, which was .5 for
# rewards of 0 and 1, and pooled trajectories. By parameters the numbers are as before,
# see test_the_former_defaults_of_drns_give_the_former_numbers.
PARTS = ("splits", "horizon", "horizon sums", "horizon length", "horizon splits")
LEARNERS = ("learner", *(f"{part} learner" for part in PARTS[1:]))
CHANGED |= {
    f"{world}/DRns{entry}/*": "the defaults of DRns"
    for world in ("uniform_log", "unlike_log")
    for entry in ("", " sums", " worst", *(f" {one}" for one in PARTS + LEARNERS))
}
CHANGED |= {
    f"loggers_weighted/MultiLogger* weighted*/{quantity}": (
        "cells of one round, with weights of their own: their error is overstated or "
        "NaN, it was understated"
    )
    for quantity in ERRORS
    if quantity not in ("round_values", "difference_freedom")
}
CHANGED |= {
    f"{world}/{entry}/{quantity}": "rounds of weight 0 do not count in n"
    for world, entry in sorted(ZERO)
    for quantity in ERRORS
}
CHANGED |= {
    f"slates_left_out/{entry}/difference*": (
        "a difference is that of the rounds that both values are about"
    )
    for entry in ("PseudoInverse*", "SlateDoublyRobust*", "SlateIPS self-normalised")
}


def written(name):
    """What was written down of a world."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def deviations(name, stored, only=None):
    """Quantities of a world that are not what was written down, with both numbers."""
    now, atol = reference_numbers(name, only)
    if only is not None:
        stored = {entry: stored[entry] for entry in now}
    assert set(now) == set(stored), "other entries: write the values anew"
    found = {}
    for entry, numbers in stored.items():
        for quantity, text in numbers.items():
            one = now[entry].get(quantity, np.nan)
            if quantity == "raises":
                agrees = one == text
            else:
                then = np.array(text, dtype=float)
                agrees = np.shape(one) == then.shape and np.allclose(
                    one, then, rtol=1e-12, atol=atol, equal_nan=True
                )
            if not agrees:
                found[f"{name}/{entry}/{quantity}"] = (text, one)
    return found


@pytest.mark.few_cases(5)
@pytest.mark.parametrize("name", sorted(WORLDS))
def test_numbers_are_what_they_were(name):
    found = deviations(name, written(name))
    patterns = [p for p in CHANGED if fnmatchcase(name, p.split("/")[0])]
    wrong = {
        key: numbers
        for key, numbers in found.items()
        if not any(fnmatchcase(key, pattern) for pattern in patterns)
    }
    assert not wrong
    for pattern in patterns:  # one that excuses nothing would hide the next change
        assert any(fnmatchcase(key, pattern) for key in found), pattern


def test_every_world_is_written_down():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(WORLDS)


def test_a_difference_is_seen():
    stored = written("eight")
    stored["IPS"]["value"] = repr(float(stored["IPS"]["value"]) + 1e-11)
    stored["SNIPS"]["by"][0] = "nan"
    assert set(deviations("eight", stored)) == {"eight/IPS/value", "eight/SNIPS/by"}


def former_drns(entry, evaluator):
    """DRns with the defaults that it had when the numbers were written down."""
    if not isinstance(evaluator, DRns):
        return None
    former = {} if evaluator.reward_model is not None else {"reward_model": 0.5}
    if evaluator.normalize == "pooled" and "sums" not in entry:
        former["normalize"] = True
    return clone(evaluator).set_params(**former)


@pytest.mark.parametrize("name", ["uniform_log", "unlike_log"])
def test_the_former_defaults_of_drns_give_the_former_numbers(name):
    found = deviations(name, written(name), former_drns)
    assert len(reference_numbers(name, former_drns)[0]) == 14
    # the freedom of differences is the rule of all families, see CHANGED
    assert {key.split("/")[-1] for key in found} <= {"difference_freedom"}
