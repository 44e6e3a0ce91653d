# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import threading
from functools import lru_cache, partial

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import FunctionTransformer

from skope_ope import FunctionPolicy
from skope_ope.logs._fingerprint import fingerprint

try:
    import cloudpickle
except ImportError:  # joblib before 1.6 holds a copy
    from joblib.externals import cloudpickle


def cell(source, name="rule"):
    """What a cell of a notebook defines."""
    scope = {"__name__": "__main__", "np": np}
    exec(source, scope)
    return scope[name]


def test_estimators():
    assert fingerprint(Ridge(1.0), 5) == fingerprint(Ridge(1.0), 5)
    assert fingerprint(Ridge(1.0), 5) != fingerprint(Ridge(2.0), 5)
    assert fingerprint(FunctionTransformer(np.log1p)) is not None
    assert fingerprint(threading.Lock()) is None


@pytest.mark.parametrize(
    "one, other",
    [
        ("def rule(X): return 1", "def rule(X): return 2"),
        ("def rule(X): return X + 1", "def rule(X): return X - 1"),
        ("def rule(X): return X.sum()", "def rule(X): return X.mean()"),
        ("def rule(X, p=1): return p", "def rule(X, p=2): return p"),
        ("def rule(X, *, p=1): return p", "def rule(X, *, p=2): return p"),
        ("rule = (lambda p: lambda X: p)(1)", "rule = (lambda p: lambda X: p)(2)"),
        ("def rule(X): return [1 for x in X]", "def rule(X): return [2 for x in X]"),
        ("P = 1\ndef rule(X): return P", "P = 2\ndef rule(X): return P"),
        (
            "def h(X): return 1\ndef rule(X): return h(X)",
            "def h(X): return 2\ndef rule(X): return h(X)",
        ),
    ],
)
@pytest.mark.parametrize("inside", [FunctionPolicy, partial, lru_cache, lambda f: f])
def test_functions_are_known_by_what_they_do(one, other, inside):
    first = fingerprint(inside(cell(one)))
    assert first is not None
    assert fingerprint(inside(cell(one))) == first
    assert fingerprint(inside(cell(other))) != first


def test_a_copy_of_a_function_and_one_that_calls_itself():
    source = "def rule(n): return n * rule(n - 1) if n else 1"
    rule = cell(source)
    assert fingerprint(rule) == fingerprint(cell(source))
    copy = cloudpickle.loads(cloudpickle.dumps(rule))
    assert copy is not rule and fingerprint(copy) == fingerprint(rule)


def test_a_class_that_is_defined_anew_is_another():
    source = "class Rule:\n    p = 1\n    def act(self): return 1"
    kind = cell(source, "Rule")
    one = fingerprint(kind())
    assert one == fingerprint(kind()) != fingerprint(cell(source, "Rule")())
    bound = fingerprint(kind().act)
    kind.act = lambda self: 2
    assert fingerprint(kind()) != one and fingerprint(kind().act) != bound
