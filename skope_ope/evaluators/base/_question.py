# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is asked of logs, checked before long work begins."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral, Number, Real

import numpy as np

from skope_ope._parallel import check_n_jobs
from skope_ope._texts import meant
from skope_ope.evaluators.core._requires import check_model_of_call
from skope_ope.evaluators.parts._part_sums import head_of
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs.lazy._lazy_logs import FIRST_OF_FRAME, LazyLogs, seeing_first
from skope_ope.policies._action_probabilities import (
    check_policy_fitted,
    resolve_policy,
    unwrap,
)
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies.slate._slate_policy import slate_policy
from skope_ope.reward_models._part_models import check_model_column, part_models
from skope_ope.reward_models._sources import model_and_folds

LOGS = (BanditLogs, SlateLogs, LazyLogs)
SINGLE = "the policy"  # what one is called that came without a name


@dataclass(frozen=True)
class Question:
    """Who is valued, by what, on which rounds, and how."""

    policies: dict  # by name; {None: policy} for one without a name
    logs: object  # the rounds; of lazy ones only what is needed will be read
    head: object  # a few of them, or all
    whole: object  # the rounds with all columns that are named
    n_loggers: int | None = None  # loggers that may have acted; None: `head` tells
    evaluators: dict = field(default_factory=dict)  # by name
    left_out: dict = field(default_factory=dict)  # what others need, by name
    own_rounds: dict = field(default_factory=dict)  # made by steps of a Pipeline
    reward_model: object = None  # what evaluators that have no model share
    cv: object = None  # its folds
    by: tuple = ()  # columns by whose values sums are wanted, too
    random_state: object = None
    n_jobs: int | None = None
    n_sample: object = "auto"  # rounds that reward models are fitted to
    sample_weight: object = None
    verbose: int = 0

    @property
    def lazy(self):
        """Whether the logs are read part by part, or summed by a database."""
        return isinstance(self.logs, LazyLogs)

    @property
    def of_frame(self):
        """Whether they are a lazy frame."""
        return self.lazy and self.logs.frame is not None

    @property
    def single(self):
        """Whether there is one policy, which has no name."""
        return list(self.policies) == [None]

    @property
    def on_its_rounds(self):
        """The evaluators that get the rounds as they are, by name."""
        some = self.evaluators.items()
        return {name: one for name, one in some if name not in self.own_rounds}

    @property
    def n_rounds(self):
        """Number of rounds, None where it is not known."""
        return self.logs.n_rounds if self.lazy else len(self.logs)

    def some(self, wanted):
        """Return the same of the evaluators for whom `wanted(evaluator)` holds."""
        kept = {name: one for name, one in self.evaluators.items() if wanted(one)}
        return replace(self, evaluators=kept)

    def of(self, evaluators, **given):
        """Return the same of some evaluators, which reads what somebody looks at."""
        out = replace(self, evaluators=evaluators, **given)
        if not self.lazy:
            return out
        check_columns(self.whole, self.policies, self.by, evaluators.values())
        return replace(out, logs=out._narrowed())

    def _narrowed(self):
        """Return the lazy logs that read no more than somebody looks at."""
        # A policy that is an object may look at any column, as policies and loggers of
        # slates may.
        lazy, policies = self.whole, self.policies.values()
        if lazy._log_type is SlateLogs or not all(map(_is_name, policies)):
            return lazy
        users = [one for one in self.evaluators.values() if one.requires.model]
        models = [model_and_folds(one, self.reward_model)[0] for one in users]
        given = [*policies, *models, *self.by]
        for evaluator in self.evaluators.values():
            given += vars(evaluator).values()
        for model in filter(_is_name, models):
            check_model_column(model, lazy)
        words = set(filter(_is_name, given))
        plain = (str, Real, type(None))
        context = not all(isinstance(model, plain) for model in models)
        columns = [name for name in lazy.columns if name in words]
        return lazy._needing(context=context, columns=columns)

    def sources(self):
        """Return the reward sources by name of the evaluator, fitted to parts."""
        seed = self.random_state if isinstance(self.random_state, Integral) else 0
        return part_models(
            self.evaluators,
            self.reward_model,
            self.cv,
            self.logs,
            n_sample=self.n_sample,
            random_state=seed,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )

    def check_sums(self):
        """Raise where the policies have no sums over parts, before one is read."""
        if self.lazy:
            refuse_weights(self.sample_weight)
        refuse_learning_policies(self.policies)
        if self.of_frame:  # a few rows of a frame lack some actions
            return
        for policy in self.policies.values():
            if isinstance(self.head, SlateLogs):
                slate_policy(policy, self.head)
            elif _is_name(policy):
                continue  # of loggers or of actions: the parts tell
            elif not isinstance(resolve_policy(policy, self.head), np.ndarray):
                check_policy_fitted(policy)


