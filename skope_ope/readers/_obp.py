# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs from and to the feedback dictionaries of the Open Bandit Pipeline (obp)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from skope_ope._texts import meant
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs._validation import EMPTY, as_numbers, is_frame

ROUND_COLUMNS = ("expected_reward", "position")  # of rounds: the logs carry them along
SLATE_COLUMNS = ("pscore_cascade", "pscore_item_position", "expected_reward_factual")


def from_obp(bandit_feedback: Mapping[str, Any]) -> BanditLogs | SlateLogs:
    """Build logs from a feedback dictionary of the Open Bandit Pipeline.

    It is the dictionary that `obtain_batch_bandit_feedback` of an obp data set returns
    [1]_. You do not need obp itself. Read more in the :ref:`User Guide <readers>`.

    Parameters
    ----------
    bandit_feedback : dict
        With the keys `n_rounds`, `n_actions`, `context`, `action` and `reward`.
        Optional keys are `pscore`, `position`, `action_context`, `expected_reward`,
        and `pi_b` of shape (n_rounds, n_actions, len_list). A dictionary with
        `slate_id` holds slates, with a row for every slot.

    Returns
    -------
    logs : BanditLogs or SlateLogs
        The actions are 0..n_actions-1 and the propensity is `pscore`. `pi_b` at the
        position of the round is `logging_proba`. `position`, `expected_reward` and,
        with several positions, `pi_b` are kept as columns. For slates, `action`
        becomes `slate`, `reward` becomes `slot_reward` and `pscore` becomes the
        propensity of the slate; the other scores are columns.

    Raises
    ------
    TypeError
        If `bandit_feedback` is not a dictionary.
    ValueError
        If a key is missing, or arrays contradict each other.

    See Also
    --------
    to_obp : The reverse.

    References
    ----------
    .. [1] Saito, Y., Aihara, S., Matsutani, M., & Narita, Y. (2021). Open Bandit
       Dataset and Pipeline: Towards Realistic and Reproducible Off-Policy Evaluation.
       NeurIPS Datasets and Benchmarks.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.readers import from_obp
    >>> feedback = {
    ...     "n_rounds": 3,
    ...     "n_actions": 2,
    ...     "context": np.array([[0.1], [0.7], [0.4]]),
    ...     "action": np.array([0, 1, 0]),
    ...     "reward": np.array([1, 0, 1]),
    ...     "position": None,
    ...     "pscore": np.array([0.5, 0.5, 0.5]),
    ... }
    >>> from_obp(feedback)
    BanditLogs(n_rounds=3, n_features=1, n_actions=2)
    """
    if not isinstance(bandit_feedback, Mapping):
        raise TypeError(
            "bandit_feedback must be a dictionary as obp's data sets return it, got "
            f"{type(bandit_feedback).__name__}."
        )
    if "slate_id" in bandit_feedback:
        return _slates_from(bandit_feedback)
    n_actions = int(_value_of_key(bandit_feedback, "n_actions"))
    action = _indices(bandit_feedback, "action")
    _check_rounds(bandit_feedback, len(action))
    position = bandit_feedback.get("position")
    if position is not None:
        position = _indices(bandit_feedback, "position")
    columns = {name: bandit_feedback.get(name) for name in ROUND_COLUMNS}
    pi_b = bandit_feedback.get("pi_b")
    if pi_b is not None:
        pi_b = as_numbers("pi_b", pi_b, 3)
        if pi_b.shape[2] > 1:
            columns["pi_b"] = pi_b
        pi_b = _at_position(pi_b, position, (len(action), n_actions))
    logs = BanditLogs(
        _value_of_key(bandit_feedback, "context"),
        action,
        _value_of_key(bandit_feedback, "reward"),
        bandit_feedback.get("pscore"),
        actions=np.arange(n_actions),
        logging_proba=pi_b,
        action_context=bandit_feedback.get("action_context"),
    )
    return _with_columns(logs, columns)


