# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that stand for labels, the same in every process and on every platform."""

import zlib

import numpy as np

from skope_ope.logs._factorise import factorise

PRIME = 2**31 - 1
ROOT = 48271  # a primitive root of the prime: its powers are all multipliers there are


def label_hash(labels):
    """Return a number in 0..PRIME-1 for every label, shape (n_rounds,)."""
    # Integers g become ``(g % PRIME) * ROOT % PRIME``, which data frames and databases
    # compute as well; other labels are first replaced by the CRC-32 of their text.
    # Equal labels of different types (1, 1.0, True) have equal hashes.
    kind = labels.dtype.kind
    if kind in "mM":
        labels = labels.astype(f"{kind}8[us]")
    if kind == "u":
        numbers = (labels.astype(np.uint64) % np.uint64(PRIME)).astype(np.int64)
    elif kind in "bimM":
        numbers = labels.astype(np.int64) % PRIME
    else:
        distinct, codes = factorise(labels)
        numbers = np.fromiter(map(_number, distinct.tolist()), np.int64, len(distinct))
        numbers = numbers[codes]
    return numbers * ROOT % PRIME


def _number(label):
    if type(label) is str:  # most are
        return zlib.crc32(label.encode("utf-8", "surrogatepass")) % PRIME
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, int) or (isinstance(label, float) and label.is_integer()):
        return int(label) % PRIME
    if isinstance(label, tuple):
        text = ",".join(str(_number(part)) for part in label)
    elif type(label).__str__ is object.__str__ and (
        type(label).__repr__ is object.__repr__
    ):
        raise TypeError(
            f"a label is {label!r}: its text holds a memory address, so its hash "
            "changes between processes. Use texts, numbers or tuples of them."
        )
    else:
        text = label
    if not isinstance(text, bytes):
        text = str(text).encode("utf-8", "surrogatepass")
    return zlib.crc32(text) % PRIME
