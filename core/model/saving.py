"""A model as bytes and back, its challengers included."""

from collections.abc import Callable, Mapping
from typing import Any, Self

from numpy.typing import NDArray

from core.challenger_config import challenging, own_fields
from core.config import Config
from core.contract import Buffer, Header
from core.drift.episodes import Episodes
from core.drift.outbox import Outbox
from core.model.challengers import Challenger, checked
from core.model.member import Member
from core.model.state import Learners
from core.state import envelope
from core.switching.structure import build, spaces_of

CHALLENGERS = "challengers"


class Saved(Member):
    """A model that can be saved and loaded."""

    # ---------------------------------------------------------------- save

    def to_bytes(self, stamp: Mapping[str, Any] | None = None) -> bytes:
        """The whole state with a digest; equal states give equal bytes.

        Args:
            stamp: JSON-able facts about where the state was taken (version, incarnation), kept in the header.
        """
        return self._dumped(stamp or {})

    def to_copy(self, stamp: Mapping[str, Any]) -> bytes:
        """The whole state as another model begins with it, at version 0.

        Without the alarms, which are events of this model's log, and with learners that none of it has put there.
        """
        return self._dumped(stamp, copied=True)

    def _dumped(self, stamp: Mapping[str, Any], copied: bool = False) -> bytes:
        arrays, state = self.packed({**self._held(self, copied), "outbox": Outbox() if copied else self.outbox})
        beside: list[Header] = []
        for at, (name, one) in enumerate(self.challengers.items()):
            own, header = one.member.packed({**self._held(one.member, copied), "difference": one.difference})
            arrays.update({f"{CHALLENGERS}.{at}.{part}": array for part, array in own.items()})
            fields = own_fields(one.member.config)
            beside.append({"name": name, "promote": one.promote, "config": fields, "state": header})
        if copied:
            learners: list[Header] = [state, *(one["state"] for one in beside)]
            for at, header in enumerate(learners):
                header.pop("born", None)
                header.update({"born": f"0.{at}"} if at else {})
        if beside:
            state[CHALLENGERS] = beside
        return envelope.dump(arrays, {"config": self.config.to_json(), "stamp": dict(stamp), "state": state})

    @staticmethod
    def _held(member: Member, copied: bool) -> dict[str, Any]:
        """The parts of a learner as they are saved."""
        held = member.parts()
        if copied and "episodes" in held:
            held["episodes"] = Episodes(member.config.watch)
        return held

    # ---------------------------------------------------------------- load

    @classmethod
    def from_bytes(
        cls, data: Buffer, admit: Callable[[Learners], None] = lambda _learners: None
    ) -> tuple[Self, dict[str, Any]]:
        """A model and its stamp from what ``to_bytes`` gave.

        Args:
            data: a saved state.
            admit: asked before anything is allocated; raises to refuse it.

        Raises:
            ValueError: corrupt, of another format version, or not a state that this configuration can have.
        """
        arrays, header = envelope.load(data)
        try:
            config, state = Config.parse(header["config"]), header["state"]
            beside = [(challenging(config, raw["config"]), raw) for raw in state.get(CHALLENGERS, ())]
            learners = [(config, state), *((own, raw["state"]) for own, raw in beside)]
            admit([(own, spaces_of(own, learner["switching"])) for own, learner in learners])
            model = cls(config, build(config, state["switching"]))
            for at, (own, raw) in enumerate(beside):
                model._load_challenger(own, raw, _taken(arrays, f"{CHALLENGERS}.{at}."))
            model.unpack(arrays, state, {"outbox": model.outbox})
            model._check_challengers()
            return model, dict(header["stamp"])
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(f"state is not one of a model: {error!r}") from error

    def _load_challenger(self, config: Config, raw: Header, arrays: Mapping[str, NDArray[Any]]) -> None:
        name, promote = checked(raw)
        one = Challenger(Member(config, build(config, raw["state"]["switching"])), promote)
        one.member.unpack(arrays, raw["state"], {"difference": one.difference})
        if name in self.challengers:
            raise ValueError("two challengers have the same name")
        self.challengers[name] = one

    def _check_challengers(self) -> None:
        """Each learns the rows of this model."""
        for one in self.challengers.values():
            member = one.member
            same_space = member.feedback_schema == self.feedback_schema
            if member.rows != self.rows or member.labels.labels != self.labels.labels or not same_space:
                raise ValueError("a challenger is not one of this model")


def _taken(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with a prefix, without it; they are taken out of the others."""
    return {name[len(prefix) :]: arrays.pop(name) for name in [*arrays] if name.startswith(prefix)}