def question_about(policies, logs, *, cv=None, by=None, n_jobs=None, **how):
    """Return the `Question` about policies by name, of no evaluators as yet."""
    how |= {"cv": several_times(cv), "n_jobs": n_jobs}
    by = (by,) if isinstance(by, str) else by or ()
    if not isinstance(by, (list, tuple)) or not all(map(_is_name, by)):
        raise TypeError(
            f"by must be the name of a column or a list of names, got {by!r}."
        )
    how["by"] = tuple(by)
    if not isinstance(logs, LazyLogs):
        return Question(policies, logs, logs, logs, **how)
    refuse_arrays(policies)
    if logs.frame is None or _needs_labels(logs):
        logs = logs.labelled(n_jobs=n_jobs)
    if logs.frame is not None:
        logs = seeing_first(logs._needing(context=False), FIRST_OF_FRAME)
    n_loggers = 1 if logs.loggers is None else len(logs.loggers)
    return Question(policies, logs, head_of(logs), logs, n_loggers, **how)


def several_times(cv):
    """Return folds that more than one fit can use."""
    return list(cv) if isinstance(cv, Iterator) else cv


def _needs_labels(lazy):
    """Whether labels must be known before the sums, which tell them for a frame."""
    tables = any(not isinstance(names, str) for names in lazy.columns.values())
    return tables or not lazy.roles.keys().isdisjoint(("logger", "logging_proba"))


# -- arguments that all calls share ----------------------------------------------------
def policies_by_name(
    call,
    policies,
    logs,
    reward_model=None,
    cv=None,
    n_jobs=None,
    *,
    single=None,
    lazy=True,
    alone=None,
):
    """Return the policies of a call by name; one without a name is called `single`."""
    # A reward model and folds that no evaluator of the call uses are checked, too.
    if not isinstance(logs, LOGS) or isinstance(policies, LOGS):
        wrong = (
            f"logs must be BanditLogs, SlateLogs or LazyLogs, got {_type_name(logs)}"
        )
        if isinstance(logs, LOGS):
            wrong = f"a policy is expected, got {_type_name(policies)}"
        without = "" if alone is None else f", or {alone} without a policy"
        raise TypeError(
            f"{wrong}. Policies come before logs. The call is {call}(policies, logs)"
            f"{without}; files become logs by scan_logs(path, action=..., reward=...), "
            "frames by BanditLogs.from_frame."
        )
    if isinstance(logs, LazyLogs) and not lazy:
        raise TypeError(
            f"{call} needs single rounds, and these logs are lazy. Pass a sample: "
            f"{call}(policies, logs.sample(100_000))."
        )
    if not isinstance(logs, LazyLogs) and not len(logs):
        raise ValueError(f"the logs are empty: {call} needs at least one round.")
    if isinstance(policies, (list, tuple)) and not _is_table_of_numbers(policies):
        texts = policies and all(isinstance(one, str) for one in policies)
        named = {one: one for one in policies} if texts else "{'a': ..., 'b': ...}"
        raise TypeError(
            f"several policies go into a dict by name: {call}({named}, logs), got a "
            f"{_type_name(policies)}."
        )
    check_n_jobs(n_jobs)
    check_model_of_call(logs, reward_model, cv)
    if not isinstance(policies, Mapping):
        return {single: policies}
    if not policies:
        raise ValueError("policies is empty; name at least one.")
    return dict(policies)


def _type_name(value):
    return type(value).__name__


def _is_table_of_numbers(values):
    """Tell whether a list holds numbers or rows of numbers, as an array does."""
    kinds = (Number, np.generic, list, tuple, np.ndarray)
    return bool(values) and all(
        isinstance(one, kinds) and np.ndim(one) < 2 for one in values
    )


def _is_name(one):
    return isinstance(one, str)


def _who(name):
    return "the policy" if name is None else f"policy {name!r}"


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
        for arm in {one.sampling.arms or "action" for one in evaluators}:
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


def refuse_learning_policies(policies):
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


def refuse_weights(sample_weight):
    """Raise where weights of rounds are given beside lazy logs."""
    if sample_weight is not None:
        raise TypeError(
            "sample_weight is an array for the rows of logs in memory. For lazy "
            "logs name its column: scan_logs(..., sample_weight='weight')."
        )
