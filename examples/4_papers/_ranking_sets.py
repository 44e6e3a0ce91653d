# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
What the examples with slates share: graded documents, and models of their grades
=================================================================================
"""

import numpy as np
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Lasso
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from skope_ope import PlackettLuceSlatePolicy, RankingPolicy, UniformSlatePolicy
from skope_ope.datasets import RankingWorld, load_ranking


def graded_documents(data_home):
    """Return features, grades, queries and two groups of columns: "title", "body".

    Cranfield: abstracts with grades 0 to 4 for 225 questions. Where there is no folder
    of data, digits stand for documents: a query is an image, its documents are 50
    others, graded by the digit and by how alike the images are; the features are the
    similarities of single rows of pixels, those of the upper half being the "title".
    """
    if data_home:
        data = load_ranking("cranfield", data_home=data_home)
        names = np.array(data.feature_names)
        columns = {
            part: np.flatnonzero(np.char.endswith(names, f"_{part}"))
            for part in ("title", "body")
        }
        return data.data, data.target.astype(float), data.qid, columns
    images, digit = load_digits(return_X_y=True)
    rng = np.random.RandomState(0)
    query = rng.permutation(len(images))[:100]
    document = np.array([rng.choice(len(images), 50, replace=False) for _ in query])
    pairs = images[query][:, None], images[document]
    rows = [part.reshape(*part.shape[:-1], 8, 8) for part in pairs]
    similarity = (rows[0] * rows[1]).sum(axis=-1)
    norms = [np.sqrt((part**2).sum(axis=-1)) for part in rows]
    X = np.concatenate([similarity / (norms[0] * norms[1] + 1), norms[1]], axis=-1)
    whole = (pairs[0] * pairs[1]).sum(axis=-1)
    whole /= np.linalg.norm(pairs[0], axis=-1) * np.linalg.norm(pairs[1], axis=-1)
    alike = digit[query][:, None] == digit[document]
    grades = alike * np.digitize(whole, [-1, 0.75, 0.85, 0.92])
    upper, lower = np.arange(4), np.arange(4, 8)
    columns = {"title": np.r_[upper, 8 + upper], "body": np.r_[lower, 8 + lower]}
    qid = np.repeat(np.arange(100), 50)
    return X.reshape(-1, 16), grades.ravel().astype(float), qid, columns


def best_of_query(scores, qid, m):
    """Return a mask of the m rows of every query with the largest scores."""
    order = np.lexsort((-scores, qid))
    sizes = np.unique(qid, return_counts=True)[1]
    rank = np.arange(len(qid)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    best = np.zeros(len(qid), dtype=bool)
    best[order[rank < m]] = True
    return best


def weights(evaluator, logs, policy):
    """Return the weights of the rounds: what they add where every reward is 1."""
    ones = logs.replace(reward=np.ones(len(logs)))
    found = evaluator.fit(ones).evaluate(policy).round_values
    return np.where(np.abs(found) < 1e-9, 0.0, found)  # rounding is no match


# %%
# Figure 2 of the slate paper
# ---------------------------

UNIFORM = "uniform"  # a logger; others are (model of the title, alpha)
METRICS, KINDS = ("ndcg", "err"), ("tree", "lasso")


def grade_models(documents):
    """Return a tree and a lasso of the grades, from title or body: four models."""
    X, y, _, columns = documents
    learners = {
        "tree": DecisionTreeRegressor(
            max_leaf_nodes=30, min_samples_leaf=20, random_state=0
        ),
        "lasso": make_pipeline(StandardScaler(), Lasso(0.01)),
    }
    return {
        (kind, part): make_pipeline(
            make_column_transformer(("passthrough", columns[part])), clone(learner)
        ).fit(X, y)
        for part in columns
        for kind, learner in learners.items()
    }


class RankingSetting:
    """A logger, a world for either metric, and the targets' slates of every query.

    Candidates are numbered as the logger ranks them. So it draws from the same
    distribution in all queries, whose second moments are inverted once.

    Parameters
    ----------
    documents : tuple
        As `graded_documents` returns them.
    models : dict
        As `grade_models` returns them.
    shape : tuple of int
        Candidates of a query, the best ones by the tree of the title, and slots.
    logger : "uniform" or tuple
        A kind of model and alpha: weights 2 ** (-alpha * floor(log2(rank))).
    """

    def __init__(self, documents, models, shape, logger):
        X, y, qid, _ = documents
        m, n_slots = shape
        scores = models["tree", "title"].predict(X)
        rows = best_of_query(scores, qid, m)
        self.logger = UniformSlatePolicy(n_slots)
        if logger != UNIFORM:
            kind, alpha = logger
            scores = models[kind, "title"].predict(X)
            self.logger = PlackettLuceSlatePolicy.from_ranks(
                np.arange(1, m + 1), n_slots, alpha=alpha
            )
        options = {"n_slots": n_slots, "scores": scores[rows], "max_grade": 4}
        self.worlds = {
            metric: RankingWorld(X[rows], y[rows], qid[rows], metric=metric, **options)
            for metric in METRICS
        }
        self.world = self.worlds["ndcg"]
        self.slates = {kind: self.ranked(models[kind, "body"]) for kind in KINDS}

    def ranked(self, model):
        """Return the slates that a model ranks best."""
        policy = RankingPolicy(FrozenEstimator(model), self.world.n_slots)
        return policy.deterministic_slates(self.world.queries)

    def rewards(self, metric, kind):
        """Return the reward of a target's slate in every query."""
        every = np.arange(self.world.n_queries)
        return self.worlds[metric].reward(every, self.slates[kind])
