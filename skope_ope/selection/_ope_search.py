# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A search on logs in which every distinct model is fitted once a split."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from numbers import Integral, Real
from time import perf_counter
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skope_ope._progress import fit_progress, step
from skope_ope._sklearn import (
    CallbackSupport,
    Estimator,
    HasMethods,
    Interval,
    StrOptions,
    fit_context,
    fitted_part,
)
from skope_ope._types import ArrayLike, RandomSeed, Splitter, SplitterLike
from skope_ope.evaluators.core._wrapped import bare
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._folds import folds_of
from skope_ope.logs._validation import check_y
from skope_ope.logs.lazy._lazy_logs import kind_of
from skope_ope.selection._candidates import (
    fits_by_model,
    is_adaptive,
    is_logs,
    refuse_others,
    with_keys,
    with_params,
)
from skope_ope.selection._scored_splits import (
    check_any_score,
    chosen,
    cv_results,
    report_failures,
    scored,
)
from skope_ope.selection._scorers import (
    EvaluatorScorer,
    common_horizon,
    validator_for,
)


def in_order(splitter: SplitterLike) -> Splitter:
    """Sort the rows of every split, for evaluators that need the order of the log.

    `ShuffleSplit` and others give the rows of a part in any order, but a history must
    be simulated in the order of time. `EvaluatorScorer` also sorts the rows, but this
    takes another fit. `in_order` avoids that fit. Read more in the :ref:`User Guide
    <sequential_search>`.

    Parameters
    ----------
    splitter : int, splitter or iterable of (train, test)
        What you would pass as `cv`. An int is `KFold`.

    Returns
    -------
    splitter : splitter
        Gives the same parts, sorted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import ShuffleSplit
    >>> from skope_ope import in_order
    >>> cv = in_order(ShuffleSplit(1, train_size=0.5, random_state=0))
    >>> [(train, test)] = cv.split(np.zeros((6, 1)))
    >>> train, test
    (array([0, 3, 4]), array([1, 2, 5]))
    """
    if isinstance(splitter, InOrder):
        return splitter
    if isinstance(splitter, (int, np.integer)) and not isinstance(splitter, bool):
        from sklearn.model_selection import KFold

        return InOrder(KFold(int(splitter)))
    if not hasattr(splitter, "split") or isinstance(splitter, (str, type)):
        if isinstance(splitter, (str, type)) or not isinstance(splitter, Iterable):
            raise TypeError(
                "in_order takes a splitter, a number of folds or pairs (train, test), "
                f"got {splitter!r}."
            )
        from sklearn.model_selection import check_cv

        splitter = check_cv(list(splitter))
    return InOrder(splitter)


class InOrder:
    """A splitter that sorts the rows of another one's parts."""

    def __init__(self, splitter):
        self.splitter = splitter

    def split(self, X, y=None, groups=None):
        """Yield sorted rows of the training and of the test part."""
        for train, test in self.splitter.split(X, y, groups):
            yield _sorted_rows(train), _sorted_rows(test)

    def get_n_splits(self, X=None, y=None, groups=None):
        """Return the number of splits."""
        return self.splitter.get_n_splits(X, y, groups)

    def __repr__(self):
        return f"in_order({self.splitter!r})"


def _sorted_rows(rows):
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else np.sort(rows)


# -- the choice of a candidate by its score less one standard error --------------------


def one_standard_error(cv_results: Mapping[Any, Any], metric: str | None = None) -> int:
    r"""Choose by the mean score minus one standard error, for `refit=`.

    Over the scores :math:`s_k` of the K splits of a search the choice maximises

    .. math:: \bar s - \sqrt{\frac{1}{K (K - 1)} \sum_k (s_k - \bar s)^2}.

    Scores of `PolicyScorer` are values. The choice has the greatest value minus one
    standard error, so it is less often best by chance. Scores of `EvaluatorScorer` are
    losses with a minus sign. The choice has the smallest upper bound of its loss [1]_.
    This is not the textbook rule, which takes the simplest model within one standard
    error of the best. A candidate that failed in a split is not chosen.

    Parameters
    ----------
    cv_results : dict
        `cv_results_` of a search.
    metric : str, default=None
        Name of the score, if a search has several: pass
        ``refit=functools.partial(one_standard_error, metric="...")``.

    Returns
    -------
    best_index : int
        Index of the chosen candidate; if several tie, the first one.

    Raises
    ------
    ValueError
        If every candidate failed, or `metric` is needed or unknown.

    Notes
    -----
    `cv_results_["std_test_score"]` divides by K, not by K - 1: it is too small by
    :math:`\sqrt{(K - 1) / K}`, and is not used.

    With a callable `refit`, scikit-learn's searches have no `best_score_`: it is
    ``cv_results_["mean_test_score"][best_index_]``.

    References
    ----------
    .. [1] Cief, M., Kveton, B., & Kompan, M. (2025). Cross-validated off-policy
       evaluation. AAAI.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import one_standard_error
    >>> results = {"split0_test_score": np.array([-0.0, -0.2]),
    ...            "split1_test_score": np.array([-0.4, -0.2])}
    >>> one_standard_error(results)
    1
    """
    losses = split_losses(cv_results, metric)
    bound = upper_bounds(losses)
    best = int(np.argmin(bound))
    if not np.isfinite(bound[best]):
        split = int(np.flatnonzero(~np.isfinite(losses[:, 0]))[0])
        first = cv_results["params"][0] if "params" in cv_results else "the first"
        raise ValueError(
            f"all {len(bound)} candidates failed in some split, so none can be "
            f"chosen: the score of {first} in split {split} is "
            f"{-losses[split, 0]:.4g}. The warnings of the search say why a score is "
            "NaN (OPESearchCV repeats the first of them here), and "
            "error_score='raise' shows errors."
        )
    return best


def split_losses(cv_results, metric=None):
    """Return minus the scores of every split, shape (n_splits, n_candidates)."""
    names = sorted(
        key.removeprefix("split0_test_")
        for key in cv_results
        if key.startswith("split0_test_")
    )
    if metric is None and len(names) == 1:
        [metric] = names
    if metric not in names:
        raise ValueError(
            f"the search has the scores {names}, not metric={metric!r}. Name the "
            "score to choose by: refit=functools.partial(one_standard_error, "
            "metric=...)."
        )
    columns = []
    while f"split{len(columns)}_test_{metric}" in cv_results:
        column = cv_results[f"split{len(columns)}_test_{metric}"]
        columns.append(-np.asarray(column, dtype=float))
    return np.stack(columns)


def upper_bounds(losses):
    """Mean plus one standard error of the losses; infinite where one is missing."""
    n_splits = len(losses)
    failed = ~np.isfinite(losses).all(axis=0)
    losses = np.where(failed, 0.0, losses)
    bound = losses.mean(axis=0)
    if n_splits > 1:
        bound = bound + losses.std(axis=0, ddof=1) / np.sqrt(n_splits)
    return np.where(failed, np.inf, bound)


# -- A search on logs in which every distinct model is fitted once a split -------------

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
