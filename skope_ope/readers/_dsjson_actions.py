# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Actions of dsjson that stand in many events, parsed once.

A catalogue comes again in every event, and is most of its text. The text of `_multi` is
cut at "},{". Where each piece by itself is an object of JSON, the pieces are the
actions: no other reading of the text is possible. Whatever is cut in a wrong place is
no JSON, and the event is then parsed as a whole. So are the events of a file whose
actions are seldom met again.
"""

from skope_ope.logs._text_files import DoubtError

START = '"_multi":[{'
END = '}]},"'
LIFTED = "lifted"  # stands for an array that was cut out
MOST = 2**12  # characters of an action that is remembered
MOST_KNOWN = 2**14  # actions that are remembered
TRIALS = 2**12  # new actions, beyond those that came again, until no more are cut out
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
        self._left = TRIALS
        self._last = None, None, None  # text, actions and tags of a whole catalogue

    def lift(self, line):
        """Get a line with `LIFTED` for `_multi`, the actions there, and their tags."""
        if self._left < 0:
            raise DoubtError
        start = line.find(START)
        stop = line.find(END, start)
        # a quote behind these begins a key, and does not stand inside a text
        if start < 1 or stop < 0 or line[start - 1] not in "{,":
            raise DoubtError
        if line.count('"_multi"') > 1:
            raise DoubtError
        first = start + len(START)
        text = line[first:stop]
        if text != self._last[0]:
            actions = self._all_of(text.split("},{"))
            self._last = text, actions, [action.tag for action in actions]
        _, actions, tags = self._last
        return f'{line[: first - 2]}"{LIFTED}"{line[stop + 2 :]}', actions, tags

    def _all_of(self, pieces):
        actions = [self._known.get(piece) for piece in pieces]
        n_new = actions.count(None)
        self._left = min(self._left + len(actions) - 2 * n_new, TRIALS)
        return [self._of(piece) for piece in pieces] if n_new else actions

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
