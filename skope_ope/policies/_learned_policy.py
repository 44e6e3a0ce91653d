# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A policy learned on a part of the rounds, to be evaluated on the others."""

import numpy as np

from skope_ope.logs._model_features import check_features
from skope_ope.policies._classifier_policy import ClassifierPolicy

LEARNERS = ("logistic", "hist")
FEWEST = 4  # rounds that can be divided


def divide(logs, train_share=0.5, random_state=0):
    """Return the rounds to learn from and the others, groups kept together."""
    from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

    if len(logs) < FEWEST:
        raise ValueError(
            f"a policy cannot be learned and evaluated on {len(logs)} round(s); at "
            f"least {FEWEST} are needed."
        )
    splitter = ShuffleSplit if logs.group is None else GroupShuffleSplit
    split = splitter(1, train_size=train_share, random_state=random_state)
    train, test = next(split.split(np.arange(len(logs)), groups=logs.group_index))
    return logs[np.sort(train)], logs[np.sort(test)]


def learn_policy(logs, learner="logistic", epsilon=0.0, random_state=0):
    """Learn a policy from rewards of any sign."""
    check_features(logs, f"the learner {learner!r}", takes_missing=learner == "hist")
    if learner == "hist":
        from sklearn.ensemble import HistGradientBoostingClassifier

        classifier = HistGradientBoostingClassifier(random_state=random_state)
    else:
        from sklearn.linear_model import LogisticRegression

        classifier = LogisticRegression(max_iter=1000)
    low = logs.reward.min()
    if low < 0:  # which action is best does not depend on where rewards start
        logs = logs.replace(reward=logs.reward - low)
    return ClassifierPolicy(classifier, epsilon=epsilon).fit(logs)
