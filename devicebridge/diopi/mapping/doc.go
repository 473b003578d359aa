// Package mapping says how calls of PyTorch's operators are carried out by DIOPI:
// which recipe of package diopi computes an operator of package opdef, and what of
// a call fills the recipe's keywords. Operators know nothing of devices; what
// concerns DIOPI alone is the table of this package. Another device interface has a
// table of its own beside it.
package mapping
