package pthformat

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// argKind is how the argument of an opcode is encoded.
type argKind uint8

const (
	argNone  argKind = iota
	argFixed         // size bytes
	argLine          // up to a newline
	argLines         // two lines: module, name
	argLen1          // 1-byte length, then bytes
	argLen4          // 4-byte length
	argLen8          // 8-byte length
)

// An opcode is one row of the table of pickle opcodes: its argument and what
// it takes from the stack and leaves there.
type opcode struct {
	name   string
	arg    argKind
	size   uint8 // of argFixed
	text   bool  // the argument is a string
	toMark bool  // takes everything down to the topmost mark, and the mark
	pop    uint8 // takes so many items (below the mark if toMark)
	push   uint8 // leaves so many
	proto  uint8 // protocol that introduced it
}

// opcodes lists the opcodes of protocols 0 to 5 that a saved object can hold.
// Missing on purpose: EXT1, EXT2, EXT4 (the extension registry of the process)
// and NEXT_BUFFER, READONLY_BUFFER (data outside the pickle).
//
// Source: CPython Lib/pickletools.py.
var opcodes = [256]opcode{
	'(': {name: "MARK"}, '.': {name: "STOP"}, '0': {name: "POP"}, '1': {name: "POP_MARK", toMark: true},
	'2': {name: "DUP"},
	'F': {name: "FLOAT", arg: argLine, push: 1}, 'I': {name: "INT", arg: argLine, push: 1},
	'L': {name: "LONG", arg: argLine, push: 1},
	'J': {name: "BININT", arg: argFixed, size: 4, push: 1}, 'K': {name: "BININT1", arg: argFixed, size: 1, push: 1},
	'M': {name: "BININT2", arg: argFixed, size: 2, push: 1}, 'G': {name: "BINFLOAT", arg: argFixed, size: 8, push: 1},
	'N': {name: "NONE", push: 1}, 'P': {name: "PERSID", arg: argLine, push: 1},
	'Q': {name: "BINPERSID", pop: 1, push: 1},
	'R': {name: "REDUCE", pop: 2, push: 1}, 'b': {name: "BUILD", pop: 2, push: 1},
	'S': {name: "STRING", arg: argLine, text: true, push: 1}, 'V': {name: "UNICODE", arg: argLine, text: true, push: 1},
	'T': {name: "BINSTRING", arg: argLen4, text: true, push: 1}, 'U': {name: "SHORT_BINSTRING", arg: argLen1,
		text: true, push: 1},
	'X': {name: "BINUNICODE", arg: argLen4, text: true, push: 1},
	'a': {name: "APPEND", pop: 2, push: 1}, 'e': {name: "APPENDS", toMark: true, pop: 1, push: 1},
	'c': {name: "GLOBAL", arg: argLines, push: 1}, 'i': {name: "INST", arg: argLines, toMark: true, push: 1},
	'o': {name: "OBJ", toMark: true, push: 1},
	'd': {name: "DICT", toMark: true, push: 1}, '}': {name: "EMPTY_DICT", push: 1}, 's': {name: "SETITEM", pop: 3,
		push: 1}, 'u': {name: "SETITEMS", toMark: true, pop: 1, push: 1},
	'g': {name: "GET", arg: argLine}, 'h': {name: "BINGET", arg: argFixed, size: 1},
	'j': {name: "LONG_BINGET", arg: argFixed, size: 4},
	'p': {name: "PUT", arg: argLine}, 'q': {name: "BINPUT", arg: argFixed, size: 1},
	'r': {name: "LONG_BINPUT", arg: argFixed, size: 4},
	'l': {name: "LIST", toMark: true, push: 1}, ']': {name: "EMPTY_LIST", push: 1}, 't': {name: "TUPLE", toMark: true,
		push: 1}, ')': {name: "EMPTY_TUPLE", push: 1},

	0x80: {name: "PROTO", arg: argFixed, size: 1, proto: 2}, 0x81: {name: "NEWOBJ", pop: 2, push: 1, proto: 2},
	0x85: {name: "TUPLE1", pop: 1, push: 1, proto: 2}, 0x86: {name: "TUPLE2", pop: 2, push: 1, proto: 2},
	0x87: {name: "TUPLE3", pop: 3, push: 1, proto: 2},
	0x88: {name: "NEWTRUE", push: 1, proto: 2}, 0x89: {name: "NEWFALSE", push: 1, proto: 2},
	0x8a: {name: "LONG1", arg: argLen1, push: 1, proto: 2}, 0x8b: {name: "LONG4", arg: argLen4, push: 1, proto: 2},

	'B': {name: "BINBYTES", arg: argLen4, push: 1, proto: 3}, 'C': {name: "SHORT_BINBYTES", arg: argLen1,
		push: 1, proto: 3},

	0x8c: {name: "SHORT_BINUNICODE", arg: argLen1, text: true, push: 1, proto: 4},
	0x8d: {name: "BINUNICODE8", arg: argLen8, text: true, push: 1, proto: 4},
	0x8e: {name: "BINBYTES8", arg: argLen8, push: 1, proto: 4}, 0x8f: {name: "EMPTY_SET", push: 1, proto: 4},
	0x90: {name: "ADDITEMS", toMark: true, pop: 1, push: 1, proto: 4}, 0x91: {name: "FROZENSET", toMark: true,
		push: 1, proto: 4},
	0x92: {name: "NEWOBJ_EX", pop: 3, push: 1, proto: 4}, 0x93: {name: "STACK_GLOBAL", pop: 2, push: 1, proto: 4},
	0x94: {name: "MEMOIZE", proto: 4}, 0x95: {name: "FRAME", arg: argFixed, size: 8, proto: 4},

	0x96: {name: "BYTEARRAY8", arg: argLen8, push: 1, proto: 5},
}

