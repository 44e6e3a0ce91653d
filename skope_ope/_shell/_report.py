# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The page that `evaluate --report` writes."""

import os
import shlex

from skope_ope._shell._policies import FILE, TABLE
from skope_ope.audit import VerdictThresholds
from skope_ope.reports._report import report_of
from skope_ope.reports._write import checked_path, write_whole
from skope_ope.selection._policy_comparison import LOGGER


def refuse_report(args, wanted):
    """Raise if the page would replace a file that is read, or lack its audit."""
    read = [args.logs, args.compare_logs, args.policy_table]
    read += [one.value for one in wanted if one.kind in (FILE, TABLE)]
    target = checked_path(args.report)
    if target is not None and args.audit is False:
        raise ValueError(
            "--report with --no-audit: the page includes an audit, and its "
            "recommendation and requirements must use the same audit. Leave out one "
            "of the two."
        )
    if target is None or not target.exists():
        return
    if any(target.samefile(path) for path in read if path and os.path.exists(path)):
        raise ValueError(
            f"--report {args.report}: the page would replace this input file. Give "
            "another name, such as report.html."
        )


def write_report(args, report, values, policies, logs, audited):
    """Write the page, and say in the report what it recommends."""
    target = checked_path(args.report)
    found, _ = report_of(
        values,
        policies,
        logs,
        title=None,
        baseline=LOGGER,
        level=args.level,
        command=shlex.join(args.words),
        about=report["about"],
        audited=audited,
        thresholds=VerdictThresholds(accepted=args.accept),
    )
    write_whole(target, found.to_html())
    # it knows the audit: it stands in the place of what gains alone would say
    report["decision"] = {
        "decision": found.decision,
        "choice": found.choice,
        "sentence": found.sentence,
    }
    if found.choice is not None:
        report["decision"]["verdict"] = found.verdicts[found.choice].to_dict()
    report["page"] = str(target)
    report["notes"].append(f"The page is in {args.report}.")
