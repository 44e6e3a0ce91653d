# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a table shows of one value."""

NUMBERS = {  # of a row by what stands above them
    "value": "value",
    "std. error": "standard_error",
    "95% low": "low",
    "95% high": "high",
}
BIASED = (
    "An interval that leaves a bias out may miss the policy's value however many "
    "rounds there are."
)
LEFT = ("interval", "note", "warnings")  # columns of words, aligned to the left


def value_record(value, level):
    """Return an estimate as a dict of plain numbers and words.

    Parameters
    ----------
    value : PolicyValue
        The estimate.
    level : float
        Coverage of the interval.

    Returns
    -------
    record : dict
        Keys: value, standard_error, low, high, interval (the method that answered),
        effective_sample_size, n_rounds, leaves_bias_out, interval_warnings (names).
    """
    found = value._interval(level)
    return {
        "value": value.value,
        "standard_error": value.standard_error,
        "low": found.low,
        "high": found.high,
        "interval": found.method,
        "effective_sample_size": value.effective_sample_size,
        "n_rounds": value.n_rounds,
        "leaves_bias_out": value.leaves_bias_out,
        "interval_warnings": [type(w).__name__ for w in found.warnings],
    }


def mark_of(record):
    """Return what marks a row: that it is recommended, or what it leaves out."""
    if record.get("recommended"):
        return "recommended"
    left_out = record.get("leaves_bias_out")
    return f"leaves out {left_out}" if left_out else ""
