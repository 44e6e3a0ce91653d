# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The log file that the options name, and what is to be said of it."""

from dataclasses import replace

from skope_ope.logs._model_features import check_features
from skope_ope.propensities import PropensityEstimator
from skope_ope.readers._read_logs import read_logs
from skope_ope.readers._table_logs import Roles


def read_source(
    args, path, progress, wanted=(), *, like=None, beside=None, as_frame=False
):
    """Read a log file as the options say."""
    roles = _roles(args, wanted, policy_columns=like is None)
    with progress.step(f"reading {path}") as tell:
        source = read_logs(
            path,
            roles,
            format=args.format,
            like=like,
            align_with=beside,
            as_frame=as_frame,
            on_error="skip" if args.skip_bad_lines else "raise",
            report=lambda n_rows: tell(f"{n_rows:,} rows"),
        )
    if args.propensity != "estimate":
        return source
    with progress.step("estimating the propensities"):
        check_features(source.logs, "'--propensity estimate'", takes_missing=False)
        estimator = PropensityEstimator(cv=args.folds)
        return replace(source, logs=estimator.fit_transform(source.logs))


def _roles(args, wanted, policy_columns):
    """Return which column means what; None where no option names one."""
    if args.propensity == "estimate" and args.logging_proba is not None:
        raise ValueError(
            "--propensity estimate and --logging-proba are both given: leave out the "
            "estimate where the log has the probabilities."
        )
    needed = {"action": args.action, "reward": args.reward}
    given = needed | {
        "propensity": None if args.propensity == "estimate" else args.propensity,
        "logging_proba": args.logging_proba,
        "context": args.context,
        "exclude": args.exclude,
        "actions": args.actions,
        "logger": args.logger,
        "timestamp": args.timestamp,
        "group": args.group,
        "sample_weight": args.weight,
    }
    given = {field: value for field, value in given.items() if value is not None}
    extra = []
    for one in wanted:
        known = getattr(one.saved, "feature_names_in_", ())
        extra += [(name, "feature") for name in known]
        if one.kind == "columns" and policy_columns:
            extra += [(name, "number") for name in one.value]
    if args.policy_table_by:
        extra.append((args.policy_table_by, "label"))
    extra = tuple(dict.fromkeys(extra))
    return Roles(extra=extra, **(needed | given)) if given else None


def extra_column(source, name, kind):
    """Return a further column of the file."""
    if source.extra and (name, kind) in source.extra:
        return source.extra[name, kind]
    if name not in source.logs.columns:
        found = ", ".join(source.logs.columns) or "none"
        raise ValueError(
            f"a log read as {source.format} has no column {name!r}; it has {found}."
        )
    return source.logs.columns[name]


def log_text(path, source):
    """Say what was read."""
    logs, about = source.logs, source.logs.summary()
    features = f"{logs.n_features:,} features"
    if source.features and len(source.features) != logs.n_features:
        features = (
            f"{len(source.features):,} features (as {logs.n_features:,} columns where "
            "texts are encoded)"
        )
    return (
        f"{path} ({source.format}): {about['rounds']} rounds, {logs.n_actions:,} "
        f"actions, {features}, reward {about['reward']}, propensity "
        f"{about['propensity']}"
    )
