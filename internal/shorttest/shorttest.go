// Package shorttest says which tests -short leaves out. `make race` runs with it: the race detector makes a test about
// ten times slower, and needs each goroutine once, not each value.
package shorttest

import "testing"

// Computes skips a test of many values with -short: other tests of the package start the same goroutines.
func Computes(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("many values of the same code")
	}
}
