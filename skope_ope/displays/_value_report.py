# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the command line reports: one dict, as JSON or as text."""

import json
import math

from skope_ope.exceptions import OPEWarning
from skope_ope.logs._text_table import decimals, number, text_table, wrapped


def value_record(name, value, level, baseline=None):
    """Return an estimate as a dict of plain numbers.

    With a `baseline` from the same rounds, its paired difference is in there, too.
    """
    low, high = value._interval(level)
    record = {
        "evaluator": name,
        "value": value.value,
        "standard_error": value.standard_error,
        "low": low,
        "high": high,
        "effective_sample_size": value.effective_sample_size,
        "n_rounds": value.n_rounds,
    }
    if baseline is not None:
        gain = value - baseline
        low, high = gain._interval(level)
        record["gain"] = {
            "value": gain.value,
            "standard_error": gain.standard_error,
            "low": low,
            "high": high,
        }
    return record


def warning_records(values, caught):
    """Return distinct warnings as dicts, those of the estimates first.

    Parameters
    ----------
    values : mapping of PolicyValue
        Estimates by name of the evaluator.
    caught : list of warnings.WarningMessage
        What else was warned of meanwhile.
    """
    found = {}
    named = [(w, name) for name, value in values.items() for w in value.warnings]
    for warning, name in [*named, *((message.message, None) for message in caught)]:
        if name is None and not _matters(warning):
            continue
        text = " ".join(str(warning).split())
        record = found.setdefault(
            (type(warning), text),
            {
                "type": type(warning).__name__,
                "message": text,
                "value": getattr(warning, "value", None),
                "evaluators": [],
            },
        )
        if name is not None and name not in record["evaluators"]:
            record["evaluators"].append(name)
    return list(found.values())


def _matters(warning):
    quiet = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
    return isinstance(warning, OPEWarning) or not isinstance(
        warning, (*quiet, ResourceWarning, ImportWarning)
    )


def to_json(report):
    """Return the report as JSON; what is not a number there is null."""
    return json.dumps(_plain(report), indent=2, allow_nan=False)


def _plain(value):
    if isinstance(value, dict):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, bool | str) or value is None:
        return value
    if hasattr(value, "item"):  # a number of numpy's
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, int | float) else str(value)


def to_text(report):
    """Return the report as text: what was read, the table, notes and warnings."""
    lines = []
    for name, text in report["about"].items():
        lines += wrapped(text, f"{name:<9} ", " " * 10)
    lines += ["", *_table(report)]
    for text in report["notes"]:
        lines += ["", *wrapped(text)]
    if report["warnings"]:
        lines += ["", "Warnings"]
    for i, record in enumerate(report["warnings"], 1):
        names = ", ".join(record["evaluators"])
        whose = f" ({names})" if names else ""
        text = f"{record['type']}{whose}: {record['message']}"
        lines += wrapped(text, f"[{i}] ", "    ")
    return "\n".join(lines) + "\n"


def _table(report):
    records, extra = report["values"], report["reference_values"]
    percent = f"{100 * report['level']:g}%"
    has_truth = "truth" in report
    has_gain = any("gain" in record for record in records)
    has_other = any("z_on_policy" in record for record in records)
    header = ["", "value", "std. error", f"{percent} low", f"{percent} high"]
    header += ["error", "covers"] if has_truth else ["eff. rounds"]
    header += ["gain", "std. error"] if has_gain else []
    header += ["z on-policy"] if has_other else []
    header += ["warnings"] if report["warnings"] else []
    places = decimals([record["standard_error"] for record in records])
    rows = []
    for record in [*records, *extra]:
        row = [record["evaluator"]]
        row += [
            number(record.get(name), places)
            for name in ("value", "standard_error", "low", "high")
        ]
        if has_truth:
            row.append(number(record.get("error"), places))
            row.append({True: "yes", False: "no"}.get(record.get("covers"), ""))
        else:
            size = record["effective_sample_size"]
            row.append("-" if math.isnan(size) else number(size, 1))
        if has_gain:
            gain = record.get("gain", {})
            row += [number(gain.get(n), places) for n in ("value", "standard_error")]
        if has_other:
            row.append(number(record.get("z_on_policy"), 1))
        if report["warnings"]:
            marks = [
                str(i)
                for i, warning in enumerate(report["warnings"], 1)
                if record["evaluator"] in warning["evaluators"]
            ]
            row.append(f"[{','.join(marks)}]" if marks else "")
        rows.append(row)
    return text_table(header, rows)
