"""Labelled rows: each learner of a model predicts, then learns them; its predictions are tested for drift, and
challengers are compared.

Blocks are cut where a class appears for the first time, or returns: its first row is predicted without it. If the model
acts on drift, they are also cut at every row that can raise an alarm.

Challengers are further learners of the model's rows, in the same order. A challenger starts with the row after the
entry that adds it: in the present feature space, with the classes seen so far, and untrained. From then on it takes
every step of the model: rows, changes of features, settings, resets. A promotion makes the challenger the model's own
learner, and the former one the challenger "previous".

The predictions of a model outside Onepass come with the rows. They are compared with the model's own. An ``observer``
has none of its own: it takes them as its answers and only judges them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from core.config.challengers import promote_of
from core.contract import Floats, joined
from core.drift.outbox import Joined, changes_of, of_alarm
from core.entry import Challenge, EntryPositionOf, Promote, ServedPrediction, Withdraw
from core.metrics.difference import NO_NUMBERS, PairedDifference
from core.metrics.outside import OutsideScores, number_losses
from core.model.class_answers import ClassAnswers
from core.model.drift_response import DriftResponse
from core.model.model import Challenger, LearnerParts, Model
from core.model.number_answers import NumberAnswers
from core.model.plans import PREVIOUS, plan_challenge, unproven
from core.model.rows import BlockRows, Returned, Scored, predicted_by
from core.problems import Conflict
from core.switching.phases import SpaceRoute

# ---------------------------------------------------------------- one learner


def learn_rows(parts: LearnerParts, space: str, rows: BlockRows, *, own: bool) -> Scored:
    """Predict, learn and score rows; tracked rows are scored by the prediction of this learner when they were tracked.

    Rows of a space that is gone are only scored. ``own``: whether this is the model's own learner; the returned
    prediction then replaces one that it did not make itself. Raises ``ValueError`` for rows that are not of this space.
    """
    answers, route, response = parts.answers, parts.switching.routes.get(space), parts.drift_response
    if rows.returned is not None:  # without a route no learner can predict now: all use the returned predictions
        returned = predicted_by(parts.learner_id, rows.returned, or_returned=own or route is None)
        lags = None if route is None else route.returned_lags([None if one is None else one.lags for one in returned])
        rows = replace(rows, returned=returned, lags=lags)
    truth, known = answers.truth_of(rows.labels)
    if route is None or response is None or not len(truth):
        return _score_only(parts, rows)
    if rows.raw.shape != (len(truth), route.schema.raw_width):
        raise ValueError(f"rows of shape {rows.raw.shape} with {len(truth)} labels are not of this feature space")
    if rows.discounts is not None or rows.weights is not None:
        rows = _without_others(parts, rows)
    # an alarm changes the model at its row, and a new or returning class changes all learners
    if not known or (response.acts and route.watched):
        return joined([*_learn_parts(parts, route, response, rows, truth)])
    return _learn_block(parts, route, response, rows, truth)


def _score_only(parts: LearnerParts, rows: BlockRows) -> Scored:
    """Score tracked rows of a space that is gone by the returned predictions; there may be no rows."""
    if not parts.regression:
        for label in rows.labels:
            if parts.labels.index(label) < 0:
                parts.add_class(label)
    scored = parts.answers.absorb(None, parts.answers.truth_of(rows.labels)[0], rows)
    if isinstance(parts.answers, ClassAnswers):
        parts.answers.return_labels(rows.labels)
    return scored


def _without_others(parts: LearnerParts, rows: BlockRows) -> BlockRows:
    """Rows without the discounts or weights that this algorithm does not take, which were meant for another learner."""
    algorithm = parts.config.algorithm
    discounts, weights = rows.discounts if algorithm.row_discounts else None, rows.weights
    return replace(rows, discounts=discounts, weights=weights if algorithm.row_weights else None)


def _learn_parts(
    parts: LearnerParts, route: SpaceRoute, response: DriftResponse, rows: BlockRows, truth: NDArray[Any]
) -> Iterator[Scored]:
    """Learn rows up to each new class and, if the model acts on alarms, up to each possible alarm."""
    answers, start = parts.answers, 0
    while start < len(truth):
        stop, new, alone = len(truth), False, False
        if isinstance(answers, ClassAnswers):
            rare = np.flatnonzero((truth[start:] < 0) | np.isin(truth[start:], [*answers.returning]))
            stop = start + int(rare[0]) if len(rare) else stop
            if alone := stop == start:
                stop = start + 1
            if new := alone and truth[start] < 0:
                truth[start] = answers.add(rows.labels[start])
                truth[stop:], _ = answers.truth_of(rows.labels[stop:])
                response.add_class()
                for add_class in route.others:
                    add_class()
        if response.acts and route.watched and not new:
            stop = start + response.rows_until_next_test(truth[start:stop])
        yield _learn_block(parts, route, response, rows.part(slice(start, stop)), truth[start:stop], new)
        if alone and isinstance(answers, ClassAnswers):
            answers.return_labels(rows.labels[start:stop])
        start = stop


def _kept(answers: ClassAnswers | NumberAnswers, returned: Returned) -> list[tuple[float, ...] | None]:
    """What tracked rows have kept for their labels, or None: nothing, or nothing that this model can use.

    After a reset or an import it may have fewer rows than when they were predicted, or other classes in use, or the
    same in another order.
    """
    labels, found = answers.in_use.labels if isinstance(answers, ClassAnswers) else None, list[Any]()
    for at, one in enumerate(returned, answers.metrics.rows):
        known = one is not None and (labels is None or labels == [label for label, _ in one.probabilities or ()])
        found.append(one.past if one is not None and known and (one.scored or 0) <= at else None)
    return found


def _learn_block(
    parts: LearnerParts,
    route: SpaceRoute,
    response: DriftResponse,
    rows: BlockRows,
    truth: NDArray[Any],
    new: bool = False,
) -> Scored:
    """Predict, learn and score rows of one space, and test the predictions for drift.

    ``truth``: class indices (n,), or numbers (n,); ``new``: whether the class of the one row is new; it is predicted
    without it.
    """
    model, answers = route.model, parts.answers
    before = parts.rows_before_start + answers.metrics.rows
    X = model.encode(rows.raw if route.part is None else route.part.of(rows.raw), truth, rows.lags)
    past: Floats | None = None
    if rows.returned is not None and parts.config.algorithm.row_pasts:
        past = answers.last_labels(rows.returned)[:, None]
        if (found := route.returned_past(_kept(answers, rows.returned))) is not None:
            past = np.hstack([past, found])
    prediction = model.learn(X, truth, rows.discounts, rows.weights, new, past)
    scored = answers.absorb(prediction, truth, rows, new, route.watched)
    if route.watched:
        D = model.schema.width  # lag columns follow, and in an overlap the new space's columns
        errors = scored.losses if parts.config.algorithm.observes else scored.errors
        watched = X if X.shape[1] == D else np.ascontiguousarray(X[:, :D])
        if response.observe(model, watched, truth, errors, before) and isinstance(answers, ClassAnswers):
            answers.reset_row = answers.metrics.rows
    else:
        model.take_alarms()
    return scored


TEST_EVERY = 100  # challengers are promoted automatically only after rows whose number is a multiple of this


# ---------------------------------------------------------------- all learners


def learn_together(model: Model, space: str, rows: BlockRows, entry_position_of: EntryPositionOf) -> Scored:
    """Let all learners learn the rows, cut after each row at which a challenger may be promoted automatically.

    Returns the scores of the returned predictions. Scores and alarms are dealt with before a promotion.
    """
    if not model.challengers:
        alone = learn_rows(model.own, space, rows, own=True)
        if rows.returned is not None or rows.outside is not None or model.outside is not None:
            alone = _score_returned(model, rows, alone)
        if model.own.drift_response is not None and model.own.drift_response.alarms:
            report_alarms(model, entry_position_of)
        return alone
    scored: list[Scored] = []
    start, count = 0, len(rows.raw)
    while start < count or not scored:
        automatic = any(one.promote == "auto" for one in model.challengers.values())
        stop = min(count, start + TEST_EVERY - model.rows % TEST_EVERY) if automatic else count
        part = rows if stop - start == count else rows.part(slice(start, stop))
        found = _learn_and_compare(model, space, part)
        if rows.returned is not None or rows.outside is not None or model.outside is not None:
            found = _score_returned(model, part, found)
        scored.append(found)
        report_alarms(model, entry_position_of)
        if count and model.rows % TEST_EVERY == 0 and (name := promotable(model.challengers)) is not None:
            promote(model, name, "auto")
        start = stop
    return joined(scored)


def _learn_and_compare(model: Model, space: str, rows: BlockRows) -> Scored:
    """Let all learners learn the rows, and compare their losses."""
    own = model.own
    scored = learn_rows(own, space, rows, own=True)
    costs = None if own.answers.costs is None else own.answers.costs / own.config.cost_max
    for one in model.challengers.values():
        parts = one.parts
        other = learn_rows(parts, space, rows, own=False)
        losses, other_losses = scored.losses, other.losses
        if rows.returned is not None:
            other_losses = other_losses + _comparable(rows.returned, own, parts)
        if costs is not None:
            losses, other_losses = losses * costs[other.truth], other_losses * costs[other.truth]
        one.difference.absorb(losses, other_losses, other.truth if parts.regression else NO_NUMBERS)
    return scored


def _comparable(returned: Returned, *learners: LearnerParts) -> Floats:
    """(n,) 0 for rows that these learners predicted at the same time, else NaN; all learners predict untracked rows."""
    made = [one is None or all(one.made_by(each.learner_id) is not None for each in learners) for one in returned]
    return np.where(made, 0.0, np.nan)


def _score_returned(model: Model, rows: BlockRows, scored: Scored) -> Scored:
    """Compare the own learner's scores with the outside model's; return the scores of the returned predictions."""
    if rows.outside is not None or model.outside is not None:
        score_outside(model, rows, scored)
    if rows.returned is not None and any(one is not None and one.by != model.own.learner_id for one in rows.returned):
        return model.own.answers.by_returned(scored, rows.returned)
    return scored


def report_alarms(model: Model, entry_position_of: EntryPositionOf) -> None:
    """Put the alarms into the outbox, in the order of their rows; each event is a mark in the learner's metrics."""
    learners = [(model.own, None), *((one.parts, name) for name, one in model.challengers.items())]
    tested = [(parts, name, parts.drift_response) for parts, name in learners if parts.drift_response is not None]
    found = [(parts, name, seen) for parts, name, response in tested for seen in response.take_alarms()]
    outbox, regression = model.outbox, model.regression
    for parts, challenger, (row, alarm, (joins, held_back), action) in sorted(found, key=lambda one: one[2].row):
        label = None if regression else model.labels.labels[alarm.cls]
        named = [parts.row_columns[at] for at in alarm.columns]
        version, time_ms = entry_position_of(row)
        position = outbox.next_position(version)
        if joins:
            outbox.join(Joined(alarm.kind, label, row, changes_of(alarm, named), position), challenger)
            continue
        known = {"row": row, "time_ms": time_ms, "label": label, "challenger": challenger}
        outbox.put(of_alarm(alarm, position, named, action=action, held_back=held_back, **known))
        parts.metrics.mark(row, "drift", test=alarm.kind, label=label, action=action)


