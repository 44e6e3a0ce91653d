# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Read experiments from the assignment logs of GrowthBook and of Eppo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from skope_ope._sklearn import StrOptions, validate_params
from skope_ope._types import Frame, Label, Path
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.readers._first_exposures import (
    Assignments,
    Outcomes,
    logs_of_experiment,
)

CONSTRAINTS = {
    "user": [str],
    "timestamp": [str],
    "experiment_column": [str],
    "variation": [str],
    "context": [list, tuple, None],
    "reward": [str, None],
    "outcome_user": [str, None],
    "outcome_time": [str, None],
    "aggregate": [StrOptions({"sum", "any"})],
    "several_variations": [StrOptions({"raise", "drop"})],
}


@validate_params(CONSTRAINTS, prefer_skip_nested_validation=True)
def read_growthbook(
    assignments: Path | Frame,
    outcomes: Path | Frame,
    *,
    weights: str | Mapping[Label, float],
    experiment: str | None = None,
    reward: str | None = None,
    context: Sequence[str] | None = None,
    aggregate: str = "sum",
    window: float | timedelta | None = None,
    several_variations: str = "raise",
    user: str = "user_id",
    timestamp: str = "timestamp",
    experiment_column: str = "experiment_id",
    variation: str = "variation_id",
    outcome_user: str | None = None,
    outcome_time: str | None = "timestamp",
    reward_range: tuple[float, float] | None = None,
) -> BanditLogs:
    """Read an experiment from rows of GrowthBook's experiment assignment query.

    The query returns the columns `user_id` (or another identifier), `timestamp`,
    `experiment_id` and `variation_id`, and dimensions as further columns [1]_. Export
    its rows, and a table of what users did. Each user becomes one round, at the first
    exposure. Read more in the :ref:`User Guide <readers>`.

    Parameters
    ----------
    assignments : path or frame
        The exported rows, as a csv, JSON lines or parquet file, or as a pandas, polars
        or pyarrow table.
    outcomes : path or frame
        What users did: one row per outcome, with the user, the time and, optionally,
        a value.
    weights : "even" or dict
        The split that the experiment was configured with, {variation: share}. "even":
        every logged variation had the same share. The shares become the propensities;
        nothing is estimated.
    experiment : str, default=None
        Name of the experiment. `None`: the only one in the table.
    reward : str, default=None
        Column of the outcomes with their values. `None`: every outcome counts 1.
    context : list of str, default=None
        Columns of the assignments that were known at the exposure, such as dimensions.
        `None`: no features. `attributes.country` is the field `country` of the column
        `attributes`, which holds objects or JSON texts.
    aggregate : {"sum", "any"}, default="sum"
        The reward of a user: the sum of the outcomes, or 1 if any is not zero. A user
        without an outcome has the reward 0.
    window : timedelta or float, default=None
        How long after the first exposure outcomes count. Pass a number if times are
        numbers. `None`: to the end of the table.
    several_variations : {"raise", "drop"}, default="raise"
        What to do if users were in several variations: raise an error, or drop these
        users with a warning.
    user, timestamp, experiment_column, variation : str
        Names of these columns in the assignments.
    outcome_user : str, default=None
        Column of the outcomes with the user. `None`: the name in the assignments.
    outcome_time : str or None, default="timestamp"
        Column of the outcomes with the time. `None`: all outcomes came after the
        exposure.
    reward_range : tuple of (float, float), default=None
        Known bounds of the reward.

    Returns
    -------
    logs : BanditLogs
        One row per user, in the order of the first exposures. The action is the
        variation, `group` is the user, and `logging_proba` is the split.

    Raises
    ------
    ValueError
        If a column is missing or malformed. If there are several experiments, or users
        are in several variations. If the weights do not match the logged variations.
    TypeError
        If a table is neither a path nor a frame.

    Warns
    -----
    LogsWarning
        If users in several variations are left out.

    See Also
    --------
    read_eppo : The same for Eppo.
    audit : Checks whether the counts of the variations agree with the stated split.

    References
    ----------
    .. [1] GrowthBook documentation, Data Source Configuration, Experiment Assignment
       Queries. https://docs.growthbook.io/app/datasources

    Examples
    --------
    >>> import pandas as pd
    >>> from skope_ope.readers import read_growthbook
    >>> assignments = pd.DataFrame(
    ...     {
    ...         "user_id": ["u1", "u2", "u1"],
    ...         "timestamp": ["2026-01-05", "2026-01-06", "2026-01-07"],
    ...         "experiment_id": "my-button-test",
    ...         "variation_id": [0, 1, 0],
    ...         "browser": ["firefox", "chrome", "firefox"],
    ...     }
    ... )
    >>> orders = pd.DataFrame(
    ...     {
    ...         "user_id": ["u1", "u1", "u3"],
    ...         "timestamp": ["2026-01-04", "2026-01-08", "2026-01-09"],
    ...         "value": [5.0, 20.0, 7.0],
    ...     }
    ... )
    >>> logs = read_growthbook(
    ...     assignments, orders, weights="even", reward="value", context=["browser"]
    ... )
    >>> logs.reward, logs.propensity
    (array([20.,  0.]), array([0.5, 0.5]))
    """
    return logs_of_experiment(
        assignments,
        outcomes,
        Assignments(
            weights=weights,
            experiment=experiment,
            user=user,
            timestamp=timestamp,
            experiment_column=experiment_column,
            variation=variation,
            context=tuple(context or ()),
            several_variations=several_variations,
        ),
        Outcomes(
            user=outcome_user or user,
            reward=reward,
            timestamp=outcome_time,
            aggregate=aggregate,
            window=window,
        ),
        reward_range,
    )


