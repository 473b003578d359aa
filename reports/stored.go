package reports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"slices"
)

// Results are the results of a run, in its order. Those of a recording stay in its files and
// are read each time they are looked at, so that memory does not grow with their number. Of those
// that are appended the first maxResults stay in memory, and others go to a temporary file.
type Results struct {
	kept  []*Result
	files []io.ReaderAt
	spans []span
	err   error

	temp  *os.File // of results that were appended
	lines *JSONLines
	size  int64 // of temp, in bytes
	n     int   // results that were appended
}

// A span is a part of a file, of whole lines.
type span struct {
	file     int
	from, to int64 // in bytes
}

// ResultsOf are results that are in memory.
func ResultsOf(kept ...*Result) *Results { return &Results{kept: kept} }

// Append adds a result. Results that cannot be stored are an error that Err tells.
func (r *Results) Append(x *Result) {
	r.n++
	if r.lines == nil && len(r.kept) < maxResults {
		r.kept = append(r.kept, x)
		return
	}
	if r.lines == nil {
		if r.temp, r.err = os.CreateTemp("", "optool-*.jsonl"); r.err == nil {
			_ = os.Remove(r.temp.Name()) // it ends with the process; where files in use cannot be removed, Close does
		}
		r.lines = NewJSONLines(&appender{r})
	}
	if r.err == nil {
		r.err = r.lines.Result(x)
	}
}

// An appender writes to the end of the temporary file of results.
type appender struct{ r *Results }

func (a *appender) Write(b []byte) (int, error) {
	n, err := a.r.temp.Write(b)
	a.r.add(a.r.temp, a.r.size, a.r.size+int64(n))
	a.r.size += int64(n)
	return n, err
}

// Len is how many results were appended.
func (r *Results) Len() int { return r.n }

// Parts yields the results in slices of at most maxResults.
func (r *Results) Parts() iter.Seq[[]*Result] {
	return func(yield func([]*Result) bool) {
		var part []*Result
		for x := range r.All() {
			if len(part) == maxResults {
				if !yield(part) {
					return
				}
				part = nil
			}
			part = append(part, x)
		}
		if len(part) > 0 {
			yield(part)
		}
	}
}

// Kept are the first results that were appended, at most maxResults: those that are in memory and can be changed.
func (r *Results) Kept() []*Result { return r.kept }

// Close gives the temporary file back, if there is one.
func (r *Results) Close() {
	if r.temp != nil {
		_ = r.temp.Close()
		_ = os.Remove(r.temp.Name())
	}
}

// add adds the results that stand in a part of a file.
func (r *Results) add(file io.ReaderAt, from, to int64) {
	i := slices.Index(r.files, file)
	if i < 0 {
		i = len(r.files)
		r.files = append(r.files, file)
	}
	if n := len(r.spans); n > 0 && r.spans[n-1].file == i && r.spans[n-1].to == from {
		r.spans[n-1].to = to
	} else if from < to {
		r.spans = append(r.spans, span{i, from, to})
	}
}

// All yields the results. It stops at one that does not read, which Err tells.
func (r *Results) All() iter.Seq[*Result] {
	return func(yield func(*Result) bool) {
		if r == nil {
			return
		}
		for _, x := range r.kept {
			if !yield(x) {
				return
			}
		}
		r.read(yield)
	}
}

// Err is why All stopped before the last one; nil if it did not.
func (r *Results) Err() error {
	if r == nil {
		return nil
	}
	return r.err
}

// blockSize is how many bytes of lines are decoded at once, or one line.
const blockSize = 256 << 10

// A block is lines from one file or several.
type block struct {
	text   []byte
	pieces []piece
	err    error // why it is the last one
}

// A piece is where the text of a block from a place on comes from.
type piece struct {
	at   int // in the block
	span span
}

// decoded is what the lines of a block hold, up to the first that does not read.
type decoded struct {
	results []*Result
	err     error
}

// maxDecoders is how many blocks are decoded side by side at most.
const maxDecoders = 8

// read yields the results that stand in files: blocks are decoded side by side, and handed
// on in their order.
func (r *Results) read(yield func(*Result) bool) {
	done := make(chan struct{})
	defer close(done)
	queue := make(chan chan decoded, min(runtime.GOMAXPROCS(0), maxDecoders)-1)
	go func() {
		defer close(queue)
		for b := range r.blocks {
			out := make(chan decoded, 1)
			select {
			case queue <- out:
				go func() { out <- r.decode(b) }()
			case <-done:
				return
			}
		}
	}()
	for out := range queue {
		d := <-out
		for _, x := range d.results {
			if !yield(x) {
				return
			}
		}
		if d.err != nil {
			r.err = d.err
			return
		}
	}
}

