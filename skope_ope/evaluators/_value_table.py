# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Several values in one table."""

from collections.abc import Mapping

from skope_ope.logs._html import table_html
from skope_ope.logs._text_table import text_table


class ValueTable(Mapping):
    """Values by evaluator, or by (policy, evaluator).

    Parameters
    ----------
    values : dict
        `PolicyValue` by name of the evaluator, or by (policy, evaluator).
    left_out : tuple of str, default=()
        Evaluators that need what the logs lack of the logger; the text names them.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, UniformPolicy, evaluate
    >>> logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], [1, 0, 1, 0], [0.5] * 4)
    >>> table = evaluate(UniformPolicy(), logs, evaluators=["IPS", "SNIPS"])
    >>> list(table)
    ['IPS', 'SNIPS']
    >>> table["IPS"].value
    0.5
    """

    def __init__(self, values, left_out=()):
        self._values = dict(values)
        self.left_out = tuple(left_out)

    def __getitem__(self, key):
        if key not in self._values:
            known = ", ".join(repr(one) for one in list(self._values)[:4])
            raise KeyError(f"{key!r}; the keys are {known}, ...")
        return self._values[key]

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)

    @property
    def _index(self):
        return ("policy", "evaluator") if self._by_policy else ("evaluator",)

    @property
    def _by_policy(self):
        return any(isinstance(key, tuple) for key in self._values)

    def to_records(self, level=0.95):
        """Rows of the table as a list of dicts.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of the intervals (Student).

        Returns
        -------
        records : list of dict
            Keys: policy (where there are several), evaluator, value,
            standard_error, low, high, effective_sample_size, n_rounds, warnings.
        """
        records = []
        for key, result in self._values.items():
            policy, evaluator = key if isinstance(key, tuple) else (None, key)
            low, high = result._interval(level)
            record = {"policy": policy} if self._by_policy else {}
            record.update(
                evaluator=evaluator,
                value=result.value,
                standard_error=result.standard_error,
                low=low,
                high=high,
                effective_sample_size=result.effective_sample_size,
                n_rounds=result.n_rounds,
                warnings="; ".join(type(w).__name__ for w in result.warnings),
            )
            records.append(record)
        return records

    def to_frame(self, level=0.95):
        """Return the table as a pandas frame.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of the intervals (Student).

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by evaluator, or by policy and evaluator.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "to_frame needs pandas: pip install 'skope-ope[frames]'; to_records "
                "gives the same rows without."
            ) from error
        return pd.DataFrame(self.to_records(level)).set_index(list(self._index))

    def plot(self, ax=None, *, level=0.95, truth=None):
        """Draw values and intervals; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; `None` makes a new figure.
        level : float, default=0.95
            Coverage of the intervals.
        truth : float, or dict of float, default=None
            The true value, where it is known, or those of the policies.

        Returns
        -------
        display : PolicyValueDisplay
        """
        from skope_ope.displays import PolicyValueDisplay

        return PolicyValueDisplay.from_values(self, level=level).plot(ax, truth=truth)

    def __repr__(self):
        lines = text_table(*self._texts(), n_left=0)
        if self.left_out:
            lines.append(self._note())
        return "\n".join(lines)

    def _note(self):
        names = ", ".join(self.left_out)
        return f"left out, they need propensities or a logging policy: {names}"

    def _texts(self):
        header = ["policy"] if self._by_policy else []
        header += [
            "evaluator",
            "value",
            "std. error",
            "95% low",
            "95% high",
            "eff. rounds",
            "warnings",
        ]
        rows = []
        for record in self.to_records():
            row = [str(record["policy"])] if self._by_policy else []
            row.append(str(record["evaluator"]))
            for name in ("value", "standard_error", "low", "high"):
                row.append(f"{record[name]:.5g}")
            size = record["effective_sample_size"]
            row.append("-" if size != size else f"{size:,.1f}")
            row.append(record["warnings"])
            rows.append(row)
        return header, rows

    def _repr_html_(self):
        header, rows = self._texts()
        title = "Values of policies"
        if self.left_out:
            title += f" ({self._note()})"
        return table_html(title, header, rows)
