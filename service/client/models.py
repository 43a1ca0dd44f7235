"""``onepass models`` and ``show``: the list of models, and one model in a page."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import typer

from service.client import display
from service.client.display import ago, counted, figure, grid, lead, percent, score, shortened, spelt, table
from service.client.options import Json, Name
from service.client.session import Service, path_of

WORDS = ("algorithm", "phase", "last drift", "challengers", "updated")
SPARE = ("updated", "algorithm", "rows/s", "phase", "challengers", "last drift", "baseline")
"""What a narrow terminal goes without, in this order."""
DRIFTS, EXPERTS, FEATURES = 5, 6, 12
"""How many of each are shown."""
MEASURES = {
    "classification": ("accuracy", "balanced_accuracy", "kappa", "log_loss", "ece"),
    "regression": ("mse", "mae", "r2", "bias"),
}
"""The curve is of the first."""


def models(
    *,
    sort: Annotated[
        Literal["name", "rows", "updated", "worst"], typer.Option(help="worst: against the baseline.")
    ] = "name",
    search: Annotated[str | None, typer.Option(metavar="TEXT", help="Only names that contain this.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Most models of a page.")] = 100,
    cursor: Annotated[str | None, typer.Option(help="The next page, as the one before names it.")] = None,
    as_json: Json = False,
    service: Service,
) -> None:
    """List the models: rows, score beside that of the best baseline, phase of a change of features."""
    wanted = {"sort": sort, "limit": limit, "search": search, "cursor": cursor}
    with service.session() as session:
        response = session.send("GET", "models", params={name: value for name, value in wanted.items() if value})
    page = response.json()
    if as_json:
        typer.echo(response.content)
    elif not page["models"]:
        print("no models" if search is None else f"no model's name contains {search}")
    else:
        print(table([_listed(model) for model in page["models"]], WORDS, SPARE))
        if page["next"] is not None:
            print(f"there are more: --cursor {page['next']}")


def _listed(model: Mapping[str, Any]) -> dict[str, object]:
    """A model's line; the score is of the same rows as the baseline, and with class costs it is the cost."""
    names = "paired_score" if model.get("paired_score") is not None else "score", "baseline"
    own, baseline = (score(model["task"], model[name]) for name in names)
    if model.get("mean_cost") is not None:
        own, baseline = (f"cost {figure(model[name])}" for name in ("mean_cost", "baseline_cost"))
    challengers, ahead = model["challengers"], model["ahead"]
    return {
        "model": model["name"],
        "algorithm": model["algorithm"],
        "rows": "" if model["rows"] is None else f"{model['rows']:,}",
        "rows/s": figure(model["rows_per_s"]),
        "score": own,
        "baseline": baseline,
        "phase": model["phase"],
        "last drift": "" if model["drift"] is None else ago(model["drift"]["time"]),
        "challengers": f"{challengers}, {ahead} ahead" if ahead else str(challengers or ""),
        "updated": ago(model["updated"]),
    }


def show(*, name: Name, as_json: Json = False, service: Service) -> None:
    """Show a model: scores beside baselines, their curve, drifts, challengers, experts."""
    with service.session() as session:
        response = session.send("GET", path_of(name))
        if as_json:
            return typer.echo(response.content)
        features = session.ask("GET", path_of(name, "features"))
        newest = {"order": "newest", "limit": DRIFTS}
        drifts = session.ask("GET", path_of(name, "drift"), params=newest)["events"]
        challengers = session.ask("GET", path_of(name, "challengers"))["challengers"]
    model = response.json()
    print(f"{model['name']}\n{grid(_head(model, features))}")
    if model["rows"]:
        print("\n".join(_scores(model["config"]["task"], model["metrics"])))
    for title, lines in (
        ("experts", _experts(model["info"].get("experts") or ())),
        ("after the change of features", _experts(features["ensemble"] or ())),
        ("challengers", [_challenger(model["config"], one) for one in challengers]),
        ("latest drifts", [_drift(event) for event in drifts]),
    ):
        if found := [*lines]:
            print(f"\n{title}\n{grid(found)}")
    return None


def _head(model: Mapping[str, Any], features: Mapping[str, Any]) -> Iterator[tuple[str]]:
    config, learner_rows = model["config"], model["info"].get("learner_rows")
    yield (f"{config['task']} by {config['algorithm']}",)
    own = "" if learner_rows is None else f" (its learner {learner_rows:,})"
    rows = f"{counted(model['rows'])}{own}, version {model['version']:,}"
    yield (f"{rows}, {model['phase']}, updated {ago(model['updated'])}",)
    if config.get("description"):
        yield (config["description"],)
    yield (f"features: {_names(features['current']) or 'those of the first row'}",)
    if features["next"] is not None:
        yield (f"next: {_names(features['next'])} ({counted(features['overlap_rows'])} of the overlap)",)
    if labels := labels_of(model):
        yield (f"labels: {', '.join(shortened([spelt(one) for one in labels], FEATURES))}",)


