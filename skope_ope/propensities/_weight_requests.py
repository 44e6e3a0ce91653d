# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Row weights by scikit-learn's metadata routing, where the user has switched it on."""

from sklearn.base import clone
from sklearn.utils.metadata_routing import get_routing_for_object

from skope_ope._sklearn import scorer_weighs, weight_request


def routes_weights(model):
    """Tell whether a model's requests let row weights reach a fit."""
    try:
        routing = get_routing_for_object(with_requests(clone(model)))
    except RuntimeError:  # not routed yet: it refuses weights, too, while routing is on
        return False
    return bool(routing.consumes("fit", ["sample_weight"]))


def with_requests(model):
    """Set the requests for row weights that the user has left open."""
    # What predicts asks for them in `fit`, as without routing: the last step of a
    # Pipeline, the estimator of a search, the members of an ensemble. What transforms
    # does not. Scores ask for them where they can. Requests that are set stay.
    for part, predicts in _parts(model, True):
        if weight_request(part, "fit") == "open":
            part.set_fit_request(sample_weight=predicts)
        if weight_request(part, "score") == "open":
            part.set_score_request(sample_weight=True)
        scoring = getattr(part, "scoring", None)
        if scoring is not None and hasattr(part, "cv"):
            part.set_params(scoring=_with_request(scoring))
    return model


def _with_request(scoring):
    """Return scorers in place of their names, which ask for weights if they can."""
    if isinstance(scoring, str):
        from sklearn.metrics import get_scorer, get_scorer_names

        if scoring not in get_scorer_names():  # a word of the model's own
            return scoring
        scoring = get_scorer(scoring)
    if isinstance(scoring, dict):
        return {name: _with_request(one) for name, one in scoring.items()}
    if isinstance(scoring, (list, tuple, set)):
        return {name: _with_request(name) for name in scoring}
    if hasattr(scoring, "set_score_request") and weight_request(scoring, "score") in (
        None,
        "open",
    ):
        scoring.set_score_request(sample_weight=scorer_weighs(scoring))
    return scoring


def _parts(model, predicts):
    """Yield a model and those inside of it, and whether it predicts the target."""
    if type(model).__name__ == "FrozenEstimator":  # the user's own: it is not copied
        return
    yield model, predicts
    if hasattr(model, "steps"):
        for number, (_, step) in enumerate(model.steps, 1):
            yield from _parts(step, predicts and number == len(model.steps))
        return
    if not hasattr(model, "get_params") or isinstance(model, type):
        return
    for name, value in model.get_params(deep=False).items():
        several = value if isinstance(value, (list, tuple)) else [value]
        for one in several:
            inner = one[1] if isinstance(one, tuple) and len(one) > 1 else one
            if hasattr(inner, "get_params"):
                yield from _parts(inner, predicts and not name.startswith("transform"))
