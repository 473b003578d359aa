// Package fused has what operators in files of package custom, and torch's products of
// groups, need beside primitives: attention of heads, layouts of their dimensions, caches
// of rows and packed integers, as compositions.
//
// Functions refuse arguments as compositions do: by g.Refuse, with the name of the
// argument.
package fused
