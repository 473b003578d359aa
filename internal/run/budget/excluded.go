package budget

import "math"

// Confidence is that of Excluded.
const Confidence = 0.95

// Excluded is the smallest rate such that all higher ones are excluded at 95 % by n calls of
// which so many failed, if they stand for the others: the upper bound of Clopper and Pearson,
// for which no more failures than there were have a probability of 5 %. Without failures it
// is 1 - 0.05^(1/n), about 3/n. It is 1 where nothing is excluded.
func Excluded(n, failed int) float64 {
	switch {
	case n <= failed:
		return 1
	case failed == 0:
		return -math.Expm1(math.Log(1-Confidence) / float64(n))
	}
	lo, hi := float64(failed)/float64(n), 1.0
	for range 60 { // halves until nothing is left between float64s
		if p := (lo + hi) / 2; atMost(failed, n, p) > 1-Confidence {
			lo = p
		} else {
			hi = p
		}
	}
	return hi
}

// atMost is the probability of at most k failures of n calls that fail at rate p in (0, 1).
func atMost(k, n int, p float64) float64 {
	sum := 0.0
	all, _ := math.Lgamma(float64(n + 1))
	for i := 0; i <= k; i++ {
		x, _ := math.Lgamma(float64(i + 1))
		y, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(all - x - y + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}
