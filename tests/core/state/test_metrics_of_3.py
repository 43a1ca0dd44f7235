"""Metrics that code of format 3 has saved go on."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.machine import Machine
from core.state import arrays as packing
from core.state import envelope
from core.state.metrics_of_3 import upgraded
from tests.core.state.samples import path
from tests.service.old_stores.samples import Sample

CLASSES, NUMBERS = ("dfop auto", "vigo", "odm"), ("rls", "dfop auto regression")
SPANS = ("overall", "window", "fading")


def before(name):
    """Arrays and header of a sample as it was written."""
    arrays, header = packing.unpack(path(name, 3).read_bytes())
    return {key.removeprefix("metrics."): array for key, array in arrays.items() if "metrics." in key}, arrays, header


@pytest.mark.parametrize("name", CLASSES)
def test_a_classifier_keeps_its_figures(name):
    """Right ones, losses and baselines; what was not kept begins with the window; a null answer is no miss any more."""
    own, _, _ = before(name)
    machine, _ = Machine.from_bytes(path(name, 3).read_bytes())
    s, ring = own["scalars"], own["ring"][: int(own["scalars"][0])]
    report = machine.metrics_report()
    said = ring[:, 0] >= 0
    assert (len(ring), (~said).sum()) == (report["rows"], report["unscored"])
    right = (ring[:, 0] == ring[:, 1]).sum()
    assert s[1] == right
    for span in ("overall", "window"):
        assert right / said.sum() == pytest.approx(report[span]["accuracy"])
        counts = np.array(report[span]["confusion"]["counts"])
        assert (said.sum(), right) == (counts.sum(), np.trace(counts))
    assert s[5] == pytest.approx(report["overall"]["log_loss"])
    assert s[16] / s[15] == pytest.approx(report["fading"]["log_loss"])
    assert s[2] / said.sum() == pytest.approx(report["baselines"]["no_change"]["accuracy"])
    weights = 0.999 ** np.arange(len(ring))[::-1]
    labels = [weights[said & (ring[:, 1] == k)].sum() for k in range(own["counts"].shape[1])]
    assert_allclose(labels, [one["support"] for one in report["fading"]["per_class"].values()], atol=1e-3)
    for span in SPANS:
        assert (None, []) == (report[span]["brier"], report[span]["reliability"])


@pytest.mark.parametrize("name", NUMBERS)
def test_a_regression_keeps_its_figures(name):
    """Errors and the baseline; bias and median error begin with the window, which here has all rows."""
    own, _, _ = before(name)
    machine, _ = Machine.from_bytes(path(name, 3).read_bytes())
    s, errors = own["scalars"], own["ring"][: int(own["scalars"][0]), 0]
    report = machine.metrics_report()
    for span in ("overall", "window"):
        assert s[1] == pytest.approx(report[span]["mse"])
        assert errors.mean() == pytest.approx(report[span]["bias"])
    middle = np.sort(np.abs(errors))[(len(errors) - 1) // 2]
    assert middle == pytest.approx(report["overall"]["median_ae"], rel=1 / 32)
    assert np.median(np.abs(errors)) == pytest.approx(report["window"]["median_ae"])
    weights = 0.999 ** np.arange(len(errors))[::-1]
    assert weights @ errors / weights.sum() == pytest.approx(report["fading"]["bias"])
    assert s[5] == pytest.approx(report["baselines"]["last_value"]["mse"])


@pytest.mark.parametrize("name", [*CLASSES, *NUMBERS])
def test_what_is_given_stays_as_it_was(name):
    """Arrays are views of the bytes; the rest of the state is passed on."""
    _, arrays, header = before(name)
    copies = {key: array.copy() for key, array in arrays.items()}
    new, other = upgraded(arrays, header)
    assert all(copies[key].tobytes() == array.tobytes() for key, array in arrays.items())
    assert "marks_thinned" not in header["state"]["metrics"]
    assert 0 == other["state"]["metrics"]["marks_thinned"]
    assert all(new[key] is array for key, array in arrays.items() if not key.startswith("metrics."))


@pytest.mark.parametrize("name", ["dfop auto", "rls"])
@pytest.mark.parametrize("how", ["gone", "empty", "wild", "flat", "nan"])
def test_a_broken_state_of_format_3_is_refused(monkeypatch, name, how):
    """A ValueError, never anything else: such a state may have been sent by a client."""
    _, arrays, header = before(name)
    header.pop("digest")
    for key in [key for key in arrays if key.startswith("metrics.")]:
        array = arrays[key].copy()
        changed = {
            "empty": array[:0],
            "wild": np.full_like(array, -1e200),
            "flat": array.reshape(-1),
            "nan": np.full_like(array, np.nan),
        }
        broken = {other: each for other, each in arrays.items() if other != key}
        if how != "gone":
            broken[key] = changed[how]
        if (how == "flat" and array.ndim == 1) or (how == "wild" and key == "metrics.history"):
            continue  # still a state
        with monkeypatch.context() as patch:
            patch.setattr(envelope, "FORMAT", 3)
            body = {part: value for part, value in header.items() if part != "format"}
            data = envelope.dump(broken, body)
        with pytest.raises(ValueError, match=r"."):
            Machine.from_bytes(data)


def test_a_regression_without_rows_is_read():
    """As it is created, and as a reset leaves it."""
    machine, _ = Machine.from_bytes(Sample.read("3").models["empty"].state)
    report = machine.metrics_report()
    assert (0, None) == (report["rows"], report["overall"]["mse"])
