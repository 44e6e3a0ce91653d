# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The pseudoinverse estimator."""

from __future__ import annotations

from functools import cache
from numbers import Real
from typing import Literal

import numpy as np

from skope_ope._sklearn import Interval, StrOptions
from skope_ope.evaluators.core import _functions
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._slates import SlateTerms, balanced, slate_shares
from skope_ope.evaluators.core._weights import clip
from skope_ope.evaluators.slate._base import SlateEvaluator, form_of, knows_all
from skope_ope.evaluators.slate._pseudo_inverse_weights import (
    knows_largest,
    mean_of_weights,
    round_weights,
    second_moment,
)
from skope_ope.exceptions import PropensityWarning, SupportWarning
from skope_ope.logs import SlateLogs

OUTSIDE = 1e-6  # residual of a target outside of the range
TINY = 1e-12  # weights average one: less than that below zero is zero


class PseudoInverseEvaluator(SlateEvaluator):
    r"""Base class of evaluators that weigh rounds by :math:`q^T \Gamma^+ 1_s`."""

    # A subclass gives `_terms(w, weights, target, logs)`, fields of `SlateTerms` by
    # name, from the clipped weights and the `RoundWeights`.

    _parameter_constraints: dict = {
        "cmax": [Interval(Real, 0, None, closed="neither"), None],
        "outside_range": [StrOptions({"exclude", "raise"})],
    }
    requires = Requires(weights=False, logs=(SlateLogs,), slates=("logger",))
    control_variates = None

    @property
    def leaves_bias_out(self):
        return self.cmax is not None and "the bias of clipped weights"

    def slate_terms(self, target, logs):
        logger, with_parts = logs.logging_policy, self.control_variates is not None
        weights = round_weights(logger, target, logs, with_parts)
        used, diagnostics, warned = range_of(self, weights, logs)
        w = clip(weights.weight, self.cmax)
        found = self._terms(w, weights, target, logs)
        diagnostics["altered_rows"] = float((w != weights.weight).mean())
        diagnostics |= logger_diagnostics(logger, target, logs, weights, used)
        diagnostics |= found.pop("diagnostics", {})
        return SlateTerms(
            weight=w,
            used=used,
            expected=weights.expected,
            supported=self.cmax is None,
            diagnostics=diagnostics,
            warnings=warned + inexact_warnings(logger, diagnostics),
            follows_reward=True,
            **found,
        )

    def diagnostics_of(self, summary, estimate):
        """Return nothing, and what parts told of rounds that are left out."""
        return {}, range_warnings(slate_shares(summary).get("outside_range_share", 0.0))


