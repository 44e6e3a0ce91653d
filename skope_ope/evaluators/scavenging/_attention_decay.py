# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How attention decays with the position on a page."""

from __future__ import annotations

import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state

from skope_ope._progress import TellsOfFit
from skope_ope._sklearn import (
    Estimator,
    Interval,
    StrOptions,
    fit_context,
    validate_params,
)
from skope_ope._types import Array, RandomSeed
from skope_ope.evaluators.scavenging._pages import (
    bootstrap,
    draw_pages,
    make_pages,
    seeds_of,
)
from skope_ope.evaluators.scavenging._predictability import item_predictability
from skope_ope.exceptions import LowOverlapWarning, SupportWarning
from skope_ope.logs import SlateLogs
from skope_ope.logs._validation import check_y
from skope_ope.logs.lazy._lazy_logs import kind_of


@validate_params(
    {
        "n_slots": [Interval(Integral, 1, None, closed="left")],
        "base": [Interval(Real, 1, None, closed="neither")],
    },
    prefer_skip_nested_validation=True,
)
def dcg_attention(n_slots: int, base: float = 2) -> Array:
    r"""Attention of discounted cumulative gain, :math:`1 / \log_b(b + i - 1)`.

    Parameters
    ----------
    n_slots : int
        Number of slots, counted from 1.
    base : float, default=2
        Base b of the logarithm, above 1.

    Returns
    -------
    attention : ndarray of shape (n_slots,)
        Attention of every slot, relative to the first.

    Examples
    --------
    >>> from skope_ope.evaluators import dcg_attention
    >>> dcg_attention(4).round(6)
    array([1.      , 0.63093 , 0.5     , 0.430677])
    """
    return np.log(base) / np.log(base + np.arange(n_slots))


def attention_coefficients(tables, method):
    """Return the attention of every slot, relative to the first."""
    clicks, shown = tables.clicks, tables.impressions
    if method == "naive":
        rate = _ratio_or_nan(clicks.sum(axis=0), shown.sum(axis=0))
        return _ratio_or_nan(rate, rate[0])
    rate = np.divide(clicks, shown, out=np.zeros_like(clicks), where=shown > 0)
    alpha = item_weights(tables, method)
    return _ratio_or_nan((alpha * rate).sum(axis=0), (alpha * rate[:, :1]).sum(axis=0))


def item_weights(tables, method):
    """Return alpha, the weight of every item in the comparison of every slot."""
    # Items that the slot or the first one never showed would enter one of the two sums
    # only: they get no weight.
    shown, first = tables.impressions, tables.impressions[:, :1]
    if method == "uniform":
        alpha = np.ones_like(shown)
    elif method == "equal_variance":
        alpha = shown * first / np.maximum(shown + first, 1e-300)
    else:
        p = (tables.clicks + 1) / (shown + 2)  # no clicks: still a variance
        variance = p * (1 - p)
        noise = shown * variance[:, :1] + first * variance
        alpha = 2 * shown * first / np.maximum(noise, 1e-300)
    return np.where((shown > 0) & (first > 0), alpha, 0.0)


def _ratio_or_nan(a, b):
    """Return a / b, NaN where b is zero."""
    a, b = np.broadcast_arrays(a, b)
    return np.divide(a, b, out=np.full(a.shape, np.nan), where=b > 0)


