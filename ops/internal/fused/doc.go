// Package fused has the parts that the fused operators of several libraries are
// made of, as compositions: norms, rotations of pairs, gates, attention of heads,
// caches in pages and quantization. A library's package declares schemas and names
// around them.
//
// Functions refuse arguments as compositions do: by g.Refuse, with the name of the
// argument.
package fused
