# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the command line says of verdicts and requirements, from its record."""

from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._text_table import wrapped

LOGGER_IS_A_NUMBER = (
    "'logger' is the mean reward of the same rounds as a number, without its own "
    "error. NAME.gain.lower > 0 compares in pairs."
)
BUT_UNDECIDED = (
    "The requirements hold, but the recommendation above is not to decide yet, "
    "because of doubts. NAME.verdict == trustworthy requires that there are none."
)


def verdict_lines(report):
    """Return the lines of verdicts: on the recommended rows, or on all."""
    records = [record for record in report["values"] if "verdict" in record]
    marked = [record for record in records if record["recommended"]]
    records = marked or records
    if not records:
        return []
    several = len(report["policies"]) > 1
    lines, reasons, unchecked = [""], {}, {}
    for record in records:
        found = record["verdict"]
        told = f"Verdict on {record['evaluator']}"
        told += f" of {record['policy']}" if several else ""
        names = ", ".join(dict.fromkeys(one["finding"] for one in found["reasons"]))
        answer = found["answer"] + (f" ({names})" if names else "")
        if found["answer"] == "trustworthy" and not found["audited"]:
            answer += ", as far as the value tells; the log was not audited"
        lines += wrapped(f"{told}: {answer}.")
        who = [record["policy"]] * several + [record["evaluator"]] * (not marked)
        for one in found["reasons"]:
            named = reasons.setdefault(one["text"], (one["finding"], []))[1]
            named.append("/".join(map(str, who)))
        unchecked |= dict.fromkeys(found["unchecked"])
    lines += _gain_lines(report)
    known = {record["message"].lower() for record in report["warnings"]}
    for text, (name, who) in reasons.items():
        if text.lower() not in known and text.rstrip(".").lower() not in known:
            about = f" ({', '.join(who)})" if len(who) < len(records) else ""
            lines += wrapped(f"{name}: {text}{about}", "- ")
    return [*lines, *wrapped(f"Not checked: {' '.join(unchecked)}")]


def _gain_lines(report):
    """Return the verdict on the gain that a decision rests on, which is another one."""
    found = report.get("decision", {}).get("verdict")
    if not found:
        return []
    names = ", ".join(dict.fromkeys(one["finding"] for one in found["reasons"]))
    answer = found["answer"] + (f" ({names})" if names else "")
    choice = report["decision"]["choice"]
    return wrapped(f"Verdict on the gain of {choice}, which is decided on: {answer}.")


def requirement_lines(report):
    """Return the lines of the requirements, with the numbers that were compared."""
    records = report.get("requirements", [])
    if not records:
        return []
    lines = ["", "Requirements"]
    for one in records:
        mark = "holds" if one["holds"] else "DOES NOT HOLD"
        numbers = f"{_told(one['left'])} against {_told(one['right'])}"
        by = f", by {', '.join(one['evaluators'])}" if one["evaluators"] else ""
        because = "".join(f"; {one[key]}" for key in ("because", "note") if one[key])
        lines += wrapped(f"{mark}: {one['text']} ({numbers}{by}){because}.", "  ")
    undecided = report.get("decision", {}).get("decision") == "undecided"
    if undecided and all(one["holds"] for one in records):
        lines += wrapped(BUT_UNDECIDED)
    if any(_compares_with_logger(one) for one in records):
        lines += wrapped(LOGGER_IS_A_NUMBER)
    return lines


def _compares_with_logger(record):
    return "logger" in record["text"] and bool(record["evaluators"])


def _told(side):
    return side if isinstance(side, str) else ("nan" if side != side else figure(side))
