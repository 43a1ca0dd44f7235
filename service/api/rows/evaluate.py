"""POST /models/{name}/evaluate: scores a model on labelled rows that it does not learn, such as a holdout file."""

from functools import partial
from typing import Any

import msgspec
from fastapi import APIRouter

from core.contract import Floats
from core.model import cost, read
from service.api.http.context import Ctx, Fresh, ModelName
from service.api.http.route import READ
from service.api.rows.batch_metrics import OutsidePredictions, metrics_of, metrics_of_outside
from service.api.rows.batches import let_go, read_batch
from service.api.rows.feedback import LABELLED_ROWS
from service.api.rows.formats.json_tables import FEEDBACK
from service.api.rows.formats.tables import TABLE_QUERIES
from service.api.rows.idempotency import read_rows
from service.api.rows.predict import ROW_FLOPS, held
from service.api.rows.row_route import RowRequest, RowRoute
from service.api.rows.table_queries import described
from service.api.schemas import Evaluated
from service.runtime import threads
from service.runtime.replicas.replica import Replica
from service.runtime.rows.row_validation import Labels, RowValidator

router = APIRouter(route_class=RowRoute)
_encode = msgspec.json.Encoder().encode


@router.post(
    "/models/{name}/evaluate",
    tags=["batches"],
    dependencies=[READ, described(*TABLE_QUERIES)],
    response_model=Evaluated,
    openapi_extra=LABELLED_ROWS,
)
async def evaluate(ctx: Ctx, name: ModelName, request: RowRequest, fresh: Fresh) -> bytes:
    """Score the model on labelled rows without learning them.

    Takes the same bodies as `feedback/batch`: JSON by column or by name, `application/x-ndjson`, `text/csv` with
    `?label=`, `application/x-npy` (a file of `numpy.save`, the label last), `text/x-svmlight`. Nothing changes. The
    model predicts all rows as it is at `version`; `metrics` are those of these rows. Ids, discounts and weights have no
    effect. A label that the model does not know counts as a wrong prediction and has the probability by which feedback
    would score it; with declared labels it is refused. With `served`, `metrics.served` are the scores of the model
    outside on the rows that it predicted; an observer's `metrics` are these scores alone.
    """
    replica, table, body = await read_batch(ctx, request, name, FEEDBACK, fresh)

    def rows_of(validator: RowValidator) -> tuple[Any, Floats, Labels, OutsidePredictions]:
        return *validator.rows_to_score(table), validator.labels_to_score(table), validator.outside(table)

    while True:  # until the rows are read with the features that the model has when it predicts them
        space, raw, labels, outside = await read_rows(ctx, replica, len(body), rows_of)
        flops = cost.flops_to_predict(replica.model.own, len(raw)) + ROW_FLOPS * len(raw)
        threads.refuse_hours(flops, len(raw))
        let_go(ctx, request, table, raw)
        answer = await held(replica, space, flops, partial(_evaluate, replica, raw, labels, outside))
        if answer is not None:
            return _encode(answer)
        replica, table, body = await read_batch(ctx, request, name, FEEDBACK, fresh, body)


def _evaluate(replica: Replica, raw: Floats, labels: Labels, outside: OutsidePredictions) -> Evaluated:
    """Predict n rows (n, F) and compare the predictions with the labels."""
    own = replica.model.own
    theirs = None if outside is None else metrics_of_outside(outside, labels)
    if own.config.algorithm.observes:
        return Evaluated(len(raw), theirs or {}, replica.version, replica.incarnation)
    prediction, p_true = read.judge(own, raw, labels)
    metrics = metrics_of(own.answers.named(prediction.value), labels, p_true)
    if theirs is not None:
        metrics["served"] = theirs
    return Evaluated(len(raw), metrics, replica.version, replica.incarnation)
