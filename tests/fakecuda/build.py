"""CuPy's wheel on a fake CUDA: ``python tests/fakecuda/build.py`` makes it, in a folder of the environment.

CuPy's one module that is linked to CUDA's runtime is compiled again, from the source distribution, against the fake
library; all others load the driver and the compiler of kernels by name.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

CUPY = "14.2.0"
CYTHON = "3.2.1"
_HERE = Path(__file__).parent
_MODULE = Path("cupy_backends/cuda/api/runtime.pyx")
_BUILT_IN = {"cudaGetErrorName", "cudaGetErrorString", "cuGetErrorName", "cuGetErrorString", "nvrtcGetErrorString"}
_CYTHONIZE = """
import sys
import Cython
from Cython.Build import cythonize
constants = {"CUPY_USE_CUDA_PYTHON": False, "CUPY_CUFFT_STATIC": False, "CUPY_CYTHON_VERSION": Cython.__version__,
             "CUPY_CUDA_VERSION": 13000, "CUPY_HIP_VERSION": 0}
cythonize([sys.argv[1]], compiler_directives={"language_level": 3}, compile_time_env=constants, quiet=True)
"""
_PROFILER = """#pragma once
#include <cuda_runtime.h>
extern "C" cudaError_t cudaProfilerStart(void);
extern "C" cudaError_t cudaProfilerStop(void);
"""


def libraries(at: Path) -> list[Path]:
    """The two libraries with the functions of the fake, in a folder."""
    return [at / "libcuda.so.1", (at / "site" / _MODULE).with_name(f"runtime{sysconfig.get_config_var('EXT_SUFFIX')}")]


class UnavailableError(Exception):
    """It cannot be built here, and why."""


def folder() -> Path:
    """Where it is, by what it is made of."""
    parts = [CUPY, CYTHON, sys.implementation.cache_tag, (_HERE / "cuda.c").read_text(), Path(__file__).read_text()]
    return Path(sys.prefix) / f"fakecuda-{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}"


def built() -> Path:
    """Return the folder; build it first if it is not there."""
    final = folder()
    if final.exists():
        return final
    if shutil.which("g++") is None:
        raise UnavailableError("a fake CUDA takes a C++ compiler, and there is no g++")
    with open(f"{final}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker of the tests may be at it
        if not final.exists():
            with tempfile.TemporaryDirectory(dir=sys.prefix) as made:
                _build(Path(made))
                for old in Path(sys.prefix).glob("fakecuda-*[0-9a-f]"):
                    shutil.rmtree(old)
                os.rename(Path(made) / "fakecuda", final)
    return final


def _run(*command: object, cwd: Path | None = None) -> str:
    # Without a GPU CuPy's set-up describes the package only for the builders of its documentation.
    environment = os.environ | {"READTHEDOCS": "True", "PYTHONPATH": ""}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise UnavailableError(f"a fake CUDA cannot be built: {Path(str(command[0])).name} ... {done.stderr[-2000:]}")
    return done.stdout


def _build(at: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    site = at / "fakecuda" / "site"
    _run(*pip, "install", "--no-deps", "--only-binary", ":all:", "--target", site, f"cupy-cuda13x=={CUPY}")
    _run(*pip, "install", "--no-deps", "--only-binary", ":all:", "--target", at / "cython", f"cython=={CYTHON}")
    _run(*pip, "download", "--no-deps", "--no-binary", "cupy", "--dest", at, f"cupy=={CUPY}")
    _run("tar", "xzf", at / f"cupy-{CUPY}.tar.gz", "-C", at)
    source = at / f"cupy-{CUPY}"
    (source / "cuda_profiler_api.h").write_text(_PROFILER)
    cythonize = f"import sys; sys.path.insert(0, {str(at / 'cython')!r}); {_CYTHONIZE.strip()}"
    _run(sys.executable, "-c", cythonize, _MODULE, cwd=source)
    headers = [source, Path(sysconfig.get_path("purelib")) / "nvidia/cu13/include"]
    made = at / "runtime.o"
    _run(
        "g++", "-x", "c++", "-std=c++17", "-O1", "-w", "-fPIC", "-fpermissive", "-c",
        *(f"-I{header}" for header in [*headers, sysconfig.get_path("include")]),
        (source / _MODULE).with_suffix(".c"), "-o", made,
    )  # fmt: skip
    names = set(re.findall(r"U (cuda\w+)", _run("nm", "-u", made)))
    for text, prefix in (("api/_driver_extern.pxi", "cu"), ("libs/_cnvrtc.pxi", "nvrtc")):
        found = re.findall(r"_L\.get\('(\w+)'", (source / "cupy_backends/cuda" / text).read_text())
        names |= {prefix + name for name in found}
    names |= {
        "cuInit",
        "cuDeviceGet",
        "cuDeviceGetCount",
        "cuDeviceGetName",
        "cuDeviceGetAttribute",
        "cuDriverGetVersion",
        "cuThreadExchangeStreamCaptureMode",
    }
    functions = " ".join(f"F({name})" for name in sorted(names - _BUILT_IN))
    fake = at / "cuda.o"
    _run("gcc", "-c", "-fPIC", "-O1", "-Wall", "-Werror", f"-DFUNCTIONS={functions}", _HERE / "cuda.c", "-o", fake)
    _run("gcc", "-shared", fake, "-o", at / "fakecuda" / "libcuda.so.1", "-Wl,-soname,libcuda.so.1")
    target = libraries(at / "fakecuda")[1]
    if not target.exists():
        raise UnavailableError(f"CuPy's wheel has no {target.name}")
    # Symbolic: a real runtime that some other package has loaded must not come first.
    _run("g++", "-shared", "-Wl,-Bsymbolic", made, fake, "-o", target)


if __name__ == "__main__":
    try:
        print(built())
    except UnavailableError as reason:  # which tests say, too
        print(reason)
