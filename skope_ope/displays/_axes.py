# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Where displays draw: the only import of matplotlib."""


def axes_for(display, ax):
    """Return the axes to draw into, those of a new figure where `ax` is None."""
    if ax is not None:
        return ax
    # Names of evaluators and policies are long: the layout leaves space for them.
    return _pyplot(display).subplots(layout="constrained")[1]


def two_axes(display, n_rows):
    """Return two axes side by side in a new figure, high enough for so many rows."""
    size = 9.6, max(2.4, 1.2 + 0.55 * n_rows)
    return _pyplot(display).subplots(1, 2, layout="constrained", figsize=size)[1]


def _pyplot(display):
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{type(display).__name__}.plot needs matplotlib: pip install "
            "'skope-ope[plot]'. What it draws are attributes of the display and need "
            "no matplotlib."
        ) from error
    return plt
