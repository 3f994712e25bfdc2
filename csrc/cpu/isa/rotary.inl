// Rows of heads, turned by their positions' angles.

namespace {

// Pairs (x[i], x[i + half]); whole tables have a column for each of the two.
template <bool kWhole, class Element, class Table>
inline void rotary_halves(
    const Element* __restrict__ x, const Table* __restrict__ cosine, const Table* __restrict__ sine,
    Element* __restrict__ y, const RotaryRows& rows) {
  using Accumulate = accumulate_t<Element>;
  const int64_t half = rows.half;
  const Accumulate sign = rows.sign;
  const Accumulate minus_sign = rows.minus_sign;
  const Table* second_cosine = kWhole ? cosine + half : cosine;
  // The transpose of the turn takes them the other way round.
  const Table* first_sine = kWhole && rows.sign < 0 ? sine + half : sine;
  const Table* second_sine = kWhole && rows.sign > 0 ? sine + half : sine;
  for (int64_t index = 0; index < half; ++index) {
    const auto turned = rotary_turned<Accumulate>(
        load(x[index]), load(x[index + half]), load(cosine[index]), sign * Accumulate(load(second_sine[index])),
        minus_sign * Accumulate(load(first_sine[index])), load(second_cosine[index]));
    y[index] = store<Element>(turned.first);
    y[index + half] = store<Element>(turned.second);
  }
}

// Pairs (x[2i], x[2i + 1]).
template <class Element, class Table>
inline void rotary_neighbours(
    const Element* __restrict__ x, const Table* __restrict__ cosine, const Table* __restrict__ sine,
    Element* __restrict__ y, const RotaryRows& rows) {
  using Accumulate = accumulate_t<Element>;
  const int64_t half = rows.half;
  const Accumulate sign = rows.sign;
  const Accumulate minus_sign = rows.minus_sign;
  for (int64_t index = 0; index < half; ++index) {
    const Accumulate sine_here = load(sine[index]);
    const auto turned = rotary_turned<Accumulate>(
        load(x[2 * index]), load(x[2 * index + 1]), load(cosine[index]), sign * sine_here, minus_sign * sine_here,
        load(cosine[index]));
    y[2 * index] = store<Element>(turned.first);
    y[2 * index + 1] = store<Element>(turned.second);
  }
}

template <class Element, class Table>
void rotary_rows(
    const RotaryRows& rows, const Element* x, const Table* cosine, const Table* sine, Element* y, int64_t begin,
    int64_t end) {
  int64_t inner = begin % rows.inner_size;
  int64_t outer = begin / rows.inner_size % rows.outer_size;
  int64_t batch = begin / rows.inner_size / rows.outer_size;
  for (int64_t row = begin; row < end; ++row) {
    const Element* x_row = x + rows.x.at(batch, outer, inner);
    Element* y_row = y + rows.y.at(batch, outer, inner);
    const Table* cosine_row = cosine + rows.cosine.at(batch, outer, inner);
    const Table* sine_row = sine + rows.sine.at(batch, outer, inner);
    if (rows.interleaved) {
      rotary_neighbours(x_row, cosine_row, sine_row, y_row, rows);
    } else if (rows.whole) {
      rotary_halves<true>(x_row, cosine_row, sine_row, y_row, rows);
    } else {
      rotary_halves<false>(x_row, cosine_row, sine_row, y_row, rows);
    }
    for (int64_t index = 2 * rows.half; index < rows.width; ++index) y_row[index] = x_row[index];
    if (++inner < rows.inner_size) continue;
    inner = 0;
    if (++outer < rows.outer_size) continue;
    outer = 0;
    ++batch;
  }
}

template <class Element>
constexpr RotaryKernels<Element> rotary_functions = {rotary_rows<Element, Element>, rotary_rows<Element, float>};

}  // namespace

constinit const PerElement<RotaryKernels> rotary_kernels = BURNLIKE_PER_ELEMENT(rotary_functions);
