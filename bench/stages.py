"""Where the time of `train` and of decoding goes, by a sampling profiler, and what it can be compared with.

    GPUIMG_NUM_THREADS=1 python -m bench.stages [--seconds 12] [--out bench/results/stages.json]

perf interrupts a process that runs a work on one thread 4,000 times a second of its CPU time, and notes the function:
the loops are compiled with symbols for this. Functions are added up to stages. Cycles are nanoseconds times the clock,
which a chain of multiplications and additions, of four cycles, measures in the same process; pixels are those of the
files, which are the baseline JPEGs of a set.

To compare, on the same machine: the chain of a look-up in a Huffman table (shift, load, shift, add), with one for each
symbol of the files, of which gpuimg's tables often give two at once; and writing results to memory.
"""

import io
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from typing import Any

import numba
import numpy as np
from PIL import Image

from bench import common, photos

_SETS = ("S", "S-4.8")
_WORKS = ("decode", "train")
_PER_SECOND = 4000

#: By the names of functions, the first that fits.
STAGES = {
    "entropy decoding": r"jpeg::(huffman|refine|progressive|tables|decode)\b",
    "inverse DCT": r"jpeg::rows::(_make_blocks|_two_halves|_blocks|transform|clear)",
    "upsampling, color": r"jpeg::rows",
    "resampling": r"cpu::sample|cpu::weights",
    "operations, stores": r"cpu::(program|store|bytes_store)",
}
_OTHER, _REST, _KERNEL = "other loops", "Python, NumPy, libraries", "kernel"


# -- the process that is watched ---------------------------------------------------------------------------------------


@numba.njit("uint64(uint64, int64)")
def _multiply(x, n):  # type: ignore[no-untyped-def]
    for _ in range(n):
        x = x * x + np.uint64(1)  # three cycles and one
    return x


@numba.njit("uint64(uint16[::1], int64)")
def _look_up(table, n):  # type: ignore[no-untyped-def]
    bits, total = np.uint64(0x9E3779B97F4A7C15), np.uint64(0)
    for _ in range(n):
        size = np.uint64(table[bits >> np.uint64(54)])
        bits = bits << size | bits >> np.uint64(64) - size
        total += size
    return total


def _seconds(call: Any, *arguments: Any) -> float:
    def once() -> float:
        start = time.perf_counter()
        call(*arguments)
        return time.perf_counter() - start

    return min(once() for _ in range(7))


def _work(name: str, work: str, seconds: float) -> None:
    """Run a work for a time; say when it begins, and how many images and CPU seconds it took."""
    from bench.peers.ours import Calls

    files, _ = baseline(name)
    epoch = Calls(1, common.BATCH).start(work, files)
    common.drain(epoch())
    print("begun", flush=True)
    start, cpu, images = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - start < seconds:
        common.drain(epoch())
        images += len(files)
    nanoseconds = 1e9 * (time.process_time() - cpu) / images
    table = np.random.default_rng(0).integers(3, 9, 1 << 10).astype(np.uint16)
    count = 1 << 20
    gigahertz = 4 * count / _seconds(_multiply, np.uint64(3), count) / 1e9
    memory = np.empty(1 << 26, np.uint8)
    print(json.dumps({
        "nanoseconds": nanoseconds, "gigahertz": gigahertz,
        "look_up_cycles": 1e9 * gigahertz * _seconds(_look_up, table, count) / count,
        "write_bytes_per_cycle": memory.size / (1e9 * gigahertz * _seconds(memory.fill, 1)),
    }), flush=True)  # fmt: skip


# -- the watching process ----------------------------------------------------------------------------------------------


def stage_of(function: str, library: str) -> str:
    if library.startswith("[kernel"):
        return _KERNEL
    if "gpuimg" not in library:
        return _REST
    return next((stage for stage, pattern in STAGES.items() if re.search(pattern, function)), _OTHER)


def watched(name: str, work: str, seconds: float) -> dict[str, Any]:
    """Return nanoseconds of an image by stage, and the machine's rates."""
    command = [sys.executable, "-W", "ignore", "-m", "bench.stages", "--work", name, work, str(seconds + 2)]
    with tempfile.NamedTemporaryFile() as samples, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as own:
        assert own.stdout is not None
        own.stdout.readline()
        record = ["perf", "record", "-q", "-e", "task-clock", "-F", str(_PER_SECOND), "-p", str(own.pid)]
        subprocess.run([*record, "-o", samples.name, "--", "sleep", str(seconds)], check=True)
        found: dict[str, Any] = json.loads(own.stdout.readline())
        listed = ["perf", "script", "-i", samples.name, "-F", "ip,sym,dso"]
        lines = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.splitlines()
    parts = [re.fullmatch(r"\s*[0-9a-f]+ (.*) \((.*)\)", line) for line in lines if line.strip()]
    counts = Counter(stage_of(part[1], part[2]) for part in parts if part)
    total, nanoseconds = sum(counts.values()), found.pop("nanoseconds")
    stages = {stage: nanoseconds * counts[stage] / total for stage in (*STAGES, _OTHER, _REST, _KERNEL)}
    return {"nanoseconds": stages, "samples": total, **found}