def labels_of(model: Mapping[str, Any]) -> list[Any]:
    """The labels of a model as GET shows it: the declared ones, else those seen."""
    return list(model["config"].get("labels") or model["info"].get("labels") or ())


def _names(features: list[Any]) -> str:
    named = [one if isinstance(one, str) else f"{one['name']} ({one['type']})" for one in features]
    return ", ".join(shortened(named, FEATURES))


def _scores(task: str, metrics: Mapping[str, Any]) -> Iterator[str]:
    """A line for each measure, with a column for all rows, the last ones, and each baseline; costs; the curve."""
    paired, window = metrics.get("paired"), metrics["window"]
    spans = {"all rows": metrics["overall"], f"last {window['rows']:,}": window}
    spans |= {} if paired is None else {"rows the baseline predicted": paired["overall"]}
    spans |= {name.replace("_", " "): scores for name, scores in metrics["baselines"].items()}

    def cell(measure: str, value: float | None) -> str:
        return score(task, value) if measure.endswith("accuracy") else figure(value)

    lines = [
        {"": measure.replace("_", " "), **{name: cell(measure, each.get(measure)) for name, each in spans.items()}}
        for measure in MEASURES[task]
    ]
    yield table(lines, spare=[*spans][:0:-1])
    yield from cost_lines(metrics["overall"].get("costs"))
    curve = MEASURES[task][0]
    points = [point for point in metrics["history"] if point.get(curve) is not None]
    if len(points) > 1:
        values = [point[curve] for point in points]
        best = max(values) if task == "classification" else min(values)
        said = f"best {score(task, best)}, now {score(task, values[-1])}"
        yield f"{display.sparkline(values)}  {said}, rows {points[0]['row']:,} to {points[-1]['row']:,}"


def cost_lines(costs: Mapping[str, Any] | None) -> list[str]:
    """What misses cost a row, beside the label that would cost least as the answer to all; none of a model without."""
    if costs is None or costs["mean"] is None:
        return []
    return [
        f"cost a row: {costs['mean']:.4g}; {costs['constant']:.4g} with {spelt(costs['label'])} as the answer to all"
    ]


def _experts(experts: Any) -> Iterator[tuple[str, ...]]:
    """Those of the greatest weight."""
    by_weight = sorted(experts, key=lambda one: -one["weight"])
    for one in by_weight[:EXPERTS]:
        own = next((f"{name} {figure(one[name])}" for name in ("mse", "loss") if name in one), "")
        own = f"accuracy {percent(one['accuracy'])}" if one.get("accuracy") is not None else own
        yield one["expert"], f"weight {percent(one['weight'])}", own
    if rest := by_weight[EXPERTS:]:
        yield f"and {len(rest)} more", f"weight {percent(sum(one['weight'] for one in rest))}"


def _challenger(config: Mapping[str, Any], one: Mapping[str, Any]) -> tuple[str, ...]:
    """A challenger and its lead: in points of accuracy, in cost, or in squared error."""
    difference, task = one["difference"], config["task"]
    form, scale, unit = "{:+.4g}", 1, "squared error"
    if task == "classification":
        form, scale, unit = (form, 1, "cost a row") if config.get("class_costs") else ("{:+.1f}", 100, "points")
    said = "no row compared yet"
    if how_far := lead(difference, form, scale):
        state = "ahead" if (difference["low"] or 0) > 0 else "behind" if (difference["high"] or 0) < 0 else "open"
        said = f"{state}: {how_far} {unit} over {counted(difference['rows'])}"
    promotes = "promoted once ahead" if one["promote"] == "auto" else ""
    own = score(task, one["metrics"]["overall"].get(MEASURES[task][0]))
    return one["name"], one["config"]["algorithm"], own, said, promotes


def _drift(event: Mapping[str, Any]) -> tuple[str, ...]:
    of = "" if event["class"] is None else f"class {event['class']}"
    moved = ", ".join(one["name"] for one in event["features"][:3])
    whose = "" if event["challenger"] is None else f"of {event['challenger']}"
    return f"row {event['row']:,}", event["kind"], of, moved, event["action"], whose, ago(event["time"])
