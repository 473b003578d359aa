// Package parallel takes the calls of all ranks as one program and says what the ranks do wrong together: each call
// can be right by itself while a gradient is never reduced, a mask belongs to another rank or a bias is added twice.
//
// There is no trusted run on one device to compare with. The program itself says what the whole should be:
//
//   - A mesh is found from the groups of ranks that communicate (mesh.go). Ranks with other parameters, such as the
//     stages of a pipeline, are checked apart (check.go).
//   - Calls of the ranks are aligned by operator and line (program.go).
//   - Each value has a place along each dimension of the mesh: replicated, sharded along one of its dimensions, or a
//     partial sum (place.go). Places of leaves follow from their elements and from the call that reads them. Places of
//
// results are not written down by operator: the reference runs the call on whole values, joined from the ranks, and
// those
//
//	  places count by which the ranks' results make what it gives (lift.go). A call for which there are none is wrong.
//	- Calls that exchange values keep the whole: what the ranks have together before is what they have after.
//	- Local indices of a sharded table and rows that experts exchange have no places. They are followed by what they
//	  were made from (untyped.go, rows.go). What cannot be followed is not judged.
//
// - In the backward pass the gradient of a replicated value is replicated or a partial sum. It is wrong to add one to
// the other,
//
//	and an exchange keeps the whole (gradients.go).
//
// - What an optimizer reads is compared with the sum of what the calls gave, over the ranks that hold the parameter
// and
//
//	divided as the loss is (parameters.go).
//
// The numbers of all these checks come from the reference in float64, on both sides of a comparison, so that rounding
// of the recorded values does not matter.
//
// # Non-goals
//
// Whether a call is right by itself is decided by package replay, and what collectives give by package step.
package parallel
