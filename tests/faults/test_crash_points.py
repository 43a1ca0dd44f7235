"""Crashes at the two worst moments: between append and apply, and between apply and answer."""

import http.client

import pytest

from tests.faults.load import Client, rows
from tests.faults.replay import bare, judge, learnt, whole_log

pytestmark = pytest.mark.faults
TABLE = rows(24, 5)


@pytest.mark.parametrize("point", ["appended", "applied"])
@pytest.mark.parametrize("number", [1, 13])
def test_the_retry_of_a_row_that_crashed_the_service_is_told_what_it_was(serve, clean, point, number):
    """The row at which the service died is learned once, and its retry answered with what it would have been told."""
    service = serve().start(FAILPOINT=f"{point}:{number}")
    service.create()
    client, answers = Client(service), []
    for row in TABLE:
        try:
            answers.append(client.learn(row))
        except (OSError, http.client.HTTPException):
            assert (-9, number - 1) == (service.died(), len(answers))
            service.start()
            answers.append(client.learn(row))
            assert answers[-1]["duplicate"]
    assert [number - 1] == [at for at, answer in enumerate(answers) if answer["duplicate"]]
    assert clean(TABLE) == ([learnt(answer) for answer in answers], bare(service.state()))
    judge(service, whole_log(service.store_url), TABLE)


def test_a_crash_at_every_row(serve, clean):
    """A service that dies before each of its answers learns all rows once, and knows the answers it never gave.

    They are found again by replay, written to the store before the snapshot that ends the replay, and read from there.
    """
    service, answers = serve(), []
    for number, row in enumerate(TABLE[:4]):
        service.start(FAILPOINT=f"{('appended', 'applied')[number % 2]}:1")
        service.create()
        with pytest.raises((OSError, http.client.HTTPException)):
            Client(service).send(row)
        assert -9 == service.died()
    service.start()
    assert 201 == service.request("POST", "/models/m/snapshots").status
    service.kill()
    service.start()
    client = Client(service)
    for row in TABLE[:4]:
        answers.append(client.learn(row))
    assert {True} == {answer["duplicate"] for answer in answers}
    answers += [client.learn(row) for row in TABLE[4:]]
    assert clean(TABLE) == ([learnt(answer) for answer in answers], bare(service.state()))
