// Package roundoff has the constants of the error model that comparisons and the
// bounds of operators share; package compare says where they come from.
package roundoff

import "math"

// Unit roundoffs of the accumulators: float32 of dtypes up to 32 bits, and float64.
const (
	U32 = 0x1p-24
	U64 = 0x1p-53
)

// longestSum is the most terms in one chain of additions.
const longestSum = 1 << 20

// Growth is c(n): the error of a sound sum of n terms is at most c(n)*u times the sum
// of their magnitudes.
func Growth(n int) float64 { return 4 + 4*math.Sqrt(float64(min(max(n, 1), longestSum))) }
