// Sums of squares in float64, in a fixed number of lanes that are added in a fixed order, so that every instruction set
// gives the same bits.

namespace {

template <class Element>
double sum_of_squares(const void* data, int64_t count) {
  constexpr int64_t lanes = 32;
  const Element* __restrict__ values = static_cast<const Element*>(data);
  double sums[lanes] = {};
  const int64_t whole = count - count % lanes;
  for (int64_t index = 0; index < whole; index += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const double value = load(values[index + lane]);
      sums[lane] += value * value;
    }
  }
  for (int64_t index = whole; index < count; ++index) {
    const double value = load(values[index]);
    sums[index - whole] += value * value;
  }
  for (int64_t half = lanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

}  // namespace

constinit const SumsOfSquares gradient_squares_kernels = BURNLIKE_PER_ELEMENT(sum_of_squares);
