# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on audits sees one that tells nothing, or always something."""

from types import SimpleNamespace

from tests.examples._assertions import every_assertion_can_fail

ALWAYS = SimpleNamespace(alarms=[SimpleNamespace(name="propensity_misfit")])

test_every_assertion_can_fail = every_assertion_can_fail(
    "1_first_steps/plot_which_faults_does_an_audit_see.py",
    {
        "evaluate is silent, an audit is not": {
            "skope_ope.evaluate": lambda policy, logs: None,
            "skope_ope.audit": lambda *_: ALWAYS,
        }
    },
    args=["--repetitions", "1", "--n-jobs", "1"],
)
