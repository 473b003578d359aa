package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"
)

// KubernetesOptions are what only Kubernetes wants.
type KubernetesOptions struct {
	Image string // with optool as its entry point
	// Claims are volumes, by the path where all pods have them.
	Claims []Claim
	// Parallel is how many parts run at once; 0 for all.
	Parallel int
}

// A Claim is a PersistentVolumeClaim and where it is mounted.
type Claim struct{ Name, Path string }

// ParseClaim reads NAME:PATH.
func ParseClaim(s string) (Claim, error) {
	name, path, ok := strings.Cut(s, ":")
	if !ok || name == "" || !strings.HasPrefix(path, "/") {
		return Claim{}, fmt.Errorf("want NAME:PATH with an absolute PATH, got %q", s)
	}
	return Claim{name, strings.TrimRight(path, "/")}, nil
}

// Has reports whether a path lies on the claim's volume.
func (c Claim) Has(path string) bool { return path == c.Path || strings.HasPrefix(path, c.Path+"/") }

const kubernetes = `{{range .About}}# {{.}}
{{end -}}
#
# "kubectl apply -f THIS-FILE" starts the parts, and the report, which waits for them. A part that is
# stopped or killed goes on where it was, up to {{.Retries}} times; the exit code of the report's
# container is that of the run.
apiVersion: batch/v1
kind: Job
metadata:
  name: {{yaml .Name}}
spec:
  completionMode: Indexed
  completions: {{.Parts}}
  parallelism: {{.Parallel}}
  backoffLimitPerIndex: {{.Retries}}
  maxFailedIndexes: {{.Parts}}
  activeDeadlineSeconds: {{.Deadline}}
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 60
      containers:
        - name: optool
          image: {{yaml .Image}}
          args:
{{- range .Part}}
            - {{arg .}}{{end}}
          resources:
            requests:
              cpu: {{yaml (printf "%d" .CPUs)}}
              memory: {{.MiB}}Mi
            limits:
              memory: {{.MiB}}Mi
{{- template "mounts" .}}
{{- template "volumes" .}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{yaml (printf "%s-report" .Name)}}
spec:
  backoffLimit: {{.Retries}}
  podFailurePolicy: # what the run found is no failure of the pod that is worth another
    rules:
      - action: FailJob
        onExitCodes:
          containerName: optool
          operator: In
          values: [1, 2, 3, 130]
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: optool
          image: {{yaml .Image}}
          args:
{{- range .Merge}}
            - {{arg .}}{{end}}
          resources:
            requests:
              cpu: "1"
              memory: {{.MiB}}Mi
            limits:
              memory: {{.MiB}}Mi
{{- template "mounts" .}}
{{- template "volumes" .}}
{{- define "mounts"}}
          volumeMounts:
{{- range $i, $c := .Claims}}
            - name: volume-{{$i}}
              mountPath: {{yaml $c.Path}}{{end}}
{{- end}}
{{- define "volumes"}}
      volumes:
{{- range $i, $c := .Claims}}
        - name: volume-{{$i}}
          persistentVolumeClaim:
            claimName: {{yaml $c.Name}}{{end}}
{{- end}}
`

// Kubernetes writes an Indexed Job, whose index says which part a pod takes, and the job of
// the report. Retries are counted for each part, which Kubernetes does from 1.29 on.
func Kubernetes(w io.Writer, j *Job, o KubernetesOptions) error {
	if o.Parallel == 0 {
		o.Parallel = j.Parts
	}
	rounds := time.Duration((j.Parts + o.Parallel - 1) / o.Parallel)
	deadline := rounds * j.Time * time.Duration(j.Retries+1)
	part := append(append([]string{}, j.Command...), "--run", j.Run, "--shard", fmt.Sprintf("auto/%d", j.Parts),
		"--resume", "--exit-zero", "--jobs", fmt.Sprint(j.CPUs), "--memory", fmt.Sprint(j.OptoolMemory()))
	merge := append(append([]string{"report", "--wait", deadline.String()}, j.Report...), j.Run)
	text := template.New("").Funcs(template.FuncMap{"yaml": yamlString, "arg": argument})
	return template.Must(text.Parse(kubernetes)).Execute(w, struct {
		*Job
		KubernetesOptions
		MiB         int64
		Deadline    int
		Part, Merge []string
	}{j, o, j.Memory >> 20, int(deadline.Seconds()), part, merge})
}

// yamlString quotes a text where YAML would take it for something else. A text of JSON is
// one of YAML.
func yamlString(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") == "" &&
		strings.ContainsAny(s[:1], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/") &&
		!strings.Contains(" y n yes no on off true false null ", " "+strings.ToLower(s)+" ") {
		return s
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string is written into memory
	return strings.TrimSpace(b.String())
}

// argument quotes an argument of a container, in which $(NAME) stands for a variable.
func argument(s string) string { return yamlString(strings.ReplaceAll(s, "$(", "$$(")) }
