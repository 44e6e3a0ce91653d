# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The demonstration: digits whose true answer is known."""

from skope_ope._shell._answer import LEVEL, Answer
from skope_ope._shell._evaluate import recommendation, start_report
from skope_ope._shell._value_report import report_record, to_text, warning_records
from skope_ope.datasets._digits_demo import digits_demo
from skope_ope.evaluators._defaults import DEFAULTS

BIASED = ("DirectMethod", "DRos")  # beside the default ones, as a warning


def run_demo(args, progress, caught):
    """Return the answer of `demo`, see `run_evaluate`."""
    with progress.step("evaluating a policy on handwritten digits"):
        demo = digits_demo([*DEFAULTS, *BIASED], args.random_state)
    table = demo.table
    records = [
        report_record(name, value, LEVEL, recommended=table.recommended)
        for name, value in table.items()
    ]
    report = start_report(args, records)
    report["recommendation"] = recommendation(table)
    report.update(about=demo.about, notes=demo.notes, truth=demo.truth)
    for record in report["values"]:
        record["error"] = record["value"] - demo.truth
        record["covers"] = bool(record["low"] <= demo.truth <= record["high"])
    report["reference_values"].append({"evaluator": "true value", "value": demo.truth})
    report["warnings"] = warning_records(table, caught, LEVEL)
    return Answer(report, to_text(report))
