# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Where displays draw: the only import of matplotlib."""


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
