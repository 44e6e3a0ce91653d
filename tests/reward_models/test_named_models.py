# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from skope_ope import BanditLogs
from skope_ope.reward_models._sources import MODELS_BY_NAME, named_reward_model

LOGS = BanditLogs(np.eye(2), [0, 1], [0.0, 1.0])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("none", type(None)),
        ("ridge", Ridge),
        ("logistic", LogisticRegression),
        ("hist", HistGradientBoostingRegressor),
        ("0.5", float),
        ("-1", float),
    ],
)
def test_names(name, kind):
    assert type(named_reward_model(name, LOGS)) is kind
    assert name in MODELS_BY_NAME or kind is float


@pytest.mark.parametrize("name", ["forest", "1_0", "nan", "inf"])
def test_unknown_names(name):
    with pytest.raises(ValueError, match=f"'{name}' is unknown: name none, ridge, log"):
        named_reward_model(name, LOGS)


def test_models_need_features_and_constants_do_not():
    bare = BanditLogs(np.empty((2, 0)), [0, 1], [0.0, 1.0])
    assert named_reward_model("none", bare) is None
    with pytest.raises(ValueError, match="the reward model 'ridge' needs features"):
        named_reward_model("ridge", bare)


def test_missing_values_need_trees():
    gaps = BanditLogs(np.array([[0.0], [np.nan]]), [0, 1], [0.0, 1.0])
    assert type(named_reward_model("hist", gaps)) is HistGradientBoostingRegressor
    with pytest.raises(
        ValueError, match="the reward model 'logistic' takes no missing"
    ):
        named_reward_model("logistic", gaps)
