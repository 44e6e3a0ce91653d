# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import warnings

import numpy as np
import pytest

from skope_ope._shell._demo import TRAIN_ROWS, digits_demo
from skope_ope.datasets import load_classification
from skope_ope.evaluators._names import STATIC
from skope_ope.policies import action_probabilities


@pytest.fixture(scope="module")
def demo():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return digits_demo(list(STATIC))


def test_the_truth_is_the_accuracy_on_the_logged_digits(demo):
    X, y = load_classification("digits", return_X_y=True)
    label_of = {row.tobytes(): label for row, label in zip(X / 16, y, strict=True)}
    labels = np.array([label_of[row.tobytes()] for row in demo.logs.context])
    assert demo.truth == pytest.approx(
        (demo.policy.predict(demo.logs.context) == labels).mean()
    )
    assert len(demo.logs) == len(y) - TRAIN_ROWS


def test_the_policy_did_not_learn_from_the_logged_digits(demo):
    proba = action_probabilities(demo.policy, demo.logs)
    assert set(np.unique(proba)) == {0.0, 1.0}
    assert 0.8 < demo.truth < 1


def test_what_the_notes_say_is_so(demo):
    """Models are too high by many standard errors, weights are not."""
    errors = {
        name: (value.value - demo.truth) / value.standard_error
        for name, value in demo.table.items()
    }
    assert list(errors) == list(STATIC)
    for name in ("DirectMethod", "SwitchDR", "DRos"):
        assert errors[name] > 4
    for name in ("IPS", "SNIPS", "DoublyRobust", "SNDR", "MRDR"):
        assert abs(errors[name]) < 4
    assert "used the label" in demo.notes[0]
    assert f"{demo.table['DirectMethod'].value - demo.truth:+.3f}" in demo.notes[0]
    assert f"DRos ({demo.table['DRos'].value - demo.truth:+.3f})" in demo.notes[1]
    assert set(demo.about) == {"log", "policy", "model"}
