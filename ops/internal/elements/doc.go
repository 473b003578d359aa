// Package elements holds what families of operators share, by file: arguments
// (checks of arguments), dims (dimensions, shapes and numbers of terms), maps
// (lazy functions of the elements of tensors), rows (functions of a row of
// elements), stencil (linear maps of runs), planes (images), gradients
// (gradients and what is said where there is none to compare), errors (error
// classes and factors of bounds), results (lists of results, optional
// arguments) and cases (tensors that operators are checked with).
package elements
