// Rows of values that lie side by side, the rows at any one distance: halves of a matrix need no copy.
#pragma once

#include <cstdint>

namespace burnlike {

// Row r begins at data + r * stride.
template <class Element>
struct RowPlaces {
  Element* data;
  int64_t stride;
};

}  // namespace burnlike
