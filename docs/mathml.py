# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Formulas as MathML, which browsers draw themselves: the site loads no script.

A formula that docutils' converter does not know is a warning, so a build with -W fails.
"""

import re
from html import unescape
from xml.etree import ElementTree

from docutils.nodes import SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)
# Sizes of brackets, which the converter does not know and browsers choose well.
SIZES = re.compile(r"\\[bB]igg?[lrm]?(?![a-zA-Z])\s*")
NAMED = re.compile(r"&(?!(?:amp|lt|gt|quot);)[A-Za-z]+;")  # that XML does not know
MATHML = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", MATHML)


def beside_accents(markup):
    """Move the subscript of a letter with an accent, as a hat, from below to its side.

    The converter takes an accent for a limit, as those of a sum are.
    """
    markup = NAMED.sub(lambda found: unescape(found[0]), markup)
    root = ElementTree.fromstring(markup)
    for node in root.iter(f"{{{MATHML}}}munderover"):
        letter, subscript, above = node
        if letter.tag == f"{{{MATHML}}}mo":  # a sum
            continue
        node.tag = f"{{{MATHML}}}msub"
        accented = ElementTree.Element(f"{{{MATHML}}}mover", accent="true")
        accented.extend([letter, above])
        node[:] = [accented, subscript]
    return ElementTree.tostring(root, encoding="unicode")


def write(translator, node, as_block):
    """Append the formula of a node to the page."""
    tex = SIZES.sub("", node.astext()).replace(r"\dots", r"\ldots")
    several_lines = as_block and "\\\\" in tex
    code = rf"\begin{{align*}}{tex}\end{{align*}}" if several_lines else tex
    try:
        markup = beside_accents(tex2mathml(code, as_block=as_block))
    except MathError as error:
        logger.warning("formula %r: %s", tex, error, location=node)
        markup = f"<code>{translator.encode(tex)}</code>"
    tag = "div" if as_block else "span"
    translator.body.append(f'<{tag} class="formula">{markup}</{tag}>')
    raise SkipNode


def write_inline(translator, node):
    """Write a :math: role."""
    write(translator, node, as_block=False)


def write_block(translator, node):
    """Write a math directive."""
    write(translator, node, as_block=True)


def setup(app):
    """Register the renderer; conf.py chooses it."""
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
