"""States written by earlier code are read, and go on learning as if nothing had happened."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.machine import Machine
from core.state import envelope
from core.state.arrays import unpack
from tests.core.state.samples import SAMPLES, SETTLED, first_version, path, streams

STREAMS = dict(streams())
UNCALIBRATED = 3
"""The last format without the calibration of probabilities."""
OTHERWISE_CALIBRATED = 4
"""The last format whose calibration had learned from probabilities that were not weighed by the rows of each class: of
older states, what the learner says is compared."""
LEARNED_OTHERWISE = {
    ("ga2m", 4): [
        0.3858395, 0.4596172, 0.8964718, 0.6573232, 0.6424887, 0.3930151, 0.5887162, 0.2123047, 0.683473, 0.0561065,
    ],
    ("auto", 4): [
        0.0323409, 0.0675994, 0.8814626, 0.5368035, 0.7945999, 0.9011011, 0.4041759, 0.0886366, 0.5906588, 0.1468561,
    ],
}  # fmt: skip
"""Learners that go other ways since: what this code's say after the same rows, of the first class."""
HELD_WIDER = 3
"""The last format whose bank weighed members that were held within a whole range of the labels beyond it."""
VERSIONS = range(envelope.OLDEST, SETTLED + 1)
KEPT = [(name, version) for version in VERSIONS for name in STREAMS if version >= first_version(name)]


@pytest.mark.parametrize("version", VERSIONS)
def test_there_is_a_sample_of_everything_in_every_format(version):
    """Nothing is lost on the way, and nothing lies there that no test reads."""
    names = [name for name, kept in KEPT if kept == version]
    assert {path(name, version) for name in names} == {*(SAMPLES / f"{version}").iterdir()}
    for name in names:
        assert version == unpack(path(name, version).read_bytes())[1]["format"]


@pytest.mark.parametrize(("name", "version"), KEPT)
def test_a_sample_goes_on_learning(name, version):
    """Beside a model that this code has built from the same rows: equal to round-off, which differs by type of CPU.

    Weights of a bank's members that earlier code held less tightly are nearly the same.
    """
    stream = STREAMS[name]
    fresh, _ = Machine.from_bytes(stream.machine.to_bytes())
    stored, stamp = Machine.from_bytes(path(name, version).read_bytes())
    assert {"sample": name} == stamp
    assert fresh.rows == stored.rows
    at, before = stream.at, stream.machine
    told = []
    try:
        for machine in (fresh, stored):
            stream.machine, stream.at = machine, at
            stream.learn(1, 1, 30)
            space = machine.prediction_schema
            model = machine if version > OTHERWISE_CALIBRATED else machine.switching.in_force
            told.append(model.predict(stream.rows(10, space).X))
    finally:
        stream.machine, stream.at = before, at
    assert fresh.rows == stored.rows == before.rows + 32
    if (name, version) in LEARNED_OTHERWISE:
        assert_allclose(LEARNED_OTHERWISE[name, version], told[1].probabilities[:, 0], rtol=1e-4)
        return
    for part in ("value", "std", *(["probabilities"] if version > UNCALIBRATED else [])):
        ours, theirs = (getattr(one, part) for one in told)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            wider = before.regression and version <= HELD_WIDER
            assert_allclose(ours, theirs, rtol=1e-3 if wider else 1e-6, atol=1e-9)
    assert np.isfinite(told[1].value).all()


@pytest.mark.parametrize("name", STREAMS)
def test_what_is_read_is_written_as_this_code_writes_it(name):
    """Of this code's own format, the same bytes: those of the file, as soon as there is one."""
    written = STREAMS[name].machine.to_bytes({"sample": name})
    stored = path(name, SETTLED).read_bytes() if envelope.FORMAT == SETTLED else written
    assert stored == Machine.from_bytes(stored)[0].to_bytes({"sample": name})


@pytest.mark.parametrize(("name", "version"), KEPT)
def test_a_sample_is_upgraded_once(name, version):
    """Written by this code, what was read of an older format is read as it is."""
    machine, _ = Machine.from_bytes(path(name, version).read_bytes())
    written = machine.to_bytes()
    assert envelope.FORMAT == unpack(written)[1]["format"]
    assert written == Machine.from_bytes(written)[0].to_bytes()
