# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Files of summaries: facts that must agree, and arrays; no pickle."""

import io
import json
import os
import types
import warnings
from contextlib import suppress
from functools import partial
from numbers import Real
from pathlib import Path
from uuid import uuid4
from zipfile import ZipFile

import numpy as np

from skope_ope.evaluators._names import EVALUATORS
from skope_ope.evaluators.core._summary import (
    evaluator_text,
    policy_text,
    text_of_model,
)
from skope_ope.exceptions import OPEWarning
from skope_ope.logs._labels import NO_KIND, STORED_KINDS, kind_of_labels
from skope_ope.logs._text_files import check_unpacked_size, read_members
from skope_ope.logs._validation import plain

FUNCTION_TYPES = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    partial,
)
IS_NAMED = "named"  # begins what is known of a policy with a name
INPUTS_OF_SUMS = ("reward_model", "cv")  # no part of what sums become
COLUMNS = (  # of files, which must be the same
    "action",
    "reward",
    "propensity",
    "group",
    "logging_proba",
    "logger",
    "logger_proba",
    "sample_weight",
    "slate",
    "slot_reward",
)


class NotRestored(ValueError):
    """The file says what the caller must pass."""


def facts(policies, evaluators, logs, reward_model=None):
    """Return what must be the same in all summaries that add up, as texts by name."""
    roles = getattr(logs, "roles", {})
    found = {"kind of logs": getattr(logs, "_log_type", type(logs)).__name__}
    for role in COLUMNS:
        found[f"{role} column"] = _column_text(roles.get(role))
    found["reward_range"] = str(logs.reward_range)
    found["type of the actions"] = kind_of_labels(getattr(logs, "actions", None))
    found["type of the loggers"] = _kind_of(logs, "logger", "loggers")
    found["type of the groups"] = _kind_of(logs, "group", "groups")
    for name, policy in policies.items():
        found[_title("policy", name)] = _text_of_policy(policy, name)
    for name, evaluator in evaluators.items():
        found[_title("evaluator", name)] = evaluator_text(evaluator)
    if reward_model is not None:
        found["shared reward model"] = text_of_model(reward_model)
    return found


def common_facts(one, two):
    """Return the facts of both; raise where they contradict each other."""
    # Policies of one name that hold something else warn: a name may stand for what was
    # retrained every day.
    unlike = [
        f"{name} ({_shown(one, name)}, and {_shown(two, name)})"
        for name in dict.fromkeys([*one, *two])
        if _differ(one.get(name), two.get(name))
    ]
    if unlike:
        raise ValueError(
            f"these summaries cannot be added: they differ in {'; '.join(unlike)}. "
            "Summarize all parts with the same arguments."
        )
    found = {name: one[name] or two[name] for name in one}
    others = [name for name in one if _is_another(one[name], two[name])]
    if others:
        warnings.warn(
            "the summaries hold different policies with the same name: "
            f"{', '.join(others)}. Each round was weighted by the policy of its "
            "summary. So the sum is the value of changing policies this way, not "
            "the value of the last policy. If you want their values apart, give "
            "each policy a different name.",
            OPEWarning,
            stacklevel=3,
        )
    return found | dict.fromkeys(others, f"{IS_NAMED}, several")


def stored_evaluator(evaluator):
    """Return the class and the plain parameters of an evaluator, for JSON."""
    params = evaluator.get_params(deep=False)
    kept = {name: plain(value) for name, value in params.items() if _is_plain(value)}
    lost = [name for name in params if name not in kept and name not in INPUTS_OF_SUMS]
    return {"class": type(evaluator).__name__, "params": kept, "lost": lost}


def read_evaluator(name, stored, given):
    """Return an evaluator as `stored_evaluator` describes it."""
    if name in given:
        found = given[name]
        if type(found).__name__ != stored["class"]:
            raise NotRestored(
                f"evaluators[{name!r}] is a {type(found).__name__}, but the file "
                f"was made with a {stored['class']}. Pass one of that class."
            )
        return found
    kind = EVALUATORS.get(stored["class"])
    if kind is None or stored["lost"]:
        why = f"its parameters {stored['lost']} are not stored"
        if kind is None:
            why = f"{stored['class']} is not an evaluator of skope_ope"
        raise NotRestored(
            f"the file cannot restore evaluator {name!r}: {why}. Pass it: "
            f"ValueSummary.load(path, evaluators={{{name!r}: {stored['class']}(...)}})."
        )
    found = kind(**stored["params"])
    found._validate_params()
    return found


def _is_plain(value):
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(
            map(_is_plain, value.values())
        )
    return value is None or isinstance(value, (str, bool, Real))


def _text_of_policy(policy, name):
    if isinstance(policy, str):
        return policy_text(policy)
    if name is not None:  # what it holds is told where it can be
        if not _holds_function(policy):
            with suppress(ValueError):
                return f"{IS_NAMED}, {policy_text(policy)}"
        return IS_NAMED
    if _holds_function(policy):
        raise ValueError(
            "a function without a name cannot be recognised in another process or "
            "on another day. Name the policy: pass a dict, {'new': policy}."
        )
    try:
        return policy_text(policy)
    except ValueError as error:
        raise ValueError(
            f"this {type(policy).__name__} cannot be told from other policies of "
            "its class. Name the policy: pass a dict, {'new': policy}."
        ) from error


