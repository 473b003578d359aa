// Package parallel judges the calls of all ranks as one program. Each call can be right by itself while the ranks are
// wrong together: a gradient is never reduced, a mask belongs to another rank, or a bias is added twice.
//
// No trusted run on one device is needed. The program itself tells what the whole should be:
//
//   - The groups of ranks that communicate give the mesh (mesh.go). Ranks with other parameters, such as the stages of
//     a pipeline, are checked separately (check.go).
//   - Calls of the ranks are aligned by operator and line (program.go), step by step. Ranks can count steps in other
//     ways: collective.Steps gives those of the program.
//   - Each value has a place along each dimension of the mesh: replicated, sharded along one of its dimensions, or a
//     partial sum (place.go). The elements of a leaf and the call that reads it decide the place of the leaf.
//   - No table gives the places of results. The reference runs the call on whole values, which it joins from the
//     ranks. The results of the ranks must make its result under some places (lift.go). If there are none, the call is
//     wrong.
//   - Calls that exchange values keep the whole: the ranks have the same together before and after.
//   - Local indices of a sharded table and rows that experts exchange have no places. The package follows the values
//     that they were made from (untyped.go, rows.go). It does not judge what it cannot follow.
//   - In the backward pass the gradient of a replicated value is replicated or a partial sum. It is wrong to add one to
//     the other. An exchange keeps the whole (gradients.go).
//   - The gradient that an optimizer reads is compared with the sum of the gradients that the calls gave, over the
//     ranks that hold the parameter, divided as the loss is (parameters.go).
//
// The reference computes both sides of these comparisons in float64, so that the rounding of recorded values does not
// matter.
//
// # Non-goals
//
// Package replay decides whether a call is right by itself, and package step judges the results of collectives.
package parallel
