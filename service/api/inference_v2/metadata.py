"""What the inputs and outputs of a model are."""

from core.features import Feature, SparseSchema
from core.features.labels import key
from core.machine import Machine
from service.api.inference_v2.requests import MATRIX, PREDICTION, PROBABILITIES
from service.api.inference_v2.schemas import ModelMetadata, TensorMetadata
from service.runtime.replica import Replica

ANY = -1
"""In a shape: any length."""


async def metadata_of(replica: Replica) -> ModelMetadata:
    """The metadata of a model as it is now.

    Raises:
        ModelDown: it is out of service.
    """
    async with replica.held():
        machine = replica.machine
        return ModelMetadata(
            name=replica.name,
            versions=[str(replica.version)],
            platform="onepass",
            inputs=_inputs(machine),
            outputs=_outputs(machine),
        )


def _inputs(machine: Machine) -> list[TensorMetadata]:
    """One matrix where all features are numbers, else one input for each; none where rows hold any names."""
    space = machine.prediction_schema
    if space is None:
        return [TensorMetadata(name=MATRIX, datatype="FP64", shape=[ANY, ANY])]
    if isinstance(space, SparseSchema):
        return []
    if all(feature.type == "numeric" for feature in space.features):
        return [TensorMetadata(name=MATRIX, datatype="FP64", shape=[ANY, space.raw_width])]
    return [TensorMetadata(name=own.name, datatype=_datatype(own), shape=[ANY]) for own in space.features]


def _datatype(feature: Feature) -> str:
    if feature.type == "categorical":
        kinds = {*map(type, feature.categories)}
        return "BOOL" if kinds == {bool} else "INT64" if kinds == {int} else "BYTES"
    return "BOOL" if feature.type == "boolean" else "FP64"


def _outputs(machine: Machine) -> list[TensorMetadata]:
    if machine.config.task == "regression":
        return [TensorMetadata(name=PREDICTION, datatype="FP64", shape=[ANY])]
    classes = [*map(key, machine.answers.said.labels)]
    return [
        TensorMetadata(name=PREDICTION, datatype="BYTES", shape=[ANY]),
        TensorMetadata(
            name=PROBABILITIES, datatype="FP64", shape=[ANY, len(classes) or ANY], parameters={"classes": classes}
        ),
    ]
