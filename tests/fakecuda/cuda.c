/* A fake libcudart, libcuda and libnvrtc: each function hands its name and arguments to one function of Python's.

FUNCTIONS, from build.py, is a list of F(name) of all that CuPy refers to. Those that return text are here. Words beyond a
function's own parameters hold anything. */
#include <stdint.h>

typedef uintptr_t W;
typedef int (*Call)(const char *name, const W *arguments);
static Call call;

void fake_install(Call given) { call = given; }

#define F(name) \
    int name(W a, W b, W c, W d, W e, W f, W g, W h, W i, W j, W k) { \
        const W arguments[] = {a, b, c, d, e, f, g, h, i, j, k}; \
        return call ? call(#name, arguments) : 0; /* what destructors call when Python ends */ \
    }
FUNCTIONS

static const char *name_of(int error) {
    switch (error) {
    case 0: return "success";
    case 2: return "out of memory";
    case 400: return "invalid resource handle";
    case 600: return "not ready";
    case 700: return "an illegal memory access was encountered";
    default: return "error of the fake";
    }
}

const char *cudaGetErrorName(int error) { return name_of(error); }
const char *cudaGetErrorString(int error) { return name_of(error); }
const char *nvrtcGetErrorString(int error) { return name_of(error); }
int cuGetErrorName(int error, const char **text) { *text = name_of(error); return 0; }
int cuGetErrorString(int error, const char **text) { *text = name_of(error); return 0; }
