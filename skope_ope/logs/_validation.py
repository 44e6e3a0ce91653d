# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Checks of what logs are given, which say what to do."""

from decimal import Decimal
from numbers import Real

import numpy as np
from scipy import sparse

from skope_ope._texts import meant
from skope_ope.exceptions import RowError
from skope_ope.logs._fields import FIELDS, WEIGHT_COLUMN, remedy_of
from skope_ope.logs._labels import distinct_labels, offsets
from skope_ope.logs._row_container import freeze, keep, read_only
from skope_ope.logs._shown_numbers import figure

# Probabilities are written to logs with few digits: sums may be off by this much.
PROBA_TOLERANCE = 1e-6
MANY_TEXTS = 1000  # of which few are distinct, as a rule
FILL = "Drop these rows or fill the values."
YES_NO = {"yes", "no", "y", "n", "true", "false", "t", "f"}
LONG_TEXT = 128  # bytes: longer ones are not hashed


def as_numbers(name, values, ndim=1, finite=True, first="row"):
    """Return a read-only float array with `ndim` dimensions and finite entries."""
    # One dimension is copied, more are a view of what was given where that holds
    # floats. The caller looks for NaN and infinity itself where `finite` is false.
    # `first` is what the first dimension numbers.
    if sparse.issparse(values):
        raise TypeError(f"{name} must be a dense array, got a sparse matrix.")
    array = as_array(name, values)
    if array.dtype.kind == "c":
        raise TypeError(
            f"{name} must hold real numbers, got complex dtype {array.dtype}."
        )
    if array.dtype.kind == "O" and all(isinstance(v, Decimal) for v in array.flat):
        array = array.astype(float)  # databases give them
    if array.dtype.kind in "OUSTmMV":
        found = plain(array.flat[0]) if array.size else None
        remedy = several_numbers(found, ndim) or yes_or_no(array.flat)
        if name == "slate" and not remedy:
            remedy = "Pass indices of candidates; labels go to SlateLogs.from_frame."
        elif not remedy:
            remedy = "Convert it first, e.g. with np.asarray(..., dtype=float). "
            remedy += f"If entries are missing: {remedy_of(name)}"
        raise TypeError(
            f"{name} must hold numbers, got dtype {array.dtype} (first entry "
            f"{found!r}). {remedy}"
        )
    if array.ndim != ndim:
        remedy = ""
        if ndim == 1 and array.ndim == 2 and array.shape[1] > 1:
            remedy = (
                " Of several columns take one number in each row. Where each action "
                f"has a column, it is that of the logged one: {name}[np.arange(len("
                f"{name})), code], with code = np.unique(action, return_inverse=True)"
                "[1] where the columns are in the order of the sorted actions. "
                "Rewards of slots are slot_reward."
            )
        elif ndim == 1 and array.ndim:
            remedy = " Flatten it with np.ravel."
        elif ndim == 1:
            remedy = f" Repeat the number for every round: np.full(n_rounds, {array})."
        raise ValueError(
            f"{name} must have {ndim} dimension(s), got shape {array.shape}.{remedy}"
        )
    as_given, array = array, np.asarray(array, dtype=np.float64)
    if finite:
        check_finite(name, array, first=first)
    return keep(values, array) if array is as_given else read_only(array)


def several_numbers(found, ndim=1):
    """Return what to do where an entry holds several numbers, or JSON text of them."""
    is_json = isinstance(found, str) and found.lstrip()[:1] in ("{", "[")
    if not (is_json or isinstance(found, (dict, list, tuple))):
        return ""
    one = "json.loads(one)" if is_json else "one"
    if ndim > 1:
        return (
            "Make a column of each of the numbers in an entry, in the order of the "
            f"actions: pandas.DataFrame([{one} for one in values]). Name these columns."
        )
    name, key = "code", "code"  # the place in a list
    if isinstance(found, dict) or found[:1] == "{":
        name, key = "action", "str(action)" if is_json else "action"
    return (
        "Take of each entry the number of its row, such as that of the logged action: "
        f"[{one}[{key}] for one, {name} in zip(values, {name}s)]."
    )


