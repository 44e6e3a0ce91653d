# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which log this was, with what it was evaluated, and how to do it again."""

import hashlib
import platform
import re
from importlib.metadata import version
from sys import modules

import numpy as np

from skope_ope.logs import SlateLogs
from skope_ope.logs._row_content import column_words, combined

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # differs from run to run
LONGEST = 300  # characters of an argument


def fingerprint(logs):
    """Return what tells a log from others, as a dict of texts."""
    if isinstance(logs, SlateLogs):
        columns = [*np.asarray(logs.slate).T]
    else:
        columns = [logs.action]
    columns += [one for one in (logs.reward, logs.propensity) if one is not None]
    words = combined([column_words(np.asarray(column)) for column in columns])
    digest = hashlib.sha256(words.astype("<u8").tobytes()).hexdigest()
    return logs.summary() | {"hash of actions and rewards": digest[:16]}


def versions():
    """Return the versions on which the numbers rest, as a dict of texts."""
    return {
        "skope_ope": modules["skope_ope"].__version__,
        "numpy": np.__version__,
        "scipy": version("scipy"),
        "scikit-learn": version("scikit-learn"),
        "Python": platform.python_version(),
    }


def call_text(policies, path, given):
    """Return the call that made a report, as far as words can say it."""
    pairs = ", ".join(
        f"{name!r}: {type(policy).__name__}" for name, policy in policies.items()
    )
    told = [f"{{{pairs}}}", "logs"]
    told += [] if path is None else [repr(str(path))]
    told += [
        f"{name}={_told(value)}" for name, value in given.items() if value is not None
    ]
    return f"report({', '.join(told)})"


def _told(value):
    """Return an argument in one line, without addresses of memory."""
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    text = " ".join(ADDRESS.sub("", repr(value)).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
