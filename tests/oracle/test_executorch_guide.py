"""docs/executorch.md, followed by someone who has a firmware of their own around ExecuTorch."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

import harness
from harness import Firmware, Region, Session, Subject, start_target
from tests.conftest import FIXTURES, MODELS, CommandResult
from tests.support.executorch import FIRMWARE, Build
from tests.support.standin import install_standin

pytestmark = pytest.mark.oracle

KERNELS = "executorch_kernels_optimized"
PAGE = FIRMWARE.parent / "docs/executorch.md"
MODEL = MODELS / "kws_f32.pte"
MICROCONTROLLER = Path(__file__).parents[1] / "library/microcontroller"

THEIR_FIRMWARE = """
#include <cstdio>
#include <executorch/extension/data_loader/%(loader)s_data_loader.h>
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

int main(int, [[maybe_unused]] char **argv) {
    runtime_init();
    %(load)s
    Program &program = loaded.get();
    Span<uint8_t> planned(planned_memory, sizeof planned_memory);
    HierarchicalAllocator planned_allocator({&planned, 1});
%(page)s
    using executorch::aten::Tensor, executorch::aten::TensorImpl, executorch::aten::ScalarType;
    static float elements[1000];
    int32_t sizes[] = {%(sizes)s};
    uint8_t order[] = {0, 1, 2, 3};
    int32_t strides[] = {%(strides)s};
    constexpr ssize_t ndim = sizeof sizes / sizeof sizes[0];
    TensorImpl input(ScalarType::Float, ndim, sizes, elements, order, strides);
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


SECOND_TRACER = """\
static uint8_t more_memory[8192];
static etd_tracer second;
etd_tracer_init(&second, more_memory, sizeof more_memory, read_cycle_counter, nullptr);
etdump_stub::EventTracer etdump_gen(second);
"""


THEIR_MEMORY = """\
MemoryAllocator method_allocator(sizeof method_memory, method_memory);
MemoryAllocator temporary_allocator(sizeof scratch, scratch);
MemoryManager memory_manager(&method_allocator, &planned_allocator, &temporary_allocator);
"""


def their_firmware(*, tee: bool = False, memory: bool = False, **parts: str) -> str:
    """A program with the code of "Only the tracer" in it; with that for two tracers and for
    allocators, if asked."""
    blocks = re.findall(r"```cpp\n(.*?)```", section("Only the tracer"), re.DOTALL)
    code, code_of_tee, code_of_memory = blocks
    start, load = code.rstrip().rsplit("\n", 1)
    assert "load_method" in load
    before, loading, after = code_of_memory.partition(load)
    assert loading
    if tee:
        start, load = f"{start}\n{SECOND_TRACER}", code_of_tee
    code = "\n".join([start, before, load, after] if memory else [start, THEIR_MEMORY, load])
    lines = code.splitlines()
    parts["includes"] = "\n".join(line for line in lines if line.startswith("#include"))
    parts["page"] = "\n".join(line for line in lines if not line.startswith("#include"))
    return THEIR_FIRMWARE % parts


BUDGET = """\
schema = 1
[[allocator]]
name = "%s"
limit_bytes = %d
"""


@pytest.mark.parametrize("more", [False, True])
def test_a_firmware_gets_the_tracer_as_the_page_shows(
    tmp_path: Path, etharness: Callable[..., CommandResult], more: bool
) -> None:
    """``more``: with two tracers, and with allocators that log."""
    from_file = """\
    auto loader = executorch::extension::FileDataLoader::from(argv[1]);
    auto loaded = Program::load(&loader.get());"""
    shape = {"sizes": "1, 1, 49, 10", "strides": "490, 490, 10, 1"}
    text = their_firmware(tee=more, memory=more, loader="file", load=from_file, **shape)
    used = 'std::fprintf(stderr, " %zu", method_allocator.used_size());\n    return 0;'
    (tmp_path / "theirs.cpp").write_text(text.replace("return 0;", used))
    assert "`src/tracer/*.c`" in section("Only the tracer")
    build = Build(tmp_path)
    program = build.link([build.compile(tmp_path / "theirs.cpp"), *build.tracer()], KERNELS)
    done = subprocess.run([program, MODEL], check=True, capture_output=True)
    log = tmp_path / "log.etlog"
    log.write_bytes(done.stdout)
    code, shown, _ = etharness("decode", str(log))
    assert code == 0
    assert "convolution #0" in shown
    memory = {each.name: each for each in Subject(harness.load(log).trace).allocators}
    if not more:
        assert memory == {}
        return
    planned, method, temporary = (memory[name] for name in ("planned_1", "method", "temporary"))
    assert planned.total_bytes == 1 << 20  # the buffer that the firmware gives
    assert method.total_bytes == int(done.stderr.split()[-1]) > 0
    assert (temporary.total_bytes, temporary.failures) == (0, 0)
    assert temporary.peak_bytes > 0
    for name, most in (("method", method.peak_bytes), ("temporary", temporary.peak_bytes)):
        for limit, expected in ((most, 0), (most - 1, 1)):
            (tmp_path / "budget.toml").write_text(BUDGET % (name, limit))
            budget = str(tmp_path / "budget.toml")
            code, shown, _ = etharness("check", str(log), "--budget", budget)
            assert code == expected, shown
            assert expected == 0 or f"B02 {name}" in shown


def test_an_allocator_without_a_tracer_and_one_without_room(tmp_path: Path) -> None:
    (tmp_path / "theirs.cpp").write_text(ALLOCATORS)
    build = Build(tmp_path)
    strict = ["-Wall", "-Wextra", "-Wconversion", "-Werror", "-fno-exceptions", "-fno-rtti"]
    theirs = build.compile(tmp_path / "theirs.cpp", *strict)
    program = build.link([theirs, *build.tracer()])
    log = tmp_path / "log.etlog"
    log.write_bytes(subprocess.run([program], check=True, capture_output=True).stdout)
    trace = harness.load(log).trace
    sizes = {each.name: each for each in Subject(trace).allocators}
    assert set(sizes) == {"planned_1", "planned_2", "planned_10", "planned_11"} | {
        f"planned_{number}" for number in range(3, 10)
    } | {"small", "heap", "late"}
    assert [sizes[f"planned_{number}"].total_bytes for number in (1, 2, 11)] == [8, 0, 8]
    small = sizes["small"]
    assert (small.count, small.failures, small.peak_bytes, small.total_bytes) == (3, 1, 40, 8)
    assert (sizes["heap"].total_bytes, sizes["late"].total_bytes) == (100, 5)
    reaches = {each.allocator.name: each.reach for each in Subject(trace).memory.allocators}
    assert (reaches["small"], reaches["heap"], reaches["late"]) == (48, None, 5)


ALLOCATORS = """
#include <cstdio>
#include <cstdlib>
#include "etdump_stub/allocator.hpp"

using executorch::runtime::MemoryAllocator, executorch::runtime::Span;

static uint32_t ticks(void *) {
    static uint32_t now;
    return ++now;
}

/* Has no memory of its own, so pieces have no offset. */
struct Heap : MemoryAllocator {
    explicit Heap(int) : MemoryAllocator(0, nullptr) {
    }
    void *allocate(size_t size, size_t) override {
        static uint8_t memory[100];
        return size <= sizeof memory ? memory : nullptr;
    }
};

int main() {
    static uint8_t log[4096], image[4096];
    alignas(16) static uint8_t memory[64], buffer[8];
    etd_tracer tracer;
    etd_tracer_init(&tracer, log, sizeof log, ticks, nullptr);
    Span<uint8_t> planned[11];
    for (auto &each : planned) {
        each = {buffer, sizeof buffer};
    }
    planned[1] = {buffer, size_t{0}};
    etdump_stub::LoggingAllocator<> small("small", uint32_t{sizeof memory}, memory);
    etdump_stub::LoggingAllocator<Heap> heap("heap", 1);
    bool right = small.allocate(4) != nullptr; // logs nothing yet
    small.log_to(&tracer, {planned, 11});
    heap.log_to(&tracer);
    etd_create_event_block(&tracer, "Default");
    right = right && small.allocate(0) != nullptr && small.allocate(8) == memory + 8;
    right = right && small.allocate(32, 16) == memory + 16 && small.allocate(17) == nullptr;
    small.reset();
    small.log_to(nullptr);
    small.log_to(&tracer); // is not declared again
    right = right && small.allocate(8) == memory && heap.allocate(100, 1) != nullptr;
    etdump_stub::LoggingAllocator<> late("late", uint32_t{sizeof memory}, memory);
    right = right && late.allocate(5) == memory;
    late.log_used(&tracer);
    const uint32_t size = etd_log_read(&tracer, 0, image, etd_log_size(&tracer));
    return right && std::fwrite(image, 1, size, stdout) == size ? 0 : 1;
}
"""


PROJECT = f"""\
cmake_minimum_required(VERSION 3.22)
project(theirs LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 17)
include(FetchContent)
FetchContent_Declare(etdump SOURCE_DIR "{FIRMWARE}")
FetchContent_MakeAvailable(etdump)
add_executable(theirs theirs.cpp vectors.c)
%(page)s
target_compile_options(theirs PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions;-fno-rtti>)
target_link_options(theirs PRIVATE
  --specs=rdimon.specs -Wl,--gc-sections -T ${{CMAKE_SOURCE_DIR}}/memory.ld)
"""

TOOLCHAIN = """\
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(CMAKE_C_FLAGS_INIT "-mcpu=cortex-m3 -mthumb -Os -ffunction-sections")
set(CMAKE_CXX_FLAGS_INIT "${CMAKE_C_FLAGS_INIT}")
"""


def test_a_cortex_m_project_in_cpp_gets_a_verdict(
    tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    """With libraries that stand in for ExecuTorch's: whatever the model, they add 1 to 4 floats."""
    prefix = install_standin("-mcpu=cortex-m3", tmp_path)
    shutil.copytree(MICROCONTROLLER, tmp_path, dirs_exist_ok=True)
    from_memory = """\
    alignas(16) static const uint8_t model[] = {
#include "model.inc"
    };
    executorch::extension::BufferDataLoader loader(model, sizeof model);
    auto loaded = Program::load(&loader);"""
    text = their_firmware(loader="buffer", load=from_memory, sizes="4", strides="1")
    assert "`getentropy`" in section("What a port needs for C++")
    text += 'extern "C" int getentropy(void *, size_t) { return -1; }\n'
    (tmp_path / "theirs.cpp").write_text(text)
    (tmp_path / "model.inc").write_text(", ".join(map(str, MODEL.read_bytes()[:4096])))
    [page] = re.findall(r"```cmake\n(.*?)```", section("Only the tracer"), re.DOTALL)
    page = page.replace("my_firmware", "theirs")
    page = page.replace("third_party/etdump/firmware_stub", str(FIRMWARE))
    (tmp_path / "CMakeLists.txt").write_text(PROJECT % {"page": page})
    (tmp_path / "arm.cmake").write_text(TOOLCHAIN)
    cmake = shutil.which("cmake")
    assert cmake is not None
    package = f"-Dexecutorch_DIR={prefix}/lib/cmake/ExecuTorch"
    for options in (["-B", "b", "-DCMAKE_TOOLCHAIN_FILE=arm.cmake", package], ["--build", "b"]):
        subprocess.run([cmake, *options], check=True, cwd=tmp_path, stdout=subprocess.DEVNULL)
    machine = ["qemu-system-arm", "-M", "mps2-an385", "-kernel", "b/theirs", "-semihosting"]
    quiet = ["-display", "none", "-serial", "null", "-monitor", "none"]
    done = subprocess.run([*machine, *quiet], cwd=tmp_path, capture_output=True, check=True)
    (tmp_path / "log.etlog").write_bytes(done.stdout)
    code, shown, _ = etharness("check", str(tmp_path / "log.etlog"))
    assert code == 0, shown
    assert "PASS" in shown
    assert "native_call_add.out" in etharness("decode", str(tmp_path / "log.etlog"), "-v").out


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
    board = harness.Board.load("native-executorch")
    fixture = np.load(FIXTURES / "kws_f32.npz")
    with start_target(board, firmware) as target:
        session = Session(target.transport, deadline_s=2)
        assert session.hello(10).build_id == "theirs"
        session.load_model(MODEL.read_bytes())
        session.set_input(0, fixture["inputs"][0].tobytes())
        session.run(1, timeout_s=30)
        output = np.frombuffer(session.read(Region.OUTPUT), np.float32)
    np.testing.assert_allclose(output, fixture["outputs"][0].ravel(), rtol=0, atol=1e-4)
