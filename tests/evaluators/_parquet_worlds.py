# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The worlds of `_reference_worlds` as parquet files, cut in any way."""

from itertools import pairwise

import numpy as np

from skope_ope import scan_logs
from skope_ope.logs import SlateLogs


def columns_of(logs):
    """Return the columns of a file and what they mean, of logs of either kind."""
    data, roles = {}, {"columns": {}}

    def add(role, values, into=roles):
        if values is None:
            return
        values = np.asarray(values)
        if values.ndim == 1:
            data[role], into[role] = values, role
            return
        names = [f"{role}_{k}" for k in range(values.shape[1])]
        data.update(zip(names, values.T, strict=True))
        into[role] = names

    slates = isinstance(logs, SlateLogs)
    fields = ["slate", "slot_reward"] if slates else ["action", "logging_proba"]
    fields += ["reward", "propensity", "context", "group", "timestamp"]
    if not slates:
        fields += ["logger", "logger_proba", "sample_weight"]
    for name in fields:
        add(name, getattr(logs, name))
    for name, values in logs.columns.items():
        add(name, values, roles["columns"])
    if slates:
        roles["n_candidates"] = logs.n_candidates
        roles["logging_policy"] = logs.logging_policy
    else:
        roles["actions"] = logs.actions
    roles["reward_range"] = logs.reward_range
    return data, {name: given for name, given in roles.items() if given is not None}


def lazy_world(logs, folder, rng, n_files=None):
    """Write logs as files with row groups of any sizes, and scan them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    data, roles = columns_of(logs)
    table = pa.table({name: np.ascontiguousarray(v) for name, v in data.items()})
    n_files = rng.randint(1, 6) if n_files is None else n_files
    cuts = np.sort(rng.randint(0, len(logs) + 1, n_files - 1))  # equal ones: no rows
    bounds = [0, *cuts.tolist(), len(logs)]
    for k, (low, high) in enumerate(pairwise(bounds)):
        least = max(1, len(logs) // 16)
        size = rng.randint(least, max(least, high - low) + 1)
        part = table.slice(low, high - low)
        pq.write_table(part, folder / f"part{k:02}.parquet", row_group_size=int(size))
    return scan_logs(folder, **roles)
