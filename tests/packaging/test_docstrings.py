# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import inspect

import pytest

from tests.packaging._tree import (
    is_of_protocol,
    named,
    public_objects,
    pyproject,
)

validate = pytest.importorskip("numpydoc.validate").validate


# Their parameters are given by evaluators, or are those of scikit-learn's class.
NOT_BUILT_BY_USERS = {
    "skope_ope.evaluators.LoggerOverlap",
    "skope_ope.evaluators.PolicyValue",
    "skope_ope.evaluators.ValueTable",
    "skope_ope.base.EvaluatorTags",
}


def documented_names():
    """Public objects and their public methods, those of other packages left out."""
    for name, value in public_objects().values():
        yield name
        if not inspect.isclass(value):
            continue
        for attribute, member in vars(value).items():
            if attribute.startswith("_") or is_of_protocol(value, attribute):
                continue
            member = getattr(member, "__func__", member)
            inner = getattr(member, "fget", None) or member
            if getattr(inner, "__module__", "").startswith("skope_ope"):
                yield f"{name}.{attribute}"


@pytest.mark.parametrize("name", sorted(documented_names()))
def test_docstring(name):
    checks = set(pyproject()["tool"]["numpydoc_validation"]["checks"])
    assert "all" in checks
    value = named(name.removeprefix("skope_ope."))
    inherits = inspect.isclass(value) and "__init__" not in vars(value)
    if inherits or name in NOT_BUILT_BY_USERS:
        checks.add("PR01")  # they stand in the base class, or nobody gives them
    # a folder has the name of its function: numpydoc would take the folder
    found = validate({"skope_ope.audit": "skope_ope.audit.audit"}.get(name, name))

    errors = [f"{code}: {text}" for code, text in found["errors"] if code not in checks]
    assert errors == []
