"""The client in one file, as a program has it: fetched from the service and imported."""

import ast
import importlib.util
import json
import math
import socket
import ssl
import subprocess
import sys
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path

import httpx
import numpy as np
import pytest
import trustme

from service.client.failures import Failed
from service.client.session import Session
from tests.service.client.fixtures import answering


@pytest.fixture(scope="module")
def onepass(empty, tmp_path_factory):
    """The module that the service serves; models of the same names are gone."""
    answer = httpx.get(f"{empty}/onepass.py")
    assert "text/x-python" == answer.headers["content-type"].partition(";")[0]
    path = tmp_path_factory.mktemp("client") / "onepass.py"
    path.write_bytes(answer.content)
    spec = importlib.util.spec_from_file_location("onepass", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_runs_on_the_oldest_python_that_it_names(onepass):
    """Its docstring names that version; no syntax, evaluated annotation or name of typing is newer."""
    source = Path(onepass.__file__).read_text()
    assert "needs only Python 3.9" in source
    tree = ast.parse(source, feature_version=(3, 9))
    taken = {one.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for one in node.names}
    assert "__future__" == taken["annotations"]
    assert {"Any"} == {name for name, module in taken.items() if module == "typing"}


@pytest.fixture
def boiler(onepass, url):
    """A model of two numbers, deleted afterwards."""
    with onepass.Onepass(url) as service:
        model = service.model("boiler")
        model.create(task="regression", algorithm="dfop", features=["outside", "wind"])
        yield model
        model.delete()


@pytest.fixture
def unreliable():
    """A service that does what is planned for each request (0: it hangs up), then takes what comes: its address, the
    plan, and the requests that reached it.
    """
    plan, posted = [(0, ""), (503, "store-down")], []

    def answer(_):
        status, problem = plan.pop(0) if plan else (200, "none")
        return (status, json.dumps({"rows": 1, "type": f"/problems/{problem}"}).encode()) if status else None

    with answering(answer, posted) as url:
        yield url, plan, posted


def test_needs_nothing_but_the_standard_library(onepass):
    """Imported by a Python that has no packages."""
    run = [sys.executable, "-I", "-S", "-c", f"import runpy; runpy.run_path({onepass.__file__!r})"]
    assert 0 == subprocess.run(run, timeout=30).returncode


def test_the_example_at_its_top(onepass, url, monkeypatch):
    """It runs as it stands, on a model that it creates itself."""
    monkeypatch.setitem(sys.modules, "onepass", onepass)
    code = "\n".join(line.strip() for line in onepass.__doc__.splitlines() if line.startswith("    "))
    run = {}
    exec(code.replace("http://localhost:8000", url), run)
    with run["model"]._service:
        assert 1 == run["model"].show()["rows"]
        run["model"].delete()


def test_rows(boiler):
    """A prediction changes nothing, a label is learned, a repeated id is learned once."""
    assert 0 == boiler.predict({"outside": 5.0, "wind": 2.0})["version"]
    assert 1 == boiler.feedback({"outside": 4.5, "wind": 2.0}, 61.5, id="mon-1")["rows"]
    again = boiler.feedback({"outside": 4.5, "wind": 2.0}, 61.5, id="mon-1")
    assert (True, 1) == (again["duplicate"], again["rows"])
    boiler.learn_one({"outside": 4.0, "wind": np.float64(1.0)}, np.float64(64.0))
    assert 2 == boiler.metrics()["rows"]
    assert isinstance(boiler.predict_one({"outside": 4.0, "wind": 1}), float)


def test_late_label(boiler):
    """A tracked prediction takes its label by its id."""
    tracked = boiler.predict({"outside": 5.0, "wind": 2.0}, track=True, interval=0.9)
    assert 1 == boiler.feedback(label=60.0, prediction_id=tracked["prediction_id"])["rows"]


def test_tables(boiler):
    """Dicts, lists, arrays and data frames (of pandas, of Polars) give the same columns; NaN is a missing value."""
    rows = [[1.0, 2.0], [3.0, 4.0]]
    names = {"columns": ["outside", "wind"]}
    pandas = type("F", (), {**names, "to_numpy": lambda _, dtype: np.array(rows, dtype)})()
    pandas.rows = [2.0, 4.0]  # a column of such a name is an attribute of a frame
    polars = type("F", (), {**names, "to_numpy": lambda _: None, "rows": lambda _: [*map(tuple, rows)]})()
    for table in ([{"outside": 1, "wind": 2}, {"wind": 4, "outside": 3}], rows, np.array(rows), pandas, polars):
        assert {"columns": ["outside", "wind"], "data": rows} == boiler._table(table)
        boiler.partial_fit(table, np.array([1.0, 2.0]))
    assert 10 == boiler.show()["rows"]
    assert 2 == len(boiler.predict_many(rows))
    assert 2 == len(boiler.predict_batch(rows, track=True)["prediction_ids"])
    assert [2, 10] == [boiler.evaluate(rows, [1.0, 2.0])["metrics"]["rows"], boiler.show()["rows"]]
    assert [None, 1.0] == boiler._table([[math.nan, 1.0]])["data"][0]


def test_times(onepass, url):
    """Datetimes, alone and in tables, are times of day to a model."""
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    with onepass.Onepass(url) as service:
        model = service.model("clock")
        model.create(task="regression", algorithm="rls", features=[{"name": "t", "type": "time"}])
        assert 1 == model.feedback({"t": noon}, 1.0)["rows"]
        assert 3 == model.feedback_batch([{"t": noon}, {"t": noon}], [1.0, 2.0])["rows"]
        model.delete()


def test_classes(onepass, url):
    """Probabilities by label, as in river."""
    with onepass.Onepass(url) as service:
        model = service.model("desk")
        model.create(task="classification", labels=["UP", "DOWN"], features=["load"], algorithm="dfop")
        assert {"UP": 0.5, "DOWN": 0.5} == model.predict_proba_one({"load": 1.0})
        model.delete()


def test_sparse_rows(onepass, url):
    """Batches of rows with different names teach a model that takes any names."""
    with onepass.Onepass(url) as service:
        model = service.model("spam")
        model.create(algorithm="sparse_dfop", task="classification", labels=["ham", "spam"])
        rows = [{"pills": 1, "cheap": 1}, {"lunch": 1}] * 20
        model.feedback_batch(rows, ["spam", "ham"] * 20)
        assert ["spam", "ham"] == [*model.predict_many(rows[:2])]
        assert 40 == model.metrics()["rows"]
        model.delete()


def test_refusals_say_field_and_problem(boiler, onepass):
    """Status, type and errors are those of the answer."""
    with pytest.raises(onepass.OnepassError, match="wind") as refused:
        boiler.feedback({"outside": 1.0}, 1.0)
    assert (422, True) == (refused.value.status, any("wind" in str(one) for one in refused.value.errors))
    with pytest.raises(onepass.OnepassError, match="wind: is missing"):
        boiler.predict({"outside": 1.0, "wind": math.nan})
    with pytest.raises(onepass.OnepassError, match="label") as unlabelled:
        boiler.feedback({"outside": 1.0, "wind": 1.0})
    assert ("label: is required", 1) == (str(unlabelled.value), len(unlabelled.value.errors))
    with pytest.raises(ValueError, match="not JSON compliant"):
        boiler.feedback({"outside": math.inf, "wind": 1.0}, 1.0)


@pytest.mark.parametrize("of", ["id", "key"])
def test_retries_send_the_same_id(onepass, unreliable, of):
    """What breaks off, a 503, and a 502 or 504 of a balancer are tried again: a row by its id, a batch without ids by
    its Idempotency-Key, which a row has as well.
    """
    url, plan, posted = unreliable
    plan += [(502, "none"), (504, "none")]
    with onepass.Onepass(url) as service:
        model = service.model("m")
        assert of == "key" or 1 == model.feedback({"a": 1.0}, 2.0)["rows"]
        assert of == "id" or model.partial_fit([{"a": 1.0}], [2.0])
    bodies = [json.loads(body) | {"key": headers["Idempotency-Key"]} for _, headers, body in posted]
    assert (5, True, True) == (len(bodies), bodies[0][of] is not None, bodies[0]["key"] is not None)
    assert [bodies[0]] * 5 == bodies


@pytest.mark.parametrize("lost", [0, 502, 504])
def test_a_tracked_prediction_is_not_made_twice(onepass, unreliable, lost):
    """By a balancer, or after its 502 or 504, or after a lost answer: each try may keep another one."""
    url, plan, posted = unreliable
    with onepass.Onepass(url) as service:
        for ask in (
            service.model("m").predict,
            lambda row, track: service.model("m").predict_batch([row], track=track),
        ):
            plan[:] = [(503, "store-down"), (lost, "none")]
            with pytest.raises(onepass.OnepassError) as failed:
                ask({"a": 1.0}, track=True)
            assert (lost, True) == (failed.value.status, failed.value.unsure)
    assert (4, []) == (len(posted), [headers for _, headers, _ in posted if "Idempotency-Key" in headers])


def test_a_tracked_prediction_waits_for_a_service_that_starts(onepass, unreliable, monkeypatch):
    """It is sent again after a connection that was refused, since nothing was sent."""
    url, plan, posted = unreliable
    plan.clear()
    with onepass.Onepass("http://127.0.0.1:9") as service:
        port = int(url.rpartition(":")[2])
        monkeypatch.setattr(onepass.time, "sleep", lambda _: setattr(service._threads.connection, "port", port))
        assert 1 == service.model("m").predict({"a": 1.0}, track=True)["rows"]
    assert 1 == len(posted)


def test_a_connection_that_the_service_has_closed_is_opened_again(onepass):
    """It closes those that are idle: even a tracked prediction, which is sent only once, does not fail on one."""

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")
            self.close_connection = True

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        with onepass.Onepass(f"http://127.0.0.1:{server.server_port}", patience_s=0) as service:
            for _ in range(3):
                assert {} == service.model("m").predict({"a": 1.0}, track=True)
                service._threads.connection.sock.recv(1, socket.MSG_PEEK)  # returns once it is closed
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("told", [{"url": "http://127.0.0.1:9"}, {"URL": "http://127.0.0.1:9"}, {"PORT": "9"}])
def test_patience_ends(onepass, monkeypatch, told):
    """Where nothing listens, the error names the place, with status 0; an argument or a variable says which it is."""
    for name in told.keys() - {"url"}:
        monkeypatch.setenv(f"ONEPASS_{name}", told[name])
    with pytest.raises(onepass.OnepassError, match="cannot reach 127.0.0.1:9: ") as refused:
        onepass.Onepass(told.get("url"), patience_s=0).model("m").metrics()
    assert 0 == refused.value.status


def test_a_lost_model_is_not_waited_for(onepass, unreliable):
    """Like one that is out of service: a person has to act. White space around a key is no part of it."""
    url, plan, posted = unreliable
    plan[:] = [(503, "model-down"), (503, "model-lost")]
    with onepass.Onepass(url, key=" secret\n") as service:
        for _ in range(2):
            with pytest.raises(onepass.OnepassError):
                service.model("m").feedback({"a": 1.0}, 2.0)
    assert 2 == len(posted)
    assert {"secret"} == {headers["X-API-Key"] for _, headers, _ in posted}


def test_a_rate_limit_is_waited_for(onepass, unreliable, monkeypatch):
    """A 429 is tried again, after its Retry-After and not before."""
    url, plan, posted = unreliable
    plan[:], waits = [(429, "too-many-requests")], []
    monkeypatch.setattr(onepass.time, "sleep", waits.append)
    with onepass.Onepass(url) as service:
        assert 1 == service.model("m").predict({"a": 1.0})["rows"]
    assert ([1.0], 2) == (waits, len(posted))


@pytest.mark.parametrize(("before", "is_gone"), [([(0, "")], True), ([], False), ([(429, "too-many-requests")], False)])
def test_a_deletion_whose_answer_is_lost(onepass, unreliable, before, is_gone):
    """The retry finds no model: the first try deleted it; what was never deleted is not found."""
    url, plan, _ = unreliable
    plan[:] = [*before, (404, "not-found")]
    with onepass.Onepass(url) as service:
        if is_gone:
            service.model("m").delete()
        else:
            with pytest.raises(onepass.OnepassError):
                service.model("m").delete()
    assert [] == plan


def test_a_model_out_of_service_fails_at_once(onepass, unreliable):
    """It is a 503 that no waiting ends."""
    url, plan, posted = unreliable
    plan[:] = [(503, "model-down")] * 2
    with pytest.raises(onepass.OnepassError) as refused, onepass.Onepass(url) as service:
        service.model("m").predict({"a": 1.0})
    assert (503, "/problems/model-down", 1) == (refused.value.status, refused.value.type, len(posted))


FORKS = """
import os, runpy, sys
with runpy.run_path(sys.argv[1])["Onepass"](sys.argv[2]) as service:
    model = service.model("m")
    print(model.show()["port"], flush=True)
    if not (child := os.fork()):
        print(model.show()["port"], model.show()["port"], flush=True)
        service.close()
        os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)
    print(model.show()["port"])
"""


def test_a_forked_process_has_its_own_connection(onepass):
    """And keeps it, as the other one does: answers on one that they share would be taken for each other's."""

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            body = json.dumps({"port": self.client_address[1]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        run = [sys.executable, "-c", FORKS, onepass.__file__, f"http://127.0.0.1:{server.server_port}"]
        ports = subprocess.run(run, timeout=60, capture_output=True, text=True, check=True).stdout.split()
        server.shutdown()
        thread.join()
    first, own, same, last = ports
    assert (first, own) == (last, same)
    assert first != own


def test_an_unknown_certificate_fails_at_once(onepass, monkeypatch):
    """By both clients, where they would retry another failure."""
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it is retried"))
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(own)
    server.socket = own.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None
    session = Session(f"https://127.0.0.1:{server.server_port}", patience_s=5)
    session._answered = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    with onepass.Onepass(session.url, patience_s=5) as service, session:
        with pytest.raises(onepass.OnepassError, match="CERTIFICATE_VERIFY_FAILED"):
            service.model("m").metrics()
        with pytest.raises(Failed, match="CERTIFICATE_VERIFY_FAILED"):
            session.ask("GET", "models")
    server.shutdown()
    thread.join()
    server.server_close()
