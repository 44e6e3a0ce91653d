# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The parameters of the functions that simulate a file of a user."""

from numbers import Integral

from skope_ope._sklearn import Interval, validate_params

# Of a function with n_rounds, random_state and return_truth.
checked = validate_params(
    {
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "return_truth": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
