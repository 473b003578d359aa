// What the worker looks for in the memory of a tensor.

#ifndef OPTOOL_WORKER_CHECKS_H_
#define OPTOOL_WORKER_CHECKS_H_

#include "arena.h"

namespace optool {

// A hash of bytes, to see whether they changed.
uint64_t hashBytes(const char* p, size_t n);

// Elements of t, whose memory is at data, all of whose bytes are fill; first is
// the row-major index of the first one.
Damage countFilled(const diopiTensor& t, const char* data, unsigned char fill);

// Elements whose bytes differ between two copies of the memory of t.
Damage countDifferent(const diopiTensor& t, const char* a, const char* b);

// Bytes between the elements of t that are not fill; they are repaired.
Damage checkGaps(const diopiTensor& t, char* data, unsigned char fill);

}  // namespace optool

#endif
