# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Cross-validation in which every candidate has its own share of training rounds."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from skope_ope._sklearn import HasMethods, Interval, StrOptions, fit_context
from skope_ope.logs._shelf import give_shelf
from skope_ope.selection._candidates import check_evaluator, fitted_part, is_adaptive
from skope_ope.selection._in_order import in_order
from skope_ope.selection._one_standard_error import one_standard_error, split_losses
from skope_ope.selection._search import EvaluatorSearch
from skope_ope.selection._validators import common_horizon, validator_for


class OPESearchCV(EvaluatorSearch):
    r"""Search over evaluators by cross-validated off-policy evaluation [1]_.

    Like `GridSearchCV` with `EvaluatorScorer`, but the share of rounds (of groups,
    where `logs.group` is set) on which a candidate is fitted is its own,

    .. math:: \frac{\operatorname{Var}(h)}{\operatorname{Var}(h)
        + \operatorname{Var}(\text{validator})},

    (variances on all rounds; one half where they are unknown or zero), which makes both
    parts equally noisy: the validator gets more rounds to judge a candidate of little
    variance. Read more in the :ref:`User Guide <selection>`.

    Parameters
    ----------
    estimator : evaluator or Pipeline
        What is cloned for every candidate. The last step of a Pipeline may itself be
        a parameter: ``{"evaluator": [IPS(), DoublyRobust()]}``.
    param_grid : dict or list of dicts
        See scikit-learn's `ParameterGrid`.
    scoring : EvaluatorScorer
        It holds the policy and the validator.
    n_splits : int, default=10
        Random splits per candidate.
    refit : bool or callable, default=one_standard_error
        How the best candidate is chosen and that it is fitted on all rounds, as in
        `GridSearchCV`.
    n_jobs : int, default=None
        Splits that are scored in parallel.
    error_score : "raise" or float, default=nan
        Score of a candidate that cannot be fitted.
    random_state : int, RandomState instance or None, default=None
        Seeds the splits.

    Attributes
    ----------
    best_index_ : int
        The choice.
    best_params_ : dict
        Its parameters.
    best_estimator_ : evaluator or Pipeline
        It itself, fitted on all rounds.
    best_score_ : float
        Its mean score, minus the loss.
    cv_results_ : dict
        As that of `GridSearchCV`, with `train_share` by candidate.
    n_splits_ : int
        Splits per candidate.
    refit_time_ : float
        Seconds of the last fit.
    scorer_ : EvaluatorScorer
        Used by `score`.

    See Also
    --------
    SlopeSearch : Without a validator, for candidates ordered by their bias.

    Notes
    -----
    Because the share differs, so does what the expected loss adds to the squared bias.
    With a common share, `GridSearchCV` over ``ShuffleSplit(10, train_size=0.5)``, the
    validator's part is the same for all candidates.

    References
    ----------
    .. [1] Cief, M., Kveton, B., & Kompan, M. (2025). Cross-validated off-policy
       evaluation. AAAI.

    Examples
    --------
    >>> from skope_ope import EvaluatorScorer, IPS, OPESearchCV
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> search = OPESearchCV(IPS(), {"cmax": [None, 1.0]}, n_splits=5, random_state=0,
    ...                      scoring=EvaluatorScorer(policy)).fit(logs)
    >>> search.best_params_
    {'cmax': None}
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit"])],
        "param_grid": [dict, list],
        "scoring": "no_validation",
        "n_splits": [Interval(Integral, 1, None, closed="left")],
        "refit": ["boolean", callable],
        "n_jobs": [Integral, None],
        "error_score": [StrOptions({"raise"}), Real],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator,
        param_grid,
        *,
        scoring=None,
        n_splits=10,
        refit=one_standard_error,
        n_jobs=None,
        error_score=np.nan,
        random_state=None,
    ):
        self.estimator = estimator
        self.param_grid = param_grid
        self.scoring = scoring
        self.n_splits = n_splits
        self.refit = refit
        self.n_jobs = n_jobs
        self.error_score = error_score
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, logs, y=None):
        """Score every candidate on its own splits, choose, and fit on all rounds.

        Parameters
        ----------
        logs : BanditLogs or SlateLogs
            All rounds.
        y : None
            Ignored by the conventions of scikit-learn; must be None.

        Returns
        -------
        self : OPESearchCV
        """
        from sklearn.model_selection import GridSearchCV

        scorer = self._checked_scorer()
        self._check_logs(logs, y)
        units = logs.group if logs.group is not None else np.arange(len(logs))
        if len(np.unique(units)) < 2:
            what = "round" if logs.group is None else "group"
            raise ValueError(f"a split needs two {what}s, the logs have one.")
        candidates = self._candidates()
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        shares = self._shares(scorer, logs, candidates)

        def splits(share):
            return shares_of(share, logs, self.n_splits, seed)

        class Search(GridSearchCV):
            def _run_search(self, evaluate_candidates):
                for parameters, share in zip(candidates, shares, strict=True):
                    evaluate_candidates([parameters], cv=splits(share))

        search = Search(
            self.estimator,
            self.param_grid,
            scoring=scorer,
            n_jobs=self.n_jobs,
            refit=self.refit,
            cv=splits(0.5),
            error_score=self.error_score,
        ).fit(logs)
        for name, value in vars(search).items():
            if name.endswith("_") and not name.startswith("_"):
                setattr(self, name, value)
        self.cv_results_["train_share"] = shares
        if not hasattr(self, "best_score_") and hasattr(self, "best_index_"):
            losses = split_losses(self.cv_results_)
            self.best_score_ = -float(losses[:, self.best_index_].mean())
        return self

    def _shares(self, scorer, logs, candidates):
        """Share of training rounds of every candidate."""
        rows = np.arange(len(logs))
        logs = logs[rows]
        if scorer.cache:  # fits that candidates share, until this function ends
            give_shelf(logs)
        learns, known, shares = is_adaptive(scorer.policy), {}, []
        for parameters in candidates:
            one = clone(self.estimator).set_params(**clone(parameters, safe=False))
            share = 0.5
            try:
                candidate, _ = fitted_part(one.fit(logs))
                check_evaluator(candidate)
                horizon = common_horizon(candidate) if learns else None
                if horizon not in known:
                    given = logs if logs.propensity is not None else candidate.logs_
                    validator = validator_for(given, scorer.validator, horizon)
                    known[horizon] = _variance(validator.fit(given), scorer.policy)
                own = _variance(candidate, scorer.policy)
                total = own + known[horizon]
                if np.isfinite(total) and total > 0:
                    share = own / total
            except Exception:
                if isinstance(self.error_score, str):
                    raise
                # it fails on the splits, too, and there it is reported
            shares.append(share)
        return np.array(shares)


def shares_of(share, logs, n_splits, seed):
    """Random splits whose training parts hold a share of the rounds, or of the groups.

    Parameters
    ----------
    share : float
        Between 0 and 1; each part gets at least one.
    logs : BanditLogs or SlateLogs
        All rounds; those of a group stay together.
    n_splits, seed : int
        How many splits, and what makes them the same for all candidates.

    Returns
    -------
    splits : splitter
        With rows in order.
    """
    from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, check_cv

    n = len(logs) if logs.group is None else len(np.unique(logs.group))
    n_train = int(np.clip(round(share * n), 1, n - 1))
    sizes = {"train_size": n_train, "test_size": n - n_train}
    if logs.group is None:
        return in_order(ShuffleSplit(n_splits, random_state=seed, **sizes))
    splitter = in_order(GroupShuffleSplit(n_splits, random_state=seed, **sizes))
    return check_cv(list(splitter.split(logs, groups=logs.group)))


def _variance(evaluator, policy):
    return evaluator._result(policy, None, None).standard_error ** 2
