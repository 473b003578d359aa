// Package reduce makes the smallest recorded call that still fails, and says what the
// failure depends on.
//
// A call is cut along axes: dimensions of its tensors, and integers among its arguments,
// that have one size and can only change together. They are found by trying: the
// reference accepts the call when all of an axis change, and refuses it when a part does.
//
// On a device every candidate is run. Of recorded results a candidate keeps the slices
// that were recorded; it counts only where the reference of the cut call gives what the
// reference of the whole call has there, so that what was recorded is still comparable.
//
// # Non-goals
//
// No search for other failures: a candidate counts if it fails in the same pass with the
// same verdict. Calls with random results are not reduced.
package reduce
