# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from skope_ope import SNIPS, ActionRewardModel, DoublyRobust, PropensityEstimator
from skope_ope.selection._suggest import code_for


def test_every_name_is_imported_from_where_it_is_public():
    model = ActionRewardModel(Ridge(), encoding="action_context")
    code = code_for({"evaluator": DoublyRobust(reward_model=model), "check": SNIPS()})
    assert code.startswith(
        "from sklearn.linear_model import Ridge\n"
        "from skope_ope import ActionRewardModel, DoublyRobust, SNIPS\n"
    )


def test_a_step_is_taken_once():
    steps = [make_pipeline(PropensityEstimator(), one) for one in (SNIPS(), SNIPS())]
    code = code_for({"evaluator": steps[0], "check": steps[1]})
    assert code.count("PropensityEstimator()") == 1
    assert code.count(".fit(known)") == 2


def test_no_check():
    code = code_for({"evaluator": SNIPS(), "check": None})
    assert "check" not in code
