// Package bundle writes one recorded call with all that a vendor needs to repeat it into
// one zip file: the call as .pth, what should come out, the verdict with pictures, a
// Python script and, where DIOPI computes the operator, a C program.
//
// The same call gives the same bytes: no time, host or directory is in the file.
package bundle
