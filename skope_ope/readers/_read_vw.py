# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Read logs of Vowpal Wabbit."""

from __future__ import annotations

import os
import warnings
from array import array
from functools import partial
from numbers import Integral
from typing import Literal

from skope_ope._sklearn import Interval, StrOptions, validate_params
from skope_ope._types import Path
from skope_ope.exceptions import LogsWarning
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._text_files import (
    LONGEST_LINE,
    empty_file,
    errors_of_file,
    first_line,
    read_lines,
    sample_lines,
)
from skope_ope.readers._json_lines import MalformedLineError, load
from skope_ope.readers._vw_events import (
    KnownActions,
    OtherLogError,
    VWRounds,
)
from skope_ope.readers._vw_json import parse_dsjson, parse_json, parse_slates_json
from skope_ope.readers._vw_text import (
    parse_adf,
    parse_cb,
    parse_slates_text,
    split_label,
)

VW_PARSERS = {
    "cb": parse_cb,
    "cb_eval": partial(parse_cb, evaluated=True),
    "cb_adf": parse_adf,
    "json": parse_json,
    "dsjson": parse_dsjson,
}
SLATE_FORMATS = ("ccb", "slates")
LOOKED_AT = 1000  # lines that are looked at to tell the format


@validate_params(
    {
        "path": [str, os.PathLike],
        "format": [StrOptions({*VW_PARSERS, *SLATE_FORMATS}), None],
        "n_features": [Interval(Integral, 1, 2**31 - 1, closed="both")],
        "n_action_features": [Interval(Integral, 0, 2**31 - 1, closed="both"), None],
        "n_actions": [Interval(Integral, 1, None, closed="left"), None],
        "action_labels": [StrOptions({"number", "tag"})],
        "on_error": [StrOptions({"raise", "skip"})],
        "max_action_bytes": [Interval(Integral, 0, None, closed="left")],
    },
    prefer_skip_nested_validation=True,
)
def read_vw(
    path: Path,
    *,
    format: str | None = None,
    n_features: int = 2**18,
    n_action_features: int = 2**8,
    n_actions: int | None = None,
    action_labels: Literal["number", "tag"] = "number",
    on_error: Literal["raise", "skip"] = "raise",
    max_action_bytes: int = 2**30,
) -> BanditLogs | SlateLogs:
    r"""Read a contextual bandit log of Vowpal Wabbit.

    The format is recognised from the content: text (`--cb`, `--cb_adf`), JSON
    (`--json`, `--dsjson`), plain or gzip. The reward is minus the cost. Events without
    a cost and a probability are skipped, and a warning counts them. Read more in the
    :ref:`User Guide <readers>`.

    Parameters
    ----------
    path : str or path-like
        The log file, plain or gzip.
    format : str, default=None
        "cb", "cb_eval", "cb_adf", "json", "dsjson", "ccb" or "slates". `None`
        recognises "cb", "cb_adf", "json" and "dsjson" from the first lines. Name the
        others: "cb_eval" is the input of `--cb --eval`, with the evaluated action in
        front of each label. It looks like a list of offered actions. "ccb" and
        "slates", text or JSON, have several slots and give `SlateLogs`.
    n_features : int, default=2**18
        Number of columns into which the context is hashed. Use the same number for
        all logs that you use together.
    n_action_features : int, default=2**8
        Number of columns into which the features of the actions are hashed. 0 leaves
        them out. `None` hashes them into `n_features` columns and keeps the columns
        that occur. This gives few collisions, but columns of two files differ.
    n_actions : int, default=None
        Number of actions, if some do not occur in the file.
    action_labels : {"number", "tag"}, default="number"
        Labels of the actions. "number": the numbers of the file (from 1) in "cb",
        positions in the event (from 0) otherwise. "tag": the tags of the actions
        (`_tag` in JSON, the word before the `|` in text), which do not depend on the
        position.
    on_error : {"raise", "skip"}, default="raise"
        What to do with a malformed line: raise a `ValueError` with its number, or
        skip its event with a warning that counts them.
    max_action_bytes : int, default=2**30
        Maximum size of the dense array of action features.

    Returns
    -------
    BanditLogs or SlateLogs
        The fields of `BanditLogs` are:

        - `context`: CSR matrix of the shared features, (n_rounds, n_features);
        - `reward`: minus the cost; `propensity`: the logged probability;
        - `available`: the offered actions; None if every round offers every action;
        - `action_context`: the hashed features of the actions. Its shape is
          (n_actions, n_action_features) if they are the same in all rounds, otherwise
          (n_rounds, n_actions, n_action_features). None without features;
        - `logging_proba`: `p` of dsjson in the order of `actions`, if `a` and `p`
          agree with the label in every event, otherwise None;
        - `timestamp`: in UTC, if every event has one;
        - `sample_weight`: 1 / (1 - pdrop) of dsjson, if any `pdrop` is positive;
        - `columns["evaluated"]`, in "cb_eval" only: the evaluated actions as
          probabilities, (n_rounds, n_actions). Pass this name as the policy.

        Those of `SlateLogs` are:

        - `context`: shared features, and those of the slots as `slot0.name`, ...;
        - `slate`: positions of the actions in the event, from 0; -1 for slots that
          the event lacks. `candidates` or `n_candidates` give the offered actions.
          `item_id` holds the tags with `action_labels="tag"`;
        - `reward`: minus the cost, summed over slots in "ccb". There `slot_reward`
          holds the rewards of the slots; if a cost is positive, the column
          "signed_slot_reward" holds them instead;
        - `propensity`: the product of the propensities of the slots, which are the
          column "slot_propensity". For "slates" you can pass
          ``ProductSlatePolicy("slot_propensity")``. The column "slot_proba" has the
          whole distributions, if every event logs them;
        - `item_features`: as `action_context` above; `timestamp`; and, if any `pdrop`
          is positive, the column "sample_weight", 1 / (1 - pdrop). Evaluators and
          `PseudoInverseRanker` weight the rounds by it.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file is empty or damaged, has a malformed line or no labelled event. Also
        if it holds something else: several slots while `format` is not "ccb" or
        "slates", continuous actions (CATS), or feedback without reward (igl).

    Warns
    -----
    LogsWarning
        If events are skipped, or if some events lack the time or the distribution that
        others have; the logs then have none. `value` is the number of these events.

    Notes
    -----
    If a `--cb` label has several entries, the one with a probability is the logged
    action. The other entries are offered actions, as in Vowpal Wabbit. Their costs
    were not observed, so they are ignored. A label with one entry offers every action.

    Features are named `namespace^feature`. In the anonymous namespace they are named
    `feature`, text values are named `namespace^feature=text`, and values without a
    name are `namespace^0`, `namespace^1`, ... Nested objects join their names by a
    dot. Features with the same column are summed, without alternating signs. Features
    with value 0, false or null are left out, and so are JSON keys that start with an
    underscore. No constant is added. The column of a name is that of
    ``FeatureHasher(n_features, input_type="string", alternate_sign=False)``.

    In multi-line text the labelled line is the chosen action, and the number in its
    label is ignored. In JSON the chosen action is `_labelIndex`, counted from 0.
    Events with `_skipLearn` and lines of dsjson without a decision are skipped as
    unlabelled.

    A dsjson line is malformed if its keys contradict each other:

    - `_label_Action` must be `_labelIndex`, or one more in all events of the file;
    - `a` must name actions of the event, each once, with the chosen one among them;
    - `p` must sum to one and give the chosen action `_label_probability`, up to the
      rounding of the written digits;
    - each of these keys must have one value.

    Examples
    --------
    >>> import os, tempfile
    >>> from skope_ope.readers import read_vw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "clicks.vw")
    ...     with open(path, "w") as file:
    ...         _ = file.write("1:0:0.5 |User age:31 city=Paris\n")
    ...         _ = file.write("2:-1:0.5 |User age:52 city=Rome\n")
    ...     logs = read_vw(path)
    >>> logs
    BanditLogs(n_rounds=2, n_features=262144, n_actions=2)
    >>> logs.action, logs.reward
    (array([1, 2]), array([0., 1.]))
    """
    path = os.fspath(path)
    if action_labels == "tag" and n_actions is not None:
        raise ValueError(
            "n_actions counts numbered actions; leave it out with action_labels='tag', "
            "whose actions are the tags of the file."
        )
    if format is None:
        format = _tell_format(path)
    width = n_features if n_action_features is None else n_action_features
    by_tag = action_labels == "tag"
    rounds = VWRounds(n_features, width, by_tag, format in SLATE_FORMATS)
    units, parse = _events_of(path, format)
    known = KnownActions()
    unlabelled, malformed, complaint = 0, 0, None
    lines = array("q")  # on which the rounds begin
    for number, unit in units:
        try:
            event = parse(unit, known)
            if event is None:
                unlabelled += 1
            else:
                rounds.add(event)
                lines.append(number)
        except OtherLogError as error:
            raise ValueError(f"{path}, line {number}: this {error}") from None
        except MalformedLineError as error:
            sentence = f"{path}, line {error.line or number}: {error}."
            if on_error == "raise":
                raise ValueError(
                    f"{sentence} (Read as format={format!r}.) Correct the line, or "
                    "skip such lines with on_error='skip'."
                ) from error
            malformed, complaint = malformed + 1, complaint or sentence
    if not len(rounds):
        raise _no_rounds(path, format, unlabelled, malformed, complaint)
    _warn_skipped(path, rounds, unlabelled, malformed, complaint)
    with errors_of_file(path, lines.__getitem__):
        return rounds.logs(n_actions, n_action_features is not None, max_action_bytes)


