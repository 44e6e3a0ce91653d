# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The bootstrap of pages: a page is drawn with all its items, which share a context."""

from functools import partial

import numpy as np

from skope_ope._parallel import run_tasks

LARGEST_SEED = 2**31 - 1


def seeds_of(random_state, n_bootstrap):
    """Return one seed per bootstrap sample."""
    return random_state.randint(LARGEST_SEED, size=n_bootstrap).tolist()


def draw_pages(rng, n_pages, clusters=None):
    """How often each of the pages is in a bootstrap sample."""
    if clusters is not None:
        return draw_pages(rng, int(clusters.max()) + 1)[clusters]
    drawn = rng.randint(n_pages, size=n_pages)
    return np.bincount(drawn, minlength=n_pages).astype(float)


def bootstrap(statistic, pages, seeds):
    """Return a statistic of bootstrap samples of pages, one row per seed."""
    # Every sample has a seed of its own, so the result does not depend on how many
    # processes share the work (`joblib.parallel_config(n_jobs=...)`).
    return np.array(
        run_tasks([partial(_replicate, statistic, pages, s) for s in seeds])
    )


def _replicate(statistic, pages, seed):
    return statistic(pages, np.random.RandomState(seed))