# -- symbols of the files ----------------------------------------------------------------------------------------------


def _segments(data: bytes) -> dict[int, list[bytes]]:
    """Return the segments of a JPEG by their markers; that of 0xDA is the scan, without stuffed bytes."""
    found: dict[int, list[bytes]] = {}
    at = 2
    while data[at + 1] != 0xDA:
        size = int.from_bytes(data[at + 2 : at + 4], "big")
        found.setdefault(data[at + 1], []).append(data[at + 4 : at + 2 + size])
        at += 2 + size
    start = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    found[0xDA] = [data[start:].replace(b"\xff\x00", b"\xff") + bytes(16)]
    return found


def _tables(segments: list[bytes]) -> Any:
    """Return the tables (2 kinds, 2 numbers, 65536) of code lengths times 256 plus symbols, by the next 16 bits."""
    tables = np.zeros((2, 2, 1 << 16), np.int64)
    for segment in segments:
        at = 0
        while at < len(segment):
            kind, number = segment[at] >> 4, segment[at] & 15
            counts, code, place = segment[at + 1 : at + 17], 0, at + 17
            for length, count in enumerate(counts, 1):
                for _ in range(count):
                    span = 1 << 16 - length
                    tables[kind, number, code : code + span] = length << 8 | segment[place]
                    code, place = code + span, place + 1
            at = place
    return tables


@numba.njit
def _symbols(scan, tables, mcus, luma):  # type: ignore[no-untyped-def]
    """Count the symbols of MCUs of ``luma`` blocks of the first table and two of the second one."""
    bit, count = 0, 0
    for _ in range(mcus):
        for block in range(luma + 2):
            k = 0
            while k < 64:
                word = 0
                for n in range(4):
                    word = word << 8 | scan[min((bit >> 3) + n, scan.size - 1)]
                entry = tables[min(k, 1), int(block >= luma), word >> 16 - (bit & 7) & 0xFFFF]
                symbol, count = entry & 255, count + 1
                bit += (entry >> 8) + (symbol & 15)
                if k and symbol & 15 == 0 and symbol != 0xF0:
                    break
                k += 1 + (symbol >> 4 if k else 0)
    return count


def symbols_of(data: bytes) -> tuple[int, int] | None:
    """Return the symbols and the pixels of a baseline JPEG of three components; None for other files."""
    found = _segments(data)
    if 0xC0 not in found or found[0xC0][0][5] != 3 or 0xDD in found:
        return None
    frame = found[0xC0][0]
    height, width = (int.from_bytes(frame[at : at + 2], "big") for at in (1, 3))
    across, down = frame[7] >> 4, frame[7] & 15
    mcus = -(-width // (8 * across)) * -(-height // (8 * down))
    scan = np.frombuffer(found[0xDA][0], np.uint8)
    return int(_symbols(scan, _tables(found[0xC4]), mcus, across * down)), height * width


def baseline(name: str) -> tuple[list[bytes], float]:
    """Return the baseline files of a set, and their symbols per pixel."""
    found = [(data, counted) for data in photos.load_set(name) if (counted := symbols_of(data))]
    symbols, pixels = (sum(counted[k] for _, counted in found) for k in (0, 1))
    return [data for data, _ in found], symbols / pixels


def measured(name: str, seconds: float) -> dict[str, Any]:
    files, symbols = baseline(name)
    area = np.mean([np.prod(Image.open(io.BytesIO(data)).size) for data in files])
    about = photos.summary_of_set(name, files)
    result: dict[str, Any] = {"photos": about, "symbols_per_pixel": symbols, "pixels": float(area), "works": {}}
    for work in _WORKS:
        result["works"][work] = watched(name, work, seconds)
        print(name, work, result["works"][work], flush=True)
    return result


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        _work(sys.argv[2], sys.argv[3], float(sys.argv[4]))
        return
    parser = common.arguments(__doc__, "stages.json", rounds=1)
    parser.add_argument("--seconds", type=float, default=12)
    options = parser.parse_args()
    found = {name: measured(name, options.seconds) for name in _SETS}
    common.write(common.environment({}, 1) | {"sets": found}, options.out)


if __name__ == "__main__":
    main()