// Limits of the walk that are not options.
const (
	highestProtocol = 5
	// maxLong is the length of an integer in bytes (LONG1, LONG4), maxDigits
	// in decimal digits (LONG): the machine's conversion is quadratic, and
	// CPython refuses longer decimal integers too.
	maxLong   = 1 << 10
	maxDigits = 4300
	// maxGlobals is far above the number of classes a saved object can name.
	maxGlobals = 1000
)

// hooked are the modules of globals that the machine answers itself, without
// asking FindClass: collections.OrderedDict, __builtin__.object and
// copy_reg._reconstructor. The machine gets them with another first byte (see
// cursor), so that our classes are used for all of them (the machine's
// OrderedDict refuses what Python 2 wrote).
var hooked = map[string]bool{"collections.OrderedDict": true, "__builtin__.object": true,
	"copy_reg._reconstructor": true}

const hookByte = '\x00'

func unhook(module string) string {
	switch module {
	case "\x00ollections":
		return "collections"
	case "\x00_builtin__":
		return "__builtin__"
	case "\x00opy_reg":
		return "copy_reg"
	}
	return module
}

// A program is a pickle that has been walked: it is safe to run.
type program struct {
	pickle   []byte // the machine reads it through a cursor
	length   int    // bytes of the pickle up to and including STOP
	protocol int
	globals  []string // in order of first appearance
	// read are the memo slots that are read: most pickles put every object into the memo and read few of them.
	read map[uint32]bool
	// puts and memoizes say how slots are set. Slots of MEMOIZE have their numbers by order only where nothing
	// else sets any.
	puts, memoizes bool
}

// frameLen is the length of a FRAME opcode with its argument.
const frameLen = 9

