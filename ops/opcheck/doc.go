// Package opcheck holds the checks that must hold for every operator, whatever
// it computes: gradients agree with difference quotients, the layout of the
// arguments in memory does not matter, in-place forms equal functional ones,
// empty and odd arguments never panic, the declared error model is usable.
//
// The checks run on the cases each op generates (opdef.Op.Cases) and report
// Findings as values, so that a test, a command and a run on a device use the
// same code. What executes the calls is a Runner; Reference is the CPU
// reference of package opdef. The names and meanings of the checks are in the
// table returned by Checks. An op to which a check does not apply says so,
// with the reason, in opdef.Op.Exempt.
//
// # Non-goals
//
// Whether an op computes what PyTorch computes is not checked here: a wrong
// formula with the matching gradient passes. Golden values do that.
package opcheck