class PseudoInverse(PseudoInverseEvaluator):
    r"""The pseudoinverse estimator of slate policies [1]_.

    .. math:: \hat V = \frac1n \sum_i W_i r_i, \qquad
        W_i = q_{x_i}^T\, \Gamma_{x_i}^+\, 1_{s_i}

    :math:`1_s` has a one for the candidate in every slot. :math:`q_x = E_\pi[1_s|x]`
    are the slot marginals of the policy, and :math:`\Gamma_x = E_\mu[1_s 1_s^T|x]` the
    second moments of the logger. Unbiased if the value of a slate is a sum over its
    slots, :math:`V(x, s) = 1_s^T \phi_x` (the linearity assumption), and :math:`q_x` is
    in the range of :math:`\Gamma_x`, which the paper's absolute continuity implies. Its
    variance grows with the number of slots times candidates, not with the number of
    slates. Read more in the :ref:`User Guide <slates>`.

    Parameters
    ----------
    self_normalized : bool, default=False
        Divide by the sum of the weights, not by the number of rounds (wPI). For slates
        that may be empty see Notes.
    cmax : float, default=None
        Upper bound on the weights. It lowers the variance and adds a bias. `None` keeps
        them as they are.
    control_variates : {"single", "multiple"}, default=None
        Subtract the error that the weights' deviations from their known means explain,
        with one coefficient or one per slot [2]_. Not together with `self_normalized`
        or `cmax`.
    outside_range : {"exclude", "raise"}, default="exclude"
        What happens to rounds in which the policy is outside of the range of
        :math:`\Gamma_x`, for example with a candidate that the logger never shows in a
        slot. "exclude": the value is that of the other rounds, and a warning gives the
        share. "raise": an error.

    Attributes
    ----------
    n_slots_ : int
        Number of slots in the logs of `fit`.

    See Also
    --------
    SlateIPS : Matches whole slates, without the assumption.
    SlateDoublyRobust : Adds an additive reward model.

    Notes
    -----
    An empty slot adds nothing to the value of a slate. If the logger and the policy
    always fill at least one slot, the weights have mean one. If the policy is the
    logger, all weights are then one. Otherwise their means are
    :math:`e_x = q_x^T \Gamma_x^+ E_\mu[1_s|x]`. These are known: the mean weight is
    compared with them, and `self_normalized` divides by the sum of
    :math:`W_i + 1 - e_{x_i}`, whose terms have mean one.

    Weights can be negative. With one slot they are those of inverse propensity scoring.
    Uniform rankings and independent slots have closed forms. For other loggers the
    second moments are also exact, and are inverted once per distinct distribution. For
    a logger of `SampledSlatePolicy` they are means over draws, which biases the
    weights: `diagnostics["weight_bias"]` estimates the error of their mean.

    `deviation_bound(delta, reward_bound=B)` is Theorem 1 of [1]_ for :math:`|r| \le B`
    and n rounds that weigh the same:
    :math:`B (\sqrt{2 \sigma^2 \ln(2/\delta)/n} + 2 (\rho + 1) \ln(2/\delta) / (3n))`,
    with :math:`\sigma^2 = E_x[q^T \Gamma^+ q]` and the largest weight :math:`\rho` in
    the logged contexts, both without rounds that are left out, which `diagnostics`
    give, or of the arguments `sigma2` and `rho`. The largest weight is exact,
    `diagnostics["rho"]`, for lists of slates, independent slots and rankings of one set
    of candidates. For mixtures, and rankings whose candidates differ by slot, only a
    bound is known, `diagnostics["rho_bound"]`. It combines items that may never be
    shown together. The bound of the deviation holds with it, and is wider.

    References
    ----------
    .. [1] Swaminathan, A., et al. (2017). Off-policy evaluation for slate
       recommendation. NeurIPS 30.
    .. [2] Vlassis, N., Chandrashekar, A., Amat, F., & Kallus, N. (2021). Control
       variates for slate off-policy evaluation. NeurIPS 34.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import PseudoInverse, SlateLogs, UniformSlatePolicy
    >>> logs = SlateLogs(
    ...     np.zeros((5, 1)), [[2, 0], [2, 1], [0, 2], [1, 0], [0, 1]],
    ...     [1, 0.5, 0, 1, 0.25], logging_policy=UniformSlatePolicy(2),
    ... )
    >>> target = np.tile([2, 0], (5, 1))
    >>> import warnings
    >>> warnings.simplefilter("ignore")  # five rounds are few
    >>> round(PseudoInverse().fit(logs).score(target), 10)
    1.25
    >>> round(PseudoInverse(self_normalized=True).fit(logs).score(target), 10)
    0.8928571429
    """

    _parameter_constraints: dict = {
        **PseudoInverseEvaluator._parameter_constraints,
        "self_normalized": ["boolean"],
        "control_variates": [StrOptions({"single", "multiple"}), None],
    }

    def __init__(
        self,
        *,
        self_normalized: bool = False,
        cmax: float | None = None,
        control_variates: Literal["single", "multiple"] | None = None,
        outside_range: Literal["exclude", "raise"] = "exclude",
    ) -> None:
        self.self_normalized = self_normalized
        self.cmax = cmax
        self.control_variates = control_variates
        self.outside_range = outside_range

    def check_logs(self, logs):
        if self.control_variates is not None and (
            self.self_normalized or self.cmax is not None
        ):
            raise ValueError(
                "control_variates cannot be combined with self_normalized or cmax. "
                "Clipped weights no longer have a known mean, and dividing by the "
                "sum of the weights already is a control variate. Leave out one of "
                "them."
            )
        super().check_logs(logs)

    def _terms(self, w, weights, target, logs):
        gain = w * logs.reward
        if self.self_normalized:
            terms = gain, balanced(w, weights.expected)
            return {"terms": terms, "combine": _functions.ratio}
        if self.control_variates is None:
            bound = theorem_one if self.cmax is None else None
            return {"terms": (gain,), "bound": bound}
        terms, combine = _functions.regression_terms(
            gain,
            weights.parts,
            single=self.control_variates == "single",
            independent=form_of(logs.logging_policy, logs) == "product",
        )
        return {"terms": terms, "combine": combine}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # On-policy weights are all one.
        tags.on_policy_mean = self.cmax is None or self.cmax >= 1
        tags.consistent = self.cmax is None
        tags.constant_reward = tags.shift_equivariant = self.self_normalized
        return tags