# ---------------------------------------------------------------- challengers


def challenge(model: Model, segment: Challenge, learner_id: str) -> bool:
    """Add a challenger, or change how it is promoted; returns whether it was added.

    ``Invalid`` or ``Conflict`` as ``plan_challenge``.
    """
    _, config = plan_challenge(model, segment.name, segment.config, segment.most)
    known, promotion = model.challengers.get(segment.name), promote_of(segment.config)
    if known is not None:
        known.promote = promotion
        return False
    parts = LearnerParts.first(config, model.own.switching.fork_for_challenger(config), learner_id)
    parts.rows_before_start = model.rows
    for label in model.labels.labels:
        parts.add_class(label)
    if isinstance(parts.answers, ClassAnswers):
        parts.answers.retire(model.own.answers.retired)
    model.challengers[segment.name] = Challenger(parts, promotion)
    return True


def withdraw(model: Model, segment: Withdraw) -> None:
    """Delete a challenger; ``Conflict`` if there is none of that name."""
    _check_known(model, segment.name)
    del model.challengers[segment.name]


def promote_asked(model: Model, segment: Promote) -> None:
    """Promote a challenger on request; ``Conflict`` if there is none of that name, or only force would promote it."""
    _check_known(model, segment.name)
    if not segment.force and (why := unproven(model, segment.name)) is not None:
        raise Conflict(why)
    promote(model, segment.name, "request")


