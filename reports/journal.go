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
}

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
	Causes      []*Cause
	Profiles    []*Profile
	Last        json.RawMessage // the last line, kind "summary"; nil if the run did not end
}

// ReadJournal reads a journal and hands each finished call, with its results, to call. The
// results of a call that was not finished do not count, and a line that does not read ends
// the journal: a machine that lost its power may leave anything after what it wrote last.
func ReadJournal(r io.Reader, call func(*Done, []*Result) error) (*Journal, error) {
	j := &Journal{}
	var results []*Result
	in := bufio.NewReaderSize(r, 1<<16)
	var at int64
	for n := 1; ; n++ {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) { // no line without its end is whole
			break
		} else if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		at += int64(len(line))
		var head struct {
			Kind   string `json:"kind"`
			Schema int    `json:"schema"`
		}
		if json.Unmarshal(line, &head) != nil {
			break
		}
		if n == 1 && (head.Kind != "run" || head.Schema != 1) {
			return nil, fmt.Errorf("line 1: want the line of kind \"run\" and schema 1, found kind %q and schema %d",
				head.Kind, head.Schema)
		}
		switch head.Kind {
		case "run":
			err = json.Unmarshal(line, &j.Run)
			j.Size = at
		case "result":
			r := &Result{}
			if err = json.Unmarshal(line, r); err == nil && r.Verdict.Rank() < 0 {
				err = fmt.Errorf("verdict: unknown %q", r.Verdict)
			}
			results = append(results, r)
		case "done":
			d := &Done{}
			if err = json.Unmarshal(line, d); err == nil && d.Results != len(results) {
				err = fmt.Errorf("%s has %s, want %d", d.Capture, Count(len(results), "result"), d.Results)
			}
			if err == nil {
				err = call(d, results)
			}
			j.Size, j.Elapsed, j.CSV = at, time.Duration(d.Elapsed*float64(time.Second)), d.CSV
			j.Calls++
			results = nil
		case "resumed":
			s := Resumption{}
			err = json.Unmarshal(line, &s)
			j.Resumptions, j.Size, results = append(j.Resumptions, s), at, nil
		case "cause":
			c := &Cause{}
			err = json.Unmarshal(line, c)
			j.Causes = append(j.Causes, c)
		case "profile":
			p := &Profile{}
			err = json.Unmarshal(line, p)
			j.Profiles = append(j.Profiles, p)
		case "summary":
			j.Last = bytes.Clone(line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if j.Size == 0 {
		return nil, errors.New("line 1: want the line of kind \"run\", found nothing whole")
	}
	return j, nil
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
