package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// lines passes on each write.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// Served replays captures and serves what came out until the test ends. It returns what fetches a page of it.
func Served(t *testing.T, paths ...string) (page func(query string) string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out := make(lines, 8)
	var errs bytes.Buffer
	a := &app{Streams: Streams{In: strings.NewReader(""), Out: out, Err: &errs}, jobs: 1, read: "mmap", color: "never"}
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	done := make(chan error, 1)
	go func() { done <- runView(cmd, a, &viewOptions{}, paths) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("the end: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("it does not end")
		}
	})
	var address string
	select {
	case s := <-out:
		address = strings.TrimSpace(s)
	case err := <-done:
		done <- nil
		t.Fatalf("it ended: %v; %s", err, &errs)
	case <-time.After(time.Minute):
		t.Fatal("no address after a minute")
	}
	if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/[0-9a-f]{32}/$`).MatchString(address) {
		t.Fatalf("address %q", address)
	}
	return func(query string) string {
		t.Helper()
		r, err := http.Get(address + query)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != 200 {
			t.Fatalf("%s: status %d, %v", query, r.StatusCode, err)
		}
		return string(b)
	}
}

// ServedResults are the queries of the pages of results that a page lists.
func ServedResults(page string) (queries []string) {
	for _, q := range regexp.MustCompile(`result\?run=1&amp;id=\d+`).FindAllString(page, -1) {
		queries = append(queries, strings.ReplaceAll(q, "&amp;", "&"))
	}
	return queries
}

// TestView serves captures on the loopback interface, opens the tensor of the wrong call, and ends when it is told to.
func TestView(t *testing.T) {
	page := Served(t, "../../fixtures/demo")
	wrong := ServedResults(page("?verdict=fail"))
	if len(wrong) == 0 {
		t.Fatal("no failure is listed")
	}
	if got := page(wrong[0]); !strings.Contains(got, `class="chart map"`) {
		t.Errorf("no map of errors on the page of the wrong call:\n%s", got[strings.Index(got, "<body>"):])
	}
}

// TestRunsOfDevices: a file without an end is no run, and a pipe is read once.
func TestRunsOfDevices(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip(err)
	}
	a := &app{Streams: Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}}
	if _, err := a.readRecording("/dev/zero"); err == nil || !strings.Contains(err.Error(), "found a device") {
		t.Errorf("/dev/zero as a run gives %v", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		defer w.Close()
		io.WriteString(w, `{"kind":"run","schema":1}`+"\n"+`{"kind":"result","op":"x","verdict":"pass"}`+"\n")
	}()
	path := fmt.Sprintf("/proc/self/fd/%d", r.Fd())
	if !isRun(path) {
		t.Fatal("a pipe is taken for captures")
	}
	rec, err := a.readRecording(path)
	if err != nil || rec.Summary.Total() != 1 {
		t.Fatalf("a run from a pipe gives %v", err)
	}
	rec.Close()
}