def _events_of(path, format):
    """Return the numbered units of text that hold one event each, and their parser."""
    if format in SLATE_FORMATS:
        if first_line(path).startswith("{"):
            return _single_lines(path), partial(parse_slates_json, kind=format)
        return _line_blocks(path), partial(parse_slates_text, kind=format)
    units = _line_blocks if format == "cb_adf" else _single_lines
    return units(path), VW_PARSERS[format]


def _warn_skipped(path, rounds, unlabelled, malformed, complaint):
    """Warn of events, and of fields of all events, that are left out."""
    n_rounds = len(rounds)
    first = f"; {n_rounds} remain. The first: {complaint}"
    messages = [
        (
            unlabelled,
            f"skipped {unlabelled} event(s) without a cost and a probability"
            f"; {n_rounds} remain.",
        ),
        (malformed, f"skipped {malformed} malformed event(s){first}"),
    ]
    messages += [
        (n, f"{n} of {n_rounds} event(s) have no {field}, so that the logs have none.")
        for field, n in rounds.left_out().items()
    ]
    for number, message in messages:
        if number:
            warnings.warn(LogsWarning(f"{path}: {message}", number), stacklevel=4)


def _no_rounds(path, format, unlabelled, malformed, complaint):
    if not unlabelled and not malformed:
        return empty_file(path)
    hint = (
        "A label is action:cost:probability in text, `_label_cost` and "
        "`_label_probability` in JSON."
    )
    if complaint:
        hint = f"The first: {complaint}"
    return ValueError(
        f"{path} has no usable event: {unlabelled} without a cost and a probability, "
        f"{malformed} malformed, read as format={format!r}. {hint}"
    )


