// Package shard cuts a run into parts that cost about the same. Every host that has the same
// list of calls gets the same parts, so that hosts need not talk to each other.
package shard

import (
	"cmp"
	"container/heap"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// A Call is one recorded call: its name within the run, and an estimate of what it costs.
type Call struct {
	Name string
	Cost Cost
}

// A Cost is an estimated time of one processor in microseconds; a whole number, so that
// hosts of all kinds add it up alike.
type Cost int64

// Duration is the time.
func (c Cost) Duration() time.Duration { return time.Duration(c) * time.Microsecond }

// What a processor of the machines at hand does in a second, measured over whole trees
// (docs/scale.md): bytes of files that are read, widened, computed on and compared, and
// multiplications of float64 matrices with their additions.
const (
	bytesPerSecond = 100e6
	flopsPerSecond = 20e9
	perCall        = 500 // microseconds
)

// products are words in the names of operators that multiply matrices.
var products = []string{"matmul", "mm", "linear", "conv", "einsum", "dot", "attention", "attn", "mv", "chain"}

// Estimate is what a call of an operator costs whose files have so many bytes. What
// multiplies matrices is taken to multiply square ones of that size, of two bytes an element.
func Estimate(op string, bytes int64) Cost {
	name := strings.ToLower(op[strings.LastIndexByte(op, '.')+1:])
	if slices.ContainsFunc(products, func(word string) bool { return strings.Contains(name, word) }) {
		n := isqrt(bytes / 6) // three matrices
		return EstimateWork(bytes, 2*float64(n)*float64(n)*float64(n))
	}
	return EstimateWork(bytes, 0)
}

// EstimateWork is what a call costs that reads and writes so many bytes, and computes so many
// multiplications and additions of products.
func EstimateWork(bytes int64, flops float64) Cost {
	return Cost(perCall + bytes*1_000_000/bytesPerSecond + int64(flops/(flopsPerSecond/1e6)))
}

// isqrt is the whole part of a square root.
func isqrt(x int64) int64 {
	if x < 2 {
		return max(x, 0)
	}
	r := x
	for next := (x + 1) / 2; next < r; next = (r + x/r) / 2 {
		r = next
	}
	return r
}

// Assign says which of n parts, from 0, takes each call: the dearest first, each to the
// part that has least so far. Calls that cost the same are taken in the order of a hash of
// their names, so that those of one kind, which follow each other, are spread.
func Assign(calls []Call, n int) []int {
	order := make([]int, len(calls))
	hashes := make([]uint64, len(calls))
	for i, c := range calls {
		order[i], hashes[i] = i, Hash(c.Name)
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(calls[b].Cost, calls[a].Cost), cmp.Compare(hashes[a], hashes[b]),
			cmp.Compare(calls[a].Name, calls[b].Name), cmp.Compare(a, b))
	})
	parts := make(loads, min(n, max(1, len(calls)))) // further ones get none
	for i := range parts {
		parts[i].part = i
	}
	of := make([]int, len(calls))
	for _, i := range order {
		of[i] = parts[0].part
		parts[0].cost += calls[i].Cost
		heap.Fix(&parts, 0)
	}
	return of
}

// Digest names a list of calls and how many parts it is cut into.
func Digest(calls []Call, n int) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d\n", n)
	for _, c := range calls {
		fmt.Fprintf(h, "%d %q\n", c.Cost, c.Name)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Hash is a number for a name, the same everywhere, that has nothing to do with its order.
func Hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// loads is a heap of parts, that with the least load first.
type loads []struct {
	part int
	cost Cost
}

func (l loads) Len() int { return len(l) }
func (l loads) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(l[i].cost, l[j].cost), cmp.Compare(l[i].part, l[j].part)) < 0
}
func (l loads) Swap(i, j int) { l[i], l[j] = l[j], l[i] }

// Push and Pop are for heap.Interface; parts do not come and go.
func (l *loads) Push(any) {}
func (l *loads) Pop() any { return nil }
