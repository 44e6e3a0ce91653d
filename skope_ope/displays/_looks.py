# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What displays share: how they look, and the checks of the values that they show.

What is set here is set for the figures that displays make, and for nothing else of
matplotlib: axes that a user gives keep the user's style.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping
from contextlib import contextmanager

import numpy as np

from skope_ope._pairs import WithPairs
from skope_ope._sklearn import fitted_evaluator
from skope_ope._texts import harmless
from skope_ope.logs._shown_numbers import figure

# Okabe and Ito's colours, which colour-blind readers tell apart; shapes double them.
POLICY, BASELINE, DOUBTED, TRUE_VALUE = "#0072B2", "#666666", "#D55E00", "#009E73"
TRUTH_STYLE = {"color": TRUE_VALUE, "linestyle": "--", "label": "truth"}
SERIES = POLICY, "#E69F00", "#CC79A7", "#56B4E9", "#000000"  # of things of one kind
MARKERS = "os^Dv<>"  # one more or less than there are colours, so that pairs differ
LINE_STYLES = "-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 2))
FAINT = 0.2  # opacity of the area of an interval
FIGURE_SIZE = 6.4, 3.6  # inches
PER_LINE, LEAST_HEIGHT = 0.17, 2.4  # inches: a line of a row, and the least figure
SMALL_FONT = 9  # points: ticks, legends, notes
TEXT = "#222222"
LINE_WIDTH = 1.6
FIGURE_STYLE = {  # of figures that displays make, on top of matplotlib's defaults
    "figure.dpi": 144,
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "legend.fontsize": SMALL_FONT,
    "legend.frameon": False,
    "lines.linewidth": LINE_WIDTH,
    "lines.markersize": 6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.edgecolor": TEXT,
    "axes.labelcolor": TEXT,
    "text.color": TEXT,
}
# Ticks are made when they are drawn, long after the style: it is told to the axes.
TICKS = {
    "labelsize": SMALL_FONT,
    "color": TEXT,
    "labelcolor": TEXT,
    "grid_color": "#DDDDDD",
}
LABEL_INCHES = 0.5  # inches from one number on a horizontal axis to the next, at least
LETTER = 0.085  # of which a letter takes so much
LEAST_LEFT = 0.4  # of the width of axes that give some to their legend
LONGEST_NAME = 44  # letters of a name: of longer ones both ends are drawn
EARLY = 0.1  # share of the rounds before which points may leave the picture
NAME_WIDTH, NOTE_WIDTH = 22, 60  # letters of a line of a name, and of a note below


def as_drawn(name, width=None):
    r"""Return a name as matplotlib draws it letter by letter."""
    # Dollars are no formula, hidden characters are escaped, and a name that starts with
    # "_" is not left out of a legend.
    text = harmless(name)
    if width is not None:
        if len(text) > LONGEST_NAME:
            end = LONGEST_NAME // 3
            text = f"{text[: LONGEST_NAME - end - 1]}…{text[-end:]}"
        text = "\n".join(_of_names(width).wrap(text)) or text
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def name_lines(name):
    """Return a name as legends and rows show it, in short lines."""
    return as_drawn(name, NAME_WIDTH)


def in_lines(text, width=NOTE_WIDTH):
    """Return a sentence of ours in lines that fit below the axes."""
    return "\n".join(textwrap.wrap(text, width))


def _of_names(width):
    """Return what breaks names into lines: at spaces, and after what joins words."""
    wrapper = textwrap.TextWrapper(width)
    wrapper.wordsep_re = re.compile(r"(\s+|(?<=[_/.:-]))")
    return wrapper


def n_lines(texts):
    """Return the number of lines of the longest of some texts."""
    return max(text.count("\n") + 1 for text in texts)


def series_style(i):
    """Return colour, marker and line of the i-th of several series of one kind."""
    return {
        "color": SERIES[i % len(SERIES)],
        "marker": MARKERS[i % len(MARKERS)],
        "linestyle": LINE_STYLES[i % len(LINE_STYLES)],
    }


def numbers_on(axis, *, signed=False, share=False):
    """Write the numbers of a linear axis with the decimals of their distance."""
    from matplotlib.ticker import AutoLocator

    sign, unit, factor = "+" * signed, "%" * share, 100 if share else 1

    def shown(x, _):
        ticks = axis.get_majorticklocs() * factor
        places = _step_places(float(np.diff(ticks).min())) if len(ticks) > 1 else 3
        number = round(x * factor, places) + 0.0  # no negative zero
        text = f"{number:{sign if number else ''},.{places}f}"
        return text.replace("-", "\N{MINUS SIGN}") + unit

    axis.set_major_formatter(shown)
    if axis.axis_name == "x" and isinstance(axis.get_major_locator(), AutoLocator):
        axis.set_major_locator(_spaced_locator())


