// The noise of dropout as torch draws it from its generator on CPUs, where it takes a number at a time: checks and the
// generator's state. The arithmetic is in isa/bernoulli_noise.inl.
#include <torch/csrc/stable/library.h>

#include <cmath>
#include <cstring>

#include "burnlike/calls.h"
#include "burnlike/tensors.h"
#include "isa/bernoulli_noise.h"

namespace burnlike::cpu {
namespace {

CallCounter calls{"bernoulli_noise_"};

// What `torch.Generator.get_state()` gives for a CPU, of which this is the first part (torch's CPUGeneratorImpl.cpp).
struct LegacyState {
  uint64_t seed;
  int32_t left;
  int32_t seeded;
  uint64_t next;
  uint64_t values[Twister::kSize];
};
constexpr int64_t kStateBytes = 5056;

int64_t bernoulli_noise_(Tensor noise, Tensor state, double probability, double scale) {
  calls.add();
  STD_TORCH_CHECK(noise.is_contiguous(), "bernoulli_noise_: expected contiguous noise");
  STD_TORCH_CHECK(0 <= probability && probability <= 1, "bernoulli_noise_: expected a probability from 0 to 1");
  int32_t dtype = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(state.get(), &dtype));
  STD_TORCH_CHECK(
      state.is_contiguous() && state.numel() == kStateBytes && dtype == aoti_torch_dtype_uint8(),
      "bernoulli_noise_: expected the 5056 bytes of a CPU generator's state");
  check_storage(state);
  LegacyState legacy;
  char* bytes = static_cast<char*>(state.mutable_data_ptr());
  std::memcpy(&legacy, bytes, sizeof(legacy));
  STD_TORCH_CHECK(
      legacy.left >= 1 && legacy.left <= Twister::kSize &&
          (legacy.left == 1 || legacy.next + static_cast<uint64_t>(legacy.left) == Twister::kSize + 1),
      "bernoulli_noise_: expected the state of a generator");
  Twister twister;
  for (int64_t place = 0; place < Twister::kSize; ++place) {
    twister.values[place] = static_cast<uint32_t>(legacy.values[place]);
  }
  twister.next = static_cast<int64_t>(legacy.next);
  twister.left = legacy.left;
  const auto threshold = static_cast<uint64_t>(std::ceil(std::ldexp(probability, 53)));
  with_element_type(element_kind(noise), [&](auto element) {
    using Element = decltype(element);
    const auto value = converted<Element>(scale);
    bernoulli_noise_kernels()(element).fill(twister, mutable_data_of<Element>(noise), noise.numel(), threshold, value);
  });
  for (int64_t place = 0; place < Twister::kSize; ++place) legacy.values[place] = twister.values[place];
  legacy.next = static_cast<uint64_t>(twister.next);
  legacy.left = static_cast<int32_t>(twister.left);
  std::memcpy(bytes, &legacy, sizeof(legacy));
  return noise.numel();
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("bernoulli_noise_(Tensor(a!) noise, Tensor(b!) state, float probability, float scale) -> int");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("bernoulli_noise_", TORCH_BOX(&burnlike::cpu::bernoulli_noise_));
}
