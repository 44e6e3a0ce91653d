# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import ratio
from skope_ope.evaluators.core._rows import Rows
from tests._worlds import d8_logs
from tests.evaluators.core._samples import Sample, summed

TERMS = np.random.RandomState(0).gamma(2.0, size=(2, 8))
SAMPLE = Sample(TERMS, np.array([1.0, 1, 2, 0, 1, 1, 2, 1]), None, np.arange(8) // 2)


def test_terms_are_computed_once_and_when_they_are_asked_for():
    calls = []

    def terms():
        calls.append(1)
        return TERMS

    rows = Rows(SAMPLE.design(), terms)
    assert rows.n_rounds == 8
    assert not calls
    assert rows.terms is rows.terms is TERMS
    assert len(calls) == 1


def test_estimates_of_some_rounds():
    design = SAMPLE.design()
    like = Estimate(summed(design, TERMS), ratio)
    places = np.array([0, 1, 4, 5, 6])
    found = Rows(design, TERMS).take(places).estimate(like)
    part = design.take(places)
    expected = Estimate(summed(part, TERMS[:, places]), ratio)
    assert_allclose(found.value, expected.value, rtol=1e-14)
    assert_allclose(found.standard_error, expected.standard_error, rtol=1e-12)
    assert Rows(design, TERMS).estimate(like).value == like.value


def test_labels_are_looked_up_in_the_logs():
    logs = d8_logs().with_columns(half=np.repeat([0, 1], 4))
    rows = Rows(SAMPLE.design(), TERMS, logs=logs)
    assert rows.row_id == logs.row_id
    assert_array_equal(rows.labels("half"), logs.columns["half"])
    assert_array_equal(rows.labels("action"), logs.action)
    for name in ("colour", "timestamp"):  # the second is a field that they lack
        with pytest.raises(ValueError, match=f"no field or column '{name}'. Pass the"):
            rows.labels(name)
    with pytest.raises(ValueError, match="no field or column 'action'"):
        Rows(SAMPLE.design(), TERMS).labels("action")


def test_a_pickle_has_the_terms_and_not_the_logs():
    logs = d8_logs()
    rows = Rows(SAMPLE.design(), lambda: TERMS, logs=logs)
    again = pickle.loads(pickle.dumps(rows))
    assert again.logs is None
    assert again.row_id == logs.row_id
    assert_array_equal(again.terms, TERMS)
    assert_array_equal(pickle.loads(pickle.dumps(again)).terms, TERMS)
