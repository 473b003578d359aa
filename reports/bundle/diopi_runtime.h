// What a DIOPI library expects of the program that loads it: tensors, and the memory and
// stream of the device where the library brings device_malloc and the like. Included
// once, by repeat.c. Compile it with -rdynamic: the library finds these functions in the
// program.
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diopi.h"

#define MAX_DIMS 64

struct diopiTensor {
  const char* role;
  void* data;
  diopiDtype_t dtype;
  diopiDevice_t device;
  int64_t dims, numel, nbytes, shape[MAX_DIMS], stride[MAX_DIMS];
};
struct diopiContext {
  diopiStreamHandle_t stream;
  int has_stream;
};

static struct {
  void* library;
  void* (*device_malloc)(uint64_t);
  diopiError_t (*h2d)(diopiStreamHandle_t, void*, const void*, uint64_t);
  diopiError_t (*d2h)(diopiStreamHandle_t, void*, const void*, uint64_t);
  diopiError_t (*make_stream)(diopiStreamHandle_t*);
  diopiError_t (*synchronize)(diopiStreamHandle_t);
  diopiError_t (*init)(void);
  const char* (*last_error)(void);
  struct diopiContext context;
} vendor;

static void fail(const char* what, const char* why) {
  fprintf(stderr, "repeat: %s: %s\n", what, why ? why : "unknown");
  exit(3);
}

// The exit code if the library lacks a function: 1 if a result before it is wrong.
static int lacks(const char* function, int ok) {
  fprintf(stderr, "repeat: %s: the library does not have it\n", function);
  return ok ? 3 : 1;
}

static void* find(const char* name) { return dlsym(vendor.library, name); }

static void open_library(const char* path) {
  vendor.library = dlopen(path, RTLD_NOW);
  if (!vendor.library) fail(path, dlerror());
  *(void**)&vendor.device_malloc = find("device_malloc");
  *(void**)&vendor.h2d = find("device_memcpy_h2d_async");
  *(void**)&vendor.d2h = find("device_memcpy_d2h_async");
  *(void**)&vendor.make_stream = find("device_make_stream");
  *(void**)&vendor.synchronize = find("device_synchronize_stream");
  *(void**)&vendor.init = find("initLibrary");
  *(void**)&vendor.last_error = find("diopiGetLastErrorString");
  if (vendor.device_malloc && (!vendor.h2d || !vendor.d2h)) fail(path, "it has device_malloc but cannot copy");
  if (vendor.init) vendor.init();
}

static int64_t item_size(diopiDtype_t t) {
  switch (t) {
    case diopi_dtype_int8: case diopi_dtype_uint8: case diopi_dtype_bool: return 1;
    case diopi_dtype_int16: case diopi_dtype_uint16: case diopi_dtype_float16: case diopi_dtype_bfloat16: return 2;
    case diopi_dtype_int64: case diopi_dtype_uint64: case diopi_dtype_float64: case diopi_dtype_complex64: return 8;
    case diopi_dtype_complex128: return 16;
    default: return 4;
  }
}

static diopiTensorHandle_t new_tensor(const char* role, diopiDtype_t dtype, int64_t dims, const int64_t* shape,
                                      const int64_t* stride, diopiDevice_t device) {
  diopiTensorHandle_t t = calloc(1, sizeof *t);
  int64_t product = 1, last = 1;
  if (!t || dims > MAX_DIMS) fail(role, "too many dimensions, or no memory");
  t->role = role, t->dtype = dtype, t->dims = dims, t->device = device;
  for (int64_t i = dims; i-- > 0;) {
    t->shape[i] = shape[i];
    t->stride[i] = stride ? stride[i] : product;
    product *= shape[i];
    last += (shape[i] - 1) * t->stride[i];
  }
  t->numel = product;
  t->nbytes = (product ? last : 0) * item_size(dtype);
  if (device == diopi_device && vendor.device_malloc) {
    t->data = vendor.device_malloc((uint64_t)(t->nbytes + 1024));
  } else {
    t->data = calloc(1, (size_t)t->nbytes + 1024);
  }
  if (!t->data) fail(role, "no memory");
  return t;
}

