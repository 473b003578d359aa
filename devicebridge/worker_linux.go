//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package devicebridge

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/optool/optool/internal/tail"
)

const (
	arenaLeast = 64 << 20 // bytes of addresses without which there is no device
	arenaKept  = 64 << 20 // bytes of shared memory that are kept for the next plan
	// No answer of a worker is as long: it has 100 bytes for each call, tensor and finding, and a text of
	// 4 KiB at most for each call.
	largestAnswer = 64 << 20
	highFD        = 64              // above what a child's own descriptors are given
	graceToEnd    = 2 * time.Second // for finalizeLibrary
	graceToDrain  = 200 * time.Millisecond
)

// An executable is a file of native/dist that can be run or loaded: in memory,
// or where programs in memory may not run, in the user's cache.
type executable struct {
	file *os.File
	path string
	temp bool
}

func newExecutable(name string) (*executable, error) {
	content, err := built(name)
	if err != nil {
		return nil, err
	}
	if fd, err := memfd("optool-"+name, unix.MFD_EXEC); err == nil {
		f := os.NewFile(uintptr(fd), name)
		if _, err := f.Write(content); err == nil {
			return &executable{file: f, path: fmt.Sprintf("/proc/self/fd/%d", fd)}, nil
		}
		f.Close()
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, "optool-"+name+"-*")
	if err != nil {
		return nil, err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o700), f.Close())
	if err != nil {
		os.Remove(f.Name())
		return nil, err
	}
	return &executable{path: f.Name(), temp: true}, nil
}

func (e *executable) close() {
	if e.file != nil {
		e.file.Close()
	}
	if e.temp {
		os.Remove(e.path)
	}
}

// memfd makes a file in memory whose descriptor is none that a child reuses.
func memfd(name string, flags int) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|flags)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, highFD)
}

// An arena is the shared memory of one worker and its successors. While the worker has
// threads of the library, every plan gets addresses that none had before: what such a
// thread writes after its call has returned reaches no other call.
type arena struct {
	file *os.File
	mem  []byte
	plan int64 // where the plan's memory begins
}

func newArena() (*arena, error) {
	fd, err := memfd("optool-tensors", unix.MFD_NOEXEC_SEAL)
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL) // a library cannot fix its size
	a := &arena{file: os.NewFile(uintptr(fd), "optool-tensors")}
	for n := arenaBytes; n >= arenaLeast; n /= 2 { // as many addresses as the process may have
		if a.mem, err = unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED|unix.MAP_NORESERVE); err == nil {
			return a, nil
		}
	}
	a.file.Close()
	return nil, fmt.Errorf("shared memory: %w", err)
}

// room reports whether there are addresses for another plan of n bytes, and for what its
// calls may ask for, in a worker that has so many.
func (a *arena) room(n, addresses int64) bool {
	turn := min(arenaTurn, addresses/2, int64(len(a.mem))/2)
	st, err := a.file.Stat()
	return err == nil && (st.Size() == 0 || st.Size() <= turn-n)
}

// rewind gives all memory back, and the addresses to a worker that has used none.
func (a *arena) rewind() error {
	a.plan = 0
	if err := a.file.Truncate(0); err != nil {
		return fmt.Errorf("shared memory: %w", err)
	}
	return nil
}

// begin makes n bytes usable for a plan, at fresh addresses or where the plan before was,
// and gives back what that had and this one does not need.
func (a *arena) begin(n int64, fresh bool) error {
	st, err := a.file.Stat() // the worker may have made it larger
	if err != nil {
		return fmt.Errorf("shared memory: %w", err)
	}
	if end := st.Size(); fresh && end > a.plan {
		const hole = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
		if err := unix.Fallocate(int(a.file.Fd()), hole, a.plan, end-a.plan); err != nil {
			return fmt.Errorf("giving back shared memory: %w", err)
		}
		page := int64(os.Getpagesize())
		a.plan = (end + page - 1) / page * page
	}
	if n > int64(len(a.mem))-a.plan {
		return fmt.Errorf("%d bytes of shared memory: the process may have addresses for %d", n, len(a.mem))
	}
	if want := max(n, min(st.Size()-a.plan, arenaKept)); a.plan+want != st.Size() {
		if err := a.file.Truncate(a.plan + want); err != nil {
			return fmt.Errorf("%d bytes of shared memory: %w", n, err)
		}
	}
	return nil
}

// errGone says that the shared memory has become smaller, which nothing but the library does.
var errGone = &brokenError{errors.New("its shared memory is gone")}

