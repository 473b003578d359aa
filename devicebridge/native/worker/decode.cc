// Plan from a request; devicebridge/request.go writes it.

#include <stdexcept>

#include "plan.h"

namespace optool {

namespace {

// What is passed in the place of a parameter; forms.inc is the list of package
// devicebridge/diopi.
enum class Form : uint8_t {
#define OPTOOL_FORM(name) name,
#include "forms.inc"
#undef OPTOOL_FORM
};

template <class T>
auto& item(T& list, size_t i) {
  if (i >= list.size()) throw std::runtime_error("an index is out of range");
  return list[i];
}

}  // namespace

Plan::Plan(Reader& r, Arena& arena, const Library& library) : arena_(arena), library_(library), context_(library.device, arena) {
  poison_ = r.u8();
  repeat_ = r.u32();
  warmUp_ = r.u32();
  runs_ = r.u32();
  flushBytes_ = r.i64();
  budget_ = r.i64();
  const uint64_t start = r.u64(), top = r.u64();
  arena_.begin(start, top, poison_);
  for (uint32_t n = r.u32(); n > 0; n--) decodeTensor(r);
  for (uint32_t n = r.u32(); n > 0; n--) outsBefore_.push_back(r.u64());
  outs_ = outsBefore_;
  allocs_.resize(r.u32());
  for (uint32_t n = r.u32(); n > 0; n--) {
    uint64_t seed = r.u64(), offset = r.u64();
    seeds_.emplace_back(seed, offset);
    generators_.emplace_back(context_, seed, offset);
  }
  for (uint32_t n = r.u32(); n > 0; n--) decodeCall(r);
}

Plan::~Plan() { end(); }

void Plan::end() {
  if (ended_) return;
  ended_ = true;
  for (Tensor& t : tensors_) {
    if (t.onDevice) library_.device.release(t.onDevice);
    t.before = t.first = {};
  }
  if (flushOnDevice_) library_.device.release(flushOnDevice_);
  flushBuffer_ = {};
  allocsFirst_ = {};
  context_.end();
}

void Plan::decodeTensor(Reader& r) {
  enum { onHost = 1, hasValue = 2, sparse = 4, hasStride = 8 };
  Tensor& t = tensors_.emplace_back();
  auto dtype = static_cast<diopiDtype_t>(r.u8());
  uint8_t flags = r.u8();
  uint64_t offset = r.u64(), nbytes = r.u64();
  std::vector<int64_t> shape = r.ints(), stride = r.ints();
  diopiSize_t size{shape.data(), static_cast<int64_t>(shape.size())}, strides{stride.data(), static_cast<int64_t>(stride.size())};
  if (!t.handle.setLayout(dtype, &size, flags & hasStride ? &strides : nullptr)) throw std::runtime_error("a tensor's layout cannot be");
  t.handle.device = flags & onHost ? diopi_host : diopi_device;
  t.hasValue = flags & hasValue;
  if (flags & sparse) {
    diopiTensor** parts[] = {&t.handle.crow, &t.handle.col, &t.handle.values};
    for (diopiTensor** part : parts) *part = &item(tensors_, r.u32()).handle;
    t.handle.nbytes = 0;
  } else {
    if (t.handle.nbytes != nbytes) throw std::runtime_error("a tensor's size is not what its layout needs");
    t.image = arena_.at(offset);
    t.handle.data = t.image;
    fillGuards(t.image, nbytes);
    if (t.handle.device == diopi_device && !library_.device.isHostMemory()) {
      t.onDevice = static_cast<char*>(library_.device.allocate(nbytes + 2 * guardBytes));
      if (!t.onDevice) throw std::runtime_error("device_malloc gives no memory");
      t.handle.data = t.onDevice + guardBytes;
    }
  }
  t.expected = t.handle;
}

void Plan::decodeCall(Reader& r) {
  Call& call = calls_.emplace_back();
  call.function = r.u32();
  if (call.function >= functionCount) throw std::runtime_error("a function is not known");
  call.phase = r.u8();
  for (uint32_t n = r.u32(); n > 0; n--) {
    Slot slot = decodeArg(r, call);
    call.slots.push_back(slot);
  }
  for (uint32_t n = r.u32(); n > 0; n--) {
    uint32_t k = r.u32();
    item(tensors_, k).writable = true;
    call.written.push_back(k);
  }
}

Slot Plan::decodeArg(Reader& r, Call& call) {
  Slot slot{};
  switch (static_cast<Form>(r.u8())) {
    case Form::null:
      slot.size = {nullptr, 0};
      break;
    case Form::context:
      slot.pointer = &context_;
      break;
    case Form::tensor:
      slot.pointer = &item(tensors_, r.u32()).handle;
      break;
    case Form::alloc: {
      uint32_t k = r.u32();
      item(allocs_, k);
      call.allocs.emplace_back(call.slots.size(), k);
      break;
    }
    case Form::allocAddress: {
      uint32_t k = r.u32();
      slot.pointer = &item(allocs_, k);
      call.made.push_back(k);
      break;
    }
    case Form::tensors: {
      auto& handles = arrays_.emplace_back(r.u32() + size_t{1});  // one more: an empty list has an address too
      for (size_t i = 0; i + 1 < handles.size(); i++) {
        uint32_t k = r.u32();
        handles[i] = k == UINT32_MAX ? nullptr : &item(tensors_, k).handle;
      }
      slot.pointer = handles.data();
      break;
    }
    case Form::scalar: {
      diopiScalar_t& s = scalars_.emplace_back();
      s.stype = static_cast<diopiDtype_t>(r.u8());
      s.ival = r.i64();  // or the bits of fval
      slot.pointer = &s;
      break;
    }
    case Form::size: {
      auto& v = ints_.emplace_back(r.ints());
      v.reserve(v.size() + 1);  // an empty size has an address too
      slot.size = {v.data(), static_cast<int64_t>(v.size())};
      break;
    }
    case Form::sizePointer: {
      auto& v = ints_.emplace_back(r.ints());
      v.reserve(v.size() + 1);  // an empty size has an address too
      slot.pointer = &sizes_.emplace_back(diopiSize_t{v.data(), static_cast<int64_t>(v.size())});
      break;
    }
    case Form::integer:
      slot.integer = r.i64();
      break;
    case Form::real:
      slot.real = r.get<double>();
      break;
    case Form::integerPointer:
      slot.pointer = ints_.emplace_back(1, r.i64()).data();
      break;
    case Form::realPointer:
      slot.pointer = &doubles_.emplace_back(r.get<double>());
      break;
    case Form::boolPointer:
      slot.pointer = &bools_.emplace_back(r.i64() != 0);
      break;
    case Form::text:
      slot.pointer = strings_.emplace_back(r.text()).data();
      break;
    case Form::generator:
      slot.pointer = &item(generators_, r.u32());
      break;
    case Form::generators: {
      auto& handles = arrays_.emplace_back(r.u32() + size_t{1});
      for (size_t i = 0; i + 1 < handles.size(); i++) handles[i] = &item(generators_, r.u32());
      slot.pointer = handles.data();
      break;
    }
    case Form::out: {
      uint32_t k = r.u32();
      slot.pointer = &item(outs_, k);
      call.outs.push_back(k);
      break;
    }
    default:
      throw std::runtime_error("an argument's form is not known");
  }
  return slot;
}

}  // namespace optool
