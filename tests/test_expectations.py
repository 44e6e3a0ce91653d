# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What people who know scikit-learn expect, row by row, and the test of each row.

A test of this file is named by its name, others by their file below tests/.

estimator contract: test_common.py::test_scikit_learns_contract
parameter validation: evaluators/static/test_formulas.py::test_wrong_parameters
parameter validation, one module:
    packaging/test_imports.py::test_private_names_of_scikit_learn_are_imported_in_one_module
array and frame validation:
    logs/test_validation.py::test_bad_fields_are_refused
tags: evaluators/static/test_formulas.py::test_tags
tags through searches: test_y.py::test_searches_are_what_they_search_over
contract tests of our own: test_common.py::test_contract_of_evaluators_check_by_check
HTML of estimators: evaluators/core/test_base.py::test_html
HTML links lead to our pages: test_sklearn.py::test_all_estimators_lead_to_our_pages
HTML of logs is short: test_the_html_of_many_rounds_is_short
frames in: logs/test_frames.py::test_every_field_comes_from_its_column
frame to reward model:
    reward_models/test_design.py::test_values_do_not_change_by_labels_or_containers
set_output of steps: propensities/test_steps.py::test_steps_of_ones_own
set_output of models inside: test_models_inside_follow_the_output_setting
metadata requests: test_y.py::test_logs_and_offers_are_no_metadata
metadata routing switched on: test_with_routing_switched_on
weights are routed: propensities/test_models_given.py::test_weights_are_routed
displays: displays/test_axes.py::test_plot_into_own_axes
curves of scikit-learn: selection/test_evaluator_scorer.py::test_displays
clone, frozen estimators:
    reward_models/test_sources.py::test_unfitted_models_are_no_fitted_ones
nothing to fit: test_what_has_nothing_to_learn_is_fitted
callbacks: test_progress.py::test_every_fold_is_a_subtask
progress without callbacks: evaluators/test_summarize.py::test_progress_is_told
array API, switched on: test_array_api_dispatch
array API, tag: test_no_estimator_claims_the_array_api
sample_weight: test_common.py::test_contract_of_evaluators
random_state, seeds: test_seeds_leave_the_state_of_numpy_alone
random_state, generators: test_generators_are_refused_as_seeds
parallelism: logs/test_row_container.py::test_processes
out of core: test_what_learns_part_by_part
persistence: test_persistence.py::test_estimators
persistence of results: test_persistence.py::test_results
typing, annotations: packaging/test_types.py::test_public_signatures_are_annotated
typing, checked: packaging/test_types.py::test_mypy_rejects_slips
stubs: test_no_stubs_and_no_recipes
docs stack: test_pages_may_link_to_scikit_learn
notebooks: engines/test_notebook.py::test_nothing_fails_and_nothing_warns
packaging: packaging/test_packaging.py::test_setup_cfg_holds_only_command_defaults
oldest versions: packaging/test_packaging.py::test_oldest_versions_are_the_lower_bounds
oldest optional versions:
    packaging/test_packaging.py::test_oldest_frames_and_figures_are_the_lower_bounds
conda: test_no_stubs_and_no_recipes
optional packages:
    packaging/test_without_optional.py::test_what_needs_more_names_the_extra
logging: test_nothing_is_logged_or_printed
warnings point at the line of the user:
    test_messages.py::test_warnings_point_at_the_line_of_the_user
warning classes: test_warnings_are_user_warnings_with_a_number
errors name the parameter: test_errors_name_the_parameter
errors name row and remedy: test_bad_input.py::test_fields_that_are_not_finite
result objects: evaluators/core/test_policy_value.py::test_nothing_is_set_on_a_result
tuning of evaluators:
    selection/test_scored_splits.py::test_results_are_those_of_scikit_learn
tuning of policies: selection/test_policy_scorer.py::test_searches
permutation_test_score: test_permuted_labels_change_nothing
changelog: packaging/test_packaging.py::test_changes_are_fragments_of_a_known_type
show_versions: utils/test_discovery.py::test_versions_of_what_is_installed
data sets: test_data_sets_are_made_loaded_or_fetched
data sets are fetched by the user:
    datasets/test_load.py::test_missing_data_are_explained
