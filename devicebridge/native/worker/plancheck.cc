// What a plan checks around its calls.

#include "plan.h"

namespace optool {

void Plan::found(FindingKind kind, uint32_t call, Subject subject, uint32_t index, Damage damage) {
  findings_.push_back({kind, call, subject, index, damage});
}

// Before a call: hashes of the tensors it must not write.
void Plan::hashInputs(const Call& call) {
  for (uint32_t k : call.written) tensors_[k].hashed = false;
  for (uint32_t k = 0; k < tensors_.size(); k++) {
    Tensor& t = tensors_[k];
    if (!t.image || t.hashed || std::find(call.written.begin(), call.written.end(), k) != call.written.end()) continue;
    t.hash = hashBytes(t.image, t.expected.nbytes);
    t.hashed = true;
  }
}

// After a call: of the tensors it may write, what it wrote; of all others, that
// they are as they were. A device with memory of its own is asked for the others
// once, after the last call.
void Plan::check(uint32_t index, const Outcome& outcome) {
  if (outcome.floatModeChanged) found(FindingKind::floatModeChanged, index, Subject::none, 0, {1, 0});
  const Call& call = calls_[index];
  const bool ok = outcome.status == Status::ok, last = index + 1 == calls_.size() || !ok;
  for (uint32_t k = 0; k < tensors_.size(); k++) {
    Tensor& t = tensors_[k];
    diopiTensor& h = t.handle;
    const diopiTensor& e = t.expected;
    if (h.dtype != e.dtype || h.device != e.device || h.shape != e.shape || h.stride != e.stride || h.data != e.data || h.values != e.values) {
      found(FindingKind::metadataChanged, index, Subject::tensor, k, {1, 0});
      h = e;
    }
    if (!t.image) continue;
    bool written = std::find(call.written.begin(), call.written.end(), k) != call.written.end();
    if (t.onDevice) {
      if (!written && !last) continue;
      if (!fromDevice(t)) throw std::runtime_error("device_memcpy_d2h_async fails");
    }
    checkTensor(index, k, written, ok);
  }
  for (const Arena::Block& b : arena_.blocks()) {
    Damage d = arena_.checkGuards(context_, b);
    if (d.count == 0) continue;
    Subject subject = Subject::none;
    uint32_t k = 0;
    for (uint32_t i = 0; i < allocs_.size(); i++) {
      if (allocs_[i] && allocs_[i]->data == b.data) subject = Subject::alloc, k = i;
    }
    found(FindingKind::outOfBounds, index, subject, k, d);
  }
}

void Plan::checkTensor(uint32_t index, uint32_t k, bool written, bool ok) {
  Tensor& t = tensors_[k];
  if (Damage d = checkGuards(t.image, t.expected.nbytes); d.count > 0) found(FindingKind::outOfBounds, index, Subject::tensor, k, d);
  if (!written) {
    uint64_t h = hashBytes(t.image, t.expected.nbytes);
    if (t.hashed && h != t.hash) found(FindingKind::inputChanged, index, Subject::tensor, k, {0, 0});
    t.hash = h;
    t.hashed = true;
    return;
  }
  if (Damage d = checkGaps(t.expected, t.image, poison_); d.count > 0) found(FindingKind::gapWritten, index, Subject::tensor, k, d);
  if (ok && !t.hasValue && !t.written) {
    if (Damage d = countFilled(t.expected, t.image, poison_); d.count > 0) found(FindingKind::unwritten, index, Subject::tensor, k, d);
  }
  t.written = t.written || ok;
}

uint32_t Plan::lastWriter(Subject subject, uint32_t index) const {
  uint32_t last = 0;
  for (uint32_t i = 0; i < calls_.size(); i++) {
    const auto& list = subject == Subject::tensor ? calls_[i].written : subject == Subject::alloc ? calls_[i].made : calls_[i].outs;
    if (std::find(list.begin(), list.end(), index) != list.end()) last = i;
  }
  return last;
}

// Callee-made tensors, once all calls have run.
void Plan::checkUnwritten() {
  for (uint32_t k = 0; k < allocs_.size(); k++) {
    const diopiTensor* t = allocs_[k];
    if (!t || !arena_.holds(t->data) || t->isSparse()) continue;
    Damage d = countFilled(*t, static_cast<const char*>(t->data), poison_);
    if (d.count > 0) found(FindingKind::unwritten, lastWriter(Subject::alloc, k), Subject::alloc, k, d);
  }
}

void Plan::keepRepetition() {
  for (Tensor& t : tensors_) {
    if (t.image && t.writable) t.first.assign(t.image, t.image + t.expected.nbytes);
  }
  allocsFirst_.resize(allocs_.size());
  for (size_t k = 0; k < allocs_.size(); k++) {
    if (!allocs_[k]) continue;
    if (const char* image = allocImage(*allocs_[k])) allocsFirst_[k].assign(image, image + allocs_[k]->nbytes);
  }
  outsFirst_ = outs_;
}

void Plan::compareRepetition() {
  auto differs = [&](Subject subject, uint32_t k, Damage d) {
    if (d.count == 0) return;
    for (const Finding& f : findings_) {
      if (f.kind == FindingKind::nondeterministic && f.subject == subject && f.index == k) return;
    }
    found(FindingKind::nondeterministic, lastWriter(subject, k), subject, k, d);
  };
  for (uint32_t k = 0; k < tensors_.size(); k++) {
    Tensor& t = tensors_[k];
    if (!t.image || !t.writable) continue;
    if (t.onDevice && !fromDevice(t)) throw std::runtime_error("device_memcpy_d2h_async fails");
    differs(Subject::tensor, k, countDifferent(t.expected, t.first.data(), t.image));
  }
  for (uint32_t k = 0; k < allocs_.size(); k++) {
    const char* image = allocs_[k] ? allocImage(*allocs_[k]) : nullptr;
    size_t n = image ? allocs_[k]->nbytes : 0;
    if (n != allocsFirst_[k].size()) {
      differs(Subject::alloc, k, {1, 0});
    } else if (image) {
      differs(Subject::alloc, k, countDifferent(*allocs_[k], allocsFirst_[k].data(), image));
    }
  }
  for (uint32_t k = 0; k < outs_.size(); k++) {
    if (outs_[k] != outsFirst_[k]) differs(Subject::out, k, {1, 0});
  }
}

void Plan::writeFindings(Writer& answer) {
  answer.u32(static_cast<uint32_t>(findings_.size()));
  for (const Finding& f : findings_) {
    answer.put(f.kind);
    answer.u32(f.call);
    answer.put(f.subject);
    answer.u32(f.index);
    answer.i64(f.damage.count);
    answer.i64(f.damage.first);
  }
}

}  // namespace optool
