# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Seeds for estimators that were given none."""


def with_seed(estimator, rng):
    """Set the random_state parameters that are None, in the order of their names."""
    seeds = {
        name: rng.randint(2**31 - 1)
        for name, value in sorted(estimator.get_params(deep=True).items())
        if name.split("__")[-1] == "random_state" and value is None
    }
    return estimator.set_params(**seeds) if seeds else estimator
