"""Build a release from a commit: wheel, sdist, images of all real boards, their sizes, the site
of the documentation, and checksums.

    python tools/release.py --output dist                  of the commit that is checked out
    python tools/release.py --output dist --tag v0.1.0     and refuse a tag of another version
    python tools/release.py --output dist --again          build twice, elsewhere, and compare

Everything is built from the files of the commit, in a temporary folder, without a compiler cache:
nothing that lies about in a checkout can get into a release, and no path of it either.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import Board, SerialTarget, read_image
from harness.config.board import board_names, load_board
from harness.target.build import compiler_for

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = "tools/release-constraints.txt"
CHECKSUMS = "SHA256SUMS"
IMAGES = "IMAGES.md"


class ReleaseError(Exception):
    """There will be no release; the message says why, and what to try."""


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """The image of one board.

    Attributes:
        board: Its board.
        files: Names of its files; the first one is ELF.
        build_id: The build id that the firmware reports.
        text: Code and constants, bytes.
        data: Initialized variables, bytes.
        bss: Other variables, bytes.
    """

    board: Board
    files: tuple[str, ...]
    build_id: str
    text: int
    data: int
    bss: int


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="folder of the release")
    parser.add_argument("--tag", default="", help="tag of the release, v and the version")
    parser.add_argument("--commit", default="", help="the commit; default: the one checked out")
    parser.add_argument("--boards", default="all", help="real boards, separated by commas, or none")
    parser.add_argument("--docs", help="a Python with the extra docs, which builds the site, too")
    parser.add_argument("--again", action="store_true", help="build a second time, and compare")
    chosen = parser.parse_args(arguments)
    try:
        commit = chosen.commit or committed()
        boards = choose(chosen.boards)
        removable(chosen.output)
        with tempfile.TemporaryDirectory(prefix="release-") as folder:
            first = Path(folder) / "once"
            build(commit, chosen.tag, boards, chosen.docs, first)
            if chosen.again:
                second = Path(folder) / "once-more-in-a-folder-with-a-longer-name" / "files"
                build(commit, chosen.tag, boards, chosen.docs, second)
                compare(first, second)
            publish(first / "files", chosen.output)
    except (ReleaseError, subprocess.CalledProcessError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 2
    print((chosen.output / CHECKSUMS).read_text(), end="")
    return 0


def committed() -> str:
    """The commit that is checked out; a release has no changes that are in none."""
    if changed := git("status", "--porcelain").splitlines():
        raise ReleaseError(
            f"{len(changed)} files differ from the commit, such as {changed[0][3:]}; "
            "commit them, or name a commit with --commit"
        )
    return git("rev-parse", "HEAD").strip()


def choose(names: str) -> list[Board]:
    real = [
        board for board in map(described, board_names()) if isinstance(board.target, SerialTarget)
    ]
    if names == "all":
        return real
    wanted = names.split(",") if names != "none" else []
    if unknown := set(wanted) - {board.name for board in real}:
        raise ReleaseError(
            f"no real boards: {', '.join(sorted(unknown))}; choose from "
            + ", ".join(board.name for board in real)
        )
    return [board for board in real if board.name in wanted]


def described(name: str) -> Board:
    return load_board(name)[0]


def build(commit: str, tag: str, boards: Sequence[Board], python: str | None, folder: Path) -> None:
    """Build everything into ``folder/files``; ``python`` builds the site of the documentation."""
    source, files = folder / "source", folder / "files"
    files.mkdir(parents=True)
    version = tomllib.loads(git("show", f"{commit}:pyproject.toml"))["project"]["version"]
    if tag and tag != f"v{version}":
        raise ReleaseError(
            f"tag {tag} is not of version {version}; "
            "set `version` in pyproject.toml, commit, and tag that commit"
        )
    export(commit, source)
    variables = {
        **os.environ,
        "SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct", commit).strip(),
        "PYTHONPATH": str(source),
        "ETHARNESS_BUILD_DIR": str(folder / "build"),
        # What an earlier build has left in a cache must not be in a release.
        "CCACHE_DISABLE": "1",
    }
    uv = [sys.executable, "-m", "uv", "build", "--quiet", "--build-constraints", CONSTRAINTS]
    run([*uv, "--out-dir", str(files), "."], source, variables)
    (files / ".gitignore").unlink(missing_ok=True)
    if python is not None:
        run([str(Path(python).absolute()), "-m", "tools.docs"], source, variables)
        archive(source / "out/docs/site", files / f"etdump-harness-docs-{version}.zip")
    images = [
        image(board, version, files, source, variables)
        for board in boards
        if board.build is not None
    ]
    others = [board for board in boards if board.build is None]
    (files / IMAGES).write_text(table(images, others, files, commit))
    (files / CHECKSUMS).write_text(checksums(files))


def export(commit: str, folder: Path) -> None:
    """Write the files of a commit."""
    folder.mkdir(parents=True)
    archive = subprocess.Popen(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE)
    with archive, tarfile.open(fileobj=archive.stdout, mode="r|") as tar:
        tar.extractall(folder, filter="data")
    if archive.returncode:
        raise ReleaseError(f"git archive {commit} exited with {archive.returncode}")


def archive(folder: Path, file: Path) -> None:
    """Write the files of a folder in the order of their names, all of the same time."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as site:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            member = zipfile.ZipInfo(path.relative_to(folder).as_posix())
            member.external_attr = 0o644 << 16
            site.writestr(member, path.read_bytes(), zipfile.ZIP_DEFLATED)


