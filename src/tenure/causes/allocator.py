"""Memory that an allocator holds, and growth that nothing else explains (TEN301, TEN302, TEN399).

Unless an entry says otherwise the figures are from TensorFlow 2.21.0 on CPU, glibc 2.36, x86-64.
"""

from __future__ import annotations

from tenure.causes._cause import Cause

__all__ = ["ALLOCATOR"]

ALLOCATOR: tuple[Cause, ...] = (
    Cause(
        name="allocator-retention",
        code="TEN301",
        kind="retention",
        origin="allocator",
        summary="TensorFlow's CPU pool or malloc holds freed blocks for reuse",
        why=(
            "Blocks of 256 KiB and more come from TensorFlow's own pool (oneDNN builds), which never returns "
            "memory to the system; smaller ones come from malloc, which keeps freed chunks. Resident memory stays "
            "at its peak although nothing is alive."
        ),
        remedy=(
            "This is no leak: the memory is reused. To give it back, start with TF_ONEDNN_USE_SYSTEM_ALLOCATOR=1 "
            "and call malloc_trim(0) after a release; or lower the peak."
        ),
        cure=(
            "Judge by live tensors, not by resident memory. TF_ONEDNN_USE_SYSTEM_ALLOCATOR=1 (or "
            "TF_ENABLE_ONEDNN_OPTS=0) before TensorFlow is imported, plus `malloc_trim(0)`, returns the memory; a "
            "child process returns all of it at its end."
        ),
        versions="TensorFlow 2.16 to 2.21, x86-64 CPU builds",
        looks_like="big = tf.zeros([50_000_000])\ndel big          # resident memory stays",
        measured=(
            "200 MiB of tensors: resident 502, 704, and 704 MiB after all were freed (703 after malloc_trim); with "
            "the system allocator and malloc_trim 493"
        ),
        upstream=("tensorflow/tensorflow#54169", "tensorflow/tensorflow#59109", "tensorflow/serving#1664"),
    ),
    Cause(
        name="allocator-fragmentation",
        code="TEN302",
        kind="retention",
        origin="allocator",
        summary="freed chunks lie between live ones and can't be returned or reused",
        why=(
            "Requests of ever new sizes leave holes that the next request does not fit. malloc keeps one arena per "
            "thread and the pool rounds to powers of two, so resident memory stays far above what is alive."
        ),
        remedy="Pad inputs to a few sizes; call malloc_trim(0) between bursts, or start under jemalloc.",
        cure=(
            "Buckets of sizes, a fixed pool of threads. jemalloc returns memory by itself; with tcmalloc or glibc "
            "an explicit call is needed. MALLOC_ARENA_MAX=2 did not help where it was tried."
        ),
        versions="any",
        looks_like="for request in requests:          # each of another length\n    serve(request)",
        measured=(
            "20 loads of a 208 MB model with oneDNN off: 225-462 MB above the start under glibc, 29-46 under "
            "jemalloc, 4-6 after malloc_trim(0)"
        ),
        upstream=("tensorflow/serving#2142", "tensorflow/serving#1664", "tensorflow/tensorflow#44176"),
    ),
    Cause(
        name="unattributed-growth",
        code="TEN399",
        kind="leak",
        origin="unknown",
        summary="live memory grows, and no cause of this catalogue explains it",
        why=(
            "The counters rise in every window, and neither a container, a tape nor a release of a framework cache "
            "accounts for it. It may be native memory of an extension, or a cause that is not known yet."
        ),
        remedy="Run longer and with a smaller program, and look at the evidence; what is known is listed there.",
        cure=(
            "Halve the program until the growth stops. A report of the pattern with its evidence makes a new entry "
            "here."
        ),
        versions="any",
        looks_like="",
    ),
)