def _spaced_locator():
    """Return a locator of as many numbers as a horizontal axis has space for."""
    from matplotlib.ticker import MaxNLocator

    class SpacedLocator(MaxNLocator):
        def tick_values(self, low, high):  # legends may have made the axis shorter
            letters = 2 + len(f"{max(abs(low), abs(high)):,.0f}")
            n_labels = int(_inches(self.axis) / max(LABEL_INCHES, LETTER * letters))
            self.set_params(nbins=min(max(n_labels, 2), 9))
            return super().tick_values(low, high)

    return SpacedLocator(steps=(1, 2, 5, 10))


def _inches(axis):
    """Return the length of an axis, as it is now."""
    box = axis.axes.get_window_extent()
    return (box.width if axis.axis_name == "x" else box.height) / axis.figure.dpi


def log_numbers_on(axis, *, share=False):
    """Write the numbers of a logarithmic axis in full: 0.1, 1, 10, 1,000."""
    # Call it when the limits are set: where there is space, 2 and 5 have ticks, too.
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    n_labels = max(
        _inches(axis) / (LABEL_INCHES if axis.axis_name == "x" else LABEL_INCHES / 2), 2
    )
    decades = math.log10(high / low) if 0 < low < high else 1.0
    dense = decades < min(n_labels / 3, 3)
    subs = (1, 2, 5) if dense else (1,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=int(n_labels) + 1))
    unit, factor = "%" * share, 100 if share else 1
    axis.set_major_formatter(lambda x, _: figure(x * factor, 1) + unit)
    axis.set_minor_formatter(NullFormatter())


def _step_places(step):
    """Return the decimals in which multiples of a step are exact, at most eight."""
    if not (step > 0 and math.isfinite(step)):
        return 3
    places = max(0, -math.floor(math.log10(step * (1 + 1e-9))))
    while places < 8 and abs(round(step, places) - step) > 1e-6 * step:
        places += 1
    return min(places, 8)


def legend_beside(ax, of=None, **kwargs):
    """Put the legend on the right of the axes, outside, where there are no data."""
    handle_of = {}
    for one in [ax] if of is None else of:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            handle_of.setdefault(label, handle)
    if not handle_of:
        return None
    style = {"loc": "upper left", "bbox_to_anchor": (1.02, 1), "borderaxespad": 0}
    given = list(handle_of.values()), list(handle_of)
    legend = ax.legend(*given, **{**style, **kwargs})
    figure = ax.figure
    if figure.get_layout_engine() is None:
        place, cell = ax.get_position(), ax.get_subplotspec()
        right = place.x1 if cell is None else cell.get_position(figure).x1
        width = legend.get_window_extent().width / figure.bbox.width
        # the gap of .02 is one of the new width
        free = (right - width - place.x0) / 1.02
        if free < LEAST_LEFT * (right - place.x0):  # then above, and over a title
            legend.set_loc("lower left")
            legend.set_bbox_to_anchor((0, 1.02), ax.transAxes)
        elif free < place.width:
            ax.set_position([place.x0, place.y0, free, place.height])
    return legend


def lengths(value, low, high):
    """Return how far intervals go down and up from their values."""
    # Rounding must not put an end beyond the value: lengths are not negative.
    return np.maximum([np.subtract(value, low), np.subtract(high, value)], 0)


def value_axes(ax):
    """Write the numbers of both axes, and what the vertical one shows."""
    numbers_on(ax.xaxis)
    numbers_on(ax.yaxis)
    ax.set_ylabel("value (reward per round)")


def draw_intervals(ax, x, low, high, color, n_curves):
    """Draw the intervals of one of several curves, an area between two thin lines."""
    share = FAINT / n_curves**0.5
    ax.fill_between(x, low, high, color=color, alpha=share, linewidth=0)
    for end in (low, high):
        ax.plot(x, end, color=color, alpha=0.6, linewidth=0.8)


def show_values(ax, *parts):
    """Set the limits of the values around some of them; others may lie outside."""
    shown = np.concatenate([np.ravel(part) for part in parts]).astype(float)
    shown = shown[np.isfinite(shown)]
    if shown.size:
        margin = 0.05 * np.ptp(shown) or 0.05
        ax.set_ylim(shown.min() - margin, shown.max() + margin)


def annotate(ax, text, at, color=DOUBTED, **style):
    """Write a few words beside what is drawn."""
    style = {"verticalalignment": "center", "fontsize": SMALL_FONT, **style}
    ax.annotate(text, at, color=color, **style)


