package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Settings are what decides the results of a run, and who began it.
type Settings struct {
	Command     string            `json:"command"` // "replay"
	Version     string            `json:"version"`
	Paths       []string          `json:"paths"`
	Flags       map[string]string `json:"flags,omitempty"`       // by name: "--dtype"
	Environment map[string]string `json:"environment,omitempty"` // variables that decide
	Files       map[string]string `json:"files,omitempty"`       // digests of files that flags name, by the flag
	Shard       string            `json:"shard,omitempty"`       // "3/8" of a part
	Plan        string            `json:"plan,omitempty"`        // digest of what the parts were made of

	// Ended says that the run, or this part of it, has come to its end.
	Ended bool      `json:"ended"`
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Start time.Time `json:"start"`
}

// Unlike says what differs between what a run was begun with and what it is to go on with;
// "" if nothing does. Who began it does not matter.
func (s *Settings) Unlike(now *Settings) string {
	for _, d := range []struct{ what, was, is string }{
		{"command", s.Command, now.Command},
		{"optool", s.Version, now.Version},
		{"PATH", strings.Join(s.Paths, " "), strings.Join(now.Paths, " ")},
		{"--shard", s.Shard, now.Shard},
	} {
		if d.was != d.is {
			return differ(d.what, d.was, d.is)
		}
	}
	for _, m := range []struct {
		was, is map[string]string
		text    func(name, value string) string
	}{
		{s.Flags, now.Flags, nil},
		{s.Environment, now.Environment, nil},
		{s.Files, now.Files, func(name, digest string) string { return "digest " + digest[:min(12, len(digest))] }},
	} {
		all := slices.Concat(slices.Collect(maps.Keys(m.was)), slices.Collect(maps.Keys(m.is)))
		slices.Sort(all)
		for _, name := range all {
			was, is := m.was[name], m.is[name]
			_, had := m.was[name]
			_, has := m.is[name]
			switch {
			case had == has && was == is:
				continue
			case m.text != nil:
				return differ("the file of "+name, m.text(name, was), m.text(name, is))
			case !had:
				return fmt.Sprintf("it was begun without %s, now it is %q", name, is)
			case !has:
				return fmt.Sprintf("it was begun with %s %q, now there is none", name, was)
			}
			return differ(name, was, is)
		}
	}
	if s.Plan != now.Plan && s.Plan != "" && now.Plan != "" {
		return "the captures are not those of which its parts were made"
	}
	return ""
}

func differ(what, was, is string) string {
	return fmt.Sprintf("it was begun with %s %q, now it is %q", what, was, is)
}

func (s *Settings) write(path string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(path, append(text, '\n'))
}

func readSettings(path string) (*Settings, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &Settings{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Digest is the SHA-256 of a file, or of the names and contents of all files below a
// directory.
func Digest(path string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(path, p)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q\n", rel)
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(h, f)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
