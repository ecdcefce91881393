"""labgrid's client and coordinator in one program, whose state is a file: quick, for tests.

That it says what the real one says is shown by the same tests being run against both. It is started
as a script of its own, knows nothing of this package, and imports only the standard library.
"""

import fcntl
import json
import os
import pprint
import sys
import time
from pathlib import Path

PROG = "labgrid-client"


class RefusedError(Exception):
    pass


def main() -> int:
    state = Path(os.environ["FAKE_LABGRID"])
    with state.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        data = json.load(file)
        if data["hang_s"]:
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(data["hang_s"])
        if data["down"] or os.environ["LG_COORDINATOR"] != data["address"]:
            print("ERROR  root: coordinator is unavailable", file=sys.stderr)
            print("Server error: Error: Could not connect to coordinator", file=sys.stderr)
            return 1
        try:
            answer(data, sys.argv[1:])
        except RefusedError as error:
            print(f"{PROG}: Error: {error}", file=sys.stderr)
            return 1
        finally:
            file.seek(0)
            file.truncate()
            json.dump(data, file)
    return 0


def answer(data: dict, words: list[str]) -> None:
    me = f"{os.environ.get('LG_HOSTNAME', 'host')}/{os.environ.get('LG_USERNAME', 'user')}"
    if words == ["-v", "places"]:
        for name in sorted(data["places"]):
            show(name, data["places"][name])
        return
    option, name, command, *rest = words
    assert option == "-p"
    if name not in data["places"]:
        raise RefusedError(f"place pattern {name} matches nothing")
    place = data["places"][name]
    if command == "show":
        show(name, place)
        how = "Acquired" if place["acquired"] else "Matching"
        for item, resource in place["resources"].items():
            shown = {"acquired": name if place["acquired"] else None, **resource}
            print(f"{how} resource '{item}' (rack/{name}/{resource['cls']}/{item}):")
            print("\n".join(f"  {line}" for line in pprint.pformat(shown).splitlines()))
        return
    act(place, name, command, rest, me)
    place["changed"] = time.time()


def act(place: dict, name: str, command: str, rest: list[str], me: str) -> None:
    if command == "acquire":
        if place["acquired"]:
            raise RefusedError(f"Place {name} is already acquired by {place['acquired']}.")
        if not place["resources"]:
            raise RefusedError("Match rack/x/NetworkSerialPort has no matching remote resource")
        place["acquired"] = me
        if place.pop("fails_after", None):
            raise RefusedError("the connection was lost")
    elif command == "allow":
        if place["acquired"] != me:
            raise RefusedError(f"place {name} is not acquired by your user")
        place["allowed"].append(*rest)
    elif command == "release-from":
        if not place["acquired"]:
            raise RefusedError(f"place {name} is not acquired")
        if place["acquired"] == rest[0]:
            place.update(acquired=None, allowed=[])
    else:
        raise RefusedError(f"invalid choice: {command!r}")


def show(name: str, place: dict) -> None:
    """As ``labgrid.remote.common.Place.show`` prints it."""
    print(f"Place '{name}':")
    if place["comment"]:
        print(f"  comment: {place['comment']}")
    if place["tags"]:
        print(f"  tags: {', '.join(f'{k}={v}' for k, v in sorted(place['tags'].items()))}")
    print(f"  matches:\n    rack/{name}/NetworkSerialPort")
    print(f"  acquired: {place['acquired']}\n  acquired resources:")
    if place["acquired"]:
        for item, resource in place["resources"].items():
            print(f"    rack/{name}/{resource['cls']}/{item}")
    if place["allowed"]:
        print(f"  allowed: {', '.join(place['allowed'])}")
    print("  created: 2026-11-22 00:58:02.365007")
    print(f"  changed: {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(place['changed']))}")
    if place["reservation"]:
        print(f"  reservation: {place['reservation']}")


if __name__ == "__main__":
    sys.exit(main())
