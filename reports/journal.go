package reports

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// A Done is the line of a journal after the results of a call: what stands before it is
// whole. A journal is the JSON lines of a run that can go on after it was stopped.
type Done struct {
	Capture string  `json:"capture"`
	Index   int     `json:"index"`     // of the call in the order of the whole run, from 0
	Results int     `json:"results"`   // lines of this call
	Elapsed float64 `json:"elapsed_s"` // since the run began, without the time it was stopped
	// Names of settings that hid a part of the call, and that changed it.
	Hidden  []string `json:"hidden,omitempty"`
	Changed []string `json:"changed,omitempty"`
	CSV     FilePos  `json:"csv,omitzero"` // of op_tools' file, with the rows of this call
	// Called are the functions of a device that a conformance case called.
	Called map[string]Called `json:"called,omitempty"`
}

// Called counts the calls of a device's function.
type Called struct {
	Calls  int `json:"calls"`
	Unwell int `json:"unwell,omitempty"` // of which did not end well
}

// And counts the calls of both.
func (c Called) And(d Called) Called { return Called{c.Calls + d.Calls, c.Unwell + d.Unwell} }

// A FilePos is how much of another file belongs to what stands in a journal so far.
type FilePos struct {
	Name  string `json:"name,omitempty"`
	Bytes int64  `json:"bytes"`
	Rows  int    `json:"rows"`
}

// A Resumption is the line of a journal where a run went on.
type Resumption struct {
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	Time     time.Time `json:"time"`
	InFlight []string  `json:"in_flight"` // captures that were being worked on when it stopped
}

// Done writes what ends a call.
func (j *JSONLines) Done(d *Done) error {
	return j.Write(struct {
		Kind string `json:"kind"`
		*Done
	}{"done", d})
}

// Resumption writes that a run goes on.
func (j *JSONLines) Resumption(r *Resumption) error {
	return j.Write(struct {
		Kind string `json:"kind"`
		*Resumption
	}{"resumed", r})
}

// A Journal is what a journal says besides the results of its calls.
type Journal struct {
	Run         Run
	Size        int64 // bytes up to the end of the last call; what follows is of no finished call
	Calls       int
	Elapsed     time.Duration // until the last call was done
	CSV         FilePos
	Resumptions []Resumption
	Explanations
	Last json.RawMessage // the last line, kind "summary"; nil if the run did not end
}

// A JournalCall is a finished call of a journal.
type JournalCall struct {
	Done
	lines    [][]byte // of its results
	first    int      // number of the first
	from, to int64    // where they stand, in bytes
}

// Results are those of the call.
func (c *JournalCall) Results() ([]*Result, error) {
	var results []*Result
	for i, line := range c.lines {
		r, err := decodeResult(line)
		if err != nil {
			return nil, &lineError{c.first + i, err}
		}
		if r.Capture != c.Capture {
			return nil, &lineError{c.first + i, fmt.Errorf("capture: %s, want %s, of which the line of kind \"done\" is",
				r.Capture, c.Capture)}
		}
		results = append(results, r)
	}
	return results, nil
}

// ReadJournal reads a journal and hands each finished call to call. The
// results of a call that was not finished do not count, and a line that does not read ends
// the journal: a machine that lost its power may leave anything after what it wrote last.
func ReadJournal(r io.Reader, call func(*JournalCall) error) (*Journal, error) {
	j := &journalReader{Journal: &Journal{}, call: call, open: &JournalCall{}}
	in := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) { // no line without its end is whole
			break
		} else if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		j.at += int64(len(line))
		kind, schema, err := kindOf(line)
		if err != nil || !json.Valid(line) {
			break
		}
		if n == 1 && (kind != "run" || schema != 1) {
			return nil, fmt.Errorf("line 1: want the line of kind \"run\" and schema 1, found kind %q and schema %d",
				kind, schema)
		}
		err = j.take(kind, n, line)
		var of *lineError
		if err != nil && !errors.As(err, &of) {
			err = &lineError{n, err}
		}
		if err != nil {
			return nil, err
		}
	}
	if j.Size == 0 {
		return nil, errors.New("line 1: want the line of kind \"run\", found nothing whole")
	}
	return j.Journal, nil
}

// A journalReader is a journal while it is read.
type journalReader struct {
	*Journal
	call func(*JournalCall) error
	open *JournalCall // the call whose results are read
	at   int64        // the end of the last line
}

// take reads line n.
func (j *journalReader) take(kind string, n int, line []byte) (err error) {
	switch kind {
	case "run":
		j.Size = j.at
		return json.Unmarshal(line, &j.Run)
	case "result":
		if len(j.open.lines) == 0 {
			j.open.first, j.open.from = n, j.at-int64(len(line))
		}
		j.open.lines = append(j.open.lines, line)
	case "done":
		return j.done(line)
	case "resumed":
		s := Resumption{}
		err = json.Unmarshal(line, &s)
		j.Resumptions, j.Size, j.open = append(j.Resumptions, s), j.at, &JournalCall{}
	case "cause", "profile":
		return j.explain(kind, line)
	case "summary":
		j.Last = bytes.Clone(line)
	}
	return err
}

// done ends the call whose results were read.
func (j *journalReader) done(line []byte) error {
	c := j.open
	if err := json.Unmarshal(line, &c.Done); err != nil {
		return err
	}
	if c.Done.Results != len(c.lines) {
		return fmt.Errorf("%s has %s, want %d", c.Capture, Count(len(c.lines), "result"), c.Done.Results)
	}
	if len(c.lines) == 0 {
		c.from = j.at
	}
	c.to = j.at
	if err := j.call(c); err != nil {
		return err
	}
	j.Size, j.Elapsed, j.CSV = j.at, time.Duration(c.Elapsed*float64(time.Second)), c.CSV
	j.Calls++
	j.open = &JournalCall{}
	return nil
}

// Interrupted reports whether the run was stopped, or killed, before its end.
func (j *Journal) Interrupted() bool {
	last, err := j.last()
	return err != nil || last.Interrupted
}

// Left is how many calls a run with a budget that ended did not look at.
func (j *Journal) Left() int {
	if last, err := j.last(); err == nil && last.Budget != nil {
		return last.Budget.Left()
	}
	return 0
}

// last is the last line; of a run that has none, what can be said without.
func (j *Journal) last() (last lastLine, err error) {
	if j.Last == nil {
		return lastLine{Interrupted: true, Elapsed: j.Elapsed.Seconds(), Settings: j.Run.Settings}, nil
	}
	err = json.Unmarshal(j.Last, &last)
	return last, err
}
