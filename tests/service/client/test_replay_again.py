"""``onepass replay`` on a model that is there: options that agree with it, and what a refusal leaves of it."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from service.client.replay.table import Batch
from service.client.session import Refused, Session
from tests.service.client.fixtures import Shell, stream

ask = Session.ask


def refusing(monkeypatch: pytest.MonkeyPatch, refused: str, status: int) -> None:
    """Requests of this method are refused."""

    def answered(session: Session, method: str, path: str, **request: Any) -> Any:
        if method != refused:
            return ask(session, method, path, **request)
        own = httpx.Request(method, f"{session.url}/{path}")
        raise Refused(httpx.Response(status, json={"detail": "no such luck"}, request=own))

    monkeypatch.setattr(Session, "ask", answered)


def test_the_options_of_the_creation_need_no_algorithm(
    tmp_path: Path, replay: Shell, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model's own is meant; a service that cannot answer says nothing about the options."""
    file, another = stream(tmp_path / "own.csv", 20), "exists with another configuration"
    assert 0 == replay(file, "--algorithm=dfop", "--cost=UP=3", "--name=meant")[0]
    httpx.patch(f"{url}/models/meant", json={"class_costs": {"UP": 9}}).raise_for_status()
    assert (0, "") == replay(file, "--cost=UP=3", "--name=meant")[::2]
    for status in (403, 409, 429, 503):
        refusing(monkeypatch, "PUT", status)
        code, _, complained = replay(file, "--cost=UP=3", "--name=meant")
        assert (1, status < 429) == (code, another in complained)
        assert another in complained or "no such luck" in complained
    assert 40 == httpx.get(f"{url}/models/meant").json()["rows"]


def test_a_model_that_another_client_has_taught_stays(
    tmp_path: Path, replay: Shell, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although this replay has created it, and its first rows are refused."""
    file, send = tmp_path / "theirs.csv", Batch.send
    file.write_text("a,b,y\n" + "1,2,u\n2,?,v\n" + "2,1,v\n3,1,u\n" * 20)

    def taught(batch: Batch, *arguments: Any) -> Any:
        row = {"features": {"a": 1, "b": 2}, "label": "u"}
        httpx.post(f"{url}/models/theirs/feedback", json=row).raise_for_status()
        return send(batch, *arguments)

    monkeypatch.setattr(Batch, "send", taught)
    status, _, complained = replay(file, "--algorithm=dfop")
    assert (1, False, True) == (status, "deleted" in complained, "'?' in line 3" in complained)
    assert 1 == httpx.get(f"{url}/models/theirs").json()["rows"]


def test_a_service_that_cannot_learn_keeps_the_new_model(
    tmp_path: Path, replay: Shell, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rows may have been learned all the same, and the same command continues."""
    refusing(monkeypatch, "POST", 503)
    status, _, complained = replay(stream(tmp_path / "later.csv", 20), "--algorithm=dfop")
    assert (1, False, True) == (status, "deleted" in complained, "no such luck" in complained)
    assert 0 == httpx.get(f"{url}/models/later").json()["version"]
