# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of texts, and what their distinct texts stand for."""

import re
from dataclasses import dataclass

import numpy as np

TRUTH = {"true": 1.0, "false": 0.0}
INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
# 15 digits: longer ones, such as 64-bit ids, share floats
DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]*)?([eE][-+]?[0-9]{1,2})?")


@dataclass(frozen=True)
class Texts:
    """A column of texts: codes of the rows, and the texts by code."""

    codes: np.ndarray
    values: list

    def __len__(self):
        return len(self.codes)

    def array(self):
        """Return the texts of the rows, dtype object."""
        return np.array(self.values, dtype=object)[self.codes]


def parse_labels(texts):
    """Turn distinct texts into ints, floats or booleans where all of them are such.

    Texts like "007" and numbers that are too long stay texts: as numbers they would
    collide with others.
    """
    if all(map(INTEGER.fullmatch, texts)):
        return np.array([int(text) for text in texts], dtype=np.int64)
    if all(map(DECIMAL.fullmatch, texts)):
        return np.array([float(text) for text in texts])
    if {text.lower() for text in texts} <= set(TRUTH):
        return np.array([bool(TRUTH[text.lower()]) for text in texts])
    return np.array(texts)
