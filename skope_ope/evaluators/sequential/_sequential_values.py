# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of sequential evaluators on logs that are read part by part."""


def sequential_values(
    policies,
    evaluators,
    lazy,
    *,
    sources=None,
    n_jobs=None,
    verbose=0,
):
    """Walk through a lazy log once for every policy, evaluator and part of it.

    Parameters
    ----------
    policies : dict
        Policies by name.
    evaluators : dict
        Sequential evaluators by name (see the tag `order_dependent`); they need not be
        fitted.
    lazy : LazyLogs
        Files in the order of time; a frame has no order and is refused.
    sources : dict, default=None
        By the name of the evaluator, what predicts the rewards (`bind(logs)`), where
        it has a reward model that was fitted. What is not there is made here:
        `reward_model=None`, numbers, columns and FrozenEstimators need no fit.
    n_jobs : int, default=None
        Walks at a time.
    verbose : int, default=0
        Whether to tell the progress.

    Returns
    -------
    values : dict
        By evaluator a dict by policy of `SummedSequentialValue`, with the warnings of
        each in `.warnings`: nothing is warned here.
    """
    raise NotImplementedError
