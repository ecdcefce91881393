"""Packages compile in the layout of their ecosystem, with stand-ins for its build system."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from firmware_stub.packages.__main__ import write
from firmware_stub.packages.library import parts, sources, version
from firmware_stub.packages.manifests import PACKAGES
from tests.conftest import ROOT
from tests.library.conftest import STUB, WARNINGS, sh
from tests.support.examples import sampled

pytestmark = pytest.mark.sim

M4 = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
ARM = ("arm-none-eabi-gcc", *M4, "-std=gnu17", "-Os", *WARNINGS)
CMAKE_CROSS = """\
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_C_COMPILER {compiler})
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_FLAGS_INIT "{flags}")
"""
# What the frameworks give their compilers: Zephyr's oldest dialect, and ESP-IDF's for an ESP32-C3.
ZEPHYR_FLAGS = (
    *(*M4, "-std=c99", "-Os", "-ffreestanding", "-fno-strict-aliasing", "-Wall", "-Wextra"),
    *("-Wformat", "-Wformat-security", "-Wdouble-promotion", "-Wpointer-arith", "-Werror"),
    *("-Wexpansion-to-defined", "-Wno-unused-but-set-variable", "-Wno-pointer-sign"),
)
ESP_IDF_FLAGS = (
    *("-march=rv32imc", "-mabi=ilp32", "--specs=picolibc.specs", "-std=gnu17", "-Og"),
    *("-Wall", "-Wextra", "-Werror", "-Wwrite-strings", "-fno-jump-tables"),
    *("-fno-tree-switch-conversion", "-fstrict-volatile-bitfields"),
)

ZEPHYR = """\
cmake_minimum_required(VERSION 3.22)
project(zephyr_like C)
{config}
macro(zephyr_include_directories)
  foreach(path ${{ARGN}})
    get_filename_component(path ${{path}} ABSOLUTE)
    include_directories(${{path}})
  endforeach()
endmacro()
macro(zephyr_library_named name)
  set(library ${{name}})
  add_library(${{library}} STATIC)
endmacro()
macro(zephyr_library_sources)
  target_sources(${{library}} PRIVATE ${{ARGN}})
endmacro()
macro(zephyr_library_sources_ifdef option)
  if(${{option}})
    target_sources(${{library}} PRIVATE ${{ARGN}})
  endif()
endmacro()
add_subdirectory({package}/zephyr etdump)
"""

ESP_IDF = """\
cmake_minimum_required(VERSION 3.22)
project(esp_idf_like C)
{config}
function(idf_component_register)
  cmake_parse_arguments(PARSE_ARGV 0 it "" "" "SRCS;INCLUDE_DIRS")
  add_library(etdump STATIC ${{it_SRCS}})
  target_include_directories(etdump PUBLIC ${{it_INCLUDE_DIRS}})
endfunction()
add_subdirectory({package} etdump)
"""


ZEPHYR_BUILD = ("zephyr", ZEPHYR, "arm-none-eabi", ZEPHYR_FLAGS)
ESP_IDF_BUILD = ("esp-idf", ESP_IDF, "riscv64-unknown-elf", ESP_IDF_FLAGS)


@pytest.fixture(params=sampled(PACKAGES, "zephyr", "arduino"))
def any_package(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write(request.param, tmp_path / request.param)
    return tmp_path / request.param


def test_every_source_of_the_library_is_in_one_part() -> None:
    """Only the firmware's own main is left out."""
    listed = sources(*parts())
    assert len(listed) == len(set(listed))
    everything = {path.relative_to(STUB) for path in (STUB / "src").rglob("*.c")}
    assert everything - set(listed) == {Path("src/app/app.c"), Path("src/app/placed_model.c")}


def test_a_package_holds_what_its_sources_include(any_package: Path, tmp_path: Path) -> None:
    """The preprocessor finds every header within the package, with its folders alone."""
    kind = PACKAGES[any_package.name]
    files = sorted((any_package / kind.sources).rglob("*.c"))
    assert len(files) == len(sources(*kind.parts))
    include = f"-I{any_package / kind.headers}"
    sh(ARM[0], *M4, "-std=gnu17", "-fsyntax-only", include, *files[:40], cwd=tmp_path)
    found = sh(ARM[0], *M4, "-M", include, *files, cwd=tmp_path)
    assert str(ROOT / "firmware_stub") not in found
    assert (any_package / "LICENSE").read_text().lstrip().startswith("Apache License")


