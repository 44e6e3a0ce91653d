# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A finding as HTML, as short texts and as a plain record."""

from collections.abc import Mapping
from math import isfinite
from numbers import Real

import numpy as np

from skope_ope._harmless import harmless
from skope_ope.logs._html import tag
from skope_ope.logs._markup import element
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._validation import plain
from skope_ope.logs.checks._finding import STEPS

SOME = 6  # columns, actions or rows of a finding
LONGEST = 40  # characters of a label
EFFECT_TOLD = ("low_overlap",)  # by the rounds that the sentence names


def plain_record(value):
    """Return what JSON takes: no arrays, no numpy scalars, None for NaN."""
    if isinstance(value, Mapping):
        return {str(plain(name)): plain_record(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain_record(one) for one in value]
    value = plain(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Real):
        return float(value) if isfinite(value) else None
    return str(value)


def finding_record(finding):
    """Return a finding as a dict of plain numbers and words."""
    return plain_record(
        {
            "severity": finding.severity,
            "finding": finding.name,
            "number": finding.number,
            "effect": finding.effect,
            "columns": finding.columns,
            "actions": finding.actions,
            "rows": finding.rows,
            "text": finding.text,
        }
    )


def finding_html(finding, answer):
    """Return a finding as a part of a card: what was found, what to do, and where."""
    name = element("span", finding.name, class_="title")
    told = [element("p", tag(answer, finding.is_alarm), name)]
    if len(finding.advice) < 2:
        told.append(element("p", finding.text))
    else:
        steps = element("ol", *(element("li", one) for one in finding.advice))
        told += [element("p", f"{finding.found} {STEPS}"), steps]
    where = "; ".join(places(finding))
    told += [element("p", where, class_="note")] if where else []
    return element("div", *told, class_="finding")


def places(finding):
    """Return how large an effect is and where it shows, as short texts."""
    told = []
    if isfinite(finding.effect) and finding.name not in EFFECT_TOLD:
        told.append(f"effect: {figure(finding.effect, 3)}")
    for name in ("columns", "actions", "rows"):
        values = [short_label(plain(one)) for one in getattr(finding, name)]
        if values:
            more = ", ..." if len(values) > SOME else ""
            told.append(f"{name}: {', '.join(values[:SOME])}{more}")
    return told


def short_label(label):
    """Return a label as a short text."""
    text = harmless(label)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
