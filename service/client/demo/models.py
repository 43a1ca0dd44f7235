"""The models of the demo: what each learns, how fast, and what there is to see and when."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.client.demo import streams
from service.client.demo.streams import BEGIN_ROW, OVERLAP_ROWS, Row, Switch


@dataclass(frozen=True, slots=True)
class DemoModel:
    """A model: what it is created with and learns at speed 1, and at which rows there is what to look for.

    ``look`` has a ``{}`` for the time of each of ``at_rows``; streams are seeded, so they are the same every time.
    """

    name: str
    body: Mapping[str, Any]
    stream: Iterator[Row | Switch]
    rows_per_s: float
    shows: str
    look: str
    at_rows: Sequence[int]
    challengers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    late: bool = False


def demo_models() -> list[DemoModel]:
    """The five models.

    Least squares that never forget begin on SEA: ``auto`` learns beside them, and the service promotes it by itself
    once its lead is certain. The other way round there is nothing to see: no single learner gets ahead of ``auto``.
    """
    classification = {"task": "classification"}
    return [
        DemoModel(
            "demo-sea",
            classification
            | {
                "algorithm": "rls",
                "labels": ["below", "above"],
                "features": [{"name": f"x{at}", "min": 0, "max": 10} for at in (1, 2, 3)],
                "description": "SEA concepts: x1 + x2 <= theta, and theta jumps",
            },
            streams.sea(1),
            20,
            "rls on a boundary that jumps; challengers auto and dfop",
            "drift {}, then auto is ahead and promoted by the service {}",
            (1033, 1500),
            {"auto": {"algorithm": "auto", "promote": "auto"}, "dfop": {"algorithm": "dfop"}},
        ),
        DemoModel(
            "demo-hyperplane",
            classification
            | {
                "algorithm": "dynamic_odm",
                "labels": ["back", "front"],
                "description": "A hyperplane that turns with every row, and jumps now and then",
            },
            streams.hyperplane(0),
            20,
            "dynamic_odm on a plane that turns, and jumps",
            "drift {}; the score falls and recovers",
            (1194,),
        ),
        DemoModel(
            "demo-sensors",
            {
                "algorithm": "fesl_c",
                "task": "regression",
                "features": streams.sensor_names(0),
                "description": "A heat demand by sensors that are replaced",
            },
            streams.sensors(0),
            15,
            "fesl_c on a heat demand; its sensors are replaced",
            "both sets {}, only the new one {}",
            (BEGIN_ROW, BEGIN_ROW + OVERLAP_ROWS),
        ),
        DemoModel(
            "demo-fraud",
            classification
            | {
                "algorithm": "auto",
                "labels": ["fine", "fraud"],
                "features": ["amount", "hour", "per_hour", {"name": "abroad", "type": "boolean"}],
                "class_costs": {"fraud": 15},
                "description": "Payments, 4 % of them frauds; missing one costs fifteen false alarms",
            },
            streams.payments(4),
            25,
            "auto on payments; a missed fraud costs 15 false alarms",
            "recall of fraud per class; drift {}",
            (1559,),
        ),
        DemoModel(
            "demo-parcels",
            classification
            | {
                "labels": ["in time", "late"],
                "features": [
                    {"name": "carrier", "type": "categorical", "categories": list(streams.CARRIERS)},
                    "distance_km",
                    {"name": "express", "type": "boolean"},
                ],
                "watch": {"error_rate": {"batch_size": 60}},  # a tenth of the parcels between two swaps
                "description": "Parcels: predicted when they leave, labelled when they have come",
            },
            streams.parcels(0),
            6,
            "auto on parcels, predicted first; labels come later, a few never",
            "pending predictions and their labels; drift {}",
            (654,),
            late=True,
        ),
    ]
