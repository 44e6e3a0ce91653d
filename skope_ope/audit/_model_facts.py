# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How well a reward model predicts the rewards of a log, out of fold."""

from skope_ope.evaluators._evaluate import quiet_table
from skope_ope.evaluators.slate import SlateDirectMethod
from skope_ope.evaluators.static import DirectMethod
from skope_ope.logs import SlateLogs
from skope_ope.policies import UniformPolicy


def reward_model_facts(logs, random_state=0, n_jobs=None, reward_model=None, cv=None):
    """Return the fact about a reward model, if there is one."""
    if reward_model is None:
        return {}
    slates = isinstance(logs, SlateLogs)
    # the fit is the same for all policies
    policy = logs.slate if slates else UniformPolicy()
    method = SlateDirectMethod() if slates else DirectMethod()
    how = {"random_state": random_state, "n_jobs": n_jobs}
    table = quiet_table(policy, logs, {"": method}, reward_model, cv, **how)
    return {"R^2 of the reward model, out of fold": table[""].diagnostics["model_r2"]}