def range_of(evaluator, weights, logs):
    """Return which rounds are used, with diagnostics and warnings."""
    diagnostics = {"negative_weight_share": float((weights.weight < -TINY).mean())}
    if weights.residual is None:
        return None, diagnostics, []
    outside = weights.residual > OUTSIDE
    share = float(outside.mean())
    diagnostics |= {
        "outside_range_share": share,
        "largest_residual": float(weights.residual.max()),
    }
    if not share:
        return None, diagnostics, []
    row = int(np.flatnonzero(outside)[0])
    where = f" (first at row {row}, residual {weights.residual[row]:.3g})"
    text = outside_text(share, where)
    if evaluator.outside_range == "raise":
        raise ValueError(
            f"{text} Change the policy there, or pass outside_range='exclude'."
        )
    return ~outside, diagnostics, range_warnings(share, where)


def outside_text(share, where=""):
    """Say that a policy shows what the logger never does, in a share of the rounds."""
    return (
        f"in {share:.2%} of the rounds{where} the policy shows candidates in "
        "slots, or in combinations, that the logger never shows. Their rewards "
        "cannot be known."
    )


def range_warnings(share, where=""):
    """Return a warning that these rounds are left out, where there are some."""
    if not share > 0:
        return []
    left = "These rounds are left out, and the value is that of the other rounds."
    return [SupportWarning(f"{outside_text(share, where)} {left}", share)]


def logger_diagnostics(logger, target, logs, weights, used):
    """Diagnostics of the logger's second moments, of the rounds that are used."""
    found = {}
    if knows_all(logger, target, logs):
        # both are computed when one is read
        moment = cache(lambda: second_moment(logger, target, logs, used))
        largest = "rho" if knows_largest(logger, logs) else "rho_bound"
        found = {"sigma2": lambda: moment()[0], largest: lambda: moment()[1]}
    if not getattr(logger, "exact", True):
        known = 1.0 if weights.expected is None else weights.expected.mean()
        found["weight_bias"] = mean_of_weights(logger, target, logs) - known
    return found


def inexact_warnings(logger, diagnostics):
    """Return a warning where moments are means over draws."""
    if "weight_bias" not in diagnostics:
        return []
    bias = diagnostics["weight_bias"]
    return [
        PropensityWarning(
            f"the pair probabilities of {type(logger).__name__} are means over "
            "draws, which biases the weights: their mean over new draws is off by "
            f"{bias:+.4g}. Use the exact policy, or a larger n_samples, up to a "
            "million.",
            bias,
        )
    ]


def theorem_one(result, delta, **assumptions):
    """Bernstein's inequality for the pseudoinverse estimator."""
    known = result.diagnostics
    if "reward_bound" not in assumptions:
        raise ValueError(
            "the bound of PseudoInverse needs reward_bound, a bound on |reward| "
            "that is known in advance."
        )
    constants = {}
    for name in ("sigma2", "rho"):
        found = name if name in known else f"{name}_bound"
        if name not in assumptions and found not in known:
            raise ValueError(
                f"the bound of PseudoInverse needs {name}, which the probabilities "
                "of the logged candidates alone do not give. Pass it."
            )
        constants[name] = assumptions[name] if name in assumptions else known[found]
    n, log = result.n_rounds, np.log(2 / delta)
    if "outside_range_share" in known:
        n = round(n * (1 - known["outside_range_share"]))
    if not n:
        return float("nan")
    spread = np.sqrt(2 * constants["sigma2"] * log / n)
    radius = spread + 2 * (constants["rho"] + 1) * log / (3 * n)
    return float(assumptions["reward_bound"] * radius)