def yes_or_no(values):
    """Return what to do where one of some values is a word for yes or no."""
    if not any(isinstance(v, str) and v.strip().lower() in YES_NO for v in values):
        return ""
    return "Write 1 for yes and 0 for no, in all rows: a row dropped for it misleads."


def as_array(name, values, labels=None):
    """Return an array; columns of a frame that are named follow `labels`."""
    # What is masked or has rows of uneven length is refused.
    if labels is not None:
        values = by_label(name, values, labels)
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        row = np.argwhere(np.ma.getmaskarray(values))[0][0]
        raise RowError(f"{name} is masked", row, f". {remedy_of(name, FILL)}")
    try:
        return np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} is no rectangular array: {error}") from error


def check_finite(name, array, first_row=0, first="row"):
    """Raise if an entry is NaN or infinite; `first` is what the rows stand for."""
    # One finite sum proves all finite; only a suspicious sum is looked at in detail.
    with np.errstate(over="ignore", invalid="ignore"):
        total = array.sum()
    if not np.isfinite(total):
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            found = f"{name} must be finite, got {array[tuple(bad[0])]}"
            many = f" ({len(bad)} such entries)."
            if first != "row":
                place = f"at {first} {bad[0][0]}{many}"
                raise ValueError(f"{found} {place} Fill the values.")
            after = f"{many} {remedy_of(name, FILL)}"
            raise RowError(found, bad[0][0] + first_row, after)


def is_vector(values):
    """Tell whether `values` is a one-dimensional array-like, a text excepted."""
    if isinstance(values, (list, tuple)):
        first = values[0] if values else 0
        return isinstance(first, (str, bytes)) or not hasattr(first, "__len__")
    if not hasattr(values, "__array__"):
        return False
    return len(values.shape if hasattr(values, "shape") else np.shape(values)) == 1


def is_y(values, n_rounds):
    """Tell whether `values` is scikit-learn's y: one entry for every round."""
    # Whatever is fitted on logs ignores it: the logs hold actions and rewards.
    return n_rounds is not None and is_vector(values) and len(values) == n_rounds


def check_y(y, n_rounds, who):
    """Raise unless y is None or has an entry for every round, see `is_y`."""
    if y is None or is_y(y, n_rounds):
        return
    what = f"{who}.fit takes no y beside logs, which hold actions and rewards"
    if n_rounds is None:
        raise TypeError(f"{what}. Leave out y.")
    if is_vector(y):
        raise ValueError(
            f"{what}. The logs have {n_rounds} rounds, y has {len(y)} entries. Leave "
            "out y. (A y with one entry per round is ignored.)"
        )
    raise TypeError(
        f"{what}. Got {type(y).__name__}. Leave out y. (An array of shape "
        f"({n_rounds},) is ignored.)"
    )


def check_length(name, array, n_rounds, reference="action"):
    """Raise if `array` does not have one entry per round."""
    if array.shape[0] != n_rounds:
        raise ValueError(
            f"{name} has {array.shape[0]} rows, {reference} has {n_rounds}: all "
            "fields of the logs need one entry per round."
        )


def is_frame(values):
    """Tell whether `values` is a pandas, polars or pyarrow table."""
    return any(
        cls.__name__ in ("DataFrame", "Table")
        and cls.__module__.split(".")[0] in ("pandas", "polars", "pyarrow")
        for cls in type(values).__mro__
    )


def frame_names(frame):
    """Return the names of the columns of a table of any library."""
    return list(getattr(frame, "column_names", None) or frame.columns)


def check_labels(name, values):
    """Return labels without missing ones, as logs keep them."""
    return keep(values, present_labels(name, values))


