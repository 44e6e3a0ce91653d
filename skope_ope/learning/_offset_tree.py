# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The offset tree: binary classifiers that play a tournament of actions."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from skope_ope._sklearn import Interval, StrOptions
from skope_ope.evaluators.static._action_scores import residual
from skope_ope.learning._logs_policy import (
    LogsPolicy,
    NoEvidence,
    centre,
)
from skope_ope.learning._tournament import Match, TrainingRounds
from skope_ope.policies._base import check_some_available, explore, greedy, n_rows
from skope_ope.policies._classifier_actor import ClassifierActor, with_inputs_of

if TYPE_CHECKING:
    from typing import Any, Literal


class OffsetTree(LogsPolicy):
    r"""Learn a tournament of actions from logs [1]_.

    Actions are the leaves of a balanced binary tree, in the order of `logs.actions`.
    At each node a binary classifier learns which of the winners of its two sides is
    better. It learns from the rounds whose logged action :math:`a_i` won its side:

    .. math:: y_i = 1[r_i > b] \text{ for } a_i, \quad 1[r_i < b] \text{ for the other
        side}, \qquad \text{with weight } |r_i - b| / p_i.

    The offset :math:`b` turns a bad reward into evidence for the other side. Training
    and acting take about log2(n_actions) classifiers a round. Read more in the
    :ref:`User Guide <learning>`.

    Parameters
    ----------
    classifier : classifier, default=None
        Any scikit-learn classifier. One that takes no `sample_weight` is fitted on
        rows drawn in proportion to the weights. `None`: that of `ClassifierPolicy`.
    offset : {"midrange", "mean", "median"} or float, default="midrange"
        A larger reward is evidence for the logged action, a smaller one for the other
        side. "midrange" is the middle of `reward_range`, or of the rewards if no range
        is known. For 0/1 rewards it is 1/2, as in the paper. "mean" and "median" have
        less variance if good rewards are rare. No offset adds a bias.
    epsilon : float, default=0.0
        Share of uniform exploration over all (offered) actions, in [0, 1].
    temperature : float, default=None
        `None` takes the winner of the tournament. A positive number draws the winner of
        every match by the softmax of the classifier's log-probabilities.

    Attributes
    ----------
    tree_ : Match
        The final; `tree_.sides` are the matches before it, `tree_.classifier` decides.
    offset_ : float
        The offset that is used.
    classes_ : ndarray of shape (n_actions,)
        Action labels of the logs.
    n_features_in_ : int
        Number of features of the contexts.

    See Also
    --------
    IPSPolicy : One classifier of all actions from the same estimated rewards.

    Notes
    -----
    The loss against the best policy is at most n_actions - 1 times that of the binary
    classifiers. No reduction to binary classification does better [1]_. The weights
    need only the propensity of the logged action. A factor that depends on the context
    alone, such as the logger's probability of both winners, would not change a perfect
    classifier. If only one side is offered, it wins without a match. Actions that were
    never logged are not in the tree. The first of them is taken if nothing else is
    offered.

    References
    ----------
    .. [1] Beygelzimer, A., & Langford, J. (2009). The offset tree for learning with
       partial labels. KDD.

    Examples
    --------
    >>> from skope_ope import DoublyRobust, OffsetTree
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(4000, n_actions=8, random_state=0)
    >>> train, test = logs[:2000], logs[2000:]
    >>> policy = OffsetTree().fit(train)
    >>> bool(DoublyRobust().fit(test).score(policy) > test.reward.mean() + 0.1)
    True
    """

    _parameter_constraints: dict = {
        **ClassifierActor._parameter_constraints,
        "offset": [
            StrOptions({"mean", "median", "midrange"}),
            Interval(Real, None, None, closed="neither"),
        ],
    }
    _get_classifier = ClassifierActor._get_classifier

    def __init__(
        self,
        classifier: Any = None,
        *,
        offset: Literal["midrange", "mean", "median"] | float = "midrange",
        epsilon: float = 0.0,
        temperature: float | None = None,
    ) -> None:
        self.classifier = classifier
        self.offset = offset
        self.epsilon = epsilon
        self.temperature = temperature

    def _fit(self, logs):
        self.offset_ = centre(logs, self.offset)
        gain = residual(logs.reward, self.offset_) / logs.propensity
        if logs.sample_weight is not None:
            gain = gain * logs.sample_weight
        self.tree_ = Match(np.flatnonzero(logs.action_counts))
        rounds = TrainingRounds(logs.context, logs.action_index, gain, logs.available)
        self.tree_.train(self._get_classifier(), rounds, np.arange(len(logs)))
        if self.tree_.sides and not self.tree_.trained:
            raise NoEvidence(self)

    def _proba(self, X, available):
        proba = np.zeros((n_rows(X), len(self.classes_)))
        rows = np.arange(len(proba))
        if available is not None:
            check_some_available(available)
            in_tree = available[:, self.tree_.codes].any(axis=1)
            proba[~in_tree] = greedy(proba[~in_tree], 0.0, available[~in_tree])
            rows = np.flatnonzero(in_tree)
        mass = np.ones(len(rows))
        self.tree_.descend(X, rows, mass, available, self.temperature, proba)
        return explore(proba, self.epsilon, available)

    def __sklearn_tags__(self):
        return with_inputs_of(self._get_classifier(), super().__sklearn_tags__())
