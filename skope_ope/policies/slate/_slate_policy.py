# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Objects that may stand for a slate policy."""

import re

import numpy as np

from skope_ope.logs._row_container import RowContainer
from skope_ope.logs._row_labels import check_row_labels
from skope_ope.logs._validation import is_frame
from skope_ope.logs.lazy._kind_of import refuse_lazy
from skope_ope.policies._action_probabilities import last_step, unwrap
from skope_ope.policies.slate._deterministic_slates import DeterministicSlates
from skope_ope.policies.slate._given_marginals import GivenMarginals
from skope_ope.policies.slate._slate_base import BaseSlatePolicy
from skope_ope.policies.slate._slate_checks import row_values

# each of them makes an object a slate policy; what an evaluator needs, it asks for
METHODS = ("slot_marginals", "slate_proba", "shown_marginals")


def is_slate_policy(policy):
    """Tell whether an object, no class, is a policy over slates."""
    return isinstance(policy, BaseSlatePolicy) or (
        not isinstance(policy, type) and any(hasattr(policy, name) for name in METHODS)
    )


def slate_policy(policy, logs):
    """Return what may stand for a slate policy as one."""
    refuse_lazy(logs)
    policy = last_step(unwrap(policy))  # steps in front are for the logs
    if isinstance(policy, type):
        raise TypeError(
            f"a slate policy is expected, got the class {policy.__name__}; make an "
            "instance."
        )
    if is_slate_policy(policy):
        return policy
    array = policy
    if isinstance(policy, str):
        instead = (
            ", or pass a policy, which is an object such as UniformSlatePolicy(n_slots)"
        )
        array = row_values(policy, logs, "policy", instead)
    if isinstance(array, (list, tuple)) or (
        hasattr(array, "__array__") and not isinstance(array, RowContainer)
    ):
        check_row_labels("policy", array, logs)
        array = as_slate_array(array)
    if isinstance(array, np.ndarray) and array.ndim in (2, 3):
        if len(array) != len(logs):
            raise ValueError(
                f"the policy has {len(array)} rows, the logs have {len(logs)}: an "
                "array belongs to the rows of its logs. Where folds are taken, add it "
                "with logs.with_columns(name=...) and pass the column's name."
            )
        wrap = DeterministicSlates if array.ndim == 2 else GivenMarginals
        return wrap(policy if isinstance(policy, str) else array)
    found = f" of shape {array.shape}" if isinstance(array, np.ndarray) else ""
    raise TypeError(
        "a slate policy is expected, such as RankingPolicy or UniformSlatePolicy, or "
        f"integers of shape (n_rounds, n_slots); got {type(policy).__name__}{found}."
    )


def as_slate_array(given):
    """Return an array-like that stands for a policy as an array."""
    # A frame has a column for every slot. Where their names end in numbers, such as
    # `slot_1` and `slot_2`, the numbers must rise.
    if is_frame(given):
        names = list(getattr(given, "column_names", None) or given.columns)
        ends = [re.search(r"\d+$", str(name)) for name in names]
        numbers = [int(end.group()) for end in ends if end]
        if len(numbers) == len(names) and numbers != sorted(numbers):
            raise ValueError(
                f"the columns of the slates are {names}, and their order is that of "
                "the slots: bring them into the order of their numbers."
            )
    try:
        return np.asarray(given)
    except ValueError as error:  # ragged
        raise ValueError(
            f"the slates are no rectangular array: {error}. Fill empty slots with -1."
        ) from error
