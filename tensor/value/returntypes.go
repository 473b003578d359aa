package value

import (
	"strings"
	"sync"
)

// returnFields are the fields of torch's named results, by the ops that return
// them (torch.return_types, PyTorch 1.13).
var returnFields = sync.OnceValue(func() map[string][]string {
	byFields := map[string]string{
		"min max":                  "aminmax",
		"values indices":           "cummax cummin kthvalue max median min mode nanmedian sort topk",
		"mantissa exponent":        "frexp",
		"a tau":                    "geqrf",
		"hist bin_edges":           "histogram histogramdd",
		"L info":                   "linalg_cholesky_ex",
		"eigenvalues eigenvectors": "linalg_eig linalg_eigh symeig",
		"inverse info":             "linalg_inv_ex",
		"LD pivots":                "linalg_ldl_factor",
		"LD pivots info":           "linalg_ldl_factor_ex",
		"solution residuals rank singular_values": "linalg_lstsq",
		"P L U":                       "linalg_lu lu_unpack",
		"LU pivots":                   "linalg_lu_factor",
		"LU pivots info":              "linalg_lu_factor_ex",
		"Q R":                         "linalg_qr qr",
		"sign logabsdet":              "linalg_slogdet slogdet",
		"result info":                 "linalg_solve_ex",
		"U S Vh":                      "linalg_svd",
		"U S V":                       "svd",
		"solution cloned_coefficient": "triangular_solve",
	}
	m := map[string][]string{}
	for fields, ops := range byFields {
		for op := range strings.FieldsSeq(ops) {
			m[op] = strings.Fields(fields)
		}
	}
	return m
})

// fields are the names of the items of a named result of torch; nil if s is none
// that is known, or has another number of items.
func (s *Sequence) fields() []string {
	op, ok := strings.CutPrefix(s.Class, "torch.return_types.")
	if !ok {
		return nil
	}
	names := returnFields()[strings.TrimSuffix(op, "_out")]
	if len(names) != len(s.Items) {
		return nil
	}
	return names
}