class AttentionDecay(TellsOfFit, Estimator):
    r"""Attention decay coefficients of the slots of a page [1]_.

    Under the factoring assumption
    :math:`P(click | x, a, i) = C_i\, P(x, a)`, with :math:`C_1 = 1`, the click rates
    of one item in two slots differ by the factor :math:`C_i`. Read more in the
    :ref:`User Guide <attention>`.

    Parameters
    ----------
    method : str, default="equal_variance"
        "equal_variance", "min_variance", "uniform" or "naive". How items are weighted.
        "naive" compares the click rates of the slots. It is biased if better items are
        shown in better slots. The others compare the click rates of every item in the
        two slots, and average over the items. "equal_variance" has the weights of the
        smallest variance if all clicks have the same variance. It takes any rewards.
        "min_variance" has the weights of the paper, which estimate the variance of
        every item. It takes clicks, 0 or 1. "uniform" has equal weights.
    n_bootstrap : int, default=None
        Bootstrap samples of pages for `standard_errors_`, two or more; `None`: none.
    random_state : int, RandomState instance or None, default=None
        Seeds the bootstrap.

    Attributes
    ----------
    coefficients_ : ndarray of shape (n_slots,)
        Attention of every slot, relative to the first.
    standard_errors_ : ndarray of shape (n_slots,)
        Their standard errors, if `n_bootstrap` is given. NaN, with a warning, if a
        bootstrap sample has no click that the slot needs.
    predictability_ : Predictability
        Gain in out-of-fold log-loss of predicting the item of one of the first slots
        from the context, and its z.
    n_slots_ : int
        Number of slots.
    n_features_in_ : int
        Number of context features of the logs.

    See Also
    --------
    PositionScavenging : Evaluates policies over slates with them.
    dcg_attention : A fixed decay.

    Notes
    -----
    With clicks :math:`C(a, i)` and impressions :math:`M(a, i)` of item a in slot i,

    .. math:: \hat C_i = \frac{\sum_a \alpha_a\, C(a, i) / M(a, i)}
        {\sum_a \alpha_a\, C(a, 1) / M(a, 1)}

    is consistent for any positive :math:`\alpha`. Items that one of the two slots never
    showed get no weight. "equal_variance" and "min_variance" are

    .. math:: \alpha_a = \frac{M(a, i) M(a, 1)}{M(a, i) + M(a, 1)}, \qquad
        \alpha_a = \frac{2 M(a, i) M(a, 1)}
        {M(a, i)\, s_{a1}^2 + M(a, 1)\, s_{ai}^2},

    with :math:`s^2 = p (1 - p)` and :math:`p = (C + 1) / (M + 2)`. The second is the
    best weighting if :math:`s^2` is known (Theorem 7 of the paper). If it is estimated
    from the same clicks, items that were clicked by chance get less weight. This lowers
    the rates of slots with few clicks most. So its coefficients are too low for items
    with few impressions. Slates must be composed independently of the context: `fit`
    warns if the context predicts the items of the first slots. The items of a page
    share its context, so the bootstrap draws pages.

    References
    ----------
    .. [1] Langford, J., Strehl, A., & Wortman, J. (2008). Exploration scavenging.
       ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import AttentionDecay, SlateLogs
    >>> slate = [[0, 1], [1, 0]] * 2
    >>> clicks = [[1, 0], [1, 1], [1, 0], [1, 0]]
    >>> logs = SlateLogs(np.zeros((4, 1)), slate, None, slot_reward=clicks)
    >>> AttentionDecay(method="uniform").fit(logs).coefficients_
    array([1.  , 0.25])
    """

    _parameter_constraints: dict = {
        "method": [StrOptions({"equal_variance", "min_variance", "uniform", "naive"})],
        "n_bootstrap": [Interval(Integral, 2, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        method: str = "equal_variance",
        n_bootstrap: int | None = None,
        random_state: RandomSeed = None,
    ) -> None:
        self.method = method
        self.n_bootstrap = n_bootstrap
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, logs, y=None):
        """Compare the click rates of items in different slots.

        Parameters
        ----------
        logs : SlateLogs
            Pages with rewards per slot.
        y : array-like of shape (n_rounds,), default=None
            Ignored.

        Returns
        -------
        self : AttentionDecay

        Raises
        ------
        ValueError
            If the logs have no `slot_reward`, or rewards other than 0 and 1 where
            variances of clicks are needed.
        """
        if not isinstance(logs, SlateLogs):
            raise TypeError(
                f"logs must be SlateLogs, got {kind_of(logs)}. Build them with "
                "SlateLogs(context, slate, reward, slot_reward=...)."
            )
        check_y(y, len(logs), type(self).__name__)
        pages = make_pages(logs)
        self._check_rewards(pages)
        self.n_slots_ = logs.n_slots
        self.n_features_in_ = logs.n_features
        self.coefficients_ = self._coefficients_of(pages)
        self.predictability_ = item_predictability(logs)
        for due in self.predictability_.warnings():
            warnings.warn(due, stacklevel=3)
        unknown = np.flatnonzero(np.isnan(self.coefficients_))
        if unknown.size:
            warnings.warn(
                SupportWarning(
                    f"the attention of slot {unknown[0]} is NaN: no item was "
                    f"clicked there that was also shown in slot 0 ({unknown.size} "
                    "such slots). Use more pages, or leave the slot out.",
                    int(unknown.size),
                ),
                stacklevel=3,  # the decorator is one
            )
        if self.n_bootstrap is not None:
            rng = check_random_state(self.random_state)
            seeds = seeds_of(rng, self.n_bootstrap)
            replicates = bootstrap(self._of_sample, pages, seeds)
            self.standard_errors_ = replicates.std(axis=0, ddof=1)
            self._warn_of_failures(replicates)
        return self

    def _warn_of_failures(self, replicates):
        """Warn where a coefficient is known, and its standard error is not."""
        failed = np.isnan(replicates).sum(axis=0) * ~np.isnan(self.coefficients_)
        if not failed.any():
            return
        slot = int(failed.argmax())
        warnings.warn(
            LowOverlapWarning(
                f"the standard error of slot {slot} is NaN: in {failed[slot]} of "
                f"{self.n_bootstrap} bootstrap samples its attention cannot be "
                f"estimated, for want of clicks ({np.count_nonzero(failed)} such "
                "slots). Use more pages, or leave the slot out.",
                int(failed[slot]),
            ),
            stacklevel=4,
        )

    def _check_rewards(self, pages):
        if self.method == "min_variance" and not (pages.reward == 1).all():
            found = pages.reward[pages.reward != 1][0]
            raise ValueError(
                "method='min_variance' needs clicks of 0 or 1, and slot_reward "
                f"holds {found:.6g}. Use method='equal_variance'."
            )

    def _of_sample(self, pages, rng):
        """Coefficients of a bootstrap sample of pages."""
        return self._coefficients_of(pages, draw_pages(rng, len(pages)))

    def _coefficients_of(self, pages, omega=None):
        """Coefficients of pages with weights."""
        return attention_coefficients(pages.tables(omega), self.method)
