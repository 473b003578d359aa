// Package conformance generates and checks DIOPI's baseline data: the inputs,
// results and gradients with which chip vendors prove their libraries.
//
//	numpypickle  reads and writes the kit's files
//	configs      the cases: configuration entries, expansion, device rules
//	inputs       draws the arguments of a case
//	reference    computes its results and gradients
//	kitcheck     compares results by the kit's rules, or strictly
//
// This package ties them to the kit's directory tree (Store) and runs many
// cases. It starts no devices: what a device yields comes in by the interface
// Device.
package conformance