def present_labels(name, values):
    """Return a 1-d array of labels without missing entries, maybe the caller's."""
    array = label_array(name, values)
    if array.dtype.kind == "f":
        missing = ~np.isfinite(array)
    elif array.dtype.kind in "mM":
        missing = np.isnat(array)
    elif array.dtype.kind in "OT":  # "T": numpy's text of any length
        missing = _missing_objects(array.astype(object, copy=False))
    elif array.dtype.kind in "US" and isinstance(values, (list, tuple)):
        # numpy has made the text "nan" of a NaN among texts
        missing = _missing_objects(values)
    else:
        return array
    refuse_rows(
        missing,
        lambda row: f"{name} has a missing label ({array[row]})",
        remedy=remedy_of(name, "Drop these rows."),
    )
    return array


def refuse_rows(wrong, found, after="", remedy="Drop these rows."):
    """Raise where rows are wrong: say of the first what is found, and how many are."""
    # `found` and `after` stand before and after the number of the row, by this number.
    rows = np.flatnonzero(wrong)
    if rows.size:
        row = int(rows[0])
        told = after(row) if callable(after) else after
        raise RowError(found(row), row, f"{told} ({rows.size} such rows). {remedy}")


def label_array(name, values):
    """Return labels as a 1-d array, whether or not some are missing."""
    array = as_array(name, values)
    if array.ndim != 1:
        found = f"shape {array.shape}."
        if isinstance(values, str):
            found = f"the text {values!r}. from_frame takes names of columns."
        raise ValueError(f"{name} must be 1-d (n_rounds,), got {found}")
    if array.dtype.kind == "c":
        raise TypeError(f"{name} must hold labels, got complex dtype {array.dtype}.")
    return array


def _missing_objects(array):
    try:
        return np.fromiter((v is None or v != v for v in array), bool, len(array))
    except TypeError:  # pandas' NA: whether it differs from itself is NA, no boolean
        return np.fromiter(map(is_missing, array), bool, len(array))


def is_missing(label):
    """Tell whether an object is None, NaN, NaT or pandas' NA."""
    differs = label != label
    return label is None or not isinstance(differs, (bool, np.bool_)) or bool(differs)


def label_codes(labels, values):
    """Position of each value in `labels`, -1 where it does not occur there."""
    values = np.asarray(values)
    if labels.dtype.kind in "iu" and values.dtype.kind in "iu" and len(labels):
        low, high = int(labels.min()), int(labels.max())
        if high - low <= 4 * (len(labels) + len(values)) + 1000:
            if values.size and (values.min() < low or values.max() > high):
                inside = (values >= low) & (values <= high)
                codes = np.full(len(values), -1, dtype=np.intp)
                codes[inside] = label_codes(labels, values[inside])
                return codes
            whole = high - low + 1 == len(labels) and labels[0] == low
            if whole and (np.diff(labels) == 1).all():
                return offsets(values, low)
            table = np.full(high - low + 1, -1, dtype=np.intp)
            table[offsets(labels, low)] = np.arange(len(labels))
            return table[offsets(values, low)]
    codes = None
    short = values.dtype.kind in "US" and values.itemsize <= LONG_TEXT
    if short and len(values) >= MANY_TEXTS:
        values, codes = distinct_labels(values)
    position = {label: i for i, label in enumerate(labels.tolist())}
    places = (position.get(value, -1) for value in values.tolist())
    found = np.fromiter(places, np.intp, len(values))
    return found if codes is None else found[codes]


def class_targets(logs, codes=None):
    """Return actions as scikit-learn's classifiers take them."""
    labels = logs.actions
    codes = logs.action_index if codes is None else codes
    kind = labels.dtype.kind
    fractions = kind == "f" and (labels % 1 != 0).any()
    objects = kind == "O" and not all(isinstance(label, str) for label in labels)
    other = kind in "SV" or fractions or objects
    return (codes, True) if other else (labels[codes], False)


def plain(value):
    """Python's own object for a numpy scalar, as messages show it."""
    return value.item() if isinstance(value, np.generic) else value


