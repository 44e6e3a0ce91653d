# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies from files: tables of probabilities."""

import numpy as np

from skope_ope.logs._numbers import number, quoted
from skope_ope.logs._rounded_proba import rounding
from skope_ope.logs._text_files import empty_file
from skope_ope.logs._texts import parse_labels
from skope_ope.logs._validation import label_codes
from skope_ope.readers._csv_columns import open_csv

CLOSE = 1e-3  # how far from one a sum may be, whatever the digits


def read_policy_table(path, actions, by=None):
    """Read a context-free policy: probabilities by action and, perhaps, by a value."""
    # The first column holds the actions. Without `by` there is one more column or one
    # called "probability"; with it there is one for every value of `by`, which has the
    # value as its name or at the end of its name, as `prob_position_1`.
    header, rows = open_csv(path)
    rows = list(rows)
    if not rows:
        raise empty_file(path)
    labels = parse_labels([row[0].strip() for _, row in rows])
    if labels.dtype.kind == "U" and actions.dtype.kind != "U":
        actions = actions.astype(str)
    codes = label_codes(actions, labels)
    if len(set(labels.tolist())) != len(labels):
        raise ValueError(f"{path}: an action occurs twice. Keep one row per action.")
    if by is None:
        column = _only_column(path, header)
        return _distribution(path, header, rows, column, codes, len(actions))
    values, of_round = np.unique(by, return_inverse=True)
    table = [
        _distribution(
            path, header, rows, _column_of(path, header, value), codes, len(actions)
        )
        for value in values.tolist()
    ]
    return np.array(table)[of_round]


def _only_column(path, header):
    if "probability" in header[1:]:
        return header.index("probability", 1)
    if len(header) == 2:
        return 1
    raise ValueError(
        f"{path} has the columns {', '.join(map(repr, header))}: call the one with the "
        "probabilities 'probability', or say with --policy-table-by which column of "
        "the log chooses among them."
    )


def _column_of(path, header, value):
    names = header[1:]
    matches = [name for name in names if name == str(value)]
    matches = matches or [name for name in names if name.endswith(f"_{value}")]
    if len(matches) != 1:
        found = f"{len(matches)} such columns" if matches else "no such column"
        raise ValueError(
            f"{path} has {found}. Exactly one of {', '.join(map(repr, names))} must be "
            f"called {value!r}, or end in '_{value}'."
        )
    return header.index(matches[0], 1)


def _distribution(path, header, rows, column, codes, n_actions):
    """Return the probabilities of the actions from one column."""
    proba = np.zeros(n_actions)
    written = []
    for (line, row), code in zip(rows, codes, strict=True):
        try:
            p = number(row[column])
        except ValueError:
            p = np.nan
        if not 0 <= p <= 1:
            raise ValueError(
                f"{path}, line {line}: column {header[column]!r} is "
                f"{quoted(row[column])}, "
                "expected a probability."
            )
        if code < 0 and p > 0:
            raise ValueError(
                f"{path}, line {line}: the policy gives probability {p:.4g} to action "
                f"{row[0]!r}, which the log does not have. If it can be taken, name "
                "all actions with --actions."
            )
        written.append(p)
        proba[code] = p if code >= 0 else proba[code]
    total = sum(written)
    _, bound = rounding(np.array([written]))
    if abs(total - 1) > max(CLOSE, bound):
        raise ValueError(
            f"{path}: column {header[column]!r} sums to {total:.6g} over the actions, "
            "expected 1."
        )
    return proba / total
