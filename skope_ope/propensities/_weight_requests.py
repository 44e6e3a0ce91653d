# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Row weights by scikit-learn's metadata routing, where the user has switched it on."""

from sklearn.base import clone
from sklearn.utils.metadata_routing import get_routing_for_object

from skope_ope._sklearn import weight_request


def routes_weights(model):
    """Tell whether a model's requests let row weights reach a fit.

    Parameters
    ----------
    model : estimator
        It is not written to. Requests that are not set are those of `with_requests`.

    Returns
    -------
    routes : bool or None
        None where the model takes no part in routing.
    """
    try:
        routing = get_routing_for_object(with_requests(clone(model)))
    except NotImplementedError:  # as meta-estimators of scikit-learn say it
        return None
    return bool(routing.consumes("fit", ["sample_weight"]))


def with_requests(model):
    """Set the requests for row weights that the user has left open.

    What predicts asks for them in `fit`, as without routing: the last step of a
    Pipeline, the estimator of a search, the members of an ensemble. What transforms
    does not, and nothing does in `score`. Requests that are set stay.

    Parameters
    ----------
    model : estimator
        Is written to.

    Returns
    -------
    model : estimator
    """
    for part, predicts in _parts(model, True):
        for method, asks in ("fit", predicts), ("score", False):
            if weight_request(part, method) == "open":
                getattr(part, f"set_{method}_request")(sample_weight=asks)
    return model


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
            if hasattr(inner, "get_params") or hasattr(inner, "set_score_request"):
                yield from _parts(inner, predicts and not name.startswith("transform"))
