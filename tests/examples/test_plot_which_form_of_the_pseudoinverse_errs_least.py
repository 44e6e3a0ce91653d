# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on forms of the pseudoinverse sees a control variate that misleads."""

from tests.examples._assertions import every_assertion_can_fail
from tests.examples._values import Stuck


class Misled(dict):
    recommended = "PseudoInverse"


def misled_by_control_variates(policies, logs, **_):
    """The form with control variates is far off and says that it is certain."""
    table = Misled.fromkeys(["PseudoInverse", "wPI"], Stuck(other=(0, 1)))
    table["ControlledPI"] = off = Stuck(other=(98, 99))
    off.value = 99.0
    return table


test_every_assertion_can_fail = every_assertion_can_fail(
    "3_families/plot_which_form_of_the_pseudoinverse_errs_least.py",
    {"misled": {"skope_ope.evaluate": misled_by_control_variates}},
    args=["--repeats", "3"],
)
