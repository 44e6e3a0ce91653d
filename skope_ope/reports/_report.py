# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One page that people can act on: how it is made, what it tells, how it is written."""

from __future__ import annotations

import ast
import hashlib
import os
import pathlib
import platform
import secrets
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from html import escape
from importlib.metadata import version
from inspect import signature
from sys import modules
from typing import Any, Literal

import numpy as np

from skope_ope._texts import harmless
from skope_ope._types import Path, PolicyLike, RandomSeed, RewardModelLike, SplitterLike
from skope_ope.audit import VerdictThresholds, verdict
from skope_ope.audit._audit import audits
from skope_ope.audit._result import Audit
from skope_ope.evaluators._evaluate import quiet_table
from skope_ope.evaluators._rules import plain_row
from skope_ope.evaluators._value_table import ValueTable, warn_once
from skope_ope.evaluators.base._question import SINGLE, policies_by_name
from skope_ope.evaluators.core._implied_weights import LACKING, allowing_for
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._known_rows import column_words, combined
from skope_ope.logs._shown_numbers import wrapped
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.reports._page import page
from skope_ope.reports._recommendation import recommendation_of
from skope_ope.selection._compare_policies import check_comparison, comparison_of
from skope_ope.selection._outcome import LOGGER
from skope_ope.selection._policy_comparison import PolicyComparison

# an interval may be too narrow without, or each number be taken for an action
TOLD_NOTES = "group_in_context", "numeric_action"


class Report:
    """One page from a question to a recommendation, made by `report`.

    Parameters
    ----------
    values : ValueTable
        Values by (policy, evaluator).
    comparison : PolicyComparison
        Gains over the baseline, of one of these evaluators.
    audit : Audit
        Of the log.
    audits : dict of Audit
        Of policies by name; one that learns while it acts has none.
    logs : BanditLogs or SlateLogs
        The rounds.
    evaluator : str
        The evaluator of the comparison.
    title : str
        The head of the page.
    command : str
        What repeats it.
    provenance : tuple of dict
        What tells the log from others, and versions.
    thresholds : VerdictThresholds, default=None
        From where on numbers are alarms; `None`: the default ones.
    path : Path, default=None
        Where the page was written.

    Attributes
    ----------
    decision : {"deploy", "keep", "undecided"}
        What the page recommends. It is that of `comparison`, unless an error that an
        audit has found takes the ground from under it: then "undecided".
    choice : str or None
        The policy to deploy.
    headline : str
        The recommendation in a few words.
    sentence : str
        The recommendation with its reasons, for those who decide.
    alarms : tuple of Alarm
        What to look at before anybody acts, each with `name`,
        `severity`, `who`, `text` and `advice`.
    verdicts : dict of Verdict
        Whether the gains can be acted on, by policy, with what the audits have found.
    policies : list of str
        Names of the policies.
    level : float
        Coverage of the intervals.

    Examples
    --------
    >>> from skope_ope import report
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> found = report({"new": policy}, logs)
    >>> found.decision, found.choice
    ('deploy', 'new')
    >>> found.to_html().startswith("<!DOCTYPE html>")
    True
    """

    def __init__(
        self,
        values: ValueTable,
        comparison: PolicyComparison,
        audit: Audit,
        audits: Mapping[Any, Audit],
        *,
        logs: BanditLogs | SlateLogs,
        evaluator: str,
        title: str,
        command: str,
        provenance: tuple[dict[str, Any], ...],
        thresholds: VerdictThresholds | None = None,
        path: pathlib.Path | None = None,
    ) -> None:
        self.values, self.comparison = values, comparison
        self.audit, self.audits = audit, dict(audits)
        self.evaluator, self.title, self.command = evaluator, title, command
        self.path, self.level = path, comparison.level
        self._logs = logs
        self._thresholds = VerdictThresholds() if thresholds is None else thresholds
        self._fingerprint, self._versions = provenance

    @property
    def policies(self) -> list[str]:
        """Names of the policies."""
        return list(dict.fromkeys(name for name, _ in self.values))

    @cached_property
    def _recommendation(self):
        return recommendation_of(
            self.comparison,
            self.verdicts,
            self.audit,
            self.audits,
            self._thresholds.accepted,
        )

    @cached_property
    def verdicts(self) -> dict[str, Any]:
        """What speaks against acting on the gains, by policy."""
        audits, thresholds = self.audits, self._thresholds
        return {
            name: verdict(gain, audit=audits.get(name), thresholds=thresholds)
            for name, gain in self.comparison.differences.items()
        }

    @property
    def decision(self) -> Literal["deploy", "keep", "undecided"]:
        """What the page recommends."""
        return self._recommendation.decision

    @property
    def choice(self) -> str | None:
        """The policy to deploy."""
        return self._recommendation.choice

    @property
    def headline(self) -> str:
        """The recommendation in a few words."""
        return self._recommendation.headline

    @property
    def alarms(self) -> tuple[Any, ...]:
        """What to look at before anybody acts."""
        return self._recommendation.alarms

    @property
    def sentence(self) -> str:
        """The recommendation with its reasons."""
        told = self._recommendation
        return " ".join([f"{told.headline}.", *told.sentences])

    def to_html(self) -> str:
        """Return the page.

        Returns
        -------
        page : str
            One HTML page with all that it needs: no script, and nothing is loaded.
        """
        return page(self)

    def __repr__(self):
        lines = wrapped(self.sentence)
        for one in self.alarms:
            mark = f"[{one.severity}] "
            lines += wrapped(one.sentence, mark)
            lines += wrapped(one.first_step, " " * len(mark))
        for one in self.audit.findings:
            if one.name in TOLD_NOTES and one.severity == "note":
                lines += wrapped(one.text, "[note] ")
        if self.path is not None:
            lines.append(f"Page: {harmless(self.path)}")
        return "\n".join(lines)

    def _repr_html_(self):
        # a frame keeps the style of the page from that of the notebook
        style = "width:100%;height:40rem;border:1px solid #888888"
        inner = escape(self.to_html())
        return f'<iframe sandbox srcdoc="{inner}" style="{style}"></iframe>'


