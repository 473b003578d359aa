package numpypickle

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/optool/optool/internal/wholefile"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

var le = binary.LittleEndian

// Sizes of the framing of protocol 4 and of the batches that containers are
// written in.
//
// Source: CPython Lib/pickle.py, _Framer and _Pickler.
const (
	frameTarget = 64 << 10
	frameMin    = 4
	batch       = 1000
)

// maxDepth bounds the nesting of what is written.
const maxDepth = 900

// WriteFile writes v to path. The file appears whole or not at all.
func WriteFile(path string, v value.Value) error {
	return wholefile.Write(path, func(f *os.File) error {
		w := bufio.NewWriterSize(f, 1<<20)
		if err := Write(w, v); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return w.Flush()
	})
}

// Write writes v as pickle.dump(v, w, protocol=4) does. It fails for values
// that the kit's data cannot hold: opaque ones, sets, named tuples, tensors of
// dtypes that numpy lacks (bfloat16).
func Write(w io.Writer, v value.Value) error {
	p := &pickler{w: w, memo: map[any]int{}, framing: true}
	p.emit([]byte{0x80, 4})
	if err := p.save(v); err != nil {
		return err
	}
	p.op('.')
	p.closeFrame()
	return p.err
}

// A Label is a string that Python holds as an object apart from equal strings in
// the same value: it is written out although an equal string was written before.
// Equal Labels are one object. Read gives plain strings.
type Label string

// A pickler writes one pickle. The memo's keys are pointers of containers and
// the types below.
type pickler struct {
	w       io.Writer
	err     error // first error of w
	frame   []byte
	framing bool
	memo    map[any]int
	depth   int
}

type (
	memoString string
	memoName   string // of modules and classes
	memoLabel  Label
	memoDType  tensor.DType
	memoGlobal string
	memoBytes  string
)

// emit writes past the frame.
func (p *pickler) emit(b []byte) {
	if p.err == nil {
		_, p.err = p.w.Write(b)
	}
}

func (p *pickler) op(b ...byte) { p.frame = append(p.frame, b...) }

// closeFrame ends the frame and writes it.
func (p *pickler) closeFrame() {
	if len(p.frame) >= frameMin {
		var head [9]byte
		head[0] = 0x95
		le.PutUint64(head[1:], uint64(len(p.frame)))
		p.emit(head[:])
	}
	p.emit(p.frame)
	p.frame = p.frame[:0]
}

// boundary ends a frame that is large enough; it is called where an object
// begins.
func (p *pickler) boundary() {
	if len(p.frame) >= frameTarget {
		p.closeFrame()
	}
}

// payload writes an opcode with its length and data; large data stands between
// frames.
func (p *pickler) payload(head, data []byte) {
	if len(data) < frameTarget {
		p.op(head...)
		p.op(data...)
		return
	}
	p.closeFrame()
	p.emit(head)
	p.emit(data)
}

// get writes a reference to an object written before.
func (p *pickler) get(key any) bool {
	slot, ok := p.memo[key]
	switch {
	case !ok:
		return false
	case slot < 256:
		p.op('h', byte(slot))
	default:
		p.op('j')
		p.frame = le.AppendUint32(p.frame, uint32(slot))
	}
	return true
}

// memoize numbers the object on top of the stack; a nil key takes a number that
// nothing refers to.
func (p *pickler) memoize(key any) {
	if key == nil {
		key = new(byte)
	}
	p.memo[key] = len(p.memo)
	p.op(0x94)
}

func (p *pickler) save(v value.Value) error {
	if p.depth++; p.depth > maxDepth {
		return errors.New("value is nested too deep, or contains itself")
	}
	defer func() { p.depth-- }()
	p.boundary()
	switch v := v.(type) {
	case nil:
		p.op('N')
	case bool:
		p.bool(v)
	case int64:
		p.int(big.NewInt(v))
	case *big.Int:
		p.int(v)
	case float64:
		p.op('G')
		p.frame = binary.BigEndian.AppendUint64(p.frame, math.Float64bits(v))
	case string:
		return p.text(memoString(v), v)
	case Label:
		return p.text(memoLabel(v), string(v))
	case value.Bytes:
		p.bytes(v)
	case tensor.DType:
		name, ok := ScalarName(v)
		if !ok {
			return fmt.Errorf("numpy has no type %s", v)
		}
		p.global("numpy", name)
	case value.Slice:
		return p.slice(v)
	case *value.Sequence:
		return p.sequence(v)
	case *value.Dict:
		if v.Class != "" {
			return fmt.Errorf("a dict of class %s cannot be written to a numpy pickle", v.Class)
		}
		return p.dict(v)
	case *tensor.Tensor:
		return p.array(v)
	default:
		return fmt.Errorf("a %T cannot be written to a numpy pickle", v)
	}
	return nil
}

func (p *pickler) sequence(v *value.Sequence) error {
	switch {
	case v.Class != "" || v.Kind != value.List && v.Kind != value.Tuple:
		return fmt.Errorf("a %s cannot be written to a numpy pickle", value.Repr(v))
	case v.Kind == value.Tuple:
		return p.tuple(v, v.Items...)
	}
	return p.list(v)
}