static diopiStreamHandle_t stream(void) {
  if (!vendor.context.has_stream && vendor.make_stream) vendor.make_stream(&vendor.context.stream);
  vendor.context.has_stream = 1;
  return vendor.context.stream;
}

static void synchronize(void) {
  if (vendor.synchronize && vendor.context.has_stream) vendor.synchronize(vendor.context.stream);
}

// on_host is the memory of a tensor, or a copy of it.
static char* on_host(diopiTensorHandle_t t) {
  if (t->device != diopi_device || !vendor.device_malloc) return t->data;
  char* copy = calloc(1, (size_t)t->nbytes + 1);
  vendor.d2h(stream(), copy, t->data, (uint64_t)t->nbytes);
  synchronize();
  return copy;
}

static int64_t offset(diopiTensorHandle_t t, int64_t index) {
  int64_t at = 0;
  for (int64_t i = t->dims; i-- > 0;) at += index % t->shape[i] * t->stride[i], index /= t->shape[i];
  return at;
}

// read_file reads so many bytes of a file in data/.
static char* read_file(const char* name, int64_t bytes) {
  char* b = malloc((size_t)bytes + 1);
  FILE* f = fopen(name, "rb");
  if (!f || !b || (int64_t)fread(b, 1, (size_t)bytes, f) != bytes) fail(name, "cannot be read: run in its directory");
  fclose(f);
  return b;
}

// load fills a tensor with a file of its elements in row-major order.
static void load(diopiTensorHandle_t t, const char* name) {
  int64_t item = item_size(t->dtype);
  char* dense = read_file(name, t->numel * item);
  char* b = calloc(1, (size_t)t->nbytes + 1);
  for (int64_t i = 0; i < t->numel; i++) memcpy(b + offset(t, i) * item, dense + i * item, (size_t)item);
  if (t->device == diopi_device && vendor.device_malloc) {
    vendor.h2d(stream(), t->data, b, (uint64_t)t->nbytes);
    synchronize();
  } else {
    memcpy(t->data, b, (size_t)t->nbytes);
  }
  free(b), free(dense);
}

static double from_half(uint16_t h, int exponent_bits) {
  int mantissa_bits = 15 - exponent_bits, top = (1 << exponent_bits) - 1, bias = top >> 1;
  int exponent = h >> mantissa_bits & top, mantissa = h & ((1 << mantissa_bits) - 1);
  double v = exponent == top ? (mantissa ? NAN : INFINITY)
             : exponent      ? ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits)
                             : ldexp(mantissa, 1 - bias - mantissa_bits);
  return h & 0x8000 ? -v : v;
}

// number is element i of memory of a dtype; of complex numbers part 0 or 1.
static double number(const char* b, diopiDtype_t t, int64_t i, int part) {
  switch (t) {
    case diopi_dtype_int8: return ((const int8_t*)b)[i];
    case diopi_dtype_uint8: case diopi_dtype_bool: return ((const uint8_t*)b)[i];
    case diopi_dtype_int16: return ((const int16_t*)b)[i];
    case diopi_dtype_uint16: return ((const uint16_t*)b)[i];
    case diopi_dtype_int32: return ((const int32_t*)b)[i];
    case diopi_dtype_uint32: return ((const uint32_t*)b)[i];
    case diopi_dtype_int64: return (double)((const int64_t*)b)[i];
    case diopi_dtype_uint64: return (double)((const uint64_t*)b)[i];
    case diopi_dtype_float16: return from_half(((const uint16_t*)b)[i], 5);
    case diopi_dtype_bfloat16: return from_half(((const uint16_t*)b)[i], 8);
    case diopi_dtype_float64: return ((const double*)b)[i];
    case diopi_dtype_complex64: return ((const float*)b)[2 * i + part];
    case diopi_dtype_complex128: return ((const double*)b)[2 * i + part];
    default: return ((const float*)b)[i];
  }
}

