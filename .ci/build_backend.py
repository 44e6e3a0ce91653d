# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""setuptools, with the list of further files of an sdist beside this file.

setuptools looks for MANIFEST.in at the top and nowhere else, where only what describes
the project stands. pyproject.toml names this module as its backend.
"""

from setuptools.build_meta import *  # noqa: F403  # the hooks of a build backend
from setuptools.command.egg_info import manifest_maker

manifest_maker.template = ".ci/MANIFEST.in"
