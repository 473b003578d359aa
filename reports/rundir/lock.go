package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/optool/optool/internal/filelock"
)

// How often who holds a directory shows that it lives, and after how long without it is
// taken to be dead. That decides only between hosts whose file system has no locks that
// hold on all of them: elsewhere the lock ends with the process.
const (
	beatEvery  = 10 * time.Second
	deadAfter  = 45 * time.Second
	watchEvery = 500 * time.Millisecond
)

// A holder is who works in a directory, as the file "lock" has it.
type holder struct {
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

func (h *holder) String() string {
	return fmt.Sprintf("process %d on %s since %s", h.PID, h.Host, h.Since.Format("2006-01-02 15:04:05"))
}

// A lock is held by one process.
type lock struct {
	name string
	held *filelock.Lock // nil where the file system has no locks
	stop chan struct{}
	beat sync.WaitGroup
}

// acquire locks a directory for a process of this host, or says who works in it. told is
// called before it waits to see whether another host's process lives.
func acquire(dir, host string, told func(string)) (*lock, error) {
	name := filepath.Join(dir, lockFile)
	held, err := filelock.Try(name, true)
	switch {
	case errors.Is(err, filelock.ErrHeld):
		if h := readHolder(name); h != nil {
			return nil, fmt.Errorf("%s is in use by %s", dir, h)
		}
		return nil, fmt.Errorf("%s is in use by another process", dir)
	case err != nil && !errors.Is(err, filelock.ErrUnsupported):
		return nil, err
	}
	l := &lock{name: name, held: held, stop: make(chan struct{})}
	if h := readHolder(name); h != nil {
		lives := h.Host == host && held == nil && alive(h.PID) // else the lock would have said so
		if h.Host != host {
			lives = beats(name, func() {
				told(fmt.Sprintf("%s was in use by %s: waiting to see whether it lives", dir, h))
			})
		}
		if lives {
			l.abandon()
			return nil, fmt.Errorf("%s is in use by %s", dir, h)
		}
	}
	text, err := json.Marshal(holder{host, os.Getpid(), time.Now().Round(time.Second)})
	if err == nil {
		err = os.WriteFile(name, append(text, '\n'), 0o600)
	}
	if err != nil {
		l.abandon()
		return nil, err
	}
	l.beat.Go(func() {
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			select {
			case <-l.stop:
				return
			case <-tick.C:
				_ = touch(name) // a lock that cannot be renewed is one that others may take
			}
		}
	})
	return l, nil
}

// release ends the lock and removes its file.
func (l *lock) release() {
	close(l.stop)
	l.beat.Wait()
	if l.held == nil {
		os.Remove(l.name)
		return
	}
	l.held.Release()
}

// abandon leaves the file to its holder.
func (l *lock) abandon() {
	if l.held != nil {
		l.held.File.Close()
	}
}

func readHolder(name string) *holder {
	text, err := os.ReadFile(name)
	h := &holder{}
	if err != nil || json.Unmarshal(text, h) != nil || h.PID == 0 {
		return nil
	}
	return h
}

// alive reports whether a process of this host exists.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}

// touch sets the time of a file as its file system has it.
func touch(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, 0); err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	return err
}

// beats reports whether a lock is renewed: not if the file was last written long ago by the
// clock of its file system, else as is seen within the time after which it would be dead.
func beats(name string, waiting func()) bool {
	first, err := os.Stat(name)
	if err != nil {
		return false
	}
	if now, err := clock(filepath.Dir(name)); err == nil && now.Sub(first.ModTime()) > deadAfter {
		return false
	}
	waiting()
	for end := time.Now().Add(deadAfter); time.Now().Before(end); time.Sleep(watchEvery) {
		now, err := os.Stat(name)
		if err != nil {
			return false
		}
		if !now.ModTime().Equal(first.ModTime()) {
			return true
		}
	}
	return false
}

// clock is the time of the file system of a directory.
func clock(dir string) (time.Time, error) {
	f, err := os.CreateTemp(dir, tempPrefix+"clock-*")
	if err != nil {
		return time.Time{}, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.WriteString("\n"); err != nil {
		return time.Time{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}
