"""What the actors of one process share."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from service.runtime.commit.answerer import Answerer, AnswerWriter
from service.runtime.commit.committer import CommitLimits, Committer
from service.runtime.replicas.log_reader import LogReader
from service.runtime.replicas.replica import Ledger, Replica
from service.store.states.states import States


@dataclass(frozen=True, slots=True)
class Shared:
    """What the actors of one process share."""

    committer: Committer
    reader: LogReader
    answerer: Answerer
    answer_writer: AnswerWriter  # stores the answers to ids
    limits: CommitLimits
    writer: str  # the prefix of the uids of this process
    numbers: "itertools.count[int]"  # of its appends
    waiting: Ledger  # bytes of all requests that wait
    states: States  # the states and large segments that entries name
    subscribed: set[str] | None  # the models whose notices this process gets; None in a cluster (append_notices.py)
    current: Callable[[Replica], Replica]  # the replica of a model that is in memory now, for one that has left it
    grown: dict[Replica, bool]  # models whose log has grown, and whether by an append of this process
