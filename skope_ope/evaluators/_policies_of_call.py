# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The arguments that all calls share, checked in one place."""

from collections.abc import Mapping
from numbers import Number

import numpy as np

from skope_ope._parallel import check_n_jobs
from skope_ope.evaluators.core._model_of_fit import check_model_of_call
from skope_ope.logs import BanditLogs, LazyLogs, SlateLogs

LOGS = (BanditLogs, SlateLogs, LazyLogs)
SINGLE = "the policy"  # what one is called that came without a name


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
