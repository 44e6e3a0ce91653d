# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What sentences call an evaluator: the name of its row in the first table."""

from skope_ope.evaluators._defaults import FORMS
from skope_ope.evaluators._recommended import is_one_of

# What a row is whose name is no name of a class.
SETTINGS = {
    "BalancedIPS": "MultiLoggerIPS with the mixture of all loggers",
    "BalancedDR": "MultiLoggerDR with the mixture of all loggers",
    "wIPS": "SlateIPS, divided by the sum of the weights",
    "wPI": "PseudoInverse, divided by the sum of the weights",
    "ControlledPI": "PseudoInverse with multiple control variates",
}


def told_row(name):
    """Return the name of a row and, where that is no name of a class, what it is."""
    return f"{name} ({SETTINGS[name]})" if name in SETTINGS else name


def row_of(evaluator):
    """Return the name of an evaluator's row, None where that is named by its class."""
    rows = (name for name, one in FORMS.items() if is_one_of(evaluator, one))
    return next(rows, None)
