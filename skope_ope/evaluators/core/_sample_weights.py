# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Weights of the rounds of some logs."""

from skope_ope.logs._row_labels import check_row_labels
from skope_ope.logs._slate_fields import column_weights
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs._validation import as_numbers, check_length


def combined_weights(logs, sample_weight):
    """Product of the weights of the logs and those given, with mean one, or None."""
    weight = plain_weights(logs, sample_weight)
    if weight is None or (weight == weight[0]).all():
        return None
    return weight / weight.mean()


def plain_weights(logs, sample_weight, of_part=False):
    """Product of the weights of the logs and those given, as they are, or None."""
    if isinstance(logs, SlateLogs):
        weight = column_weights(logs, of_part)
    else:
        weight = getattr(logs, "sample_weight", None)
    if sample_weight is not None:
        given = as_numbers("sample_weight", sample_weight)
        check_length("sample_weight", given, len(logs), "the log")
        check_row_labels("sample_weight", sample_weight, logs)
        if given.min() < 0 or not given.any():
            raise ValueError(
                "sample_weight must be non-negative and positive somewhere, got a "
                f"minimum of {given.min():.6g}, a maximum of {given.max():.6g}."
            )
        weight = given if weight is None else weight * given
        if not weight.any():
            raise ValueError(
                "sample_weight times the weights of the logs is zero in every round: "
                "no round counts."
            )
    return weight
