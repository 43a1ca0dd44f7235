"""A model under observation: invariants checked after every entry.

nothing raises; answers are finite and well-formed; a refused request changes nothing; alarms are in order
a machine that is saved and loaded before every entry has the same bytes as one that never is
reading changes nothing, and what is read is finite and well-formed
"""

import json

import numpy as np

from core.config import Config
from core.drift.outbox import Drift
from core.entry import Configure, Entry, Outcome, Overlap, Restore, Rows, Switch
from core.model import Model, explain, read, save
from core.model.apply import apply
from tests.core.life.streams import Stream


def position(alarm):
    """The position of an event's first alarm, or of a later one."""
    return alarm.place if isinstance(alarm, Drift) else alarm.position


class Observed:
    """A model that is never loaded, a twin that is loaded after every entry, the log of both, and the state after it.

    ``counts``: what has happened in all lives; updated in place.
    """

    def __init__(self, body, counts):
        self.config = Config.parse(body)
        self.machine, self.twin = Model.first(self.config), Model.first(self.config)
        self.stream = Stream(self.config.task)
        self.counts, self.log, self.returned = counts, [], []
        self.bytes = save.to_bytes(self.machine)

    @property
    def phase(self):
        """The phase; "none" before there is a space."""
        return "none" if self.machine.pipeline is None else self.machine.phase

    def commit(self, *segments):
        """Apply an entry to both machines and return its outcomes."""
        entry = Entry(len(self.log) + 1, 1_000 * len(self.log), segments)
        self.log.append(entry)
        phase, newest, before = self.phase, self.machine.outbox.last, self.bytes
        classes = len(self.machine.labels)
        watched = {test for member in self.machine.learners for test in member.config.watch.tests}
        outcomes = apply(self.machine, entry)
        told = [repr(one) for one in outcomes]
        self.returned.append((outcomes, told))
        assert told == [repr(one) for one in apply(self.twin, entry)]
        self.bytes = save.to_bytes(self.machine)
        assert self.bytes == save.to_bytes(self.twin)
        self.twin, _ = save.from_bytes(self.bytes)
        assert self.bytes == save.to_bytes(self.twin)
        if all(one.refusal is not None for one in outcomes):
            assert before == self.bytes
        for segment, outcome in zip(segments, outcomes, strict=True):
            self._check_outcome(segment, outcome)
        if len(self.machine.labels) > classes:
            self.saw(f"new class in {phase}")
        new = self._check_alarms(newest, phase)
        assert watched.issuperset(new) or any(isinstance(one, Configure | Restore) for one in segments)
        self._check_reading()
        return outcomes

    def _check_outcome(self, segment, outcome):
        if outcome.refusal is not None:
            self.saw(f"{type(segment).__name__} refused")
            assert outcome == Outcome(refusal=outcome.refusal)
        elif isinstance(segment, Switch | Overlap):
            assert isinstance(segment, Switch) == (outcome.phase is not None)
            assert outcome.overlap_rows is not None
        elif isinstance(segment, Rows):
            rows = len(segment.X) - len(segment.skip)
            assert [rows, rows] == [len(outcome.predictions), len(outcome.losses)]
            unsaid = np.array([said is None for said in outcome.predictions], dtype=bool)
            assert [loss is None for loss in outcome.losses] == [*unsaid]
            assert all(loss is None or np.isfinite(loss) for loss in outcome.losses)
            if self.config.task == "classification":
                shares = np.array(outcome.p_true)
                assert ((shares > 0) & (shares < 1) | unsaid).all()

    def _check_alarms(self, newest, phase):
        """Check the form and order of new alarms, and return their kinds."""
        events = self.machine.outbox.after(newest)
        new = [(one, drift) for drift in events for one in (drift, *drift.alarms) if position(one) > newest]
        positions = sorted(position(one) for one, _ in new)
        assert sorted({*positions}) == positions
        assert {len(self.log)} >= {version for version, _ in positions}
        json.dumps([one.to_json() for one, _ in new], allow_nan=False)
        own = self.config.algorithm.own_tests(self.config.params)
        joined = max(config.watch.episode_rows for config in (self.config, *self.machine.configs))
        for one, drift in new:
            assert 0 < drift.row <= one.row <= drift.row + (0 if one is drift else joined)
            if one is drift:
                self.saw(f"drift: {drift.kind}, {self.machine.config.on_drift}")
            self.saw(f"drift of {'its own' if one.kind in own else 'the watch'} in {phase}")
            if one.kind == "class_mean" and not one.features:
                self.saw("drift of recovered columns")
        return {one.kind for one, drift in new if drift.challenger is None}

    def _check_reading(self):
        """Everything readable is finite and well-formed, and reading changes nothing."""
        machine = self.machine
        report = {
            "metrics": read.metrics_report(machine),
            "info": read.info(machine),
            "ensemble": machine.own.switching.report(),
        }
        json.dumps([report, machine.own.switching.mapping_error], allow_nan=False)
        assert machine.nbytes > 0
        if machine.prediction_schema is not None:
            raw = self.stream.raw(machine.prediction_schema, np.arange(self.stream.at, self.stream.at + 3))
            self._check_prediction(read.predict(machine.own, raw))
            if len(self.log) % 16 == 1:
                self._check_explanation(raw[:1])
            weights = read.weights(machine.own)
            assert weights is None or all(np.isfinite(part).all() for part in weights)
        assert self.bytes == save.to_bytes(machine)

    def _check_explanation(self, raw):
        own = self.machine.own
        if self.config.algorithm.sparse:
            found = explain.explain_sparse(own, raw, {"some": 1.0, "names": -2.0})
        else:
            found = explain.explain(own, raw)
            json.dumps(explain.experts(own, raw), allow_nan=False)
            if len(self.log) % 128 == 1:  # it reads up to 256 rows
                json.dumps(explain.effects(own), allow_nan=False)
        json.dumps(found, allow_nan=False)

    def _check_prediction(self, prediction):
        if self.config.task == "regression":
            assert np.isfinite(prediction.value).all()
            assert prediction.std is None or (np.isfinite(prediction.std) & (prediction.std >= 0)).all()
            self._check_intervals(prediction)
            return
        answers, shares = self.machine.own.answers, prediction.probabilities
        labels, retired = len(answers.labels), [at for at in answers.labels.find(answers.retired) if at >= 0]
        assert ((prediction.value >= min(labels, 1) - 1) & (prediction.value < max(labels, 1))).all()
        assert (3, labels) == shares.shape
        in_use = np.delete(shares, retired, axis=1)
        assert ((in_use > 0) & (in_use < 1)).all()
        assert not shares[:, retired].any()
        assert not np.isin(prediction.value, retired).any()
        if labels > 1:
            np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-9)

    def _check_intervals(self, prediction):
        """Finite, around the prediction, and nested by level."""
        ends = [read.intervals_of(self.machine.own, prediction, level) for level in (0.3, 0.5, 0.7, 0.9, 0.97, 0.99)]
        known = [bounds for bounds in ends if bounds is not None]
        chain = [prediction.value, *(side for low, high in (bounds.T for bounds in known) for side in (low, high))]
        assert np.isfinite(chain).all()
        for inner, outer in zip([np.column_stack([prediction.value] * 2), *known], known, strict=False):
            assert (outer[:, 0] <= inner[:, 0]).all()
            assert (outer[:, 1] >= inner[:, 1]).all()

    def replay(self):
        """The whole log gives a fresh machine the same state; later rows have not changed any outcome."""
        assert [told for _, told in self.returned] == [[repr(one) for one in found] for found, _ in self.returned]
        again = Model.first(self.config)
        for entry in self.log:
            apply(again, entry)
        assert self.bytes == save.to_bytes(again)

    def saw(self, what):
        self.counts[what] += 1
