"""What the actors of one process share."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from service.runtime.commit.answer_writer import AnswerWriter
from service.runtime.commit.answerer import Answerer
from service.runtime.commit.committer import CommitLimits, Committer
from service.runtime.replicas.log_reader import LogReader
from service.runtime.replicas.replica import Ledger, Replica
from service.store.states.states import States


@dataclass(frozen=True, slots=True)
class Shared:
    """What the actors of one process share.

    Attributes:
        committer: sends appends.
        reader: reads logs.
        answerer: answers requests.
        answer_writer: stores the answers to ids.
        limits: bounds.
        writer: the prefix of the uids of this process.
        numbers: of its appends.
        waiting: bytes of all requests that wait.
        states: that entries name, and large segments.
        listening: how many connections of this process get a model's notices (append_notices.py).
        current: the replica of a model that is in memory now, for one that has left it.
        grown: called with a replica whose log has grown, and whether by an append of this process.
    """

    committer: Committer
    reader: LogReader
    answerer: Answerer
    answer_writer: AnswerWriter
    limits: CommitLimits
    writer: str
    numbers: "itertools.count[int]"
    waiting: Ledger
    states: States
    listening: Callable[[str], int]
    current: Callable[[Replica], Replica]
    grown: Callable[[Replica, bool], None]
