"""Which kernels a start takes: those for this processor, else those for any of its architecture, where there are some.

An image is built on one processor and runs on others. Kernels for any x86-64 or any ARM run everywhere and compute the
same bits everywhere, but without the wide instructions: models of some hundred columns may learn at half the speed.
"""

from service.first_run.kernel_cache import GENERIC, KernelCache, Processor
from service.first_run.kernels import Sources


def kernels_at_hand(package: str = "core") -> str | None:
    """Have this process use compiled kernels, where there are some that its processor runs.

    NUMBA_CPU_NAME, where it is set, leaves no choice.

    Args:
        package: whose kernels.

    Returns:
        Which they are, for the log; None: there are none, and they have to be compiled.
    """
    sources, own = Sources(package), Processor.chosen()
    if KernelCache(sources, own).complete():
        return f"kernels for {_named(own)}"
    generic = Processor.generic()
    if Processor.is_given() or not KernelCache(sources, generic).complete():
        return None
    generic.choose()
    return (
        f"kernels for {_named(generic)}, as there are none for this one ({own.name}): wide models may learn at half "
        f"the speed; NUMBA_CPU_NAME={own.name} compiles its own"
    )


def _named(processor: Processor) -> str:
    if processor.name == GENERIC:
        return f"any {processor.triple.partition('-')[0]} processor"
    return f"processors of the type {processor.name}"
