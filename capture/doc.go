// Package capture finds the operator calls that ditorch op_tools recorded, in
// every layout it ever used, and those of other recorders (`optool hook`, msprobe,
// FlashInfer, SGLang, vLLM), and loads one call at a time in one form.
//
// Scan walks directories. Of op_tools' files it opens none, of other recorders' those
// that list their calls; it yields entries in a deterministic order and keeps a bounded
// part of the tree in memory, so that trees of any number of captures can be listed and
// selected. Entry.Load then
// opens the files of one capture; tensor payloads stay untouched until read.
//
// FORMAT.md describes the layouts and the contents of the files. What a .pth
// file is made of is package pthformat's matter, and what a call means is
// package replay's.
package capture