# -- the report of given policies ------------------------------------------------------

ARGUMENTS = ["title", "baseline", "level", "evaluators", "reward_model", "cv"]
ARGUMENTS += ["random_state", "thresholds"]  # that the call on the page repeats


def report(
    policies: PolicyLike | Mapping[Any, PolicyLike],
    logs: BanditLogs | SlateLogs,
    path: Path | None = None,
    *,
    title: str | None = None,
    baseline: str = LOGGER,
    level: float = 0.95,
    evaluators: Sequence[Any] | Mapping[Any, Any] | None = None,
    reward_model: RewardModelLike = None,
    cv: SplitterLike | Literal["prefit"] | None = None,
    random_state: RandomSeed = None,
    n_jobs: int | None = None,
    command: str | None = None,
    thresholds: VerdictThresholds | None = None,
) -> Report:
    """Write one page from the question to a recommendation.

    The page says what to do and how large the gain is. Below are gains with intervals,
    values by all evaluators, and the number of effective rounds of each policy. Then
    come the findings of the audit, the assumptions, and how to repeat the page. Alarms
    of the audit are beside the recommendation. If one is an error, the page recommends
    only to correct it. Read more in the :ref:`User Guide <reports>`.

    Parameters
    ----------
    policies : policy, array, str, or dict of them
        The policies to evaluate, as in `evaluate`. A dict gives names. A single policy
        is called "the policy". They must not have learned from `logs`.
    logs : BanditLogs or SlateLogs
        The rounds.
    path : str or os.PathLike, default=None
        The file to write. An existing file is replaced. `None`: nothing is written, and
        the page is `Report.to_html()`.
    title : str, default=None
        Head of the page. `None`: the question.
    baseline : str, default="logger"
        What policies are compared with, as in `compare_policies`.
    level : float, default=0.95
        Coverage of the intervals of all gains together, and of each in the table.
    evaluators : list of names or evaluators, or dict, default=None
        Rows of the table, as in `evaluate`. Gains are by the recommended evaluator or,
        if it is not among them, by the first one.
    reward_model : model, number, array or str, default=None
        Shared by the evaluators whose `reward_model` is None, as in `evaluate`.
    cv : int, splitter, iterable or "prefit", default=None
        How rounds are split for cross-fitting of the shared reward model. `None`: the
        `cv` of each evaluator, which is 5 by default.
    random_state : int, RandomState instance or None, default=None
        Seeds the evaluators and the shared reward model if their own `random_state` is
        None.
    n_jobs : int, default=None
        Number of parallel tasks, as in `evaluate`.
    command : str, default=None
        The command that repeats the page, as shown on the page. `None`: the call.
    thresholds : VerdictThresholds, default=None
        The limits above which numbers are alarms, and the findings that are accepted,
        as in `verdict`. `None`: the default ones.

    Returns
    -------
    report : Report
        `decision`, `choice` and `sentence`, with all that the page shows.

    Raises
    ------
    OSError
        If `path` cannot be written. This is tried before anything is computed, and no
        partial file is left.
    TypeError
        If `policies`, `logs` or `thresholds` have the wrong type.
    ValueError
        If the logs are empty. If the baseline does not exist, or has the name of a
        policy.

    See Also
    --------
    compare_policies : The decision alone.
    evaluate : The table alone.
    audit : The findings alone.

    Examples
    --------
    >>> from skope_ope import report
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(
    ...     20_000, reward="binary", random_state=0, return_truth=True)
    >>> print(report({"new": policy}, logs).headline)
    Deploy new
    """
    given = dict(locals())
    target = checked_path(path)
    asked = policies, logs, reward_model, cv, n_jobs
    policies = policies_by_name("report", *asked, single=SINGLE, lazy=False)
    check_comparison(policies, baseline, level)
    if thresholds is not None and not isinstance(thresholds, VerdictThresholds):
        raise TypeError(
            "thresholds must be VerdictThresholds(...) or None, got "
            f"{type(thresholds).__name__}."
        )
    told = {name: given[name] for name in ARGUMENTS}
    how = {"random_state": random_state, "n_jobs": n_jobs}
    table = quiet_table(policies, logs, evaluators, reward_model, cv, **how)
    decides = _decides(table)  # the page has the warnings of the other rows
    told_of = [(name, value) for name, value in table.items() if name[1] == decides]
    warn_once(told_of, stacklevel=2, among=table)
    found, warned = report_of(
        table,
        policies,
        logs,
        title=title,
        baseline=baseline,
        level=level,
        command=call_text(policies, path, told) if command is None else str(command),
        thresholds=thresholds,
    )
    for warning in warned:
        warnings.warn(warning, stacklevel=2)
    if target is not None:
        write_whole(target, found.to_html())
        found.path = target
    return found


