"""The models of the demo: what each learns, how fast, and what there is to see and when."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.replay.client import Service
from service.replay.demo import streams
from service.replay.demo.feeding import BEGIN_ROW, OVERLAP_ROWS, Batches, Feeder, Late, Replaced

PREFIX = "demo-"


@dataclass(frozen=True, slots=True)
class Role:
    """A model of the demo.

    Attributes:
        name: of the model.
        body: what it is created with.
        feeder: makes what feeds it, of a service and its name.
        rows_per_s: how fast it is fed, at speed 1.
        shows: what it is, in a line.
        look: what to look for; ``{}`` becomes the time at which the next one of ``at_rows`` is learned.
        at_rows: the rows at which that happens; the streams are seeded, so they are the same every time.
        challengers: learners beside it.
    """

    name: str
    body: Mapping[str, Any]
    feeder: Callable[[Service, str], Feeder]
    rows_per_s: float
    shows: str
    look: str
    at_rows: Sequence[int]
    challengers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def cast() -> list[Role]:
    """The five models.

    Least squares that never forget begin on SEA: ``auto`` learns beside them, and the service promotes it by itself
    once its lead is certain. The other way round there is nothing to see: no single learner gets ahead of ``auto``.
    """
    return [
        Role(
            PREFIX + "sea",
            {
                "algorithm": "rls",
                "task": "classification",
                "labels": ["below", "above"],
                "features": [{"name": f"x{at}", "min": 0, "max": 10} for at in (1, 2, 3)],
                "description": "SEA concepts: x1 + x2 <= theta, and theta jumps",
            },
            lambda service, name: Batches(service, name, streams.sea(1)),
            20,
            "rls on a boundary that jumps; challengers auto and dfop",
            "drift {}, then auto is ahead and promoted by the service {}",
            (1033, 1500),
            {"auto": {"algorithm": "auto", "promote": "auto"}, "dfop": {"algorithm": "dfop"}},
        ),
        Role(
            PREFIX + "hyperplane",
            {
                "algorithm": "dynamic_odm",
                "task": "classification",
                "labels": ["back", "front"],
                "description": "A hyperplane that turns with every row, and jumps now and then",
            },
            lambda service, name: Batches(service, name, streams.hyperplane(0)),
            20,
            "dynamic_odm on a plane that turns, and jumps",
            "drift {}; the score falls and recovers",
            (1194,),
        ),
        Role(
            PREFIX + "sensors",
            {
                "algorithm": "fesl_c",
                "task": "regression",
                "features": streams.Sensors(0).names(0),
                "description": "A heat demand by sensors that are replaced",
            },
            lambda service, name: Replaced(service, name, streams.Sensors(0)),
            15,
            "fesl_c on a heat demand; its sensors are replaced",
            "both sets {}, only the new one {}",
            (BEGIN_ROW, BEGIN_ROW + OVERLAP_ROWS),
        ),
        Role(
            PREFIX + "fraud",
            {
                "algorithm": "auto",
                "task": "classification",
                "labels": ["fine", "fraud"],
                "features": ["amount", "hour", "per_hour", {"name": "abroad", "type": "boolean"}],
                "class_costs": {"fraud": 15},
                "description": "Payments, 4 % of them frauds; missing one costs fifteen false alarms",
            },
            lambda service, name: Batches(service, name, streams.payments(4)),
            25,
            "auto on payments; a missed fraud costs 15 false alarms",
            "recall of fraud per class; drift {}",
            (1559,),
        ),
        Role(
            PREFIX + "parcels",
            {
                "task": "classification",
                "labels": ["in time", "late"],
                "features": [
                    {"name": "carrier", "type": "categorical", "categories": list(streams.CARRIERS)},
                    "distance_km",
                    {"name": "express", "type": "boolean"},
                ],
                "watch": {"error_rate": {"batch_size": 60}},  # a tenth of the parcels between two swaps
                "description": "Parcels: predicted when they leave, labelled when they have come",
            },
            lambda service, name: Late(service, name, streams.parcels(0)),
            6,
            "auto on parcels, predicted first; labels come later, a few never",
            "pending predictions and their labels; drift {}",
            (654,),  # 613 of them labelled
        ),
    ]
