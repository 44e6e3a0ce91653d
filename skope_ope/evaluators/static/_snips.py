# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Self-normalised inverse propensity scoring."""

from skope_ope.evaluators.core import _functions
from skope_ope.evaluators.core._rounds import weighted_reward
from skope_ope.evaluators.static._ips import IPS


class SNIPS(IPS):
    r"""Self-normalised inverse propensity scoring [1]_.

    .. math:: \hat V = \frac{\sum_i \min(w_i, c_{max})\, r_i}
        {\sum_i \min(w_i, c_{max})}

    The value stays within the range of the rewards. If you add a constant to all
    rewards, the value changes by that constant. Its bias vanishes as 1/n. The standard
    error is that of a ratio.

    Parameters
    ----------
    cmax : float or "auto", default=None
        Upper bound on the importance weights. `None` keeps them as they are; "auto"
        chooses for every policy, see `IPS`.

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    IPS : Divides by the number of rounds.
    SNDR : The same for the doubly robust correction.

    References
    ----------
    .. [1] Swaminathan, A., & Joachims, T. (2015). The self-normalized estimator for
       counterfactual learning. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import SNIPS, BanditLogs
    >>> logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0], [0.5] * 4)
    >>> SNIPS().fit(logs).score(np.tile([0.25, 0.75], (4, 1)))
    0.5
    """

    combine = staticmethod(_functions.ratio)
    shift_with = 1  # the sum of the weights

    def terms(self, rounds):
        w = self.weights(rounds.w)
        return weighted_reward(rounds, w), w

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.on_policy_mean = tags.constant_reward = True
        tags.consistent = self.cmax is None
        return tags
