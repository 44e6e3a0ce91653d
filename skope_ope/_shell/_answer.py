# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a command says: progress, a record for programs, a text for people, a code."""

import json
import math
import re
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

from skope_ope import __version__
from skope_ope._texts import harmless, one_line
from skope_ope.exceptions import OPEWarning
from skope_ope.logs._shown_numbers import (
    LEFT,
    as_table,
    bias_notes,
    decimals,
    figure,
    fixed,
    formats_of,
    marks_of,
    places_of,
    sizes_of,
    text_table,
    value_columns,
    value_record,
    wrapped,
)
from skope_ope.selection._outcome import THE_SYSTEM

DEFAULT_LEVEL = 0.95


@dataclass(frozen=True)
class Answer:
    """What a command says."""

    record: dict  # for `--json`
    text: str  # for a terminal
    code: int = 0  # the exit code


def start_record(args):
    """Return what every command tells programs: the version and the arguments."""
    # An option that may be repeated is a list where it was.
    arguments = {
        name: value[0] if isinstance(value, list) and len(value) == 1 else value
        for name, value in vars(args).items()
        if name not in ("run", "words")
    }
    return {"version": __version__, "command": args.command, "arguments": arguments}


def write(stream, text):
    """Write lines to a stream; letters that it cannot write are shown as escapes."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    letters = f"{text}\n".encode(encoding, "backslashreplace")
    stream.write(letters.decode(encoding))
    stream.flush()


# Steps that messages of the package name, and the option that takes them here.
OPTION_OF_STEP = {
    r"on_error='skip'": "--skip-bad-lines",
    r"(Logger)?PropensityEstimator(\(\))?": "--propensity estimate",
    r"without the old ones": "without the old ones (as by --exclude)",
    r"evaluators=\['IPS', 'SNIPS'\] of evaluate": "--evaluators IPS,SNIPS",
    r"Name these columns\.": "Name these columns: --logging-proba p_a,p_b,...",
}


def message_of(error):
    """Return what an exception says, in one harmless line."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return harmless(f"{error.filename}: {error.strerror}")
    text = harmless(one_line(error))
    for step, option in OPTION_OF_STEP.items():
        text = re.sub(step, option, text)
    if isinstance(error, (ValueError, TypeError, OSError, ImportError)) and text:
        return text
    return f"{type(error).__name__}: {text or 'no message'}"


# -- values: one dict, as JSON or as text ----------------------------------------------


def report_record(name, value, level, *, policy=None, baseline=None, recommended=None):
    """Return an estimate as a dict of plain numbers and words."""
    record = {} if policy is None else {"policy": policy}
    record |= {"evaluator": name, **value_record(value, level)}
    record["recommended"] = recommended is not None and name == recommended
    if baseline is not None:
        gain = value_record(value - baseline, level)
        del gain["effective_sample_size"]
        record["gain"] = gain
    return record


def warning_records(values, caught, level):
    """Return distinct warnings as dicts, those of the estimates first."""
    found = {}
    named = [
        (warning, name)
        for name, value in values.items()
        for warning in (*value.warnings, *value._interval(level).warnings)
    ]
    for warning, name in [*named, *((message.message, None) for message in caught)]:
        if name is None and not _matters_to_users(warning):
            continue
        text = one_line(warning)
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


def _matters_to_users(warning):
    quiet = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
    return isinstance(warning, OPEWarning) or not isinstance(
        warning, (*quiet, ResourceWarning, ImportWarning)
    )


def to_json(report):
    """Return the report as JSON; what is not a number there is null."""
    text = json.dumps(_plain_json(report), indent=2, allow_nan=False)
    return text.replace("\x7f", r"\u007f")  # the one control that JSON takes as it is


def _plain_json(value):
    if isinstance(value, dict):
        return {str(name): _plain_json(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_json(entry) for entry in value]
    if isinstance(value, bool | str) or value is None:
        return value
    if hasattr(value, "item"):  # a number of numpy's
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, int | float) else str(value)


def to_text(report):
    """Return the report as text: what was read, the table, notes and warnings."""
    lines = [
        *about_lines(report["about"]),
        "",
        *_value_table(report),
        *_gain_table(report),
    ]
    if report.get("recommendation"):
        name, reason = report["recommendation"].values()
        lines += ["", *wrapped(f"Recommended: {name or 'none of these'}; {reason}.")]
    if "decision" in report:
        lines += wrapped(report["decision"]["sentence"])
    notes = bias_notes(report["values"])
    if notes:
        lines.append("")
    for text in notes:
        lines += wrapped(text)
    for text in report["notes"]:
        lines += ["", *wrapped(text)]
    lines += verdict_lines(report) + warning_lines(report["warnings"])
    return "\n".join(lines + requirement_lines(report))


def about_lines(about):
    """Return the lines that say what was read, a dict of sentences by a word."""
    width = max(map(len, about), default=0)
    texts = [wrapped(text, f"{name:<{width}}  ") for name, text in about.items()]
    return [line for lines in texts for line in lines]


def warning_lines(records):
    """Return the lines of warnings that `warning_records` has told apart."""
    lines = ["", "Warnings"] if records else []
    for i, record in enumerate(records, 1):
        names = ", ".join(record["evaluators"])
        whose = f" ({names})" if names else ""
        text = f"{record['type']}{whose}: {record['message']}"
        lines += wrapped(text, f"[{i}] ", "    ")
    return lines


def row_name(policy, evaluator, several):
    """Return what a row is called in a sentence."""
    return f"{policy}/{evaluator}" if several else evaluator


