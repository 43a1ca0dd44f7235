"""Whatever bytes come, a decoder reads them or refuses them as it says, in bounded memory."""

import os
import tracemalloc
import zlib

import pytest

from tests.fuzzing.decoders import DECODERS
from tests.fuzzing.mutations import mutants

COUNT = int(os.environ.get("FUZZ_MUTANTS", "1000"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
MEMORY = 2**25
"""Bytes that a decoder may take beside what it is given, of which it may take a multiple."""
MULTIPLE = 200
every_decoder = pytest.mark.parametrize("name", DECODERS)


@every_decoder
def test_samples_are_read(name):
    """Else their mutants would test nothing."""
    for sample in DECODERS[name].samples:
        DECODERS[name].read(sample)


@every_decoder
def test_mutants_are_read_or_refused(name):
    """Of each decoder the same ones each time; FUZZ_SEED takes others, FUZZ_MUTANTS more."""
    decoder = DECODERS[name]
    refused = 0
    for number, data in enumerate(mutants(decoder.samples, COUNT, zlib.crc32(name.encode()) + SEED)):
        tracemalloc.start()
        try:
            decoder.read(data)
        except decoder.refusals:
            refused += 1
        except BaseException as error:
            raise AssertionError(f"mutant {number}: {data[:2000]!r}") from error
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert MEMORY + MULTIPLE * len(data) > peak, f"mutant {number}: {data[:2000]!r}"
    assert not decoder.refusals or refused > COUNT // 20
