package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/optool/optool/reports"
)

// syncEvery is how much work a machine that loses its power may have to do again.
const syncEvery = time.Second

// A Journal grows the journal of a directory. What is written to it becomes part of the file
// with Commit, in one write.
type Journal struct {
	// Before is called before what was written is made to last, to do that for other files.
	Before func() error

	file    *os.File
	size    int64 // whole, in bytes
	pending bytes.Buffer
	synced  time.Time
	base    time.Duration // of the run before this process
	began   time.Time

	mu      sync.Mutex
	started *os.File
}

// Continue opens the journal to grow it: at its begin, or after the last finished call.
// Then it holds a line that says where the run goes on.
func (d *Dir) Continue() (*Journal, error) {
	file, err := os.OpenFile(d.File(journalFile), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	j := &Journal{file: file, synced: time.Now(), began: time.Now()}
	if d.Journal != nil {
		j.size, j.base = d.Journal.Size, d.Journal.Elapsed
	}
	err = j.rewind()
	if err == nil && d.Journal != nil {
		lines := reports.NewJSONLines(j)
		err = lines.Resumption(&reports.Resumption{Host: hostname(), PID: os.Getpid(), Time: time.Now(),
			InFlight: d.InFlight})
		if err == nil {
			err = j.Flush()
		}
	}
	if err == nil {
		j.started, err = os.Create(d.File(startedFile))
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return j, nil
}

// CopyTo writes what is finished.
func (d *Dir) CopyTo(w io.Writer) error {
	f, err := os.Open(d.File(journalFile))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(w, f, d.Journal.Size)
	return err
}

// rewind cuts off what is not whole.
func (j *Journal) rewind() error {
	if err := j.file.Truncate(j.size); err != nil {
		return err
	}
	_, err := j.file.Seek(j.size, io.SeekStart)
	return err
}

// Write takes a line, or several, for the next Flush.
func (j *Journal) Write(line []byte) (int, error) { return j.pending.Write(line) }

// Flush writes what was taken. After an error the file is as it was before.
func (j *Journal) Flush() error {
	n, err := j.file.Write(j.pending.Bytes())
	j.pending.Reset()
	if err != nil {
		_ = j.rewind() // what is left is cut off when the run goes on
		return err
	}
	j.size += int64(n)
	if time.Since(j.synced) < syncEvery {
		return nil
	}
	return j.sync()
}

func (j *Journal) sync() error {
	j.synced = time.Now()
	if j.Before != nil {
		if err := j.Before(); err != nil {
			return err
		}
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("%s: %w", j.file.Name(), err)
	}
	return nil
}

// Begin notes that a call is worked on. It may be called from several goroutines.
func (j *Journal) Begin(capture string) error {
	line, err := json.Marshal(capture)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	_, err = j.started.Write(append(line, '\n'))
	return err
}

// Elapsed is how long the run took so far, without the time it was stopped.
func (j *Journal) Elapsed() time.Duration { return j.base + time.Since(j.began) }

// Close makes sure that what was written lasts.
func (j *Journal) Close() error { return errors.Join(j.sync(), j.file.Close(), j.started.Close()) }

func hostname() string {
	host, _ := os.Hostname()
	return host
}
