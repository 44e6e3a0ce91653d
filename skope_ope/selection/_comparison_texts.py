# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the table of a comparison shows, as texts."""

from math import floor, isnan, log10

from skope_ope.logs._shown_numbers import decimals, fixed, level_text, p_text
from skope_ope.selection._gain_answers import CANNOT_TELL
from skope_ope.selection._sentence import rough

MORE_PLACES = 3  # of decimals, for a limit that is about zero


def table_texts(comparison):
    """Return the header and the rows of the table: gains first, then values."""
    percent = level_text(comparison.level)
    header = ["policy", f"gain over {comparison._against}", f"{percent} low", "high"]
    header += ["p", "answer", "rounds needed", "value", f"{percent} low", "high"]
    gain, value, rows = gain_format(comparison), value_format(comparison), []
    for record in comparison.to_records():
        name = str(record["policy"])
        cells = [name if record["answer"] else f"{name} (baseline)"]
        cells += [gain(record[f"difference{end}"]) for end in ("", "_low", "_high")]
        cells.append(p_text(record["p_value"]))
        cells.append("deploy" if record["chosen"] else record["answer"])
        n = record["rounds_needed"]
        cells.append("" if isnan(n) else rough(n))
        cells += [value(record[key]) for key in ("value", "low", "high")]
        rows.append(cells)
    return header, rows


def kind_of_mark(record):
    """Return how the bar of a policy is marked, see `interval_bar`."""
    if record["chosen"]:
        return "chosen"
    return "open" if record["answer"] == CANNOT_TELL else "told"


def notes_below(comparison):
    """Return the sentences below the table."""
    m, percent = len(comparison.differences), level_text(comparison.level)
    notes = [comparison.sentence, *comparison._assumed]
    known = comparison._baseline_record()
    if comparison.baseline not in comparison:  # the logger has no row
        text = value_format(comparison)
        value, low, high = (text(known[key]) for key in ("value", "low", "high"))
        notes.append(f"The logger: {value} ({low} to {high}).")
    if m > 1:
        notes.append(
            f"The {m} intervals of gains hold together at {percent}: each alone has "
            f"the level {level_text(comparison.level_of_each, 5)}. The intervals of "
            "values hold together too. So each is wider than in evaluate, where it "
            "holds alone."
        )
    gain = next(iter(comparison.differences.values()))
    if comparison.n_rounds < gain.n_rounds:
        notes.append(
            f"Compared on the {comparison.n_rounds:,} of {gain.n_rounds:,} rounds for "
            "which all values are known."
        )
    per_group = rounds_per_group(gain)
    if per_group is not None:
        notes.append(
            f"Values and gains are per round. A group has {per_group:.2f} rounds on "
            "average."
        )
    notes.append("This comparison does not audit the log: audit(policy, logs) does.")
    return notes


def rounds_per_group(value):
    """Return how many rounds a group of a value has on average, None without groups."""
    n_groups = value.diagnostics.get("n_groups")
    return value.n_rounds / n_groups if n_groups else None


def gain_format(comparison):
    """Return the function that makes a text of a gain, or of its limit."""
    places = _places(comparison.differences.values())
    for one in comparison._answers:
        for limit in (one.low, one.high):  # what is not zero does not look like zero
            if 10 ** -(places + MORE_PLACES) < abs(limit) < 0.5 * 10**-places:
                places = -floor(log10(abs(limit)))
    return lambda x: fixed(x, places, "+")


def value_format(comparison):
    """Return the function that makes a text of a value, or of its limit."""
    places = _places(comparison.values())
    return lambda x: fixed(x, places)


def _places(values):
    return decimals([value.standard_error for value in values])
