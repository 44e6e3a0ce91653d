# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope.propensities._encoded import class_probabilities, predictions_of

X = np.zeros((4, 2))


class Fitted:
    """Gives what it was made of."""

    classes_ = np.arange(3)

    def __init__(self, output):
        self.output = output

    def predict(self, X):
        return self.output

    predict_proba = predict


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_a_prediction_per_row(shape):
    found = predictions_of(Fitted(np.arange(4.0).reshape(shape)), X)
    assert_array_equal(found, np.arange(4.0))
    assert_array_equal(predictions_of(Fitted(found.tolist()), X.tolist()), found)


@pytest.mark.parametrize("shape", [(4, 2), (1, 4), (3,), (4, 1, 1)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(
        ValueError, match=r"Fitted predicts an array of shape .* 4 rows"
    ):
        predictions_of(Fitted(np.zeros(shape)), X)


@pytest.mark.parametrize("shape", [(4, 3), (4, 1, 3), (4, 3, 1)])
def test_a_probability_per_class(shape):
    proba = np.arange(12.0)
    found = class_probabilities(Fitted(proba.reshape(shape)), X)
    assert_array_equal(found, proba.reshape(4, 3))


@pytest.mark.parametrize("shape", [(4, 2), (4,), (3, 3), (2, 2, 3)])
def test_columns_and_classes_agree(shape):
    with pytest.raises(ValueError, match="its classes_ and its columns must agree"):
        class_probabilities(Fitted(np.zeros(shape)), X)


def test_columns_of_a_frame_are_matched_by_name():
    pandas = pytest.importorskip("pandas")
    proba = np.arange(12.0).reshape(4, 3)
    given = pandas.DataFrame(proba[:, ::-1], columns=[2, 1, 0])
    assert_array_equal(class_probabilities(Fitted(given), X), proba)
    given.columns = ["a", "b", "c"]
    with pytest.raises(ValueError, match=r"output of Fitted\.predict_proba are \['a'"):
        class_probabilities(Fitted(given), X)
