# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
from types import SimpleNamespace

from skope_ope.evaluators.scavenging import _attention_decay
from tests.examples._assertions import every_assertion_can_fail

coefficients = _attention_decay.attention_coefficients


def constant(self, policy):
    return SimpleNamespace(value=0.5, standard_error=0.001)


test_every_assertion_can_fail = every_assertion_can_fail(
    "4_papers/plot_do_clicks_decay_with_position.py",
    {
        "every method is the naive one, values are constants": {
            "skope_ope.evaluators.scavenging._attention_decay.attention_coefficients": (
                lambda tables, method: coefficients(tables, "naive")
            ),
            "skope_ope.ReorderingScavenging.evaluate": constant,
            "skope_ope.PositionScavenging.evaluate": constant,
        },
    },
    args=["--n-seeds", "60", "--data-home", ""],
)
