# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The stored answers of the judge: how they are written, and compared.

``python -m tests.judge.make`` writes the answers of the package at hand. With
``--intervals`` it writes only what follows from intervals, and prints what moved;
values that moved are counted, and stay as they are. With
``--check`` it writes nothing, and prints what moved. Names of worlds or parts of them
may follow: only those are asked.

A number of memory serves all sources. Another source has its own number only where a
rule of BY_RULE says why; any other one is printed, and fails a test.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from tests.judge._calls import answers
from tests.judge._sources import files_and_frames, memory_and_days
from tests.judge._worlds import made, names

FOLDER = Path(__file__).with_name("answers")
OWN = {False: 1e-12, True: 1e-9}  # tolerance of numbers in memory; of intervals
# Of another source, mostly by the number of memory. An interval is as wide as the root
# of a variance: where that is rounding alone, machines differ by its root.
SHARED = {False: 1e-9, True: 1e-7}
# The mean reward of other folds is a model, too.
FITTED = (
    r"(DirectMethod|DoublyRobust( None| 2\.0)?|SNDR|SwitchDR .*|DRos .*|BalancedDR"
    r"|MultiLoggerDR means|SlateDirectMethod|SlateDoublyRobust|CascadeDR)"
    r"( other| minus| by day)?"
)
# Where other sources than memory answer otherwise today: "source/call/name" or "world
# source/call/name" as a regular expression, and why.
BY_RULE = {
    r".*/~(lift|verdict)": "follows the recommended row, and intervals",
    r".*/named/~(bootstrap|percentile)": "sums resample clusters, and no rounds",
    r"(files|days|frame)/named/~(gamma|student|normal)": "asked of another evaluator",
    r"whole frame/.*/~.*": "frames know the largest weight, and not how rare it is",
    r".*/~warnings": "what only rounds show raises no warning",
    r".*/defaults/recommended": "sums do not give every evaluator",
    r".*/compare/.*": "sums do not give every evaluator; folds of HashKFold",
    rf"days/(named|defaults)/~?{FITTED}": "every day has a model of its own",
    rf"files/defaults/~?{FITTED}": "folds of HashKFold, where memory has KFold",
    r"files/fit/~?DRns.*": "folds of HashKFold, where memory has KFold",
    r"files/audit/findings": "files do not tell that propensities were estimated",
    r"days/.*([Bb]alanced|match=action).*": "every day has its own mixture of loggers",
    r"days/.*weighted( pooled.*| other| minus| by day)?": "the same, for divergences",
    r"days/named/~?Cascade.*": "NaN in memory where no whole slate matches",
    r".*/named/~?SlateIPS self-normalised minus": "sums do not know the common rounds",
}


def is_interval(key):
    return "/~" in key


def spelled(told):
    """An answer as it is stored: numbers by 15 digits."""
    if isinstance(told, str) or (told and isinstance(told[0], str)):
        return told
    return [float(f"{float(one):.15g}") for one in told]


def agree(now, then, tolerance, scale):
    """Whether two answers are the same; numbers up to a tolerance of their scale."""
    if isinstance(now, str) or isinstance(then, str) or len(now) != len(then):
        return now == then
    if any(isinstance(one, str) for one in (*now, *then)):
        return now == then
    return all(
        a == b
        or (np.isnan(a) and np.isnan(b))
        or abs(a - b) <= tolerance * max(scale, abs(b))
        for a, b in zip(now, then, strict=True)
    )


def scale_of(world):
    reward = np.asarray(world.logs.reward)
    return float(max(np.ptp(reward), np.abs(reward).max()))


def asked(world, sources):
    """The answers of some sources of a world."""
    return {
        f"{source}/{key}": spelled(told)
        for source, one in sources.items()
        for key, told in answers(world, source, one).items()
    }


def as_memory(key):
    return f"memory/{key.split('/', 1)[1]}"


def reduced(found, scale):
    """Answers without those that memory gives as well."""
    return {
        key: told
        for key, told in found.items()
        if key.startswith("memory/")
        or as_memory(key) not in found
        or not agree(told, found[as_memory(key)], SHARED[is_interval(key)], scale)
    }


def spellings(key, name):
    """A key of an answer, alone and with the kind of its world."""
    return key, f"{name.split()[-1]} {key}"


