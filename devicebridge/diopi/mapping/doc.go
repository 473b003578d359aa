// Package mapping maps calls of PyTorch's operators to DIOPI. Its table names the recipe of package diopi that computes
// an operator of package opdef, and the arguments that fill the keywords of the recipe. Operators know nothing of
// devices. Another device interface has its own table beside this one.
package mapping