def _check_known(model: Model, name: str) -> None:
    if name not in model.challengers:
        names = ", ".join(model.challengers) or "none"
        raise Conflict(f"there is no challenger {name}; there {'is' if len(model.challengers) == 1 else 'are'} {names}")


def promotable(challengers: Mapping[str, Challenger]) -> str | None:
    """The challenger to promote automatically: the one with the largest lower confidence bound, if any is better."""
    automatic = {name: one.difference for name, one in challengers.items() if one.promote == "auto"}
    k = len(challengers)
    found = [name for name, difference in automatic.items() if difference.favours_second(k)]
    return max(found, key=lambda name: automatic[name].interval(k)[0], default=None)


def promote(model: Model, name: str, why: str) -> None:
    """Make a challenger the model's own learner, and the former one the challenger ``PREVIOUS``; marks are kept."""
    former, model.own = model.own, model.challengers.pop(name).parts
    former.metrics.hand_marks(model.own.metrics)
    model.challengers.pop(PREVIOUS, None)
    model.challengers[PREVIOUS] = Challenger(former)
    for parts in model.learners:
        parts.end_episodes()
    compare_anew(model)
    model.own.metrics.mark(model.rows, "promotion", challenger=name, algorithm=model.config.algorithm_id, by=why)


def compare_anew(model: Model) -> None:
    """Restart the comparison of all challengers, and that with the model outside."""
    for one in model.challengers.values():
        one.difference = PairedDifference()
    if model.outside is not None:
        model.outside.compare_anew()


