"""Reports in a browser: what is on the screen, where the focus is, what was asked of a network."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains

from harness import (
    ArmComparison,
    Attempt,
    CoreRecord,
    CurrentCurve,
    EnergyRecord,
    EvaluatedRun,
    HardwareCounter,
    InstructionRecord,
    Model,
    NightDocument,
    NightlyStep,
    OperatorEnergy,
    Owner,
    StepOutcome,
    Subject,
    Trace,
    Verdict,
    evaluate_path,
    operator_statistics,
    read_program,
    render_report,
    write_ed00,
)
from harness.cli import main
from harness.extensions.lab.nightly.verdict import counts_of
from tests.conftest import FIXTURES
from tests.support.compared import with_history
from tests.support.nights import causes_of
from tests.support.reported import FINISHED, failed_run, held, unmet
from tests.support.traces import EventSpec, RunSpec, trace_of

MODEL = FIXTURES.parents[1] / "firmware_stub/models/kws_f32.pte"

FOCUSABLE = "a[href], button, input, summary, [tabindex='0']"
"""What the Tab key stops at, if it can be seen."""

_PIXELS = """
const [data, points, done] = arguments;
const image = new Image();
image.onload = () => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const all = context.getImageData(0, 0, image.width, image.height).data;
  const place = ([x, y]) => 4 * (image.width * y + x);
  done(points.map((point) => [...all.slice(place(point), place(point) + 3)]));
};
image.src = "data:image/png;base64," + data;
"""


def network(repeats: int = 3) -> Trace:
    """Runs of a small network, whose operators take from 10 to 50 us, and what they allocate."""
    runs = []
    for repeat in range(repeats):
        events, now = [], 0
        for number in range(5):
            length = 10_000 * (number + 1) + 100 * repeat
            span = {"instruction": number, "start": now, "end": now + length}
            events.append(EventSpec(allocated=1024 * (number + 1)))
            events += [
                EventSpec(f"native_call_op{number}.out", **span),
                EventSpec("OPERATOR_CALL", **span),
            ]
            events.append(EventSpec(allocated=-512 * (number + 1)))
            now += length
        events.append(EventSpec("Method::execute", 0, now, chain=-1, instruction=-1))
        runs.append(RunSpec(events, allocators=("heap",)))
    return trace_of(*runs)


def counted() -> Subject:
    """A run with hardware counters, of operators that are bound by each of the three."""
    works, cycles = ((900, 300), (10, 9000), (8, 40)), (2400, 2600, 4000)
    events = [
        EventSpec(
            f"native_call_op{place}.out",
            1000 * place,
            1000 * place + 900,
            instruction=place,
            counts=(count, count * 3 // 4, count // (place + 3)),
        )
        for place, count in enumerate(cycles)
    ]
    whole = EventSpec("Method::execute", 0, 3000, chain=-1, counts=(9500, 7000, 2500))
    names = ("cycles", "instret", "load_stall")
    trace = trace_of(RunSpec([*events, whole]), counters=[HardwareCounter(n) for n in names])
    kernels = [
        InstructionRecord("kernel", "aten::op.out", macs=macs, bytes_read=size, bytes_written=4)
        for macs, size in works
    ]
    return Subject(trace, model="net.pte", chains=(tuple(kernels),), core=CoreRecord(1, 0.5, 4))


def energy() -> EnergyRecord:
    """What the operators of the network drew in one of two executions, and the current in it."""
    operators = tuple(
        OperatorEnergy(*item.signature, 2, 1, 1e-6 * (place + 1), 5e-8, 0.006, 0.009)
        for place, item in enumerate(operator_statistics(network()))
    )
    curve = CurrentCurve(3e-4, (0.004, 0.010, 0.005), (0.005, 0.0155, 0.006))
    known = ("PPK2", 1e5, 12_345, 70, 1, 64, 4, 4, 7_400)
    return EnergyRecord(*known, operators=operators, curve=curve)


def exported() -> EvaluatedRun:
    """A run of a model that ExecuTorch exported, as ExecuTorch's own runtime logged it."""
    data = MODEL.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    model = Model(str(MODEL), digest, len(data), 64_000, 0, (), ())
    method = read_program(data).method("forward")
    assert method is not None
    result = msgspec.structs.replace(FINISHED, model=model)
    found = evaluate_path(FIXTURES / "kws_f32_executorch.etdp")
    assert found.subject is not None
    steps = tuple(
        tuple(InstructionRecord("kernel", step.name) for step in chain) for chain in method.chains
    )
    subject = replace(found.subject, model=MODEL.name, chains=steps)
    return replace(found, subject=subject, result=result)


