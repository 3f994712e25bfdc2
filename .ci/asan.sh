#!/usr/bin/env bash
# Runs the tests of the native ops under AddressSanitizer and UndefinedBehaviorSanitizer.
# The instrumented library lies in build/asan, and BURNLIKE_LIBRARY_DIR leads to it: the usual build is not touched.
# Arguments are handed to pytest; with `calls N` in their place N random calls with hostile arguments are made instead.
set -euo pipefail
cd "$(dirname "$0")/.."

python=.venv/bin/python
cxx=${CXX:-c++}
if ! command -v "$cxx" >/dev/null; then
    echo "asan: the C++ compiler '$cxx' was not found; install g++ or name one in CXX" >&2
    exit 1
fi

# The sanitizers' libraries come first in the process, as Python itself is not instrumented.
preload=
for name in libasan.so libubsan.so libstdc++.so; do
    path=$("$cxx" -print-file-name="$name")
    if [[ $path != /* ]]; then
        echo "asan: $cxx has no $name; install the sanitizers of your compiler (Debian: they come with g++)" >&2
        exit 1
    fi
    preload+="$(realpath "$path") "
done

BURNLIKE_SANITIZE=address,undefined BURNLIKE_CUDA=0 \
    "$python" setup.py -q build_ext --build-lib=build/asan --build-temp=build/asan/objects

# CPython and torch keep memory until the end on purpose, so leaks are not looked for. Compiled graphs call the same ops, and
# compilers don't run with these libraries preloaded: tests of them are left out.
export BURNLIKE_LIBRARY_DIR=$PWD/build/asan/burnlike
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
if [ "${1:-}" = calls ]; then
    LD_PRELOAD=$preload exec "$python" -W ignore -m tests.ops.hostile --calls "$2"
fi
# Nor do tests of the build and of the kernels of CUDA, which have no part in this library: where .cache has none, each
# process would build the emulated ones first, with the sanitizers in the compiler. A limit on memory, which the code
# survives, ends the sanitizer.
LD_PRELOAD=$preload exec "$python" -m pytest -q -s -p no:cacheprovider -k "not compile and not inductor and not emulated" tests/ops \
    --ignore=tests/ops/test_build.py --ignore=tests/ops/test_library.py --ignore=tests/ops/test_cuda_kernels.py \
    --deselect=tests/ops/test_convolution_3x3.py::test_memory_that_was_not_to_be_had_and_large_memory_is_not_kept "$@"
