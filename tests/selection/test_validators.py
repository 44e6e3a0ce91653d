# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest
from sklearn.ensemble import RandomForestRegressor

from skope_ope import (
    IPS,
    DirectMethod,
    DoublyRobust,
    DRns,
    EvaluatorScorer,
    PseudoInverse,
    RejectionSampling,
    Replay,
    SlateLogs,
    UniformPolicy,
)
from skope_ope.exceptions import ModelErrorWarning, OPEWarning
from skope_ope.selection._evaluator_scorer import (
    check_validator,
    common_horizon,
    validator_for,
)
from tests.selection._logs import problem


def test_defaults():
    logs, _ = problem(20)
    assert isinstance(validator_for(logs), DoublyRobust)
    validator = validator_for(logs, horizon=7)
    assert isinstance(validator, RejectionSampling) and validator.horizon == 7
    assert isinstance(validator.random_state, int)
    slates = SlateLogs([[0.0]], [[0, 1]], [1.0], n_candidates=3)
    assert isinstance(validator_for(slates), PseudoInverse)
    assert isinstance(validator_for(slates, IPS()), IPS)


def test_the_users_choice_is_cloned_and_seeded():
    logs, _ = problem(20)
    mine = DoublyRobust(reward_model=RandomForestRegressor())
    one, two = validator_for(logs, mine), validator_for(logs, mine)
    assert one is not mine and mine.reward_model.random_state is None
    assert one.reward_model.random_state == two.reward_model.random_state is not None
    seeded = validator_for(logs, RejectionSampling(random_state=3), 5)
    assert seeded.random_state == 3 and seeded.horizon == 5


def test_horizons_must_agree():
    logs, _ = problem(20)
    assert validator_for(logs, Replay(horizon=5), 5).horizon == 5
    with pytest.raises(ValueError, match="validator has horizon=6, the candidate"):
        validator_for(logs, Replay(horizon=6), 5)
    assert common_horizon(DRns(horizon=4)) == 4
    with pytest.raises(ValueError, match=r"DRns has no horizon.*same for all"):
        common_horizon(DRns())
    with pytest.raises(ValueError, match=r"DirectMethod has no horizon"):
        common_horizon(DirectMethod())


def test_biased_validators_are_told():
    for q in (0.05, 0.0):
        check_validator(DRns(q=q), False)  # acceptances do not matter: warnings raise
    check_validator(DRns(q=0.0), True)
    with pytest.warns(OPEWarning, match="q=0.05 is biased where the policy") as warned:
        check_validator(DRns(q=0.05), True)
    assert warned[0].message.value == 0.05
    with pytest.warns(ModelErrorWarning, match="error of its reward model") as warned:
        EvaluatorScorer(UniformPolicy(), DirectMethod())
    assert warned[0].filename == __file__


def test_who_can_serve():
    check_validator(None, True)
    check_validator(IPS(), False)
    for validator in (Replay(), RejectionSampling(), DRns(acceptance="worst_case")):
        check_validator(validator, True)
    for validator in (IPS(), DoublyRobust(), DirectMethod()):
        with pytest.raises(ValueError, match=f"{type(validator).__name__} cannot val"):
            check_validator(validator, True)
    with pytest.raises(TypeError, match="got the class IPS"):
        check_validator(IPS, False)
    with pytest.raises(TypeError, match="got the policy UniformPolicy"):
        check_validator(UniformPolicy(), False)
    with pytest.raises(TypeError, match="got the str"):
        check_validator("IPS", False)
