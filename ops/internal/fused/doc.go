// Package fused holds compositions for operators in files of package custom, and for
// torch's products of groups. They are attention of heads, layouts of their dimensions,
// caches of rows and packed integers.
//
// Functions refuse arguments as compositions do: by g.Refuse, with the name of the
// argument.
package fused
