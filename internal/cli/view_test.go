package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
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

// TestView replays captures, serves what came out on the loopback interface, opens the
// tensor of the wrong call, and ends when it is told to.
func TestView(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := make(lines, 8)
	var errs bytes.Buffer
	a := &app{Streams: Streams{In: strings.NewReader(""), Out: out, Err: &errs}, jobs: 1, read: "mmap", color: "never"}
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	done := make(chan error, 1)
	go func() { done <- runView(cmd, a, &viewOptions{}, []string{"../../fixtures/demo"}) }()
	var address string
	select {
	case s := <-out:
		address = strings.TrimSpace(s)
	case err := <-done:
		t.Fatalf("it ended: %v; %s", err, &errs)
	case <-time.After(time.Minute):
		t.Fatal("no address after a minute")
	}
	if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/[0-9a-f]{32}/$`).MatchString(address) {
		t.Fatalf("address %q", address)
	}
	page := func(query string) string {
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
	m := regexp.MustCompile(`result\?run=1&amp;id=\d+`).FindString(page("?verdict=fail"))
	if m == "" {
		t.Fatal("no failure is listed")
	}
	if got := page(strings.ReplaceAll(m, "&amp;", "&")); !strings.Contains(got, `class="chart map"`) {
		t.Errorf("no map of errors on the page of the wrong call:\n%s", got[strings.Index(got, "<body>"):])
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("the end: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
}