def _holds_function(policy):
    """Whether a policy is a function, or has one among its parameters."""
    if isinstance(policy, FUNCTION_TYPES):
        return True
    if isinstance(policy, dict):
        return any(map(_holds_function, policy.values()))
    if isinstance(policy, (list, tuple)):
        return any(map(_holds_function, policy))
    if hasattr(policy, "get_params") and not isinstance(policy, type):
        return _holds_function(policy.get_params(deep=False))
    return False


def _column_text(columns):
    if columns is None:
        return NO_KIND  # logs in memory do not tell: it contradicts nothing
    return columns if isinstance(columns, str) else ", ".join(map(str, columns))


def _kind_of(logs, field, labels):
    """Return the kind of the labels of a field."""
    if hasattr(logs, "partitions"):
        return logs._label_kind(field)
    known = getattr(logs, field, None) is not None
    return kind_of_labels(getattr(logs, labels)) if known else NO_KIND


def _differ(one, two):
    if one is None or two is None:  # not even asked of one of them
        return True
    if _is_named(one) and _is_named(two):
        return False
    return bool(one and two and one != two)


def _is_named(text):
    return text == IS_NAMED or text.startswith(f"{IS_NAMED}, ")


def _is_another(one, two):
    """Whether two policies of one name are known to be others."""
    return (
        _is_named(one) and _is_named(two) and IS_NAMED not in (one, two) and one != two
    )


def _shown(found, name):
    return found.get(name) or "none"


def _title(what, name):
    return what if name is None else f"{what} {name!r}"


SUFFIXES = (".npz", ".arrow")
KIND = "skope_ope summary"
METADATA = "summary"  # of an Arrow file, by this name: an npz file


def check_suffix(path):
    """Return how the file is written, ".npz" or ".arrow"; raise for another ending."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"a summary is kept in a file that ends with .npz or .arrow, got {path!s}."
        )
    return suffix


def write_file(path, header, tables):
    """Write a header and arrays, so that the file is whole whenever it is there."""
    path, suffix = Path(path), check_suffix(path)
    for name, array in tables.items():
        if np.asarray(array).dtype.kind == "O":
            raise TypeError(f"{name} holds objects, which no file without code does.")
    known = {"kind": KIND, "arrays": list(tables)}
    text = json.dumps({**known, **header}, default=_plain)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {path.parent!s} for the summary {path.name}. Make it "
            "first."
        )
    packed = io.BytesIO()
    np.savez_compressed(packed, summary=np.array(text), **tables)
    with ZipFile(packed) as opened:
        check_unpacked_size(opened)  # what is written can be read
    beside = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    try:
        WRITERS[suffix](beside, packed.getvalue())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def read_file(path, version):
    """Return the header and the arrays of a file."""
    path, suffix = Path(path), check_suffix(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path!s}.")
    try:
        members = read_members(io.BytesIO(READERS[suffix](path)))
        tables = {
            name.removesuffix(".npy"): _array_of(members.pop(name))
            for name in list(members)
        }
        header = json.loads(str(tables.pop("summary")))
        known = header.get("kind") == KIND
    except ImportError:
        raise
    except Exception as error:  # whatever a reader makes of bytes that are not its own
        raise damaged(path, error) from error
    if not known:
        raise ValueError(f"{path!s} is no file of ValueSummary.save.")
    found = header.get("format")
    if found != version:
        raise ValueError(
            f"{path!s} has format {found}, and this version of skope_ope reads "
            f"{version}: load it with the version that wrote it, or summarize the "
            "parts again."
        )
    if header.pop("arrays", None) != list(tables):
        raise damaged(path, "it holds other arrays than it names")
    return header, tables


def damaged(path, why):
    """Return the error about a file that cannot be read."""
    return ValueError(
        f"{path!s} is damaged, or no file of ValueSummary.save ({why}). Summarize the "
        "parts again, or restore the file."
    )


def _write_arrow(path, packed):
    pa = _pyarrow()
    schema = pa.schema([]).with_metadata({METADATA: packed})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema):
        pass  # of columns Arrow would unpack whatever a file says


def _read_arrow(path):
    stream = _pyarrow().ipc.open_stream(path.read_bytes())
    return stream.schema.metadata[METADATA.encode()]


WRITERS = {".npz": Path.write_bytes, ".arrow": _write_arrow}
READERS = {".npz": Path.read_bytes, ".arrow": _read_arrow}


def _array_of(content):
    """Return an array of numbers or texts, no larger than the bytes that hold it."""
    # An empty one may name any number of rows: who takes it compares them with others.
    array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    dtype = array.dtype
    kinds = {dtype[name].kind for name in dtype.names or ()} or {dtype.kind}
    if not kinds.issubset(STORED_KINDS) or array.size > len(content):
        raise ValueError(f"an array of shape {array.shape} holds {dtype}")
    return array


def _plain(value):
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written.")


def _pyarrow():
    try:
        import pyarrow as pa
        import pyarrow.ipc
    except ImportError as error:
        raise ImportError(
            "a file that ends with .arrow needs pyarrow: pip install "
            "'skope-ope[frames]'; one that ends with .npz does not."
        ) from error
    return pa