def uneven() -> Trace:
    """Executions of one operator, of which the fourth takes long."""
    spans = ((100, 140), (101, 141), (102, 142), (900, 940), (103, 143), (99, 139))
    return trace_of(
        *(
            RunSpec([EventSpec("native_call_relu.out", 0, n), EventSpec("Method::execute", 0, m)])
            for n, m in spans
        )
    )


def pages(directory: Path) -> dict[str, Path]:
    """Write reports: of a run of which everything is known, of one with hardware counters, of one
    with a meter, of an exported model, and of several runs.
    """
    checks = (held("B05"), unmet("B01", "native_call_op4.out"), unmet("H03"), unmet("H08"))
    wide = "a line of the console " * 20 + "\nend"
    full = replace(with_history(network()), verdict=Verdict(checks), console=wide)
    name = "another-board-with-a-rather-long-name"
    other = msgspec.structs.replace(FINISHED, id="other", board=name)
    passed = EvaluatedRun(
        "out/good", Subject(network(), model="net.pte"), Verdict((held(),)), other
    )
    counters = EvaluatedRun("out/counters", counted(), Verdict((held(),)), FINISHED)
    metered = msgspec.structs.replace(FINISHED, energy=energy())
    power = EvaluatedRun("out/energy", Subject(network()), Verdict((held(),)), metered)
    found = {
        "run": [full],
        "counters": [counters],
        "energy": [power],
        "exported": [exported()],
        "outlier": [EvaluatedRun("out", Subject(uneven()), Verdict((held(),)), FINISHED)],
        "night": [full, passed, failed_run("port gone")],
    }
    for name, runs in found.items():
        (directory / f"{name}.html").write_bytes(render_report("report.html", runs))
    (directory / "nightly.html").write_bytes(
        render_report("report.html", [full, passed], nightly())
    )
    compared(directory)
    return {name: directory / f"{name}.html" for name in (*found, "nightly", "compared")}


def compared(directory: Path) -> None:
    """Write a page about two networks, of whose operators one is slower, one new and one gone."""
    whole = EventSpec("Method::execute", 0, 90_000, chain=-1, instruction=-1)
    for name, length, third in (("before", 20_000, "old"), ("after", 30_000, "new")):
        spans = (("conv", 0, 10_000), ("relu", 10_000, 10_000 + length), (third, 50_000, 90_000))
        events = [
            EventSpec(f"native_call_{kind}.out", begin, end, instruction=number)
            for number, (kind, begin, end) in enumerate(spans)
        ]
        (directory / f"{name}.etdp").write_bytes(write_ed00(trace_of(RunSpec([*events, whole]))))
    files = [str(directory / name) for name in ("before.etdp", "after.etdp", "compared.html")]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main(["compare", *files[:2], "--report", files[2]])


def nightly() -> NightDocument:
    """A nightly run of three models on three boards, in which steps ended in all ways."""
    owners = {("net", "b-1"): Owner.PRODUCT, ("net", "b-2"): Owner.LINK, ("big", "b-2"): Owner.TEST}
    outcomes = []
    for model in ("net", "big", "small"):
        for board in ("native", "b-1", "b-2"):
            step, owner = (
                NightlyStep(f"{board}-1", board, model, "main", 1),
                owners.get((model, board)),
            )
            outcomes.append(_outcome(step, owner))
    night = NightDocument(
        name="lab",
        night="lab-20261122T000000",
        tool_version="1",
        directory="out",
        started_utc="2026-11-22T00:00:00+00:00",
        ended_utc="2026-11-22T01:00:00+00:00",
        exit_code=1,
        passed=False,
        headline="FAIL: net on b-1-1: it is slower (1 of 9 runs failed); and 3 more causes",
        steps=len(outcomes),
        attempts=len(outcomes),
        interrupted=0,
        counts=counts_of(outcomes),
        outcomes=tuple(outcomes),
        units=(),
        arms=(
            ArmComparison(
                board="native",
                model="net",
                before="last:20",
                after="main",
                passed=False,
                summary="2 operators are slower",
            ),
        ),
    )
    causes = [*causes_of(night)]
    return msgspec.convert({**msgspec.to_builtins(night), "causes": causes}, NightDocument)