// extent is the length of an opcode at the start of b with its argument; b has been walked.
func (op *opcode) extent(b []byte) int {
	switch op.arg {
	case argFixed:
		return 1 + int(op.size)
	case argLine:
		return 2 + bytes.IndexByte(b[1:], '\n')
	case argLines:
		n := 2 + bytes.IndexByte(b[1:], '\n')
		return n + 1 + bytes.IndexByte(b[n:], '\n')
	case argLen1:
		return 2 + int(b[1])
	case argLen4:
		return 5 + int(le.Uint32(b[1:]))
	case argLen8:
		return 9 + int(le.Uint64(b[1:]))
	}
	return 1
}

// item is what the walk knows of an object on the stack: where its text
// stands in the pickle, if it is a string.
type item struct{ from, to int32 }

// walker follows the opcodes without making any object.
type walker struct {
	p       []byte
	pos     int // of the opcode
	next    int // behind it
	lim     Limits
	stack   []item
	marks   []int
	memo    []item // slots 0, 1, 2, ... as a pickler numbers them
	sparse  map[uint32]item
	objects int
	frame   int // end of the frame, 0 outside
	prog    program
}

// walk checks the pickle at the start of p: every opcode is known, every
// length lies inside, every mark is closed, every memo slot is set before it
// is read, text is UTF-8, no global is forbidden, and the limits hold. Nothing
// larger than the pickle is allocated. A large file permits more objects only in a large pickle.
func walk(p []byte, lim Limits) (*program, *FormatError) {
	lim.Objects = min(lim.Objects, max(fewObjects, len(p)/2))
	w := walker{p: p, lim: lim, prog: program{pickle: p, read: map[uint32]bool{}}}
	for {
		if w.next >= len(p) {
			return nil, w.truncated("no STOP")
		}
		w.pos = w.next
		w.next++
		op := &opcodes[p[w.pos]]
		if op.name == "" {
			return nil, w.fail("unknown opcode")
		}
		if err := w.step(p[w.pos], op); err != nil {
			return nil, err
		}
		if p[w.pos] == '.' {
			return &w.prog, nil
		}
	}
}

func (w *walker) fail(format string, args ...any) *FormatError {
	return malformed("malformed pickle: opcode 0x%02x: %s", w.p[w.pos], fmt.Sprintf(format, args...)).at(int64(w.pos))
}

// truncated reports an error that more bytes could cure.
func (w *walker) truncated(format string, args ...any) *FormatError {
	e := malformed("truncated pickle: %s", fmt.Sprintf(format, args...)).at(int64(w.pos))
	e.short = true
	return e
}

// beyond reports a length that reaches past the end.
func (w *walker) beyond(format string, args ...any) *FormatError {
	e := malformed("opcode 0x%02x: %s", w.p[w.pos], fmt.Sprintf(format, args...)).at(int64(w.pos))
	e.short = true
	return e
}

// step checks one opcode and does what it does to the stack.
func (w *walker) step(code byte, op *opcode) *FormatError {
	lo, hi, err := w.argument(op)
	if err != nil {
		return err
	}
	if err := w.leaveFrame(op, hi); err != nil {
		return err
	}
	if op.toMark && len(w.marks) == 0 {
		return w.fail("%s without MARK", op.name)
	}
	if act := actions[code]; act != nil {
		return act(w, lo, hi)
	}
	if check := checks[code]; check != nil {
		if err := check(w, op, lo, hi); err != nil {
			return err
		}
	}
	if op.toMark {
		w.stack = w.stack[:w.marks[len(w.marks)-1]]
		w.marks = w.marks[:len(w.marks)-1]
	}
	if w.segment() < int(op.pop) {
		return w.fail("%s needs %d objects, the stack has %d", op.name, op.pop, w.segment())
	}
	w.stack = w.stack[:len(w.stack)-int(op.pop)]
	if op.push == 0 {
		return nil
	}
	return w.push(pushed(code, op, lo, hi))
}

// pushed is what an opcode with an argument at [lo, hi) pushes: where its text is, if it has one.
func pushed(code byte, op *opcode, lo, hi int) item {
	if !op.text {
		return item{}
	}
	switch code { // a line is text without its newline and quotes
	case 'S':
		lo, hi = lo+1, hi-2
	case 'V':
		hi--
	}
	return item{int32(lo), int32(hi)}
}

