// Package configs holds the cases of DIOPI's conformance test: the configuration entries, their expansion, and the
// rules by which a device leaves out cases.
//
// Entries come from DIOPI's own Python files (Load) or from any other source as the same dicts. Load reads the files as
// Starlark; Python never executes them. Expand makes the cases: all combinations of the names, dtypes, shapes and
// sparse layouts of an entry. Their names and their order are those of the test kit. The Item of a case is the kit's
// dict, key for key, so that it can be written to the kit's files. Its methods give the typed view.
package configs
