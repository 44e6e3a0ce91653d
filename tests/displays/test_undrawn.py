# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

from skope_ope.displays._looks import Undrawn


class Display(Undrawn):
    def __init__(self, values):
        self.values = values

    def plot(self):
        self.figure_ = lambda: None  # cannot be pickled, as many a figure
        return self


def test_what_was_drawn_stays_behind():
    display = Display({("a", 1): 0.5}).plot()
    back = pickle.loads(pickle.dumps(display))
    assert vars(back) == {"values": {("a", 1): 0.5}}
    assert callable(display.figure_)
