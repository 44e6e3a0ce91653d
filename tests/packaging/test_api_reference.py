# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import importlib.util
from collections import Counter

import skope_ope
from tests.packaging._tree import ROOT, named, public_objects

FOLDER = ROOT / "docs"


def api_reference():
    spec = importlib.util.spec_from_file_location(
        "api_reference", FOLDER / "api_reference.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = api_reference()
SECTIONS = REFERENCE.API_REFERENCE
NAMES = [name for section in SECTIONS.values() for name in section["objects"]]


def test_every_public_symbol_stands_on_the_page_exactly_once():
    public = public_objects()
    assert [name for name in NAMES if id(named(name)) not in public] == []
    on_page = Counter(id(named(name)) for name in NAMES)
    missing = [name for key, (name, _) in public.items() if key not in on_page]
    assert missing == []
    twice = [public[key][0] for key, count in on_page.items() if count > 1]
    assert twice == []


def test_sections_have_pages_tasks_and_summaries():
    for section in SECTIONS.values():
        assert (FOLDER / "guide" / f"{section['guide']}.rst").exists()
    assert {section["task"] for section in SECTIONS.values()} == set(REFERENCE.TASKS)
    for text in [*REFERENCE.TASKS.values(), *(s["summary"] for s in SECTIONS.values())]:
        assert text.endswith((".", "?"))
        assert len(text.split()) <= 20


def test_the_index_lists_every_name_once_below_its_task():
    text, _, _ = REFERENCE.index().partition(".. toctree::")
    lines = text.splitlines()
    heads = [k for k, line in enumerate(lines) if line in REFERENCE.TASKS]
    assert [lines[k] for k in heads] == list(REFERENCE.TASKS)
    for start, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        listed = [line.strip() for line in lines[start:end] if line.startswith("   ")]
        own = [one for one in SECTIONS.values() if one["task"] == lines[start]]
        names = [name for section in own for name in section["objects"]]
        assert [line for line in listed if line in NAMES] == names


def test_all_lists_every_name_once():
    assert len(set(skope_ope.__all__)) == len(skope_ope.__all__)
    for name in skope_ope.__all__:
        assert hasattr(skope_ope, name)
