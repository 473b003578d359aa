// Package replay runs recorded calls again and compares the recorded values with the
// right ones.
//
// Run takes one capture and binds the recorded name and arguments to an operator of
// the table (package ops). It computes the call on the CPU reference, forward and, if
// gradients were recorded, backward. It compares every recorded value with the
// reference under the operator's error model (package compare). It yields one Result
// for each compared value, or a single one with the reason why nothing could be
// compared. A call without compared values never passes.
//
// # Gradients
//
// op_tools saves what the last autograd node of the result received for its
// own inputs. Where the op says what that was (opdef.Op.Node) it is computed;
// otherwise the saved gradients, None left out, are those of the tensors that
// require one, in order. Where their number or shapes do not fit, they belong
// to another op and are skipped. Files that op_tools did not write hold one
// entry per tensor argument.
//
// # Non-goals
//
// No walking of trees, no parallelism, no printing: the command line does that.
package replay