def to_obp(logs: BanditLogs | SlateLogs) -> dict[str, Any]:
    """Convert logs to a feedback dictionary of the Open Bandit Pipeline.

    You do not need obp itself. Read more in the :ref:`User Guide <readers>`.

    Parameters
    ----------
    logs : BanditLogs or SlateLogs
        The rounds. The context must hold numbers. Slates need a reward for every slot,
        no empty slot, and the same candidates in every round.

    Returns
    -------
    bandit_feedback : dict
        New arrays with the keys that `from_obp` takes. Actions are codes: action `k`
        is `logs.actions[k]`. `position` is the column of this name, counted from 0, or
        None. `pi_b` has shape (n_rounds, n_actions, len_list); it is left out unless
        it is known at every position.

    Raises
    ------
    TypeError
        If `logs` are not logs, or the context holds texts.
    ValueError
        If slates lack rewards of slots, have an empty slot, or have other candidates
        in other rounds.

    See Also
    --------
    from_obp : The reverse.

    Examples
    --------
    >>> from skope_ope.readers import from_obp, to_obp
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(100, random_state=0)
    >>> feedback = to_obp(logs)
    >>> feedback["pi_b"].shape == (100, logs.n_actions, 1)
    True
    >>> bool((from_obp(feedback).propensity == logs.propensity).all())
    True
    """
    if isinstance(logs, SlateLogs):
        return _slates_to(logs)
    if not isinstance(logs, BanditLogs):
        raise TypeError(
            f"logs must be BanditLogs or SlateLogs, got {type(logs).__name__}."
        )
    feedback = {
        "n_rounds": len(logs),
        "n_actions": logs.n_actions,
        "context": _matrix(logs.context),
        "action_context": _copy(logs.action_context),
        "action": np.array(logs.action_index, dtype=np.int64),
        "position": None,
        "reward": np.array(logs.reward),
        "pscore": _copy(logs.propensity),
    }
    columns = logs.columns
    if "expected_reward" in columns:
        feedback["expected_reward"] = np.array(columns["expected_reward"])
    if "position" in columns:
        position = np.array(columns["position"], dtype=np.int64)
        if position.min() > 0 and "pi_b" not in columns:
            position -= 1  # those of the Open Bandit Dataset are counted from one
        feedback["position"] = position
    several = feedback["position"] is not None and feedback["position"].max() > 0
    if "pi_b" in columns:
        feedback["pi_b"] = _copy(columns["pi_b"])
    elif logs.logging_proba is not None and not several:
        feedback["pi_b"] = np.array(logs.logging_proba)[:, :, None]
    return feedback


def _slates_from(feedback):
    """Build `SlateLogs` from a dictionary with a row for every slot."""
    slate_id, slot = (_indices(feedback, name) for name in ("slate_id", "position"))
    action = _indices(feedback, "action")
    n_rounds, n_slots = int(slate_id.max()) + 1, int(slot.max()) + 1
    _check_rounds(feedback, n_rounds)
    order = np.lexsort((slot, slate_id))
    want = np.arange(n_rounds * n_slots)
    found = slate_id[order] * n_slots + slot[order]
    if len(found) != len(want) or (found != want).any():
        raise ValueError(
            f"bandit_feedback must have a row for each of the {n_slots} positions of "
            f"each of the {n_rounds} slates, got {len(slate_id)} rows."
        )

    def table(name):
        values = np.asarray(_value_of_key(feedback, name))
        if len(values) != len(order):
            raise ValueError(
                f"bandit_feedback[{name!r}] has {len(values)} rows, slate_id has "
                f"{len(order)}."
            )
        return values[order].reshape(n_rounds, n_slots)

    pscore = None
    if feedback.get("pscore") is not None:
        pscore = table("pscore")
        if (pscore != pscore[:, :1]).any():
            raise ValueError(
                "bandit_feedback['pscore'] must be the same at all positions of a "
                "slate: it is the probability of the whole slate."
            )
        pscore = pscore[:, 0]
    logs = SlateLogs(
        _value_of_key(feedback, "context"),
        action[order].reshape(n_rounds, n_slots),
        n_candidates=int(_value_of_key(feedback, "n_unique_action")),
        item_features=feedback.get("action_context"),
        slot_reward=table("reward"),
        propensity=pscore,
    )
    known = [name for name in SLATE_COLUMNS if feedback.get(name) is not None]
    return _with_columns(logs, {name: table(name) for name in known})


