# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What diagnostics say of reward models that were fitted to a log in parts."""


def model_facts(sources):
    """Get how many rounds models were fitted to and how, by name of the evaluator."""
    return {
        name: source.facts
        for name, source in sources.items()
        if hasattr(source, "facts")
    }


def both_models(one, two):
    """Return the facts of the models of two summaries: each has its own rounds."""
    return {
        name: _both(one.get(name), two.get(name))
        for name in dict.fromkeys([*one, *two])
    }


def _both(one, two):
    if one is None or two is None:
        return one or two
    ways = [one["model_fitted_to"], *two["model_fitted_to"].split("; ")]
    ways = dict.fromkeys("; ".join(ways).split("; "))
    return {
        "model_rounds": one["model_rounds"] + two["model_rounds"],
        "model_fitted_to": "; ".join(ways),
    }
