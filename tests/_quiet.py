# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Results without the warnings that small logs deserve."""

import warnings

from skope_ope.exceptions import OPEWarning


def quiet(evaluator, policy, logs=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return evaluator.evaluate(policy, logs)
