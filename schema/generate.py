"""Write the C and Python spellings of the formats in this folder.

Each source TOML holds the numbers both sides agree on; JSON Schemas come from the classes that
are written as JSON, the index of checks from their codes, and the keywords of a run from its
settings. Run without arguments to rewrite the
generated files, or with ``--check`` to fail (exit 1) when one of them is stale.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from harness.records.run_settings import RunSetting

ROOT = Path(__file__).resolve().parent.parent


class Output(NamedTuple):
    source: str
    prefix: str
    header: str
    module: str
    title: str


OUTPUTS = (
    Output(
        "schema/link.toml",
        "ETD_LINK",
        "firmware_stub/include/etd_link_wire.h",
        "harness/link/wire.py",
        "Constants of the link protocol.",
    ),
    Output(
        "schema/compact_log.toml",
        "ETD_LOG",
        "firmware_stub/include/etd_log_format.h",
        "harness/decode/device_log_format.py",
        "Constants of the device's compact event log.",
    ),
    Output(
        "schema/npu.toml",
        "ETD_NPU",
        "firmware_stub/src/delegates/npu_format.h",
        "firmware_stub/models/npu/command_format.py",
        "Constants of the simulated NPU's job format.",
    ),
    Output(
        "schema/postmortem.toml",
        "ETD_POSTMORTEM",
        "firmware_stub/include/etd_postmortem_format.h",
        "harness/extensions/postmortem/record_format.py",
        "Postmortem constants.",
    ),
)


def render_header(output: Output, spec: dict[str, Any]) -> str:
    """The C header: one enumerator per line, because enumerators survive into a debugger."""
    guard = "ETD_" + Path(output.header).name.removeprefix("etd_").upper().replace(".", "_")
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        f"/* {output.title} Generated from {output.source} by schema/generate.py. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
    ]
    for name, entry in spec["constant"].items():
        lines += [f"/* {entry['doc']} */", f"#define {output.prefix}_{name} {_c_number(entry)}"]
    for enum, members in spec["enum"].items():
        lines += ["", f"/* {members['doc']} */", "enum {"]
        for name, entry in _members(members):
            lines.append(f"    /* {entry['doc']} */")
            lines.append(f"    {output.prefix}_{enum.upper()}_{name} = {_c_number(entry)},")
        lines.append("};")
    return "\n".join([*lines, "", "#endif", ""])


def render_module(output: Output, spec: dict[str, Any]) -> str:
    """The Python module: IntEnums and Final constants, documented by a string beneath each."""
    lines = [
        f'"""{output.title} Generated from ``{output.source}`` by ``schema/generate.py``."""',
        "",
        "from enum import IntEnum",
        "from typing import Final",
        "",
    ]
    for name, entry in spec["constant"].items():
        lines += [f"{name}: Final = {_hexadecimal(entry)}", f'"""{_sentence(entry["doc"])}"""']
    for enum, members in spec["enum"].items():
        lines += ["", "", f"class {_class_name(enum)}(IntEnum):"]
        lines += [f'    """{_sentence(members["doc"])}"""', ""]
        for name, entry in _members(members):
            lines += [f"    {name} = {_hexadecimal(entry)}", f'    """{_sentence(entry["doc"])}"""']
    return "\n".join([*lines, ""])


def render_version() -> str:
    """The C header with the version of pyproject.toml."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    major, minor, patch = version.split(".")
    return f"""\
// SPDX-License-Identifier: Apache-2.0
/* Version of the library. Generated from pyproject.toml by schema/generate.py. */
#ifndef ETD_VERSION_H
#define ETD_VERSION_H

#define ETD_VERSION "{version}"
#define ETD_VERSION_MAJOR {major}
#define ETD_VERSION_MINOR {minor}
#define ETD_VERSION_PATCH {patch}
/* For comparison in #if: major * 10000 + minor * 100 + patch. */
#define ETD_VERSION_NUMBER {int(major) * 10000 + int(minor) * 100 + int(patch)}

#endif
"""


SWITCHED_OFF = (
    *("etd_tracer", "etd_clock", "etd_counters", "etd_etdump"),
    *("etd_contexts", "etd_marks", "etd_recorder"),
)
"""Headers whose functions do nothing where ETD_OFF is defined."""
_FUNCTION = re.compile(
    r"^(?:static inline )?([a-z]\w+(?: [*]?| ))(etd_\w+)\(([^)]*)\)(?:;| \{)", re.MULTILINE
)


def render_switched_off(header: str) -> str:
    """Functions of the same types as those of a header, which do nothing and return zeros."""
    guard = f"{header.upper()}_OFF_H"
    parts = [
        f"""\
// SPDX-License-Identifier: Apache-2.0
/* Part of {header}.h where ETD_OFF is defined. Generated from that header by schema/generate.py. */
#ifndef {guard}
#define {guard}

#include "{header}.h"
"""
    ]
    text = (ROOT / f"firmware_stub/include/{header}.h").read_text()
    for kind, name, given in _FUNCTION.findall(text):
        parameters = [" ".join(parameter.split()) for parameter in given.split(",")]
        start = f"static inline {kind}{name}_off("
        wrapped = textwrap.wrap(  # between parameters only
            ", ".join(each.replace(" ", "\0") for each in parameters) + ")\0{",
            width=110,
            initial_indent=start,
            subsequent_indent=" " * len(start),
            break_on_hyphens=False,
        )
        wrapped = [line.replace("\0", " ") for line in wrapped]
        lines = [*wrapped, *(f"    (void){re.split(r'[ *]+', each)[-1]};" for each in parameters)]
        if kind.strip().endswith("_event"):
            lines += [f"    static {kind}none;", "    return none;"]
        elif kind.strip() != "void":
            lines += [f"    return {'false' if kind.strip() == 'bool' else '0'};"]
        parts.append("\n".join([*lines, "}", f"#define {name} {name}_off", ""]))
    return "\n".join([*parts, "#endif", ""])


