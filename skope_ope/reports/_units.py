# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values and gains as people say them: in percent where rewards are yes or no."""

from dataclasses import dataclass
from math import isfinite

from skope_ope.logs._shown_numbers import decimals, error_text, fixed


@dataclass(frozen=True)
class Units:
    """How values and gains are written on a page, all with the same decimal places."""

    percent: bool  # whether all rewards are 0 or 1, so that a value is a share
    of_values: int  # decimal places in tables
    of_gains: int  # decimal places in tables
    # Decimal places in sentences, of values and gains alike: what is subtracted in the
    # head agrees with the gain
    in_words: int

    @classmethod
    def of(cls, values, gains, percent):
        """Return the units that suit the standard errors of values and gains."""
        of_values, of_gains = (
            decimals([one.standard_error * scale for one in shown])
            for scale in [100 if percent else 1]
            for shown in (list(values), list(gains))
        )
        return cls(percent, of_values, of_gains, of_gains)

    @property
    def of_gain(self):
        """What a gain is counted in, for headers and axes."""
        return "points" if self.percent else "reward per round"

    def value(self, x):
        """Return a value or its limit for a table; "-" where there is none."""
        return self._text(x, self.of_values, "%" if self.percent else "")

    def error(self, x):
        """Return the standard error of a value for a table."""
        unit, factor = ("%", 100) if self.percent else ("", 1)
        return error_text(factor * x, self.of_values, unit)

    def gain(self, x):
        """Return a gain or its limit for a table, signed and without its unit."""
        return self._text(x, self.of_gains, "", "+")

    def worded_value(self, x):
        """Return a value for a sentence."""
        return self._text(x, self.in_words, "%" if self.percent else "")

    def worded_gain(self, x, sign=""):
        """Return a gain for a sentence, with its unit."""
        return (
            f"{self.worded_limit(x, sign)}{' points' if self.percent else ' per round'}"
        )

    def worded_limit(self, x, sign=""):
        """Return a limit of a gain for a sentence, without its unit."""
        return self._text(x, self.in_words, "", sign)

    @staticmethod
    def share(x, sign="+"):
        """Return a relative gain or its limit: whole percent, or two digits."""
        if not isfinite(x):
            return "-"
        percent = 100 * x
        if abs(percent) >= 10:
            return f"{percent:{sign},.0f}%"
        return f"{percent:{sign}.1f}%"

    def _text(self, x, places, unit, sign=""):
        if not isfinite(x):
            return "-"
        return fixed(100 * x if self.percent else x, places, sign, unit)
