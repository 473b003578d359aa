package cluster

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata")

func job() *Job {
	return &Job{Name: "optool-replay", Program: "/opt/optool", Command: []string{"replay", "--acc_check",
		"--where=dtype == \"float16\"", "/data/tree"}, Run: "/data/checked 100%", Parts: 8, CPUs: 4, Memory: 8 << 30,
		Report:  []string{"--html=/data/checked 100%/run.html"},
		Time:    90 * time.Minute,
		Retries: 3, About: []string{"optool-replay of 8 calls, 3 GiB, in 8 parts."}}
}

// golden compares a text with a file of testdata; go test -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("not as %s says (go test -update writes it):\n%s", path, got)
	}
}

func shellQuote(s string) string {
	if strings.ContainsAny(s, " \"%=") {
		return "'" + s + "'"
	}
	return s
}

// The script is one of a shell, and what it says is checked line by line in testdata; make
// slurm-test runs one.
func TestSlurm(t *testing.T) {
	var b bytes.Buffer
	err := Slurm(&b, job(), SlurmOptions{Dir: "/data", Partition: "cpu", Further: []string{"--account=mine"},
		Quote: shellQuote})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "slurm.sh", b.String())
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	cmd := exec.Command(bash, "-n")
	cmd.Stdin = &b
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("bash -n: %v: %s", err, out)
	}
}

// The manifest is that of testdata, which testdata/strict decodes with the types of Kubernetes.
func TestKubernetes(t *testing.T) {
	var b bytes.Buffer
	j := job()
	j.Command = append(j.Command, "--op=$(HOME)", "no")
	err := Kubernetes(&b, j, KubernetesOptions{Image: "registry.example/optool:1", Parallel: 4,
		Claims: []Claim{{"captures", "/data"}, {"results", "/results"}}})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "kubernetes.yaml", b.String())
}

func TestParseClaim(t *testing.T) {
	for s, ok := range map[string]bool{"a:/data": true, "a:/data/": true, "a": false, ":/data": false,
		"a:data": false} {
		c, err := ParseClaim(s)
		if (err == nil) != ok || ok && (c != Claim{"a", "/data"}) {
			t.Errorf("%q: %v, error %v", s, c, err)
		}
	}
	c := Claim{"a", "/data"}
	for path, has := range map[string]bool{"/data": true, "/data/x": true, "/database": false, "/": false, "x": false} {
		if c.Has(path) != has {
			t.Errorf("%s on %s: %v, want %v", path, c.Path, !has, has)
		}
	}
}
