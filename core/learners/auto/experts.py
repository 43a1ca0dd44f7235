"""The experts of `auto`: learners of the other families, the columns they read, and when they are left out.

    raw        the d columns unchanged
    scaled     robustly scaled (core.features.scaling): z
    random     z and R random Fourier features of z (core.numerics.random_features)
    products   z and z_i z_j, i <= j
    lagged     regression: the row, the row before it and the last two labels (core.features.lags) in a
               unit of their own (core.learners.auto.label_unit)
    whole      for a model with lag columns: all columns, unchanged or robustly scaled; the other sets have no lags

Every column set is computed once per row, for all experts that read it.
"""

from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

from core.contract import Spec
from core.learners.algorithm import Algorithm
from core.learners.families import SINGLE
from core.problems import Param

Size = Literal["small", "medium", "large"]
SIZES: tuple[Size, ...] = ("small", "medium", "large")
RAW, SCALED, RANDOM, PRODUCTS, LAGGED, WHOLE, WHOLE_SCALED = range(7)  # the column sets

RANDOM_FEATURES: Final[dict[str, int]] = {"small": 64, "medium": 64, "large": 100}
NEAREST = Algorithm(
    id="neighbours",
    tasks=("classification", "regression"),
    summary="The nearest of the last rows.",
    use_when="Only within auto.",
    paper="Fix, Hodges: Discriminatory Analysis, 1951",
    equation="",
    params=(),
    learner="core.learners.neighbours:Neighbours",
)
BOOSTING = Algorithm(
    id="boosting",
    tasks=("classification", "regression"),
    summary="A ring of trees; each is fitted to what the others leave of the last rows, and replaces the oldest.",
    use_when="Only within auto.",
    paper="Friedman: Greedy function approximation: a gradient boosting machine, Annals of Statistics 29, 2001",
    equation="",
    params=(
        Param("trees", "integer", 50, "T.", ge=1, le=1000),
        Param("rows", "integer", 2000, "W.", ge=64, le=100_000),
        Param("period", "integer", 32, "B, the rows from tree to tree.", ge=1, le=64),
        Param("class_rate", "number", 0.1, "r of classes.", ge=0.0, le=1.0),
    ),
    learner="core.learners.boosting.learner:Boosting",
)
EXPERTS = SINGLE | {one.id: one for one in (NEAREST, BOOSTING)}
"""The learners that experts may have: those of the catalogue, and two that are not in it."""
COLUMNS_MAX: Final = {"vigo": 128, "vigow": 128, "neighbours": 32, "boosting": 128}
"""Most columns for a family that factors a (d, d) matrix per class or holds many rows; with more, the family is left
out."""
SIZE_PARAMS: Final[dict[tuple[str, Size], dict[str, Any]]] = {
    ("boosting", "large"): {"trees": 100, "rows": 4000, "period": 16, "class_rate": 0.05}
}
"""Parameters of an expert that differ in a size of `auto`."""
GROWING: Final = frozenset({"boosting"})  # families whose states are large after many rows, but small at first
SET_COLUMNS_MAX: Final = {RANDOM: 130, PRODUCTS: 21, LAGGED: 126}
"""Most columns for a column set; with more, the set is left out, so that no expert on it has more than 255."""
LAGGED_LABELS = 2  # number of last labels among the lagged columns


class Recipe(NamedTuple):
    """One expert."""

    name: str  # in states and in ``info``
    algorithm: str  # id of its learner
    columns: int  # the set that it reads
    params: dict[str, Any]  # parameters that differ from the learner's defaults
    first: int  # the smallest size of `auto` that includes it

    @property
    def family(self) -> Algorithm:
        """The catalogue's entry of its learner."""
        return EXPERTS[self.algorithm]


