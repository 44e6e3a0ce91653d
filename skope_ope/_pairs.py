# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Dicts whose keys are no texts, in files that know no other keys."""


class KeysAndValues:
    """The keys and the values of a dict, in two lists."""

    def __init__(self, entries):
        self.keys, self.values = list(entries), list(entries.values())

    def entries(self):
        """Return the dict."""
        return dict(zip(self.keys, self.values, strict=True))


class WithPairs:
    """What may have dicts with keys of any kind, which skops writes as JSON."""

    # They leave an object as `Pairs`, and come back as dicts.

    def __getstate__(self):
        return {name: _paired(value) for name, value in self.__dict__.items()}

    def __setstate__(self, state):
        self.__dict__.update({name: _unpaired(value) for name, value in state.items()})


def _paired(value):
    """Return a dict, and those in it, with texts as keys or as `Pairs`."""
    if type(value) is not dict:
        return value
    value = {key: _paired(one) for key, one in value.items()}
    return value if all(type(key) is str for key in value) else KeysAndValues(value)


def _unpaired(value):
    """Return what `_paired` was given."""
    if isinstance(value, KeysAndValues):
        value = value.entries()
    if type(value) is not dict:
        return value
    return {key: _unpaired(one) for key, one in value.items()}
