"""``onepass models`` and ``show``: the list of models, and one model in a page."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from typer import Option, echo

from service.client.display import ago, described, figure, lead, percent, shortened, spelt, table
from service.client.options import Json, Name
from service.client.replay.report import cells, cost_lines, measures_of
from service.client.session import Service, path_of

SPARE = ("updated", "algorithm", "rows/s", "phase", "challengers", "last drift", "baseline")
"""Columns that a narrow terminal drops, in this order."""
DRIFTS, EXPERTS, FEATURES = 5, 6, 12  # how many of each ``show`` lists at most


def models(
    *,
    sort: Annotated[Literal["name", "rows", "updated", "worst"], Option(help="worst: against the baseline.")] = "name",
    search: Annotated[str | None, Option(metavar="TEXT", help="Only models whose names contain this.")] = None,
    limit: Annotated[int, Option(min=1, max=1000, help="Models per page.")] = 100,
    cursor: Annotated[str | None, Option(help="Where to continue; printed below each page.")] = None,
    as_json: Json = False,
    service: Service,
) -> None:
    """List the models with their rows, scores, best baselines and phases of a change of features."""
    wanted = {"sort": sort, "limit": limit, "search": search, "cursor": cursor}
    with service.session() as session:
        response = session.request("GET", "models", params={name: value for name, value in wanted.items() if value})
    page = response.json()
    if as_json:
        echo(response.content)
    elif not page["models"]:
        print("no models" if search is None else f"no model's name contains {search}")
    else:
        print(table([_listed(model) for model in page["models"]], SPARE))
        if page["next"] is not None:
            print(f"there are more: --cursor {page['next']}")


def _listed(model: Mapping[str, Any]) -> dict[str, object]:
    """A line of the list; score and baseline are of the same rows, and with class costs they are costs."""
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


def score(task: str, value: float | None) -> str:
    """An accuracy in per cent, or a mean squared error; empty for None."""
    return "" if value is None else percent(value) if task == "classification" else f"mse {value:.4g}"


def show(*, name: Name, as_json: Json = False, service: Service) -> None:
    """Show a model: scores and baselines, drifts, challengers, experts."""
    with service.session() as session:
        response = session.request("GET", path_of(name))
        if as_json:
            echo(response.content)
            return
        features = session.ask("GET", path_of(name, "features"))
        newest = {"order": "newest", "limit": DRIFTS}
        drifts = session.ask("GET", path_of(name, "drift"), params=newest)["events"]
        challengers = session.ask("GET", path_of(name, "challengers"))["challengers"]
    model = response.json()
    config, info = model["config"], model["info"]
    shown = {
        "model": model["name"],
        "description": config.get("description"),
        "algorithm": f"{config['algorithm']}, {config['task']}",
        "rows": f"{model['rows']:,}",
        "rows of its learner": info.get("learner_rows"),
        "version": f"{model['version']:,}, updated {ago(model['updated'])}",
        "phase": model["phase"],
        "features": _named(features["current"]) or "those of the first row",
        "next features": _named(features["next"] or ()),
        "rows of the overlap": features["overlap_rows"],
        "labels": shortened([spelt(one) or "(empty)" for one in labels_of(model)], FEATURES),
        "scores": _scores(model["metrics"]) if model["rows"] else None,
        **_heaviest("experts", info.get("experts")),
        **_heaviest("after the change of features", features["ensemble"]),
        "challengers": [_challenger(config, one) for one in challengers],
        "latest drifts": [
            {name: event[name] for name in ("row", "kind", "class", "action", "challenger")}
            | {"features": [one["name"] for one in event["features"][:3]], "time": ago(event["time"])}
            for event in drifts
        ],
    }
    page = described({name: value for name, value in shown.items() if value})
    print("\n".join([page, *cost_lines(model["metrics"]["overall"].get("costs"))]))


def labels_of(model: Mapping[str, Any]) -> list[Any]:
    """The declared labels of a model as GET shows it, else those seen."""
    return list(model["config"].get("labels") or model["info"].get("labels") or ())


def _named(features: Sequence[Any]) -> list[str]:
    named = [one if isinstance(one, str) else f"{one['name']} ({one['type']})" for one in features]
    return shortened(named, FEATURES)


def _scores(metrics: Mapping[str, Any]) -> list[dict[str, str]]:
    """Lines for all rows, for the last ones, and for each baseline."""
    paired, window = metrics.get("paired"), metrics["window"]
    spans = {"all rows": metrics["overall"], f"last {window['rows']:,}": window}
    spans |= {} if paired is None else {"rows the baseline predicted": paired["overall"]}
    measures = measures_of(metrics["overall"])
    return [cells(name.replace("_", " "), found, measures) for name, found in (spans | metrics["baselines"]).items()]


def _heaviest(title: str, experts: Sequence[Mapping[str, Any]] | None) -> dict[str, list[Mapping[str, Any]]]:
    """The heaviest experts under their title, which says if there are more."""
    found = sorted(experts or (), key=lambda one: -one["weight"])
    return {title if len(found) <= EXPERTS else f"{title}, the {EXPERTS} heaviest of {len(found)}": found[:EXPERTS]}


def _challenger(config: Mapping[str, Any], one: Mapping[str, Any]) -> dict[str, Any]:
    """A challenger and its lead: in points of accuracy, in cost, or in squared error."""
    unit, scale = "squared error", 1
    if config["task"] == "classification":
        unit, scale = ("cost", 1) if config.get("class_costs") else ("points", 100)
    overall = one["metrics"]["overall"]
    return {
        "challenger": one["name"],
        "algorithm": one["config"]["algorithm"],
        "score": score(config["task"], overall.get("accuracy", overall.get("mse"))),
        f"ahead by, {unit}": lead(one["difference"], scale),
        "rows compared": one["difference"]["rows"],
        "promote": one["promote"],
    }