def _outcome(step: NightlyStep, owner: Owner | None) -> StepOutcome:
    """A step of the night; the first one is the run that the page shows."""
    if step.model == "small" and step.board == "b-2":
        why = "held by jane"
        return StepOutcome(step=step, outcome="not run", owner=Owner.HOST, why=why, noted=True)
    failed = owner is not None
    attempt = Attempt(
        number=1,
        directory=f"runs/{step}-1",
        started_utc="2026-11-22T00:00:00+00:00",
        outcome="fail" if failed else "pass",
        owner=owner,
        result=FINISHED.id if (step.model, step.board) == ("net", "native") else "",
    )
    return StepOutcome(
        step=step,
        outcome="fail" if failed else "pass",
        owner=owner,
        why=f"a failure of the {owner}" if failed else "",
        attempts=(attempt,),
    )


@dataclass(frozen=True)
class Browser:
    """A browser and the pages that it may show."""

    chrome: webdriver.Chrome
    files: dict[str, Path]

    def reset(self) -> None:
        self._command("Emulation.setScriptExecutionDisabled", value=False)
        self.size(1200)
        self.chrome.get("about:blank")
        self.chrome.get_log("browser")
        self.chrome.get_log("performance")

    def open(self, name: str, *, theme: str = "light", media: str = "") -> None:
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self._command("Emulation.setEmulatedMedia", media=media, features=features)
        self.chrome.get(self.files[name].as_uri())

    def size(self, width: int, height: int = 900) -> None:
        self._command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def run(self, script: str, *arguments: Any) -> Any:
        return self.chrome.execute_script(script, *arguments)

    def those(self, selector: str, condition: str, value: str = "true") -> list[Any]:
        """A value of every element ``e`` that is selected and meets a condition, both scripts."""
        found: list[Any] = self.run(
            f"return [...document.querySelectorAll(arguments[0])]"
            f".filter((e) => {condition}).map((e) => {value})",
            selector,
        )
        return found

    def unfold(self) -> None:
        self.run("document.querySelectorAll('details').forEach((item) => item.open = true)")

    def press(self, *keys: str) -> None:
        ActionChains(self.chrome, duration=0).send_keys(*keys).perform()

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.chrome.get_log("browser")]

    def requests(self) -> list[str]:
        """What the page has asked for since it was opened, itself included."""
        messages = [json.loads(e["message"])["message"] for e in self.chrome.get_log("performance")]
        sent = [m for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [message["params"]["request"]["url"] for message in sent]

    def screenshot(self, name: str) -> None:
        """Save the window for people to look at, where ``ETHARNESS_SCREENSHOTS`` says."""
        data = base64.b64decode(self._command("Page.captureScreenshot", format="png")["data"])
        assert len(data) > 10_000
        if folder := os.environ.get("ETHARNESS_SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            Path(folder, f"{name}.png").write_bytes(data)

    def pixels(self, points: list[tuple[float, float]]) -> list[tuple[int, ...]]:
        """Colours of points of the whole page, as a screenshot shows them."""
        height = self.run("return document.documentElement.scrollHeight")
        width = self.run("return innerWidth")
        self.size(width, height)
        data = self._command("Page.captureScreenshot", format="png")["data"]
        assert len(base64.b64decode(data)) > 10_000
        whole = [[int(x), int(y)] for x, y in points]
        return [tuple(p) for p in self.chrome.execute_async_script(_PIXELS, data, whole)]

    def _command(self, name: str, **parameters: Any) -> Any:
        return self.chrome.execute_cdp_cmd(name, parameters)
