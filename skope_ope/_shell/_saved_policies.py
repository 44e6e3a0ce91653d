# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies that skops, pickle or joblib saved; code in files runs on trust only."""

import json
import os
from io import BytesIO
from zipfile import ZipFile

import numpy as np

from skope_ope.evaluators.scavenging import ReorderingPolicy
from skope_ope.learning._tournament import Match
from skope_ope.logs import BanditLogs, ContextEncoder, SlateLogs
from skope_ope.logs._encoder_parts import Categories, Missing, Number
from skope_ope.logs._file_rows import FileRows
from skope_ope.logs._known_rows import Bits, Content, KnownRows
from skope_ope.logs._row_container import RowId
from skope_ope.policies import AdaptiveFunctionPolicy, FunctionPolicy
from skope_ope.policies._adaptive import FrozenPolicy
from skope_ope.policies.adaptive._arm_models import ArmModels
from skope_ope.policies.slate._round_labels import LabelsOfRows
from skope_ope.readers._zip_files import read_members
from skope_ope.reward_models import ActionRewardModel, AdditiveSlateModel
from skope_ope.utils.discovery import all_policies, all_slate_policies

HELD = (  # what policies are made of, and the rows that they know
    ActionRewardModel,
    AdditiveSlateModel,
    ArmModels,
    BanditLogs,
    Bits,
    Categories,
    Content,
    ContextEncoder,
    FileRows,
    FrozenPolicy,
    KnownRows,
    LabelsOfRows,
    Match,
    Missing,
    Number,
    ReorderingPolicy,
    RowId,
    SlateLogs,
)
FUNCTIONS = (AdaptiveFunctionPolicy, FunctionPolicy)  # they call what they hold


def load_policy(path, *, trust=False):
    """Load a policy that was saved by skops or pickle.

    Parameters
    ----------
    path : str or path-like
        A `.skops` file, or one written by pickle or joblib.
    trust : bool, default=False
        Whether code in the file may run. Without it pickles are refused, and skops
        files that hold anything but types that skops trusts and a fixed set of classes
        of this package, that name a folder of pickles as a cache, or that unpack to
        more than 1 GiB.

    Returns
    -------
    policy : object
        What was saved.
    """
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
    found, known = None, set()
    try:
        if trust:
            return io.load(path, trusted=io.get_untrusted_types(file=path))
        content, schema = _read_again(path)
        known = _known_classes()
        foreign = set(io.get_untrusted_types(data=content)) - known
        foreign.update(_calls(schema, known))
        if not foreign:
            found = io.loads(content, trusted=sorted(known))
    except Exception as error:
        raise ValueError(
            f"{path} cannot be read by skops ({type(error).__name__}: {error})."
        ) from error
    if not foreign and _has_cache(found):
        foreign = {"a cache (memory=...), which is a folder of pickles"}
    if foreign:
        raise PermissionError(
            f"{path} holds what is not known to be safe: {', '.join(sorted(foreign))}. "
            "Pass --trust if you know who wrote it."
        )
    return found


def _known_classes():
    """Return the names of the classes that may be made, as skops writes them."""
    policies = (cls for _, cls in [*all_policies(), *all_slate_policies()])
    return {
        f"{cls.__module__}.{cls.__qualname__}"
        for cls in {*policies, *HELD}.difference(FUNCTIONS)
    }


def _read_again(path):
    """Return a skops file with nothing but what was checked, and its schema."""
    out, members = BytesIO(), dict(read_members(path))
    with ZipFile(out, "w") as file:  # sizes that lie, and bytes between, stay behind
        for name, content in members.items():
            file.writestr(name, content)
    return out.getvalue(), json.loads(members["schema.json"])


def _calls(schema, known):
    """Yield known classes that are called or named, not filled with attributes."""
    parts = [schema]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            node = part.get("__loader__")
            name = f"{part.get('__module__')}.{part.get('__class__')}"
            if name in known and node != "ObjectNode":
                yield f"{name} as {node}"
            name = f"{part.get('module_path')}.{part.get('function')}"  # protocol 0
            if name in known:
                yield f"{name} as FunctionNode"
            part = list(part.values())
        if isinstance(part, list):
            parts += part


def _has_cache(policy):
    """Tell whether a part keeps results as pickles, which fits would read and run."""
    seen, parts = {}, [policy]
    while parts:
        part = parts.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        if isinstance(part, np.ndarray):
            parts += part.ravel().tolist() if part.dtype.hasobject else []
        elif isinstance(part, (list, tuple, set)):
            parts += part
        elif isinstance(part, dict):
            parts += part.values()
        elif hasattr(part, "__dict__") and not isinstance(part, type):
            if vars(part).get("memory") is not None:
                return True
            parts += vars(part).values()
    return False
