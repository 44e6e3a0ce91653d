# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
from itertools import accumulate, repeat

from sklearn.model_selection import KFold

from skope_ope import OPESearchCV
from tests.examples._assertions import every_assertion_can_fail


def other_folds(*args, cv, **options):
    folds = KFold(cv.n_splits, shuffle=True, random_state=0)
    return OPESearchCV(*args, cv=folds, **options)


moments = accumulate(repeat(1000.0), lambda now, times: now * times)


def later():
    """Return a time: what is measured second takes a million times as long."""
    return next(moments)


test_every_assertion_can_fail = every_assertion_can_fail(
    "5_benchmarks/bench_search.py",
    {
        "other folds": {"skope_ope.OPESearchCV": other_folds},
        "a search that takes ages": {"example:process_time": later},
    },
    args=[
        *["--cases", "C", "--n-rounds", "500", "--repeats", "1"],
        *["--settled", "1", "--most", "100"],
    ],
)
