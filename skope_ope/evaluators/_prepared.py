# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a call about a log in parts asks for, checked before long work begins."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np

from skope_ope._meant import meant
from skope_ope.evaluators._chosen import named_evaluators, seeded
from skope_ope.evaluators._memory_logs import MemoryLogs
from skope_ope.evaluators._policies_of_call import policies_by_name
from skope_ope.evaluators.frames._frame_log import FIRST
from skope_ope.evaluators.parts._partition_sums import head_of
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._labels import kind_of_labels
from skope_ope.logs.lazy._lazy_logs import LazyLogs
from skope_ope.logs.lazy._lazy_rows import seeing_first
from skope_ope.policies._action_probabilities import (
    check_policy_fitted,
    resolve_policy,
    unwrap,
)
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies.slate._slate_policy import slate_policy
from skope_ope.reward_models._part_models import check_model_column, part_models
from skope_ope.reward_models._sources import model_and_folds

COLUMN_MODEL = (
    "predictions that are columns (columns={'q': [one per action]}, reward_model='q')"
)
ALL_ACTIONS = (
    "the policy's probabilities of all actions (an array of shape (n_rounds, "
    "n_actions), or columns={'pi': [...]})"
)
ALL_PRODUCTS = "the means of products of its terms, which sums do not keep"


@dataclass(frozen=True)
class Prepared:
    """What is asked of a log."""

    policies: dict  # by name; {None: policy} for one without a name
    logs: object  # the rounds; labels are known, and only what is needed will be read
    head: object  # A few of them, or all
    n_loggers: int | None  # loggers that may have acted; None: `head` tells
    evaluators: dict  # evaluators by name, and what those need that are left out
    left_out: dict  # evaluators by name, and what those need that are left out
    reward_model: object  # what evaluators that have no model share
    cv: object  # what evaluators that have no model share
    by: tuple  # columns by whose values sums are wanted, too
    seed: int  # of the sample for reward models
    n_jobs: int | None  # tasks at a time
    n_sample: object  # rounds that reward models are fitted to
    whole: object  # the rounds with all columns that are named

    @property
    def lazy(self):
        """Whether the logs are read part by part."""
        return isinstance(self.logs, LazyLogs)

    @property
    def n_rounds(self):
        """Number of rounds, None where it is not known."""
        return self.logs.n_rounds if self.lazy else len(self.logs)

    def some(self, wanted):
        """Return the same of the evaluators for whom `wanted(evaluator)` holds."""
        kept = {name: one for name, one in self.evaluators.items() if wanted(one)}
        return replace(self, evaluators=kept)

    def sources(self, verbose=0):
        """Return the reward sources by name of the evaluator, fitted."""
        n_sample = self.n_sample
        if not self.lazy and n_sample == "auto":
            n_sample = max(len(self.logs), 2)
        return part_models(
            self.evaluators,
            self.reward_model,
            self.cv,
            self.logs if self.lazy else MemoryLogs(self.logs),
            n_sample=n_sample,
            random_state=self.seed,
            n_jobs=self.n_jobs,
            verbose=verbose,
        )


def prepared(
    policies,
    logs,
    evaluators=None,
    reward_model=None,
    cv=None,
    *,
    by=None,
    random_state=None,
    n_jobs=None,
    n_sample="auto",
):
    """Return what a call asks of a log; see `summarize`."""
    policies = policies_by_name("summarize", policies, logs, reward_model, cv, n_jobs)
    if isinstance(cv, Iterator):  # used by more than one fit
        cv = list(cv)
    by = (by,) if isinstance(by, str) else by or ()
    if not isinstance(by, (list, tuple)) or not all(map(_is_name, by)):
        raise TypeError(
            f"by must be the name of a column or a list of names, got {by!r}."
        )
    by = tuple(by)
    lazy = isinstance(logs, LazyLogs)
    if lazy:
        refuse_arrays(policies)
        if logs.frame is None or _needs_labels(logs):
            logs = logs.labelled(n_jobs=n_jobs)
        if logs.frame is not None:
            logs = seeing_first(logs._needing(context=False), FIRST)
        head = head_of(logs)
        n_loggers = 1 if logs.loggers is None else len(logs.loggers)
    else:
        head, n_loggers = logs, None
    named = evaluators
    evaluators, left_out, made = named_evaluators(
        evaluators, head, n_loggers, lazy=logs if lazy else None
    )
    if made:
        logs = head = _one_log(evaluators, made)
    if random_state is not None:
        evaluators, reward_model = seeded(evaluators, reward_model, random_state, cv)
    if named is None:
        if lazy and logs.frame is not None:
            evaluators, left_out = without_models(evaluators, left_out, reward_model)
        if reward_model is None:
            evaluators, left_out = for_recorded(policies, head, evaluators, left_out)
        evaluators, left_out = without(
            evaluators, left_out, has_many_terms, ALL_PRODUCTS
        )
    whole = logs
    if lazy:
        check_columns(logs, policies, by, evaluators.values())
        logs = narrowed(logs, policies, evaluators, reward_model, by)
    return Prepared(
        policies,
        logs,
        head,
        n_loggers,
        evaluators,
        left_out,
        reward_model,
        cv,
        by,
        random_state if isinstance(random_state, Integral) else 0,
        n_jobs,
        n_sample,
        whole,
    )


def _one_log(evaluators, made):
    """Return the rounds that the steps of a Pipeline made, where it is the only row."""
    if len(evaluators) > 1:
        raise ValueError(
            f"{next(iter(made))!r} is a Pipeline. Its steps change the rounds, and "
            "a summary needs the same rounds for all evaluators. Summarize it "
            "alone: evaluators=[pipeline]."
        )
    [logs] = made.values()
    return logs


