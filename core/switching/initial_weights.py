r"""The weights that experts begin with after a switch, from their predictions of the labelled overlap rows.

Each labelled row of the overlap is predicted, before any model learns it, by the old model on recovered columns and by
the new model on its own. core.switching.mixture weighs both, b_r and b_n, from 1/2 each and with its share of 1/t, so
that either can rise late. Rows before there is a mapping count for neither. At the end, with r the share of the
recovered model and of the carried one, which starts at its weights:

    r = 1                    there is a mapping, and the new model has learned no labelled row: it cannot be judged
    r = min(b_r, .1)         the mapping is poor: fewer than five rows, or a held-out error of .8 and more
    r = b_r                  else

Where nothing has vanished there is nothing to recover, so the mapping is not poor. After the switch the 1/t share gives
every expert, including those that start at zero, some weight at the first label. With ``variant: "paper"`` weights are
equal unless there are fewer than five rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header, Prediction
from core.switching.feature_recovery import FeatureRecovery

ROWS_ENOUGH = 5
"""Overlap rows, the paper's fewest, below which a switch warns and relies on the new model."""
ERROR_POOR = 0.8
"""Held-out error of a mapping from which on a switch warns as well."""
POOR_SHARE_MAX = 0.1
"""Largest first weight of experts whose columns are recovered poorly."""


class InitialWeights:
    """The old model on recovered columns beside the new one.

    State:
        labelled_rows  labelled rows that the new model has learned
        mixture        of "recovered" and "new"
    """

    def __init__(self) -> None:
        from core.switching.mixture import Mixture  # noqa: PLC0415  its kernels are loaded later, see core.model

        self.labelled_rows = 0
        self.mixture = Mixture(np.full(2, 0.5), 0, selects=False, horizon=None, seed=0)

    def compare(self, recovered: Prediction, new: Prediction, truth: NDArray[Any]) -> None:
        """Weigh both by their predictions of rows."""
        self.mixture.learn([recovered, new], truth)

    def weights(self, names: Sequence[str], input_mapping: FeatureRecovery) -> Floats:
        """The first weights of the experts of these names, (E,)."""
        E = len(names)
        if E == 1:
            return np.ones(1)
        if input_mapping.paper:
            share = POOR_SHARE_MAX if input_mapping.rows < ROWS_ENOUGH else 1.0 - 1.0 / E
        elif not self.labelled_rows and input_mapping.ready:
            share = 1.0
        else:
            b_r, b_n = self.mixture.weights
            share = (E - 1) * b_r / ((E - 1) * b_r + b_n)
            share = min(share, POOR_SHARE_MAX) if mapping_problem(input_mapping) is not None else share
        return np.array([1.0 - share if name == "new" else share / (E - 1) for name in names])

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return self.mixture.nbytes

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state."""
        arrays, header = self.mixture.to_arrays()
        return arrays, {"taught": self.labelled_rows, **header}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state of ``to_arrays``.

        Raises:
            ValueError: not the state of initial weights; nothing has changed.
        """
        labelled_rows = header.get("taught")
        if type(labelled_rows) is not int or labelled_rows < 0:
            raise ValueError("not the state of initial weights")
        self.mixture.load_arrays(arrays, {name: value for name, value in header.items() if name != "taught"})
        self.labelled_rows = labelled_rows


def mapping_problem(input_mapping: FeatureRecovery) -> str | None:
    """Why recovered columns are not to be relied on, or None."""
    if not len(input_mapping.vanished):
        return None
    if input_mapping.rows < ROWS_ENOUGH:
        return f"{input_mapping.rows} overlap rows are too few to recover the old features from ({ROWS_ENOUGH} or more)"
    if input_mapping.error is not None and input_mapping.error >= ERROR_POOR:
        error = f"mapping_error {input_mapping.error:.2g}; 1 is a mean"
        return f"the old features are recovered poorly from the new ones ({error})"
    return None