// bytes are n bytes at an offset in the plan's memory. They are read and written in guarded: the library may take them
// away meanwhile.
func (a *arena) bytes(offset, n int64) ([]byte, error) {
	st, err := a.file.Stat()
	if err != nil || offset < 0 || n < 0 || offset > min(st.Size(), int64(len(a.mem)))-a.plan-n {
		return nil, errGone
	}
	start := a.plan + offset
	return a.mem[start : start+n : start+n], nil
}

// guarded runs f, which reads and writes shared memory. The error is errGone where that is none any more.
func (a *arena) guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		fault, ok := p.(interface{ Addr() uintptr })
		start := reflect.ValueOf(a.mem).Pointer()
		if !ok || fault.Addr()-start >= uintptr(len(a.mem)) {
			panic(p)
		}
		err = errGone
	}()
	return f()
}

func (a *arena) close() {
	if a.mem != nil {
		unix.Munmap(a.mem)
	}
	a.file.Close()
}

// A worker is a process that has loaded the library.
type worker struct {
	cmd     *exec.Cmd
	conn    *os.File
	stderr  *tail.Tail
	ended   chan struct{} // closed when the process has been waited for
	hello   Info
	problem string             // why the library cannot be used
	status  syscall.WaitStatus // how it ended, once it has
	request uint32             // the number of the last request that was sent; 0: none was
	// addresses are the bytes of shared memory that the worker has addresses for.
	addresses int64
	fitness   fitness // after its last plan
}

// A launcher starts workers.
type launcher struct {
	program *executable
	library *executable // the built-in device; nil if another
	path    string
	adaptor string
	env     []string
	timeout time.Duration
	isolation
}

func (l *launcher) close() {
	l.program.close()
	if l.library != nil {
		l.library.close()
	}
}

// move has the next workers find the library elsewhere in memory, as far as that can be
// had: where its pages lie in the caches makes calls of microseconds up to a tenth slower
// or faster, and they stay there for as long as the file does. No process may use it.
func (l *launcher) move() {
	if l.library != nil {
		if moved, err := newExecutable(hostLibrary); err == nil {
			l.library.close()
			l.library = moved
		}
		return
	}
	if f, err := os.Open(l.path); err == nil { // it is read again, into other pages
		unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		f.Close()
	}
}

// first starts the first worker, in the strictest isolation that this system allows and the library can
// be loaded in. Those after it are started in the same. Where the library cannot be loaded in any,
// what it says in the strictest is returned.
func (l *launcher) first(ctx context.Context, a *arena) (w *worker, err error) {
	for i, way := range isolations() {
		if l.isolation = way; way&unix.CLONE_NEWUSER == 0 {
			hide()
		}
		next, nextErr := l.start(ctx, a)
		if nextErr == nil && next.problem == "" || ctx.Err() != nil {
			return next, nextErr
		}
		if next != nil {
			next.close()
			nextErr = errors.New(next.problem)
		}
		if i == 0 || errors.As(err, new(*startError)) {
			err = nextErr
		}
	}
	return nil, err
}

// A startError says that the process of a worker could not be made.
type startError struct{ error }

func (e *startError) Unwrap() error { return e.error }

// start runs a worker and waits until it has loaded the library.
func (l *launcher) start(ctx context.Context, a *arena) (*worker, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("a socket for the worker: %w", err)
	}
	unix.SetNonblock(pair[1], false)
	conn, theirs := os.NewFile(uintptr(pair[0]), "worker"), os.NewFile(uintptr(pair[1]), "optool")
	defer theirs.Close()
	stderr, stderrW, err := os.Pipe()
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer stderrW.Close()
	status, statusW, err := os.Pipe()
	if err != nil {
		conn.Close()
		stderr.Close()
		return nil, err
	}
	path, files := l.path, []*os.File{theirs, a.file, statusW}
	if l.library != nil {
		path = l.library.path
		if l.library.file != nil {
			path = fmt.Sprintf("/proc/self/fd/%d", 3+len(files))
			files = append(files, l.library.file)
		}
	}
	cmd := exec.Command(l.program.path, path, l.adaptor)
	cmd.Stdout, cmd.Stderr = stderrW, stderrW
	cmd.ExtraFiles = files
	cmd.Env = append(os.Environ(), l.env...)
	cmd.SysProcAttr = l.attributes()
	err = cmd.Start()
	statusW.Close()
	if err != nil {
		conn.Close()
		stderr.Close()
		status.Close()
		return nil, &startError{fmt.Errorf("the worker does not start: %w", err)}
	}
	w := &worker{cmd: cmd, conn: conn, stderr: tail.New(stderr), ended: make(chan struct{})}
	go func() {
		cmd.Wait()
		// What the library started goes too, and does not keep us waiting.
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		w.status = endedWith(status, cmd.ProcessState)
		close(w.ended)
		conn.SetReadDeadline(time.Now().Add(graceToDrain))
	}()
	stop := context.AfterFunc(ctx, w.kill)
	defer stop()
	if err := w.greet(l.timeout); err != nil {
		f := w.fate(err)
		w.close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if f == nil {
			return nil, err
		}
		return nil, errors.New("loading it: " + f.reason())
	}
	return w, nil
}

