"""A model and its challengers: rows go through all of them, one may be put there, taken away, or become the model."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core.challenger_config import challenging, own_fields, own_text, promote_of
from core.config import Config
from core.contract import Floats, Header, Prediction
from core.drift.outbox import Outbox, joined_alarm, of_alarm
from core.entry import Challenge, Configured, Places, Promote, Refused, ServedPrediction, Withdraw
from core.metrics.difference import Difference
from core.model.block_rows import BlockRows, part_of
from core.model.challengers import (
    ASKED_ROWS_MIN,
    PREVIOUS,
    TEST_EVERY,
    Challenger,
    comparable,
    parts_between_tests,
    promotable,
)
from core.model.configuring import MemberChange
from core.model.drift_response import Seen
from core.model.member import Member
from core.model.saving import Saved
from core.model.summary import LastDrift, Summary
from core.model.training import Scored, joined
from core.problems import Conflict, Invalid


class Contest(Saved):
    """The state of one model, as its learner and its challengers share it."""

    def metrics_report(self) -> Header:
        """The prequential metrics of the model; ``rows`` count on through promotions."""
        return {**super().metrics_report(), "rows": self.rows}

    def summary(self) -> Summary:
        """What a list of models shows of this one: its last drift event and its challengers, too."""
        k = len(self.challengers)
        ahead = sum([one.difference.low(k) > 0 for one in self.challengers.values()])
        last = LastDrift.of(self.outbox.newest)
        return super().summary()._replace(drift=last, challengers=k, ahead=ahead)

    # ---------------------------------------------------------------- rows

    def predict_to_keep(self, raw: Floats) -> tuple[Prediction, ServedPrediction]:
        """Predict one raw row (1, F) whose label will come later: with what all learners say of it now."""
        prediction = self.predict(raw)
        served = self.served(prediction, 0)
        if self.challengers:
            members = [one.member for one in self.challengers.values()]
            served = replace(served, beside=tuple([one.served(one.predict(raw), 0) for one in members]))
        return prediction, served

    @staticmethod
    def _said_by(learner: str, rows: BlockRows, told: bool) -> BlockRows:
        """Rows by what a learner said of them when they were tracked.

        Args:
            learner: by the place of its entry.
            rows: what was served of them.
            told: whether that stands for what the learner did not say.
        """
        X, labels, given, served = rows
        if served is None:
            return rows
        own = [None if one is None else one.said_by(learner) for one in served]
        if told:  # by a learner that may have other lags
            of = zip(own, served, strict=True)
            own = [replace(one, lags=None) if said is None and one is not None else said for said, one in of]
        return X, labels, given, own

    def _learn_together(self, space: str, rows: BlockRows, places: Places) -> Scored:
        """Rows go through the model and its challengers; one may be promoted in between."""
        count, before = len(rows[0]), self.rows
        scored: list[Scored] = []
        for part in parts_between_tests(before, count, self.challengers):
            scored.append(self._contest(space, rows if part == slice(0, count) else part_of(rows, part)))
            self._report_alarms(places)
            if count and self.rows % TEST_EVERY == 0 and (name := promotable(self.challengers)) is not None:
                self._promote(name, "auto")
        return joined(scored)

    def _contest(self, space: str, rows: BlockRows) -> Scored:
        """Rows go through all learners, and what these said of them is compared."""
        served, model = rows[3], self.born
        own = self.learn_rows(space, self._said_by(model, rows, told=True))
        costs = None if self.answers.costs is None else self.answers.costs / self.config.cost_max
        for one in self.challengers.values():
            gone = space not in one.member.switching.routes  # nothing can be said of the rows now
            beside = one.member.learn_rows(space, self._said_by(one.member.born, rows, told=gone))
            both = None if served is None else comparable(served, (model, one.member.born))
            one.compare(own, beside, both, costs)
        return own

    @property
    def members(self) -> list[Member]:
        """The model's own learner, then those of the challengers."""
        return [self, *(one.member for one in self.challengers.values())]

    def _report_alarms(self, places: Places) -> None:
        """Put the alarms into the outbox, in the order of their rows; each event is a mark in the learner's metrics."""
        found: list[tuple[Member, str | None, Seen]] = [(self, None, seen) for seen in self.take_alarms()]
        for name, one in self.challengers.items():
            found += [(one.member, name, seen) for seen in one.member.take_alarms()]
        if not found:
            return
        for member, challenger, (row, alarm, (joins, held_back), action) in sorted(found, key=_row_of):
            label = None if self.regression else self.labels.labels[alarm.cls]
            named = [member.row_columns[at] for at in alarm.columns]
            if joins:
                latest = self.outbox.newest  # an event is closed by the next one, whosever that is
                if latest is not None and latest.challenger == challenger:
                    self.outbox.join(joined_alarm(alarm, row, label, named))
                continue
            newest, index, _ = self.outbox.last
            version, time_ms = places.place_of(row)
            place = version, index + 1 if newest == version else 0
            known = {"row": row, "time_ms": time_ms, "label": label, "challenger": challenger}
            event = of_alarm(alarm, place, named, action=action, held_back=held_back, **known)
            self.outbox.put(event)
            member.metrics.mark(row, "drift", test=alarm.kind, label=label, action=action)

    # ---------------------------------------------------------------- challengers

    def plan_challenge(self, name: str, raw: Mapping[str, Any], most: int) -> tuple[Challenge | None, Config]:
        """A challenger as a client asks for it, checked, and its configuration; None where it is there already.

        Args:
            name: what it is to be called.
            raw: the body.
            most: how many challengers a model may have.

        Raises:
            Invalid: naming the field.
            Conflict: there is another one of that name, or too many; or a change of features is under way.
        """
        if name == PREVIOUS:
            raise Invalid.of("challenger", f"{PREVIOUS} is what the former model is called after a promotion")
        config, promote = challenging(self.config, raw), promote_of(raw)
        known = self.challengers.get(name)
        if known is not None:
            if own_text(known.member.config) != own_text(config):
                raise Conflict(f"challenger {name} exists with another configuration; DELETE it first")
            if known.promote == promote:
                return None, config
        elif len(self.challengers) >= most:
            raise Conflict(f"the model has {len(self.challengers)} challengers, of at most {most}: DELETE one first")
        elif self.phase == "overlap":
            raise Conflict("a change of features is under way: complete or abort it first")
        elif len(self.labels) > (bound := config.algorithm.class_bound):
            raise Conflict(f"{config.algorithm_id} learns at most {bound} classes; the model has {len(self.labels)}")
        return Challenge(name, {**own_fields(config), "promote": promote}, most), config

    def _challenge(self, segment: Challenge, place: str) -> Configured | Refused:
        try:
            _, config = self.plan_challenge(segment.name, segment.config, segment.most)
        except (Invalid, Conflict) as error:
            return Refused(str(error))
        known, promote = self.challengers.get(segment.name), promote_of(segment.config)
        if known is not None:
            known.promote = promote
            return Configured(self.rows)
        member = Member(config, self.switching.beside(config))
        member.born = place
        member.begin_at(self.labels, self.rows)
        self.challengers[segment.name] = Challenger(member, promote)
        return Configured(self.rows)

    def _withdraw(self, segment: Withdraw) -> Configured | Refused:
        if segment.name not in self.challengers:
            return Refused(self.no_challenger(segment.name))
        del self.challengers[segment.name]
        return Configured(self.rows)

    def _promote_asked(self, segment: Promote) -> Configured | Refused:
        if segment.name not in self.challengers:
            return Refused(self.no_challenger(segment.name))
        if not segment.force and (why := self.unproven(segment.name)) is not None:
            return Refused(why)
        self._promote(segment.name, "request")
        return Configured(self.rows)

    def unproven(self, name: str) -> str | None:
        """Why a challenger is promoted by force only, with what is known of it; None where it needs none."""
        if name == PREVIOUS:
            return None
        found = self.difference_report(name)
        if found["rows"] >= ASKED_ROWS_MIN and found["low"] > 0:
            return None
        known = "difference {mean:.4g}, interval {low:.4g} to {high:.4g}; ".format_map(found) if found["rows"] else ""
        needed = f'{known}it takes {ASKED_ROWS_MIN} rows and an interval above 0, or "force": true'
        return f"challenger {name} has not been shown to be better: {found['rows']} rows were compared; {needed}"

    def difference_report(self, name: str) -> Header:
        """The paired difference of the model and a challenger, in units of the loss, among all its challengers."""
        return self.challengers[name].difference.report(len(self.challengers), self.config.cost_max)

    def no_challenger(self, name: str) -> str:
        """What is said where there is no challenger of a name."""
        return f"there is no challenger {name}; there {_named(self.challengers)}"

    def _promote(self, name: str, why: str) -> None:
        """A challenger becomes the model's own learner, which becomes the challenger ``PREVIOUS``.

        What belongs to the model whoever learns its rows stays: challengers, events, marks, counts of unknown
        categories.
        """
        model = {part: self.__dict__[part] for part in ("challengers", "outbox", "unknown")}
        challengers, promoted = self.challengers, self.challengers.pop(name).member
        former = Member.__new__(Member)
        former.__dict__.update(self.__dict__, challengers={}, outbox=Outbox(), unknown=promoted.unknown)
        self.__dict__.update(promoted.__dict__, **model)
        former.metrics.hand_marks(self.metrics)
        challengers.pop(PREVIOUS, None)
        challengers[PREVIOUS] = Challenger(former)
        for member in self.members:
            member.end_episodes()
        self._compare_anew()
        self.metrics.mark(self.rows, "promotion", challenger=name, algorithm=self.config.algorithm_id, by=why)

    def change(self, change: MemberChange) -> None:
        """Go over to another configuration; with other costs, differences would be sums of different losses."""
        before = self.config
        super().change(change)
        if (before.class_costs, before.cost_max) != (self.config.class_costs, self.config.cost_max):
            self._compare_anew()

    def _compare_anew(self) -> None:
        for one in self.challengers.values():
            one.difference = Difference()


def _row_of(found: tuple[Member, str | None, Seen]) -> int:
    return found[2].row


def _named(challengers: Mapping[str, Challenger]) -> str:
    names = ", ".join(challengers)
    return f"is {names}" if len(challengers) == 1 else f"are {names or 'none'}"
