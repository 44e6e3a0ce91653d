# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Where displays draw: into axes of the user, or a new figure."""

from contextlib import contextmanager

import numpy as np

from skope_ope.displays._looks import SIZE, STYLE, TICKS


@contextmanager
def drawing(display, ax=None, *, size=SIZE, grid="y", **subplots):
    """Yield the axes to draw into, those of a new figure where `ax` is None."""
    # A new figure looks as `_looks` says; what matplotlib does elsewhere stays as it
    # is.
    if ax is not None:
        yield ax
        return
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{type(display).__name__}.plot needs matplotlib: pip install "
            "'skope-ope[plot]'. The numbers are attributes of the display and need "
            "no matplotlib."
        ) from error
    interactive = plt.isinteractive()
    try:
        with plt.style.context(["default", STYLE]):
            # Names of evaluators and policies are long: the layout leaves them space.
            figure, axes = plt.subplots(figsize=size, layout="constrained", **subplots)
            # The first figure starts the backend. That of a notebook then switches
            # interactive mode on, and the end of the style would switch it off again:
            # later figures would not be shown.
            interactive = plt.isinteractive()
            for one in figure.axes:
                one.grid(axis=grid)
                one.tick_params(**TICKS)
            try:
                yield axes
            except BaseException:
                plt.close(figure)  # nobody has seen it
                raise
    finally:
        (plt.ion if interactive else plt.ioff)()


def checked_panels(panels, known):
    """Return the panels to draw as a tuple of some of those that are known."""
    panels = (panels,) if isinstance(panels, str) else tuple(panels)
    if not panels or not set(panels) <= set(known):
        raise ValueError(f"panels must be of {known}, got {panels!r}.")
    return panels


@contextmanager
def drawing_panels(display, ax, lengths, *, size=SIZE, across=False):
    """Yield one axes for every panel, below each other in a new figure."""
    grid = {"nrows": len(lengths), "sharex": True, "height_ratios": lengths}
    if across:
        grid = {"ncols": len(lengths), "sharey": True, "width_ratios": lengths}
    given = {"size": size, "grid": "x" if across else "y", **grid}
    with drawing(display, ax, **given) as axes:
        axes = np.atleast_1d(axes).ravel()
        if len(axes) != len(lengths):
            raise ValueError(
                f"{len(lengths)} panels need as many axes, got {len(axes)}. Choose "
                "what to draw with panels=..."
            )
        yield axes
