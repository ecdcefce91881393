"""Packages of the device library in the tools of their ecosystems."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from firmware_stub.packages.__main__ import write
from firmware_stub.packages.library import version

pytestmark = pytest.mark.tools

BIN = Path(sys.executable).parent
CONSUMER = Path(__file__).parents[1] / "library/consumer.c"

XTENSA_PICOLIBC = "/usr/lib/xtensa-lx106-elf/picolibc.specs"

ARM_CROSS = """\
[binaries]
c = 'arm-none-eabi-gcc'
ar = 'arm-none-eabi-ar'
strip = 'arm-none-eabi-strip'
[properties]
needs_exe_wrapper = true
[built-in options]
c_args = ['-mcpu=cortex-m3', '-mthumb', '-Os']
[host_machine]
system = 'none'
cpu_family = 'arm'
cpu = 'cortex-m3'
endian = 'little'
"""


def run(*command: str | Path, cwd: Path, code: int = 0) -> str:
    """Run a tool of this environment; return what it printed."""
    variables = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HOME": str(cwd)}
    variables |= {"PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no"}
    done = subprocess.run(
        command, cwd=cwd, env=variables, capture_output=True, text=True, check=False, timeout=600
    )
    assert (done.returncode != 0) == (code != 0), done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def meson_project(tmp_path: Path) -> Path:
    write("meson", tmp_path / "subprojects/etdump")
    (tmp_path / "consumer.c").write_bytes(CONSUMER.read_bytes())
    return tmp_path


def test_meson_builds_a_consumer_that_runs(meson_project: Path) -> None:
    (meson_project / "meson.build").write_text(
        "project('consumer', 'c', default_options: ['c_std=c11'])\n"
        "tracer = dependency('etdump-tracer', fallback: 'etdump')\n"
        "link = dependency('etdump-link', fallback: 'etdump')\n"
        "executable('consumer', 'consumer.c', dependencies: [tracer, link])\n"
    )
    run("meson", "setup", "b", "--wrap-mode=nodownload", cwd=meson_project)
    run("ninja", "-C", "b", cwd=meson_project)
    assert run(meson_project / "b/consumer", "log", cwd=meson_project) == f"etdump {version()}\n"


def test_meson_builds_for_a_microcontroller(meson_project: Path) -> None:
    (meson_project / "arm.ini").write_text(ARM_CROSS)
    (meson_project / "traced.c").write_text(
        '#include "etd_tracer.h"\nvoid f(etd_tracer *t) { etd_create_event_block(t, "x"); }\n'
    )
    (meson_project / "meson.build").write_text(
        "project('consumer', 'c', default_options: ['c_std=c11'])\n"
        "tracer = dependency('etdump-tracer', fallback: 'etdump')\n"
        "static_library('traced', 'traced.c', dependencies: tracer, link_whole: [])\n"
    )
    cross = ("--cross-file", "arm.ini", "--wrap-mode=nodownload")
    run("meson", "setup", "b", *cross, cwd=meson_project)
    run(
        "ninja",
        "-C",
        "b",
        "libtraced.a",
        "subprojects/etdump/libetdump_tracer.a",
        cwd=meson_project,
    )


def test_platformio_packs_the_library(tmp_path: Path) -> None:
    write("platformio", tmp_path / "etdump")
    said = run("pio", "pkg", "pack", "etdump", "-o", "etdump.tar.gz", cwd=tmp_path)
    assert "Wrote a tarball" in said
    listed = run("tar", "tzf", "etdump.tar.gz", cwd=tmp_path)
    assert {"src/tracer/events.c", "include/etd_tracer.h"} <= set(listed.split())


def test_platformio_packs_the_arduino_library(tmp_path: Path) -> None:
    write("arduino", tmp_path / "etdump")
    said = run("pio", "pkg", "pack", "etdump", "-o", "etdump.tar.gz", cwd=tmp_path)
    assert "Wrote a tarball" in said


def test_the_component_manager_of_esp_idf_accepts_and_packs_the_component(tmp_path: Path) -> None:
    write("esp-idf", tmp_path / "etdump")
    run("compote", "manifest", "lint", "etdump", cwd=tmp_path)
    run("compote", "component", "pack", "--name", "etdump", cwd=tmp_path / "etdump")
    assert list((tmp_path / "etdump").rglob(f"etdump_{version()}.tgz"))
    manifest = tmp_path / "etdump/idf_component.yml"
    manifest.write_text(manifest.read_text().replace(f'"{version()}"', '"abc"'))
    run("compote", "manifest", "lint", "etdump", cwd=tmp_path, code=1)


KCONFIG = """\
import sys, kconfiglib
config = kconfiglib.Kconfig(sys.argv[1], warn_to_stderr=False)
for name in sys.argv[2:]:
    config.syms[name].set_value("y")
print({s.name: s.str_value for s in config.unique_defined_syms}, config.warnings)
"""


@pytest.mark.parametrize("kind", ["zephyr", "esp-idf"])
def test_kconfig_reads_the_options_and_selects_what_they_need(kind: str, tmp_path: Path) -> None:
    write(kind, tmp_path / "etdump")
    file = tmp_path / "etdump" / ("zephyr/Kconfig" if kind == "zephyr" else "Kconfig")
    chosen = ["ETDUMP", "ETDUMP_SERVER"] if kind == "zephyr" else ["ETDUMP_SERVER"]
    said = run(sys.executable, "-c", KCONFIG, file, *chosen, cwd=tmp_path)
    assert "'ETDUMP_LINK': 'y'" in said
    assert "'ETDUMP_RUNTIME': 'n'" in said
    assert said.rstrip().endswith("[]")


def test_the_zephyr_module_is_what_zephyr_describes(tmp_path: Path) -> None:
    """By the documented keys: the schema itself is part of Zephyr, which is not installed."""
    yaml = pytest.importorskip("yaml")
    write("zephyr", tmp_path / "etdump")
    module = yaml.safe_load((tmp_path / "etdump/zephyr/module.yml").read_text())
    assert set(module) == {"name", "build"}
    assert set(module["build"]) == {"cmake", "kconfig"}
    assert (tmp_path / "etdump" / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    assert (tmp_path / "etdump" / module["build"]["kconfig"]).is_file()


def test_the_component_compiles_for_xtensa(tmp_path: Path) -> None:
    """The other architecture of ESP32 chips, by Debian's compiler for their predecessor."""
    write("esp-idf", tmp_path / "etdump")
    (tmp_path / "b").mkdir()
    flags = ("-std=gnu17", "-Og", "-mlongcalls", "-Wall", "-Wextra", "-Werror", "-Wwrite-strings")
    libc = f"--specs={XTENSA_PICOLIBC}"
    files = sorted((tmp_path / "etdump/src").rglob("*.c"))
    compiler = ("xtensa-lx106-elf-gcc", libc, *flags, f"-I{tmp_path / 'etdump/include'}", "-c")
    run(*compiler, *files, cwd=tmp_path / "b")
    assert len(list((tmp_path / "b").glob("*.o"))) == len(files)