def short(labels):
    """Return the first labels as messages show them."""
    shown = ", ".join(repr(label) for label in labels[:8].tolist())
    return f"[{shown}{', ...' if len(labels) > 8 else ''}]"


ESTIMATE_THEM = (
    "estimate the propensities with PropensityEstimator, from a context without the "
    "old ones"
)


def check_propensity(propensity, n_rounds, instead=ESTIMATE_THEM):
    """Return propensities in (0, 1]; `instead` is what else one may do."""
    # A number is that of all rounds.
    if isinstance(propensity, Real) and not isinstance(propensity, (bool, np.bool_)):
        if not np.finfo(float).tiny <= propensity <= 1:
            raise ValueError(
                f"propensity {propensity!r} is not in (0, 1]. As a number, propensity "
                "is the probability of the logged action in all rounds, such as 1/3 "
                "for a trial that drew among three arms. It is neither the inverse nor "
                "a percentage."
            )
        propensity = np.full(n_rounds, float(propensity))
    _refuse_booleans(propensity)
    array = as_numbers("propensity", propensity, finite=False)
    check_length("propensity", array, n_rounds)
    least = np.finfo(float).tiny  # one over less is infinite
    if array.size and not (array.min() >= least and array.max() <= 1 + 1e-9):
        check_finite("propensity", array)  # NaN fails the comparison, too
        bad = (array < least) | (array > 1 + 1e-9)
        first = array[np.argmax(bad)]
        if first > 1:
            remedy = (
                "Pass the probability itself, not its inverse and not a percentage."
            )
        elif first > 0:
            remedy = (
                "Such a small probability is an error, and its inverse is infinite. "
                f"Correct these rows or {instead}."
            )
        elif first < 0:
            remedy = f"Probabilities are not negative. Correct these rows or {instead}."
        else:
            remedy = (
                "A round with propensity 0 cannot occur. If the propensity was rounded "
                f"to 0, pass all digits. Otherwise {instead}."
            )
        found = f"propensity must lie in (0, 1], got {first:.9g}"
        refuse_rows(bad, lambda _: found, remedy=remedy)
    return array


def _refuse_booleans(propensity):
    """Raise where propensities are given as True and False."""
    first = propensity[:1] if isinstance(propensity, (list, tuple)) else [propensity]
    kind = str(getattr(propensity, "dtype", getattr(propensity, "type", "")))
    told = kind.lower().startswith("bool")
    if told or any(isinstance(one, (bool, np.bool_)) for one in first):
        raise TypeError(
            "propensity holds booleans, but it is the probability of the logged "
            "action, a number in (0, 1]. Pass the numbers, such as 1/3 for a trial "
            "that drew among three arms, or 1.0 for a logger that does not explore."
        )


def check_agreement(propensity, name, told):
    """Raise where propensities are not what another field tells of them."""
    refuse_rows(
        np.abs(told - propensity) > PROBA_TOLERANCE,
        lambda row: f"propensity {propensity[row]:.9g}",
        lambda row: f" contradicts {name}, which gives {told[row]:.9g}",
        "Pass only one of the two, the one that was in use.",
    )


def by_label(name, values, labels):
    """Return the columns of a frame in the order of `labels`; else `values`."""
    # Columns without names are taken in their order.
    if not is_frame(values):
        return values
    names = frame_names(values)
    wanted = labels.tolist()
    unnamed = (list(range(len(names))), [f"column_{j}" for j in range(len(names))])
    if sorted(map(str, names)) == sorted(map(str, wanted)):
        position = {str(column): column for column in names}
        names = [position[str(label)] for label in wanted]
    elif names not in unnamed or len(names) != len(wanted):
        strange = [one for one in names if one not in wanted][:1]
        hint = "".join(meant(one, wanted) for one in strange)
        raise ValueError(
            f"the columns of {name} are {short(np.array(names, dtype=object))}, the "
            f"actions are {short(labels)}: name the columns like the actions, or pass "
            f"an array with one column per action, in this order.{hint}"
        )
    return np.column_stack([np.asarray(values[column]) for column in names])