def _single_lines(path):
    return ((number, line) for number, line in read_lines(path) if line.strip())


def _line_blocks(path):
    """Yield (number of the first line, [(number, line), ...]) between empty lines."""
    block, size = [], 0
    for number, line in read_lines(path):
        if line.strip():
            block.append((number, line))
            size += len(line)
            if size > LONGEST_LINE:
                raise ValueError(
                    f"{path}, line {block[0][0]}: the event that begins there is "
                    f"longer than {LONGEST_LINE:,} characters, the maximum. Put an "
                    "empty line between events; format='cb' has one event per line."
                )
        elif block:
            yield block[0][0], block
            block, size = [], 0
    if block:
        yield block[0][0], block


def _tell_format(path):
    """Tell the format from the first lines."""
    lines = sample_lines(path, LOOKED_AT)
    text = [line for _, line in lines if line.strip()]
    if not text:
        raise empty_file(path)
    if text[0].lstrip().startswith("{"):
        return _tell_json(text)
    labelled, n_lines, verdict = 0, 0, "cb"
    for _, line in [*lines, (0, "")]:
        if not line.strip():
            if n_lines > 1:  # of these lines one was chosen, or none
                verdict = "cb_adf"
            labelled = n_lines = 0
            continue
        try:
            words, _, _ = split_label(line)
        except (MalformedLineError, OtherLogError):
            words = ["malformed"]
        if words == ["shared"] or (words and words[0].startswith("0:")):
            return "cb_adf"
        labelled, n_lines = labelled + bool(words), n_lines + 1
        if labelled > 1:
            return "cb"
    return verdict


def _tell_json(text):
    """Return what most of the lines look like: one of them may be malformed."""
    votes = {"dsjson": 0, "json": 0}
    for line in text:
        try:
            keys = dict(load(line))
        except MalformedLineError:
            continue
        if "c" in keys and "_multi" not in keys:
            votes["dsjson"] += 1
        elif "_multi" in keys or any(key.startswith("_label") for key in keys):
            votes["json"] += 1
    return max(votes, key=votes.get)
