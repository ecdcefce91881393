"""Bundled programs as ExecuTorch exports them.

``python -m tests.support.bundled`` writes ``tests/fixtures/two_methods.bpte``; it needs torch and
executorch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

FIXTURE: Final = Path(__file__).parent.parent / "fixtures" / "two_methods.bpte"
"""Methods ``encode`` (2 test sets, 2 outputs) and ``forward`` (3 test sets), all of them right."""


def two_methods(wrong: dict[tuple[str, int, int], float] | None = None) -> bytes:
    """Export a program of two methods, and bundle it with five test sets.

    Args:
        wrong: What to add to the last element of an expected output, by method, test set and
            output.
    """
    import torch
    from executorch.exir import to_edge_transform_and_lower

    torch.manual_seed(0)
    first, second = torch.nn.Linear(4, 8).eval(), torch.nn.Linear(8, 3).eval()

    class Encode(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = first

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            encoded = torch.relu(self.first(x))
            return encoded, encoded.sum()

    class Forward(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = first, second

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(torch.relu(self.first(x)))

    modules = {"forward": Forward().eval(), "encode": Encode().eval()}
    example = (torch.randn(2, 4),)
    exported = {name: torch.export.export(module, example) for name, module in modules.items()}
    program = to_edge_transform_and_lower(exported).to_executorch()
    suites: dict[str, list[tuple[list[Any], list[Any]]]] = {}
    for name, count in (("forward", 3), ("encode", 2)):
        for index in range(count):
            x = torch.randn(2, 4)
            found = modules[name](x)
            outputs = [
                tensor.detach().clone()
                for tensor in (found if isinstance(found, tuple) else (found,))
            ]
            for number, output in enumerate(outputs):
                output.view(-1)[-1] += (wrong or {}).get((name, index, number), 0.0)
            suites.setdefault(name, []).append(([x], outputs))
    return bundle(program, suites)


def bundle(program: Any, suites: Mapping[str, Sequence[tuple[Any, Any]]]) -> bytes:
    """Bundle a program with inputs and expected outputs by method, as ExecuTorch does.

    With the path of a ``.pte`` file instead of a program, ExecuTorch does not check that both fit.
    """
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import (
        serialize_from_bundled_program_to_flatbuffer,
    )

    return bytes(
        serialize_from_bundled_program_to_flatbuffer(
            BundledProgram(
                None if isinstance(program, Path) else program,
                [
                    MethodTestSuite(
                        name,
                        [
                            MethodTestCase(inputs=inputs, expected_outputs=outputs)
                            for inputs, outputs in cases
                        ],
                    )
                    for name, cases in suites.items()
                ],
                str(program) if isinstance(program, Path) else None,
            )
        )
    )


if __name__ == "__main__":
    FIXTURE.write_bytes(two_methods())
