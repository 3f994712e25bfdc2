// Values of a file read and converted in one call: pieces stay in a core's cache between the two. The arithmetic is
// that of convert_, in isa/convert.inl.
#include <torch/csrc/stable/library.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <vector>

#include "burnlike/calls.h"
#include "burnlike/tensors.h"
#include "isa/convert.h"

namespace burnlike::cpu {
namespace {

CallCounter calls{"read_values_"};

constexpr int64_t kPieceBytes = 256 << 10;

// Reads `count` bytes; how many there were, or the negative error.
int64_t read_all(int descriptor, char* into, int64_t count, int64_t offset) {
  int64_t done = 0;
  while (done < count) {
    const ssize_t got = pread(descriptor, into + done, static_cast<size_t>(count - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -errno;
    if (got == 0) break;
    done += got;
  }
  return done;
}

int64_t read_values_(Tensor target, int64_t descriptor, int64_t offset, int64_t source) {
  calls.add();
  const ElementKind kind = element_kind(target);
  STD_TORCH_CHECK(target.is_contiguous(), "read_values_: the target is not contiguous");
  STD_TORCH_CHECK(0 <= source && source < 4, "read_values_: expected a kind of element from 0 to 3");
  STD_TORCH_CHECK(0 <= descriptor && descriptor <= INT_MAX, "read_values_: expected the descriptor of a file");
  const int file = static_cast<int>(descriptor);
  check_storage(target);
  char* into = static_cast<char*>(target.mutable_data_ptr());
  STD_TORCH_CHECK(is_aligned(into, element_size(kind)), "read_values_: the target is not aligned");
  const int64_t count = target.numel();
  const int64_t width = element_size(static_cast<ElementKind>(source));
  STD_TORCH_CHECK(
      0 <= offset && offset <= INT64_MAX - count * width, "read_values_: the offset is negative or too large");
  if (source == static_cast<int64_t>(kind)) return read_all(file, into, count * width, offset);

  const auto convert = convert_kernels()[static_cast<size_t>(kind)].from[source];
  const int64_t piece = kPieceBytes / width;
  std::vector<char> buffer(static_cast<size_t>(std::min(count, piece) * width));
  for (int64_t begin = 0; begin < count; begin += piece) {
    const int64_t values = std::min(piece, count - begin);
    const int64_t got = read_all(file, buffer.data(), values * width, offset + begin * width);
    if (got != values * width) return got < 0 ? got : begin * width + got;
    convert(buffer.data(), into + begin * element_size(kind), 0, values);
  }
  return count * width;
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("read_values_(Tensor(a!) target, int descriptor, int offset, int source) -> int");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("read_values_", TORCH_BOX(&burnlike::cpu::read_values_));
}
