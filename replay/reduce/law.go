package reduce

import (
	"fmt"
	"slices"
	"strings"
)

// A law says at which sizes of an axis a call fails.
type law struct {
	text  string
	holds func(n int) bool
}

// blocks are the sizes of blocks that kernels work in.
var blocks = []int{2, 4, 8, 16, 32, 64, 128, 256, 3, 5, 6, 7, 12, 24, 48, 96}

// lawOf finds the simplest law that fits sizes that fail and sizes that pass, "" if there
// is none.
func lawOf(fail, pass []int) string {
	if len(pass) == 0 || len(fail) == 0 {
		return ""
	}
	least, most := slices.Min(fail), slices.Max(fail)
	laws := []law{
		{fmt.Sprintf("at least %d", least), func(n int) bool { return n >= least }},
		{fmt.Sprintf("at most %d", most), func(n int) bool { return n <= most }},
	}
	for _, from := range []int{1, least} {
		above := ""
		if from > 1 {
			above = fmt.Sprintf("at least %d and ", from)
		}
		for _, b := range blocks {
			not, multiple := fmt.Sprintf("not a multiple of %d", b), fmt.Sprintf("a multiple of %d", b)
			if b == 2 {
				not, multiple = "odd", "even"
			}
			laws = append(laws, law{above + not, func(n int) bool { return n >= from && n%b != 0 }},
				law{above + multiple, func(n int) bool { return n >= from && n%b == 0 }})
		}
	}
	if len(fail) == 1 {
		laws = []law{{fmt.Sprint(least), func(n int) bool { return n == least }}}
	}
	for _, l := range laws {
		if !slices.ContainsFunc(fail, func(n int) bool { return !l.holds(n) }) && !slices.ContainsFunc(pass, l.holds) {
			return l.text
		}
	}
	return ""
}

// listed lists numbers, at most eight.
func listed(ns []int) string {
	slices.Sort(ns)
	var texts []string
	for i, n := range ns {
		if i == 8 {
			texts = append(texts, "...")
			break
		}
		texts = append(texts, fmt.Sprint(n))
	}
	return strings.Join(texts, ", ")
}

// probes are the sizes to try around an axis that fails at n and was recorded with size.
func probes(n, size int) []int {
	sizes := []int{n - 1, n, n + 1, size - 1, size, size + 1}
	for k := 1; k <= 18; k++ {
		sizes = append(sizes, k)
	}
	for k := 32; k <= 512; k *= 2 {
		sizes = append(sizes, k-1, k, k+1, k/4*3+k, k+k/4)
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	return slices.DeleteFunc(sizes, func(k int) bool { return k < 1 })
}
