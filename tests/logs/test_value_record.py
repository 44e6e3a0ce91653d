# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from types import SimpleNamespace

from skope_ope.exceptions import FewEventsWarning, SupportWarning, TailWarning
from skope_ope.logs._shown_numbers import numbered_warnings


def value(*warnings, of_interval=(), estimator="an evaluator"):
    interval = SimpleNamespace(warnings=of_interval)
    return SimpleNamespace(
        warnings=warnings, _interval=lambda: interval, estimator=estimator
    )


def test_warnings_that_differ_in_figures_share_a_number():
    few = [FewEventsWarning(f"on {n} events, weight {n}e-05") for n in (3.5, 4.0)]
    heavy = TailWarning("skewness 0.3")
    values = {
        ("new", "IPS"): value(heavy, of_interval=(few[0],)),
        ("new", "DR"): value(of_interval=(few[1],)),
        ("old", "DR"): value(),
    }
    marks, notes = numbered_warnings(values, [("new", "DR"), ("old", "DR")])
    assert marks == ["[1, 2]", "[2]", ""]
    assert notes == [
        "[1] TailWarning (IPS of new): skewness 0.3",
        "[2] FewEventsWarning (DR of new; alike in 1 other row): "
        "on 4.0 events, weight 4.0e-05",
    ]


def test_other_words_have_another_number():
    values = {
        "IPS": value(SupportWarning("never took 5%"), SupportWarning("no estimate")),
        "DR": value(SupportWarning("never took 50%")),
        "DM": value(SupportWarning("never took 1%")),
    }
    marks, notes = numbered_warnings(values)
    assert marks == ["[1, 2]", "[1]", "[1]"]
    assert notes == [
        "[1] SupportWarning (IPS; alike in 2 other rows): never took 5%",
        "[2] SupportWarning (IPS): no estimate",
    ]


def test_the_name_of_the_evaluator_makes_no_other_warning():
    values = {
        name: value(SupportWarning(f"{name} has no estimate"), estimator=name)
        for name in ("IPS", "SNIPS")
    }
    marks, notes = numbered_warnings(values)
    assert marks == ["[1]", "[1]"]
    assert notes[0].endswith("(IPS; alike in 1 other row): IPS has no estimate")