@validate_params(CONSTRAINTS, prefer_skip_nested_validation=True)
def read_eppo(
    assignments: Path | Frame,
    outcomes: Path | Frame,
    *,
    weights: str | Mapping[Label, float],
    experiment: str | None = None,
    reward: str | None = None,
    context: Sequence[str] | None = None,
    aggregate: str = "sum",
    window: float | timedelta | None = None,
    several_variations: str = "raise",
    user: str = "subject",
    timestamp: str = "timestamp",
    experiment_column: str = "experiment",
    variation: str = "variation",
    outcome_user: str | None = None,
    outcome_time: str | None = "timestamp",
    reward_range: tuple[float, float] | None = None,
) -> BanditLogs:
    """Read an experiment from the events of Eppo's assignment logger.

    An event has the fields `subject`, `timestamp`, `experiment`, `variation`,
    `featureFlag`, `allocation` and `subjectAttributes` [1]_. `experiment` joins the
    flag and the allocation, so it names one split. Each subject becomes one round, at
    the first assignment. Read more in the :ref:`User Guide <readers>`.

    Parameters
    ----------
    assignments : path or frame
        The events, as a csv, JSON lines or parquet file, or as a pandas, polars or
        pyarrow table.
    outcomes : path or frame
        What subjects did: one row per outcome, with the subject, the time and,
        optionally, a value.
    weights : "even" or dict
        The split that the allocation was configured with, {variation: share}. "even":
        every logged variation had the same share. The shares become the propensities;
        nothing is estimated.
    experiment : str, default=None
        Name of the experiment. `None`: the only one in the table.
    reward : str, default=None
        Column of the outcomes with their values. `None`: every outcome counts 1.
    context : list of str, default=None
        Columns that were known at the assignment. `None`: no features.
        `subjectAttributes.country` is the field `country` of the column
        `subjectAttributes`, which holds objects or JSON texts.
    aggregate : {"sum", "any"}, default="sum"
        The reward of a subject: the sum of the outcomes, or 1 if any is not zero. A
        subject without an outcome has the reward 0.
    window : timedelta or float, default=None
        How long after the first assignment outcomes count. Pass a number if times are
        numbers. `None`: to the end of the table.
    several_variations : {"raise", "drop"}, default="raise"
        What to do if subjects were in several variations: raise an error, or drop
        these subjects with a warning.
    user, timestamp, experiment_column, variation : str
        Names of these columns in the assignments.
    outcome_user : str, default=None
        Column of the outcomes with the subject. `None`: the name in the assignments.
    outcome_time : str or None, default="timestamp"
        Column of the outcomes with the time. `None`: all outcomes came after the
        assignment.
    reward_range : tuple of (float, float), default=None
        Known bounds of the reward.

    Returns
    -------
    logs : BanditLogs
        One row per subject, in the order of the first assignments. The action is the
        variation, `group` is the subject, and `logging_proba` is the split.

    Raises
    ------
    ValueError
        If a column is missing or malformed. If there are several experiments, or
        subjects are in several variations. If the weights do not match the logged
        variations.
    TypeError
        If a table is neither a path nor a frame.

    Warns
    -----
    LogsWarning
        If subjects in several variations are left out.

    See Also
    --------
    read_growthbook : The same for GrowthBook.
    audit : Checks whether the counts of the variations agree with the stated split.

    References
    ----------
    .. [1] Eppo documentation, Assignment logging.
       https://docs.geteppo.com/sdks/event-logging/assignment-logging

    Examples
    --------
    >>> import pandas as pd
    >>> from skope_ope.readers import read_eppo
    >>> events = pd.DataFrame(
    ...     {
    ...         "subject": ["6141", "6142"],
    ...         "timestamp": ["2026-06-22T17:35:12.000Z", "2026-06-22T18:02:40.000Z"],
    ...         "experiment": "recommendation-algo-allocation-17",
    ...         "variation": ["control", "treatment"],
    ...         "subjectAttributes": ['{"country": "US"}', '{"country": "FR"}'],
    ...     }
    ... )
    >>> orders = pd.DataFrame(
    ...     {"subject": ["6142"], "timestamp": ["2026-06-23T09:00:00Z"]}
    ... )
    >>> logs = read_eppo(
    ...     events,
    ...     orders,
    ...     weights={"control": 0.9, "treatment": 0.1},
    ...     context=["subjectAttributes.country"],
    ... )
    >>> logs.reward, logs.propensity
    (array([0., 1.]), array([0.9, 0.1]))
    >>> list(logs.context["subjectAttributes.country"])
    ['US', 'FR']
    """
    return logs_of_experiment(
        assignments,
        outcomes,
        Assignments(
            weights=weights,
            experiment=experiment,
            user=user,
            timestamp=timestamp,
            experiment_column=experiment_column,
            variation=variation,
            context=tuple(context or ()),
            several_variations=several_variations,
        ),
        Outcomes(
            user=outcome_user or user,
            reward=reward,
            timestamp=outcome_time,
            aggregate=aggregate,
            window=window,
        ),
        reward_range,
    )
