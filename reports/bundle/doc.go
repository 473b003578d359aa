// Package bundle packs one recorded call for a vendor into one zip file. The file holds the call as .pth, the expected
// results, the verdict with pictures and a Python script that repeats the call. If DIOPI computes the operator, it also
// holds a C program.
//
// The same call gives the same bytes: the file holds no time, host or directory.
package bundle
