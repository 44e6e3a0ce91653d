# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Where displays draw: the only import of matplotlib."""

import numpy as np

from skope_ope._harmless import harmless


def axes_for(display, ax):
    """Return the axes to draw into, those of a new figure where `ax` is None."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{type(display).__name__}.plot needs matplotlib: pip install "
            "'skope-ope[plot]'. What it draws are attributes of the display and need "
            "no matplotlib."
        ) from error
    # Names of evaluators and policies are long: the layout leaves space for them.
    return plt.subplots(layout="constrained")[1]


def as_drawn(name):
    """Return a name as matplotlib draws it letter by letter: dollars are no formula."""
    return harmless(name).replace("$", r"\$")


def checked_panels(panels, known):
    """Return the panels to draw as a tuple of some of those that are known."""
    panels = (panels,) if isinstance(panels, str) else tuple(panels)
    if not panels or not set(panels) <= set(known):
        raise ValueError(f"panels must be of {known}, got {panels!r}.")
    return panels


def panel_axes(display, ax, heights):
    """Return one axes for every panel, below each other in a new figure.

    Parameters
    ----------
    display : display
        It is named where matplotlib is missing.
    ax : matplotlib axes, array of them or None
        Where to draw; `None` makes a new figure.
    heights : list of float
        Relative heights of the panels.
    """
    if ax is None and len(heights) > 1:
        figure = axes_for(display, None).figure
        figure.clear()
        ax = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    axes = np.atleast_1d(axes_for(display, ax)).ravel()
    if len(axes) != len(heights):
        raise ValueError(
            f"{len(heights)} panels need as many axes, got {len(axes)}. Choose what to "
            "draw with panels=..., e.g. panels='value'."
        )
    return axes
