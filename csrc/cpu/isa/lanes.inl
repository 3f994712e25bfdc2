// Sums of rows have a fixed number of lanes that are added in a fixed order, so that every instruction set gives the
// same bits.

template <class Accumulate>
constexpr int64_t kLanes = 128 / sizeof(Accumulate);

template <class Accumulate>
inline Accumulate sum_of_lanes(Accumulate* lanes) {
  for (int64_t half = kLanes<Accumulate> / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}
