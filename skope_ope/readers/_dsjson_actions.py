# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Actions of dsjson that stand in many events, parsed once.

A catalogue comes again in every event, and is most of its text. The text of `_multi` is
cut at "},{". Where each piece by itself is an object of JSON, the pieces are the
actions: no other reading of the text is possible. Whatever is cut in a wrong place is
no JSON, and the event is then parsed as a whole.
"""

from skope_ope.readers._json_lines import DoubtError

START = '"_multi":[{'
END = '}]},"'
LIFTED = "lifted"  # stands for an array that was cut out
MOST = 2**12  # characters of an action that is remembered
MOST_KNOWN = 2**14  # actions that are remembered
FEATURES = ("_tag", "_text")  # keys that go with features


class Action(tuple):
    """The features of an action, told from others by identity: no name is compared."""

    tag = None
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class KnownActions:
    """Actions by their text."""

    def __init__(self, load, features_of):
        self._load, self._features_of = load, features_of
        self._known = {}

    def lift(self, line):
        """Return a line with `LIFTED` for `_multi`, and the actions that stood there.

        Raises
        ------
        DoubtError
            If the line must be parsed as a whole.
        """
        start = line.find(START)
        stop = line.find(END, start)
        # a quote behind these begins a key, and does not stand inside a text
        if start < 1 or stop < 0 or line[start - 1] not in "{,":
            raise DoubtError
        if line.count('"_multi"') > 1:
            raise DoubtError
        first = start + len(START)
        pieces = line[first:stop].split("},{")
        actions = [self._known.get(piece) for piece in pieces]
        if None in actions:
            actions = [self._of(piece) for piece in pieces]
        return f'{line[: first - 2]}"{LIFTED}"{line[stop + 2 :]}', actions

    def _of(self, piece):
        action = self._known.get(piece)
        if action is None:
            parsed = self._load(f"{{{piece}}}")
            if any(key[0] == "_" and key not in FEATURES for key in parsed if key):
                raise DoubtError  # a label, or a part of another kind of log
            action = Action(self._features_of(parsed))
            action.tag = parsed.get("_tag")
            if action.tag is not None and type(action.tag) is not str:
                raise DoubtError
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            if len(piece) <= MOST:
                self._known[piece] = action
        return action