// check compares a tensor with files of the expected values, float64 in row-major order (complex128 of complex numbers),
// and of how far each may be off. It returns whether none is further off.
// together tells whether a factor or an offset that all elements share is no larger than it may be. A difference is that
// from the nearest value of the dtype.
static __attribute__((unused)) int together(const char* name, diopiTensorHandle_t t, const double* want,
                                            const double* nearest, int64_t numel, double most_factor, double most_offset) {
  const char* got = on_host(t);
  double squares = 0, product = 0, sum = 0, n = 0;
  for (int pass = 0; pass < 2; pass++) {
    double factor = squares > 0 ? product / squares : 0, shift = n > 0 ? sum / n : 0, of_factor = 0, of_shift = 0;
    for (int64_t i = 0; i < numel; i++) {
      double x = number(got, t->dtype, offset(t, i), 0), r = want[i], d = x - nearest[i];
      if (d - d != 0) continue;
      if (!pass) squares += r * r, product += r * d, sum += d, n++;
      of_factor += r * (d - factor * r) * r * (d - factor * r), of_shift += (d - shift) * (d - shift);
    }
    if (!pass) continue;
    if (n < 8 || squares == 0) return 1;
    double size = sqrt(squares / n);
    int scaled = fabs(factor) > most_factor && fabs(factor) > 8 * sqrt(of_factor) / squares;
    int shifted = fabs(shift) / size > most_offset && fabs(shift) > 8 * sqrt(of_shift) / n;
    if (scaled) printf("%s: wrong, all elements together are scaled by 1 + %.4g, may be %.4g\n", name, factor, most_factor);
    if (shifted)
      printf("%s: wrong, all elements together are shifted, in units of their root mean square, by %.4g, may be %.4g\n", name,
             shift / size, most_offset);
    return !scaled && !shifted;
  }
  return 1;
}

static int check(const char* name, diopiTensorHandle_t t, const char* file, const char* bounds, int64_t numel) {
  if (!t || t->numel != numel) return printf("%s: another number of elements than expected\n", name), 0;
  int parts = t->dtype == diopi_dtype_complex64 || t->dtype == diopi_dtype_complex128 ? 2 : 1;
  const double* want = (const double*)read_file(file, numel * parts * 8);
  const double* allowed = (const double*)read_file(bounds, numel * 8);
  const char* got = on_host(t);
  int64_t bad = 0, worst = 0, last = -1;
  double far = -1;
  for (int64_t i = 0; i < numel * parts; i++) {
    double x = number(got, t->dtype, offset(t, i / parts), (int)(i % parts)), w = want[i], a = allowed[i / parts];
    double e = x == w || (x != x && w != w) || isinf(a) ? 0 : fabs(x - w);
    if (!(e <= a) && last != i / parts) bad++, last = i / parts;
    double share = e != e ? INFINITY : e == 0 ? 0 : e / a;
    if (share > far) far = share, worst = i;
  }
  printf("%s: %lld of %lld elements are wrong", name, (long long)bad, (long long)numel);
  if (numel) {
    printf("; worst at [");
    for (int64_t d = 0, rest = worst / parts, size = numel; d < t->dims; d++) {
      size /= t->shape[d];
      printf(d ? ", %lld" : "%lld", (long long)(rest / size));
      rest %= size;
    }
    printf("]: got %.9g want %.17g, may be off by %.4g", number(got, t->dtype, offset(t, worst / parts), (int)(worst % parts)),
           want[worst], allowed[worst / parts]);
  }
  printf("\n");
  return bad == 0;
}

static void called(const char* function, diopiError_t e) {
  synchronize();
  if (e == diopiSuccess) return;
  fprintf(stderr, "%s: code %d: %s\n", function, (int)e, vendor.last_error ? vendor.last_error() : "");
  exit(1);
}

#pragma GCC visibility push(default)
const char* diopiGetVersion(void) { return "DIOPI Version: 1.0.0"; }
#define GIVES(name, handle, type, value) \
  diopiError_t name(handle th, type* out) { return !th || !out ? diopiErrorOccurred : (*out = (value), diopiSuccess); }