def render_run_keywords() -> str:
    """The TypedDicts of the keywords of ``harness.run`` and ``harness.load``."""
    from harness.records.run_settings import READ_SETTINGS, SETTINGS

    lines = [
        '"""Keywords of ``harness.run`` and ``harness.load``, for type checkers.',
        "",
        "Generated from ``harness/records/run_settings.py`` by ``schema/generate.py``.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "import os",
        "from collections.abc import Mapping, Sequence",
        "from datetime import date",
        "from typing import TypedDict",
        "",
        "from harness.config.unit import MeterRequest",
        "from harness.flash.plan import HowToFlash, Stages",
        "",
        "PathLike = str | os.PathLike[str]",
        "",
    ]
    run = "Options of ``harness.run``, with the defaults of ``etharness run``."
    lines += _keywords("RunKeywords", run, SETTINGS)
    load = "Options of ``harness.load``, for files that do not say these things themselves."
    lines += _keywords("LoadKeywords", load, READ_SETTINGS)
    return "\n".join(lines)


def _keywords(name: str, title: str, settings: Mapping[str, RunSetting]) -> Iterator[str]:
    """Yield the lines of a TypedDict of the settings that the API takes."""
    from harness.records.run_settings import SettingPlace, settings_in

    keywords = settings_in(SettingPlace.API, settings)
    yield from ("", f"class {name}(TypedDict, total=False):")
    yield from (f'    """{title}', "", "    Attributes:")
    for setting in keywords:
        text = f"{setting.name}: {setting.documentation}"
        yield from textwrap.wrap(text, 100, initial_indent=8 * " ", subsequent_indent=12 * " ")
    yield from ('    """', "")
    yield from (f"    {setting.name}: {_keyword_type(setting)}" for setting in keywords)
    yield ""


def _keyword_type(setting: RunSetting) -> str:
    """The type of a keyword: paths and sequences of any kind are accepted."""
    if setting.annotation:
        return setting.annotation
    names = {Path: "PathLike", tuple[Path, ...]: "Sequence[PathLike]"}
    names |= {tuple[str, ...]: "Sequence[str]", Mapping[str, str]: "Mapping[str, str]"}
    name = names.get(setting.kind) or ("str" if setting.choices else setting.kind.__name__)
    return f"{name} | None" if setting.default is None else name


def _members(enum: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((name, entry) for name, entry in enum.items() if name != "doc")


def _class_name(enum: str) -> str:
    return "".join(word.capitalize() for word in enum.split("_"))


def _hexadecimal(entry: dict[str, Any]) -> str:
    return f"0x{entry['value']:X}"


def _c_number(entry: dict[str, Any]) -> str:
    return _hexadecimal(entry) + ("u" if entry["value"] > 0xFFFF else "")


def _sentence(doc: str) -> str:
    text = doc.replace('"', "'")
    return f"{text[0].upper()}{text[1:]}."


def generated_files() -> Iterator[tuple[Path, str]]:
    """Every generated file with the text it should hold."""
    for output in OUTPUTS:
        spec = tomllib.loads((ROOT / output.source).read_text())
        yield ROOT / output.header, render_header(output, spec)
        yield ROOT / output.module, render_module(output, spec)
    yield ROOT / "firmware_stub/include/etd_version.h", render_version()
    for header in SWITCHED_OFF:
        path = ROOT / f"firmware_stub/include/{header}_off.h"
        yield path, render_switched_off(header)
    # These need the project's dependencies, unlike the rest.
    import msgspec

    from harness import documentation
    from harness.check.budget import BudgetFile
    from harness.extensions.bundles import bundle
    from harness.extensions.exports import events
    from harness.extensions.lab.nightly import plan, verdict
    from harness.records import flashing, result
    from harness.report import document

    schemas = {"result": result.json_schema(), "events": events.json_schema()}
    schemas["budget"] = msgspec.json.schema(BudgetFile)
    schemas["nightly-plan"] = msgspec.json.schema(plan.NightlyPlan)
    schemas["quarantine"] = msgspec.json.schema(verdict.QuarantineFile)
    schemas["bundle"] = msgspec.json.schema(bundle.Manifest)
    schemas |= flashing.json_schemas()
    schemas |= {name: document.json_schema(name) for name in document.document_types()}
    for name, schema in schemas.items():
        schema = without_examples(schema)
        yield ROOT / f"schema/{name}.schema.json", json.dumps(schema, indent=2) + "\n"
    yield ROOT / "docs/checks/README.md", documentation.index_of_checks()
    yield ROOT / "harness/runs/run_keywords.py", render_run_keywords()


def without_examples(schema: Any) -> Any:
    """The same schema without the Python examples of the docstrings that describe its objects."""
    if isinstance(schema, list):
        return [without_examples(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    shorter = {name: without_examples(item) for name, item in schema.items()}
    if isinstance(text := shorter.get("description"), str) and "\n    Examples:\n" in text:
        shorter["description"] = text.partition("\n    Examples:\n")[0].rstrip() + "\n    "
    return shorter


def main(arguments: list[str]) -> int:
    stale = []
    for path, text in generated_files():
        if path.exists() and path.read_text() == text:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if "--check" not in arguments:
            path.write_text(text)
    if stale and "--check" in arguments:
        print(f"stale: {', '.join(stale)}; run python schema/generate.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
