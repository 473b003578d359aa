//go:build unix

package torchbridge

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/optool/optool/internal/tail"
)

//go:embed worker.py
var program string

const (
	printsTooMuch = 1 << 20 // in a call: what prints so much fills a disk in a step
	maxAnswer     = 64 << 20
	startTimeout  = 3 * time.Minute // importing torch and its compiler takes 40 s on a busy machine
	graceToEnd    = 2 * time.Second
	graceToDrain  = 200 * time.Millisecond
	memoryKept    = 64 << 20 // bytes of shared memory that are kept for the next call
)

// A process is a running worker.
type process struct {
	cmd      *exec.Cmd
	requests *os.File
	answers  *os.File
	lines    *bufio.Reader
	stderr   *tail.Tail
	ended    chan struct{} // closed when the process has been waited for
	info     Info
	number   int
}

// start runs a worker on a device and waits until it has made a tensor there.
func (c *Config) start(ctx context.Context, memory *os.File) (*process, error) {
	options, err := json.Marshal(map[string]any{"import": orNone(c.Import), "map": c.Map})
	if err != nil {
		return nil, err
	}
	var files [3]*os.File // what is closed here once the process has it
	defer func() {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}()
	p := &process{ended: make(chan struct{})}
	if files[0], p.requests, err = os.Pipe(); err != nil {
		return nil, err
	}
	if p.answers, files[1], err = os.Pipe(); err != nil {
		p.requests.Close()
		return nil, err
	}
	stderr, stderrW, err := os.Pipe()
	if err != nil {
		p.closePipes()
		return nil, err
	}
	files[2] = stderrW
	p.cmd = exec.Command(c.Python, "-c", program, c.Device, string(options))
	p.cmd.Stdout, p.cmd.Stderr = stderrW, stderrW
	p.cmd.ExtraFiles = []*os.File{files[0], files[1], memory}
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		p.closePipes()
		stderr.Close()
		return nil, fmt.Errorf("%s does not start: %w", c.Python, err)
	}
	p.lines, p.stderr = bufio.NewReader(p.answers), tail.New(stderr)
	go func() {
		p.cmd.Wait()
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // what operators started goes too
		close(p.ended)
		p.answers.SetReadDeadline(time.Now().Add(graceToDrain))
	}()
	stop := context.AfterFunc(ctx, p.kill)
	defer stop()
	a, err := p.receive(max(c.Timeout, startTimeout))
	switch {
	case ctx.Err() != nil:
		p.close()
		return nil, ctx.Err()
	case err != nil:
		pass := p.fate(err)
		p.close()
		return nil, fmt.Errorf("%s starts no PyTorch: %s; --python names another Python", c.Python, pass.Reason)
	case a.Status != "":
		p.close()
		return nil, fmt.Errorf("%s: %s", c.Python, a.Reason)
	}
	p.info = a.Info
	return p, nil
}

func orNone(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// send writes a request.
func (p *process) send(r *request) error {
	p.number++
	r.Number = p.number
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = p.requests.Write(append(line, '\n'))
	return err
}

// receive waits for the answer to the last request.
func (p *process) receive(timeout time.Duration) (*answer, error) {
	select {
	case <-p.ended: // read what it left
	default:
		p.answers.SetReadDeadline(time.Now().Add(timeout))
		select {
		case <-p.ended:
			p.answers.SetReadDeadline(time.Now().Add(graceToDrain))
		default:
		}
	}
	for {
		var line []byte
		for {
			part, err := p.lines.ReadSlice('\n')
			if line = append(line, part...); err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return nil, err
			}
			if len(line) > maxAnswer {
				return nil, &garbledError{fmt.Errorf("it has more than %d bytes", maxAnswer)}
			}
		}
		a, err := decodeAnswer(line)
		if err != nil || a.Number == p.number {
			return a, err
		}
	}
}

// fate says how the process ended after an error, and makes sure that it has.
func (p *process) fate(err error) Pass {
	var garbled *garbledError
	if errors.As(err, &garbled) {
		p.kill()
		<-p.ended
		return Pass{Status: Failed, Reason: garbled.Error()}
	}
	pass := Pass{Status: Exited}
	select {
	case <-p.ended:
	default:
		if errors.Is(err, os.ErrDeadlineExceeded) {
			pass.Status = TimedOut
		} else {
			select { // it closed its pipe: it is ending
			case <-p.ended:
			case <-time.After(graceToEnd):
			}
		}
		p.kill()
		<-p.ended
	}
	select {
	case <-p.stderr.Done():
	case <-time.After(graceToDrain):
	}
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case pass.Status == TimedOut:
		pass.Reason = "it did not come back in time"
	case status.Signaled():
		pass.Status, pass.Reason = Crashed, "the worker crashed with "+unix.SignalName(status.Signal())
	default:
		pass.Reason = fmt.Sprintf("it ended the worker with exit code %d", status.ExitStatus())
	}
	if text := p.stderr.LastLine(); text != "" {
		pass.Reason += ": " + text
	}
	return pass
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *process) kill() {
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.cmd.Process.Kill()
}

func (p *process) closePipes() {
	p.requests.Close()
	p.answers.Close()
}

// close ends the process, gently if it still listens.
func (p *process) close() {
	p.requests.Close()
	select {
	case <-p.ended:
	case <-time.After(graceToEnd):
		p.kill()
		<-p.ended
	}
	p.answers.Close()
	p.stderr.Close()
}

// shared is the memory of one worker and its successors.
type shared struct {
	file *os.File
	mem  []byte
}

// newShared makes a file without a name.
func newShared() (*shared, error) {
	f, err := os.CreateTemp(sharedDir(), "optool-tensors-*")
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	return &shared{file: f}, nil
}

// sharedDir is a directory in memory, or that of temporary files.
func sharedDir() string {
	if d, err := os.Stat("/dev/shm"); err == nil && d.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// begin maps n bytes and gives back what the call before had and this one does not need.
func (s *shared) begin(n int64) error {
	st, err := s.file.Stat()
	if err == nil {
		if want := max(n, min(st.Size(), memoryKept)); want != st.Size() {
			err = s.file.Truncate(want)
		}
	}
	if err == nil {
		err = s.see(n)
	}
	if err != nil {
		return fmt.Errorf("%d bytes of shared memory: %w", n, err)
	}
	return nil
}

// see maps at least n bytes of the file.
func (s *shared) see(n int64) error {
	st, err := s.file.Stat()
	if err != nil {
		return err
	}
	if n > st.Size() {
		return io.ErrUnexpectedEOF
	}
	if int64(len(s.mem)) == st.Size() {
		return nil
	}
	s.unmap()
	if st.Size() == 0 {
		return nil
	}
	s.mem, err = unix.Mmap(int(s.file.Fd()), 0, int(st.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return err
}

func (s *shared) unmap() {
	if s.mem != nil {
		unix.Munmap(s.mem)
		s.mem = nil
	}
}

func (s *shared) close() {
	s.unmap()
	s.file.Close()
}
