# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One model of the reward per action, trained on the rounds that took it."""

from contextlib import nullcontext
from functools import cache, partial

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state

from skope_ope._sklearn import has_method
from skope_ope.logs._concat import stack_rows
from skope_ope.logs._row_container import own
from skope_ope.policies._base import n_rows
from skope_ope.propensities._encoded import fit_encoded
from skope_ope.propensities._model_outputs import class_probabilities, predictions_of

MANY_ROUNDS = 10_000  # of one action, where threads may pay


class ArmModels:
    """Models of the reward, one clone per action, and the rounds they learn from."""

    # An action whose model cannot be trained yet is estimated without contexts: by
    # (successes + 1) / (pulls + 2) where a classifier has not seen both rewards, by the
    # mean over all actions where a regressor has no rounds.

    def __init__(self, model, n_actions, random_state, owner):
        self.classifies = is_classifier(model)
        if self.classifies and not has_method(model, "predict_proba"):
            raise TypeError(
                f"{owner} needs P(reward = 1), but {type(model).__name__} has no "
                "predict_proba. Use one that has (SGDClassifier with "
                "loss='log_loss'), or wrap it in CalibratedClassifierCV."
            )
        rng = check_random_state(random_state)
        names = _without_seed(model)
        self.models = [_seeded(clone(model), names, rng) for _ in range(n_actions)]
        self.trained = [False] * n_actions
        self.owner = owner
        self._online = hasattr(model, "partial_fit")
        self._contexts = [[] for _ in range(n_actions)]
        self._rewards = [[] for _ in range(n_actions)]
        self._new = set()
        # (pulls, sum of rewards): so far, and as of the last training
        self._sums = np.zeros((n_actions, 2))
        self._known = np.zeros((n_actions, 2))

    def add(self, action, X, reward):
        """Keep rounds of one action for the next training."""
        if self.classifies:
            # rewards come one by one, where a set is faster than an array
            other = set(reward.tolist()) - {0, 1}
            if other:
                raise ValueError(
                    f"{self.owner} learns 0/1 rewards with a classifier, got "
                    f"{min(other):.6g}. Make them 0/1, or use a policy that learns any "
                    "(LinUCB, or EpochGreedy with a regressor)."
                )
            reward = reward.astype(int)
        self._contexts[action].append(X)
        self._rewards[action].append(reward)
        self._sums[action] += len(reward), reward.sum()
        self._new.add(int(action))

    def train(self):
        """Train the models of the actions that have new rounds."""
        with _one_thread(max(self._sums[:, 0])):
            self._train()

    def _train(self):
        for action in sorted(self._new):
            X = stack_rows(self._contexts[action])
            reward = np.concatenate(self._rewards[action])
            pulls, total = self._known[action] = self._sums[action]
            if self.classifies and not 0 < total < pulls:
                self._keep(action, X, reward)
                continue
            model = self.models[action]
            if self._online:
                classes = {"classes": np.array([0, 1])} if self.classifies else {}
                model.partial_fit(own(X, model), reward, **classes)
                self._contexts[action], self._rewards[action] = [], []
            else:
                self.models[action] = fit_encoded(partial(_fit, X, reward), model, X)
                self._keep(action, X, reward)
            self.trained[action] = True
        self._new = set()

    def _keep(self, action, X, reward):
        self._contexts[action], self._rewards[action] = [X], [reward]

    def estimates(self, X):
        """Estimate the reward of every action, as of the last training."""
        pulls, totals = self._known.T
        if self.classifies:
            unconditional = (totals + 1) / (pulls + 2)
        else:
            unconditional = np.full(len(pulls), totals.sum() / max(pulls.sum(), 1))
        estimates = np.tile(unconditional, (n_rows(X), 1))
        for action, model in enumerate(self.models):
            if self.trained[action]:
                estimates[:, action] = (
                    class_probabilities(model, X)[:, 1]
                    if self.classifies
                    else predictions_of(model, X)
                )
        return estimates


def _one_thread(n_rounds):
    """Get a context in which BLAS and OpenMP use one thread, where fits are small."""
    # Waking the others takes many times longer than such a fit.
    return _threads().limit(limits=1) if n_rounds < MANY_ROUNDS else nullcontext()


@cache  # looking for the libraries takes longer than many fits
def _threads():
    from threadpoolctl import ThreadpoolController  # comes with scikit-learn

    return ThreadpoolController()


def _without_seed(model):
    """List the nested random states that are None."""
    params = sorted(model.get_params(deep=True).items())
    return [
        name
        for name, value in params
        if value is None and name.split("__")[-1] == "random_state"
    ]


def _seeded(model, names, rng):
    """Give these nested random states a number."""
    seeds = {name: int(rng.randint(2**31 - 1)) for name in names}
    return model.set_params(**seeds)


def _fit(X, reward, model):
    return model.fit(own(X, model), own(reward, model))