def unruled(kept, name):
    """Answers of other sources that no rule lets differ; they may refuse to answer."""
    return [
        key
        for key, told in kept.items()
        if not (key.startswith("memory/") or str(told).startswith("raises"))
        and as_memory(key) in kept
        and not any(
            re.fullmatch(rule, one) for rule in BY_RULE for one in spellings(key, name)
        )
    ]


def moved(found, stored, scale):
    """Answers that are not as stored: {key: (then, now)}."""
    wrong = {}
    for key, told in found.items():
        of_memory = key.startswith("memory/")
        own = key in stored or of_memory
        then = stored.get(key if own else as_memory(key), "nothing")
        tolerance = (OWN if of_memory else SHARED)[is_interval(key)]
        if not agree(told, then, tolerance, scale):
            wrong[key] = (then, told)
    sources = {key.split("/", 1)[0] for key in found}
    for key, then in stored.items():
        if key not in found and key.split("/", 1)[0] in sources:
            wrong[key] = (then, "nothing")
    return wrong


def files_of(intervals):
    """The names of six worlds by the file of their values, or of their intervals."""
    chunks = [names()[k : k + 6] for k in range(0, len(names()), 6)]
    word = "intervals" if intervals else "values"
    return {FOLDER / f"{k:02}_{word}.json": some for k, some in enumerate(chunks)}


def stored_answers(intervals):
    """{name of the world: {key: answer}}, of values or of intervals."""
    found = {}
    for path in files_of(intervals):
        if path.exists():
            found |= json.loads(path.read_text())
    return {name: flat(one) for name, one in found.items()}


def flat(nested):
    """{"source/call/name": answer} of nested dicts."""
    return {
        f"{source}/{call}/{name}": told
        for source, calls in nested.items()
        for call, rows in calls.items()
        for name, told in rows.items()
    }


def nested(answers):
    """Dicts by source, call and name; without what the keys repeat."""
    found = {}
    for key, told in answers.items():
        source, call, name = key.split("/", 2)
        found.setdefault(source, {}).setdefault(call, {})[name] = told
    return found


def dense(answers):
    return json.dumps(answers, separators=(",", ":"))


def write(table, intervals):
    FOLDER.mkdir(exist_ok=True)
    for path, some in files_of(intervals).items():
        lines = [
            f"{json.dumps(name)}:{dense(nested(table[name]))}"
            for name in some
            if name in table
        ]
        if lines:
            text = ",\n".join(lines)
            path.write_text(f"{{\n{text}\n}}\n")


def say(text):
    sys.stdout.write(f"{text}\n")


def main(arguments=None):
    """Ask the package at hand, and write or compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("worlds", nargs="*", help="names, or parts of names")
    parser.add_argument("--intervals", action="store_true", help="rewrite these alone")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    wanted = [
        name
        for name in names()
        if not options.worlds or any(one in name for one in options.worlds)
    ]
    stored = {kind: stored_answers(kind) for kind in (False, True)}
    start, n_moved, n_wrong = time.process_time(), Counter(), 0
    for k, name in enumerate(wanted):
        world = made(name)
        scale = scale_of(world)
        with tempfile.TemporaryDirectory() as folder:
            sources = memory_and_days(world) | files_and_frames(world, Path(folder))
            found = asked(world, sources)
        kept = reduced(found, scale)
        for key in unruled(kept, name):
            n_wrong += 1
            say(f"{name}: {key}: {kept[key]}, memory {kept[as_memory(key)]}")
        if options.check or options.intervals:
            both = stored[False].get(name, {}) | stored[True].get(name, {})
            for key, (then, now) in moved(found, both, scale).items():
                n_moved["intervals" if is_interval(key) else "values"] += 1
                if options.check or is_interval(key):
                    say(f"{name}: {key}: {then} -> {now}")
        for kind in (False, True):
            stored[kind][name] = {
                key: told for key, told in kept.items() if is_interval(key) == kind
            }
        if not (k + 1) % 20:
            say(f"{k + 1} of {len(wanted)} worlds, {time.process_time() - start:.0f} s")
    say(f"moved: {dict(n_moved)}; differ without a rule: {n_wrong}")
    if not options.check:
        for kind in (True,) if options.intervals else (False, True):
            write(stored[kind], kind)
    return int(n_wrong > 0 or (options.check and n_moved.total() > 0))


if __name__ == "__main__":
    sys.exit(main())
