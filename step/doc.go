// Package step checks a whole recorded training step. It finds the producer of each
// input, the first call that went wrong, and values that changed between a producer
// and its reader. It computes the effect of each call's error on the loss.
//
// It works in passes. No pass keeps the elements of more than a few calls:
//
//   - Read takes one capture. It replays the call, hashes every tensor and measures
//     the call's own error. The recorded gradients give the first-order effect of
//     this error on the loss.
//   - New puts calls in the order of execution, finds the losses and the steps, and
//     links every input to its producer, by address and content.
//   - Analyze runs the step once more in float64 from its leaves, compares the
//     recorded values with it, and makes the findings.
//
// docs/step.md explains links, findings and effects, and the limits of recorded
// calls.
//
// # Non-goals
//
// No walking of trees, no printing. Whether a single call is right is decided by
// package replay.
package step
