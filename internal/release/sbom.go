package main

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// billOfMaterials lists the modules that a binary was built of, as CycloneDX 1.5
// (https://cyclonedx.org/docs/1.5/json/), from what the binary itself records.
func billOfMaterials(info *debug.BuildInfo, version string, at time.Time) ([]byte, error) {
	type hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	type component struct {
		Type    string `json:"type"`
		Ref     string `json:"bom-ref,omitempty"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl,omitempty"`
		Hashes  []hash `json:"hashes,omitempty"`
	}
	components := []component{{Type: "library", Ref: "go", Name: "std", Version: info.GoVersion,
		PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		purl := "pkg:golang/" + m.Path + "@" + m.Version
		c := component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
		// A module's checksum is the SHA-256 of the list of its files' checksums:
		// https://go.dev/ref/mod#go-sum-files.
		if sum, ok := strings.CutPrefix(m.Sum, "h1:"); ok {
			b, err := base64.StdEncoding.DecodeString(sum)
			if err != nil {
				return nil, fmt.Errorf("%s: checksum %q: %w", m.Path, m.Sum, err)
			}
			c.Hashes = []hash{{"SHA-256", hex.EncodeToString(b)}}
		}
		components = append(components, c)
	}
	slices.SortFunc(components, func(a, b component) int { return cmp.Compare(a.Name, b.Name) })
	b, err := json.MarshalIndent(struct {
		Format   string `json:"bomFormat"`
		Spec     string `json:"specVersion"`
		Version  int    `json:"version"`
		Metadata struct {
			Time      string    `json:"timestamp"`
			Component component `json:"component"`
		} `json:"metadata"`
		Components []component `json:"components"`
	}{"CycloneDX", "1.5", 1, struct {
		Time      string    `json:"timestamp"`
		Component component `json:"component"`
	}{at.Format(time.RFC3339), component{Type: "application", Ref: "optool", Name: info.Main.Path, Version: version}},
		components}, "", "  ")
	return append(b, '\n'), err
}
