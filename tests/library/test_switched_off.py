"""Where ETD_OFF is defined, programs that call the tracer contain nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmware_stub.packages.__main__ import write
from tests.library.conftest import CONSUMER, DIALECTS, INCLUDE, WARNINGS, Dialect, sh, sources

PROGRAM = """\
#include <stddef.h>

#include "etd_contexts.h"
#include "etd_counters.h"
#include "etd_etdump.h"
#include "etd_marks.h"
#include "etd_recorder.h"
void filter(void);
#ifdef TRACED
static uint32_t now(void *context) { return *(volatile uint32_t *)context; }
static bool take(void *context, const void *bytes, uint32_t size) {
    return context != bytes && size > 0;
}
#endif
void infer(void) {
#ifdef TRACED
    static uint8_t log[256];
    static uint32_t time;
    static etd_tracer tracer;
    static etd_counting counting;
    static const uint8_t chosen[] = {0};
    etd_tracer_init(&tracer, log, sizeof log, now, &time);
    etd_set_data_sink(&tracer, NULL, NULL);
    (void)etd_start_counting(&tracer, &counting, NULL, chosen, 1);
    etd_create_event_block(&tracer, "Execute");
    const etd_event event = ETD_SCOPE(&tracer, "filter");
    const etd_delegate_event inner = etd_start_profiling_delegate(&tracer, NULL, 3);
#endif
    filter();
#ifdef TRACED
    etd_log_mark(&tracer, "filtered");
    etd_log_sample(&tracer, "queue", 3);
    etd_log_sample_float(&tracer, "kelvin", 296.5f);
    etd_log_task(&tracer, "logger", true);
    etd_log_interrupt(&tracer, 15, false);
    etd_end_profiling_delegate(&tracer, inner, "meta", 4);
    etd_end_profiling(&tracer, event);
    etd_track_allocation(&tracer, etd_track_allocator(&tracer, "heap"), 64, 0);
    (void)etd_keep_last(&tracer, 1000, 32);
    const etd_etdump_sink sink = {take, NULL};
    (void)etd_etdump_write(&tracer, true, &sink);
#endif
}
"""
CORTEX_M0 = ("arm-none-eabi-gcc", "-mcpu=cortex-m0plus", "-mthumb", "-Os", "-std=c11", *WARNINGS)


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
def test_a_program_links_without_the_tracer(dialect: Dialect, tmp_path: Path) -> None:
    off = ("-DETD_OFF", f"-I{INCLUDE}")
    link = [str(path) for path in sources("link")]
    sh(*dialect.command, *off, "-c", CONSUMER, "-o", "consumer.o", cwd=tmp_path)
    sh("gcc", "-std=c11", *off, "-c", *link, cwd=tmp_path)
    objects = [path.name for path in tmp_path.glob("*.o")]
    sh(dialect.compiler, *objects, "-o", "consumer", cwd=tmp_path)
    sh(tmp_path / "consumer", "log.etlog", cwd=tmp_path)
    assert (tmp_path / "log.etlog").read_bytes() == b""


def test_no_byte_of_it_is_left(tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(PROGRAM)
    variants = {"off": ["-DTRACED", "-DETD_OFF"], "on": ["-DTRACED"], "without": []}
    sizes = {}
    for name, options in variants.items():
        command = (*CORTEX_M0, *options, f"-I{INCLUDE}", "-c", "program.c", "-o", f"{name}.o")
        sh(*command, cwd=tmp_path)
        sizes[name] = (
            sh("arm-none-eabi-size", f"{name}.o", cwd=tmp_path).splitlines()[1].split()[:3]
        )
    assert sizes["off"] == sizes["without"] != sizes["on"]
    assert sh("arm-none-eabi-nm", "-u", "off.o", cwd=tmp_path).split() == ["U", "filter"]


def test_the_sources_can_be_compiled_with_it_as_well(tmp_path: Path) -> None:
    """A build that defines it for all of its files gets the same tracer, which nothing calls."""
    write("amalgamation", tmp_path / "vendored")
    files = [
        *map(str, sources("tracer", "counters", "marks", "recorder", "etdump")),
        "vendored/etdump_tracer.c",
    ]
    assert len(files) > 8
    for file in files:
        for made, options in (("on.o", ()), ("off.o", ("-DETD_OFF",))):
            sh(*CORTEX_M0, *options, f"-I{INCLUDE}", "-c", file, "-o", made, cwd=tmp_path)
        on, off = ((tmp_path / made).read_bytes() for made in ("on.o", "off.o"))
        assert on == off, file
