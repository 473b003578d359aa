//go:build !lite

package cli_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/optool/optool/internal/cli"
	"github.com/optool/optool/tensor/value"
)

// TestLate: a call whose file an object store never gives is late for the commands that read calls, also where files
// are read ahead. The calls before and after it are read.
func TestLate(t *testing.T) {
	dir := t.TempDir()
	for i, op := range []string{"torch.abs", "torch.neg", "torch.relu"} {
		for _, kind := range []string{"input.pth", "output.pth"} {
			save(t, dict("name", op, "args", value.NewTuple(floats(0, 4)), "kwargs", dict(), "identifier",
				fmt.Sprint(i)), dir, op, "7", fmt.Sprint(i), "2026-11-20-21-06-02", kind)
		}
	}
	backend := s3mem.New()
	if err := backend.CreateBucket("late"); err != nil {
		t.Fatal(err)
	}
	files := os.DirFS(dir)
	written := map[string]string{"Last-Modified": "Mon, 23 Nov 2026 10:00:00 GMT"}
	if err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(files, name)
		if err == nil {
			_, err = backend.PutObject("late", name, written, bytes.NewReader(b), int64(len(b)), nil)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	served := gofakes3.New(backend).Server()
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "torch.neg") && path.Ext(r.URL.Path) == ".pth" {
			<-ended
			return
		}
		served.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		close(ended)
		server.Close()
	})
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "someone")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	defer cli.SetStopGrace(time.Millisecond)()
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"show"}, {"show", "--json"}, {"check", "--all"},
		{"compare", "--tables", "s3://late"}, {"replay", "--tables", "--out", dir}} {
		var out, errs bytes.Buffer
		code := cli.Main(append(args, "s3://late", "--timeout", "200ms", "--jobs", "1"),
			cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		text := out.String() + errs.String()
		if code != cli.ExitFailed || !strings.Contains(out.String(), "torch.abs") ||
			!strings.Contains(out.String(), "torch.relu") || !strings.Contains(text, "--timeout") {
			t.Errorf("%q gives %d: %s%s", args, code, &out, &errs)
		}
	}
}
