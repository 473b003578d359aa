// Package archtest holds the test that keeps the packages of optool apart: which
// may import which, where cgo and unsafe are allowed, and that nothing runs at
// import time. The rules are the table in arch_test.go.
package archtest
