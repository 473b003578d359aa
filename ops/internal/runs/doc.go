// Package runs moves elements. Views, indexing, scattering and joins are made of
// two primitives over runs of adjacent elements: Pick reads them, Put writes them.
// Both are lazy: a block of the result costs a block of memory, and Put one pair
// of numbers for each run written.
package runs