# ---------------------------------------------------------------- a model outside Onepass


def judged_outside(model: Model, rows: BlockRows) -> BlockRows:
    """The rows of an observer, with the outside model's predictions as its answers."""
    outside, by = rows.outside or [None] * len(rows.raw), model.own.learner_id
    return replace(rows, returned=[ServedPrediction(prediction, by=by) for prediction in outside])


def score_outside(model: Model, rows: BlockRows, scored: Scored) -> None:
    """Score the predictions of the model outside on rows that were just learned, from the first that it predicted."""
    answers, truth, own, outside = model.own.answers, scored.truth, scored.losses, rows.outside
    if rows.returned is not None:  # rows that the own learner did not predict when they were tracked are not compared
        own = own + _comparable(rows.returned, model.own)
    if outside is None:
        outside = [None] * len(truth)
    if model.outside is None:
        first = next((row for row, one in enumerate(outside) if one is not None), None)
        if first is None:
            return
        model.outside = OutsideScores(*model.config.metrics.spans)
        truth, own, outside = truth[first:], own[first:], outside[first:]
    theirs, numbers = np.full((len(truth), 2), np.nan), NO_NUMBERS
    if isinstance(answers, ClassAnswers):
        for row, label in enumerate(outside):
            if label is not None:
                theirs[row] = float(answers.labels.index(label) != truth[row])
    else:
        predicted: Floats = np.array([np.nan if value is None else value for value in outside], np.float64)
        theirs, numbers = number_losses(predicted, truth), truth
    paired = theirs[:, 0]
    if answers.costs is not None:
        costs = answers.costs[truth] / model.config.cost_max
        own, paired = own * costs, paired * costs
    if model.config.algorithm.observes:  # an observer's losses are those of the outside model
        own = np.full(len(truth), np.nan)
    model.outside.absorb(theirs, (paired, own), numbers, before=model.rows - len(truth))
