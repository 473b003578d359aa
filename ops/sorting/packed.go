package sorting

import (
	"math/bits"
	"sync"

	"github.com/optool/optool/tensor"
)

// A packing is how the keys of a row and their places fit one word each: a key without the low bits that say nothing,
// less the least one, above its place. Words have the order of keys, those of equal keys that of places.
type packing struct {
	drop  int    // low bits of keys that say nothing
	flip  uint64 // all ones where the order is descending
	least uint64
	width int    // bits of what is left of a key
	place int    // bits of a place
	vary  uint64 // bits that differ between words
}

// narrowBits are the low bits that the float64 keys of float32 numbers of one sign share.
const narrowBits = 52 - 23

// packingOf is the packing of a row of elements of dt, or false if a key and a place do not fit a word.
func packingOf(row []uint64, dt tensor.DType, flip uint64) (p packing, ok bool) {
	p.flip = flip
	if dt.IsFloat() && dt != tensor.Float64 {
		p.drop = narrowBits
	}
	least, most := ^uint64(0), uint64(0)
	for _, key := range row {
		least, most = min(least, key^p.flip), max(most, key^p.flip)
	}
	p.least = least >> p.drop
	p.width, p.place = bits.Len64(most>>p.drop-p.least), bits.Len(uint(len(row)-1))
	return p, p.width+p.place <= 64
}

// words stores the words of row in dst, in the order of places.
func (p *packing) words(dst, row []uint64) {
	all, any := ^uint64(0), uint64(0)
	for i, key := range row {
		x := ((key^p.flip)>>p.drop-p.least)<<p.place | uint64(i)
		dst[i] = x
		all, any = all&x, any|x
	}
	p.vary = any &^ all
}

// places stores the places of words.
func (p *packing) places(dst []int64, words []uint64) {
	for i := range dst {
		dst[i] = int64(words[i] & (1<<p.place - 1))
	}
}

// sort sorts words that are in the order of places. room is for as many; the result lies in either.
func (p *packing) sort(words, room []uint64) []uint64 {
	if len(words) < manyRanked {
		return p.radix(words, room)
	}
	half := len(words) / 2
	a, b := words[:half], words[half:]
	var wg sync.WaitGroup
	wg.Go(func() { a = p.radix(a, room[:half]) })
	b = p.radix(b, room[half:])
	wg.Wait()
	to := words
	if &a[0] == &words[0] { // then b lies there too: digits are left out of both or none
		to = room
	}
	merge(to, a, b)
	return to
}

// digit is the number of bits that a pass sorts by.
const digit = 9

// radix is sort by one goroutine, from the lowest digit up; digits in which no words differ are left out.
func (p *packing) radix(words, room []uint64) []uint64 {
	var counts [64/digit + 1][1 << digit]int
	passes := (p.width + digit - 1) / digit
	for _, x := range words {
		x >>= p.place
		for d := range passes {
			counts[d][x&(1<<digit-1)]++
			x >>= digit
		}
	}
	for d := range passes {
		next, shift := &counts[d], p.place+d*digit
		if p.vary>>shift&(1<<digit-1) == 0 {
			continue
		}
		at := 0
		for i, n := range next {
			next[i] = at
			at += n
		}
		for _, x := range words {
			q := &next[x>>shift&(1<<digit-1)]
			room[*q] = x
			*q++
		}
		words, room = room, words
	}
	return words
}

// merge stores the words of two sorted halves in order: the lower half forwards and the upper one backwards. Which is
// the next word is computed, not jumped to: it cannot be foreseen.
func merge(to, a, b []uint64) {
	half := len(to) / 2
	var wg sync.WaitGroup
	wg.Go(func() {
		i, j := 0, 0
		for n := range to[:half] {
			x, y := a[i], b[j]
			_, second := bits.Sub64(y, x, 0)
			to[n] = min(x, y)
			j += int(second)
			i += 1 - int(second)
		}
	})
	i, j := len(a), len(b)
	for n := len(to) - 1; n >= half && i > 0 && j > 0; n-- {
		x, y := a[i-1], b[j-1]
		_, second := bits.Sub64(x, y, 0)
		to[n] = max(x, y)
		j -= int(second)
		i -= 1 - int(second)
	}
	if left := i + j - half; i == 0 { // of the last ones all come from one half
		copy(to[half:half+left], b[j-left:j])
	} else {
		copy(to[half:half+left], a[i-left:i])
	}
	wg.Wait()
}