GIVES(diopiGetTensorData, diopiTensorHandle_t, void*, th->data)
GIVES(diopiGetTensorDataConst, diopiConstTensorHandle_t, const void*, th->data)
GIVES(diopiGetTensorShape, diopiConstTensorHandle_t, diopiSize_t, ((diopiSize_t){th->shape, th->dims}))
GIVES(diopiGetTensorStride, diopiConstTensorHandle_t, diopiSize_t, ((diopiSize_t){th->stride, th->dims}))
GIVES(diopiGetTensorDtype, diopiConstTensorHandle_t, diopiDtype_t, th->dtype)
GIVES(diopiGetTensorDevice, diopiConstTensorHandle_t, diopiDevice_t, th->device)
GIVES(diopiGetTensorNumel, diopiConstTensorHandle_t, int64_t, th->numel)
GIVES(diopiGetTensorElemSize, diopiConstTensorHandle_t, int64_t, item_size(th->dtype))
GIVES(diopiGetTensorStoragePtr, diopiConstTensorHandle_t, void*, th->data)
GIVES(diopiGetTensorStorageOffset, diopiConstTensorHandle_t, int64_t, 0)
GIVES(diopiGetTensorStorageNbytes, diopiConstTensorHandle_t, size_t, (size_t)th->nbytes)
GIVES(diopiGetTensorDeviceIndex, diopiConstTensorHandle_t, diopiDeviceIndex_t, 0)
GIVES(diopiIsTensorSparse, diopiConstTensorHandle_t, bool, false)
// What a call with plain tensors does not need, but a library may name.
#define LACKS(name, ...) \
  diopiError_t name(__VA_ARGS__) { return diopiErrorOccurred; }
#define UNUSED __attribute__((unused))
LACKS(diopiGetTensorCrowIndices, UNUSED diopiConstTensorHandle_t t, UNUSED diopiConstTensorHandle_t* out)
LACKS(diopiGetTensorColIndices, UNUSED diopiConstTensorHandle_t t, UNUSED diopiConstTensorHandle_t* out)
LACKS(diopiGetTensorValues, UNUSED diopiConstTensorHandle_t t, UNUSED diopiConstTensorHandle_t* out)
LACKS(diopiGeneratorGetState, UNUSED diopiContextHandle_t c, UNUSED diopiConstGeneratorHandle_t g,
      UNUSED diopiTensorHandle_t* out)
LACKS(diopiGeneratorSetState, UNUSED diopiGeneratorHandle_t g, UNUSED diopiConstTensorHandle_t state)
LACKS(diopiGeneratorGetSeedAndOffset, UNUSED diopiGeneratorHandle_t g, UNUSED uint64_t* seed, UNUSED uint64_t* offset)
LACKS(diopiGeneratorSetSeedAndOffset, UNUSED diopiGeneratorHandle_t g, UNUSED uint64_t seed, UNUSED uint64_t offset)
LACKS(diopiRecordStart, UNUSED const char* name, UNUSED void** record)
LACKS(diopiRecordEnd, UNUSED void** record)
diopiError_t diopiGetCurrentDeviceIndex(diopiDeviceIndex_t* out) { return *out = 0, diopiSuccess; }
diopiError_t diopiGetStream(diopiContextHandle_t ctx, diopiStreamHandle_t* out) {
  (void)ctx;
  return *out = stream(), diopiSuccess;
}
diopiError_t diopiRequireTensor(diopiContextHandle_t ctx, diopiTensorHandle_t* out, const diopiSize_t* size,
                                const diopiSize_t* stride, const diopiDtype_t dtype, const diopiDevice_t device) {
  (void)ctx;
  *out = new_tensor("made by the library", dtype, size->len, size->data, stride ? stride->data : NULL, device);
  return diopiSuccess;
}
diopiError_t diopiRequireBuffer(diopiContextHandle_t ctx, diopiTensorHandle_t* out, int64_t bytes, diopiDevice_t device) {
  (void)ctx;
  *out = new_tensor("a buffer", diopi_dtype_uint8, 1, &bytes, NULL, device);
  return diopiSuccess;
}
#pragma GCC visibility pop
