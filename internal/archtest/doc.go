// Package archtest holds the tests that keep the house in order: which package
// may import which (the table of docs/architecture.md, and no other list), where
// unsafe is allowed, that nothing runs at import time, that every package says
// what it is for, and how wide a line may be.
package archtest
