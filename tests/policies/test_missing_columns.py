# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Functions that misspell a column are told which columns there are."""

import numpy as np
import pytest

from skope_ope import BanditLogs, FunctionPolicy
from skope_ope.policies import action_probabilities
from skope_ope.policies._policy_outputs import columns_told

DATA = {"req.kind": ["x", "y", "x"], "age": [1.0, 2.0, 3.0]}


def logs_of(library):
    module = pytest.importorskip(library)
    frame = module.table(DATA) if library == "pyarrow" else module.DataFrame(DATA)
    return BanditLogs(frame, ["a", "b", "a"], np.ones(3), 0.5)


def notes_of(func, logs):
    with pytest.raises(Exception, match=r".") as error:
        action_probabilities(FunctionPolicy(func), logs)
    return type(error.value).__name__, getattr(error.value, "__notes__", [])


@pytest.mark.frames
@pytest.mark.parametrize(
    ("library", "kind"),
    [
        ("pandas", "KeyError"),
        ("polars", "ColumnNotFoundError"),
        ("pyarrow", "KeyError"),
    ],
)
def test_a_misspelt_column_is_told(library, kind):
    found, notes = notes_of(lambda X: X["kind"], logs_of(library))
    assert found == kind
    assert len(notes) == 1
    assert "the contexts have 'req.kind', 'age'. Did you mean 'req.kind'?" in notes[0]


@pytest.mark.frames
def test_attributes_and_several_columns_are_told():
    logs = logs_of("pandas")
    found, notes = notes_of(lambda X: X.Age, logs)
    assert found == "AttributeError"
    assert "Did you mean 'age'?" in notes[0]
    found, notes = notes_of(lambda X: X[["kind", "age"]], logs)
    assert found == "KeyError"
    assert "'req.kind', 'age'" in notes[0]


@pytest.mark.frames
def test_a_rule_of_ones_own_is_told():
    class Rule:
        def predict(self, X):
            return X["kind"]

    with pytest.raises(KeyError) as error:
        action_probabilities(Rule(), logs_of("pandas"))
    assert "'req.kind', 'age'" in error.value.__notes__[0]


@pytest.mark.frames
def test_other_errors_are_as_they_were():
    logs = logs_of("pandas")
    assert notes_of(lambda X: 1 / 0, logs) == ("ZeroDivisionError", [])
    assert notes_of(lambda X: X["age"].nothing, logs) == ("AttributeError", [])
    assert notes_of(lambda X: X["age"]["age"], logs) == ("KeyError", [])


def test_arrays_have_no_names():
    with pytest.raises(KeyError) as error, columns_told(np.zeros((2, 2))):
        raise KeyError("kind")
    assert not hasattr(error.value, "__notes__")


@pytest.mark.frames
def test_many_columns_are_counted():
    pandas = pytest.importorskip("pandas")
    wide = pandas.DataFrame(np.zeros((1, 50)), columns=[f"c{j}" for j in range(50)])
    with pytest.raises(KeyError) as error, columns_told(wide):
        wide["zz"]
    assert "'c29' and 20 more. A function" in error.value.__notes__[0]
