// csrc/cuda/divider.h over arrays, for test_divider.py.
#define __device__
#define __forceinline__ inline

#include "../../csrc/cuda/divider.h"

extern "C" __attribute__((visibility("default"))) void quotients(
    const int64_t* numbers, const int64_t* divisors, int64_t* results, int64_t count) {
  for (int64_t index = 0; index < count; ++index) {
    results[index] = burnlike::cuda::Divider(divisors[index]).quotient(numbers[index]);
  }
}
