// Conversion between any two dtypes.
//
// Floating point to integer truncates; what does not fit becomes the smallest
// 32- or 64-bit integer (as the processor's conversions give it) and wraps to
// narrower types. Everything else that is not zero, NaN included, is true.
#include <limits>

#include "loop.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace host {

namespace {

template <class I, class F>
inline I truncated(F x) {
  constexpr F limit = sizeof(I) == 4 ? F(2147483648.0) : F(9223372036854775808.0);
  return x >= -limit && x < limit ? static_cast<I>(x) : std::numeric_limits<I>::min();
}

template <class T>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<std::complex<T>> : std::true_type {};

template <class To, class From>
inline To cast(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (IsComplex<From>::value) {
    if constexpr (IsComplex<To>::value) {
      using P = typename To::value_type;
      return To(static_cast<P>(x.real()), static_cast<P>(x.imag()));
    } else if constexpr (std::is_same_v<To, bool>) {
      return x != From(0);
    } else {
      return cast<To>(x.real());
    }
  } else if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>) {
    return cast<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (IsComplex<To>::value) {
    return To(static_cast<typename To::value_type>(x), 0);
  } else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>) {
    return To(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Wide = std::conditional_t<(sizeof(To) < 4 || std::is_same_v<To, int32_t>), int32_t, int64_t>;
    return static_cast<To>(truncated<Wide>(x));
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From>
void convert(char* dst, int64_t dstStride, const char* src, int64_t srcStride, int64_t n) {
  if (srcStride == 0 && n > 1) {
    const To value = cast<To>(*reinterpret_cast<const From*>(src));
    if (dstStride == sizeof(To)) {
      std::fill_n(reinterpret_cast<To*>(dst), n, value);
    } else {
      for (int64_t i = 0; i < n; i++) *reinterpret_cast<To*>(dst + i * dstStride) = value;
    }
  } else if (dstStride == sizeof(To) && srcStride == sizeof(From)) {
    if constexpr (std::is_same_v<To, From>) {
      std::memmove(dst, src, n * sizeof(To));
    } else {
      To* d = reinterpret_cast<To*>(dst);
      const From* s = reinterpret_cast<const From*>(src);
      for (int64_t i = 0; i < n; i++) d[i] = cast<To>(s[i]);
    }
  } else {
    for (int64_t i = 0; i < n; i++) {
      *reinterpret_cast<To*>(dst + i * dstStride) = cast<To>(*reinterpret_cast<const From*>(src + i * srcStride));
    }
  }
}

#if defined(__x86_64__)
// Processors that convert float16 in hardware round it the same way.
__attribute__((target("avx,f16c"))) void halfToFloat(char* dst, int64_t dstStride, const char* src, int64_t srcStride,
                                                     int64_t n) {
  if (dstStride != 4 || srcStride != 2) return convert<float, Half>(dst, dstStride, src, srcStride, n);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + 2 * i));
    _mm256_storeu_ps(reinterpret_cast<float*>(dst) + i, _mm256_cvtph_ps(h));
  }
  convert<float, Half>(dst + 4 * i, 4, src + 2 * i, 2, n - i);
}

__attribute__((target("avx,f16c"))) void floatToHalf(char* dst, int64_t dstStride, const char* src, int64_t srcStride,
                                                     int64_t n) {
  if (dstStride != 2 || srcStride != 4) return convert<Half, float>(dst, dstStride, src, srcStride, n);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 f = _mm256_loadu_ps(reinterpret_cast<const float*>(src) + i);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + 2 * i), _mm256_cvtps_ph(f, _MM_FROUND_TO_NEAREST_INT));
  }
  convert<Half, float>(dst + 2 * i, 2, src + 4 * i, 4, n - i);
}

bool hardwareHalf() {
  static const bool has = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
  return has;
}
#endif

template <class To>
Converter to(Dtype from) {
  switch (from) {
    case diopi_dtype_int8: return convert<To, int8_t>;
    case diopi_dtype_uint8: return convert<To, uint8_t>;
    case diopi_dtype_int16: return convert<To, int16_t>;
    case diopi_dtype_uint16: return convert<To, uint16_t>;
    case diopi_dtype_int32: return convert<To, int32_t>;
    case diopi_dtype_uint32: return convert<To, uint32_t>;
    case diopi_dtype_int64: return convert<To, int64_t>;
    case diopi_dtype_uint64: return convert<To, uint64_t>;
    case diopi_dtype_float16: return convert<To, Half>;
    case diopi_dtype_bfloat16: return convert<To, BFloat16>;
    case diopi_dtype_tfloat32:
    case diopi_dtype_float32: return convert<To, float>;
    case diopi_dtype_float64: return convert<To, double>;
    case diopi_dtype_bool: return convert<To, bool>;
    case diopi_dtype_complex64: return convert<To, complex64>;
    case diopi_dtype_complex128: return convert<To, complex128>;
    default: unsupported(from);
  }
}

}  // namespace

Converter converter(Dtype target, Dtype from) {
#if defined(__x86_64__)
  if (hardwareHalf()) {
    if (target == diopi_dtype_float32 && from == diopi_dtype_float16) return halfToFloat;
    if (target == diopi_dtype_float16 && from == diopi_dtype_float32) return floatToHalf;
  }
#endif
  switch (target) {
    case diopi_dtype_int8: return to<int8_t>(from);
    case diopi_dtype_uint8: return to<uint8_t>(from);
    case diopi_dtype_int16: return to<int16_t>(from);
    case diopi_dtype_uint16: return to<uint16_t>(from);
    case diopi_dtype_int32: return to<int32_t>(from);
    case diopi_dtype_uint32: return to<uint32_t>(from);
    case diopi_dtype_int64: return to<int64_t>(from);
    case diopi_dtype_uint64: return to<uint64_t>(from);
    case diopi_dtype_float16: return to<Half>(from);
    case diopi_dtype_bfloat16: return to<BFloat16>(from);
    case diopi_dtype_tfloat32:
    case diopi_dtype_float32: return to<float>(from);
    case diopi_dtype_float64: return to<double>(from);
    case diopi_dtype_bool: return to<bool>(from);
    case diopi_dtype_complex64: return to<complex64>(from);
    case diopi_dtype_complex128: return to<complex128>(from);
    default: unsupported(target);
  }
}

}  // namespace host
