# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Unbiased evaluators that check others on held-out rounds."""

import warnings

from sklearn.base import clone
from sklearn.utils import check_random_state

from skope_ope._inside import inside
from skope_ope.evaluators.core._base import BaseEvaluator
from skope_ope.evaluators.core._seeds import with_seed
from skope_ope.evaluators.sequential import DRns, RejectionSampling
from skope_ope.evaluators.slate import PseudoInverse
from skope_ope.evaluators.static import DirectMethod, DoublyRobust
from skope_ope.exceptions import ModelErrorWarning, OPEWarning
from skope_ope.logs import BanditLogs
from skope_ope.policies._base import BasePolicy
from skope_ope.selection._candidates import refuse_array_models

# by kind of logs, for policies that do not learn; of slates where slots add up
UNBIASED = {"bandit": DoublyRobust, "slate": PseudoInverse}


def check_validator(validator, policy_learns):
    """Raise where something is no validator, or none of policies that learn."""
    if validator is None:
        return
    if isinstance(validator, type):
        raise TypeError(
            f"validator must be an evaluator, got the class {validator.__name__}; make "
            "an instance."
        )
    validator = inside(validator)
    if not isinstance(validator, BaseEvaluator):
        what = "policy " if isinstance(validator, BasePolicy) else ""
        raise TypeError(
            f"validator must be an evaluator such as DoublyRobust(), got the {what}"
            f"{type(validator).__name__}."
        )
    refuse_array_models(validator, "validator")
    if policy_learns and not validator.__sklearn_tags__().order_dependent:
        raise ValueError(
            f"{type(validator).__name__} cannot validate: the policy learns while it "
            "acts, and only simulated histories of the same length give its value "
            "without bias. Use validator=None, which is RejectionSampling at the "
            "candidate's horizon, or Replay on logs of a uniform logger."
        )
    biased = _bias_warning(validator, policy_learns)
    if biased is not None:
        warnings.warn(biased, stacklevel=3)


def _bias_warning(validator, policy_learns):
    """Return a warning about a validator that is biased by design, or None."""
    if isinstance(validator, DirectMethod):
        return ModelErrorWarning(
            "the validator DirectMethod has the error of its reward model, and prefers "
            "candidates that share it. DoublyRobust with the same model has none."
        )
    quantile = isinstance(validator, DRns) and validator.acceptance == "quantile"
    if policy_learns and quantile and validator.q > 0:
        return OPEWarning(
            f"the validator DRns with q={validator.q:g} is biased where the policy "
            "learns, and prefers candidates with the same bias. Use validator=None, "
            "which is RejectionSampling, or acceptance='worst_case'.",
            validator.q,
        )
    return None


def common_horizon(candidate):
    """Return the horizon at which a policy that learns is valued."""
    name = type(candidate).__name__
    if not hasattr(candidate, "horizon"):
        remedy = (
            f" Outside a search, {name} simulates the policy along all contexts: "
            f"{name}(...).fit(logs).score(policy)."
            if isinstance(candidate, DirectMethod)
            else ""
        )
        raise ValueError(
            f"the policy learns, and {name} has no horizon. A search compares "
            "candidates by histories of the same length. Search over DRns, "
            f"RejectionSampling or Replay with horizon=....{remedy}"
        )
    horizon = getattr(candidate, "horizon", None)
    if horizon is None:
        raise ValueError(
            f"the policy learns and {type(candidate).__name__} has no horizon. Every "
            "candidate would evaluate a history of another length, and their errors "
            "could not be compared. Set horizon=..., the same for all candidates, "
            "short enough for a part of the logs."
        )
    return horizon


def validator_for(logs, validator=None, horizon=None):
    """Return a fresh, seeded validator."""
    if validator is not None:
        validator = clone(validator)
    elif horizon is not None:
        validator = RejectionSampling()
    else:
        kind = "bandit" if isinstance(logs, BanditLogs) else "slate"
        validator = UNBIASED[kind]()
    if horizon is not None:
        own = getattr(validator, "horizon", None)
        if own not in (None, horizon):
            raise ValueError(
                f"the validator has horizon={own}, the candidate horizon={horizon}, "
                "so their values are about different horizons. Leave the validator's "
                "horizon at None."
            )
        validator.set_params(horizon=horizon)
    return with_seed(validator, check_random_state(0))