graphics cards: test_no_module_needs_torch
"""

import ast
import inspect
import logging
import os
import re
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression, Ridge, SGDRegressor
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_validate,
    permutation_test_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

import skope_ope as ope
from skope_ope.datasets import make_bandit_logs
from skope_ope.utils import all_evaluators
from tests.packaging._tree import MODULES, ROOT, tracked_files

ROWS = re.findall(r"^(\w[^:]*):\s+(\S+)$", __doc__, re.M)
LOGS, POLICY, _ = make_bandit_logs(2000, random_state=0, return_truth=True)
DR = ope.DoublyRobust(reward_model=Ridge())
EVALUATORS = dict(all_evaluators())


@pytest.mark.parametrize("row, test", ROWS, ids=[row for row, _ in ROWS])
def test_every_row_has_its_test(row, test):
    file, _, name = test.rpartition("::")
    text = (ROOT / "tests" / (file or "test_expectations.py")).read_text()
    assert re.search(rf"^def {name}\(", text, re.M), test


def test_the_html_of_many_rounds_is_short():
    logs = make_bandit_logs(20_000, random_state=0)
    assert len(logs._repr_html_()) < 10_000
    assert len(DR.fit(logs)._repr_html_()) < 100_000  # with scikit-learn's style


def test_models_inside_follow_the_output_setting():
    """A pipeline with frames between its steps predicts what one with arrays does."""
    pytest.importorskip("pandas")
    frames = make_pipeline(StandardScaler().set_output(transform="pandas"), Ridge())
    arrays = make_pipeline(StandardScaler(), Ridge())
    fits = (ope.DoublyRobust(reward_model=one).fit(LOGS) for one in (frames, arrays))
    assert_allclose(*(fit.score(POLICY) for fit in fits))


def test_with_routing_switched_on():
    scoring, grid = ope.EvaluatorScorer(POLICY), {"epsilon": [0.0, 0.5]}
    policy = ope.ClassifierPolicy(LogisticRegression())
    search = GridSearchCV(policy, grid, scoring=ope.PolicyScorer(ope.IPS()), cv=3)

    def scores():
        # scikit-learn 1.6 needs a dict
        done = cross_validate(DR, LOGS, scoring=scoring, cv=3, params={})
        yield done["test_score"]
        yield make_pipeline(ope.PropensityEstimator(), DR).fit(LOGS).score(POLICY)
        yield search.fit(LOGS).cv_results_["mean_test_score"]

    off = list(scores())
    with sklearn.config_context(enable_metadata_routing=True):
        on = list(scores())
    for one, other in zip(off, on, strict=True):
        assert_allclose(one, other)


def test_what_has_nothing_to_learn_is_fitted():
    check_is_fitted(ope.UniformPolicy())
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(ope.ClassifierPolicy())


DISPATCHED = """
import sklearn
sklearn.set_config(array_api_dispatch=True)
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_validate, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skope_ope import *
from skope_ope.datasets import make_bandit_logs

logs, policy, _ = make_bandit_logs(2000, random_state=0, return_truth=True)
model = make_pipeline(StandardScaler(), Ridge())
evaluator = DoublyRobust(reward_model=model)
scoring = EvaluatorScorer(policy)
evaluate(policy, logs)
compare_policies({"new": policy}, logs)
OPESearchCV(evaluator, {"cmax": [1.0, 5.0]}, scoring=scoring, cv=3).fit(logs)
print(evaluator.fit(logs).score(policy))

for refused in (
    lambda: train_test_split(logs),
    lambda: cross_validate(evaluator, logs, scoring=scoring, error_score="raise"),
):
    try:
        refused()
    except TypeError as error:
        assert "config_context(array_api_dispatch=False)" in str(error), error
    else:
        raise AssertionError("not refused")
    with sklearn.config_context(array_api_dispatch=False):
        refused()
"""


@pytest.mark.thorough
def test_array_api_dispatch():
    """Values are the same; scikit-learn's splitters refuse logs with the remedy."""
    if find_spec("sklearn.externals.array_api_compat") is None:
        pytest.importorskip("array_api_compat")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", DISPATCHED],
        env={**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    model = make_pipeline(StandardScaler(), Ridge())
    value = ope.DoublyRobust(reward_model=model).fit(LOGS).score(POLICY)
    assert float(done.stdout) == pytest.approx(value)


def test_no_estimator_claims_the_array_api():
    for estimator in (DR, ope.ClassifierPolicy(), ope.PropensityEstimator()):
        assert not get_tags(estimator).array_api_support


def test_seeds_leave_the_state_of_numpy_alone():
    calls = [
        f"{path.name}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in ("seed", "set_state")
        and ast.unparse(node.value) in ("np.random", "numpy.random", "random")
    ]
    assert calls == []
    before = np.random.get_state()  # noqa: NPY002
    table = ope.evaluate(POLICY, LOGS, random_state=0)
    table["DoublyRobust"].confidence_interval(method="bootstrap", random_state=0)
    ope.RejectionSampling(random_state=0).fit(LOGS).evaluate(ope.UniformPolicy())
    ope.audit(POLICY, LOGS, random_state=0)
    after = np.random.get_state()  # noqa: NPY002
    assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]


