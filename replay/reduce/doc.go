// Package reduce makes the smallest recorded call that still fails, and finds the
// conditions of the failure.
//
// A call is cut along axes: dimensions of its tensors, and integers among its arguments,
// that have one size and can only change together. They are found by trying: the
// reference accepts the call when all of an axis change, and refuses it when a part does.
//
// On a device every candidate is run. Without a device a candidate keeps slices of the
// recorded results, gradients and arguments after the call. It counts only if the reference
// of the cut call gives the same numbers as the reference of the whole call there. The
// recorded numbers are then still comparable.
//
// # Non-goals
//
// No search for other failures: a candidate counts if it fails in the same pass with the
// same verdict, and shows the same cause, if one was found. Calls with random results are not reduced.
package reduce
