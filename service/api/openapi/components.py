"""Every body of a request or an answer as an OpenAPI component schema."""

from typing import Any

import msgspec

from service.api.drift_schemas import DriftList, ModelDriftList
from service.api.feature_schemas import FeatureSpaces, OverlapBody, SwitchBody, SwitchedSpaces, Taught
from service.api.schemas import (
    AlgorithmList,
    FeedbackColumns,
    FeedbackRow,
    FeedbackSparse,
    Learnt,
    LearntBatch,
    Model,
    ModelBody,
    ModelList,
    PendingList,
    PredictColumns,
    Predicted,
    PredictedBatch,
    PredictRow,
    PredictSparse,
    ProblemDocument,
    Ready,
    Replaced,
    RestoreTo,
    SnapshotEntry,
    SnapshotList,
    WeightsAnswer,
)

REQUESTS = (
    PredictRow,
    FeedbackRow,
    PredictColumns,
    PredictSparse,
    FeedbackColumns,
    FeedbackSparse,
    RestoreTo,
    ModelBody,
    SwitchBody,
    OverlapBody,
)
ANSWERS = (
    Predicted,
    Learnt,
    PredictedBatch,
    LearntBatch,
    ModelList,
    Model,
    SnapshotList,
    SnapshotEntry,
    Replaced,
    PendingList,
    DriftList,
    ModelDriftList,
    WeightsAnswer,
    FeatureSpaces,
    SwitchedSpaces,
    Taught,
    AlgorithmList,
    ProblemDocument,
    Ready,
)


def components() -> dict[str, Any]:
    """All of them as OpenAPI component schemas."""
    _, found = msgspec.json.schema_components((*REQUESTS, *ANSWERS), ref_template="#/components/schemas/{name}")
    return found
