# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info

from skope_ope.policies.adaptive._arm_models import ArmModels


def test_small_fits_use_one_thread():
    seen = []

    class Watched(LogisticRegression):
        def fit(self, X, y):
            seen.append({lib["num_threads"] for lib in threadpool_info()})
            return super().fit(X, y)

    before = [lib["num_threads"] for lib in threadpool_info()]
    models = ArmModels(Watched(), 1, 0, "policy")
    models.add(0, np.eye(4), np.array([0, 1, 0, 1]))
    models.train()
    assert seen == [{1}]
    assert [lib["num_threads"] for lib in threadpool_info()] == before