// leaveFrame checks an opcode that ends at hi against the frame it is in, which ends with it or later.
func (w *walker) leaveFrame(op *opcode, hi int) *FormatError {
	switch {
	case w.frame == 0 || hi < w.frame:
		return nil
	case hi > w.frame:
		return w.fail("%s reaches past the end of its frame", op.name)
	}
	w.frame = 0
	return nil
}

// actions are the opcodes that do something else than pop and push objects; the argument is at [lo, hi).
var actions = [256]func(w *walker, lo, hi int) *FormatError{
	'(':  (*walker).mark,
	'.':  (*walker).stop,
	'0':  (*walker).pop,
	'2':  (*walker).dup,
	0x80: (*walker).proto,
	0x95: (*walker).enterFrame,
	'g':  (*walker).recall, 'h': (*walker).recall, 'j': (*walker).recall,
	'p': (*walker).keep, 'q': (*walker).keep, 'r': (*walker).keep,
	0x94: (*walker).memoize,
}

// checks are what opcodes need besides the numbers of objects that they pop.
var checks = [256]func(w *walker, op *opcode, lo, hi int) *FormatError{
	'c': (*walker).checkGlobal, 'i': (*walker).checkGlobal,
	0x93: func(w *walker, _ *opcode, _, _ int) *FormatError { return w.stackGlobal() },
	'd':  (*walker).checkPairs, 'u': (*walker).checkPairs,
	'o': func(w *walker, _ *opcode, _, _ int) *FormatError {
		if w.segment() == 0 {
			return w.fail("OBJ without class")
		}
		return nil
	},
}

func (w *walker) mark(_, _ int) *FormatError {
	if len(w.marks) >= w.lim.Depth {
		return w.fail("more than %d open marks", w.lim.Depth)
	}
	w.marks = append(w.marks, len(w.stack))
	return nil
}

func (w *walker) stop(_, hi int) *FormatError {
	if len(w.marks) > 0 || len(w.stack) != 1 {
		return w.fail("STOP with %d objects and %d open marks", len(w.stack), len(w.marks))
	}
	w.prog.length = hi
	return nil
}

// pop drops an object, or a mark that is on top.
func (w *walker) pop(_, _ int) *FormatError {
	switch {
	case w.segment() > 0:
		w.stack = w.stack[:len(w.stack)-1]
	case len(w.marks) > 0:
		w.marks = w.marks[:len(w.marks)-1]
	default:
		return w.fail("stack is empty")
	}
	return nil
}

func (w *walker) dup(_, _ int) *FormatError {
	if w.segment() == 0 {
		return w.fail("stack is empty")
	}
	return w.push(w.stack[len(w.stack)-1])
}

// recall pushes what is in the memo slot that the opcode names.
func (w *walker) recall(_, hi int) *FormatError { return w.get(slot(w.p[w.pos:hi])) }

// keep puts the object on top into the memo slot that the opcode names, memoize into the next.
func (w *walker) keep(_, hi int) *FormatError {
	w.prog.puts = true
	return w.put(slot(w.p[w.pos:hi]))
}

func (w *walker) memoize(_, _ int) *FormatError {
	w.prog.memoizes = true
	return w.put(int64(len(w.memo) + len(w.sparse)))
}

func (w *walker) proto(lo, _ int) *FormatError {
	if w.p[lo] > highestProtocol {
		return malformed("unsupported pickle protocol %d", w.p[lo]).at(int64(w.pos))
	}
	w.prog.protocol = int(w.p[lo])
	return nil
}

func (w *walker) checkGlobal(_ *opcode, lo, hi int) *FormatError {
	module, name, _ := strings.Cut(string(w.p[lo:hi-1]), "\n")
	return w.global(module, name)
}