def say_no_value(ax, at, *, upright=False):
    """Write that there is no estimate, over what is drawn of its interval."""
    transform = ax.get_xaxis_transform() if upright else ax.get_yaxis_transform()
    annotate(
        ax,
        "no value",
        (at, 0.5) if upright else (0.5, at),
        xycoords=transform,
        rotation=90 if upright else 0,
        horizontalalignment="center",
        bbox={"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 1},
    )


# -- where displays draw: into axes of the user, or a new figure -----------------------


@contextmanager
def drawing(display, ax=None, *, size=FIGURE_SIZE, grid="y", **subplots):
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
        with plt.style.context(["default", FIGURE_STYLE]):
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


def checked_panels(panels, known, ax=None):
    """Return the panels to draw, of those that are known; None: as many as axes."""
    if panels is None:
        panels = known if ax is None else known[: np.size(ax)]
    panels = (panels,) if isinstance(panels, str) else tuple(panels)
    if not panels or not set(panels) <= set(known):
        raise ValueError(f"panels must be of {known}, got {panels!r}.")
    return panels


@contextmanager
def drawing_panels(display, ax, lengths, *, size=FIGURE_SIZE, across=False):
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


# -- what displays have in common ------------------------------------------------------


class Display(WithPairs):
    """Base of displays; those of no values tell in `_held()` what they draw."""

    # `plot` returns it, so consoles and pages print it. What `plot` has drawn are
    # attributes that end with an underscore. Figures belong to a window or a page, and
    # skops writes none: from a file a display comes back without its drawing.

    def __repr__(self):
        return f"{type(self).__name__}({self._held()})"

    def _held(self):
        return counted(len(self.value), "value")

    def _drawn(self, ax):
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _drawn_panels(self, axes):
        self.axes_ = axes
        return self._drawn(axes[0])

    def __getstate__(self):
        state = super().__getstate__()
        return {name: one for name, one in state.items() if not name.endswith("_")}


def counted(n: int, word: str) -> str:
    """Return a number of things: "1 value", "2,000 rounds"."""
    return f"{n:,} {word}" + ("" if n == 1 else "s")


# -- values that a user gives: what they must be, and what they are called -------------


def static_evaluator(evaluator, logs, ability, hint=""):
    """Return a fitted evaluator that has an ability of static ones, and the logs."""
    evaluator, logs = fitted_evaluator(evaluator, logs)
    if not hasattr(evaluator, ability):
        name = type(evaluator).__name__
        raise TypeError(f"a static evaluator is needed, got {name}.{hint}")
    return evaluator, logs


def is_value(value):
    """Tell whether something is a PolicyValue: it has an interval of its own."""
    return hasattr(value, "confidence_interval") and hasattr(value, "estimator")


def checked_values(values):
    """Return a dict of values by name, of a `ValueTable`, a dict or a single value."""
    if is_value(values):
        return {values.estimator: values}
    if not isinstance(values, Mapping):
        raise TypeError(
            "values must be a ValueTable, a dict of PolicyValue or a PolicyValue, "
            f"got {type(values).__name__}."
        )
    if not values:
        raise ValueError("values is empty: there is nothing to show.")
    for key, value in values.items():
        if not is_value(value):
            raise TypeError(
                f"values[{key!r}] must be a PolicyValue, which carries its "
                f"interval, got {type(value).__name__}. Use "
                "evaluator.evaluate(policy), not score(policy)."
            )
    return dict(values)


def keyed_values(evaluator, policy, logs=None):
    """Return values of one policy or a dict of them, by one evaluator or several."""
    if isinstance(evaluator, Mapping):
        found = {name: fitted_evaluator(one, logs) for name, one in evaluator.items()}
    else:
        one, rounds = fitted_evaluator(evaluator, logs)
        found = {type(one).__name__: (one, rounds)}
    if not isinstance(policy, Mapping):
        return {name: one.evaluate(policy, at) for name, (one, at) in found.items()}
    return {
        (key, name): one.evaluate(target, at)
        for key, target in policy.items()
        for name, (one, at) in found.items()
    }


def checked_curve(values, what, low, high=np.inf):
    """Return the increasing numbers by which values are given, and the values."""
    if is_value(values):
        raise TypeError(
            f"values must be a dict of PolicyValue by the {what}, got one PolicyValue."
        )
    values = checked_values(values)
    for key in values:
        number = isinstance(key, (int, float, np.integer, np.floating))
        if not (number and low <= key <= high):
            raise ValueError(
                f"values must be a dict by the {what}, numbers in [{low:g}, {high:g}], "
                f"got the key {key!r}."
            )
    keys = sorted(values)
    return np.array(keys, dtype=float), [values[key] for key in keys]


def value_and_limits(values, level):
    """Return values, and the ends of their intervals, as arrays."""
    low, high = np.array([one._interval(level) for one in values], dtype=float).T
    return np.array([one.value for one in values]), low, high


def key_texts(keys):
    """Return what values are called: keys, or "policy, evaluator" of pairs."""
    # What all pairs have in common is left out.
    pairs = [key if isinstance(key, tuple) else (None, key) for key in keys]
    policies, evaluators = (
        list(dict.fromkeys(part)) for part in zip(*pairs, strict=True)
    )
    if len(policies) == 1:
        return [str(evaluator) for _, evaluator in pairs]
    if len(evaluators) == 1:
        return [str(policy) for policy, _ in pairs]
    return [f"{policy}, {evaluator}" for policy, evaluator in pairs]