def without_models(evaluators, left_out, reward_model):
    """Return the evaluators that a database can sum, and what those lack left out."""
    if isinstance(reward_model, (str, Real)):
        return evaluators, left_out
    if reward_model is not None:  # which is refused with a sentence
        return evaluators, left_out
    return without(evaluators, left_out, lambda one: one.requires.model, COLUMN_MODEL)


def without(evaluators, left_out, lacking, need):
    """Return evaluators and what those lack left out, without some of them."""
    gone = [name for name, one in evaluators.items() if lacking(one)]
    if len(gone) == len(evaluators):  # the first of them says what is wrong
        return evaluators, left_out
    kept = {name: one for name, one in evaluators.items() if name not in gone}
    return kept, left_out | dict.fromkeys(gone, need)


def for_recorded(policies, logs, evaluators, left_out):
    """Return the same without models, where these have nothing to predict for."""
    if not any(is_of_logged_actions(one, logs) for one in policies.values()):
        return evaluators, left_out
    return without(evaluators, left_out, lambda one: one.requires.model, ALL_ACTIONS)


def is_of_logged_actions(policy, logs):
    """Whether a policy is an array, or column, for the logged actions alone."""
    table = logs.columns.get(policy) if _is_name(policy) else policy
    is_array = isinstance(table, (list, tuple)) or hasattr(table, "__array__")
    if not is_array or np.ndim(table) != 1:
        return False
    if _is_name(policy):
        return True
    table = np.asarray(table)  # labels of actions tell the whole policy
    kind, labels = table.dtype.kind, getattr(logs, "actions", table[:0])
    if kind in "fb" and kind == labels.dtype.kind and np.isin(table, labels).all():
        return False
    return kind in "fb" or (kind == "O" and kind_of_labels(table) == "numbers")


def has_many_terms(evaluator):
    """Whether sums do not keep the products of an evaluator's terms."""
    return getattr(evaluator, "control_variates", None) == "multiple"


def narrowed(lazy, policies, evaluators, reward_model, by=()):
    """Return lazy logs that read no more than somebody looks at."""
    # A policy that is an object may look at any column, as policies and loggers of
    # slates may.
    if lazy._log_type is SlateLogs or not all(map(_is_name, policies.values())):
        return lazy
    users = [one for one in evaluators.values() if one.requires.model]
    models = [model_and_folds(one, reward_model)[0] for one in users]
    given = [*policies.values(), *models, *by]
    for evaluator in evaluators.values():
        given += vars(evaluator).values()
    for model in filter(_is_name, models):
        check_model_column(model, lazy)
    words = set(filter(_is_name, given))
    plain = (str, Real, type(None))
    context = not all(isinstance(model, plain) for model in models)
    columns = [name for name in lazy.columns if name in words]
    return lazy._needing(context=context, columns=columns)


def _needs_labels(lazy):
    """Whether labels must be known before the sums, which tell them for a frame."""
    tables = any(not isinstance(names, str) for names in lazy.columns.values())
    return tables or not lazy.roles.keys().isdisjoint(("logger", "logging_proba"))


def _is_name(one):
    return isinstance(one, str)


def check_columns(lazy, policies, by=(), evaluators=()):
    """Raise where a policy or `by` names a column that the logs do not have."""
    named = {_who(name): one for name, one in policies.items() if _is_name(one)}
    for who, column in [*named.items(), *(("by", one) for one in by)]:
        known = lazy.columns
        if column not in known and not (who == "by" and column in lazy.roles):
            raise ValueError(
                f"{who} is {column!r}, which is not a column of the logs. They "
                f"have {list(known)}.{meant(column, known)} Name it in "
                "scan_logs(..., columns=[...])."
            )
        names = known.get(column)
        if who == "by" or isinstance(names, str) or lazy._log_type is not BanditLogs:
            continue
        for arm in {getattr(one, "match", "action") for one in evaluators}:
            labels = lazy.loggers if arm == "logger" else lazy.actions
            if labels is not None and len(names) != len(labels):
                raise ValueError(
                    f"{who} is {column!r}, which names {len(names)} columns for "
                    f"{len(labels)} {arm}s. Name one column per {arm}, in the "
                    f"order of {arm}s."
                )


def refuse_arrays(policies):
    """Raise where a policy is an array, whose rows lazy logs cannot match."""
    for name, policy in policies.items():
        is_table = isinstance(policy, (np.ndarray, list, tuple))
        if is_table or (hasattr(policy, "__array__") and not hasattr(policy, "fit")):
            raise TypeError(
                f"{_who(name)} is an array, and lazy logs are read part by part, "
                "so its rows cannot be found. Write its probabilities into the "
                "files. Name their columns in scan_logs(..., columns={'pi': "
                "[...]}) and pass the name, 'pi'."
            )


def refuse_learning(policies):
    """Raise where a policy learns while it acts."""
    for name, policy in policies.items():
        if isinstance(unwrap(policy), AdaptivePolicy):
            raise TypeError(
                f"{_who(name)} learns while it acts, so its value cannot be summed "
                "over parts of a log. Use an evaluator that reads lazy logs in "
                "order, DRns, RejectionSampling or Replay: evaluate(policies, "
                "lazy, evaluators=['DRns']). Or load rounds into memory: "
                "lazy.sample(100_000, random_state=0)."
            )


def check_policies(policies, head):
    """Raise where a policy is none, or is not fitted, before long work begins."""
    for policy in policies.values():
        if isinstance(head, SlateLogs):
            slate_policy(policy, head)
        elif _is_name(policy):
            continue  # of loggers or of actions: the parts tell
        elif not isinstance(resolve_policy(policy, head), np.ndarray):
            check_policy_fitted(policy)


def _who(name):
    return "the policy" if name is None else f"policy {name!r}"
