# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Reward models that a word on the command line names."""

from skope_ope._meant import meant
from skope_ope.logs._model_features import check_features
from skope_ope.logs._numbers import number

MODELS = ("none", "ridge", "logistic", "hist")


def named_reward_model(name, logs):
    """Return the reward model of a name, after a look at what it is to learn from."""
    if name == "none":
        return None
    if name not in MODELS:
        try:
            return number(name, finite=True)
        except ValueError:
            raise ValueError(
                f"the reward model {name!r} is unknown: name {', '.join(MODELS)} or a "
                f"number.{meant(name, [*MODELS, 'none'])}"
            ) from None
    check_features(logs, f"the reward model {name!r}", takes_missing=name == "hist")
    if name == "hist":
        from sklearn.ensemble import HistGradientBoostingRegressor

        return HistGradientBoostingRegressor()
    from sklearn.linear_model import LogisticRegression, Ridge

    return Ridge() if name == "ridge" else LogisticRegression(max_iter=1000)
