// Package replay runs recorded calls again and compares what was recorded with
// what should have come out.
//
// Run takes one capture, binds the recorded name and arguments to an operator
// of the table (package ops), computes forward and, where gradients were
// recorded, backward on the CPU reference, and compares every recorded value
// with the reference under the operator's error model (package compare). It
// yields one Result per compared value, or a single one that says why nothing
// could be compared. Nothing compared is never a pass.
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