func (w *walker) checkPairs(op *opcode, _, _ int) *FormatError {
	if w.segment()%2 != 0 {
		return w.fail("%s with a key without value", op.name)
	}
	return nil
}

// segment is the number of objects above the topmost mark.
func (w *walker) segment() int {
	if len(w.marks) == 0 {
		return len(w.stack)
	}
	return len(w.stack) - w.marks[len(w.marks)-1]
}

func (w *walker) push(it item) *FormatError {
	if w.objects++; w.objects > w.lim.Objects {
		return w.fail("more than %d objects", w.lim.Objects)
	}
	w.stack = append(w.stack, it)
	return nil
}

// argument finds the argument of the opcode at pos and checks it.
func (w *walker) argument(op *opcode) (lo, hi int, err *FormatError) {
	switch op.arg {
	case argNone:
		return w.next, w.next, nil
	case argFixed:
		lo, hi, err = w.counted(op, w.next, uint64(op.size))
	case argLen1:
		lo, hi, err = w.prefixed(op, 1)
	case argLen4:
		lo, hi, err = w.prefixed(op, 4)
	case argLen8:
		lo, hi, err = w.prefixed(op, 8)
	default:
		lo, hi, err = w.lines(op)
	}
	if err != nil {
		return 0, 0, err
	}
	if (op.text || op.arg == argLines) && !utf8.Valid(w.p[lo:hi]) {
		return 0, 0, w.fail("%s is not UTF-8", op.name)
	}
	w.next = hi
	return lo, hi, nil
}

// counted finds so many bytes at a place.
func (w *walker) counted(op *opcode, lo int, n uint64) (int, int, *FormatError) {
	if left := len(w.p) - lo; n > uint64(left) {
		return 0, 0, w.truncated("%s needs %d bytes, %d are left", op.name, n, left)
	}
	return lo, lo + int(n), nil
}

// prefixed finds bytes behind their number, which has a width of its own.
func (w *walker) prefixed(op *opcode, width int) (lo, hi int, err *FormatError) {
	at, lo, err := w.counted(op, w.next, uint64(width))
	if err != nil {
		return 0, 0, err
	}
	var n uint64
	for i := width - 1; i >= 0; i-- {
		n = n<<8 | uint64(w.p[at+i])
	}
	if left := len(w.p) - lo; n > uint64(left) {
		return 0, 0, w.beyond("length %d exceeds %d bytes left", n, left)
	}
	if isLong := op.name == "LONG1" || op.name == "LONG4"; isLong && (n == 0 || n > maxLong) {
		return 0, 0, w.fail("integer of %d bytes, the limit is 1 to %d", n, maxLong)
	}
	return lo, lo + int(n), nil
}

// lines finds one line, or the two of a global, with their newlines.
func (w *walker) lines(op *opcode) (lo, hi int, err *FormatError) {
	lo, hi = w.next, w.next
	lines := 1
	if op.arg == argLines {
		lines = 2
	}
	for range lines {
		n := bytes.IndexByte(w.p[hi:], '\n')
		if n < 0 {
			return 0, 0, w.truncated("%s without newline", op.name)
		}
		hi += n + 1
	}
	return lo, hi, w.checkLine(op, w.p[lo:hi-1])
}

// checkLine checks the textual arguments of protocol 0 that the machine would
// take for something else.
func (w *walker) checkLine(op *opcode, line []byte) *FormatError {
	switch op.name {
	case "INT", "LONG":
		digits := bytes.TrimSuffix(line, []byte("L"))
		if len(digits) > maxDigits {
			return w.fail("integer of %d digits, the limit is %d", len(digits), maxDigits)
		}
		if len(bytes.TrimLeft(bytes.TrimPrefix(digits, []byte("-")), "0123456789")) > 0 || len(digits) == 0 {
			return w.fail("%s %q is not a number", op.name, digits)
		}
	case "FLOAT":
		if _, err := strconv.ParseFloat(string(line), 64); err != nil {
			return w.fail("FLOAT %q is not a number", line)
		}
	case "STRING", "UNICODE":
		if n := len(line); op.name == "STRING" && (n < 2 || line[0] != line[n-1] || line[0] != '\'' && line[0] != '"') {
			return w.fail("STRING without quotes")
		}
		if bytes.IndexByte(line, '\\') >= 0 {
			return w.fail("%s with escapes is not supported", op.name)
		}
	}
	return nil
}