def check_distributions(name, array, available=None, first_row=0):
    """Raise unless the rows of `array` are distributions over available actions."""
    if not array.size:
        return
    sums = row_sums(array)
    if array.min() < 0:
        row, column = np.argwhere(array < 0)[0]
        raise RowError(
            f"{name} must not be negative, got {array[row, column]:.6g}",
            row + first_row,
            f", column {column}. Clip rounding errors at 0 and normalise the rows.",
        )
    if available is not None:
        outside = np.where(available, 0.0, array)
        if outside.max() > 0:
            row, column = np.argwhere(outside > 0)[0]
            raise RowError(
                f"{name} gives probability {array[row, column]:.6g} to action {column}",
                row + first_row,
                ", where it is not available. Renormalise over the available actions.",
            )
    low, high = 1 - PROBA_TOLERANCE, 1 + PROBA_TOLERANCE
    if not (sums.min() >= low and sums.max() <= high):  # NaN fails, too
        off = ~((sums >= low) & (sums <= high))
        first = sums[np.argmax(off)]
        remedy = f"Normalise the rows: {name} / {name}.sum(axis=1, keepdims=True)."
        if np.isnan(first):
            remedy = "Give every action a probability in them, 0 where it is not taken."
        raise RowError(
            f"{name} must sum to 1 over the actions, got {first:.9g}",
            int(np.argmax(off)) + first_row,
            f" ({int(off.sum())} such rows). {remedy}",
        )


def row_sums(array):
    """Return the sums of the rows, several times faster than `sum(axis=1)`."""
    if array.shape[1] > 32:  # BLAS would wake threads
        return np.einsum("ij->i", array)
    return array @ np.ones(array.shape[1])


def check_reward_range(reward_range, reward):
    """Return (low, high) that contains every reward."""
    try:
        low, high = (float(bound) for bound in reward_range)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"reward_range must be a pair (low, high), got {reward_range!r}."
        ) from error
    if not low < high:
        raise ValueError(f"reward_range needs low < high, got ({low}, {high}).")
    if reward.min(initial=low) < low or reward.max(initial=high) > high:
        refuse_rows(
            (reward < low) | (reward > high),
            lambda row: f"reward {reward[row]:.6g}",
            f" lies outside reward_range ({low:g}, {high:g})",
            "Widen the range or correct the rewards.",
        )
    return low, high


def check_timestamp(timestamp, n_rounds, reference):
    """Return times as numbers or datetimes without a time zone (in UTC)."""
    if type(timestamp).__module__.split(".")[0] == "pandas" and (
        hasattr(timestamp, "dt") or getattr(timestamp, "tz", None) is not None
    ):
        timestamp = timestamp.to_numpy(dtype="datetime64[us]")  # drops the zone
    given, timestamp = timestamp, as_array("timestamp", timestamp)
    if timestamp.ndim != 1 or timestamp.dtype.kind not in "iufM":
        raise TypeError(
            "timestamp must be 1-d and hold numbers or datetimes, got dtype "
            f"{timestamp.dtype}, shape {timestamp.shape}. Convert it with "
            "np.asarray(timestamp, dtype='datetime64[us]'). In pandas, "
            "frame[column] = pd.to_datetime(frame[column]) reads texts, and so does "
            "read_csv(..., parse_dates=[column]); in polars, "
            "frame.with_columns(frame[column].str.to_datetime())."
        )
    check_length("timestamp", timestamp, n_rounds, reference)
    lack = {True: "infinite", False: "missing"}  # or NaT, NaN
    refuse_rows(
        ~np.isfinite(timestamp),
        lambda row: f"timestamp is {lack[bool(np.isinf(timestamp[row]))]}",
    )
    return keep(given, timestamp)