def report_of(
    table,
    policies,
    logs,
    *,
    title,
    baseline,
    level,
    command,
    thresholds=None,
    about=(),
    audited=None,
):
    """Return the report of values that are known, and what is to be warned of."""
    evaluator = _decides(table)
    values = {name: table[name, evaluator] for name in policies}
    accepted = () if thresholds is None else thresholds.accepted
    lacking = {}
    if audited is None:
        fixed = {n: p for n, p in policies.items() if not isinstance(p, AdaptivePolicy)}
        audited = audits(fixed, logs)
        lacking = {name: one.facts.get(LACKING) for name, one in audited[1].items()}
    comparison, warned = comparison_of(
        values, policies, logs, baseline, level, evaluator, accepted, lacking
    )
    table = _allowing_for_regions(table, comparison)
    of_log, of_policies = audited
    found = Report(
        table,
        comparison,
        of_log,
        of_policies,
        logs=logs,
        evaluator=evaluator,
        title=_question(comparison) if title is None else str(title),
        command=command,
        thresholds=thresholds,
        provenance=(dict(about) | fingerprint(logs), versions()),
    )
    return found, warned


def _allowing_for_regions(table, comparison):
    """Return the table of values that allow for what those of a comparison do."""
    found = {name: value._find_reach for name, value in comparison.items()}
    shares = {name: getattr(one, "regional", None) for name, one in found.items()}
    out = copy(table)
    out._values = {
        key: allowing_for(one, shares.get(key[0])) for key, one in table.items()
    }
    return out


def _question(comparison):
    names = list(comparison.differences)
    if len(names) == 1:
        return f"Is {names[0]} better than {comparison._against}?"
    return f"Which of {len(names)} policies is better than {comparison._against}?"


def _decides(table):
    """Return the evaluator on whose values a report decides."""
    names = {name: name for _, name in table}
    first = next(iter(names))
    return table.recommended or plain_row(names if table.left_out else {}, first)


# -- which log this was, with what it was evaluated, and how to do it again ------------

LONGEST_ARGUMENT = 300  # characters of an argument


def fingerprint(logs):
    """Return what tells a log from others, as a dict of texts."""
    if isinstance(logs, SlateLogs):
        columns = [*np.asarray(logs.slate).T]
    else:
        columns = [logs.action]
    columns += [one for one in (logs.reward, logs.propensity) if one is not None]
    words = combined([column_words(np.asarray(column)) for column in columns])
    digest = hashlib.sha256(words.astype("<u8").tobytes()).hexdigest()
    return logs.summary() | {"hash of actions and rewards": digest[:16]}


