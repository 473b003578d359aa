package devicebridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/optool/optool/devicebridge/diopi"
)

// Messages to and from the worker: a length (uint32), the number of the request
// (uint32), then fields, all little-endian. native/worker/wire.h and decode.cc are the other side.

type answer uint8

const (
	answerHello answer = iota + 1
	answerCall
	answerAlive
	answerDone
	answerProblem
)

// fitness is whether other plans can run in a worker.
type fitness uint8

const (
	alone   fitness = iota // as before
	crowded                // it has threads of the library, which may still write what their call was given
	worn                   // no: addresses or descriptors have run out
)

// Flags of a tensor.
const (
	tensorOnHost = 1 << iota
	tensorHasValue
	tensorSparse
	tensorHasStride
)

type subject uint8

// What a finding is about; 0 is nothing in the plan.
const (
	subjectTensor subject = iota + 1
	subjectAlloc
	subjectOut
)

var le = binary.LittleEndian

// An encoder appends fields to a message.
type encoder struct{ b []byte }

func (e *encoder) u8(v uint8)       { e.b = append(e.b, v) }
func (e *encoder) u32(n int)        { e.b = le.AppendUint32(e.b, uint32(n)) }
func (e *encoder) u64(v uint64)     { e.b = le.AppendUint64(e.b, v) }
func (e *encoder) i64(v int64)      { e.u64(uint64(v)) }
func (e *encoder) real(v float64)   { e.u64(math.Float64bits(v)) }
func (e *encoder) tag(f diopi.Form) { e.u8(uint8(f)) }
func (e *encoder) text(s string)    { e.u32(len(s)); e.b = append(e.b, s...) }
func (e *encoder) ints64(v []int64) { appendInts(e, v) }
func (e *encoder) ints(v []int)     { appendInts(e, v) }

func appendInts[T int | int64](e *encoder, v []T) {
	e.u32(len(v))
	for _, x := range v {
		e.i64(int64(x))
	}
}

var errShort = errors.New("the worker's answer ends early")

// A decoder reads fields; after the first error it gives zeros.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) take(n int) []byte {
	if d.err == nil && (n < 0 || n > len(d.b)) {
		d.err = errShort
	}
	if d.err != nil {
		return make([]byte, max(0, min(n, 8)))
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) u8() uint8   { return d.take(1)[0] }
func (d *decoder) u32() int    { return int(le.Uint32(d.take(4))) }
func (d *decoder) u64() uint64 { return le.Uint64(d.take(8)) }
func (d *decoder) i64() int64  { return int64(d.u64()) }

// text is what a library says about itself or a call, in one line that may be printed.
func (d *decoder) text() string {
	b := d.take(d.u32())
	if d.err != nil {
		return ""
	}
	return printable(string(b))
}

// printable is a text without what a terminal would obey: ends of lines become
// spaces, other control characters and what is no UTF-8 U+FFFD.
func printable(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r):
			return utf8.RuneError
		}
		return r
	}, s))
}

func (d *decoder) ints() []int {
	n := d.u32()
	if d.err == nil && n > len(d.b)/8 {
		d.err = errShort
	}
	if d.err != nil {
		return nil
	}
	v := make([]int, n)
	for i := range v {
		v[i] = int(d.i64())
	}
	return v
}

// count reads the length of a list whose items take at least size bytes each.
func (d *decoder) count(size int) int {
	n := d.u32()
	if d.err == nil && n > len(d.b)/size {
		d.err = errShort
	}
	if d.err != nil {
		return 0
	}
	return n
}

// index reads the number of an item of a list of n.
func (d *decoder) index(n int, of string) int {
	i := d.u32()
	if d.err == nil && i >= n {
		d.err = fmt.Errorf("the worker's answer names %s %d of %d", of, i, n)
	}
	if d.err != nil {
		return -1
	}
	return i
}
