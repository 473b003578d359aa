// Package step looks at a whole recorded training step: which call produced what
// another read, which call went wrong first, what changed between a producer and
// its reader, and what each call's error does to the loss.
//
// It works in passes, none of which keeps the elements of more than a few calls:
//
//   - Read takes one capture: it replays the call, hashes every tensor, and measures
//     the call's own error and, through the recorded gradients, its first-order
//     effect on the loss.
//   - New puts calls in the order of execution, finds the losses and the steps, and
//     links every input to what produced it, by address and content.
//   - Analyze runs the step once more in float64 from its leaves, compares what
//     was recorded with it, and draws the findings.
//
// docs/step.md says how links, findings and effects are decided, and what cannot
// be told from recorded calls.
//
// # Non-goals
//
// No walking of trees, no printing. Whether a single call is right is decided by
// package replay.
package step
