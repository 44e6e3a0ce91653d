# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
Systems that recognise digits, one after the other, and the logs that they make
===============================================================================
"""

from typing import NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from skope_ope import BanditLogs


class Part(NamedTuple):
    """The rounds of one logger.

    Attributes
    ----------
    proba : ndarray of shape (n_images, n_actions)
        What it does with every image.
    n_rounds : int
        How many rounds it has.
    mean_reward : ndarray of shape (n_images, n_actions), default=None
        In its time; default `Digits.mean_reward`.
    share : ndarray of shape (n_images,), default=None
        How often each image is met in its time; default equally often.
    """

    proba: np.ndarray
    n_rounds: int
    mean_reward: np.ndarray | None = None
    share: np.ndarray | None = None


class Digits:
    """A world of images. An action names a digit.

    Half of the images teach the systems, the others are the contexts of the rounds.

    Parameters
    ----------
    n_actions : int, default=10
        Number of digits.

    Attributes
    ----------
    labels : ndarray of shape (n_images,)
        The right digit of every image that is a context.
    context : ndarray of shape (n_images, 16)
        What the rounds show of it.
    mean_reward : ndarray of shape (n_images, n_actions)
        See `rewards`, with 0.8 for the right digit.
    """

    def __init__(self, n_actions=10):
        X, y = load_digits(n_class=n_actions, return_X_y=True)
        X, half = X / 4, len(y) // 2
        learn, rest = np.split(np.random.RandomState(0).permutation(len(y)), [half])
        self.n_actions, self.labels = n_actions, y[rest]
        self.context = PCA(16, random_state=0).fit(X[learn]).transform(X[rest])
        self.mean_reward = self.rewards(0.8)
        self._learn, self._rest = (X[learn], y[learn]), X[rest]

    def rewards(self, right):
        """Return the probability of a reward: `right` for the right digit, else 0.2."""
        hit = np.arange(self.n_actions) == self.labels[:, None]
        return np.where(hit, right, 0.2)

    def system(self, n_images, sharpness, exploration):
        """Return what a classifier does that has learned from some images.

        It draws from the softmax of its log-probabilities times `sharpness`, and
        takes a random action in a share of the rounds.
        """
        X, y = self._learn
        classifier = LogisticRegression(C=0.01, max_iter=500)
        classifier.fit(X[:n_images], y[:n_images])
        score = sharpness * classifier.predict_log_proba(self._rest)
        return (1 - exploration) * softmax(score, axis=1) + exploration / self.n_actions

    def draw(self, parts, rng):
        """Return logs of several loggers, one after the other, and their images."""
        sizes = [part.n_rounds for part in parts]
        n = len(self.labels)
        image = [rng.choice(n, part.n_rounds, p=part.share) for part in parts]
        image, logger = np.concatenate(image), np.repeat(range(len(parts)), sizes)
        proba = np.stack([part.proba for part in parts])
        own = proba[logger, image]
        action = (own.cumsum(axis=1) < rng.random_sample((len(image), 1))).sum(axis=1)
        action = np.minimum(action, self.n_actions - 1)
        mean = np.stack(
            [
                self.mean_reward if p.mean_reward is None else p.mean_reward
                for p in parts
            ]
        )[logger, image, action]
        logs = BanditLogs(
            self.context[image],
            action,
            (rng.random_sample(len(image)) < mean).astype(float),
            actions=range(self.n_actions),
            logger=logger,
            logger_proba=proba[:, image, action].T,
            reward_range=(0, 1),
        )
        return logs, image


def rmse(error):
    """Return the root mean squared error and half its 95% interval."""
    square = error**2
    value = np.sqrt(square.mean())
    return value, 1.96 * square.std(ddof=1) / np.sqrt(len(square)) / (2 * value)


def in_errors(values):
    """Return a mean over its standard error."""
    return values.mean() / (values.std(ddof=1) / np.sqrt(len(values)))