@pytest.mark.parametrize(
    ("kind", "project", "prefix", "flags", "chosen"),
    [
        pytest.param(*ZEPHYR_BUILD, (), id="zephyr, tracer"),
        pytest.param(
            *ZEPHYR_BUILD, ("LINK", "SERVER", "RUNTIME"), id="zephyr, all", marks=pytest.mark.long
        ),
        pytest.param(*ESP_IDF_BUILD, (), id="esp-idf, tracer"),
        pytest.param(
            *ESP_IDF_BUILD, ("LINK", "SERVER"), id="esp-idf, server", marks=pytest.mark.long
        ),
    ],
)
def test_cmake_of_a_package_compiles_for_a_microcontroller(
    kind: str,
    project: str,
    prefix: str,
    flags: tuple[str, ...],
    chosen: tuple[str, ...],
    tmp_path: Path,
) -> None:
    write(kind, tmp_path / kind)
    config = ["set(CONFIG_ETDUMP y)", *(f"set(CONFIG_ETDUMP_{part} y)" for part in chosen)]
    text = project.format(config="\n".join(config), package=tmp_path / kind)
    (tmp_path / "CMakeLists.txt").write_text(text)
    cross = CMAKE_CROSS.format(compiler=f"{prefix}-gcc", flags=" ".join(flags))
    (tmp_path / "cross.cmake").write_text(cross)
    sh("cmake", "-S", ".", "-B", "b", "-DCMAKE_TOOLCHAIN_FILE=cross.cmake", cwd=tmp_path)
    sh("cmake", "--build", "b", "--parallel", "2", cwd=tmp_path)
    [archive] = (tmp_path / "b").rglob("libetdump.a")
    symbols = sh(f"{prefix}-nm", "--defined-only", archive, cwd=tmp_path)
    assert "T etd_start_profiling\n" in symbols
    assert ("T etd_server_poll\n" in symbols) == bool(chosen)
    assert ("T etd_method_execute\n" in symbols) == ("RUNTIME" in chosen)


def test_a_sketch_compiles_with_every_object_in_one_folder(tmp_path: Path) -> None:
    """As Arduino does: ``src`` is compiled as a whole, and is the only include directory."""
    write("arduino", tmp_path / "etdump")
    include = f"-I{tmp_path / 'etdump/src'}"
    files = sorted((tmp_path / "etdump/src").rglob("*.c"))
    sh(*ARM, include, "-c", *files, cwd=tmp_path)
    assert len(list(tmp_path.glob("*.o"))) == len(files)
    (tmp_path / "Arduino.h").write_text(
        "#include <stdint.h>\nunsigned long micros();\nvoid delay(unsigned long);\n"
        "struct Console { void begin(long); void println(uint32_t); };\nextern Console Serial;\n"
    )
    [sketch] = (tmp_path / "etdump/examples").rglob("*.ino")
    command = ["arm-none-eabi-g++", *M4, "-std=gnu++11", "-Wall", "-Werror", "-x", "c++"]
    sh(*command, "-include", "Arduino.h", "-I.", include, "-c", sketch, cwd=tmp_path)


REQUIRED = [
    "name",
    "version",
    "author",
    "maintainer",
    "sentence",
    "paragraph",
    "category",
    "url",
    "architectures",
]
CATEGORIES = {"Data Processing", "Communication", "Other"}


def test_the_properties_of_the_arduino_library_are_complete(tmp_path: Path) -> None:
    """What Arduino's own checker asks for: it is a program in Go that cannot be installed here."""
    write("arduino", tmp_path / "etdump")
    lines = (tmp_path / "etdump/library.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    assert [name for name in REQUIRED if not properties.get(name)] == []
    assert properties["version"] == version()
    assert properties["category"] in CATEGORIES
    assert properties["name"].isidentifier()
    assert (tmp_path / "etdump/src" / properties["includes"]).is_file()


def test_the_cmsis_pack_refers_to_what_it_holds(tmp_path: Path) -> None:
    write("cmsis", tmp_path / "pack")
    [path] = (tmp_path / "pack").glob("*.pdsc")
    root = Xml.parse(path).getroot()
    order = [element.tag for element in root]
    assert order == [
        "vendor",
        "name",
        "description",
        "url",
        "license",
        "releases",
        "conditions",
        "components",
    ]
    assert path.name == f"{root.findtext('vendor')}.{root.findtext('name')}.pdsc"
    named = [file.get("name") or "" for file in root.iter("file")]
    assert len(named) > len(sources(*parts()))
    assert [name for name in named if not (path.parent / name).exists()] == []
    groups = {component.get("Cgroup") for component in root.iter("component")}
    assert {need.get("Cgroup") for need in root.iter("require")} <= groups
    conditions = {condition.get("id") for condition in root.iter("condition")}
    used = {component.get("condition") for component in root.iter("component")}
    assert used - {None} == conditions


def test_a_package_is_not_written_over_something_else(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(SystemExit, match="not empty"):
        write("zephyr", tmp_path)