# -- the fields of logs that are arrays, as `FIELDS` says what each holds --------------


def check_field(logs, name, values):
    """Return what logs keep of a field, after a look at its kind, shape and range."""
    field, ndims = FIELDS[name], [len(axes) for axes in FIELDS[name].axes]
    if field.kind == "moment":
        return check_timestamp(values, len(logs), logs._counted_by)
    by_action = field.axes[0][-1] == "n_actions"
    if by_action or len(ndims) > 1 or field.kind == "label":
        values = as_array(name, values, logs.actions if by_action else None)
    ndim = ndims[0] if len(ndims) == 1 else values.ndim
    if ndim not in ndims:
        shapes = " or ".join(f"({', '.join(axes)})" for axes in field.axes)
        raise ValueError(f"{name} must have shape {shapes}, got {ndim} dimension(s).")
    axes = field.axes[ndims.index(ndim)]
    if field.kind == "number":
        first = "action" if axes[0] == "n_actions" else "row"
        array = as_numbers(name, values, ndim, first=first)
    else:
        array = read_only(values)
    if field.kind == "boolean" and array.dtype != bool:
        found = f"{name} must be boolean, got dtype {array.dtype}."
        raise TypeError(f"{found} Use {name}.astype(bool).")
    sizes = tuple(getattr(logs, axis) for axis in axes if hasattr(logs, axis))
    if axes[0] == "n_rounds" and len(sizes) == 1:
        check_length(name, array, len(logs), logs._counted_by)
    elif array.ndim != ndim or array.shape[: len(sizes)] != sizes:
        free = "".join(f" + ({axis},)" for axis in axes[len(sizes) :])
        remedy = ""
        if axes[0] == "n_actions" and len(array) > len(logs.actions):
            remedy = (
                " If the others were not logged, name all: actions=[...], in the "
                f"order of the rows. If it has others, pass {name}[places], the rows "
                "of the actions of the log."
            )
        raise ValueError(
            f"{name} must have shape {sizes}{free}, got {array.shape}. Its axes are "
            f"({', '.join(axes)}).{remedy}"
        )
    if field.range[0] == 0 and array.size and array.min() < 0:
        refuse_entries(name, array, array < 0)
    return array


def refuse_entries(name, array, wrong):
    """Raise for the first of the entries that a field of numbers must not have."""
    field, at = FIELDS[name], np.argwhere(wrong)[0]
    found = f"{name} {field.must}, got {array[tuple(at)]:.6g}"
    slot = f", slot {at[1]}" if "n_slots" in field.axes[0] else ""
    raise RowError(found, at[0], f"{slot}{field.remedy}")


class Checked:
    """Logs that keep a field after a look at it, by `FIELDS` and `_check_<name>`."""

    _counted_by = "action"  # the field whose rows count

    def _set(self, name, value):
        if name == "group":
            self._set_group(value)
            return
        if value is not None or name == "reward":
            if name == "reward":  # other rewards may be another outcome
                self._name_reward(getattr(value, "name", None))
            if FIELDS[name].axes and not FIELDS[name].own_check:
                value = check_field(self, name, value)
            check = getattr(self, f"_check_{name}", None)
            value = value if check is None else check(value)
        self.__dict__[name] = value

    def _check_reward(self, reward):
        if self.reward_range is not None:
            check_reward_range(self.reward_range, reward)
        return reward

    def _set_reward(self, reward, reward_range):
        self.__dict__["reward_range"] = None
        self._set("reward", reward)
        if reward_range is not None:
            found = check_reward_range(reward_range, self.reward)
            self.__dict__["reward_range"] = found


def value_range(values):
    """Smallest and largest value as a short text."""
    return f"{figure(values.min())} to {figure(values.max())}"


def rewards_told(logs):
    """Name, range and mean of the rewards as a short text."""
    called = f"{logs.reward_name}, " if logs.reward_name else ""
    return f"{called}{value_range(logs.reward)}, mean {figure(logs.reward.mean())}"


