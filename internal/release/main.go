// Release makes the archives of a release: for each platform the binary, completions,
// man pages and documents, with checksums and a bill of materials. What it makes follows
// from the commit and the version of Go alone: made twice, it is the same bytes.
//
//	go run ./internal/release -version v1.2.3 -out dist
package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A platform is what a binary runs on.
type platform struct{ os, arch string }

var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// A file is a file of an archive.
type file struct {
	name    string
	mode    int64
	content []byte
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	version := flag.String("version", "", "the `VERSION` of the release, v1.2.3; that of the commit if empty")
	out := flag.String("out", "dist", "write the archives to `DIR`")
	only := flag.String("only", "", "make that of one platform alone: `OS/ARCH`")
	flag.Parse()
	if err := release(*version, *out, *only); err != nil {
		log.Fatal(err)
	}
}

func release(version, out, only string) error {
	given := version
	if version == "" {
		b, err := exec.Command("git", "describe", "--tags", "--always").Output()
		if err != nil {
			return fmt.Errorf("git describe: %w", err)
		}
		version = strings.TrimSpace(string(b))
	}
	at, err := commitTime()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "optool-release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	here := platform{runtime.GOOS, runtime.GOARCH}
	host := filepath.Join(work, here.os+"-"+here.arch)
	if err := build(host, here, given, work); err != nil {
		return err
	}
	shared, err := documents(host)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, p := range platforms {
		if only != "" && only != p.os+"/"+p.arch {
			continue
		}
		binary := filepath.Join(work, p.os+"-"+p.arch)
		if p != here {
			if err := build(binary, p, given, work); err != nil {
				return err
			}
		}
		content, err := os.ReadFile(binary)
		if err != nil {
			return err
		}
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return err
		}
		bill, err := billOfMaterials(info, version, at)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("optool-%s-%s-%s", version, p.os, p.arch)
		files := append([]file{{"optool", 0o755, content}, {"sbom.cdx.json", 0o644, bill}}, shared...)
		archive, err := pack(name, files, at)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, name+".tar.gz"), archive, 0o666); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s.tar.gz\n", sha256.Sum256(archive), name)
		fmt.Printf("%s.tar.gz  %d bytes\n", name, len(archive))
	}
	if sums.Len() == 0 {
		return fmt.Errorf("-only %s: no such platform", only)
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(sums.String()), 0o666)
}

// commitTime is the time of the commit, or SOURCE_DATE_EPOCH
// (https://reproducible-builds.org/docs/source-date-epoch/).
func commitTime() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		b, err := exec.Command("git", "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("git log: %w", err)
		}
		text = strings.TrimSpace(string(b))
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: want seconds, got %q", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// build makes a static binary. What make built for devices is of this machine's platform:
// for another it is left out, and optool device --build-worker makes it there. Without a version
// that of the commit is what the binary says.
func build(path string, p platform, version, work string) error {
	overlay := filepath.Join(work, "overlay.json")
	if err := os.WriteFile(overlay, leftOut(p), 0o666); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true",
		"-ldflags=-s -w -buildid= -X github.com/optool/optool/internal/cli.release="+version, "-overlay", overlay,
		"-o", path, "./cmd/optool")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+p.os, "GOARCH="+p.arch)
	if p.arch != "amd64" {
		cmd.Env = append(cmd.Env, "GOEXPERIMENT=") // the vector loops are for amd64 alone
	}
	if b, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build for %s/%s: %w\n%s", p.os, p.arch, err, b)
	}
	return nil
}

// leftOut tells go build which files are not there, by their absolute paths.
func leftOut(p platform) []byte {
	replace := map[string]string{}
	if p.os != runtime.GOOS || p.arch != runtime.GOARCH {
		for _, name := range []string{"worker", "libdiopi_host.so"} {
			if path, err := filepath.Abs("devicebridge/native/dist/" + name); err == nil {
				replace[path] = ""
			}
		}
	}
	b, _ := json.Marshal(map[string]any{"Replace": replace}) // texts alone
	return b
}

// documents are the files that are the same on every platform: what is to be read, and
// what the binary says of itself.
func documents(binary string) ([]file, error) {
	var files []file
	for _, name := range []string{"README.md", "README_zh.md", "CHANGELOG.md", "LICENSE"} {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, 0o644, b})
	}
	for shell, name := range map[string]string{"bash": "optool.bash", "zsh": "_optool", "fish": "optool.fish"} {
		b, err := exec.Command(binary, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("optool completion %s: %w", shell, err)
		}
		files = append(files, file{"completions/" + name, 0o644, b})
	}
	pages, err := manPages(binary)
	if err != nil {
		return nil, err
	}
	files = append(files, pages...)
	err = filepath.WalkDir("fixtures/demo", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files = append(files, file{filepath.ToSlash(strings.TrimPrefix(path, "fixtures/")), 0o644, b})
		return err
	})
	return files, err
}

// manPages are what the command man writes.
func manPages(binary string) ([]file, error) {
	dir, err := os.MkdirTemp("", "optool-man-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if b, err := exec.Command(binary, "man", dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("optool man: %w\n%s", err, b)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []file
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, file{"man/man1/" + e.Name(), 0o644, b})
	}
	return files, nil
}

// pack makes an archive of a folder with the files in order of their names, all of one
// time and nobody's.
func pack(folder string, files []file, at time.Time) ([]byte, error) {
	files = slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.name, b.name) })
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{Name: folder + "/" + f.name, Mode: f.mode, Size: int64(len(f.content)),
			ModTime: at, Format: tar.FormatPAX})
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(w, bytes.NewReader(f.content)); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