def _value_table(report):
    records, warned = report["values"], report["warnings"]
    shown, several = [*records, *report["reference_values"]], _has_several(report)
    columns = _name_columns(shown, several)
    columns |= value_columns(shown, report["level"], *formats_of(records))
    if "truth" in report:
        places = places_of(records)
        columns["error"] = [fixed(one.get("error"), places, "+") for one in shown]
        yes_no = {True: "yes", False: "no"}
        columns["covers"] = [yes_no.get(one.get("covers"), "") for one in shown]
    else:
        columns["eff. rounds"] = sizes_of(shown)
    if any("z_on_policy" in one for one in records):
        z = [fixed(one.get("z_on_policy"), 1, "+") for one in shown]
        columns["z on-policy"] = z
    columns["note"] = [*marks_of(records), *("" for _ in report["reference_values"])]
    columns["warnings"] = [_warning_numbers(one, warned, several) for one in shown]
    return text_table(*as_table(columns), n_left=1 + several, left=LEFT)


def _warning_numbers(record, warned, several):
    name = row_name(record.get("policy"), record["evaluator"], several)
    numbers = [str(i) for i, one in enumerate(warned, 1) if name in one["evaluators"]]
    return f"[{','.join(numbers)}]" if numbers else ""


def _gain_table(report):
    """Return the lines of the gains over the logger, where there are any."""
    records = [record for record in report["values"] if "gain" in record]
    if not records:
        return []
    gains, several = [record["gain"] for record in records], _has_several(report)
    places = decimals([gain["standard_error"] for gain in gains])
    formats = (lambda x: fixed(x, places, "+")), (lambda x: fixed(x, places))
    columns = _name_columns(records, several)
    columns |= value_columns(gains, report["level"], *formats, title="gain")
    mean = f"mean {report.get('reward_name') or 'reward'}"
    title = f"Gains over the {mean} of {THE_SYSTEM}, in pairs"
    table = text_table(*as_table(columns), n_left=1 + several, left=LEFT)
    return ["", title, *table]


def _name_columns(records, several):
    """Return the columns of names; what is of no policy stands among the policies."""
    evaluators = [one["evaluator"] for one in records]
    if not several:
        return {"": evaluators}
    policies = [one.get("policy") for one in records]
    return {
        "policy": [p or name for p, name in zip(policies, evaluators, strict=True)],
        "evaluator": [
            name if p else "" for p, name in zip(policies, evaluators, strict=True)
        ],
    }


def _has_several(report):
    return len(report.get("policies", ())) > 1


# -- what the command line says of verdicts and requirements, from its record ----------

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
        answer = _answer_text(found)
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
    told = f"Verdict on the gain of {report['decision']['choice']}, which is decided on"
    return wrapped(f"{told}: {_answer_text(found)}.")


def _answer_text(verdict):
    """Return the answer of a verdict, with the names of its reasons."""
    names = ", ".join(dict.fromkeys(one["finding"] for one in verdict["reasons"]))
    return verdict["answer"] + (f" ({names})" if names else "")


def requirement_lines(report):
    """Return the lines of the requirements, with the numbers that were compared."""
    records = report.get("requirements", [])
    if not records:
        return []
    lines = ["", "Requirements"]
    for one in records:
        mark = "holds" if one["holds"] else "DOES NOT HOLD"
        numbers = f"{_side_text(one['left'])} against {_side_text(one['right'])}"
        by = f", by {', '.join(one['evaluators'])}" if one["evaluators"] else ""
        because = "".join(f"; {one[key]}" for key in ("because", "note") if one[key])
        lines += wrapped(f"{mark}: {one['text']} ({numbers}{by}){because}.", "  ")
    undecided = report.get("decision", {}).get("decision") == "undecided"
    if undecided and all(one["holds"] for one in records):
        lines += wrapped(BUT_UNDECIDED)
    if any("logger" in one["text"] and one["evaluators"] for one in records):
        lines += wrapped(LOGGER_IS_A_NUMBER)
    return lines


def _side_text(side):
    return side if isinstance(side, str) else ("nan" if side != side else figure(side))


# -- progress of long work, on a terminal or as lines of a log -------------------------

PROGRESS_PATIENCE = 0.5  # seconds of work that nobody needs to be told of
TICK = 0.5  # seconds between updates of a line on a terminal
LINE = 10.0  # seconds between lines where they cannot be rewritten


class ProgressLine:
    """Tell on a stream what is being done, and for how long already."""

    def __init__(self, stream, wanted=None):
        self.stream = stream
        self.rewrites = hasattr(stream, "isatty") and stream.isatty()
        self.enabled = self.rewrites if wanted is None else wanted
        self.patience = PROGRESS_PATIENCE if wanted is None else 0.0

    @contextmanager
    def step(self, text):
        """Run the body as one step; yields a function that takes news of it."""
        if not self.enabled:
            yield lambda news: None
            return
        state = {"news": ""}
        done = threading.Event()
        start = time.monotonic()
        ticker = threading.Thread(
            target=self._tick, args=(text, state, done, start), daemon=True
        )
        ticker.start()
        try:
            yield lambda news: state.update(news=news)
        finally:
            done.set()
            ticker.join()
            if time.monotonic() - start >= self.patience:
                self._write(text, state, start, last=True)

    def _tick(self, text, state, done, start):
        wait = max(PROGRESS_PATIENCE, self.patience)
        while not done.wait(wait if self.rewrites else LINE):
            self._write(text, state, start)
            wait = TICK

    def _write(self, text, state, start, last=False):
        news = f": {state['news']}" if state["news"] else ""
        line = f"{harmless(text + news)} ({time.monotonic() - start:.1f} s)"
        if self.rewrites:  # back to the start of the line, and clear it
            self.stream.write(f"\r\x1b[K{line}" + ("\n" if last else ""))
        else:
            self.stream.write(line + "\n")
        self.stream.flush()
