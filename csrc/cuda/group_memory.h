// Eight values of a tensor, which a thread reads and writes together, as they lie in memory. A warp has 256 consecutive
// values: those that share a scale in 8 bits.
//
// A thread's values lie in pieces of consecutive ones. In a piece there are as many as 16 bytes hold of the widest type
// that a kernel takes, so that the threads of a warp, piece by piece, read memory from end to end.
//
// Where a storage is known at run time only, it is the same for a whole chunk: a branch costs little, where a kernel
// for each combination of storages would not be compiled in reasonable time. Reading is apart from converting
// (group_values.h), so that everything that a thread needs is on its way before the first value is waited for.
#pragma once

#include <cstdint>

#include "burnlike/step_lists.h"
#include "launch.h"

namespace burnlike::cuda {

inline constexpr int kGroupValues = 8;
static_assert(kWarp * kGroupValues == kBlock);

// Which values a thread has.
template <int kPieceValues>
struct Group {
  static constexpr int kPiece = kPieceValues;
  static constexpr int kPieces = kGroupValues / kPiece;

  int64_t first;   // in the tensor
  int left;        // values that the tensor has from there on, at most kBlock; none if it is not positive
  bool is_vector;  // whether it has all of the thread's, in memory that is aligned to pieces

  // The place of a value of the thread, counted from its first.
  __device__ __forceinline__ static constexpr int offset(int value) {
    return value / kPiece * kWarp * kPiece + value % kPiece;
  }
  __device__ __forceinline__ bool has(int value) const { return offset(value) < left; }
};

// The first value is in the lowest bits.
template <class Accumulate>
struct GroupBits {
  uint32_t words[kGroupValues * sizeof(Accumulate) / sizeof(uint32_t)];
};

__device__ __forceinline__ int element_bytes(Storage storage) {
  if (storage == Storage::kFloat32) return 4;
  if (storage == Storage::kFloat64) return 8;
  return storage == Storage::kBFloat16 || storage == Storage::kFloat16 ? 2 : 1;
}

namespace detail {

// At most 16 bytes are read at a time.
template <int kBytes>
struct alignas(kBytes < 16 ? kBytes : 16) PieceVector {
  static constexpr int kWords = kBytes / 4;
  uint32_t words[kWords];
};

// A word, or the part of one that an element of fewer bytes is.
template <int kBytes>
struct Part;
template <>
struct Part<4> {
  using type = uint32_t;
};
template <>
struct Part<2> {
  using type = uint16_t;
};
template <>
struct Part<1> {
  using type = uint8_t;
};

// How a group's elements of a size are cut into parts.
template <int kBytes>
struct Parts {
  static constexpr int kPartBytes = kBytes < 4 ? kBytes : 4;
  static constexpr int kOfWord = 4 / kPartBytes;
  static constexpr int kOfElement = kBytes / kPartBytes;
  static constexpr int kCount = kGroupValues * kOfElement;
  using Type = typename Part<kPartBytes>::type;

  // Where a part is, counted from the first of the thread's.
  template <class Place>
  __device__ __forceinline__ static constexpr int offset(int part) {
    return Place::offset(part / kOfElement) * kOfElement + part % kOfElement;
  }
  __device__ __forceinline__ static constexpr int shift(int part) { return part % kOfWord * kPartBytes * 8; }
};

template <int kBytes, class Place, class Accumulate>
__device__ __forceinline__ void read_elements(const char* data, const Place& group, GroupBits<Accumulate>& bits) {
  data += group.first * kBytes;
  if (group.is_vector) {
    using Vector = PieceVector<kBytes * Place::kPiece>;
#pragma unroll
    for (int piece = 0; piece < Place::kPieces; ++piece) {
      const char* place = data + Place::offset(piece * Place::kPiece) * kBytes;
      const Vector vector = *reinterpret_cast<const Vector*>(place);
#pragma unroll
      for (int word = 0; word < Vector::kWords; ++word) bits.words[piece * Vector::kWords + word] = vector.words[word];
    }
    return;
  }
  using Cut = Parts<kBytes>;
  const auto* parts = reinterpret_cast<const typename Cut::Type*>(data);
#pragma unroll
  for (int part = 0; part < Cut::kCount; ++part) {
    const int word = part / Cut::kOfWord;
    const uint32_t before = part % Cut::kOfWord == 0 ? 0 : bits.words[word];
    const bool has = group.has(part / Cut::kOfElement);
    const uint32_t read = has ? static_cast<uint32_t>(parts[Cut::template offset<Place>(part)]) : 0;
    bits.words[word] = before | read << Cut::shift(part);
  }
}

template <int kBytes, class Place, class Accumulate>
__device__ __forceinline__ void write_elements(char* data, const Place& group, const GroupBits<Accumulate>& bits) {
  data += group.first * kBytes;
  if (group.is_vector) {
    using Vector = PieceVector<kBytes * Place::kPiece>;
#pragma unroll
    for (int piece = 0; piece < Place::kPieces; ++piece) {
      Vector vector;
#pragma unroll
      for (int word = 0; word < Vector::kWords; ++word) vector.words[word] = bits.words[piece * Vector::kWords + word];
      *reinterpret_cast<Vector*>(data + Place::offset(piece * Place::kPiece) * kBytes) = vector;
    }
    return;
  }
  using Cut = Parts<kBytes>;
  auto* parts = reinterpret_cast<typename Cut::Type*>(data);
#pragma unroll
  for (int part = 0; part < Cut::kCount; ++part) {
    if (!group.has(part / Cut::kOfElement)) continue;
    const uint32_t word = bits.words[part / Cut::kOfWord];
    parts[Cut::template offset<Place>(part)] = static_cast<typename Cut::Type>(word >> Cut::shift(part));
  }
}

}  // namespace detail

// Values that the tensor does not have are zero.
template <class Place, class Accumulate>
__device__ __forceinline__ void read_group(
    const char* data, Storage storage, const Place& group, GroupBits<Accumulate>& bits) {
  const int bytes = element_bytes(storage);
  if constexpr (sizeof(Accumulate) == 8) {
    if (bytes == 8) return detail::read_elements<8>(data, group, bits);
  }
  if (bytes == 4) return detail::read_elements<4>(data, group, bits);
  if (bytes == 2) return detail::read_elements<2>(data, group, bits);
  // Codes are in kernels only that read pieces of a word.
  if constexpr (Place::kPiece == 4) detail::read_elements<1>(data, group, bits);
}

template <class Place, class Accumulate>
__device__ __forceinline__ void write_group(
    char* data, Storage storage, const Place& group, const GroupBits<Accumulate>& bits) {
  const int bytes = element_bytes(storage);
  if constexpr (sizeof(Accumulate) == 8) {
    if (bytes == 8) return detail::write_elements<8>(data, group, bits);
  }
  if (bytes == 4) return detail::write_elements<4>(data, group, bits);
  if (bytes == 2) return detail::write_elements<2>(data, group, bits);
  if constexpr (Place::kPiece == 4) detail::write_elements<1>(data, group, bits);
}

}  // namespace burnlike::cuda
