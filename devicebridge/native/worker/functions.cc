#include "functions.h"

#include <type_traits>
#include <utility>

namespace optool {

namespace {

template <class T>
T take(const Slot& slot) {
  if constexpr (std::is_pointer_v<T>) {
    return static_cast<T>(slot.pointer);
  } else if constexpr (std::is_same_v<T, diopiSize_t>) {
    return slot.size;
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(slot.real);
  } else {
    return static_cast<T>(slot.integer);
  }
}

template <class... P, size_t... I>
diopiError_t apply(diopiError_t (*f)(P...), [[maybe_unused]] const Slot* args, std::index_sequence<I...>) {
  return f(take<P>(args[I])...);
}

template <class F>
struct Thunk;

template <class... P>
struct Thunk<diopiError_t(P...)> {
  static diopiError_t call(void* symbol, const Slot* args) {
    return apply(reinterpret_cast<diopiError_t (*)(P...)>(symbol), args, std::index_sequence_for<P...>{});
  }
};

}  // namespace

#define DIOPI_FUNCTION(name) {#name, &Thunk<decltype(name)>::call},
const Function functions[] = {
#include "functions.inc"
};
const size_t functionCount = sizeof functions / sizeof functions[0];

}  // namespace optool
