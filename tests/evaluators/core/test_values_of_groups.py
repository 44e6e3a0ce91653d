# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import IPS, SNIPS, BanditLogs

N = 240
RNG = np.random.default_rng(0)
NAMES = np.array(["d", "a", "", "c"])
CODE = RNG.integers(0, 4, N)
PI = RNG.dirichlet(np.ones(4), N)

# rounds of one action are no log whose weights average to one
pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def logs_with(action=NAMES[CODE], **fields):
    reward, propensity = RNG.random(N), 0.1 + 0.9 * RNG.random(N)
    return BanditLogs(np.zeros((N, 1)), action, reward, propensity, **fields)


def keys():
    """The same labels in every container."""
    texts = NAMES[CODE]
    yield from (texts, texts.astype(object), texts.tolist())
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    yield pd.Series(texts.tolist())
    yield pd.Series(pd.Categorical(texts, ["never", *NAMES], ordered=True))
    yield pl.Series(texts.tolist(), dtype=pl.Categorical)
    yield pa.array(texts.tolist()).dictionary_encode()


@pytest.mark.parametrize("evaluator", [IPS(), SNIPS()])
def test_groups_are_the_rows_of_each_label_whatever_holds_the_labels(evaluator):
    logs = logs_with().with_columns(name=NAMES[CODE])
    value = evaluator.fit(logs).evaluate(PI)
    for key in ("action", "name", *keys()):
        found = value.by(key)
        assert list(found) == sorted(NAMES.tolist())
        for label, group in found.items():
            rows = np.flatnonzero(NAMES[CODE] == label)
            alone = evaluator.fit(logs[rows]).evaluate(PI[rows])
            assert group.n_rounds == len(rows)
            assert_allclose(group.value, alone.value, rtol=1e-12)
            assert_allclose(group.standard_error, alone.standard_error, rtol=1e-11)


def test_fields_of_logs_are_not_coded_again(monkeypatch):
    logs = logs_with(logger=NAMES[CODE[::-1]], group=NAMES[RNG.integers(0, 4, N)])
    value = IPS().fit(logs).evaluate(PI)
    expected = {
        name: value.by(getattr(logs, name)) for name in ("action", "logger", "group")
    }

    def refuse(*args, **kwargs):
        raise AssertionError("labels were coded again")

    module = "skope_ope.evaluators.core._values_of_groups.coded_labels"
    monkeypatch.setattr(module, refuse)
    for name, groups in expected.items():
        found = value.by(name)
        assert list(found) == list(groups)
        for label, group in groups.items():
            assert found[label].value == group.value


def test_given_actions_that_were_never_logged_are_no_group():
    actions = ["never", *NAMES[::-1]]
    logs = logs_with(actions=actions)
    pi = np.column_stack([np.zeros(N), PI[:, ::-1]])
    found = IPS().fit(logs).evaluate(pi).by("action")
    assert list(found) == sorted(NAMES.tolist())
    # a column may bear the name of no field, but of any kind of labels
    mixed = np.array([7 if code else "x" for code in CODE], dtype=object)
    labels = list(IPS().fit(logs).evaluate(pi).by(mixed))
    assert labels == list(dict.fromkeys(mixed))  # as they appear


def test_labels_of_other_rounds_are_refused():
    value = IPS().fit(logs_with()).evaluate(PI)
    with pytest.raises(ValueError, match=r"one label per round \(240\), got 239"):
        value.by(NAMES[CODE][1:])
    keys = NAMES[CODE].astype(object)
    keys[5] = None
    with pytest.raises(ValueError, match=r"key has a missing label \(None\) at row 5"):
        value.by(keys)
