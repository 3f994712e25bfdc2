// The functions of csrc/include/burnlike/functions.h over arrays, for test_functions.py.
#include "burnlike/functions.h"
#include "burnlike/logarithm.h"

#define OVER_ARRAYS(name, function, type)                                                                         \
  extern "C" __attribute__((visibility("default"))) void name(const type* values, type* results, int64_t count) { \
    for (int64_t index = 0; index < count; ++index) results[index] = function(values[index]);                     \
  }

OVER_ARRAYS(exp_float32, burnlike::exponential, float)
OVER_ARRAYS(exp_float64, burnlike::exponential, double)
OVER_ARRAYS(sigmoid_float32, burnlike::sigmoid, float)
OVER_ARRAYS(sigmoid_float64, burnlike::sigmoid, double)
OVER_ARRAYS(tanh_float32, burnlike::hyperbolic_tangent, float)
OVER_ARRAYS(tanh_float64, burnlike::hyperbolic_tangent, double)
OVER_ARRAYS(log_float64, burnlike::logarithm, double)

template <class Value>
static inline __attribute__((always_inline)) Value normal_cdf(Value x) {
  return burnlike::normal(x).cdf;
}

template <class Value>
static inline __attribute__((always_inline)) Value normal_density(Value x) {
  return burnlike::normal(x).density;
}

OVER_ARRAYS(cdf_float32, normal_cdf, float)
OVER_ARRAYS(cdf_float64, normal_cdf, double)
OVER_ARRAYS(density_float32, normal_density, float)
OVER_ARRAYS(density_float64, normal_density, double)
OVER_ARRAYS(decay_float32, burnlike::decay, float)
OVER_ARRAYS(decay_float64, burnlike::decay, double)

static inline __attribute__((always_inline)) float decay_of_values(float x) {
  return burnlike::decay_of_values<burnlike::BFloat16>(x);
}

OVER_ARRAYS(decay_of_values_float32, decay_of_values, float)
