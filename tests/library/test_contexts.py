"""The hooks of docs/library/contexts.md: they compile, and their log gives operators own times."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, CommandResult
from tests.library.conftest import INCLUDE, WARNINGS, sh, sources

pytestmark = pytest.mark.sim

PAGE = ROOT / "docs/library/contexts.md"
FOLDER = Path(__file__).parent
CORTEX_M3 = ("arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb", "-Os", "-std=c11", *WARNINGS)
QEMU = ("qemu-system-arm", "-M", "mps2-an385", "-nographic", "-icount", "shift=5")
TICKS_HZ = 25_000_000
NEAR = 0.015
"""Part of an operator's time that what surrounds the hooks may add: entry and exit of handlers."""

ZEPHYR = """\
#include <stdbool.h>
struct k_thread;
typedef struct k_thread *k_tid_t;
k_tid_t k_current_get(void);
const char *k_thread_name_get(k_tid_t thread);
unsigned int irq_lock(void);
void irq_unlock(unsigned int key);
unsigned int __get_IPSR(void);
void sys_trace_thread_switched_out_user(void);
void sys_trace_thread_switched_in_user(void);
void sys_trace_isr_enter_user(void);
void sys_trace_isr_exit_user(void);
"""
"""The names of Zephyr that the page uses; Zephyr itself is not here."""

FREERTOS = """\
typedef unsigned long UBaseType_t;
UBaseType_t taskENTER_CRITICAL_FROM_ISR(void);
void taskEXIT_CRITICAL_FROM_ISR(UBaseType_t mask);
void handle_timer(void);
void TIMER1_Handler(void);
typedef struct { char pcTaskName[16]; } TCB_t;
extern TCB_t *volatile pxCurrentTCB;
void vTaskSwitchContext(TCB_t *next);
"""
"""The same of FreeRTOS."""


def blocks(title: str) -> list[str]:
    """The C code of a section of the page."""
    text = re.split(rf"^##+ {title}\n", PAGE.read_text(), flags=re.MULTILINE)[1]
    return re.findall(r"```c\n(.*?)```", re.split(r"^##", text, flags=re.MULTILINE)[0], re.DOTALL)


def test_the_pages_code_compiles(tmp_path: Path) -> None:
    (tmp_path / "zephyr").mkdir()
    (tmp_path / "zephyr/kernel.h").write_text(ZEPHYR)
    [zephyr], [start], [macros, handler] = map(blocks, ("Zephyr", "Log switches", "FreeRTOS"))
    (tmp_path / "zephyr.c").write_text(zephyr)
    switch = "void vTaskSwitchContext(TCB_t *next) {\n    traceTASK_SWITCHED_OUT();\n"
    switch += "    pxCurrentTCB = next;\n    traceTASK_SWITCHED_IN();\n}\n"
    (tmp_path / "freertos.c").write_text(f"{macros}{FREERTOS}{switch}{handler}")
    clock = "uint32_t read_clock(void *context);\nuint64_t read_clock64(void);\n"
    clock += "void log_clocks(etd_tracer *);\nvoid start_switches(etd_tracer *);\n"
    headers = '#include <stddef.h>\n#include "etd_clock.h"\nextern etd_tracer switches;\n'
    (tmp_path / "start.c").write_text(headers + clock + start)
    for name in ("zephyr.c", "freertos.c", "start.c"):
        sh(*CORTEX_M3, f"-I{INCLUDE}", "-I.", "-c", name, cwd=tmp_path)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[int]]]:
    """The log, and for each execution ticks on the clock and ticks that handlers measured."""
    folder = tmp_path_factory.mktemp("preempted")
    (folder / "freertos_hooks.h").write_text(blocks("FreeRTOS")[0])
    (folder / "log_switches.h").write_text(blocks("Log switches")[0])
    files = [FOLDER / "preempted.c", *sources("tracer", "marks", "clock")]
    layout = FOLDER / "microcontroller/memory.ld"
    link = ("--specs=rdimon.specs", "-ffunction-sections", "-Wl,--gc-sections", "-T", layout)
    sh(*CORTEX_M3, f"-I{INCLUDE}", "-I.", *files, *link, "-o", "preempted", cwd=folder)
    semihosting = "enable=on,target=native,arg=preempted,arg=run.etlog"
    command = (*QEMU, "-kernel", "preempted", "-semihosting-config", semihosting)
    lines = sh(*command, cwd=folder).splitlines()
    return folder / "run.etlog", [[int(word) for word in line.split()] for line in lines]


def test_a_preempted_operator_has_the_time_it_has_alone(
    ran: tuple[Path, list[list[int]]], etharness: Callable[..., CommandResult]
) -> None:
    path, ((alone, none), *preempted) = ran
    document = json.loads(etharness("decode", path, "--clock-hz", str(TICKS_HZ), "--json").out)
    [kernel] = [op for op in document["operators"] if op["name"] == "native_call_work.out"]
    assert none == 0
    assert all(wall > 2 * alone for wall, _ in preempted)
    assert kernel["ticks"]["min"] == pytest.approx(alone, rel=0.001)
    assert kernel["ticks"]["max"] == pytest.approx(alone, rel=NEAR)
    # What the handlers measured themselves, and the time that is left of the clock's.
    measured = sum(taken for _, taken in preempted)
    assert kernel["taken"] * TICKS_HZ / 1e9 == pytest.approx(measured, rel=NEAR)
    wall = alone + sum(wall for wall, _ in preempted)
    assert kernel["ticks"]["total"] + kernel["taken"] * TICKS_HZ / 1e9 == pytest.approx(
        wall, rel=0.001
    )


def test_the_log_has_a_verdict_and_says_who_preempted(
    ran: tuple[Path, list[list[int]]], etharness: Callable[..., CommandResult]
) -> None:
    path, _ = ran
    checked = etharness("check", path, "--clock-hz", str(TICKS_HZ))
    assert checked.code == 0, checked.err
    document = json.loads(etharness("check", path, "--clock-hz", str(TICKS_HZ), "--json").out)
    [placed] = [check for check in document["checks"] if check["code"] == "I30"]
    assert "tracer 1 is placed on clock given by 2 pairs of readings" in placed["reason"]
    assert (
        "other tasks and interrupts took"
        in etharness("decode", path, "--clock-hz", str(TICKS_HZ)).out
    )