_CLASSIFIERS = (
    Recipe("rls", "rls", RAW, {}, 0),
    Recipe("dfop_003", "dfop", RAW, {"forgetting_rate": 0.003}, 0),
    Recipe("dfop_03", "dfop", RAW, {"forgetting_rate": 0.03}, 0),
    Recipe("dynamic_odm", "dynamic_odm", SCALED, {}, 0),
    Recipe("vigow", "vigow", RAW, {}, 0),
    Recipe("fesl_c", "fesl_c", SCALED, {}, 0),
    Recipe("fesl_c_random", "fesl_c", RANDOM, {}, 0),
    Recipe("ga2m", "ga2m", SCALED, {}, 0),
    Recipe("fesl_c_products", "fesl_c", PRODUCTS, {}, 0),
    Recipe("ga2m_columns", "ga2m", SCALED, {"pairs": False, "learning_rate": 0.3}, 1),
    Recipe("dfop_2", "dfop", RAW, {"forgetting_rate": 0.2}, 1),
    Recipe("dynamic_odm_random", "dynamic_odm", RANDOM, {}, 1),
    Recipe("dfop_003_random", "dfop", RANDOM, {"forgetting_rate": 0.003}, 1),
    Recipe("dfop_001_products", "dfop", PRODUCTS, {"forgetting_rate": 0.001}, 1),
    Recipe("neighbours", "neighbours", SCALED, {}, 1),
    Recipe("boosting", "boosting", RAW, {}, 1),
    Recipe("vigo", "vigo", RAW, {}, 2),
    Recipe("rls_random", "rls", RANDOM, {}, 2),
    Recipe("rls_products", "rls", PRODUCTS, {}, 2),
    Recipe("dynamic_odm_products", "dynamic_odm", PRODUCTS, {}, 2),
)
_LAG_CLASSIFIERS = (
    Recipe("dfop_003_lags", "dfop", WHOLE, {"forgetting_rate": 0.003}, 0),
    Recipe("vigow_lags", "vigow", WHOLE, {}, 0),
    Recipe("ga2m_lags", "ga2m", WHOLE_SCALED, {}, 0),
    Recipe("dynamic_odm_lags", "dynamic_odm", WHOLE_SCALED, {}, 1),
    Recipe("neighbours_lags", "neighbours", WHOLE_SCALED, {}, 1),
)
_REGRESSIONS = (
    Recipe("dfop", "dfop", RAW, {}, 0),
    Recipe("dfop_03_no_bias", "dfop", RAW, {"forgetting_rate": 0.03, "bias": False}, 0),
    Recipe("rls_lagged", "rls", LAGGED, {}, 0),
    Recipe("dfop_003_lagged", "dfop", LAGGED, {"forgetting_rate": 0.003}, 0),
    Recipe("dfop_03_lagged", "dfop", LAGGED, {"forgetting_rate": 0.03}, 0),
    Recipe("ga2m", "ga2m", SCALED, {}, 0),
    Recipe("dfop_003_no_bias", "dfop", RAW, {"forgetting_rate": 0.003, "bias": False}, 1),
    Recipe("dfop_003_random", "dfop", RANDOM, {"forgetting_rate": 0.003}, 1),
    Recipe("dfop_001_products", "dfop", PRODUCTS, {"forgetting_rate": 0.001}, 1),
    Recipe("neighbours", "neighbours", SCALED, {}, 1),
    Recipe("boosting", "boosting", RAW, {}, 1),
    Recipe("rls_random", "rls", RANDOM, {}, 2),
    Recipe("rls_products", "rls", PRODUCTS, {}, 2),
    Recipe("dfop_02_random", "dfop", RANDOM, {"forgetting_rate": 0.02}, 2),
)
_LAG_REGRESSIONS = (
    Recipe("rls_lags", "rls", WHOLE, {}, 0),
    Recipe("ga2m_lags", "ga2m", WHOLE_SCALED, {}, 0),
)
"""Further experts of models with lag columns."""


def recipes(spec: Spec) -> tuple[Recipe, ...]:
    """The experts for a spec of `auto`, by its size and its columns."""
    size, d = SIZES.index(spec.params["size"]), own_columns(spec)
    own, of_lags = (_REGRESSIONS, _LAG_REGRESSIONS) if spec.task == "regression" else (_CLASSIFIERS, _LAG_CLASSIFIERS)
    return tuple(
        one
        for one in (own + of_lags if spec.lagged else own)
        if one.first <= size
        and d <= SET_COLUMNS_MAX.get(one.columns, d)
        and (one.algorithm not in COLUMNS_MAX or width(spec, one.columns) <= COLUMNS_MAX[one.algorithm])
    )


def own_columns(spec: Spec) -> int:
    """d, without lag columns."""
    return spec.dimension - spec.lagged


def random_features(spec: Spec) -> int:
    """R, or 0 if there are too many columns."""
    return RANDOM_FEATURES[spec.params["size"]] if own_columns(spec) <= SET_COLUMNS_MAX[RANDOM] else 0


def width(spec: Spec, columns: int) -> int:
    """The number of columns of a set."""
    d = own_columns(spec)
    if columns in {WHOLE, WHOLE_SCALED}:
        return spec.dimension
    if columns == RANDOM:
        return d + random_features(spec)
    if columns == LAGGED:
        return 2 * d + LAGGED_LABELS
    return d + d * (d + 1) // 2 if columns == PRODUCTS else d


def expert_spec(spec: Spec, recipe: Recipe) -> Spec:
    """The spec of an expert's learner; declared ranges belong to the unchanged columns."""
    params = recipe.family.complete(recipe.params | SIZE_PARAMS.get((recipe.algorithm, spec.params["size"]), {}))
    d = width(spec, recipe.columns)
    ranges = spec.ranges[:d] if recipe.columns in {RAW, WHOLE} else ()
    return replace(spec, dimension=d, params=params, ranges=ranges, lagged=0)
