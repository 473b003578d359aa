// Package devicebridge runs plans of C calls (package diopi) on device libraries
// that implement DIOPI's interface, and survives them.
//
// A library is never loaded into optool itself. A worker process loads it and
// provides the runtime calls it imports; tensors lie in memory that both share.
// Around every call the worker checks what an operator must not do: write
// outside of its buffers, change its inputs, leave outputs unwritten. A library
// that crashes, hangs or exits takes its worker along, which costs the plan that
// ran and nothing else: the next plan finds a fresh worker.
//
// # Ownership and threads
//
// A [Device] may be used from several goroutines; each of its workers runs one
// plan at a time. What a [Result] holds is the caller's. Close ends the workers;
// should optool die without it, they end themselves.
//
// # Parts
//
// native/ holds the C++ side: the runtime, the worker and the built-in device
// "host", which make builds into native/dist and this package embeds. See
// docs/device.md.
//
// # Non-goals
//
// No knowledge of operators (package diopi) and no judgement of numbers
// (package compare).
package devicebridge