// blocks yields the lines of all spans.
func (r *Results) blocks(yield func(*block) bool) {
	b := &block{}
	for _, s := range r.spans {
		size := int64(blockSize)
		for at := s.from; at < s.to; {
			n := min(s.to-at, size)
			begin := len(b.text)
			b.text = append(b.text, make([]byte, n)...)
			if k, err := r.files[s.file].ReadAt(b.text[begin:], at); int64(k) < n {
				if errors.Is(err, io.EOF) {
					err = errors.New("the file is shorter than it was")
				}
				b.text, b.err = b.text[:begin], err
				yield(b)
				return
			}
			if at+n < s.to { // up to the end of a line
				whole := bytes.LastIndexByte(b.text[begin:], '\n') + 1
				b.text = b.text[:begin+whole]
				if whole == 0 {
					size *= 2
					continue
				}
				n = int64(whole)
			}
			b.pieces = append(b.pieces, piece{begin, span{s.file, at, at + n}})
			at, size = at+n, blockSize
			if len(b.text) >= blockSize/2 {
				if !yield(b) {
					return
				}
				b = &block{}
			}
		}
	}
	if len(b.text) > 0 {
		yield(b)
	}
}

// decode decodes the results among the lines of a block.
func (r *Results) decode(b *block) (d decoded) {
	for at := 0; at < len(b.text); {
		line := b.text[at:]
		if n := bytes.IndexByte(line, '\n'); n >= 0 {
			line = line[:n+1]
		}
		if x, err := decodeResult(line); err != nil {
			d.err = r.locate(b, at, err)
			return d
		} else if x != nil {
			d.results = append(d.results, x)
		}
		at += len(line)
	}
	d.err = b.err
	return d
}

// locate puts the number of the line that stands at a place of a block before an error.
func (r *Results) locate(b *block, at int, err error) error {
	i, _ := slices.BinarySearchFunc(b.pieces, at+1, func(p piece, at int) int { return p.at - at })
	p := b.pieces[i-1]
	before := io.NewSectionReader(r.files[p.span.file], 0, p.span.from+int64(at-p.at))
	n, buf := 1, make([]byte, 1<<16)
	for {
		k, e := before.Read(buf)
		n += bytes.Count(buf[:k], []byte{'\n'})
		if e != nil {
			break
		}
	}
	if f, ok := r.files[p.span.file].(*namedFile); ok {
		return fmt.Errorf("%s: %w", f.Name(), &lineError{n, err})
	}
	return &lineError{n, err}
}

// A lineError is what is wrong with a line, counted from 1.
type lineError struct {
	n   int
	err error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.n, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// kindOf is the kind of a line, and its schema.
func kindOf(line []byte) (kind string, schema int, err error) {
	if bytes.HasPrefix(line, resultHead) {
		return "result", 0, nil
	}
	var head struct {
		Kind   string `json:"kind"`
		Schema int    `json:"schema"`
	}
	err = json.Unmarshal(line, &head)
	return head.Kind, head.Schema, err
}

// resultHead is how the line of a result begins, as JSONLines writes it.
var resultHead = []byte(`{"kind":"result",`)

// decodeResult is the result in a line, nil if it is of another kind.
func decodeResult(line []byte) (*Result, error) {
	if kind, _, err := kindOf(line); err != nil || kind != "result" {
		return nil, nil // whoever found the line has looked at it
	}
	r := &Result{}
	if err := json.Unmarshal(line, r); errors.As(err, new(*json.SyntaxError)) {
		return nil, fmt.Errorf("no JSON object: %w", err)
	} else if err != nil {
		return nil, err
	}
	if r.Verdict.Rank() < 0 {
		return nil, fmt.Errorf("verdict: unknown %q", r.Verdict)
	}
	r.Repair()
	if n, of := r.Mismatch, r.Numel; n != nil && of != nil && (*n < 0 || *n > *of) {
		return nil, fmt.Errorf("mismatched: %d of %d elements", *n, *of)
	}
	return r, nil
}
