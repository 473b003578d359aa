package pthformat

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrNothingSaved is the cause of a FormatError of a file that is sound and empty:
// torch.save creates it, and leaves it when it meets something that it cannot pickle.
var ErrNothingSaved = errors.New("no data.pkl record: the writer stopped before its first value was saved, as torch " +
	"does at a memory format")

// A FormatError says what is wrong with a file and where. Open returns one for
// every file that is not a sound .pth file, and so does the first use of a
// storage whose record cannot be read; only errors of the operating system are
// returned as they are.
type FormatError struct {
	File   string // path as given to Open
	Record string // zip record ("data.pkl", "data/0"), or part of a legacy file; "" if none
	Offset int64  // byte offset inside Record, or inside the file if Record is ""; -1 if unknown
	Msg    string
	Err    error // cause, may be nil

	short bool // more bytes could cure it
}

// Error joins what is known: "a.pth: data.pkl: offset 1234: opcode 0x8c:
// length 5000000 exceeds 312 bytes left". It is one line that a terminal can
// show, whatever names the file holds.
func (e *FormatError) Error() string {
	var b strings.Builder
	part := func(s string) {
		if s == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(s)
	}
	part(e.File)
	part(e.Record)
	if e.Offset >= 0 {
		part(fmt.Sprintf("offset %d", e.Offset))
	}
	part(e.Msg)
	if e.Err != nil {
		part(e.Err.Error())
	}
	return Visible(b.String())
}

// Visible writes control characters and bytes that are no UTF-8 as Go does in
// strings.
func Visible(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 || unicode.IsControl(r) {
			quoted := strconv.Quote(s[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *FormatError) Unwrap() error { return e.Err }

// malformed returns a FormatError without a place; the caller that knows the
// record or the offset adds it.
func malformed(format string, args ...any) *FormatError {
	return &FormatError{Offset: -1, Msg: fmt.Sprintf(format, args...)}
}

// at sets the offset.
func (e *FormatError) at(offset int64) *FormatError {
	e.Offset = offset
	return e
}

// in sets the record.
func (e *FormatError) in(record string) *FormatError {
	e.Record = record
	return e
}
