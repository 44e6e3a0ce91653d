# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What was known before a decision: arrays, sparse matrices and frames."""

from scipy import sparse

from skope_ope.logs._row_container import freeze, read_only
from skope_ope.logs._validation import as_array, check_length, is_frame

COLUMNS_LISTED = 100  # columns in a message


def check_context(context):
    """Return the context as a view: a 2-d array, a CSR matrix or a frame."""
    if context is None:
        raise TypeError(
            "context must not be None. Logs without features take an array of shape "
            "(n_rounds, 0), e.g. np.empty((n_rounds, 0))."
        )
    if sparse.issparse(context):
        if context.ndim != 2:
            raise ValueError(f"context must be 2-d, got shape {context.shape}.")
        if context.dtype.kind not in "biuf":
            raise TypeError(f"context must hold numbers, got {context.dtype}.")
        return _view_of_sparse(context)
    if is_frame(context):
        return _view_of_frame(context)
    array = as_array("context", context)
    if array.ndim != 2:
        raise ValueError(
            f"context must be 2-d (n_rounds, n_features), got shape {array.shape}. "
            "Reshape one feature with x.reshape(-1, 1)."
        )
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"context must hold real numbers, got dtype {array.dtype}. Columns of "
            "mixed kinds go into a pandas, polars or pyarrow frame; encode them "
            "inside the reward model and the policy (ColumnTransformer)."
        )
    return read_only(array)


def _view_of_sparse(context):
    """Return a read-only CSR matrix that shares the memory of the caller's."""
    rows = context.tocsr()
    parts = (read_only(rows.data), read_only(rows.indices), read_only(rows.indptr))
    view = type(rows)(parts, shape=rows.shape)
    if view.has_canonical_format:
        return view
    view = view.copy()  # others would sort it in place
    view.sum_duplicates()
    return freeze(view)


def _view_of_frame(frame):
    """Return a frame whose columns can be replaced without those of the caller."""
    if hasattr(frame, "clone"):  # polars
        return frame.clone()
    return frame.copy(deep=False) if hasattr(frame, "iloc") else frame


def in_context(logs, context):
    """Return the same rows of logs, flags and all, with another context."""
    out = logs._copy()
    out.__dict__["context"] = check_context(context)
    check_length("context", out.context, len(logs))
    return out


def check_context_names(context, fields):
    """Raise where the context names a column that says what was done, or one twice."""
    for field in ("action", "reward", "propensity"):
        if field in fields and fields[field] in context:
            raise ValueError(
                f"column {fields[field]!r} is the {field}, so it cannot also be in the "
                "context. The context is what was known before the decision. Take the "
                "column out of the context."
            )
    twice = [name for k, name in enumerate(context) if name in context[:k]]
    if twice:
        raise ValueError(f"the context names column {twice[0]!r} twice.")


def choose_context(others, context, exclude, say=("context", "exclude", "context=[]")):
    """Return the columns of the context, by name or by exclusion."""
    by_name, by_exclusion, none = say
    more = (
        f" and {len(others) - COLUMNS_LISTED:,} more"
        if len(others) > COLUMNS_LISTED
        else ""
    )
    if exclude is None and context is None and others:
        raise ValueError(
            "name the columns of the context: those that were known before the "
            "decision. An outcome in the context, such as later spending, makes every "
            f"value wrong. Name the columns of the context with {by_name}, or the "
            f"columns to leave out with {by_exclusion}. {none} is for logs without "
            "features. Columns that are not used yet: "
            f"{', '.join(map(repr, others[:COLUMNS_LISTED]))}{more}."
        )
    if exclude is None:
        return list(context or ())
    if context is not None:
        raise ValueError(
            f"{by_name} and {by_exclusion} are both given. Name either the columns of "
            "the context, or the columns to leave out."
        )
    return [name for name in others if name not in exclude]
