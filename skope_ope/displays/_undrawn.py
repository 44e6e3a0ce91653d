# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What displays leave behind when they are written to a file."""

from skope_ope._pairs import WithPairs


class Undrawn(WithPairs):
    """Base class of displays, which come back from a file without their drawing."""

    # What `plot` has drawn are attributes that end with an underscore. Figures belong
    # to a window or a page, and skops writes none; `plot` draws them again.

    def __getstate__(self):
        state = super().__getstate__()
        return {name: one for name, one in state.items() if not name.endswith("_")}
