# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The command `audit`: whether the log can answer, and for a policy."""

from skope_ope._shell._answer import (
    Answer,
    about_lines,
    start_record,
    warning_lines,
    warning_records,
)
from skope_ope._shell._policies import (
    log_text,
    read_source,
    rounds_and_targets,
    wanted_policies,
)
from skope_ope.audit._audit import audits
from skope_ope.logs._validation import in_context
from skope_ope.policies import action_probabilities
from skope_ope.policies._policy_files import can_name_columns, frame_of_context

ALARM = 1


def run_audit(args, progress, caught):
    """Return the answer of `audit`; its code tells whether there are alarms."""
    wanted = wanted_policies(args, needed=False)
    if len(wanted) > 1:
        raise ValueError("an audit is about one policy: name one, or none.")
    # a policy that is saved or learned here knows the encoded columns
    knows_them = any(one.saved is not None or one.is_learned for one in wanted)
    as_frame = not knows_them and can_name_columns()
    source = read_source(args, args.logs, progress, wanted, as_frame=as_frame)
    about = {"log": log_text(args.logs, source)}
    logs, policies, told = rounds_and_targets(args, source, wanted, progress)
    for one in wanted:
        about["policy"] = told[one.name]
    found, of_policies = audits_of(
        args, source, wanted, logs, policies, about, progress
    )
    for one in wanted:
        found = of_policies[one.name]
    told_by_the_way = warning_records({}, caught, None)
    record = {
        **start_record(args),
        "about": about,
        "n_rounds": len(logs),
        "n_actions": logs.n_actions,
        **found.to_dict(),
        "warnings": told_by_the_way,
    }
    lines = [*about_lines(about), "", str(found), *warning_lines(told_by_the_way)]
    return Answer(record, "\n".join(lines), 0 if found.ok else ALARM)


def audits_of(args, source, wanted, logs, policies, about, progress):
    """Audit the rounds, alone and for policies."""
    # those that are learned here know the encoded columns, others those of the file
    policies = policies | {
        one.name: action_probabilities(policies[one.name], logs)
        for one in wanted
        if one.is_learned
    }
    logs = _with_names(logs, source, about)
    with progress.step(f"auditing {len(logs):,} rounds"):
        return audits(policies, logs, random_state=args.random_state)


def _with_names(logs, source, about):
    """Return the rounds with the columns of the file, so that findings name them."""
    # Without pandas the context stays encoded, and the report says what its columns
    # are.
    if not source.features:
        return logs
    frame = frame_of_context(source)
    if frame is None:
        names = source.encoder.names()
        about["context"] = ", ".join(f"{j}: {name}" for j, name in enumerate(names))
        return logs
    return in_context(logs, frame.iloc[logs.row_id.position])
