# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What objects hold, as a digest: functions and classes by what they do.

Pickles, and digests made of them, know functions and classes by their names. A name
stays where a cell of a notebook is edited. So functions that are not installed are
known by their code and by all that it reaches: constants, defaults, closures, globals.
"""

import dis
import pickle
import sys
import sysconfig
import types
import uuid
import weakref
from functools import lru_cache

from joblib.hashing import Hasher, NumpyHasher, _ConsistentSet

# of a package that is imported once and does not change while Python runs
_INSTALLED = {"skope_ope", *sys.stdlib_module_names}
_PLACES = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib")})
_tokens_of_classes = weakref.WeakKeyDictionary()


def fingerprint(*objects):
    """Return a digest of what objects hold, or None where that cannot be told."""
    try:
        return _ContentHasher().hash(objects)
    except Exception:  # whatever a foreign __reduce__ raises: it is not shared then
        return None


class _ContentHasher(NumpyHasher):
    """joblib's hasher, which knows what is not installed by its contents."""

    def __init__(self):
        super().__init__()
        self._seen = {}  # functions and classes may refer to themselves

    def save(self, obj):
        if isinstance(obj, types.MethodType):  # joblib's would keep its name only
            obj = ("method", obj.__func__, obj.__self__)
        super().save(obj)

    def save_function(self, obj):
        """Save a function: by its name where it is installed under it."""
        if _is_installed(_module_of(obj)) and _is_found(obj):
            Hasher.save_global(self, obj)
        else:
            self._save_once(obj, _parts_of_function)

    def save_global(self, obj, name=None, pack=None):
        """Save what pickles know by its name."""
        if isinstance(obj, type):
            if _is_installed(obj.__module__):
                Hasher.save_global(self, obj)
            else:
                self._save_once(obj, _parts_of_class)
        elif hasattr(obj, "__wrapped__"):  # a function with a cache, say
            self.save((type(obj), obj.__wrapped__))
        elif _is_installed(pickle.whichmodule(obj, name or obj.__name__)):
            Hasher.save_global(self, obj, name)
        else:
            raise pickle.PicklingError(f"{obj!r} is known by its name only")

    def save_module(self, obj):
        """Save a module by its name; a function says what it takes from it."""
        self.save(("module", obj.__name__))

    def save_frozenset(self, obj):
        """Save the members in order, like those of sets."""
        self.save(("frozenset", _ConsistentSet(obj)))

    def _save_once(self, obj, parts):
        if id(obj) in self._seen:
            self.save(("seen", self._seen[id(obj)]))
            return
        self._seen[id(obj)] = len(self._seen)
        self.save(parts(obj))

    dispatch = NumpyHasher.dispatch.copy()
    dispatch[type] = save_global
    dispatch[types.BuiltinFunctionType] = save_global
    dispatch[types.FunctionType] = save_function
    dispatch[types.ModuleType] = save_module
    dispatch[frozenset] = save_frozenset


def _parts_of_function(function):
    cells = [] if function.__closure__ is None else function.__closure__
    return (
        "function",
        function.__module__,
        function.__qualname__,
        _parts_of_code(function.__code__),
        function.__defaults__,
        function.__kwdefaults__,
        [_content(cell) for cell in cells],
        {k: v for k, v in function.__dict__.items() if k != "__wrapped__"},
        [] if _is_installed(_module_of(function)) else _reached(function),
    )


def _content(cell):
    try:
        return ("cell", cell.cell_contents)
    except ValueError:
        return "empty cell"


def _reached(function):
    """Return the globals that a function uses, and what it takes from modules."""
    loaded, names = _names_of(function.__code__)
    reached, taken = [], set()
    for name in loaded:
        if name in function.__globals__:
            value = function.__globals__[name]
            reached.append((name, value))
            _take_from(value, names, reached, taken)
    return reached


def _take_from(module, names, reached, taken):
    if not isinstance(module, types.ModuleType) or _is_installed(module.__name__):
        return
    for name in names:
        if name in vars(module) and (module.__name__, name) not in taken:
            taken.add((module.__name__, name))
            reached.append((name, vars(module)[name]))
            _take_from(vars(module)[name], names, reached, taken)


@lru_cache(maxsize=1024)
def _names_of(code):
    """Return the names of globals that code loads, and all names in it, sorted."""
    names, loaded = set(code.co_names), set()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            loaded.add(step.argval)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more_loaded, more = _names_of(inner)
            loaded.update(more_loaded)
            names.update(more)
    return sorted(loaded), sorted(names)


def _parts_of_code(code):
    return (
        code.co_code,
        getattr(code, "co_exceptiontable", b""),
        code.co_flags,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars],
        [
            _parts_of_code(one) if isinstance(one, types.CodeType) else one
            for one in code.co_consts
        ],
    )


def _parts_of_class(kind):
    """Parts of a class: a token of its own, and its functions as they are now.

    The token tells a class that is defined anew, whatever it holds. Other attributes
    are left out: some count, say, how often a model was fitted.
    """
    if kind not in _tokens_of_classes:
        _tokens_of_classes[kind] = uuid.uuid4().hex
    functions = []
    for name, value in sorted(vars(kind).items()):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, property):
            functions.append((name, value.fget, value.fset))
        elif isinstance(value, types.FunctionType):
            functions.append((name, value))
    name = (kind.__module__, kind.__qualname__)
    return ("class", name, _tokens_of_classes[kind], kind.__bases__, functions)


def _module_of(function):
    # a decorator may have copied __module__ from what it wraps
    return function.__globals__.get("__name__", "__main__")


def _is_found(function):
    """Tell whether the name of a function leads to it."""
    found = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


@lru_cache(maxsize=4096)
def _is_installed(name):
    """Tell whether a module belongs to Python or to an installed package."""
    root = (name or "__main__").partition(".")[0]
    if root == "__main__" or root in _INSTALLED:
        return root != "__main__"
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and file.startswith(_PLACES)
