// Sliding windows over one to three spatial dimensions: the geometry that
// convolutions, pools and im2col share.
#ifndef OPTOOL_HOST_WINDOW_H_
#define OPTOOL_HOST_WINDOW_H_

#include "host.h"

namespace host {

// Space is a size per spatial dimension, depth, height, width; those an operator
// lacks are filled in front.
struct Space {
  int64_t v[3];
  int64_t operator[](int i) const { return v[i]; }
  int64_t volume() const { return v[0] * v[1] * v[2]; }
};

// space reads `rank` values; a single one stands for all, none for the default.
Space space(diopiSize_t values, int rank, int64_t fill);

// trailing takes the last `rank` sizes of a shape.
Space trailing(const Dims& shape, int rank);

struct Window {
  Space kernel, stride, padding, dilation;
};

// Planes is a tensor [N, C, spatial...] or [C, spatial...].
struct Planes {
  int64_t batch, channels;
  Space size;
  Planes(const Dims& shape, int rank);
};

// unfoldColumns writes the windows of outputs [from, to) of `channels` images of
// `in`, read from x, to columns: row = (channel, kernel position), column = output.
template <class C>
void unfoldColumns(const C* x, int64_t channels, const Space& in, const Space& out, const Window& w, int64_t from, int64_t to,
                   C* columns);

// foldColumns adds columns to the images they came from.
template <class C>
void foldColumns(C* x, int64_t channels, const Space& in, const Space& out, const Window& w, int64_t from, int64_t to,
                 const C* columns);

}  // namespace host

#endif  // OPTOOL_HOST_WINDOW_H_
