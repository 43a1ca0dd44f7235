"""What a switch leaves: which experts there are, what they start from, what happens to them at the next switch."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core.entry import Switch
from core.features import parse_features
from core.model import cost, explain, read, save
from core.numerics.rng import uniform
from tests.core.switching.switch_streams import SCHEMAS, Driver
from tests.core.twin import Twin

ALGORITHMS = ["fesl_c", "dfop", "gdfop", "rls"]


def ensemble(algorithm="fesl_c", space=1, after=30, mapping=None, **more):
    driver = Driver(algorithm, **more)
    driver.learn(100)
    driver.live(space, mapping, after=after)
    return driver


def mean_weights(driver):
    """Coefficients and bias of the experts, averaged by weight."""
    parts = [expert.weights() for expert in driver.pipeline.experts.values()]
    weighted = [*zip(driver.pipeline.mixture.weights, parts, strict=True)]
    return (
        sum(share * part.coefficients for share, part in weighted),
        sum(share * part.bias for share, part in weighted),
    )


def predictions(driver, name, rows=40):
    phase = driver.pipeline
    return phase.experts[name].predict_encoded(phase.encoder.encode(driver.raw(SCHEMAS[1], 0, rows)))


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize(
    ("algorithm", "better"),
    [
        *((algorithm, better) for algorithm in [*ALGORITHMS, "fesl_s"] for better in ("recovered", "new")),
        ("fesl_c", "carried"),
        ("fesl_s", "carried"),
    ],
)
def test_the_likeliest_expert_is_kept(algorithm, better, task):
    """Its predictions continue bit for bit, with the same mapping in front of it."""
    driver = ensemble(algorithm, task=task)
    names = ["recovered", "new", *(["carried"] if algorithm.startswith("fesl") else [])]
    assert names == [*driver.weights]
    experts, weights = driver.pipeline, np.array([0.8 if name == better else 0.1 for name in names])
    experts.mixture.weights = weights.copy()
    expected, found = predictions(driver, better), experts.merge().predict(driver.raw(SCHEMAS[1], 0, 40))
    assert_array_equal(expected.value, found.value)
    assert_array_equal(expected.probabilities, found.probabilities)
    driver.begin(2)
    driver.learn(20)
    experts.mixture.weights = weights.copy()
    driver.complete()
    assert (better == "recovered") == (driver.pipeline.former.own.input_mapping is not None)
    columns = SCHEMAS[0].columns if better == "recovered" else SCHEMAS[1].columns
    assert columns == driver.pipeline.experts["recovered"].columns


def test_a_kernel_leaves_two_experts_and_keeps_the_likeliest():
    """What it recovers is not linear, so there is nothing to carry or average."""
    driver = ensemble(mapping="kernel")
    assert ["recovered", "new"] == [*driver.weights]
    new = driver.pipeline.experts["new"].weights()
    assert_array_equal(new.coefficients, read.weights(driver.machine.own).coefficients)
    assert driver.weights["new"] == read.linear_share(driver.machine.own)
    likeliest = max(driver.weights, key=driver.weights.get)
    expected = predictions(driver, likeliest)
    found = driver.pipeline.merge().predict(driver.raw(SCHEMAS[1], 0, 40))
    assert_array_equal(expected.probabilities, found.probabilities)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_carried_expert_starts_like_the_recovered_one(task):
    """Both predict the same at first; then each learns in its own space, with steps as long as at the beginning."""
    driver = ensemble(after=0, task=task, params={"scaling": "none"})
    assert task == "regression" or not any(expert.learner.counters.any() for expert in driver.pipeline.experts.values())
    one, other = predictions(driver, "recovered"), predictions(driver, "carried")
    part = "probabilities" if task == "classification" else "value"
    assert_allclose(getattr(one, part), getattr(other, part), rtol=1e-9)
    driver.learn(20)
    one, other = predictions(driver, "recovered"), predictions(driver, "carried")
    assert part != "value" or not np.allclose(one.value, other.value)


def test_the_paper_s_variant_has_its_two_experts_and_an_untrained_new_model():
    """No carried expert, no training in the overlap, least squares for the mapping, averaged margins."""
    driver = ensemble(after=0, params={"variant": "paper", "learning_rate": 0.5, "horizon": 100})
    phase = driver.pipeline
    assert ["recovered", "new"] == list(phase.experts)
    assert not phase.experts["new"].learner.W.any()
    assert phase.recovery.paper
    odds = [np.log(p[:, 1] / p[:, 0]) for p in (predictions(driver, n).probabilities for n in ("recovered", "new"))]
    mixed = phase.predict(driver.raw(SCHEMAS[1], 0, 40)).probabilities
    assert_allclose(np.mean(odds, axis=0), np.log(mixed[:, 1] / mixed[:, 0]), rtol=1e-9, atol=1e-12)
    driver.learn(20)
    driver.reborn().live(2)


def test_another_algorithm_s_paper_variant_does_not_affect_the_switch():
    """Dynamic ODM also has a variant and a horizon, which have nothing to do with features."""
    driver = ensemble("dynamic_odm", after=0, params={"variant": "paper"})
    assert not driver.pipeline.recovery.paper
    assert driver.pipeline.mixture.horizon is None


def test_the_parameter_names_the_default_mapping():
    """The switch can override it."""
    for asked, expected in ((None, "kernel"), ("linear", "linear")):
        driver = ensemble(mapping=asked, params={"mapping": "kernel"})
        assert expected == driver.pipeline.recovery.kind


def test_only_the_drawn_expert_speaks_under_selection():
    """Drawn by (seed, absolute row) while learning; predict uses the likeliest."""
    driver = ensemble("fesl_s", after=0, seed=4)
    rows, draws = driver.machine.rows, uniform(4, driver.machine.rows, 30, "expert of a row")
    for i in range(30):
        phase, at = driver.pipeline, driver.at
        X = phase.encoder.encode(driver.raw(SCHEMAS[1], at, at + 1))
        drawn = int(np.searchsorted(np.cumsum(phase.mixture.weights)[:-1], draws[i], side="right"))
        answers = driver.machine.own.answers
        said = [answers.of(expert.predict_encoded(X)).value[0] for expert in phase.experts.values()]
        shown = read.predict(driver.machine.own, driver.raw(SCHEMAS[1], at, at + 1)).value[0]
        assert said[int(phase.mixture.weights.argmax())] == shown
        assert driver.machine.own.answers.named(np.array([said[drawn]])) == driver.learn(1).predictions
    assert rows + 30 == driver.machine.rows


def test_discounts_reach_every_expert():
    """A row that forgets nearly everything does so in all of them."""
    one, other = ensemble("gdfop"), ensemble("gdfop")
    other.discounts = np.full_like(other.discounts, 0.5)
    one.learn(20)
    other.learn(20)
    before, after = (driver.pipeline.to_arrays()[0] for driver in (one, other))
    for part in ("old", "new"):
        assert not np.array_equal(before[f"{part}.learner.precision"], after[f"{part}.learner.precision"])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("features", [["a", "b"], ["a", "b", "c", "d"], ["c", "a"], ["d", "b"]])
def test_features_may_only_vanish_or_only_come(algorithm, features):
    """The union then equals one of the two spaces; its rows are learned in every phase."""
    rng = np.random.default_rng(0)
    model = Twin({"algorithm": algorithm, "task": "classification", "features": ["a", "b", "c"]})

    def learn(count, schema=None):
        X = rng.normal(size=(count, len((schema or model.machine.feedback_schema).names)))
        return model.learn(X, ["x" if row[0] > 0 else "y" for row in X], schema)

    old = model.machine.prediction_schema
    learn(30)
    model.commit(Switch("begin", parse_features(features)))
    union = model.machine.feedback_schema
    learn(20)
    learn(3, old)
    model.commit(Switch("complete"))
    assert set(features) == set(model.machine.prediction_schema.names)
    learn(20)
    for schema in (old, union):
        assert learn(3, schema).learned
    assert np.isfinite(model.predict(rng.normal(size=(5, len(features)))).probabilities).all()


@pytest.mark.parametrize(
    ("algorithm", "mapping", "classes"),
    [
        *((algorithm, mapping, 2) for algorithm in ALGORITHMS for mapping in ("linear", "kernel")),
        *((algorithm, "linear", 50) for algorithm in ("vigo", "ga2m")),  # which were not declared, but have come
    ],
)
def test_the_memory_of_a_change_is_announced(algorithm, mapping, classes):
    """The estimate covers what the model then holds, within a factor of ten; also for a second change."""
    driver = Driver(algorithm)
    driver.labels = driver.labels if classes == 2 else [f"class {at % classes}" for at in range(len(driver.labels))]
    driver.learn(100)
    for space in (1, 2):
        estimate, model = cost.bytes_to_switch(driver.machine, SCHEMAS[space], mapping), driver.machine
        driver.begin(space, mapping)
        driver.learn(200 if classes == 2 else 100)
        assert cost.bytes_with(model.learners, model.configs, 0, classes) >= driver.pipeline.nbytes
        assert estimate >= driver.pipeline.nbytes + driver.machine.own.drift_response.detector.nbytes >= estimate / 10
        driver.complete()
        assert estimate >= cost.bytes_with(model.learners, model.configs, 0, classes) >= driver.pipeline.nbytes
        assert estimate >= driver.pipeline.nbytes + driver.machine.own.drift_response.detector.nbytes


def test_memory_is_checked_for_both_spaces_before_a_state_is_built():
    """The loader can refuse a state by the size of either space."""
    driver = ensemble()
    asked = []
    state = save.to_bytes(driver.machine)
    save.from_bytes(state, lambda learners: asked.extend(space for one in learners for space in one.spaces))
    assert [SCHEMAS[0], SCHEMAS[1]] == asked


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_weights_of_experts_are_averaged(task):
    """By the weight of each, over the current columns; a single model has no share."""
    driver = ensemble("dfop", task=task)
    found, (coefficients, bias) = read.weights(driver.machine.own), mean_weights(driver)
    assert len(SCHEMAS[1].columns) == found.coefficients.shape[1]
    assert_allclose(coefficients, found.coefficients, rtol=1e-12)
    assert_allclose(bias, found.bias, rtol=1e-12)
    assert 1.0 == pytest.approx(read.linear_share(driver.machine.own))
    assert None is read.linear_share(Driver().machine.own)


def test_quadratic_experts_have_no_weights():
    """None of them is linear, whatever recovers the old columns."""
    driver = ensemble("vigo")
    assert (None, 0.0) == (read.weights(driver.machine.own), read.linear_share(driver.machine.own))
    assert explain.experts(driver.machine.own, driver.raw(SCHEMAS[1], 0, 1))["densities"]["classes"]
