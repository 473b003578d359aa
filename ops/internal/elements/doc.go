// Package elements holds the code that families of operators share. Its files are:
//
//	arguments  checks of arguments
//	dims       dimensions, shapes and numbers of terms
//	maps       lazy functions of the elements of tensors
//	rows       functions of a row of elements
//	stencil    linear maps of runs
//	planes     images
//	gradients  gradients, and the reasons where there is none to compare
//	errors     error classes and factors of bounds
//	results    lists of results, optional arguments
//	cases      tensors to check operators with
package elements
