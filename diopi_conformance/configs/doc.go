// Package configs holds the cases of DIOPI's conformance test: configuration
// entries, what they expand to, and the rules by which a device leaves cases
// out.
//
// Entries come from DIOPI's own Python files (Load), which are read as
// Starlark, never executed by Python, or from any other source as the same
// dicts. Expand makes the cases: every combination of names, dtypes, shapes
// and sparse layouts that an entry stands for, named and ordered as the test
// kit does. A case's Item is the dict the kit keeps for it, key for key, so
// that it can be written to the kit's files; its methods give the typed view.
package configs
