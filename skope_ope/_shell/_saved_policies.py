# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies that skops, pickle or joblib saved; code in files runs on trust only."""

import json
import os
from io import BytesIO
from zipfile import ZipFile

import numpy as np

from skope_ope.policies import AdaptiveFunctionPolicy, FunctionPolicy
from skope_ope.readers._zip_files import read_members
from skope_ope.utils.discovery import all_policies, all_slate_policies

HELD = {  # by module: what policies are made of, and the rows that they know
    "evaluators.scavenging._reordering_policy": "ReorderingPolicy",
    "logs._bandit_logs": "BanditLogs",
    "logs._context_encoder": "ContextEncoder",
    "logs._encoder_parts": "Categories Missing Number",
    "logs._file_rows": "FileRows",
    "logs._known_rows": "Bits Content KnownRows",
    "logs._row_container": "RowId",
    "logs._slate_logs": "SlateLogs",
    "policies._adaptive": "FrozenPolicy",
    "policies.adaptive._arm_models": "ArmModels",
    "policies.slate._round_labels": "LabelsOfRows",
    "reward_models._action_reward_model": "ActionRewardModel",
    "reward_models._additive_slate_model": "AdditiveSlateModel",
}
CALLS = (AdaptiveFunctionPolicy, FunctionPolicy)  # they call what they hold


def load_policy(path, *, trust=False):
    """Load a policy that was saved by skops or pickle."""
    path = os.fspath(path)
    if not os.path.isfile(path):
        kind = "is a folder" if os.path.isdir(path) else "no such file"
        raise FileNotFoundError(f"{path}: {kind}. Name the file of a saved policy.")
    load = _load_skops if path.lower().endswith(".skops") else _load_pickle
    return load(path, trust)


def _load_pickle(path, trust):
    if not trust:
        raise PermissionError(
            f"{path} is taken for a pickle, and loading a pickle runs the code in it. "
            "Pass --trust if you know who wrote it, or save the policy with skops "
            "(.skops)."
        )
    import joblib

    try:
        return joblib.load(path)
    except Exception as error:  # a pickle may raise anything
        raise ValueError(
            f"{path} cannot be unpickled ({type(error).__name__}: {error}). Save the "
            "policy again, with the same versions of its libraries."
        ) from error


def _load_skops(path, trust):
    try:
        from skops import io
    except ImportError as error:
        raise ImportError(f"{path} needs skops: pip install skops.") from error
    try:
        if trust:
            return io.load(path, trusted=io.get_untrusted_types(file=path))
        copy, members = BytesIO(), read_members(path)
        with ZipFile(copy, "w") as file:  # what lies about its size stays behind
            for name, content in members.items():
                file.writestr(name, content)
        known, content = _known_classes(), copy.getvalue()
        foreign = set(io.get_untrusted_types(data=content)) - known
        foreign.update(_calls(json.loads(members["schema.json"]), known))
        if not foreign:
            found = io.loads(content, trusted=list(known))
            if all(getattr(one, "memory", None) is None for one in _parts(found)):
                return found
            foreign = {"a cache, a folder of pickles (memory=)"}
    except Exception as error:
        raise ValueError(
            f"{path} cannot be read by skops ({type(error).__name__}: {error})."
        ) from error
    raise PermissionError(
        f"{path} holds what is not known to be safe: {', '.join(sorted(foreign))}. "
        "Pass --trust if you know who wrote it."
    )


def _known_classes():
    """Return the names of the classes that may be made, as skops writes them."""
    policies = {cls for _, cls in [*all_policies(), *all_slate_policies()]}
    names = {f"{one.__module__}.{one.__name__}" for one in policies.difference(CALLS)}
    return names | {f"skope_ope.{k}.{name}" for k in HELD for name in HELD[k].split()}


def _calls(schema, known):
    """Yield known classes that are called or named, not filled with attributes."""
    for part in _parts(schema):
        if isinstance(part, dict):
            node = part.get("__loader__")
            name = f"{part.get('__module__')}.{part.get('__class__')}"
            old = node == "FunctionNode" and "content" in part  # named in there
            if old or (name in known and node != "ObjectNode"):
                yield f"{name} as {node}"


def _parts(whole):
    """Yield an object and all that it holds, each once."""
    seen, parts = {}, [whole]
    while parts:
        part = parts.pop()
        if id(part) not in seen and not isinstance(part, type):
            seen[id(part)] = part
            yield part
            parts += getattr(part, "__dict__", {}).values()
            if isinstance(part, dict):
                parts += part.values()
            elif isinstance(part, (list, tuple, set)):
                parts += part
            elif isinstance(part, np.ndarray) and part.dtype.hasobject:
                parts += part.ravel().tolist()
