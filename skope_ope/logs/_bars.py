# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Intervals as bars of inline SVG, which needs no script and no picture file."""

from math import ceil, floor, inf, isfinite, log10

from skope_ope.logs._markup import element, joined

MARGIN = 4  # percent of the width on either side, for the text of the outer ticks
MOST_TICKS = 5
GAP = 1  # characters between texts of ticks


class Scale:
    """Numbers as places between the left and the right end of a bar."""

    def __init__(self, numbers, most_ticks=MOST_TICKS, zero=True):
        self.zero = zero
        known = [x for x in numbers if isfinite(x)]
        if zero or not known:
            known.append(0.0)
        low, high = min(known), max(known)
        if low == high:
            low, high = (low - (abs(low) or 1.0), high + (abs(high) or 1.0))
        self.step = _round_step((high - low) / (most_ticks - 1))
        first, last = floor(low / self.step), ceil(high / self.step)
        self.ticks = [i * self.step for i in range(first, last + 1)]
        self.low, self.high = self.ticks[0], self.ticks[-1]

    def place(self, x):
        """Return where a number lies, as SVG takes it."""
        share = (x - self.low) / (self.high - self.low)
        return f"{MARGIN + (100 - 2 * MARGIN) * share:.3f}%"


def _round_step(width):
    """Return the least of 1, 2 or 5 times a power of ten that is not below a width."""
    power = 10.0 ** floor(log10(width))
    return next(n * power for n in (1, 2, 5, 10) if n * power >= width * (1 - 1e-9))


def interval_bar(scale, value, low, high, label, kind):
    """Return an estimate with its interval: a line with two ends, and a mark."""
    parts = []
    if isfinite(low) and isfinite(high):
        ends = scale.place(low), scale.place(high)
        parts.append(element("line", x1=ends[0], x2=ends[1], y1="0", y2="0"))
        parts += [element("line", x1=x, x2=x, y1="-5", y2="5") for x in ends]
    if isfinite(value):
        parts.append(_mark(scale.place(value), kind))
    # what is drawn about the origin of an inner svg moves with it to half the height
    return element(
        "svg",
        _line_of_zero(scale) if scale.zero else "",
        element("svg", *parts, y="50%", overflow="visible"),
        class_=f"bar {kind}",
        role="img",
        aria_label=label,
    )


def _line_of_zero(scale):
    x = scale.place(0)
    return element("line", x1=x, x2=x, y1="0", y2="100%", class_="zero")


def _mark(x, kind):
    if kind != "chosen":
        return element("circle", cx=x, cy="0", r="5")
    diamond = element("path", d="M0 -7 L7 0 L0 7 L-7 0 Z")
    return element("svg", diamond, x=x, overflow="visible")


def axis(scale, text_of, room=inf):
    """Return the ticks below the bars."""
    # Zero, where it is drawn as a line, and the ends are labelled first.
    parts = []
    texts = [text_of(tick) for tick in scale.ticks]
    shown = _apart(texts, room, _first_labelled(scale))
    for i, tick in enumerate(scale.ticks):
        x = scale.place(tick)
        parts.append(element("line", x1=x, x2=x, y1="0", y2="5"))
        if i in shown:
            parts.append(element("text", texts[i], x=x, y="18", text_anchor="middle"))
    return element("svg", *parts, class_="axis", height="22", aria_hidden="true")


def _first_labelled(scale):
    """Return the numbers of the ticks, the most important ones first."""
    n = len(scale.ticks)
    zero = [i for i, x in enumerate(scale.ticks) if scale.zero and x == 0]
    middle = [n // 2] if n % 2 else []
    return list(dict.fromkeys([*zero, n - 1, 0, *middle, *range(n)]))


def _apart(texts, room, order):
    """Return the numbers of texts that fit beside each other, in the order given."""
    step, shown = room / (len(texts) - 1), []
    for i in order:
        widths = {j: (len(texts[i]) + len(texts[j])) / 2 + GAP for j in shown}
        if all(abs(i - j) * step >= width for j, width in widths.items()):
            shown.append(i)
    return shown


def share_bar(share):
    """Return a bar that is filled up to a share between 0 and 1."""
    width = f"{100 * min(max(share, 0), 1):.2f}%"
    return element(
        "svg",
        joined(
            element("rect", x="0", y="3", width="100%", height="10", class_="whole"),
            element("rect", x="0", y="3", width=width, height="10", class_="part"),
        ),
        class_="share",
        height="16",
        aria_hidden="true",
    )
