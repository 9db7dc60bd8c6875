#!/usr/bin/env bash
# Check and measure the GPU of this machine in about a quarter of an hour: each script within its time limit, its results
# as lines of JSON in OUT/NAME.jsonl. A script that fails, hangs or crashes does not stop the others.
#
#     bash bench/gpu/run.sh [NAME ...]       by default all: probe warm tests agreement jpeg throughput video
#
# OUT: folder of the results. PYTHON: the interpreter. WHEELS: a folder of unpacked packages that it lacks.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
OUT=${OUT:-bench/results/gpu}
PYTHON=${PYTHON:-python3}
export PYTHONPATH="${WHEELS:+$WHEELS:}${PYTHONPATH:-}" PYTHONUNBUFFERED=1
mkdir -p "$OUT"

# measure NAME SECONDS: after SECONDS a script begins nothing new, and a minute later it is ended.
measure() {
    echo "$1: at most $(($2 + 60)) s"
    timeout -k 10 $(($2 + 60)) "$PYTHON" -X faulthandler -m "bench.gpu.$1" --seconds "$2" \
        > "$OUT/$1.jsonl" 2> "$OUT/$1.log" || echo "$1: exit status $?: $(tail -1 "$OUT/$1.log")"
    grep -h '"problem"' "$OUT/$1.jsonl"
}

for name in ${@:-probe warm tests agreement jpeg throughput video}; do
    case $name in
        probe)
            measure probe 60
            if ! grep -q '"what": "gpu"' "$OUT/probe.jsonl"; then exit 1; fi
            ;;
        warm) timeout 180 "$PYTHON" -m gpuimg warm --all > "$OUT/warm.log" 2>&1 || tail -1 "$OUT/warm.log" ;;
        tests)
            GPUIMG_REQUIRE_GPU=1 timeout -s INT -k 10 180 "$PYTHON" -m pytest -q -p no:cacheprovider \
                tests/cuda/test_gpu.py tests/cuda/test_gpu_loader.py > "$OUT/tests.log" 2>&1
            tail -5 "$OUT/tests.log"
            ;;
        agreement) measure agreement 60 ;;
        jpeg) measure jpeg 120 ;;
        throughput) measure throughput 240 ;;
        video) measure video 120 ;;
        *) echo "there is no $name" >&2 && exit 1 ;;
    esac
done
cat "$OUT"/*.jsonl | grep -c . | sed 's/$/ results/'
sed -n 's/.*"faster decoder", "answer": "\(.*\)"}/\1/p' "$OUT/jpeg.jsonl"