// enterFrame checks the length of a frame; the machine gets none.
func (w *walker) enterFrame(lo, hi int) *FormatError {
	n := le.Uint64(w.p[lo:hi])
	if w.frame > 0 {
		return w.fail("FRAME inside a frame")
	}
	if left := uint64(len(w.p) - hi); n > left {
		return w.beyond("frame of %d bytes exceeds %d bytes left", n, left)
	}
	if n > 0 {
		w.frame = hi + int(n)
	}
	return nil
}

// slot is the memo slot that an opcode names: a line, or 1 or 4 bytes. Beyond 32 bits it is -1.
func slot(b []byte) int64 {
	switch code, arg := b[0], b[1:]; code {
	case 'g', 'p':
		n, err := strconv.ParseUint(string(arg[:len(arg)-1]), 10, 32)
		if err != nil {
			return -1
		}
		return int64(n)
	case 'h', 'q':
		return int64(arg[0])
	default:
		return int64(le.Uint32(arg))
	}
}

// badSlot is the error of a slot that is no number.
func (w *walker) badSlot() *FormatError {
	line, _, _ := bytes.Cut(w.p[w.pos+1:], []byte("\n"))
	return w.fail("memo slot %q is not a number of 32 bits", line)
}

func (w *walker) get(slot int64) *FormatError {
	if slot < 0 {
		return w.badSlot()
	}
	it, ok := w.sparse[uint32(slot)]
	if slot < int64(len(w.memo)) {
		it, ok = w.memo[slot], true
	}
	if !ok {
		return w.fail("memo slot %d was never set", slot)
	}
	w.prog.read[uint32(slot)] = true
	return w.push(it)
}

func (w *walker) put(slot int64) *FormatError {
	if slot < 0 {
		return w.badSlot()
	}
	if w.segment() == 0 {
		return w.fail("stack is empty")
	}
	if slot > math.MaxUint32 {
		return w.fail("memo slot %d is out of range", slot)
	}
	top := w.stack[len(w.stack)-1]
	switch {
	case slot < int64(len(w.memo)):
		w.memo[slot] = top
	case len(w.memo)+len(w.sparse) >= w.lim.Objects:
		return w.fail("more than %d memo slots", w.lim.Objects)
	case slot == int64(len(w.memo)) && len(w.sparse) == 0:
		w.memo = append(w.memo, top)
	default:
		if w.sparse == nil {
			w.sparse = map[uint32]item{}
		}
		w.sparse[uint32(slot)] = top
	}
	return nil
}

// stackGlobal checks the global whose module and name are on the stack.
func (w *walker) stackGlobal() *FormatError {
	if w.segment() < 2 {
		return w.fail("STACK_GLOBAL needs 2 objects, the stack has %d", w.segment())
	}
	m, n := w.stack[len(w.stack)-2], w.stack[len(w.stack)-1]
	if m.to == 0 || n.to == 0 {
		return w.fail("STACK_GLOBAL needs two strings")
	}
	return w.global(string(w.p[m.from:m.to]), string(w.p[n.from:n.to]))
}

func (w *walker) global(module, name string) *FormatError {
	if why := checkGlobal(module, name); why != "" {
		return malformed("%s", why).at(int64(w.pos))
	}
	full := module + "." + name
	for _, g := range w.prog.globals {
		if g == full {
			return nil
		}
	}
	if len(w.prog.globals) == maxGlobals {
		return w.fail("more than %d different globals", maxGlobals)
	}
	w.prog.globals = append(w.prog.globals, full)
	return nil
}
