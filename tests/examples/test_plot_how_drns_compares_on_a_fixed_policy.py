# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Table 1 of DR-ns: its assertions fail on broken evaluators, rcv1 is cut as there."""

import runpy
from types import SimpleNamespace

import numpy as np
from scipy import sparse

from tests.examples._assertions import EXAMPLES, every_assertion_can_fail

RNG = np.random.RandomState(0)


def drns(value, n_accepted):
    """Return a DRns.evaluate whose value and accepted rows are functions of it."""

    def evaluate(self, policy):
        return SimpleNamespace(
            value=value(self),
            accepted=range(n_accepted(self)),
            acceptance_ratios=np.ones(len(policy)),
        )

    return {"skope_ope.DRns.evaluate": evaluate}


test_every_assertion_can_fail = every_assertion_can_fail(
    "4_papers/plot_how_drns_compares_on_a_fixed_policy.py",
    {
        "DR-ns is a constant that accepts nothing": drns(lambda _: 0.0, lambda _: 0),
        "DR-ns falls behind WC, and accepts less with a larger q": drns(
            lambda self: 2 * (self.acceptance == "quantile"),
            lambda self: round(800 * (1 - self.q)),
        ),
        "the direct method is noise": {
            "skope_ope.DirectMethod.score": lambda *_: RNG.standard_normal()
        },
    },
    args=["--sets", "digits", "--trials", "20"],
)


def test_rcv1_is_cut_as_in_the_paper(monkeypatch):
    """Four topics at the top of 103, documents with at least one of them."""
    names = np.array(["C15", "MCAT", "CCAT", "E11", "GCAT", "ECAT"])
    target = np.zeros((60, 6))
    target[np.arange(60), np.arange(60) % 6] = 1
    target[1, 2] = 1  # MCAT and CCAT
    fetched = SimpleNamespace(
        data=sparse.csr_matrix(np.arange(60.0)[:, None]),
        target=sparse.csr_matrix(target),
        target_names=names,
    )
    monkeypatch.setattr("sklearn.datasets.fetch_rcv1", lambda: fetched)
    trials = runpy.run_path(EXAMPLES / "4_papers" / "_trials.py")

    X, labels = trials["load"]("rcv1")
    row = X.toarray().ravel().astype(int)
    assert sorted(row) == [k for k in range(60) if k % 6 not in (0, 3)]
    order = ["CCAT", "ECAT", "GCAT", "MCAT"]
    expected = target[:, [list(names).index(name) for name in order]]
    np.testing.assert_array_equal(labels, expected[row])
    assert labels[row == 1].sum() == 2

    some = trials["_rcv1"](n_rows=10)
    assert some[0].shape == (10, 1) and some[1].shape == (10, 4)
