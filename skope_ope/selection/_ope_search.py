# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A search on logs in which every distinct model is fitted once a split."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from numbers import Integral, Real
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import MetaEstimatorMixin
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skope_ope._inside import fitted_part
from skope_ope._progress import fit_progress, step
from skope_ope._sklearn import (
    CallbackSupport,
    Estimator,
    HasMethods,
    Interval,
    StrOptions,
    fit_context,
)
from skope_ope.evaluators.core._wrapped import bare
from skope_ope.logs._folds import folds_of
from skope_ope.logs._validation import check_y
from skope_ope.logs.lazy._kind_of import kind_of
from skope_ope.selection._candidates import is_adaptive, is_logs, refuse_others
from skope_ope.selection._evaluator_scorer import (
    EvaluatorScorer,
    common_horizon,
    validator_for,
)
from skope_ope.selection._refit_rules import in_order, one_standard_error
from skope_ope.selection._scored_splits import (
    check_any_score,
    chosen,
    cv_results,
    report_failures,
    scored,
)
from skope_ope.selection._shared_fits import fits_by_model, with_keys, with_params

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Literal, Self

    from skope_ope._types import ArrayLike, RandomSeed, SplitterLike
    from skope_ope.logs._bandit_logs import BanditLogs
    from skope_ope.logs._slate_logs import SlateLogs

# -- what searches of our own share with GridSearchCV ----------------------------------


class BaseSearch(CallbackSupport, MetaEstimatorMixin, Estimator):
    """Base class of searches on logs."""

    __metadata_request__fit = {"logs": UNUSED}
    __metadata_request__score = {"logs": UNUSED}

    def _candidates(self):
        from sklearn.model_selection import ParameterGrid

        grid = self.param_grid
        if not isinstance(grid, Mapping) and not len(grid):
            raise ValueError("param_grid is empty: name at least one candidate.")
        return with_keys(self.estimator, list(ParameterGrid(grid)))

    def _check_logs(self, logs, y):
        if not is_logs(logs):
            raise TypeError(
                f"{type(self).__name__} searches on logs, got {kind_of(logs)}."
            )
        check_y(y, len(logs), type(self).__name__)

    def score(self, logs: BanditLogs | SlateLogs) -> float:
        """Score of the chosen candidate on other logs.

        Parameters
        ----------
        logs : BanditLogs or SlateLogs
            Held-out rounds; not a policy: its value is
            `search.best_estimator_.score(policy)`.

        Returns
        -------
        score : float
            By the scorer of the search: for evaluators, minus the squared distance
            from the validator on these logs.
        """
        check_is_fitted(self)
        return self.scorer_(self.best_estimator_, logs)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self):
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        # it is what it searches over, as scikit-learn's searches are
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = deepcopy(inner.classifier_tags)
        tags.input_tags = deepcopy(inner.input_tags)
        return tags


# --------------------------------------------------------------------------------------


