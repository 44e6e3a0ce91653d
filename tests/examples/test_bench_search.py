# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
from sklearn.model_selection import KFold

from skope_ope import OPESearchCV
from tests.examples._assertions import every_assertion_can_fail


def other_folds(*args, cv, **options):
    folds = KFold(cv.n_splits, shuffle=True, random_state=0)
    return OPESearchCV(*args, cv=folds, **options)


test_every_assertion_can_fail = every_assertion_can_fail(
    "5_benchmarks/bench_search.py",
    {"other folds": {"skope_ope.OPESearchCV": other_folds}},
    args=["--cases", "C", "--n-rounds", "500", "--repeats", "1"],
)
