# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a table shows of one value."""

from skope_ope.logs._shown_numbers import decimals

NUMBERS = {  # of a row by what stands above them
    "value": "value",
    "std. error": "standard_error",
    "95% low": "low",
    "95% high": "high",
}
BIASED = (
    "These intervals leave out a bias of their evaluators. They may miss the "
    "policy's value, however many rounds there are."
)
LEFT = ("interval", "note", "warnings")  # columns of words, aligned to the left


def value_record(value, level):
    """Return an estimate as a dict of plain numbers and words."""
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


def places_of(records):
    """Return the decimal places of values: by the errors of rows that have no star."""
    plain = [one for one in records if not one.get("leaves_bias_out")] or records
    return decimals([record["standard_error"] for record in plain])


def stars_of(reasons):
    """Get a mark, one star or more, for each distinct reason to doubt an interval."""
    distinct = dict.fromkeys(reason for reason in reasons if reason)
    return {reason: "*" * (i + 1) for i, reason in enumerate(distinct)}


def marks_of(records):
    """Return what marks each row: that it is recommended, or biased by design."""
    stars = stars_of(record.get("leaves_bias_out") for record in records)
    return [_mark(record, stars) for record in records]


def _mark(record, stars):
    if record.get("recommended"):
        lost = "SupportWarning" in record.get("warnings", "")
        return "recommended, in part never logged" if lost else "recommended"
    reason = record.get("leaves_bias_out")
    return f"biased {stars[reason]}" if reason else ""


def bias_notes(records):
    """Return what the marks of biased rows mean, in lines for below the table."""
    stars = stars_of(record.get("leaves_bias_out") for record in records)
    notes = [f"{star} leaves out {reason}" for reason, star in stars.items()]
    return [*notes, BIASED] if notes else []