def _slates_to(logs):
    """Return the dictionary of slates."""
    if logs.slot_reward is None:
        raise ValueError(
            "obp's slates have a reward for every slot: pass SlateLogs(..., "
            "slot_reward=...)."
        )
    if (logs.slate == EMPTY).any():
        row = int((logs.slate == EMPTY).any(axis=1).argmax())
        raise ValueError(
            f"the slate of row {row} has an empty slot; obp's slates are full. Drop "
            "such rows."
        )
    if np.ndim(logs.n_candidates) or logs.candidates is not None:
        raise ValueError(
            "obp's slates show the same items in every round, but these logs have "
            "separate candidates by round."
        )
    n_rounds, n_slots = logs.slate.shape
    feedback = {
        "n_rounds": n_rounds,
        "n_unique_action": logs.n_candidates,
        "slate_id": np.repeat(np.arange(n_rounds), n_slots),
        "context": _matrix(logs.context),
        "action_context": _copy(logs.item_features),
        "action": np.array(logs.slate, dtype=np.int64).ravel(),
        "position": np.tile(np.arange(n_slots), n_rounds),
        "reward": np.array(logs.slot_reward).ravel(),
    }
    if logs.propensity is not None:
        feedback["pscore"] = np.repeat(logs.propensity, n_slots)
    for name in SLATE_COLUMNS:
        if name in logs.columns:
            feedback[name] = np.array(logs.columns[name]).ravel()
    return feedback


def _value_of_key(feedback, key):
    remedy = "Fill it in."
    if key == "context":
        remedy = "Without features it is np.empty((n_rounds, 0))."
    if key not in feedback:
        raise ValueError(
            f"bandit_feedback has no {key!r}; it has "
            f"{', '.join(map(repr, feedback))}.{meant(key, feedback)} {remedy}"
        )
    if feedback[key] is None:
        raise ValueError(f"bandit_feedback[{key!r}] is None. {remedy}")
    return feedback[key]


def _indices(feedback, key):
    """Return whole numbers from 0."""
    values = np.asarray(_value_of_key(feedback, key))
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise ValueError(
            f"bandit_feedback[{key!r}] must hold whole numbers, one a row, got dtype "
            f"{values.dtype}, shape {values.shape}."
        )
    if len(values) and values.min() < 0:
        raise ValueError(
            f"bandit_feedback[{key!r}] is counted from 0, got {values.min()} at row "
            f"{int(values.argmin())}."
        )
    return values.astype(np.int64)


def _check_rounds(feedback, n_rounds):
    stated = feedback.get("n_rounds")
    if stated is not None and int(stated) != n_rounds:
        raise ValueError(
            f"bandit_feedback says n_rounds = {stated}, but its arrays hold "
            f"{n_rounds} rounds."
        )


def _at_position(pi_b, position, shape):
    """Return the probabilities at the position of every round."""
    if pi_b.shape[:2] != shape:
        raise ValueError(
            "bandit_feedback['pi_b'] must have shape (n_rounds, n_actions, len_list) "
            f"= {shape} + (len_list,), got {pi_b.shape}."
        )
    if pi_b.shape[2] == 1:
        return pi_b[:, :, 0]
    if position is None:
        raise ValueError(
            f"bandit_feedback['pi_b'] is of {pi_b.shape[2]} positions, and 'position' "
            "is None. Give the position of every round."
        )
    if len(position) != shape[0] or position.max() >= pi_b.shape[2]:
        raise ValueError(
            f"bandit_feedback['position'] must hold {shape[0]} numbers below "
            f"{pi_b.shape[2]}, the last shape of pi_b."
        )
    return pi_b[np.arange(len(pi_b)), :, position]


def _with_columns(logs, columns):
    known = {name: values for name, values in columns.items() if values is not None}
    return logs.with_columns(**known) if known else logs


def _copy(values):
    return None if values is None else np.array(values)


def _matrix(context):
    """Return a new array of numbers."""
    if sparse.issparse(context):
        return context.toarray()
    if not is_frame(context):
        return np.array(context, dtype=np.float64)
    from skope_ope.logs._frames import import_narwhals

    frame = import_narwhals().from_native(context, eager_only=True)
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or str(dtype) == "Boolean"):
            raise TypeError(
                f"obp's context is an array of numbers, and column {name!r} holds "
                f"{dtype}. Encode the context first, and build the logs with what that "
                "gives."
            )
    columns = [frame[name].to_numpy() for name in frame.columns]
    return np.column_stack(columns).astype(np.float64, copy=False)
