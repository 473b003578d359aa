// Package metric measures what the errors of recorded calls do to the number that people watch: the next-token
// distribution that logits give, the log-probability of tokens, or any function of a result.
//
//   - Measure takes one run. It computes the chosen result exactly, and once more with the errors of some calls
//     added: those of one operator, of one call, of a module.
//   - Pair takes two runs of the same tokens, a rollout and a training step. It aligns their tokens and says which
//     calls on which side make the log-probabilities differ.
//   - Rows takes two runs of one program in batches of different sizes. It finds the rows of one in the other and
//     the first call whose row differs bit for bit.
//
// The seam to package step is narrow: step.Carry runs calls exactly and with chosen errors, step.Cone says what a
// result depends on, and values give their recorded elements. docs/metric.md says what the numbers mean.
//
// # Non-goals
//
// No walking of trees, no printing to a terminal. Whether a single call is right is decided by package replay.
package metric