class OPESearchCV(BaseSearch):
    r"""Search over evaluators or policies that fits every distinct model once a split.

    It has the parameters and attributes of `GridSearchCV`, except scores of the
    training parts, several metrics at once and `pre_dispatch`. Some parameters are used
    only after the reward model (``q``, ``cmax``, ``tau``, ``lam``). Candidates that
    differ only in these share the fitted model and its predictions on every split.
    Policies share the evaluator. Nothing is shared between splits, and scores do not
    depend on `n_jobs`. Read more in the :ref:`User Guide <selection>`.

    Parameters
    ----------
    estimator : evaluator, policy or Pipeline
        It is cloned for every candidate. The last step of a Pipeline may be a
        parameter: ``{"evaluator": [IPS(), DoublyRobust()]}``.
    param_grid : dict or list of dicts
        See scikit-learn's `ParameterGrid`.
    scoring : EvaluatorScorer, PolicyScorer or callable
        ``scoring(estimator, logs)``, of a fitted candidate on the held-out part.
    cv : int, splitter or iterable of (train, test), default=None
        Splits for all candidates. An int is `KFold` without shuffling; with several
        loggers every part has rounds of each. If the logs have groups, it is
        `GroupKFold`, and other splitters get the groups, too. Rows are sorted if a
        candidate needs them in order. `None` is 5. With `EvaluatorScorer` it is random
        splits with a different share of training rounds for every candidate [1]_, see
        Notes.
    n_splits : int, default=10
        Random splits per candidate with ``cv=None``.
    refit : bool or callable, default=one_standard_error
        Whether the best candidate is fitted on all rounds; a callable chooses it. As in
        `GridSearchCV`.
    n_jobs : int, default=None
        Number of parallel tasks. A task is a distinct model on a split, or, in a search
        over policies, a split.
    error_score : "raise" or float, default=nan
        Score of a candidate that cannot be fitted or scored.
    verbose : int, default=0
        1 prints the number of fits, 2 prints every score. With scikit-learn 1.9,
        `set_callbacks(ProgressBar())` shows the tasks that are done.
    random_state : int, RandomState instance or None, default=None
        Seeds the random splits.

    Attributes
    ----------
    best_index_ : int
        Index of the chosen candidate.
    best_params_ : dict
        Its parameters.
    best_estimator_ : evaluator, policy or Pipeline
        The chosen candidate, fitted on all rounds.
    best_score_ : float
        Its mean score.
    cv_results_ : dict
        As in `GridSearchCV`. If the shares differ, it also has `train_share` by
        candidate. The time of a shared fit counts for the first candidate that uses it.
    n_splits_ : int
        Splits per candidate.
    refit_time_ : float
        Seconds of the last fit.
    scorer_ : callable
        Used by `score`.

    See Also
    --------
    SlopeSearch : Without a validator, for candidates ordered by their bias.

    Notes
    -----
    With ``cv=None`` and `EvaluatorScorer` every candidate is fitted on another share of
    the rounds (of the groups, if `logs.group` is set),

    .. math:: \frac{\operatorname{Var}(h)}{\operatorname{Var}(h)
        + \operatorname{Var}(\text{validator})},

    (variances on all rounds; one half if they are unknown or zero). This makes both
    parts equally noisy: if a candidate has a small variance, the validator gets more
    rounds. Because the shares differ, the expected loss adds a different variance to
    each squared bias. Models are shared only between equal shares. With a common share,
    ``cv=ShuffleSplit(10, train_size=0.5)``, the validator adds the same variance for
    all candidates.

    References
    ----------
    .. [1] Cief, M., Kveton, B., & Kompan, M. (2025). Cross-validated off-policy
       evaluation. AAAI.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from skope_ope import DRos, EvaluatorScorer, OPESearchCV
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> search = OPESearchCV(DRos(reward_model=Ridge()), {"lam": [0.1, 10, 1000]},
    ...                      scoring=EvaluatorScorer(policy), cv=5).fit(logs)
    >>> search.n_splits_, len(search.cv_results_["params"])
    (5, 3)
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit"])],
        "param_grid": [dict, list],
        "scoring": "no_validation",
        "cv": ["cv_object"],
        "n_splits": [Interval(Integral, 1, None, closed="left")],
        "refit": ["boolean", callable],
        "n_jobs": [Integral, None],
        "error_score": [StrOptions({"raise"}), Real],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        scoring: Callable[..., Any] | None = None,
        cv: SplitterLike | None = None,
        n_splits: int = 10,
        refit: bool | Callable[..., Any] = one_standard_error,
        n_jobs: int | None = None,
        error_score: Literal["raise"] | float = np.nan,
        verbose: int = 0,
        random_state: RandomSeed = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.scoring = scoring
        self.cv = cv
        self.n_splits = n_splits
        self.refit = refit
        self.n_jobs = n_jobs
        self.error_score = error_score
        self.verbose = verbose
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, logs: BanditLogs | SlateLogs, y: ArrayLike | None = None) -> Self:
        """Score every candidate on its splits, choose, and fit on all rounds.

        Parameters
        ----------
        logs : BanditLogs or SlateLogs
            All rounds.
        y : array-like of shape (n_rounds,), default=None
            For splitters that ask for it, such as `StratifiedKFold`; ignored
            otherwise: the logs hold actions and rewards.

        Returns
        -------
        self : OPESearchCV

        Raises
        ------
        ValueError
            If no candidate has a score in all splits; it gives the first reason.
        """
        self._check_scoring()
        self._check_logs(logs, y)
        with fit_progress(self, logs, more=bool(self.refit)) as progress:
            self._search(logs, y, progress)
        return self

    def _search(self, logs, y, progress):
        candidates = self._candidates()
        plan, shares = self._plan(logs, y, candidates)
        n_splits = len(plan[0][1])
        if self.verbose:
            n_models = sum(len({c.key for c in some}) for some, _ in plan)
            print(  # noqa: T201
                f"Fitting {n_models} distinct models of {len(candidates)} candidates "
                f"on each of {n_splits} splits, {n_models * n_splits} fits in all"
            )
        outcomes = scored(
            self.estimator,
            self.scoring,
            logs,
            plan,
            n_jobs=self.n_jobs,
            error_score=self.error_score,
            verbose=self.verbose,
            progress=progress,
        )
        report_failures(outcomes, self.error_score)
        results = cv_results([one.params for one in candidates], outcomes)
        if shares is not None:
            results["train_share"] = shares
        check_any_score(results, outcomes)
        best = chosen(self.refit, results)
        params, start = results["params"][best], perf_counter()
        if self.refit:
            best_one = with_params(self.estimator, params)
            with step(self, logs, "refit", best_one):
                self.best_estimator_ = best_one.fit(logs)
            self.refit_time_ = perf_counter() - start
        self.best_index_, self.best_params_ = best, params
        self.best_score_ = float(results["mean_test_score"][best])
        self.cv_results_, self.n_splits_ = results, n_splits
        self.scorer_, self.multimetric_ = self.scoring, False

    def _check_scoring(self):
        if callable(self.scoring) and not isinstance(self.scoring, type):
            return
        raise TypeError(
            "OPESearchCV needs scoring=EvaluatorScorer(policy), got "
            f"{type(self.scoring).__name__}: an evaluator's error is known only for a "
            "given policy. To search over policies, pass "
            "scoring=PolicyScorer(evaluator)."
        )

    def _plan(self, logs, y, candidates):
        """Return lists of candidates with their splits, and their own shares."""
        if self.cv is not None or not isinstance(self.scoring, EvaluatorScorer):
            folds = folds_of(self.cv, logs, y)
            if any(one.order_dependent for one in candidates):
                folds = list(in_order(folds).split(logs))
            return [(candidates, folds)], None
        check_units(logs)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        shares = own_shares(
            self.estimator, self.scoring, logs, candidates, self.error_score
        )
        by_size = {}  # candidates that are fitted on as many rounds have equal splits
        for one, share in zip(candidates, shares, strict=True):
            by_size.setdefault(n_train_of(share, logs), []).append(one)
        plan = []
        for some in by_size.values():
            splits = shares_of(shares[some[0].number], logs, self.n_splits, seed)
            plan.append((some, list(splits.split(logs))))
        return plan, shares


# -- splits in which every candidate has its own share of training rounds --------------


def own_shares(estimator, scorer, logs, candidates, error_score):
    """Return the share of training rounds of every candidate."""
    learns, known, shares = is_adaptive(scorer.policy), {}, []
    fits = fits_by_model(estimator, logs, candidates)
    for one in candidates:
        share = 0.5
        try:
            candidate, _ = fitted_part(fits[one.key].fit(one.params))
            refuse_others(candidate)
            horizon = common_horizon(candidate) if learns else None
            if horizon not in known:
                given = logs if logs.propensity is not None else candidate.logs_
                validator, given = bare(scorer.validator, given, tune=True)
                validator = validator_for(given, validator, horizon)
                known[horizon] = _squared_error(validator.fit(given), scorer.policy)
            own = _squared_error(candidate, scorer.policy)
            total = own + known[horizon]
            if np.isfinite(total) and total > 0:
                share = own / total
        except Exception:
            if isinstance(error_score, str):
                raise
        shares.append(share)
    return np.array(shares)


def _n_units(logs):
    return len(logs) if logs.group is None else logs.n_groups


def check_units(logs):
    """Raise where there is nothing to split."""
    if _n_units(logs) < 2:
        what = "round" if logs.group is None else "group"
        raise ValueError(f"a split needs two {what}s, the logs have one.")


def n_train_of(share, logs):
    """Return how many rounds, or groups, a share of them is; at least one."""
    n = _n_units(logs)
    return int(np.clip(round(share * n), 1, n - 1))


def shares_of(share, logs, n_splits, seed):
    """Random splits whose training parts hold a share of rounds, or groups."""
    from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, check_cv

    n = _n_units(logs)
    n_train = n_train_of(share, logs)
    sizes = {"train_size": n_train, "test_size": n - n_train}
    if logs.group is None:
        return in_order(ShuffleSplit(n_splits, random_state=seed, **sizes))
    splitter = in_order(GroupShuffleSplit(n_splits, random_state=seed, **sizes))
    return check_cv(list(splitter.split(logs, groups=logs.group_index)))


def _squared_error(evaluator, policy):
    return evaluator._result(policy, None, None).standard_error ** 2