func (p *pickler) bool(b bool) {
	if b {
		p.op(0x88)
	} else {
		p.op(0x89)
	}
}

func (p *pickler) int(n *big.Int) {
	if n.IsInt64() {
		switch i := n.Int64(); {
		case i >= 0 && i < 1<<8:
			p.op('K', byte(i))
			return
		case i >= 0 && i < 1<<16:
			p.op('M', byte(i), byte(i>>8))
			return
		case i >= math.MinInt32 && i <= math.MaxInt32:
			p.op('J')
			p.frame = le.AppendUint32(p.frame, uint32(i))
			return
		}
	}
	// Two's complement, least significant byte first, as short as it goes.
	size := n.BitLen()/8 + 1
	if n.Sign() < 0 {
		size = new(big.Int).Not(n).BitLen()/8 + 1
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	b := n.FillBytes(make([]byte, size))
	slices.Reverse(b)
	p.op(0x8a, byte(size))
	p.op(b...)
}

// text writes a string that key stands for.
func (p *pickler) text(key any, s string) error {
	if p.get(key) {
		return nil
	}
	if !utf8.ValidString(s) || len(s) > math.MaxInt32 {
		return fmt.Errorf("string of %d bytes is too long or not UTF-8", len(s))
	}
	head := []byte{0x8c, byte(len(s))}
	if len(s) > 0xff {
		head = le.AppendUint32([]byte{'X'}, uint32(len(s)))
	}
	p.payload(head, []byte(s))
	p.memoize(key)
	return nil
}

// bytes writes b. Python has one object of each single byte and one that is
// empty.
func (p *pickler) bytes(b []byte) {
	var key any
	if len(b) <= 1 {
		key = memoBytes(b)
		if p.get(key) {
			return
		}
	}
	var head []byte
	switch n := len(b); {
	case n <= 0xff:
		head = []byte{'C', byte(n)}
	case n > math.MaxUint32:
		head = le.AppendUint64([]byte{0x8e}, uint64(n))
	default:
		head = le.AppendUint32([]byte{'B'}, uint32(n))
	}
	p.payload(head, b)
	p.memoize(key)
}

func (p *pickler) global(module, name string) {
	key := memoGlobal(module + "." + name)
	if p.get(key) {
		return
	}
	for _, s := range []string{module, name} {
		p.boundary()
		p.text(memoName(s), s) // short and ASCII
	}
	p.op(0x93)
	p.memoize(key)
}

// reduce calls the global on the stack with the tuple that args leaves there.
func (p *pickler) reduce(key any, args func() error) error {
	if err := args(); err != nil {
		return err
	}
	p.op('R')
	p.memoize(key)
	return nil
}

// tuple writes items as a tuple; key, if not nil, is what later references
// name.
func (p *pickler) tuple(key *value.Sequence, items ...value.Value) error {
	if len(items) == 0 {
		p.op(')')
		return nil
	}
	if key != nil && p.get(key) {
		return nil
	}
	if len(items) > 3 {
		p.op('(')
	}
	for _, it := range items {
		if err := p.save(it); err != nil {
			return err
		}
	}
	p.endTuple(len(items))
	if key == nil {
		p.memoize(nil)
	} else {
		p.memoize(key)
	}
	return nil
}

func (p *pickler) endTuple(n int) {
	if n > 3 {
		p.op('t')
	} else {
		p.op(0x84 + byte(n))
	}
}

func (p *pickler) list(l *value.Sequence) error {
	if p.get(l) {
		return nil
	}
	p.op(']')
	p.memoize(l)
	return p.batches(len(l.Items), 'a', 'e', func(i int) error { return p.save(l.Items[i]) })
}

// slice writes a slice of integers; equal slices are one object, as they are
// where the parameters of a case stand twice in its file.
func (p *pickler) slice(s value.Slice) error {
	for _, part := range []value.Value{s.Start, s.Stop, s.Step} {
		if _, isInt := part.(int64); part != nil && !isInt {
			return fmt.Errorf("a %s cannot be written to a numpy pickle", value.Repr(s))
		}
	}
	if p.get(s) {
		return nil
	}
	p.global("builtins", "slice")
	return p.reduce(s, func() error { return p.tuple(nil, s.Start, s.Stop, s.Step) })
}

func (p *pickler) dict(d *value.Dict) error {
	if p.get(d) {
		return nil
	}
	p.op('}')
	p.memoize(d)
	err := p.batches(len(d.Items), 's', 'u', func(i int) error {
		if err := p.save(d.Items[i].Key); err != nil {
			return err
		}
		return p.save(d.Items[i].Value)
	})
	if n := len(d.Items); n > 1 && n%batch == 0 {
		p.op('(', 'u') // the pickler notices the end of a dict one batch late
	}
	return err
}

// batches writes n items: a single one with one, more above marks with many.
func (p *pickler) batches(n int, one, many byte, item func(i int) error) error {
	if n == 1 {
		if err := item(0); err != nil {
			return err
		}
		p.op(one)
		return nil
	}
	for i := 0; i < n; {
		p.op('(')
		for end := min(i+batch, n); i < end; i++ {
			if err := item(i); err != nil {
				return err
			}
		}
		p.op(many)
	}
	return nil
}