def image(
    board: Board, version: str, files: Path, source: Path, variables: dict[str, str]
) -> BuiltImage:
    """Build the image of a board, also in the format that the board's USB drive takes."""
    elf = files / f"{board.name}-{version}.elf"
    command = [sys.executable, "-m", "harness", "build", "--board", board.name, "--json"]
    document = json.loads(run([*command, "-o", str(elf)], source, variables))
    names = [elf.name]
    options = board.flash.options if board.flash is not None else {}
    if drive := options.get("copy"):
        content = read_image(elf)
        form = str(drive["format"])
        flat = content.as_uf2(int(drive["family"])) if form == "uf2" else content.as_hex()
        elf.with_suffix(f".{form}").write_bytes(flat)
        names.append(f"{elf.stem}.{form}")
    [total] = [size for size in document["sizes"] if size["part"] == "image"]
    sizes = (total["text"], total["data"], total["bss"])
    return BuiltImage(board, tuple(names), document["build_id"], *sizes)


def table(images: Sequence[BuiltImage], others: Sequence[Board], files: Path, commit: str) -> str:
    lines = [
        "# Firmware images",
        "",
        f"Of commit {commit}. Sizes are bytes: text is code and constants, bss is variables that "
        "begin as zero.",
        f"`{CHECKSUMS}` has the SHA-256 of each file, and docs/release.md says how an image gets "
        "onto its board.",
        "",
        "| board | files | build id | text | data | bss | file |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for built in images:
        names = ", ".join(f"`{name}`" for name in built.files)
        size = (files / built.files[0]).stat().st_size
        lines.append(
            f"| {built.board.description} | {names} | `{built.build_id}` | {built.text:,} | "
            f"{built.data:,} | {built.bss:,} | {size:,} |"
        )
    lines += ["", *(f"Not built here: {board.description}." for board in others)]
    lines += [f"Compiler: {version}." for version in compilers(images)]
    return "\n".join(lines).rstrip() + "\n"


def compilers(images: Iterable[BuiltImage]) -> list[str]:
    """The first line that each compiler prints of itself; another one makes other bytes."""
    presets = (built.board.build.preset for built in images if built.board.build is not None)
    programs = sorted({compiler_for(preset)[0] for preset in presets})
    return [
        run([program, "--version"], ROOT, {**os.environ}).partition("\n")[0] for program in programs
    ]


def checksums(files: Path) -> str:
    """In the format of ``sha256sum``, which checks them by ``--check``."""
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files.iterdir()
        if path.name != CHECKSUMS
    }
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))


def compare(first: Path, second: Path) -> None:
    once, again = ((folder / "files" / CHECKSUMS).read_text() for folder in (first, second))
    if differing := sorted(
        line.split()[1] for line in {*once.splitlines()} ^ {*again.splitlines()}
    ):
        raise ReleaseError(
            "a second build gave other bytes: " + ", ".join(dict.fromkeys(differing))
        )
    print(f"built twice, {len(once.splitlines())} files with the same bytes", file=sys.stderr)


def removable(output: Path) -> list[Path]:
    """The files of an earlier release in ``output``; what else is there is not ours to remove."""
    listed = output / CHECKSUMS
    lines = listed.read_text().splitlines() if listed.exists() else []
    earlier = {line.partition("  ")[2] for line in lines} | {CHECKSUMS}
    found = sorted(output.iterdir()) if output.is_dir() else []
    if others := [path.name for path in found if path.name not in earlier]:
        raise ReleaseError(
            f"{output} has files that are not of an earlier release, such as {others[0]}; "
            "move them, or name another folder with --output"
        )
    return found


def publish(files: Path, output: Path) -> None:
    """Replace an earlier release in ``output``."""
    for path in removable(output):
        path.unlink()
    output.mkdir(parents=True, exist_ok=True)
    for path in files.iterdir():
        shutil.copyfile(path, output / path.name)


def git(*arguments: str) -> str:
    return run(["git", *arguments], ROOT, {**os.environ})


def run(command: Sequence[str], folder: Path, variables: dict[str, str]) -> str:
    done = subprocess.run(
        command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
