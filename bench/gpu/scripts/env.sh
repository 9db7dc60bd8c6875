# Sourced by the other scripts: unpacks what lies beside them, without a network, and writes what is there to env.txt.
#
# WORK: where to unpack. OUT: results, at most 8 files. PYTHON: the interpreter. MINUTES, PARTS: as of `make gpu`.
# GPU: the program; tests.standin.program tries everything without a GPU.
set -u
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
WORK=${WORK:-/tmp/gpuimg}
OUT=${OUT:-$PWD/out}
PYTHON=${PYTHON:-python3}
GPU=${GPU:-bench.gpu}
rm -rf "$WORK/gpuimg" "$WORK/site"
mkdir -p "$WORK/site" "$WORK/cache" "$OUT"
OUT=$(cd "$OUT" && pwd)
for archive in "$HERE/gpuimg.tar.xz" "$HERE/photos.tar"; do tar xf "$archive" -C "$WORK"; done
tar xf "$HERE/site.tar.xz" -C "$WORK/site"
export PYTHONPATH="$WORK/site" PYTHONUNBUFFERED=1 NUMBA_CACHE_DIR=${NUMBA_CACHE_DIR:-$WORK/cache}
cd "$WORK/gpuimg" || exit 1

facts() {
    nvidia-smi
    nproc
    free -g | head -2
    ldconfig -p | grep -E 'nvcuvid|libnvjpeg|libcuda\.so'
    command -v nvcc ncu compute-sanitizer
    "$PYTHON" - <<'END'
import importlib
import sys

print(sys.version)
NAMES = "numpy gpuimg cupy PIL pytest hypothesis numba numba_cuda cuda.bindings nvidia.nvimgcodec av torch torchvision jax"
for name in NAMES.split():
    try:
        module = importlib.import_module(name)
        print(name, getattr(module, "__version__", "?"), getattr(module, "__file__", None))
    except BaseException as error:
        print(name, "BROKEN", type(error).__name__, str(error)[:300])
from gpuimg.kernels import native
from gpuimg.kernels.cuda import shipped

print("loops:", native.describe())
print("kernels:", shipped.description())
END
}
facts > "$OUT/env.txt" 2>&1
tail -20 "$OUT/env.txt"
# Without these nothing can be measured, and a machine is not held for it.
if [ "$GPU" = bench.gpu ] && grep -qE '^(numpy|gpuimg|cupy|pytest|hypothesis) BROKEN' "$OUT/env.txt"; then exit 1; fi

# measure DEFAULT_PARTS DEFAULT_MINUTES: the parts, interrupted shortly before a machine's own limit of ten minutes.
measure() {
    timeout -s TERM 550 "$PYTHON" -m "$GPU" --out "$OUT" --minutes "${MINUTES:-$2}" --parts "${PARTS:-$1}"
    head -c 9000 "$OUT/summary.md"
}
