"""Decoders read or refuse any bytes, with the documented errors and in bounded memory (of Python and NumPy)."""

import os
import tracemalloc
import zlib

import pytest

from tests.fuzzing.corpus import corpus
from tests.fuzzing.decoders import DECODERS
from tests.fuzzing.mutations import mutants

COUNT = int(os.environ.get("FUZZ_MUTANTS", "1000"))
FEW = 250
"""The number of mutants in ``make test``."""
SEED = int(os.environ.get("FUZZ_SEED", "0"))
MEMORY = 2**25
"""Bytes that a decoder may take in addition to MULTIPLE times the size of its input."""
MULTIPLE = 200
every_decoder = pytest.mark.parametrize("name", DECODERS)


@every_decoder
def test_samples_are_read(name):
    """Otherwise their mutants would test nothing."""
    for sample in DECODERS[name].samples:
        DECODERS[name].read(sample)


@every_decoder
def test_the_corpus_is_read_or_refused(name):
    """It contains inputs with new outcomes, and those that once broke a decoder."""
    for data in corpus(name):
        _bounded(DECODERS[name], data)


@pytest.mark.parametrize("count", [FEW, pytest.param(COUNT, marks=pytest.mark.slow)])
@every_decoder
def test_mutants_are_read_or_refused(name, count):
    """Each decoder gets the same mutants every time; FUZZ_SEED selects others, FUZZ_MUTANTS more."""
    decoder = DECODERS[name]
    known = [*decoder.samples, *corpus(name)]
    refused = sum(_bounded(decoder, data) for data in mutants(known, count, zlib.crc32(name.encode()) + SEED))
    assert not decoder.refusals or refused > count // 20


def _bounded(decoder, data):
    """Read some bytes in bounded memory; return whether they were refused."""
    tracemalloc.start()
    try:
        decoder.read(data)
    except decoder.refusals:
        return True
    except BaseException as error:
        raise AssertionError(f"{data[:2000]!r}") from error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert MEMORY + MULTIPLE * len(data) > peak, f"{data[:2000]!r}"
    return False
