# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of policies by evaluators, computed by the library behind a lazy frame.

Every policy and every model is a column, and the formulas of the evaluators become
expressions: nothing comes to Python but the sums, or one row per group.
"""

from copy import copy
from dataclasses import replace
from math import ceil, log2
from numbers import Real

import numpy as np

from skope_ope.evaluators._frame_counts import FrameCounts, counts_of
from skope_ope.evaluators._frame_pass import N_GROUPS, About, FramePass
from skope_ope.evaluators._frame_query import INSTEAD
from skope_ope.evaluators._part_sums import PartSums, bare
from skope_ope.evaluators.core._functions import mean
from skope_ope.evaluators.core._part_pass import offset_of
from skope_ope.evaluators.core._summary import N_BUCKETS
from skope_ope.evaluators.scavenging import ExplorationScavenging
from skope_ope.evaluators.static._base import StaticEvaluator, check_all_actions


def frame_sums(
    policies,
    evaluators,
    lazy,
    *,
    sources=None,
    shares=None,
    by=None,
    n_groups=N_GROUPS,
    n_buckets=N_BUCKETS,
):
    """Return the sums of policies by evaluators over the rounds of a lazy frame.

    Parameters
    ----------
    policies : dict
        Names of columns, by the name of the policy: one column with the probabilities
        of the logged actions, or a name of `lazy.columns` with one column per action.
    evaluators : dict
        Evaluators by name; they need no fit.
    lazy : LazyLogs
        Logs whose `frame` is a lazy frame.
    sources : dict, default=None
        Numbers and names of columns (one per action) that stand for reward models, or
        their sources, by the name of the evaluator; otherwise the evaluators' own.
    shares : dict, default=None
        Share of every logger in the rounds, by label, where their mixture enters.
        `None`: those of the rounds.
    by : str or list of str, default=None
        Columns by whose labels the same sums are wanted, too.
    n_groups : int, default=100000
        Clusters that are told apart; of more, hash buckets are made.
    n_buckets : int, default=1000
        Number of these.

    Returns
    -------
    sums : PartSums

    Raises
    ------
    TypeError
        If a policy or a model is no column, an evaluator is no formula of columns, or
        the library behind the frame lacks a function.
    ValueError
        If rows are not what they should be: they are counted, and none is left out.
    """
