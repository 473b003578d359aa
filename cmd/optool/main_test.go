package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/devicebridge/torchdouble"
	"github.com/optool/optool/internal/cli"
	"github.com/optool/optool/internal/faulttest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"optool":       func() { os.Exit(cli.Main(os.Args[1:], cli.System())) },
		"torch-double": torchdouble.Main,
		"python3":      torchdouble.Main, // what documented commands run, which tests do not need
	})
}

// TestScripts runs testdata/script/*.txtar. They find the fixtures in $CAPTURES, operators
// of a project's own in $CUSTOM, whole steps in $STEPS, recordings without gradients in $METRIC,
// one of a program that puts its own functions in the place of torch's in $REPLACED,
// and wrong devices, one fault each, in $FAULTY. The condition device says that this build has a
// device, faulty that there are wrong ones too. The command objectstore serves a directory to
// those that follow.
func TestScripts(t *testing.T) {
	captures, err := filepath.Abs("../../fixtures/captures")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := filepath.Abs("../../step/testdata")
	if err != nil {
		t.Fatal(err)
	}
	metric, err := filepath.Abs("../../step/metric/testdata")
	if err != nil {
		t.Fatal(err)
	}
	faulty, err := faulttest.Build()
	if err != nil && !errors.Is(err, exec.ErrNotFound) {
		t.Fatal(err)
	}
	custom, err := filepath.Abs("../../fixtures/custom-ops")
	if err != nil {
		t.Fatal(err)
	}
	replaced, err := filepath.Abs("../../internal/cli/testdata/replaced")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := filepath.Abs("../../pthformat/testdata/objects")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"objectstore": objectStore},
		Setup: func(e *testscript.Env) error {
			e.Setenv("CAPTURES", captures)
			e.Setenv("CUSTOM", custom)
			e.Setenv("STEPS", steps)
			e.Setenv("METRIC", metric)
			e.Setenv("OBJECTS", objects)
			e.Setenv("FAULTY", faulty)
			e.Setenv("REPLACED", replaced)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "device":
				return hasDevice(t.Context()), nil
			case "faulty":
				return hasDevice(t.Context()) && faulty != "", nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// hasDevice reports whether optool was built with a device.
func hasDevice(ctx context.Context) bool {
	d, err := devicebridge.Open(ctx, devicebridge.Config{Library: devicebridge.Host})
	return err == nil && d.Close() == nil
}

// objectStore is the command "objectstore DIR": a store with the files of DIR in the bucket "run", under
// "a step/".
func objectStore(ts *testscript.TestScript, _ bool, args []string) {
	server, err := serveObjects(ts.MkAbs(args[0]), "run", "a step")
	ts.Check(err)
	ts.Defer(server.Close)
	ts.Setenv("AWS_ENDPOINT_URL", server.URL)
	ts.Setenv("AWS_ACCESS_KEY_ID", "someone")
	ts.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
}

// serveObjects serves the files of a directory as objects of a bucket, by their paths below a
// prefix.
func serveObjects(root, bucket, prefix string) (*httptest.Server, error) {
	backend := s3mem.New()
	if err := backend.CreateBucket(bucket); err != nil {
		return nil, err
	}
	written := map[string]string{"Last-Modified": "Mon, 23 Nov 2026 10:00:00 GMT"}
	dir := os.DirFS(root)
	err := fs.WalkDir(dir, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(dir, path)
		if err == nil {
			_, err = backend.PutObject(bucket, prefix+"/"+path, written, bytes.NewReader(b), int64(len(b)), nil)
		}
		return err
	})
	return httptest.NewServer(gofakes3.New(backend).Server()), err
}
