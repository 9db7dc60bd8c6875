#!/usr/bin/env bash
# Check and measure the GPU of this machine in about a quarter of an hour: each script within its time limit, its results
# as lines of JSON in OUT/NAME.jsonl. A script that fails, hangs or crashes does not stop the others.
#
#     bash bench/gpu/run.sh [NAME ...]       by default all: probe warm tests throughput video
#
# OUT: folder of the results. PYTHON: the interpreter. WHEELS: a folder of unpacked packages that it lacks.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
OUT=${OUT:-bench/results/gpu}
PYTHON=${PYTHON:-python3}
NAMES=${*:-probe warm tests throughput video}
export PYTHONPATH="${WHEELS:+$WHEELS:}${PYTHONPATH:-}" PYTHONUNBUFFERED=1
mkdir -p "$OUT"

# Run a module, which imports the gpuimg that is installed, and that of this folder only where none is.
RUN=("$PYTHON" -P -X faulthandler -c 'if True:
    import runpy, sys
    sys.path.append(".")
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)')

needs="numpy PIL cupy"
case " $NAMES " in *" tests "*) needs+=" pytest hypothesis cv2 nvidia.nvimgcodec av" ;; esac
case " $NAMES " in *" throughput "*) needs+=" nvidia.nvimgcodec" ;; esac
case " $NAMES " in *" video "*) needs+=" av" ;; esac
# shellcheck disable=SC2086  # words
if ! "$PYTHON" - $needs << 'END'; then exit 1; fi
import importlib.util, sys

def is_missing(name):
    try:
        return importlib.util.find_spec(name) is None
    except ModuleNotFoundError:
        return True

missing = [name for name in sys.argv[1:] if is_missing(name)]
if missing:
    sys.exit(f"not installed: {', '.join(missing)}; docs/gpu.md, Measuring a GPU, has the command that installs them")
END

# measure NAME SECONDS: after SECONDS a script begins nothing new, and a minute later it is ended.
measure() {
    echo "$1: at most $(($2 + 60)) s"
    timeout -k 10 $(($2 + 60)) "${RUN[@]}" "bench.gpu.$1" --seconds "$2" \
        > "$OUT/$1.jsonl" 2> "$OUT/$1.log" || echo "$1: exit status $?: $(tail -1 "$OUT/$1.log")"
    grep -h '"problem"' "$OUT/$1.jsonl"
}

for name in $NAMES; do
    case $name in
        probe)
            measure probe 60
            if ! grep -q '"what": "gpu"' "$OUT/probe.jsonl"; then exit 1; fi
            ;;
        warm) timeout 180 "${RUN[@]}" gpuimg warm --all > "$OUT/warm.log" 2>&1 || tail -1 "$OUT/warm.log" ;;
        tests)
            GPUIMG_REQUIRE_GPU=1 timeout -s INT -k 10 300 "${RUN[@]}" pytest -q -p no:cacheprovider --import-mode=append \
                tests/cuda/test_gpu.py tests/cuda/test_gpu_loader.py > "$OUT/tests.log" 2>&1
            tail -5 "$OUT/tests.log"
            ;;
        throughput) measure throughput 360 ;;
        video) measure video 120 ;;
        *) echo "there is no $name" >&2 && exit 1 ;;
    esac
done
cat "$OUT"/*.jsonl | grep -c . | sed 's/$/ results/'
