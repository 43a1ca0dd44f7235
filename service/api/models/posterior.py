"""GET /models/{name}/posterior: what a learner holds, as matrices and numbers by column name."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from core.features import SparseSchema
from core.learners.posterior import count_numbers
from core.model import read
from core.problems import Invalid, Problem
from service.api.http.context import Ctx, Text
from service.api.http.route import READ, Route
from service.api.models.documents import NOT_MODIFIED, chosen, conditional, encode, stamp
from service.api.models.models import ReadModel
from service.api.schemas import Incarnation, Version
from service.errors import RequestConflict, TooLarge, no_features
from service.runtime.replicas.replica import Replica

router = APIRouter(route_class=Route, tags=["models"])
NUMBERS_MAX = 1_000_000  # most numbers in an answer


class PosteriorAnswer(BaseModel):
    """The fields depend on the family of the algorithm."""

    model_config = ConfigDict(extra="allow")
    version: Version
    incarnation: Incarnation


@router.get("/models/{name}/posterior", dependencies=[READ], response_model=PosteriorAnswer, responses=NOT_MODIFIED)
async def show_posterior(
    ctx: Ctx,
    request: Request,
    replica: ReadModel,
    features: Annotated[
        Text | None, Query(description="Show only these features, separated by commas (quote names that contain one).")
    ] = None,
    diagonal: Annotated[bool, Query(description="Without the numbers off the diagonals of matrices.")] = False,
) -> Response:
    """What the learner holds, by column name.

    - `dfop`, `gdfop`, `rls`: `names`, `weights`, `covariance` (the P-matrix in the order of names; times
      `noise_variance` it is the covariance of the weights), `norm` (its spectral norm); with
      `"forgetting_rate": "auto"` these for each of `rates`, with its `share`. `sparse_dfop`: the same over the
      compressed columns.
    - `vigo`, `vigod`, `vigow`: `mean`, `covariance`, `count` and the counts of the paper for each of `classes`.
    - `odm`, `dynamic_odm`: `candidates`, each a linear model with its rows and its share.
    - `fesl_c`, `fesl_s`: `experts`, each a linear model with its share, and `mapping_error`.
    - `ga2m`: `curves` of columns and of pairs: `edges` between bins, and the `values` of the bins; a value on an edge
      belongs to the bin below it.
    - `auto`: `experts`, each with `share`, `family` and its `posterior`.

    With `scaling`, numbers refer to the scaled columns. After a change of features, the other families have `experts`,
    too. 409 before the first row has determined the features; 413 if the answer would have over a million numbers.
    """
    _chosen(replica, features)  # a wrong request is refused before If-None-Match counts
    make = partial(_document, features=features, diagonal=diagonal)
    return await conditional(request, replica, ctx.engine.state_budget, make, replica.model.nbytes)


def _chosen(replica: Replica, given: str | None) -> list[str] | None:
    """The requested features, None: all of them."""
    schema = replica.model.prediction_schema
    if replica.model.config.algorithm.observes:
        raise RequestConflict("an observer learns nothing: it has no posterior")
    if schema is None:
        raise no_features(replica.name)
    if given is None:
        return None
    if isinstance(schema, SparseSchema):
        raise Invalid.of("features", "cannot be chosen: rows are compressed, and names are not kept")
    return chosen("features", given, schema.index, "feature")


def _document(replica: Replica, features: str | None, diagonal: bool) -> bytes:
    found = read.posterior(replica.model, _chosen(replica, features), diagonal=diagonal)
    if (numbers := count_numbers(found)) > NUMBERS_MAX:
        detail = f"the posterior has {numbers} numbers; the limit of an answer is {NUMBERS_MAX}"
        fewer = [("features", "only the columns of these"), ("diagonal", "true: without numbers off the diagonal")]
        raise TooLarge(detail, [Problem(name, "would make it smaller", remedy) for name, remedy in fewer])
    return encode({**found, **stamp(replica)})
