// Package hook holds the Python file that records operator calls of any PyTorch
// program, which optool embeds and prints. package capture reads what it writes;
// docs/capture.md says how it is used and what it writes.
//
// The file needs nothing but torch 1.13 or newer. Its own tests, in Python, are
// beside it and run by `make test-hook`; the product and the Go tests need no Python.
package hook

import _ "embed"

// Name is what the file is called where it is imported.
const Name = "optool_capture.py"

// Source is the file.
//
//go:embed optool_capture.py
var Source string