def made(name, **parameters):
    """Return an evaluator with an array for all that it needs."""
    known = inspect.signature(EVALUATORS[name]).parameters
    required = [k for k, one in known.items() if one.default is one.empty]
    arrays = dict.fromkeys(required, np.array([1.0, 0.5]))
    return EVALUATORS[name](**{**arrays, **parameters})


def test_generators_are_refused_as_seeds():
    """As everywhere in scikit-learn, by a sentence that names what is taken."""
    value, how = (
        ope.IPS().fit(LOGS).evaluate(POLICY),
        {"random_state": np.random.default_rng(0)},
    )
    drawing = [name for name in EVALUATORS if hasattr(made(name), "random_state")]
    for call in (
        *(lambda name=name: made(name, **how).fit(LOGS) for name in drawing),
        lambda: ope.evaluate(POLICY, LOGS, **how),
        lambda: ope.audit(POLICY, LOGS, **how),
        lambda: make_bandit_logs(20, **how),
        lambda: value.confidence_interval(method="bootstrap", **how),
    ):
        with pytest.raises(ValueError, match=r"RandomState"):
            call()


def test_what_learns_part_by_part():
    assert hasattr(ope.ActionRewardModel(SGDRegressor()), "partial_fit")
    partial = [name for name, cls in EVALUATORS.items() if hasattr(cls, "partial_fit")]
    assert partial == []  # sums of parts are added: skope_ope.summarize


def test_no_stubs_and_no_recipes():
    names = [name.split("/")[-1] for name in tracked_files()]
    assert [name for name in names if name.endswith(".pyi")] == []
    assert not {"meta.yaml", "recipe.yaml", "environment.yml"} & set(names)


def test_pages_may_link_to_scikit_learn():
    conf = (ROOT / "docs" / "conf.py").read_text()
    assert '"sphinx.ext.intersphinx"' in conf
    assert '"sklearn": ("https://scikit-learn.org/stable", None)' in conf


def test_nothing_is_logged_or_printed(capsys):
    assert importing("logging") == []
    known = set(logging.root.manager.loggerDict)
    ope.evaluate(POLICY, LOGS)
    ope.compare_policies({"new": POLICY}, LOGS)
    ope.audit(POLICY, LOGS)
    ope.OPESearchCV(DR, {"cmax": [1.0]}, scoring=ope.EvaluatorScorer(POLICY), cv=2).fit(
        LOGS
    )
    assert capsys.readouterr() == ("", "")
    assert not {name for name in logging.root.manager.loggerDict if "skope" in name}
    assert known <= set(logging.root.manager.loggerDict)


def test_warnings_are_user_warnings_with_a_number():
    classes = [one for _, one in inspect.getmembers(ope.exceptions, inspect.isclass)]
    ours = [one for one in classes if one.__module__ == ope.exceptions.__name__]
    found = [one for one in ours if issubclass(one, Warning)]
    assert len(found) > 10
    for one in found:
        assert issubclass(one, ope.exceptions.OPEWarning) and issubclass(
            one, UserWarning
        )
        assert one("some text", 0.5).value == 0.5


class Anything:
    """What no parameter takes."""


@pytest.mark.parametrize("name", sorted(EVALUATORS))
def test_errors_name_the_parameter(name):
    for parameter in inspect.signature(EVALUATORS[name]).parameters:
        evaluator = made(name, **{parameter: Anything()})
        with pytest.raises((TypeError, ValueError)) as caught:
            evaluator.fit(LOGS)
        assert parameter in str(caught.value)


def test_permuted_labels_change_nothing():
    """Evaluators and policies take y for what it is, so no p-value comes of it."""
    for estimator, scoring in (
        (DR, ope.EvaluatorScorer(POLICY)),
        (ope.ClassifierPolicy(), ope.PolicyScorer(ope.SNIPS())),
    ):
        score, permuted, p_value = permutation_test_score(
            estimator, LOGS, LOGS.action, scoring=scoring, cv=KFold(2), n_permutations=2
        )
        assert_allclose(permuted, score)
        assert p_value == 1


def test_data_sets_are_made_loaded_or_fetched():
    kinds = {"make": "random_state", "load": "return_X_y", "fetch": "data_home"}
    found = set()
    for name in ope.datasets.__all__:
        kind = name.split("_")[0]
        if kind in kinds:
            found.add(kind)
            known = inspect.signature(getattr(ope.datasets, name)).parameters
            assert kinds[kind] in known or kind == "load", name
    assert found == set(kinds)


def importing(names):
    pattern = re.compile(rf"^\s*(import|from) ({names})\b", re.M)
    return [path.name for path in MODULES if pattern.search(path.read_text())]


def test_no_module_needs_torch():
    assert importing("torch|tensorflow|jax") == []