# -- what was known before a decision: arrays, sparse matrices and frames --------------


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


# -- fields that only logs of slates have ----------------------------------------------

EMPTY = -1  # an empty slot


def check_slate(slate):
    """Return slates as read-only indices of candidates, -1 for an empty slot."""
    if isinstance(slate, (list, tuple)):
        sizes = np.array([np.size(row) for row in slate])
        if (sizes != sizes[:1]).any():
            row = int(np.flatnonzero(sizes != sizes[0])[0])
            raise ValueError(
                f"slate has {sizes[row]} slots at row {row} and {sizes[0]} at row 0. "
                "Fill shorter slates with -1, an empty slot."
            )
    if np.asarray(slate).dtype == bool:
        raise TypeError(
            "slate must hold the index of a candidate in every slot, got booleans. "
            "Who could be shown is `candidates`."
        )
    array = as_numbers("slate", slate, 2)
    if not array.size:
        raise ValueError("the logs are empty: at least one round and slot is needed.")
    wrong = (array != np.round(array)) | (array < EMPTY)
    if wrong.any():
        row, slot = np.argwhere(wrong)[0]
        want = "slate must hold indices of candidates (or -1 for an empty slot)"
        raise RowError(f"{want}, got {array[row, slot]:g}", row, f", slot {slot}.")
    return read_only(array.astype(np.intp))


def has_slot_rewards(logs):
    """Tell whether slots have rewards that add up to those of their pages."""
    return logs.slot_reward is not None and row_of_another_reward(logs) is None


def check_feature_names(names, item_features):
    """Return the names of the features of items as a tuple, or None."""
    if names is None:
        return None
    names = tuple(names)
    width = 0 if item_features is None else item_features.shape[-1]
    if len(names) != width or len(set(names)) < width:
        raise ValueError(
            "item_feature_names must hold a different name for each of the "
            f"{width} columns of item_features, got {list(names)}."
        )
    return names


def row_of_another_reward(logs):
    """Return a row whose reward is not the sum of its slot rewards, or None."""
    total = logs.slot_reward.sum(axis=1)
    scale = np.abs(total) + np.abs(logs.reward)
    off = np.flatnonzero(np.abs(total - logs.reward) > 1e-9 * scale)
    return int(off[0]) if len(off) else None


def is_uniform(logs):
    """Tell whether the logging policy takes, in every slot, any candidate alike."""
    policy = logs.logging_policy
    return bool(getattr(policy, "_takes_all_alike", False))


# -- features of single candidates of slate logs ---------------------------------------


def item_rows(logs, rounds, candidates):
    """Return features of candidates, (n_rows, n_item_features)."""
    # `rounds` and `candidates` say which; for an empty slot some candidate stands.
    table = logs.item_features
    if table.ndim == 3:
        if not table.flags.c_contiguous:
            return table[rounds, candidates]
        # rows of a flat table are taken many times faster than pairs of indices
        n_rounds, n_candidates, n_features = table.shape
        rows = table.reshape(n_rounds * n_candidates, n_features)
        return rows.take(rounds * n_candidates + candidates, axis=0)
    if len(table) != logs.max_candidates:  # a catalogue, whose rows the labels number
        candidates = logs.item_id[rounds, candidates]
    return table.take(candidates, axis=0)


def column_weights(logs, of_part=False):
    """Return the weights of slate logs or None; those `of_part` may all be zero."""
    if WEIGHT_COLUMN not in logs.columns:
        return None
    name = f"the column {WEIGHT_COLUMN!r}"
    weight = as_numbers(name, logs.columns[WEIGHT_COLUMN])
    if weight.size and not (weight.min() >= 0 and (of_part or weight.any())):
        raise ValueError(
            f"{name} weights the rounds: it must be non-negative and positive "
            f"somewhere, got {weight.min():.6g} to {weight.max():.6g}. Give a column "
            "that is no weight another name."
        )
    return weight
