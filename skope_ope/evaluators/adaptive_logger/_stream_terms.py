# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What rounds say of a policy, taken from logs that arrive part by part."""

from numbers import Real
from typing import NamedTuple

import numpy as np

from skope_ope.evaluators.core._engine import WEIGHTS, Extract, terms_of
from skope_ope.evaluators.core._rounds import PositiveRounds, combined_weights
from skope_ope.evaluators.core._target import Target, refuse_learning
from skope_ope.evaluators.core._weight_bound import stated_weight
from skope_ope.logs import BanditLogs
from skope_ope.logs._propensity_audit import estimating_step
from skope_ope.reward_models._sources import reward_source

NAME = "ConfidenceSequence"
LOGGER = "logger"
_ROBUST = Extract(lambda rounds: (rounds.w, rounds.v, rounds.q))


class RoundTerms(NamedTuple):
    """Terms of the rounds of a part, ndarrays of shape (n_rounds,)."""

    policy_weight: np.ndarray  # importance weights of the policy
    weight: np.ndarray  # these, less those of the baseline
    z: np.ndarray  # terms whose mean is the estimate


def is_logger(baseline):
    """Whether a baseline is the logger itself."""
    return isinstance(baseline, str) and baseline == LOGGER


def check_stream_logs(logs):
    """Raise if these are no logs whose rounds a confidence sequence can take."""
    if not isinstance(logs, BanditLogs):
        raise TypeError(
            "logs must be BanditLogs, LazyLogs or a partition of these, got "
            f"{type(logs).__name__}. The call is update(logs, policy)."
        )
    if not len(logs):
        raise ValueError("the logs are empty: a part needs at least one round.")
    if logs.propensity is None:
        raise ValueError(
            f"{NAME} needs the propensities of the logged actions, which these logs do "
            "not have. Pass propensity=..., or estimate them from earlier rounds with "
            f"{estimating_step(logs)}."
        )
    if logs.group is not None:
        raise ValueError(
            f"{NAME} needs rounds that are independent given the past, and rounds "
            "of a group are not. If yours are, leave the groups out: "
            "logs.replace(group=None). Otherwise make one round of each group. Or "
            "use DoublyRobust, whose interval is clustered, and look at the value "
            "once only."
        )
    if combined_weights(logs, None) is not None:
        raise ValueError(
            f"{NAME} needs rounds of equal weight, and these have different sample "
            "weights. Use logs without weights."
        )


def check_stream_model(sequence):
    """Raise if the parameters do not go together."""
    model, method = sequence.reward_model, sequence.method
    if model is not None and method != "asymptotic":
        raise ValueError(
            f"method={method!r} takes no reward_model: it needs terms in a known "
            "range. Use reward_model=None, or method='asymptotic'."
        )
    frozen = type(model).__name__ == "FrozenEstimator"
    if not (model is None or isinstance(model, (str, Real)) or frozen):
        raise ValueError(
            "reward_model must be the name of a column with predictions, a number, "
            "or FrozenEstimator(model) with a model fitted to earlier rounds, got "
            f"{type(model).__name__}. The rounds of the sequence must not be used "
            "to fit it."
        )
    if isinstance(sequence.baseline, (np.ndarray, list, tuple)):
        raise ValueError(
            "baseline must be a policy, 'logger' or the name of a column. An array "
            "fits the rows of one part only. Add it to the logs of every part, "
            "logs.with_columns(name=...), and pass the name."
        )
    bounded = sequence.max_weight is not None or method == "asymptotic"
    baseline = sequence.baseline
    if not (baseline is None or is_logger(baseline) or bounded):
        raise ValueError(
            f"method={method!r} with a policy as baseline needs max_weight=...: "
            "the largest possible weight of the policy and of the baseline. Or use "
            "baseline='logger' or method='asymptotic', which do not need it."
        )


def round_terms(sequence, logs, policy):
    """Return the `RoundTerms` of a part."""
    source = None
    if sequence.reward_model is not None:
        source = reward_source(sequence.reward_model, logs, "prefit")
    weight, z = _of_policy(logs, policy, source, sequence.max_weight)
    baseline = sequence.baseline
    if baseline is None:
        return RoundTerms(weight, weight, z)
    if is_logger(baseline):
        return RoundTerms(weight, weight - 1.0, z - logs.reward)
    other, other_z = _of_policy(logs, baseline, source, sequence.max_weight)
    return RoundTerms(weight, weight - other, z - other_z)


def _of_policy(logs, policy, source, max_weight):
    """Return the weights of a policy, and the terms of its value."""
    target, positive = Target(policy, logs), PositiveRounds(logs)
    refuse_learning(NAME, target)
    if source is None:
        [weight] = terms_of(WEIGHTS, logs, target, None, positive)
        z = weight * logs.reward
    else:
        if target.logged_only:
            raise ValueError(
                f"{NAME} with a reward_model needs the probabilities of all "
                "actions, of the policy and the baseline. If you know only those "
                "of logged actions, use reward_model=None."
            )
        weight, v, q = terms_of(_ROBUST, logs, target, source, positive)
        z = v + weight * (logs.reward - q)
    if max_weight is not None:
        stated_weight(max_weight, weight)
    return weight, z
