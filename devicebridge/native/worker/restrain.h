#ifndef OPTOOL_WORKER_RESTRAIN_H_
#define OPTOOL_WORKER_RESTRAIN_H_

namespace optool {

// From now on this process and what it starts cannot signal optool, whose process is
// the parent, its group, or all processes at once; signal 0, which only asks, is let
// through. Where the kernel has no filters of system calls nothing changes.
void protectParent();

}  // namespace optool

#endif
