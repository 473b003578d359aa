// Package runs moves elements: views, indexing, scattering and joining are made
// of reading runs of adjacent elements and of writing them.
package runs
