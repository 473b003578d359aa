// Package opcheck holds the checks that every operator must pass. Gradients agree
// with difference quotients. The layout of the arguments in memory does not matter.
// In-place forms equal functional ones. Empty and odd arguments never panic. The
// declared error model is usable.
//
// The checks run on the cases each op generates (opdef.Op.Cases) and report
// Findings as values, so that a test, a command and a run on a device use the
// same code. A Runner executes the calls; Reference is the CPU
// reference of package opdef. The names and meanings of the checks are in the
// table returned by Checks. An op to which a check does not apply says so,
// with the reason, in opdef.Op.Exempt.
//
// # Non-goals
//
// The checks do not compare an op with PyTorch: a wrong formula with the matching
// gradient passes. Golden values do that.
package opcheck
