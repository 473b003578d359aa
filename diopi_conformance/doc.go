// Package conformance generates and checks DIOPI's baseline data. Chip vendors test their libraries with these inputs,
// results and gradients.
//
//	numpypickle  reads and writes the kit's files
//	configs      the cases: configuration entries, expansion, device rules
//	inputs       draws the arguments of a case
//	reference    computes its results and gradients
//	kitcheck     compares results by the kit's rules, or strictly
//
// This package connects them with the kit's directory tree (Store) and runs many cases. It starts no devices: the
// interface Device supplies the results of a device.
package conformance