def versions():
    """Return the versions on which the numbers rest, as a dict of texts."""
    return {
        "skope_ope": modules["skope_ope"].__version__,
        "numpy": np.__version__,
        "scipy": version("scipy"),
        "scikit-learn": version("scikit-learn"),
        "Python": platform.python_version(),
    }


def call_text(policies, path, given):
    """Return code that makes a report again, and says of what it cannot write it."""
    imports, lines = {"from skope_ope import report"}, ["policies = {"]
    for name, policy in policies.items():
        lines.append(f"    {name!r}: {_as_code(policy, imports)}")
    lines += ["}", "report(", "    policies,", "    logs,"]
    lines += [] if path is None else [f"    {str(path)!r},"]
    told = signature(report).parameters
    for name, value in given.items():
        if repr(value) != repr(told[name].default):
            lines.append(f"    {name}={_as_code(value, imports)}")
    lines.insert(0, "\nlogs = ...  # missing: the rounds described below")
    return "\n".join([*sorted(imports), *lines, ")"])


def _as_code(value, imports):
    """Return a value as code with a comma, or what is missing in its place."""
    parts, text = [*_arguments_of(value)], repr(value)
    fitted = any(hasattr(one, "get_params") and _holds_fitted(one) for one in parts)
    if not fitted and "..." not in text and len(text) <= LONGEST_ARGUMENT:
        with suppress(SyntaxError, KeyError, ValueError):  # no code, or no such class
            kinds = {type(one).__name__: type(one) for one in parts}
            nodes = ast.walk(ast.parse(text, mode="eval"))
            named = {kinds[one.id] for one in nodes if isinstance(one, ast.Name)}
            imports |= {f"from {_module_of(k)} import {k.__name__}" for k in named}
            return f"{text},"
    what = f"{'fitted ' * fitted}{type(value).__name__}"
    what += f" of shape {value.shape}" if isinstance(value, np.ndarray) else ""
    return f"...,  # missing: {what}"


def _arguments_of(value):
    """Yield a value and what it is made of."""
    yield value
    inner = value if isinstance(value, (list, tuple)) else ()
    inner = value.values() if isinstance(value, Mapping) else inner
    if hasattr(value, "get_params") and not isinstance(value, type):
        inner = value.get_params(deep=False).values()
    for one in inner:
        yield from _arguments_of(one)


def _holds_fitted(estimator):
    return any(name.endswith("_") and name[0] != "_" for name in vars(estimator))


def _module_of(kind):
    """Return the public module that has a class; ValueError if there is none."""
    package, name = kind.__module__.partition(".")[0], kind.__name__
    known = [m for m in modules if m.partition(".")[0] == package != "__main__"]
    public = [m for m in known if "._" not in m]
    return min((m for m in public if vars(modules[m]).get(name) is kind), key=len)


# -- writing a page: all of it or nothing ----------------------------------------------


def checked_path(path):
    """Return where a page shall be written, or raise if that is not possible."""
    # Nothing is left behind, and nothing that exists is changed. A link stays a link:
    # the file that it leads to is written.
    if path is None:
        return None
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise TypeError(
            "path must be the name of a file, as 'report.html', or None to write "
            f"nothing, got {path!r}."
        )
    target = pathlib.Path(path).resolve()
    if target.is_dir():
        raise IsADirectoryError(
            f"path {str(path)!r} is a folder: name a file in it, as "
            f"{os.path.join(path, 'report.html')!r}."
        )
    if target.exists() and not (target.is_file() and os.access(target, os.W_OK)):
        raise PermissionError(
            f"path {str(path)!r} is write-protected or no ordinary file. Choose "
            "another name."
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"the folder of path {str(path)!r} does not exist: make "
            f"{str(target.parent)!r} first, or choose another."
        )
    try:
        trial = _temporary_name(target)
        os.close(_created(trial))
        trial.unlink()
    except OSError as error:
        raise PermissionError(
            f"path {str(path)!r} cannot be written: {error.strerror}. Choose a folder "
            "in which you may make files."
        ) from error
    return target


def write_whole(target, text):
    """Write a text as UTF-8: who looks sees the old file or all of the new one."""
    beside = _temporary_name(target)
    try:
        with open(_created(beside), "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o7777)
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def _temporary_name(target):
    """Return the name of a file in the same folder that nobody else has."""
    return target.with_name(f".skope-ope-{secrets.token_hex(8)}.tmp")


def _created(path):
    """Make a file with the permissions that new files have, and open it."""
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
