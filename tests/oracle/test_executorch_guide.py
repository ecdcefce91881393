"""docs/executorch.md, followed by someone who has a firmware of their own around ExecuTorch."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

from harness.config.board import load_board
from harness.link.session import Session
from harness.link.wire import Region
from harness.target.build import Firmware
from harness.target.start import start_target
from tests.conftest import FIXTURES, MODELS, CommandResult
from tests.support.executorch import FIRMWARE, Build

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

KERNELS = "executorch_kernels_optimized"
PAGE = FIRMWARE.parent / "docs/executorch.md"
MODEL = MODELS / "kws_f32.pte"

THEIR_FIRMWARE = """
#include <cstdio>
#include <executorch/extension/data_loader/file_data_loader.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/runtime.h>
%(includes)s

using namespace executorch::runtime;

static uint32_t read_cycle_counter(void *) {
    static uint32_t now;
    return now += 7;
}

alignas(16) static uint8_t method_memory[1 << 20], planned_memory[1 << 20], scratch[1 << 20];

int main(int, char **argv) {
    runtime_init();
    auto loader = executorch::extension::FileDataLoader::from(argv[1]);
    auto loaded = Program::load(&loader.get());
    Program &program = loaded.get();
    MemoryAllocator method_allocator(sizeof method_memory, method_memory);
    MemoryAllocator temporary_allocator(sizeof scratch, scratch);
    Span<uint8_t> planned(planned_memory, sizeof planned_memory);
    HierarchicalAllocator planned_allocator({&planned, 1});
    MemoryManager memory_manager(&method_allocator, &planned_allocator, &temporary_allocator);
%(page)s
    using executorch::aten::Tensor, executorch::aten::TensorImpl, executorch::aten::ScalarType;
    static float elements[49 * 10];
    int32_t sizes[] = {1, 1, 49, 10};
    uint8_t order[] = {0, 1, 2, 3};
    int32_t strides[] = {490, 490, 10, 1};
    TensorImpl input(ScalarType::Float, 4, sizes, elements, order, strides);
    if (!method.ok() || method->set_input(EValue(Tensor(&input)), 0) != Error::Ok ||
        method->execute() != Error::Ok) {
        return 1;
    }
    uint8_t piece[100];
    for (uint32_t at = 0, size = etd_log_size(&tracer); at < size;) {
        const uint32_t count = etd_log_read(&tracer, at, piece, sizeof piece);
        std::fwrite(piece, 1, count, stdout);
        at += count;
    }
    return 0;
}
"""


def section(title: str) -> str:
    """The text under a heading of the page."""
    return PAGE.read_text().split(f"## {title}\n")[1].split("\n## ")[0]


def test_a_firmware_gets_the_tracer_as_the_page_shows(
    tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    text = section("Only the tracer")
    [code] = re.findall(r"```cpp\n(.*?)```", text, re.DOTALL)
    lines = code.splitlines()
    parts = {
        "includes": "\n".join(line for line in lines if line.startswith("#include")),
        "page": "\n".join(line for line in lines if not line.startswith("#include")),
    }
    (tmp_path / "theirs.cpp").write_text(THEIR_FIRMWARE % parts)
    assert "`src/tracer/*.c`" in text
    build = Build(tmp_path)
    program = build.link([build.compile(tmp_path / "theirs.cpp"), *build.tracer()], KERNELS)
    log = subprocess.run([program, MODEL], check=True, capture_output=True).stdout
    (tmp_path / "log.etlog").write_bytes(log)
    code, shown, _ = etharness("decode", str(tmp_path / "log.etlog"))
    assert code == 0
    assert "native_call_convolution.out" in shown


def test_a_firmware_gets_the_link_from_the_files_the_page_lists(tmp_path: Path) -> None:
    text = section("Tracer and link")
    listed = re.findall(
        r"`((?:src|executorch)/[^`]*\.c(?:pp)?)`", text.split("`src/app/app.c` takes")[0]
    )
    assert "executorch/runtime.cpp" in listed
    sources = [path for pattern in listed for path in sorted(FIRMWARE.glob(pattern))]
    sizes = {"MODEL": 1 << 20, "ARENA": 1 << 20, "INPUT": 1 << 16, "TRACE": 1 << 16}
    assert all(f"`ETD_{name}_CAPACITY`" in text for name in sizes)
    definitions = [f"-DETD_{name}_CAPACITY={size}" for name, size in sizes.items()]
    definitions += ["-DETD_MTU=1024", '-DETD_BUILD_ID="theirs"']
    build = Build(tmp_path)
    port = sorted((FIRMWARE / "ports/native").glob("*.c"))  # the page's example of a main
    objects = [build.compile(path, *definitions) for path in (*sources, *port)]
    firmware = Firmware(build.link(objects, KERNELS), "theirs", tmp_path, "native")
    board, _ = load_board("native-executorch")
    fixture = np.load(FIXTURES / "kws_f32.npz")
    with start_target(board, firmware) as target:
        session = Session(target.transport, deadline_s=2)
        assert session.hello(10).build_id == "theirs"
        session.load_model(MODEL.read_bytes())
        session.set_input(0, fixture["inputs"][0].tobytes())
        session.run(1, timeout_s=30)
        output = np.frombuffer(session.read(Region.OUTPUT), np.float32)
    np.testing.assert_allclose(output, fixture["outputs"][0].ravel(), rtol=0, atol=1e-4)