func (w *worker) greet(timeout time.Duration) error {
	d, err := w.receive(timeout)
	if err != nil {
		return err
	}
	if answer(d.u8()) != answerHello {
		return errors.New("the worker's first answer is none")
	}
	w.problem = d.text()
	w.hello = Info{Vendor: d.text(), Version: d.text(), LastError: d.u8() != 0, Adaptor: d.u8() != 0}
	w.addresses = d.i64()
	w.hello.Isolation = isolationOf(d.u8())
	for range d.count(4) {
		w.hello.Remarks = append(w.hello.Remarks, d.text())
	}
	w.hello.exports(d.take(d.u32()))
	return d.err
}

func (w *worker) hasEnded() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

func (w *worker) kill() {
	syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL)
	w.cmd.Process.Kill()
}

// A brokenError says that what came from the worker is no answer: the library wrote to the connection, or into
// the worker's memory.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

// receive waits for an answer to the last request. Answers to others are late, and passed over with
// what is none, which does not give the worker more time.
func (w *worker) receive(timeout time.Duration) (*decoder, error) {
	select {
	case <-w.ended: // read what it left
	default:
		w.conn.SetReadDeadline(time.Now().Add(timeout))
		select {
		case <-w.ended:
			w.conn.SetReadDeadline(time.Now().Add(graceToDrain))
		default:
		}
	}
	for {
		d, err := w.next()
		if err != nil {
			return nil, err
		}
		if number := d.u32(); d.err == nil && uint32(number) == w.request {
			return d, nil
		}
	}
}

// next reads a message.
func (w *worker) next() (*decoder, error) {
	var head [4]byte
	if _, err := io.ReadFull(w.conn, head[:]); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(head[:]))
	if n > largestAnswer {
		return nil, &brokenError{fmt.Errorf("an answer of %d bytes", n)}
	}
	var b bytes.Buffer // grows with what comes: the length is the word of a process that the library may have changed
	if _, err := io.CopyN(&b, w.conn, n); err != nil {
		return nil, err
	}
	return &decoder{b: b.Bytes()}, nil
}

func (w *worker) send(message []byte) error {
	w.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
	_, err := w.conn.Write(message)
	return err
}

// fate says how the worker ended after an error of receive or send, and makes
// sure that it has. Nil: the error is about something else.
func (w *worker) fate(err error) *Fate {
	f := &Fate{}
	select {
	case <-w.ended:
	default:
		if errors.Is(err, os.ErrDeadlineExceeded) {
			f.Status = TimedOut
			w.kill()
			<-w.ended
			break
		}
		if broken := (*brokenError)(nil); errors.As(err, &broken) {
			f.Status, f.Broke = Crashed, broken.Error()
			w.kill()
			<-w.ended
			break
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) &&
			!errors.Is(err, syscall.EPIPE) {
			return nil
		}
		select { // it closed the connection: it is ending, or will be
		case <-w.ended:
		case <-time.After(graceToEnd):
			f.Status, f.Broke = Crashed, "it was closed"
			w.kill()
			<-w.ended
		}
	}
	select {
	case <-w.stderr.Done():
	case <-time.After(graceToDrain): // a process it started holds the pipe
	}
	f.Stderr = w.stderr.String()
	switch status := w.status; {
	case f.Status == TimedOut || f.Broke != "":
	case status.Signaled():
		f.Status, f.Signal = Crashed, unix.SignalName(status.Signal())
	default:
		f.Status, f.Code = Exited, status.ExitStatus()
	}
	return f
}

// close ends the process, gently if it still listens.
func (w *worker) close() {
	select {
	case <-w.ended:
	default:
		w.conn.SetWriteDeadline(time.Now().Add(graceToDrain))
		w.conn.Write(make([]byte, 4)) // the empty message
		select {
		case <-w.ended:
		case <-time.After(graceToEnd):
			w.kill()
			<-w.ended
		}
	}
	w.conn.Close()
	w.stderr.Close()
}
