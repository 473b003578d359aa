package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/optool/optool/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"optool": func() { os.Exit(cli.Main(os.Args[1:], cli.System())) },
	})
}

// TestScripts runs testdata/script/*.txtar. They find the fixtures in
// $CAPTURES.
func TestScripts(t *testing.T) {
	captures, err := filepath.Abs("../../fixtures/captures")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("CAPTURES", captures)
			return nil
		},
	})
}
