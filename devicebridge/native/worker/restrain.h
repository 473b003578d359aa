#ifndef OPTOOL_WORKER_RESTRAIN_H_
#define OPTOOL_WORKER_RESTRAIN_H_

namespace optool {

// From now on this process and what it starts cannot signal the parent, its group, or all processes
// at once, trace the parent, change its limits, or have the kernel signal it (F_SETOWN_EX, FIOSETOWN);
// signal 0, which only asks, is let through. System calls of other architectures are refused. The
// second line behind ownNamespace: a thread of the parent can still be signalled by its id. False
// where the kernel has no filters of system calls: then nothing changes.
bool protectParent();

}  // namespace optool

#endif
