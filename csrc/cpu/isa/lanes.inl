// Sums of rows have a fixed number of lanes that are added in a fixed order, so that every instruction set gives the
// same bits.

namespace {

template <class Accumulate>
constexpr int64_t kLanes = 128 / sizeof(Accumulate);

template <class Accumulate>
inline Accumulate sum_of_lanes(Accumulate* lanes) {
  for (int64_t half = kLanes<Accumulate> / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

// The largest of whole lanes. NaN is passed over: it comes back with the sum of exponentials.
template <class Accumulate>
inline Accumulate largest_of_lanes(const Accumulate* values, int64_t whole) {
  constexpr int64_t lanes = kLanes<Accumulate>;
  Accumulate largest[lanes];
  for (int64_t lane = 0; lane < lanes; ++lane) largest[lane] = -static_cast<Accumulate>(__builtin_inff());
  for (int64_t start = 0; start < whole; start += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      largest[lane] = values[start + lane] > largest[lane] ? values[start + lane] : largest[lane];
    }
  }
  for (int64_t half = lanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) {
      largest[lane] = largest[lane + half] > largest[lane] ? largest[lane + half] : largest[lane];
    }
  }
  return largest[0];
}

}  // namespace
